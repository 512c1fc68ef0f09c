"""Rewards for programs: the share of tests that a program in an answer passes, run in the sandbox."""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from gaitway_files.errors import UserError

from .answers import tagged
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
    batch: float = 300.0,
    **columns: Any,
) -> list[float]:
    """The share of the row's ``tests`` that the program in each completion passes, 0 without a program.

    ``cpu`` [s] and ``memory`` [bytes] limit one program, or one test of what it prints; one that sleeps is ended and
    passes no further test. All programs together take at most ``batch`` [s], of which each has an equal share, and what
    the ones before it left of theirs: endless ones cannot take the time of others. Statements run beside the program in
    its interpreter, so one that is written to deceive them can; of what it reads and prints it cannot.
    """
    limits = Limits(cpu=cpu, wall=3.0 * cpu, memory=memory)
    programs = [find_program(completion) for completion in completions]
    workers = len(os.sched_getaffinity(0))
    budget = _Budget(batch, sum(program is not None for program in programs), workers)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda program, of: _share_passed(program, of, limits, budget), programs, tests))


def find_program(completion: str) -> str | None:
    """The last fenced block of Python in an answer, or else what its last answer tags hold; None without either."""
    fenced = _FENCED.findall(completion)
    found = fenced[-1] if fenced else tagged(completion)
    return found if found.strip() and len(found) <= MAX_PROGRAM_CHARS else None


class _Budget:
    """Time of a batch, shared out to its programs as they begin."""

    def __init__(self, seconds: float, programs: int, workers: int):
        self._end, self._waiting, self._workers = time.monotonic() + seconds, programs, workers
        self._lock = threading.Lock()

    def begin(self) -> float:
        """Deadline of the program that begins now, by the monotonic clock."""
        with self._lock:
            now = time.monotonic()
            share = (self._end - now) * min(1.0, self._workers / self._waiting)
            self._waiting -= 1
            return now + share


def _share_passed(program: str | None, tests: Sequence[Test], limits: Limits, budget: _Budget) -> float:
    if not tests:
        raise UserError("a row has no tests: a program can only be judged by some")
    if program is None:
        return 0.0
    end = budget.begin()
    passed = 0
    statements = [test for test in tests if isinstance(test, str)]
    for test in ([statements] if statements else []) + [test for test in tests if not isinstance(test, str)]:
        left = end - time.monotonic()
        if left <= 0.0:
            break
        now, asleep = _passed(program, test, replace(limits, wall=min(limits.wall, left)))
        passed += now
        if asleep:
            break
    return passed / len(tests)


def _passed(program: str, test: Sequence[str] | Mapping[str, str], limits: Limits) -> tuple[int, bool]:
    """Number of statements that hold, or 1 if the printed output is right; and True if the program fell asleep."""
    if isinstance(test, Mapping):
        outcome = run_python(program, stdin=test["input"], limits=limits)
        right = outcome.ended == "finished" and _lines(outcome.stdout) == _lines(test["output"])
        return int(right), outcome.ended == "asleep"
    key = secrets.token_hex(16)
    outcome = run_python(_DRIVER.format(program=program), stdin=json.dumps([key, test]), limits=limits)
    said = set(outcome.stdout.splitlines())
    return sum(f"{key} {number}" in said for number in range(len(test))), outcome.ended == "asleep"


def _lines(text: str) -> list[str]:
    """Lines without the spaces at their ends, nor empty ones at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]
