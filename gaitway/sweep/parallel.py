"""Parallel coordinates: one line a trial, across its settings to its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gaitway_sim2real.pages.svg import Axes

from .space import Dimension, shown

BEST = 3
"""Trials drawn strong."""
WIDTH, HEIGHT = 180, 320
"""Of the room between two axes, and of the picture [pixels]."""
MOST_LETTERS = 24


@dataclass(frozen=True)
class Line:
    """A trial with its value; ``rank`` 0 is the best."""

    name: str
    params: Mapping[str, Any]
    value: float
    rank: int


def parallel(space: Sequence[Dimension], lines: Sequence[Line], metric: str) -> str:
    """The picture as SVG: an axis for each setting, the last for the value; empty for fewer than two lines."""
    if len(lines) < 2:
        return ""
    values = [line.value for line in lines]
    low, high = min(values), max(values)
    count = len(space)
    width = 120 + WIDTH * count
    axes = Axes(x=(0, count), y=(0, 1), width=width, height=HEIGHT, left=60, right=60, top=34, bottom=14)
    for line in sorted(lines, key=lambda line: -line.rank):
        shares = [each.share(line.params[each.key]) for each in space]
        shares.append((line.value - low) / (high - low) if high > low else 0.5)
        points = " ".join(f"{axes.px(x)},{axes.py(y)}" for x, y in enumerate(shares))
        css = f"trial best{line.rank}" if line.rank < BEST else "trial"
        axes.add(f'<polyline points="{points}" class="{css}"><title>{escape(line.name)}</title></polyline>')
    marks = [*(each.marks() for each in space), [(0.0, shown(low)), (1.0, shown(high))]]
    titles = [*(each.key.rpartition(".")[2] for each in space), metric]
    for x, (title, places) in enumerate(zip(titles, marks, strict=True)):
        at = axes.px(x)
        axes.add(f'<line x1="{at}" x2="{at}" y1="{axes.py(0)}" y2="{axes.py(1)}" class="axis"/>')
        axes.text(at, 18, _short(title), "label")
        for share, text in places:
            axes.text(at + 5, axes.py(share) + (-3 if share < 1 else 11), _short(text), anchor="start")
    return axes.render(f"{len(lines)} trials by their settings and {metric}")


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"


STYLE = """
.axis { stroke: var(--muted); stroke-width: 1.2; }
.trial { fill: none; stroke: var(--muted); stroke-opacity: .4; stroke-width: 1.2; }
.trial.best0 { stroke: var(--measured); stroke-opacity: 1; stroke-width: 2.6; }
.trial.best1, .trial.best2 { stroke: var(--command); stroke-opacity: .9; stroke-width: 1.6; }
.key.best0 { background: var(--measured); } .key.best1 { background: var(--command); }
.key.others { background: var(--muted); }
"""
