"""One reading of a bundle: what is verified, judged or signed is what is used, whatever becomes of the folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gaitway_files.reading import FileError, read_bytes

from .contract import check_folder

MOST_FILES = 100
"""Most entries of a bundle's folder, including files that people add."""


@contextlib.contextmanager
def one_reading(bundle: Path) -> Iterator[Path]:
    """A copy of the files of ``bundle`` as they are now, which nobody else can write to, for as long as it lasts.

    Folders and links are in it by their names alone, so that it is refused where ``bundle`` would be. What is raised
    within names ``bundle``, not the copy. Raises a ``ValueError`` subclass for what cannot be read as one.
    """
    check_folder(bundle)
    with tempfile.TemporaryDirectory(prefix="gaitway-") as private:
        copy = Path(private) / (bundle.resolve().name or "bundle")
        copy.mkdir()
        for entry in entries(bundle):
            place = copy / entry.name
            if entry.is_file(follow_symlinks=False):
                place.write_bytes(read_bytes(entry.path))
            elif entry.is_symlink():
                place.symlink_to(os.path.realpath(entry.path))
            else:
                place.mkdir()
        try:
            yield copy
        except Exception as error:
            error.args = tuple(named(each, copy, bundle) if isinstance(each, str) else each for each in error.args)
            raise


def named(text: str, copy: Path, bundle: Path) -> str:
    """``text`` about ``copy``, a bundle's :func:`one_reading`, with the path of ``bundle`` in its place."""
    return text.replace(str(copy), str(bundle))


def entries(bundle: Path) -> list[os.DirEntry[str]]:
    """Entries of a bundle's folder, by name."""
    try:
        entries = sorted(os.scandir(bundle), key=lambda entry: entry.name)
    except OSError as error:
        raise FileError(bundle, f"cannot be read as a bundle: {error.strerror}") from None
    if len(entries) > MOST_FILES:
        raise FileError(bundle, f"has {len(entries)} entries, and a bundle has a dozen: is it one?")
    return entries
