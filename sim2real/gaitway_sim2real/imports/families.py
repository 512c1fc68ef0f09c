"""Families of published policies, one row each; the reader of the right one is found by what lies in the folder."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from gaitway_files.reading import FileError, check_stand_in, open_regular

from .errors import PolicyImportError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that the user gives beside the source; a reader refuses those that it cannot use."""

    robot: str | None = None
    model: Path | None = None
    checkpoint: Path | None = None
    joint_order: str | None = None
    recipe: str | None = None


class Imported(Protocol):
    """A policy that was read."""

    def show(self) -> Sequence[tuple[str, str]]:
        """Lines of name and text for the terminal: what was read, what was guessed."""

    def description_text(self) -> str:
        """Description as YAML."""

    def export(self, out: Path) -> Path:
        """Write the bundle."""


class PolicyReader(Protocol):
    """The reader of one family: a module with these two functions."""

    def find(self, source: Path) -> list[Path]:
        """The policies of this family at ``source``, a folder or a file; empty if there is none."""

    def load(self, path: Path, options: Options) -> Imported:
        """Read one of them. Raises :class:`UserError`."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family; the module of its ``name`` in :mod:`.readers` reads it."""

    name: str
    about: str

    def reader(self) -> PolicyReader:
        return cast(PolicyReader, importlib.import_module(f"{__package__}.readers.{self.name}"))


FAMILIES = (
    Family(name="isaaclab", about="run folder of Isaac Lab's train.py (rsl_rl, skrl, rl_games; also unitree_rl_lab)"),
    Family(name="leapp", about="LEAPP package of Isaac Lab 3.0"),
    Family(name="unitree_deploy", about="deploy.yaml of unitree_rl_lab and unitree_rl_mjlab"),
    Family(name="unitree_rl_gym", about="deploy_mujoco/configs/ROBOT.yaml of unitree_rl_gym"),
    Family(name="rl_sar", about="policy/ROBOT/NAME/config.yaml of rl_sar"),
    Family(name="onnx_metadata", about="ONNX file with the metadata of holosoma or mjlab"),
    Family(
        name="recipes",
        about="file known by its name: MuJoCo Playground, Booster Gym, humanoid-gym, Lite3, FALCON, ASAP, "
        "OpenHomie, OpenWBT, legged_rl_lab",
    ),
)


def holds_policy(source: Path) -> bool:
    """True if a family finds something at ``source``."""
    return any(family.reader().find(source.absolute()) for family in FAMILIES)


def find(source: Path) -> tuple[Family, Path]:
    """The one policy at ``source`` and its family. Raises :class:`PolicyImportError` for none or several."""
    if not source.exists():
        link = f", which leads to {source.readlink()}" if source.is_symlink() else ""
        raise PolicyImportError(f"there is nothing at {source}{link}")
    if source.is_file():
        try:
            with open(open_regular(source), "rb") as file:
                check_stand_in(file.read(1024), source)
        except FileError as error:
            raise PolicyImportError(str(error)) from None
    for family in FAMILIES:
        found = family.reader().find(source.absolute())  # readers look at the folders above as well
        if len(found) == 1:
            return family, found[0]
        if found:
            listed = "".join(f"\n  {path}" for path in found[:20])
            raise PolicyImportError(f"{source} holds {len(found)} policies: give one of them{listed}")
    known = "".join(f"\n  {family.about}" for family in FAMILIES)
    raise PolicyImportError(
        f"{source} is no policy of a family that is known here:{known}\nDescribe another one in a file and give it "
        f"with --describe FILE.yaml; --template prints one to fill in"
    )


def load(source: Path, options: Options) -> Imported:
    """The one policy at ``source``, read."""
    family, path = find(source)
    return family.reader().load(path, options)
