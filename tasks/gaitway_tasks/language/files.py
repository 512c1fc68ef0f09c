"""Records of local files: JSON lines, gzipped or not, JSON arrays, CSV and parquet."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gaitway_files.json_files import parse_json
from gaitway_files.reading import LINE_BYTES, MIB, FileError, read_bytes, size

from .rows import RowError

UNPACKED_START, UNPACKED_RATIO = 256 * MIB, 200
"""A gzipped file unpacks to this much, and so many times its size, at most; text reaches a twentieth."""
BOM = b"\xef\xbb\xbf"
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".parquet")
ENDINGS = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
"""The endings for messages."""
ARRAY_BYTES = 256 * MIB
"""Most of a JSON array, which is read whole."""

Record = Mapping[str, Any]


def is_file_name(name: str | Path) -> bool:
    """True if :func:`read_records` reads files of this name."""
    return str(name).endswith(SUFFIXES)


def read_records(path: str | Path) -> Iterator[tuple[int, Record | RowError]]:
    """Number, from 1, and record of each row of a file; an error in place of a row that cannot be read.

    The number is that of the line in a file of JSON lines, where empty lines are left out; of the row in a CSV file,
    whose header is row 1; and of the item in an array. Raises :class:`RowError` for a file that is not there or not
    what its name says.
    """
    path = Path(path)
    if not is_file_name(path):
        raise RowError(f"{path}: the name of a file of rows must end in {ENDINGS}")
    if not path.is_file():
        raise RowError(f"{path}: no such file")
    if path.suffix == ".parquet":
        return _parquet(path)
    if path.suffix == ".csv":
        return _csv(path)
    return _array(path) if path.suffix == ".json" and _begins_with_list(path) else _jsonl(path)


def _begins_with_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(MIB).removeprefix(BOM).lstrip().startswith(b"[")


def _array(path: Path) -> Iterator[tuple[int, Record | RowError]]:
    try:
        records = parse_json(read_bytes(path, ARRAY_BYTES).removeprefix(BOM), path, limit=ARRAY_BYTES, nan=True)
    except FileError as error:
        raise RowError(f"{path}: not a JSON array of rows ({error.reason})") from None
    for number, record in enumerate(records, start=1):
        yield number, _checked(record, f"{path}, row {number}")


def _csv(path: Path) -> Iterator[tuple[int, Record | RowError]]:
    csv.field_size_limit(LINE_BYTES)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            names = next(rows, [])
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise RowError(f"{path}: the column {twice!r} stands twice in its first row: rename one")
            for number, cells in enumerate(rows, start=2):
                if len(cells) == len(names):
                    yield number, dict(zip(names, cells, strict=True))
                elif cells:
                    yield (
                        number,
                        RowError(f"{path}, row {number}: {len(cells)} cells, and {len(names)} in the first row"),
                    )
    except UnicodeDecodeError as error:
        raise RowError(f"{path}: no text in UTF-8 ({error.reason}): save it as CSV UTF-8") from None
    except csv.Error as error:
        raise RowError(f"{path}: not a CSV file ({error})") from None


def _jsonl(path: Path) -> Iterator[tuple[int, Record | RowError]]:
    packed = path.suffix == ".gz"
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        left = UNPACKED_START + UNPACKED_RATIO * path.stat().st_size
        number = 0
        try:
            while line := file.readline(LINE_BYTES + 1):
                number, left = number + 1, left - len(line)
                if len(line) > LINE_BYTES:
                    raise RowError(f"{path}, row {number}: more than {size(LINE_BYTES)}, the most of a row")
                if packed and left < 0:
                    raise RowError(f"{path}: unpacks to more than {UNPACKED_RATIO} times its size: unpack it yourself")
                if line.strip():
                    yield number, _parse(path, number, line)
        except (OSError, EOFError, zlib.error) as error:
            raise RowError(f"{path}: not a whole gzip file ({error}): fetch or pack it again") from error


def _parse(path: Path, number: int, line: bytes) -> Record | RowError:
    try:
        record = parse_json(line.removeprefix(BOM) if number == 1 else line, path, nan=True)
    except FileError as error:
        return RowError(f"{path}, row {number}: not valid JSON ({error.reason}): each line must be one JSON object")
    return _checked(record, f"{path}, row {number}")


def _checked(record: Any, where: str) -> Record | RowError:
    if isinstance(record, dict):
        return record
    return RowError(f"{where}: {type(record).__name__} instead of a JSON object with named fields")


def _parquet(path: Path) -> Iterator[tuple[int, Record | RowError]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise RowError(f"{path}: reading parquet needs pyarrow: pip install 'gaitway[language]'") from error
    try:
        file = parquet.ParquetFile(path, thrift_string_size_limit=2**26, thrift_container_size_limit=10**6)
    except (pyarrow.ArrowException, OSError) as error:
        raise RowError(f"{path}: not a parquet file ({error})") from error
    number = 0
    with file:
        for batch in file.iter_batches():
            for record in batch.to_pylist():
                number += 1
                yield number, record
