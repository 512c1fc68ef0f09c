"""``file:``: a folder of this machine, or of one that is mounted; a file server may serve it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gaitway_files.reading import MissingFile, read_bytes
from gaitway_files.writing import whole_folder
from gaitway_onboard.bundle.published import check_listing

from ..runs.files import disk_error
from .place import Heard, PlaceError, numbered, own_name


class FolderPlace:
    def __init__(self, path: Path):
        path = path.absolute()
        if not path.name or path.name == "..":
            raise PlaceError(f"file:{path}: name the bundle's own folder, such as file:/srv/bundles/walk")
        self.path, self.name = path, own_name(path.name)
        self.group = numbered("local", os.path.realpath(path.parent))

    def __str__(self) -> str:
        return f"file:{self.path}"

    def names(self) -> list[str] | None:
        if not self.path.is_dir():
            raise PlaceError(f"{self}: no such folder")
        check_listing(self.path, self)  # links too, which names alone do not tell
        return sorted(os.listdir(self.path))

    def fetch(self, name: str, most: int, heard: Heard = lambda count: None) -> bytes:
        try:
            content = read_bytes(self.path / name, most)
        except MissingFile:
            raise PlaceError(f"{self} has no {name}: publish the bundle again, gaitway push") from None
        heard(len(content))
        return content

    def put(self, folder: Path, note: str) -> str:
        check_replaceable(self.path)
        try:
            with whole_folder(self.path) as new:
                for path in folder.iterdir():
                    shutil.copyfile(path, new / path.name)
                new.chmod(0o755)  # for a file server with another user
        except OSError as error:
            raise disk_error(self.path, error) from None
        return str(self)


def check_replaceable(path: Path) -> None:
    """Raise :class:`PlaceError` unless a bundle may take the place of ``path``: it is free, empty or a bundle alone."""
    from gaitway_files.errors import UserError
    from gaitway_onboard.bundle.contract import is_bundle

    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        raise PlaceError(f"{path} is {'a link' if path.is_symlink() else 'no folder'}: choose another folder")
    if not any(path.iterdir()):
        return
    if not is_bundle(path):
        raise PlaceError(f"{path} is not empty, and no bundle that a newer one may replace: choose another folder")
    try:
        check_listing(path, path)
    except UserError as error:
        raise PlaceError(f"{error}; it would be lost: choose another folder") from None
