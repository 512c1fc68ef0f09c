"""Tools that a model may call in the middle of an answer.

An answer that ends with ``<tool>name: input</tool>``, or with the calls of Qwen's and Hermes' chat templates
(``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, one or several), gets the result as a reply.
"""

from __future__ import annotations

import ast
import inspect
import json
import operator
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gaitway_files.errors import UserError

from .sandbox import Limits, run_python

TOOL, END_TOOL = "<tool>", "</tool>"
END_CALL = "</tool_call>"
MAX_CALLS = 16
"""Calls of one answer that are made."""
MAX_SECONDS = 15.0
"""Time after which no further call of an answer is made [s]; a program may take seconds."""
MAX_RESULT_CHARS = 1000

_MAX_EXPRESSION = 200
_MAX_BITS = 1024
_START = re.compile(r"<tool>\s*(\w+)\s*:|<tool_call>")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})

_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Tool:
    """A function that a model may call: its parameters are typed, and it returns text.

    It raises ``ValueError`` or ``ArithmeticError`` for input it cannot use, which the model reads.
    """

    function: Callable[..., str]
    about: str = ""
    """Description of the tool for the model; "" is the first line of its docstring."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "about", self.about or (inspect.getdoc(self.function) or "").partition("\n")[0])
        if not self.about:
            raise UserError(f"tool {self.name!r} does not say what it does: give its function a docstring")

    @property
    def name(self) -> str:
        """Name of the function, by which the model calls it."""
        return self.function.__name__

    @property
    def schema(self) -> dict[str, Any]:
        """The function as chat templates take it, in JSON schema."""
        parameters = inspect.signature(self.function, eval_str=True).parameters
        kinds = {name: {"type": _JSON.get(parameter.annotation, "string")} for name, parameter in parameters.items()}
        needed = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
        described = {"type": "object", "properties": kinds, "required": needed}
        return {"type": "function", "function": {"name": self.name, "description": self.about, "parameters": described}}

    def call(self, given: str | dict[str, Any]) -> str:
        """The result for one text, or for arguments by name; "error: ..." if it has none."""
        signature = inspect.signature(self.function)
        if isinstance(given, dict) and len(given) == len(signature.parameters) == 1:
            given = str(*given.values())  # whatever name the model gave it
        try:
            bound = signature.bind(given) if isinstance(given, str) else signature.bind(**given)
        except TypeError as error:
            return f"error: {error}"
        try:
            result = self.function(*bound.args, **bound.kwargs)
        except ZeroDivisionError:
            result = "error: division by zero"
        except (ValueError, ArithmeticError) as error:
            result = f"error: {error}"
        return result if len(result) <= MAX_RESULT_CHARS else f"{result[:MAX_RESULT_CHARS]}..."


_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def call_tools(tools: Sequence[Tool], answer: str) -> str | None:
    """Replies of the tools to the calls at the end of an answer; None if there are none."""
    if not tools or not answer.rstrip().endswith((END_TOOL, END_CALL)):
        return None
    results: list[str] = []
    begin = time.monotonic()
    for number, call in enumerate(find_calls(answer)):
        if number == MAX_CALLS:
            results.append(f"error: only the first {MAX_CALLS} calls of an answer are made")
            break
        if time.monotonic() - begin > MAX_SECONDS:
            results.append(f"error: the calls of an answer may take {MAX_SECONDS:g} s")
            break
        results.append(_call(*_named(call), tools))
    return "\n".join(results) or None


def tool_prompt(tools: Sequence[Tool]) -> str:
    """Instructions for the tools, in words for a system prompt."""
    ways, lines = [f"{TOOL}name: input{END_TOOL}"], []
    for tool in tools:
        taken = ", ".join(tool.schema["function"]["parameters"]["properties"])
        several = "," in taken
        lines.append(f"- {tool.name}({taken}): {tool.about}" if several else f"- {tool.name}: {tool.about}")
        if several and len(ways) == 1:
            ways.append(f'<tool_call>{{"name": name, "arguments": {{...}}}}{END_CALL}')
    return "\n".join([f"You can use tools. To call one, end your message with {' or '.join(ways)}", *lines])


def calculator(expression: str) -> str:
    """The value of an arithmetic expression of + - * / // % ** ^ and brackets, exact where it is a whole number.

    Raises ``ValueError`` or ``ArithmeticError`` for anything else, numbers beyond 1024 bits included.
    """
    text = _THOUSANDS.sub("", expression.strip().translate(_SIGNS)).replace("^", "**")
    if len(text) > _MAX_EXPRESSION:
        raise UserError(f"longer than {_MAX_EXPRESSION} characters")
    try:
        tree = ast.parse(text, mode="eval")
        value = _evaluate(tree.body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise UserError("not an arithmetic expression") from error
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"


def python(program: str) -> str:
    """Output of a Python program within 5 s of processor time, or the error it ends with."""
    fenced = re.fullmatch(r"\s*```(?:python|py)?[ \t]*\n(.*?)```\s*", program, re.DOTALL)
    outcome = run_python(fenced[1] if fenced else program.strip(), limits=Limits(cpu=5.0, wall=15.0))
    if outcome.ended == "finished":
        return outcome.stdout.strip() or "(nothing printed)"
    problem = {
        "time": "out of time", "asleep": "it sleeps", "output": "too much output", "threads": "too many threads",
    }.get(outcome.ended)  # fmt: skip
    lines = outcome.stderr.strip().splitlines()
    return f"{outcome.stdout}error: {problem or (lines[-1] if lines else 'the program failed')}"


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(calculator, "the value of an arithmetic expression, such as (3 + 4) * 12"),
        Tool(python, "what a Python program prints"),
    )
}
"""Built-in tools, by name."""


def find_calls(answer: str) -> Iterator[tuple[str | None, str]]:
    """Name and input of each complete call in an answer, in order; the name is None where the input is JSON with both.

    A call reaches to the first end after its start. Looks at each character a few times however the answer is made:
    an end that was once looked for in vain is not looked for again.
    """
    position, hopeless = 0, set()
    while start := _START.search(answer, position):
        end = END_CALL if start[1] is None else END_TOOL
        position = start.end()
        if end in hopeless:
            continue
        found = answer.find(end, position)
        if found < 0:
            hopeless.add(end)
            continue
        yield start[1], answer[position:found]
        position = found + len(end)


def _named(call: tuple[str | None, str]) -> tuple[str, str | dict[str, Any]]:
    """Name and input of a call, those of a JSON one read from it; no name if they cannot be."""
    name, text = call
    if name is not None:
        return name, text
    try:
        found: Any = json.loads(text)
        given = found["arguments"]
        given = json.loads(given) if isinstance(given, str) and given.lstrip().startswith("{") else given
        return str(found["name"]), given if isinstance(given, dict) else str(given)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", text


def _call(name: str, given: str | dict[str, Any], tools: Sequence[Tool]) -> str:
    for tool in tools:
        if tool.name == name:
            return tool.call(given)
    known = ", ".join(tool.name for tool in tools)
    return f"error: no tool {name!r}, there are {known}" if name else "error: a call needs a name and its arguments"


def _evaluate(node: ast.AST) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = Fraction(str(node.value))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inner = _evaluate(node.operand)
        value = -inner if isinstance(node.op, ast.USub) else inner
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        value = _power(_evaluate(node.left), _evaluate(node.right))
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        value = _BINARY[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    else:
        raise UserError("not an arithmetic expression")
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise UserError("too large a number")
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        root = float(base) ** float(exponent)
        if isinstance(root, complex):
            raise UserError("a root of a negative number")
        return Fraction(repr(root))
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(exponent.numerator)
    if bits > 2 * _MAX_BITS:
        raise UserError("too large a number")
    return base**exponent.numerator
