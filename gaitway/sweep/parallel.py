"""Parallel coordinates: one line a trial, across its settings to its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gaitway_sim2real.pages.svg import Axes

from ..compare.numbers import number
from .space import Dimension, short_names

BEST = 3
"""Trials drawn strong."""
WIDTH, HEIGHT = 180, 320
"""Of the room between two axes, and of the picture [pixels]."""
LEAST_WIDTH = 720
"""Of the picture, so that a page does not enlarge its letters."""
MOST_LETTERS = 28


@dataclass(frozen=True)
class Line:
    """A trial with its value; ``rank`` 0 is the best."""

    name: str
    params: Mapping[str, Any]
    value: float
    rank: int


def parallel(space: Sequence[Dimension], lines: Sequence[Line], metric: str) -> str:
    """The picture as SVG: an axis for each setting, the last for the value with the best on top.

    It is empty for fewer than two lines.
    """
    if len(lines) < 2:
        return ""
    ranked = sorted(lines, key=lambda line: line.rank)
    best, worst = ranked[0].value, ranked[-1].value
    count = len(space)
    width = max(LEAST_WIDTH, 120 + WIDTH * count)
    axes = Axes(x=(0, count), y=(0, 1), width=width, height=HEIGHT, left=60, right=60, top=34, bottom=14)
    for line in reversed(ranked):
        shares = [each.share(line.params[each.key]) for each in space]
        shares.append((line.value - worst) / (best - worst) if best != worst else 1.0)
        points = " ".join(f"{axes.px(x)},{axes.py(y)}" for x, y in enumerate(shares))
        css = f"trial best{line.rank}" if line.rank < BEST else "trial"
        axes.add(f'<polyline points="{points}" class="{css}"><title>{escape(line.name)}</title></polyline>')
    marks = [*(each.marks() for each in space), [(0.0, number(worst)), (1.0, number(best))]]
    titles = [*short_names(space), metric]
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
.tick { paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
.scroll svg.share-bar { width: min(260px, 24vw); min-width: 0; height: 9px; margin-top: 6px; }
.trials { stroke: var(--command); stroke-width: 6; stroke-linecap: round; stroke-opacity: .7; fill: none; }
.axis { stroke: var(--muted); stroke-width: 1.2; }
.trial { fill: none; stroke: var(--muted); stroke-opacity: .4; stroke-width: 1.2; }
.trial.best0 { stroke: var(--measured); stroke-opacity: 1; stroke-width: 2.6; }
.trial.best1, .trial.best2 { stroke: var(--command); stroke-opacity: .9; stroke-width: 1.6; }
.key.best0 { background: var(--measured); } .key.best1 { background: var(--command); }
.key.others { background: var(--muted); }
"""
