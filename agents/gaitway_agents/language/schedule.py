"""Learning rates that change over a training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gaitway_files.ranges import Checked, Share, ShareBelowOne, one_of


@dataclass(frozen=True, kw_only=True)
class LearningRateSchedule(Checked):
    """Factor of the optimiser's rate: a linear warm-up to 1, then a fall to ``final`` by ``shape``."""

    shape: Annotated[str, one_of("constant", "linear", "cosine")] = "constant"
    """"constant" stays at 1, "linear" and "cosine" (half a wave) fall to ``final`` at the end of the training."""
    warmup: ShareBelowOne = 0.0
    """Share of the training over which the rate rises from 0; typically 0 to 0.1."""
    final: Share = 0.0
    """Factor at the end of the training; typically 0 to 0.1."""

    @property
    def changes(self) -> bool:
        """True if the factor depends on the progress, so that the training needs a length."""
        return self.shape != "constant" or self.warmup > 0.0

    def factor(self, progress: float) -> float:
        """The factor when the share ``progress`` of the training is done; of an update, that at its middle."""
        progress = min(max(progress, 0.0), 1.0)
        if progress < self.warmup:
            return progress / self.warmup
        if self.shape == "constant":
            return 1.0
        left = (1.0 - progress) / (1.0 - self.warmup)
        if self.shape == "cosine":
            left = 0.5 - 0.5 * math.cos(math.pi * left)
        return self.final + (1.0 - self.final) * left
