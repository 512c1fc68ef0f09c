"""Equality of two final answers: as texts, as numbers, or as mathematics by math-verify.

Only short answers with nothing monstrous in them reach math-verify, one at a time, in a process of its own that is
stopped when an answer takes too long: the limits of math-verify are signals, which neither work in threads nor end a
loop inside a C library.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

from gaitway_files.errors import NotDone

CPU_LIMIT = 2.0
"""Processor time for one comparison [s]; an answer that takes longer is wrong."""
WALL_LIMIT = 60.0
"""Waiting time for one comparison, or for the process to start, whatever else the machine does [s]."""
MEMORY_LIMIT = 2 << 30
"""Address space of the process that compares [bytes]."""

_NUMBER = re.compile(r"[-+]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:/\d{1,60})?%?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_UPRIGHT = re.compile(r"\\(?:text|textbf|mathrm)\{([^{}]*)\}")
_WORDS = re.compile(r"[^\d\\^_{}()\[\]+*/=<>|]*")
_IN_WORDS = re.compile(rf"(?:[^\W\d_]|[\s=:.,€£])*?({_NUMBER.pattern})(?:[^\W\d_]|[\s.,€£])*")
_UNFINISHED = re.compile(r"\d\s*(?:[-+*×·÷]|\\times(?!\s*10\b)|\\cdot(?!\s*10\b)|\\div|\s)\s*\d")
_MONSTROUS = re.compile(
    r"\d{61}"
    r"|\^\s*[{(]*\s*[-+]?\d{4}"  # an exponent of four digits
    r"|\d\s*\^\s*[{(]*\s*[-+]?\d+\s*[)}]*\s*\^"  # a power of a power of a number
    r"|\*\*"
    r"|!\s*!|\d{3}\s*\)*\s*!"
)
_MAX_DEPTH = 12


class VerifierError(NotDone):
    """The process that compares answers cannot work; the message says why."""


def equal(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """True for each pair (answer, gold) whose answer means the gold one.

    Where gold is a number, the answer must be one too, with words around it at most: what still has to be worked out,
    such as "7 + 5", is not 12. Anything that math-verify cannot read, or not within ``CPU_LIMIT``, is wrong.
    """
    return [_equal(plain(answer), plain(gold)) for answer, gold in pairs]


def plain(answer: str) -> str:
    """An answer without what never changes its meaning: spaces, dollars, a final stop, upright type, commas."""
    answer = _UPRIGHT.sub(r"\1", answer).strip().removesuffix(".").replace("{,}", ",")
    answer = answer.replace("\\$", "").replace("$", "")
    return " ".join(_THOUSANDS.sub("", answer).split())


def number(answer: str) -> Fraction | None:
    """The value of a plain number, fraction or percentage (50% is 1/2); None for anything else."""
    if not _NUMBER.fullmatch(answer):
        return None
    top, _, bottom = answer.removesuffix("%").partition("/")
    try:
        value = Fraction(Decimal(top)) / Fraction(bottom or 1)
    except (InvalidOperation, ZeroDivisionError):
        return None
    return value / 100 if answer.endswith("%") else value


def _equal(answer: str, gold: str) -> bool:
    if not answer or not gold:
        return False
    if answer.casefold() == gold.casefold():
        return True
    wanted = number(gold)
    if wanted is not None:
        alone = _IN_WORDS.fullmatch(answer)
        if alone:
            return _same_number(alone.group(1), gold)
        if _UNFINISHED.search(answer):
            return False
    if _WORDS.fullmatch(answer) or _WORDS.fullmatch(gold) or monstrous(answer):
        return False
    return _verify(answer, gold)


def _same_number(answer: str, gold: str) -> bool:
    first, second = number(answer), number(gold)
    if first is None or second is None:
        return False
    if answer.endswith("%") != gold.endswith("%"):  # 50 % is written both 50 and 0.5
        return first == second or number(answer.removesuffix("%")) == number(gold.removesuffix("%"))
    return first == second


def monstrous(answer: str) -> bool:
    """True if an answer is too costly to compare: deep nesting, towers of exponents, huge factorials."""
    depth = deepest = 0
    for char in answer:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        deepest = max(deepest, depth)
    return deepest > _MAX_DEPTH or bool(_MONSTROUS.search(answer))


@functools.lru_cache(maxsize=20_000)
def _verify(answer: str, gold: str) -> bool:
    return _verifier.ask(answer, gold)


class _Verifier:
    """A process that compares; started when first asked, again after one that had to be stopped."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def ask(self, answer: str, gold: str) -> bool:
        with self._lock:
            for process in (self._running(), None):
                # A process that had died since the last question deserves a second one; one that dies of it does not.
                process = process or self._running()
                try:
                    process.stdin.write(json.dumps([answer, gold]).encode() + b"\n")  # type: ignore[union-attr]
                    process.stdin.flush()  # type: ignore[union-attr]
                except BrokenPipeError:
                    self.stop()
                    continue
                reply = _read_line(process)
                if reply is None:
                    self.stop()
                return reply == "true"
        raise VerifierError("the process that compares answers ends as soon as it is started")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that an interrupt from the keyboard reaches only the trainer
        )
        if _read_line(self._process) != "ready":
            self._process.kill()
            said = self._process.communicate()[1].decode("utf-8", "replace").strip().splitlines()
            self._process = None
            reason = said[-1] if said else f"no reply within {WALL_LIMIT:g} s"
            raise VerifierError(
                f"math-verify, which compares answers, does not start ({reason}): pip install 'gaitway[language]'"
            )
        return self._process


def _read_line(process: subprocess.Popen[bytes]) -> str | None:
    """The next line from the process; None if it ends or is silent for too long."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], WALL_LIMIT)
    line = process.stdout.readline() if ready else b""
    return line.decode().strip() or None


_verifier = _Verifier()


class _OutOfTime(BaseException):
    """Not an ``Exception``, which the libraries would swallow."""


def _serve() -> None:
    """Compare the pairs on standard input, one JSON list a line, until it ends."""
    from math_verify import parse, verify

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _interrupt)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the parsers' complaints are not read
    print("ready", flush=True)
    for line in sys.stdin:
        answer, gold = json.loads(line)
        used = resource.getrusage(resource.RUSAGE_SELF)
        hard = int(used.ru_utime + used.ru_stime + CPU_LIMIT) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (hard, resource.RLIM_INFINITY))
        try:
            signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
            read = [parse(f"${text}$", parsing_timeout=None) for text in (gold, answer)]
            same = bool(verify(*read, timeout_seconds=None))
        except (Exception, _OutOfTime):
            same = False
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        print("true" if same else "false", flush=True)


def _interrupt(signum: int, frame: object) -> None:
    raise _OutOfTime


if __name__ == "__main__":
    _serve()
