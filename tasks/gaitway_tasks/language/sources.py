"""Sources of rows that lie in files or on the Hugging Face hub."""

from __future__ import annotations

import math
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, NonNegativeInt

from . import hub
from .fields import NEEDED, to_row
from .files import ENDINGS, Record, is_file_name, read_records
from .rows import PlacedRow, Row, RowError, check_split, epochs, in_turn, mixed

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")


class _Stored(Checked, ABC):
    """A fixed set of rows."""

    @abstractmethod
    def examine(self, split: str) -> tuple[list[Row], list[RowError]]: ...

    def rows(self, split: str) -> list[Row]:
        """All usable rows; raises :class:`RowError` where there are none, or for the first bad one."""
        return self.examine(split)[0]

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """The rows in shuffled epochs without end."""
        return self.draw(self.rows(split), seed)

    def draw(self, rows: Sequence[Row], seed: int) -> Iterator[Row]:
        """The stream of ``rows`` that were read before."""
        return epochs(rows, seed)


@dataclass(frozen=True, kw_only=True)
class FileSource(_Stored):
    """Rows of a local file (``files.SUFFIXES``), or of a dataset of the Hugging Face hub.

    Field names of well-known data sets are understood (TRL's, GSM8K's, Alpaca's, chat ``messages``, ShareGPT's
    ``conversations``, Anthropic's HH pairs, verl's); others are mapped by ``fields``.
    """

    train: str
    """A file, or "owner/name" or "owner/name:split" on the hub."""
    test: str | None = None
    """None holds out rows of the training file, the same whatever the seed."""
    subset: str | None = None
    """The configuration of a dataset on the hub, such as "main"."""
    holdout: NonNegativeInt = 200
    """Rows held out without ``test``, a tenth of all at most."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Names of the file's fields by ours, nested ones with dots: ``{"answer": "reward_model.ground_truth"}``."""
    ignore: tuple[str, ...] = ()
    """Columns, and keys of messages, to leave out where they would be refused, such as "timestamp"."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be used, and count them, instead of refusing the file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in filter(None, (self.train, self.test)):
            if not is_file_name(name) and not _HUB_ID.fullmatch(name):
                raise UserError(f"rows of {name!r}: name a file that ends in {ENDINGS}, or owner/name on the hub")

    def examine(self, split: str) -> tuple[list[Row], list[RowError]]:
        """Usable rows of a split, and an error for each row of its file that was skipped."""
        check_split(split)
        held_out = self.test is None
        name = self.train if held_out or split == "train" else str(self.test)
        rows, errors = self._read(name, "train" if held_out else split)
        if errors and not (self.skip_bad_rows and rows):
            more = f" (and {len(errors) - 1} more bad rows)" if len(errors) > 1 else ""
            hint = "; skip_bad_rows=true leaves such rows out" if rows else ""
            raise RowError(f"{errors[0]}{more}{hint}")
        if not rows:
            raise RowError(f"{name}: no rows")
        return (self._hold_out(rows, split, name) if held_out else rows), errors

    def first(self) -> Row:
        """The first usable row of the training file; raises :class:`RowError` for the first row if there is none."""
        first_error = None
        for number, record in self._records(self.train, "train"):
            try:
                return self._row(record, f"{self.train}, row {number}")
            except RowError as error:
                first_error = first_error or error
        raise first_error or RowError(f"{self.train}: no rows")

    def _records(self, name: str, split: str) -> Iterable[tuple[int, Record | RowError]]:
        if is_file_name(name):
            return read_records(name)
        dataset, _, named = name.partition(":")
        return hub.load_records(dataset, named or split, self.subset)

    def _row(self, record: Record | RowError, where: str) -> PlacedRow:
        if isinstance(record, RowError):
            raise record
        return to_row(record, self.fields, where, self.ignore)

    def _read(self, name: str, split: str) -> tuple[list[Row], list[RowError]]:
        rows: list[Row] = []
        errors: list[RowError] = []
        needed: list[str] = []
        for number, record in self._records(name, split):
            where = f"{name}, row {number}"
            try:
                row = self._row(record, where)
                missing = next((key for key in needed if key not in row), None)
                if missing is not None:
                    raise RowError(
                        f"{where}: no field {missing!r}, which the rows before it have: add it or leave the row out"
                    )
            except RowError as error:
                errors.append(error)
                continue
            needed = needed or [key for key in NEEDED if key in row]
            rows.append(row)
        return rows, errors

    def _hold_out(self, rows: list[Row], split: str, name: str) -> list[Row]:
        count = min(self.holdout, max(1, len(rows) // 10))
        if count == len(rows):
            raise RowError(
                f"{name}: one row cannot be both learnt from and held out: add rows, or set test or holdout=0"
            )
        held = set(random.Random("gaitway holdout").sample(range(len(rows)), count))
        if split == "test" and not held:
            raise RowError(f"{name}: no test rows with holdout=0: raise it, or set test to a file")
        return [row for index, row in enumerate(rows) if (index in held) == (split == "test")]


MIXED_FROM = "source_file"
"""Field of a row that a mixture adds: the name of the file that it comes from."""


@dataclass(frozen=True, kw_only=True)
class MixedSource(_Stored):
    """Rows of several files, drawn by weights; each keeps its own test rows and settings.

    Rows get a field ``source_file`` with the name of their file.
    """

    files: Mapping[str, FileSource]
    """The files by name: without folder and ending."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Share of the draws from each file, of any sum: ``{"a": 0.7, "b": 0.3}``; {} is in proportion to their rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ", ".join(self.files)
        if self.weights and self.weights.keys() != self.files.keys():
            raise UserError(f"weights of {', '.join(self.weights)}: give one to each of the files {names}")
        for name, weight in self.weights.items():
            if not (math.isfinite(weight) and weight > 0.0):
                raise UserError(f"weights.{name} {weight!r}: must be positive; to leave a file out, do not name it")

    @property
    def skip_bad_rows(self) -> bool:
        """True if any file leaves out rows that cannot be used."""
        return any(file.skip_bad_rows for file in self.files.values())

    def examine(self, split: str) -> tuple[list[Row], list[RowError]]:
        """Usable rows of all files in turn, and an error for each row that was skipped."""
        found = {name: file.examine(split) for name, file in self.files.items()}
        parts: list[list[Row]] = [[_marked(row, name) for row in rows] for name, (rows, _) in found.items()]
        return in_turn(parts), [error for _, errors in found.values() for error in errors]

    def draw(self, rows: Sequence[Row], seed: int) -> Iterator[Row]:
        """Rows drawn by the weights of their files without end, each file's in shuffled epochs."""
        return mixed(by_file(rows), self.weights, seed)

    def first(self) -> Row:
        """The first row of the first file, with the fields that all files have."""
        rows = [file.first() for file in self.files.values()]
        return {name: value for name, value in rows[0].items() if all(name in row for row in rows)} | {
            MIXED_FROM: next(iter(self.files))
        }

    def lacking(self, name: str) -> list[str]:
        """Files whose rows have no such field."""
        return [file.train for file in self.files.values() if name not in file.first()]


def _marked(row: Row, name: str) -> Row:
    marked = {**row, MIXED_FROM: name}
    return PlacedRow(marked, row.place) if isinstance(row, PlacedRow) else marked


def by_file(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of a mixture by the file that they come from."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[MIXED_FROM], []).append(row)
    return dict(sorted(found.items()))


@dataclass(frozen=True, kw_only=True)
class GSM8K(_Stored):
    """Grade-school word problems (Cobbe et al. 2021, https://github.com/openai/grade-school-math, MIT licence).

    Rows have ``prompt``, ``answer`` and ``completion``, the data set's solution in the form of our answers.
    """

    data: str | None = None
    """A folder with files of the splits, in the layout of the repository or of the hub; or one file, of which
    ``holdout`` rows are held out; None: openai/gsm8k on the hub."""
    holdout: NonNegativeInt = 200

    def examine(self, split: str) -> tuple[list[Row], list[RowError]]:
        """Rows of a split, and errors of those skipped: none."""
        check_split(split)
        try:
            return self._files(split).examine(split)
        except RowError as error:
            if self.data is None:
                raise RowError(f"{error}, by setting task.source.data to a folder or file of GSM8K's") from error
            raise

    def _files(self, split: str) -> FileSource:
        if self.data is None:
            return FileSource(train="openai/gsm8k", test="openai/gsm8k", subset="main")
        if is_file_name(self.data):
            return FileSource(train=self.data, holdout=self.holdout)
        file = _find(Path(self.data), split)
        return FileSource(train=file, test=file)


def _find(folder: Path, split: str) -> str:
    """The file of a split of GSM8K in a folder."""
    patterns = [f"{split}.jsonl", f"{split}.jsonl.gz", f"{split}.parquet", f"{split}-*.parquet"]
    places = ["", "main/", "data/", "grade_school_math/data/"]
    for place in places:
        for pattern in patterns:
            found = sorted(folder.glob(place + pattern))
            if found:
                return str(found[0])
    other = "; to hold out rows of the training file, name that file" if split == "test" else ""
    state = "has no" if folder.is_dir() else "is no folder with a"
    raise RowError(f"GSM8K: {folder} {state} {split}.jsonl or {split} parquet file{other}")
