"""Callbacks of :func:`gaitway.train`: code of yours that is called while a training runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .handles import Run


class Callback:
    """Base class of callbacks: override the hooks that you need, and pass an object to ``gaitway.train(callbacks=)``.

    Hooks run between two iterations, in the process that called ``train``. The training waits for them. Call
    :meth:`stop` in any hook to end the training after its iteration, as if its steps were done. An exception ends it
    as failed, after a checkpoint, and the :class:`gaitway.UserError` that ``train`` raises names callback and hook.

    >>> class Enough(gaitway.Callback):
    ...     def on_evaluation(self, steps, row):
    ...         if sum(row["returns"]) / len(row["returns"]) > 450:
    ...             self.stop("it balances")
    >>> gaitway.train("cartpole", evaluation_interval=20_000, callbacks=[Enough()])
    """

    run: Run
    """Run that is trained: its folder, configuration and rows so far."""
    stopped: str | None = None
    """Reason given to :meth:`stop`; None unless it was called in this training."""

    def stop(self, why: str = "") -> None:
        """End the training after this iteration: with a checkpoint, the final evaluation and status "finished"."""
        self.stopped = why

    def on_training_start(self) -> None:
        """Called once before the first iteration, also of a training that is continued."""

    def on_iteration(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Called after each iteration; ``steps`` are those of all environments, ``metrics`` the row of their file."""

    def on_evaluation(self, steps: int, row: Mapping[str, Any]) -> None:
        """Called after each evaluation, also the final one. ``row`` is that of ``evaluations.jsonl``."""

    def on_examination(self, steps: int, row: Mapping[str, Any]) -> None:
        """Called after each examination of ``until="good"``. ``row`` is that of ``examinations.jsonl``."""

    def on_checkpoint(self, steps: int, path: Path) -> None:
        """Called after each checkpoint is written."""

    def on_training_end(self, status: str) -> None:
        """Called once at the end. ``status`` is "finished", "interrupted" or "failed"."""
