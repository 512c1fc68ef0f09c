"""Register the Gaitway environments the moment Gymnasium is imported.

Gymnasium 1.x has no plugin discovery, so ``gymnasium.make_vec("Gaitway/...")`` would need an import of ours first.
``gaitway_gymnasium_plugin.pth``, installed beside this package, calls :func:`install` when the interpreter starts: one
finder on ``sys.meta_path`` that waits for ``gymnasium``, lets it load, registers our ids, and is gone. It imports
nothing else; a program that never imports Gymnasium pays microseconds for it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the typing module would cost every interpreter start more than this whole file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

TARGET = "gymnasium"


class _RegisterAfterImport:
    """A meta path finder for one module, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != TARGET:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            if self in sys.meta_path:  # only now: who asks whether Gymnasium is installed gets a spec too
                sys.meta_path.remove(self)
            load(module)
            _register()

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Wait for Gymnasium, or register at once when it is already there."""
    if TARGET in sys.modules:
        _register()
    elif not any(isinstance(finder, _RegisterAfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterAfterImport())


def _register() -> None:
    # A broken or partial installation of ours must never keep a stranger's program from importing Gymnasium.
    try:
        from importlib.util import find_spec

        from gaitway_mujoco.registration import register

        register()
        if find_spec("isaaclab"):  # its own scripts then know Gaitway's tasks
            import gaitway_isaaclab  # noqa: F401
    except Exception as error:
        print(f"gaitway: its Gymnasium environments are not registered: {error}", file=sys.stderr)
