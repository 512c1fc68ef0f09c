"""Optuna's record of a sweep: ``study.jsonl``, one operation a line, as its own tools read and write it.

Optuna's writer would follow links, and its reader gives up where a killed process left half a line; these do neither.
One process at a time writes the file, since it holds the lock of the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from gaitway_files.json_files import parse_json
from gaitway_files.reading import GIB, FileError, MissingFile, read_lines
from gaitway_files.writing import open_to_append
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend

from ..errors import RunError
from ..runs.files import disk_error, write_text_atomically

if TYPE_CHECKING:
    from optuna import Study

STUDY = "study.jsonl"
NAME = "gaitway"
"""Name of the one study in the file."""
JOURNAL_BYTES = GIB
"""Most of a journal; a trial has some kilobytes."""


class Journal(BaseJournalBackend):
    """Operations in a file of JSON lines. A last line without an end, of a process that was killed, is dropped."""

    def __init__(self, path: Path):
        self.path = path
        self.rows: list[dict[str, Any]] = []
        try:
            lines = list(read_lines(path, JOURNAL_BYTES))
            if lines and not lines[-1].endswith(b"\n"):
                write_text_atomically(path, b"".join(lines[:-1]).decode())
                del lines[-1]
            self.rows = [parse_json(line, f"line {number}", nan=True) for number, line in enumerate(lines, 1)]
        except MissingFile:
            pass
        except FileError as error:
            raise RunError(f"{path} is damaged: {error}; put back a copy, or choose another --out") from None

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Operations from a number on."""
        yield from self.rows[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write operations, down to the disk."""
        try:
            with open_to_append(self.path) as file:
                file.write("".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(self.path, error) from None
        self.rows += json.loads(json.dumps(logs))


def open_study(folder: Path, *, lower: bool, pruner: Any) -> Study:
    """The study of a folder, made if there is none; less is better if ``lower``.

    Raises :class:`RunError` for a journal that Optuna did not write.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = folder / STUDY
    try:
        storage = JournalStorage(Journal(path))
        return optuna.create_study(
            storage=storage,
            study_name=NAME,
            direction="minimize" if lower else "maximize",
            pruner=pruner,
            load_if_exists=True,
        )
    except (AssertionError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged: it is no journal of Optuna ({error!r}); choose another --out") from None
