"""LEAPP packages, which Isaac Lab 3.0 writes: a YAML with the keys ``models`` and ``pipeline`` beside an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..errors import PolicyImportError
from ..families import Options
from ..leapp.bundle import bundle_of_package
from ..leapp.package import find_description


@dataclass
class Package:
    """A package, and what was assumed about it."""

    path: Path
    robot: str | None

    def show(self) -> Sequence[tuple[str, str]]:
        return [("policy", f"LEAPP package {self.path}")]

    def description_text(self) -> str:
        raise PolicyImportError(f"{self.path} is a LEAPP package, whose own YAML describes it: leave out --show")

    def export(self, out: Path) -> Path:
        return bundle_of_package(self.path, out, robot=self.robot, say=lambda text: print(f"{'guessed':12}{text}"))


def find(source: Path) -> list[Path]:
    return [source] if find_description(source) is not None else []


def load(path: Path, options: Options) -> Package:
    if options.model or options.checkpoint or options.joint_order:
        raise PolicyImportError("--model, --checkpoint and --joint-order are not for LEAPP packages: leave them out")
    if find_spec("safetensors") is None:
        raise PolicyImportError("reading a LEAPP package needs safetensors: pip install 'gaitway[train,mujoco,leapp]'")
    return Package(path, options.robot)
