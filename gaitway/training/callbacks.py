"""The callbacks of one training: checked before it starts, called in their order, named when they fail."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Sequence
from typing import Any, Self

from gaitway_files.errors import UserError

from ..callback import Callback
from ..runs.folder import EVALUATIONS, RunFolder
from ..runs.rows import RunWarning

HOOKS = {name: hook for name, hook in vars(Callback).items() if name.startswith("on_")}


def checked(callbacks: Any) -> tuple[Callback, ...]:
    """Callbacks with hooks that exist and take what they are given; raises :class:`UserError` otherwise."""
    if not isinstance(callbacks, list | tuple):
        raise UserError(f"callbacks={callbacks!r}: give a list, such as callbacks=[MyCallback()]")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            made = f"{callback.__name__}()" if isinstance(callback, type) else "an object of a class derived from it"
            raise UserError(f"callbacks: {callback!r} is no gaitway.Callback: give {made}")
        for name in dir(callback):
            if name.startswith("on_") and callable(getattr(callback, name)):
                _check_hook(callback, name)
    return tuple(callbacks)


def _check_hook(callback: Callback, name: str) -> None:
    if name not in HOOKS:
        near = difflib.get_close_matches(name, HOOKS, 1)
        hint = f"did you mean {near[0]}?" if near else f"hooks are {', '.join(HOOKS)}"
        raise UserError(f"callback {_title(callback)}: {name} is no hook, and is never called: {hint}")
    wanted = list(inspect.signature(HOOKS[name]).parameters)[1:]
    try:
        inspect.signature(getattr(callback, name)).bind(*wanted)
    except TypeError as error:
        raise UserError(
            f"callback {_title(callback)}, {name}: {error}; define it as {name}({', '.join(['self', *wanted])})"
        ) from None


def _title(callback: Callback) -> str:
    return type(callback).__qualname__


class Callbacks:
    """Context in which ``callbacks`` hear what happens to ``run``; its end calls their ``on_training_end``."""

    def __init__(self, callbacks: Sequence[Callback], run: RunFolder):
        self.callbacks, self.run = callbacks, run

    def __enter__(self) -> Self:
        from ..handles import Run

        for callback in self.callbacks:
            callback.run, callback.stopped = Run(self.run.path), None
        self.run.listeners.append(self._hear)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.run.listeners.remove(self._hear)
        try:
            self.call("on_training_end", "failed" if error is not None else self.run.record["status"])
        except UserError as another:
            if error is None:
                raise
            warnings.warn(str(another), RunWarning, stacklevel=2)

    @property
    def stopped(self) -> str | None:
        """The callback that asked to stop, with its reason; None if none did."""
        for callback in self.callbacks:
            if callback.stopped is not None:
                return f"callback {_title(callback)}" + (f": {callback.stopped}" if callback.stopped else "")
        return None

    def call(self, hook: str, *given: Any) -> None:
        """Call ``hook`` of each; raises :class:`UserError` with the name of one that fails."""
        for callback in self.callbacks:
            try:
                getattr(callback, hook)(*(dict(each) if isinstance(each, dict) else each for each in given))
            except Exception as error:
                raise UserError(f"callback {_title(callback)}, {hook}: {type(error).__name__}: {error}") from error

    def _hear(self, file: str, row: dict[str, Any]) -> None:
        self.call("on_evaluation" if file == EVALUATIONS else "on_examination", row["steps"], row)
