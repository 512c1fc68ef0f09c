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
from pathlib import Path
from typing import Any

from gaitway_files.errors import NotDone

from gaitway_tasks.language.mathematics import as_text, chosen, plain, rewritten, upright
from gaitway_tasks.language.written_numbers import in_words, last_in_words, number, plain_number

CPU_LIMIT = 2.0
"""Processor time for one comparison [s]; an answer that takes longer is wrong."""
WALL_LIMIT = 60.0
"""Waiting time for one comparison, or for the process to start, whatever else the machine does [s]."""
MEMORY_LIMIT = 2 << 30
"""Address space of the process that compares [bytes]."""
EXACT = 1000
"""Digits within which values without decimals must agree: 2^-98 is not 2^-99."""

_WORDS = re.compile(r"[^\d\\^_{}()\[\]+*/=<>|√∞∅∪∩π]*")
_BASE = re.compile(r"[\dA-F]+_\{?(\d+)\}?")
_UNFINISHED = re.compile(r"\d\s*(?:[-+*×·÷]|\\times|\\cdot|\\div|\s|\\[,;:! ]|\\q?quad|~)[\s\\,]*\d")
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
    such as "7 + 5", is not 12. Anything else is for math-verify to say, of the answer as it stands and as
    :func:`~gaitway_tasks.language.mathematics.rewritten`. What it cannot read within ``CPU_LIMIT`` is wrong.
    """
    return [_equal(answer, gold) for answer, gold in pairs]


def _equal(answer: str, gold: str) -> bool:
    said, wanted = plain(answer), plain(gold)
    if not said or not wanted:
        return False
    if as_text(said) == as_text(wanted) or chosen(said) == wanted:
        return True
    if len({base[1] for text in (said, wanted) if (base := _BASE.fullmatch(text))}) > 1:
        return False
    spoken, told = plain_number(upright(said)), plain_number(upright(wanted))
    alone, alone_gold = in_words(spoken), in_words(told)
    if alone and alone_gold:
        same = alone.same(alone_gold)
        if same or not _ambiguous(told):
            return same
    elif number(told) is not None:
        last = last_in_words(spoken)
        if last or _UNFINISHED.search(said.rpartition("=")[2]):
            return bool(last and alone_gold and last.same(alone_gold))
    pairs = dict.fromkeys(((said, wanted), (rewritten(answer), rewritten(gold))))
    return any(not _beyond(*pair) and _verify(*pair) for pair in pairs)


def _ambiguous(gold: str) -> bool:
    """True for a fraction, which has decimals without end, and for 3,5, which may be two numbers."""
    return "/" in gold or ("," in gold and number(gold) is None)


def _beyond(answer: str, gold: str) -> bool:
    """True for what math-verify must not be asked: words are no products of letters."""
    return bool(_WORDS.fullmatch(answer) or _WORDS.fullmatch(gold)) or monstrous(answer)


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
    from math_verify import LatexExtractionConfig, parse, verify

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
            read = [parse(f"${text}$", [LatexExtractionConfig()], parsing_timeout=None) for text in (gold, answer)]
            same = bool(verify(*read, timeout_seconds=None))
            if same and all(map(_is_exact, (value for values in read for value in values))):
                same = bool(verify(*read, numeric_precision=EXACT, timeout_seconds=None))
        except (Exception, _OutOfTime):
            same = False
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        print("true" if same else "false", flush=True)


def _is_exact(value: Any) -> bool:
    """True for a text, and for mathematics of whole numbers alone: no decimals, no variables."""
    return isinstance(value, str) or not (value.free_symbols or any(atom.is_Float for atom in value.atoms()))


def _interrupt(signum: int, frame: object) -> None:
    raise _OutOfTime


if __name__ == "__main__":
    _serve()
