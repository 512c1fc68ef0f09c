"""Rewards for programs: the share of tests that a program in an answer passes, run in the sandbox."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .answers import ANSWER, END_ANSWER
from .sandbox import Limits, run_python

Test = str | Mapping[str, str]
"""Python statements that raise if the program is wrong, such as ``assert add(1, 2) == 3``; or ``input``, what a program
reads, and ``output``, what it must print for it."""

MAX_PROGRAM_CHARS = 50_000

_FENCED = re.compile(r"```(?:python3?|py)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)

# The tests are read only after the program has run, and a verdict counts only with the key that comes with them: a
# program that prints or exits cannot pass. One that searches the interpreter's memory for the key could.
_DRIVER = """
import json, os
def judge(read=os.read, write=os.write, loads=json.loads, run=exec, build=compile):
    space = {{"__name__": "answer"}}
    run(build({program!r}, "answer.py", "exec"), space)
    said = b""
    while piece := read(0, 65536):
        said += piece
    key, tests = loads(said)
    for number, test in enumerate(tests):
        try:
            run(build(test, "test.py", "exec"), dict(space))
        except BaseException:
            continue
        write(1, f"\\n{{key}} {{number}}\\n".encode())
judge()
"""


def code(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    tests: Sequence[Sequence[Test]],
    cpu: float = 5.0,
    memory: int = 1 << 29,
    **columns: Any,
) -> list[float]:
    """The share of the row's ``tests`` that the program in each completion passes, 0 without a program.

    ``cpu`` [s] and ``memory`` [bytes] limit one program, or one test of what it prints. Statements run beside the
    program in its interpreter, so one that is written to deceive them can; of what it reads and prints it cannot.
    """
    limits = Limits(cpu=cpu, wall=3.0 * cpu, memory=memory)
    programs = [find_program(completion) for completion in completions]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(lambda program, of: _share_passed(program, of, limits), programs, tests))


def find_program(completion: str) -> str | None:
    """The last fenced block of Python in an answer, or else what its last answer tags hold; None without either."""
    fenced = _FENCED.findall(completion)
    if fenced:
        found = fenced[-1]
    else:
        end = completion.rfind(END_ANSWER)
        start = completion.rfind(ANSWER, 0, max(end, 0))
        found = completion[start + len(ANSWER) : end] if 0 <= start < end else ""
    return found if found.strip() and len(found) <= MAX_PROGRAM_CHARS else None


def _share_passed(program: str | None, tests: Sequence[Test], limits: Limits) -> float:
    if not tests:
        raise ValueError("a row has no tests: a program can only be judged by some")
    if program is None:
        return 0.0
    statements = [test for test in tests if isinstance(test, str)]
    passed = _statements_passed(program, statements, limits) if statements else 0
    passed += sum(_prints(program, test, limits) for test in tests if not isinstance(test, str))
    return passed / len(tests)


def _statements_passed(program: str, tests: Sequence[str], limits: Limits) -> int:
    key = secrets.token_hex(16)
    outcome = run_python(_DRIVER.format(program=program), stdin=json.dumps([key, tests]), limits=limits)
    said = set(outcome.stdout.splitlines())
    return sum(f"{key} {number}" in said for number in range(len(tests)))


def _prints(program: str, test: Mapping[str, str], limits: Limits) -> bool:
    outcome = run_python(program, stdin=test["input"], limits=limits)
    return outcome.ended == "finished" and _lines(outcome.stdout) == _lines(test["output"])


def _lines(text: str) -> list[str]:
    """Lines without the spaces at their ends, nor empty ones at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]
