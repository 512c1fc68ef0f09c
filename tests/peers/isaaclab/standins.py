"""Inert stand-ins for Isaac Sim's modules, so that Isaac Lab imports without a simulator.

Isaac Lab's term functions, managers and configurations are plain Python and torch, but the files they live in import
``omni``, ``carb``, ``isaacsim`` and ``pxr`` schemas that exist only inside Isaac Sim. A stand-in module answers every
attribute with an inert class: it can be subclassed, called and indexed while modules are being imported, and it
computes nothing. What the tests compare never passes through one of them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOTS = ("carb", "hid", "isaacsim", "omni", "usdrt")
"""Packages that only an Isaac Sim installation has."""

IMAGING = ("cv2", "matplotlib")
"""Imported by Isaac Lab's tactile sensor and its plotting widgets only, which no test here touches."""

PXR_SCHEMAS = ("ForceFieldSchema", "PhysicsSchemaTools", "PhysxSchema", "UsdSemantics")
"""Modules that Isaac Sim adds to ``pxr``; the rest of ``pxr`` is the real usd-core."""

PACKAGES = ("isaaclab", "isaaclab_assets", "isaaclab_contrib", "isaaclab_rl", "isaaclab_tasks")


class _InertMeta(type):
    """Attributes of an inert class are the class itself: ``carb.settings.get_settings().get("/x")`` imports."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class Inert(metaclass=_InertMeta):
    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Inert()


class InertModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        if root in ROOTS + IMAGING or (root == "pxr" and rest.partition(".")[0] in PXR_SCHEMAS):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return InertModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def install() -> str:
    """Make Isaac Lab importable and return its version. Safe to call twice."""
    distribution = importlib.metadata.distribution("isaaclab")
    source = Path(str(distribution.locate_file("isaaclab"))) / "source"
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # First, so that Isaac Sim is absent even where it is installed: the tests always see the same thing.
        sys.meta_path.insert(0, _Finder())
        # The wheel's top-level package starts Isaac Sim; the packages themselves lie below it.
        sys.path[:0] = [str(source / name) for name in PACKAGES]
        # Importing this package in the ordinary way imports every task it has.
        tasks = types.ModuleType("isaaclab_tasks")
        tasks.__path__ = [str(source / "isaaclab_tasks" / "isaaclab_tasks")]
        sys.modules["isaaclab_tasks"] = tasks
    import isaaclab.envs  # noqa: F401  (first: any other order is a circular import)

    return distribution.version
