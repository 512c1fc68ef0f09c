"""The clock of a motion in plain numpy, for recordings: :meth:`.reference.Reference.next` over time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def frames(play: NDArray[np.floating], count: int, loop: tuple[int, int]) -> NDArray[np.int64]:
    """Frames (T, N) of robots that begin to stand at the first of ``count`` frames and are told to ``play`` (T, N)."""
    found, frame = np.zeros(play.shape, np.int64), np.zeros(play.shape[1], np.int64)
    for t, told in enumerate(play > 0.5):
        after = np.where(told & (frame + 1 == loop[1]), loop[0], frame + 1)
        after = np.where(after >= count - 1, 0, after)
        frame = found[t] = np.where((frame <= 0) & ~told, 0, after)
    return found
