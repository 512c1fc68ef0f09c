"""Tools that a model may call in the middle of an answer.

An answer that ends with ``<tool>name: input</tool>``, or with calls as the chat templates of models prescribe them, one
or several, gets the result as a reply. Between ``<tool_call>`` and ``</tool_call>`` these are JSON with a name and
``arguments`` or ``parameters`` (Qwen, Hermes), ``<function=name><parameter=...>`` (Qwen 3.5 and later, Nemotron 3) or a
name and ``<arg_key>`` (GLM); Llama's stand alone as JSON.
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

from .answers import END_THINK
from .arguments import arguments_for, schema_of
from .sandbox import Limits, run_python

TOOL, END_TOOL = "<tool>", "</tool>"
END_CALL = "</tool_call>"
PYTHON_TAG = "<|python_tag|>"
"""Token with which Llama may begin a call."""
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
    results: list[str] = []
    begin = time.monotonic()
    for number, call in enumerate(read_calls(answer) if tools else ()):
        if number == MAX_CALLS:
            results.append(f"error: only the first {MAX_CALLS} calls of an answer are made")
            break
        if time.monotonic() - begin > MAX_SECONDS:
            results.append(f"error: the calls of an answer may take {MAX_SECONDS:g} s")
            break
        results.append(_call(call, tools))
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


@dataclass(frozen=True)
class Call:
    """A tool's name, empty where none can be read, and its input."""

    name: str
    given: Any


def read_calls(answer: str) -> Iterator[Call]:
    """Calls at the end of an answer, in order."""
    if answer.rstrip().endswith((END_TOOL, END_CALL)):
        yield from map(_named, find_calls(answer))
    else:
        yield from _bare_calls(answer.rpartition(END_THINK)[2].strip().removeprefix(PYTHON_TAG).strip())


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


def _named(call: tuple[str | None, str]) -> Call:
    """A call with its name and input; no name if they cannot be read."""
    name, text = call
    text = text if name else text.strip()
    if name is not None:
        return Call(name, text)
    if text.startswith("<function="):
        named, closed, body = text.removeprefix("<function=").partition(">")
        return Call(named.strip() if closed else "", _arguments(body, "<parameter=", ">", "</parameter>"))
    if re.match(r"[A-Za-z_]", text):
        named, key, body = text.partition("<arg_key>")
        given = _arguments(key + body, "<arg_key>", "</arg_key>", "</arg_value>")
        return Call(named.strip(), {name: text.partition("<arg_value>")[2] for name, text in given.items()})
    return _of_json(_json(text)) or Call("", text)


def _arguments(text: str, begin: str, between: str, end: str) -> dict[str, str]:
    """Arguments by name, each from ``begin`` its name to ``between`` its value to ``end``; looks at each part once."""
    given = {}
    for part in text.split(begin)[1:]:
        name, _, value = part.partition(between)
        value, closed, _ = value.partition(end)
        if closed:
            given[name.strip()] = value.removeprefix("\n").removesuffix("\n")
    return given


def _bare_calls(text: str) -> Iterator[Call]:
    """Calls of an answer that is JSON and nothing else; none if a part of it is anything else."""
    calls: list[Call] = []
    while text.startswith("{"):
        try:
            found, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return
        call = _of_json(found)
        if call is None:
            return
        calls.append(call)
        text = text[end:].lstrip("; \n") if len(calls) <= MAX_CALLS else ""
    yield from calls if not text else ()


def _of_json(found: Any) -> Call | None:
    if not isinstance(found, dict) or "name" not in found or not {"arguments", "parameters"} & found.keys():
        return None
    given = found["arguments"] if "arguments" in found else found["parameters"]
    within = _json(given) if isinstance(given, str) and given.lstrip().startswith("{") else given
    return Call(str(found["name"]), within if isinstance(within, dict) else given)


def _json(text: str) -> Any:
    """The value of a JSON text, or the text itself if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _call(call: Call, tools: Sequence[Tool]) -> str:
    for tool in tools:
        if tool.name == call.name:
            return tool.call(call.given)
    known = ", ".join(tool.name for tool in tools)
    return (
        f"error: no tool {call.name[:60]!r}, there are {known}"
        if call.name
        else "error: a call needs a name and its arguments"
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
