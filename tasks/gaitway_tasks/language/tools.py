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
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gaitway_files.errors import NotDone, UserError
from gaitway_files.reading import SENTENCE, printable

from .arguments import arguments_for, schema_of
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


class ToolWarning(UserWarning):
    """A tool that raised something else than an error about its input."""


@dataclass(frozen=True)
class Tool:
    """A function that a model may call: its parameters are typed, and it returns text.

    Arguments are converted to the annotations (``str``, ``int``, ``float``, ``bool``, ``list``, ``dict``, ``Literal``,
    ``None`` and unions of them). It raises ``ValueError`` or ``ArithmeticError`` for input it cannot use, which the
    model reads.
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
        parameters = schema_of(self.function)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.about, "parameters": parameters},
        }

    def call(self, given: Any) -> str:
        """The result for arguments by name, or for one bare value; "error: ..." if it has none.

        Nothing that a model writes raises: an exception of the function is a reply too. One that does not tell of bad
        input is also a :class:`ToolWarning`, as the tool may be broken.
        """
        try:
            args, kwargs = arguments_for(self.function, given)
            result = str(self.function(*args, **kwargs))
        except ZeroDivisionError:
            result = "error: division by zero"
        except (ValueError, ArithmeticError) as error:
            result = f"error: {error}"
        except NotDone:
            raise
        except Exception as error:
            result = f"error: {type(error).__name__}: {error}"
            warnings.warn(
                f"tool {self.name!r} raised {printable(f'{type(error).__name__}: {error}', SENTENCE)}; the model reads "
                "that, and training goes on: input that it cannot use should be a ValueError",
                ToolWarning,
                stacklevel=2,
            )
        result = result.encode("utf-8", "replace").decode()  # of half an emoji, which JSON's escapes can write
        return result if len(result) <= MAX_RESULT_CHARS else f"{result[:MAX_RESULT_CHARS]}..."


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
    problem = {"time": "out of time", "asleep": "it sleeps", "output": "too much output"}.get(outcome.ended)
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


def _named(call: tuple[str | None, str]) -> tuple[str, Any]:
    """Name and input of a call, those of a JSON one read from it; no name if they cannot be."""
    name, text = call
    if name is not None:
        return name, text
    try:
        found: Any = json.loads(text)
        return str(found["name"]), _unpacked(found["arguments"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", text


def _unpacked(given: Any) -> Any:
    """Arguments that a model wrote as JSON within JSON."""
    if not (isinstance(given, str) and given.lstrip().startswith("{")):
        return given
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return found if isinstance(found, dict) else given


def _call(name: str, given: Any, tools: Sequence[Tool]) -> str:
    for tool in tools:
        if tool.name == name:
            return tool.call(given)
    known = ", ".join(tool.name for tool in tools)
    return (
        f"error: no tool {name[:60]!r}, there are {known}" if name else "error: a call needs a name and its arguments"
    )


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
