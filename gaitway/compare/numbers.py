"""Numbers as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .statistics import Estimate


def number(value: float, places: int | None = None) -> str:
    """Four significant digits, or so many decimal places; thousands separated, a true minus sign."""
    if not math.isfinite(value):
        return "—"
    if places is None:
        places = min(max(3 - math.floor(math.log10(abs(value))), 0), 6) if value else 1
    text = f"{value:,.{places}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.removeprefix("-")


def spread(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation, which a single value does not have, with as many decimal places as the mean."""
    center = number(float(np.mean(values)))
    if len(values) < 2:
        return center
    deviation, places = float(np.std(values, ddof=1)), len(center.partition(".")[2])
    return f"{center} ± {number(deviation, places if deviation >= 10.0**-places else None)}"


def interval(estimate: Estimate, places: int | None = None) -> str:
    value = number(float(estimate.value), places)
    if not math.isfinite(float(estimate.low)):
        return value
    low, high = (number(float(end), places) for end in (estimate.low, estimate.high))
    return f"{value} (min {low}, max {high})" if estimate.extremes else f"{value} [{low}, {high}]"
