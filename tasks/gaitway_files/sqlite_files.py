"""SQLite files of strangers: rows of tables, read without letting the file run anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from .reading import GIB, MIB, DamagedFile, FileError, check_stand_in, one_line, open_regular

DATABASE_BYTES = 64 * GIB
"""Most of a database; a recording with cameras has some GB."""
VALUE_BYTES = 64 * MIB
"""Most of one value."""
MAGIC = b"SQLite format 3\0"


def read_rows(
    path: str | Path, table: str, columns: Sequence[str], where: str = "", value: Any = None
) -> Iterator[tuple[Any, ...]]:
    """Rows of ``columns`` of a table, those whose column ``where`` has ``value`` if it is given.

    Raises :class:`FileError` for another file, and where the table is a view or not there.
    """
    with open(open_regular(path, DATABASE_BYTES), "rb") as file:
        start = file.read(1024)
    check_stand_in(start, path)
    if not start.startswith(MAGIC):
        raise FileError(path, "is no SQLite file")
    name = Path(path).absolute().as_uri()
    try:
        with closing(sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
            database.execute("PRAGMA trusted_schema = OFF")
            found = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            if found != ("table",):
                raise FileError(path, f"has no table {table}")
            query = f"SELECT {', '.join(columns)} FROM {table}" + (f" WHERE {where} = ?" if where else "")
            yield from database.execute(query, (value,) if where else ())
    except sqlite3.Error as error:
        raise DamagedFile(path, f"cannot be read as SQLite ({one_line(error)})") from None
