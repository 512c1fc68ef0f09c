"""TensorBoard's events of a training."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any, Self

from ..runs.files import make_folder
from ..runs.folder import RunFolder
from ..runs.rows import RunWarning


class EventWriter:
    """TensorBoard's events: at most four rows a second, for writing one takes ten milliseconds.

    They repeat ``metrics.jsonl``. If their thread fails, the training goes on without them.
    """

    INTERVAL_S = 0.25

    def __init__(self, run: RunFolder, iteration: int):
        from torch.utils.tensorboard import SummaryWriter

        self.folder = run.path / "tensorboard"
        make_folder(self.folder)
        self.writer: SummaryWriter | None = SummaryWriter(str(self.folder), purge_step=iteration + 1, flush_secs=30)
        self.written = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.writer is not None:
            with self._dispensable():
                self.writer.close()

    def add(self, row: dict[str, Any], *, last: bool) -> None:
        now = time.monotonic()
        if self.writer is None or (not last and now - self.written < self.INTERVAL_S):
            return
        self.written = now
        with self._dispensable():
            for name, value in row.items():
                if name != "iteration":
                    self.writer.add_scalar(name, value, row["iteration"])

    @contextlib.contextmanager
    def _dispensable(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever ended the thread is raised here
            self.writer = None
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            warnings.warn(
                f"{self.folder} gets no more events ({what}); the training goes on, and metrics.jsonl has all of them",
                RunWarning,
                stacklevel=3,
            )
