"""Options of commands: the parser, and the types of numbers and paths."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gaitway_files.errors import UserError

from .catalogue import install_line
from .errors import MAX_SEED, nearest

if TYPE_CHECKING:
    from gaitway_tasks.ground import Ground

GIVEN = "\0"  # begins a message that names the value, which then stands beside its option


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one sentence. Numbers must be finite, and paths must not be empty."""

    def __init__(self, **kwargs: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs)
        for kind, convert in ((int, whole()), (float, number()), (Path, path)):
            self.register("type", kind, convert)

    def option(
        self, name: str, about: str, type: Any = str, *, many: bool = False, within: Any = None, **more: Any
    ) -> None:
        """Add an argument: its name, a space and its metavar, as in ``"--log FILE"``; ``many`` is a list of them.

        ``within`` is a group of the parser; ``more`` are other settings of ``add_argument``.
        """
        name, _, metavar = name.partition(" ")
        repeated: dict[str, Any] = {"action": "append", "default": []} if many else {}
        (within or self).add_argument(name, metavar=metavar or None, type=type, help=about, **repeated, **more)

    def switch(self, name: str, about: str, **more: Any) -> None:
        """Add an option that is on or off."""
        (more.pop("within", None) or self).add_argument(name, action="store_true", help=about, **more)

    def options(self) -> list[str]:
        """Its options and those of the command line as a whole, such as "--seed"."""
        return [option for action in self._actions for option in action.option_strings]

    def commands(self) -> dict[str, tuple[Parser, str]]:
        """Its commands and their summaries, by name."""
        (found,) = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        summaries = {each.dest: each.help or "" for each in found._choices_actions}
        return {name: (parser, summaries[name]) for name, parser in found.choices.items()}

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does, with the choice that was probably meant."""
        known = action.choices or ()
        if value not in known and (near := nearest(str(value), known, 0.6)):
            choices = ", ".join(map(str, known))
            raise argparse.ArgumentError(action, f"{_given(str(value))}: did you mean {near}? There are {choices}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        option, _, rest = message.removeprefix("argument ").partition(": ")
        join = " " if rest.startswith(GIVEN) else ": " if rest else ""
        raise UserError(f"{option}{join}{rest.removeprefix(GIVEN)}; see {self.prog} --help")


def whole(low: int = -(2**63), high: int = 2**63 - 1) -> Callable[[str], int]:
    """The type of an option that is a whole number from ``low`` to ``high``."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{_given(text)}: expected a whole number") from None
        if not low <= value <= high:
            bounds = f"at least {low}" if value < low else f"at most {high:,}"
            raise argparse.ArgumentTypeError(f"{_given(text)}: must be {bounds}")
        return value

    return convert


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Callable[[str], float]:
    """The type of an option that is a finite number from ``low`` to ``high``, without ``low`` itself if ``above``."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{_given(text)}: expected a number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{_given(text)}: expected a finite number")
        if value < low or (above and value == low):
            raise argparse.ArgumentTypeError(f"{_given(text)}: must be {'above' if above else 'at least'} {low:g}")
        if value > high:
            raise argparse.ArgumentTypeError(f"{_given(text)}: must be at most {high:,g}")
        return value

    return convert


def path(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected the name of a file or folder, found none")
    return Path(text)


def terrain(text: str) -> Ground:
    """The type of ``--terrain``: a ground whose shape can be made."""
    from gaitway_tasks.terrain import Course, read_ground

    try:
        ground = read_ground(text)
        if isinstance(ground, Course):
            _ = ground.tile
    except ModuleNotFoundError as error:
        raise argparse.ArgumentTypeError(
            f"{_given(text)}: needs {error.name}, not installed here: {install_line(('train',))}"
        ) from None
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return ground


def _given(text: str) -> str:
    return GIVEN + (text if len(text) <= 40 else f"{text[:40]}...")


seed = whole(0, MAX_SEED)
count = whole(1, 10**9)
port = whole(1, 65535)
domain = whole(0, 230)  # DDS domains; higher ones would need ports above UDP's range
seconds = number(0.0, 1e6, above=True)
"""Types of options."""
