"""The robot's model in a bundle, with the licence that it comes under."""

from __future__ import annotations

from pathlib import Path

from gaitway_files.reading import MIB, read_bytes
from gaitway_onboard.bundle.published import MODEL_LICENCE_FILE

from ..mujoco.standalone import copy_standalone


def copy_model(mjcf: Path, folder: Path) -> Path:
    """Copy an MJCF to ``robot.xml`` in ``folder``, which needs no other file; returns its path.

    A ``LICENSE`` beside the MJCF is copied to ``robot_license.txt``. Raises :class:`gaitway_files.reading.FileError` if
    it is above 1 MiB.
    """
    path = folder / "robot.xml"
    copy_standalone(mjcf, path)
    licence = mjcf.with_name("LICENSE")
    if licence.is_file() and (content := read_bytes(licence, MIB)):  # a bundle has no empty file
        (folder / MODEL_LICENCE_FILE).write_bytes(content)
    return path
