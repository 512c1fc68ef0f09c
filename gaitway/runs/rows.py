"""Read the ``.jsonl`` files of a run, one row per line, and report damaged lines."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaitway_files.json_files import parse_json
from gaitway_files.reading import GIB, FileError, read_lines

from ..errors import RunError

ROWS_BYTES = 8 * GIB
"""Most of a file of rows; a million iterations have 2 GB."""


class RunWarning(UserWarning):
    """Something about a run that the user should know and that does not stop the work."""


@dataclass
class Rows:
    """Contents of a file of rows. A last line cut short by a crash is neither a row nor damage."""

    path: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    damaged: dict[int, bytes] = field(default_factory=dict)
    """Lines that are no rows, by their number from 1 on."""

    @property
    def damage(self) -> str:
        """Description of the damaged lines."""
        numbers = list(self.damaged)
        shown = ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")
        return f"line {shown} is not a row" if len(numbers) == 1 else f"lines {shown} are not rows"


def parse_rows(path: Path, *numbers: str) -> Rows:
    """Every row of a file that has these ``numbers``; :class:`RunError` if the file cannot be read at all."""
    found = Rows(path)
    try:
        for number, line in enumerate(read_lines(path, ROWS_BYTES), 1):
            row = _row(line)
            if isinstance(row, dict) and all(isinstance(row.get(name), int | float) for name in numbers):
                found.rows.append(row)
            elif line.endswith(b"\n"):
                found.damaged[number] = line.removesuffix(b"\n")
    except FileError as error:
        raise RunError(f"cannot read {path}: {error.reason}") from None
    return found


def _row(line: bytes) -> Any:
    try:
        return parse_json(line, "row", nan=True)  # of a training that diverged
    except FileError:
        return None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a ``.jsonl`` file of a run; warns of lines that are damaged and leaves them out."""
    found = parse_rows(path)
    if found.damaged:
        warnings.warn(f"{path} is damaged: {found.damage}; the other rows are used", RunWarning, stacklevel=2)
    return found.rows
