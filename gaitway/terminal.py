"""Guard the terminal: text is shown with control characters escaped; only drawing code may send commands.

Names of tasks, runs and robots, values and messages come from files of others. Nothing of the 400 places that print
them needs to know: within :func:`guarded` the two streams write control characters out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

from gaitway_files.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

DRAWERS = ("rich", "tqdm", "logging", "gaitway.terminal", "gaitway_onboard.control.console")
"""Modules that colour text and move the cursor. Those of Gaitway make what they show visible themselves."""

CELL = 240
"""Longest line that a notebook rewrites, in characters."""


class Shown:
    """A text stream whose text cannot command the terminal, unless one of :data:`DRAWERS` writes it.

    After :func:`work_on`, a reader that left, a terminal that was closed or a disk that is full is no error.
    """

    def __init__(self, stream: Any):
        self._stream, self.needed, self._told = stream, True, False

    def write(self, text: str) -> int:
        module = sys._getframe(1).f_globals.get("__name__", "")
        drawn = any(module == name or module.startswith(f"{name}.") for name in DRAWERS)
        with self._reached():
            self._stream.write(text if drawn else visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._reached():
            self._stream.flush()

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.needed:
                raise
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):  # which may have room again
                drop(self)
            if not self._told and sys.stderr is not self:
                self._told = True
                print(f"gaitway: what is printed is lost ({error.strerror}); the work goes on", file=sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Within the block the standard streams show control characters, and what their encoding lacks, as escapes."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a C locale has no "°"
    # A stream that was closed (>&-, <&-) is None.
    nowhere = os.fdopen(_standard_nowhere(), "r+") if None in before else None
    sys.stdin = before[0] or nowhere
    sys.stdout, sys.stderr = (Shown(stream or nowhere) for stream in before[1:])
    try:
        yield
    finally:
        _hand_over()
        sys.stdin, sys.stdout, sys.stderr = before


def work_on() -> None:
    """Within :func:`guarded`: the command works to its end and exits with its own code, even if nobody reads it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Shown):
            stream.needed = False


def drop(stream: TextIO | Shown) -> None:
    """From now on what is written to ``stream`` goes nowhere."""
    nowhere = _nowhere()
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _nowhere() -> int:
    return os.open(os.devnull, os.O_RDWR)


def _standard_nowhere() -> int:
    """Descriptor of nowhere. Closed standard descriptors lead there too, else the next file would get their numbers.

    Then a library that writes to the standard streams would write into that file.
    """
    while (descriptor := _nowhere()) <= 2:
        os.set_inheritable(descriptor, True)
    return descriptor


def _hand_over() -> None:
    """Write what is still in the buffer now: a reader that left, as ``head`` does, would be an error at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)


_hushed: ContextVar[bool] = ContextVar("hushed", default=False)


@contextlib.contextmanager
def hushed(quiet: bool) -> Iterator[None]:
    """Within the block :func:`say` prints nothing if ``quiet``."""
    token = _hushed.set(quiet)
    try:
        yield
    finally:
        _hushed.reset(token)


def say(line: str) -> None:
    """Print a line about the work, which ``--quiet`` leaves out; results, warnings and errors are printed as always."""
    if not _hushed.get():
        print(line, flush=True)


def in_notebook() -> bool:
    """True in a cell of a notebook: Jupyter, VS Code, Colab."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask is not None and hasattr(ask(), "kernel")


def rewrites() -> bool:
    """True where :func:`overwrite` works: on a terminal and in a notebook."""
    return sys.stdout.isatty() or in_notebook()


def overwrite(text: str, *, last: bool = False) -> None:
    """Put ``text`` in the place of the line that the cursor is on."""
    text, end = visible(text), "\n" if last else ""
    if in_notebook():  # which knows no command to erase a line: spaces cover the longer one before
        text, end = text.ljust(CELL), end or "\r"
    else:
        text = f"\x1b[2K{text}"
    sys.stdout.write(f"\r{text}{end}")
    sys.stdout.flush()


def console(**options: Any) -> Console:
    """Rich's console, in whose tables names stay what they are: no markup, no control characters."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)  # before it is measured

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            raise  # called where it is caught; rich would exit with 1, and the command line has its own answer

    return Plain(**{"markup": False, "emoji": False, "highlight": False} | options)
