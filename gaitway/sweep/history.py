"""The trials in their order: the value of each, and the best so far."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gaitway_sim2real.pages.svg import Axes, ticks


def history(values: Mapping[int, float], metric: str, *, lower: bool) -> str:
    """The picture as SVG of values by the number of the trial; empty for fewer than two."""
    if len(values) < 2:
        return ""
    numbers, found = np.array(sorted(values)), np.array([values[number] for number in sorted(values)])
    best = np.minimum.accumulate(found) if lower else np.maximum.accumulate(found)
    low, high = float(found.min()), float(found.max())
    margin = 0.06 * (high - low) or 0.5
    last = int(numbers[-1])
    axes = Axes(x=(0, last), y=(low - margin, high + margin), height=190, left=76, bottom=34)
    axes.grid("trial", metric, x=[tick for tick in ticks(0, last, 8) if tick.is_integer()])
    axes.line(np.repeat(numbers, 2)[1:], np.repeat(best, 2)[:-1], "measured")
    axes.dots(numbers, found, "trials")
    return axes.render(f"{metric} of {len(values)} trials in their order")
