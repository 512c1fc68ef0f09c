"""Joint targets that reach the drives late, to the physics step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def target_age(delay: np.ndarray | int, step: int, decimation: int) -> np.ndarray | int:
    """Age of the target in force, in control steps, at physics step ``step`` of a control step.

    ``delay`` counts physics steps; a control step has ``decimation`` of them.
    """
    return delay // decimation + (step < delay % decimation)


class DelayLine:
    """Holds back the joint targets of N robots by a time each; before the first target, ``initial`` (N, J)."""

    def __init__(self, initial: np.ndarray, delay: np.ndarray, timestep: float, decimation: int) -> None:
        self._delay, self._decimation = np.rint(delay / timestep).astype(int), decimation
        self._queue = [initial.copy() for _ in range(int(self._delay.max()) // decimation + 2)]  # newest first
        self._edges = [*sorted({0, *(self._delay % decimation).tolist()}), decimation]

    def push(self, target: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Physics steps and the targets (N, J) in force during them, for the control step that ``target`` starts."""
        self._queue = [np.array(target, float), *self._queue[:-1]]
        ages, rows = np.stack(self._queue), np.arange(len(target))
        for start, end in zip(self._edges[:-1], self._edges[1:], strict=True):
            yield end - start, ages[target_age(self._delay, start, self._decimation), rows]
