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
from dataclasses import dataclass, field, replace
from typing import Any

from gaitway_files.errors import UserError

from .answers import END_THINK, tagged
from .sandbox import Limits, run_python

Test = str | Mapping[str, str]
"""Python statements that raise if the program is wrong, such as ``assert add(1, 2) == 3``; or ``input``, what a program
reads, and ``output``, what it must print for it."""

MAX_PROGRAM_CHARS = 50_000

_MAX_CHARS_READ = 4 * MAX_PROGRAM_CHARS
_FENCE = re.compile(r"`{3,}|~{3,}")
_PYTHON = re.compile(r"\W*(?:i?python|py)[\d.]*(?![A-Za-z-])", re.IGNORECASE)
_STATEMENT = re.compile(
    r"^[ \t]*(?:(?:def|class|import|from|for|while|if|with|try|return|async|@\w+)\b|[A-Za-z_][\w.]*\(|"
    r"[A-Za-z_][\w.,\[\] ]*[-+*/]?=[^=])",
    re.MULTILINE,
)

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
    """The program that an answer gives after its thoughts, or else within them; None without one.

    It is the last fenced block of Python, without one the last of no language that has a statement, or else what the
    last answer tags hold.
    """
    for text in dict.fromkeys((completion.rpartition(END_THINK)[2], completion)):
        blocks = [(language, block) for language, block in fenced(text) if block.strip()]
        python = [block for language, block in blocks if _PYTHON.match(language)]
        untold = [block for language, block in blocks if not language]
        stated = [block for block in untold if _STATEMENT.search(block)]
        found = (python or stated or untold or [tagged(text)])[-1]
        if found.strip():
            return found if len(found) <= MAX_PROGRAM_CHARS else None
    return None


def fenced(text: str) -> list[tuple[str, str]]:
    """Language and content of the fenced blocks in the last 200,000 characters of a text, as CommonMark has them.

    Unlike there, text may stand before the first fence and after the last, a fence that names Python begins a block
    even in one that was not closed, and a fence at the end of a line of code closes where no other does.
    """
    blocks: list[tuple[str, str]] = []
    block: _Block | None = None
    for line in text[-_MAX_CHARS_READ:].splitlines(keepends=True):
        rest = line
        if block is not None:
            fence = _FENCE.match(line, _indentation(line))
            outer = fence is None or _indentation(line) > block.indentation + 3
            if fence is None or outer or not (block.closes(fence, line) or _PYTHON.match(line, fence.end())):
                block.lines.append(line)
                continue
            if block.closes(fence, line):
                blocks.append((block.language, block.content()))
                rest = line[fence.end() :]
            block = None
        block = _opened(rest)
    if block is not None:
        code, fence_found, _ = block.content().partition(block.fence)
        blocks += [(block.language, code)] if fence_found else []
    return blocks


@dataclass
class _Block:
    """A block that a fence has begun."""

    fence: str
    language: str
    indentation: int
    lines: list[str] = field(default_factory=list)

    def closes(self, fence: re.Match[str], line: str) -> bool:
        """True for a fence at the start of a line that ends the block: as long as its own, and no language after it."""
        return fence.group().startswith(self.fence) and not line[fence.end() : fence.end() + 1].isalpha()

    def content(self) -> str:
        """Lines of the block without the indentation of its fence."""
        return "".join(line[min(self.indentation, _indentation(line)) :] for line in self.lines)


def _opened(line: str) -> _Block | None:
    """The block that begins at the end of a line; fences in pairs are code within the line."""
    fences = list(_FENCE.finditer(line)) if "```" in line or "~~~" in line else []
    if len(fences) % 2 == 0:
        return None
    fence = fences[-1]
    return _Block(fence.group(), line[fence.end() :].strip(), _indentation(line) if fence is fences[0] else 0)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


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
