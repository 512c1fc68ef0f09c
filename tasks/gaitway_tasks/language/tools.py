"""Tools that a model may call in the middle of an answer.

An answer that ends with ``<tool>name: input</tool>``, or with the calls of Qwen's and Hermes' chat templates
(``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, one or several), gets the result as a reply.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import time
from collections.abc import Callable, Iterator, Sequence
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


def call_tools(names: Sequence[str]) -> Callable[[str], str | None]:
    """A function from an answer to what the tools of these names reply, None if it calls none.

    A call that fails is answered with "error: ..." for the model to read. Raises ``ValueError`` for an unknown name.
    """
    for name in names:
        if name not in TOOLS:
            raise UserError(f"unknown tool {name!r}: use some of {', '.join(TOOLS)}")

    def reply(answer: str) -> str | None:
        if not answer.rstrip().endswith((END_TOOL, END_CALL)):
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
            results.append(_call(*_named(call), names))
        return "\n".join(results) or None

    return reply


def tool_prompt(names: Sequence[str]) -> str:
    """How to use the tools, in words for a system prompt."""
    known = "\n".join(f"- {name}: {TOOLS[name][1]}" for name in names)
    return f"You can use tools. To call one, end your message with {TOOL}name: input{END_TOOL}\n{known}"


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


TOOLS: dict[str, tuple[Callable[[str], str], str]] = {
    "calculator": (calculator, "the value of an arithmetic expression, such as (3 + 4) * 12"),
    "python": (python, "what a Python program prints"),
}
"""Tools by name: a function from its input to its result, and what it does."""


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


def _named(call: tuple[str | None, str]) -> tuple[str, str]:
    """Name and input of a call, those of a JSON one read from it; no name if they cannot be."""
    name, text = call
    if name is not None:
        return name, text
    try:
        found: Any = json.loads(text)
        given = found["arguments"]
        given = json.loads(given) if isinstance(given, str) and given.lstrip().startswith("{") else given
        (value,) = given.values() if isinstance(given, dict) else [given]
        return str(found["name"]), str(value)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", text


def _call(name: str, given: str, names: Sequence[str]) -> str:
    if name not in names:
        known = ", ".join(names)
        return f"error: no tool {name!r}, there are {known}" if name else "error: a call needs a name and one argument"
    try:
        result = TOOLS[name][0](given)
    except ZeroDivisionError:
        result = "error: division by zero"
    except (ValueError, ArithmeticError) as error:
        result = f"error: {error}"
    return result if len(result) <= MAX_RESULT_CHARS else f"{result[:MAX_RESULT_CHARS]}..."


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
