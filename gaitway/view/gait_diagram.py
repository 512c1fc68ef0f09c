"""Contacts of the feet over the last seconds, as a small drawing with the figures of the gait."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from html import escape

import numpy as np
from gaitway_velocity.gait import runs

WINDOW = 4.0  # [s]
PRESSED = 1.0  # [N] that count as contact
BAR = "#3a86b8"
ROW, LEFT, RIGHT, WIDTH = 14, 24, 34, 300  # [pixels]


class GaitDiagram:
    """One row per foot; a bar where it is on the ground. F feet."""

    def __init__(self, feet: Sequence[str], step: float):
        """``step`` [s] is the time between two calls of :meth:`add`."""
        self.feet = [_short(name) for name in feet]
        self.step = step
        self.load: np.ndarray = np.zeros(len(self.feet))
        self.down: deque[np.ndarray] = deque(maxlen=round(WINDOW / step))

    def add(self, foot: np.ndarray, force: np.ndarray) -> None:
        """Add the contacts of one moment: indices of feet, (C,), -1 for other parts, and vertical forces [N], (C,)."""
        of_a_foot = foot >= 0
        self.load = np.bincount(foot[of_a_foot], force[of_a_foot], minlength=len(self.feet))
        self.down.append(self.load > PRESSED)

    def figures(self) -> tuple[float, float]:
        """Touch-downs of a foot per second and mean time of its swings [s], over the drawn time; 0 if it does not step.

        Swings that begin or end outside the drawn time are left out.
        """
        swings = [count * self.step for column in np.array(self.down, bool).T for count in _gaps(column)]
        seconds = len(self.down) * self.step
        if not swings:
            return 0.0, 0.0
        return len(swings) / len(self.feet) / seconds, float(np.mean(swings))

    def html(self, weight: float) -> str:
        """The drawing; ``weight`` [N] is that of the robot, in per cent of which the loads are given."""
        rate, swing = self.figures()
        scale = (WIDTH - LEFT - RIGHT) / self.down.maxlen if self.down.maxlen else 0.0
        rows = []
        for number, name in enumerate(self.feet):
            top = number * ROW
            rows.append(f'<text x="0" y="{top + 10}">{escape(name)}</text>')
            for start, stop in zip(*runs(np.array([down[number] for down in self.down], bool)), strict=True):
                x, width = LEFT + scale * start, scale * (stop - start)
                rows.append(f'<rect x="{x:.1f}" y="{top + 2}" width="{width:.1f}" height="{ROW - 4}" fill="{BAR}"/>')
            rows.append(
                f'<text x="{WIDTH}" y="{top + 10}" text-anchor="end">{100 * self.load[number] / weight:.0f} %</text>'
            )
        told = f"{rate:.1f} steps/s per foot, swings of {swing:.2f} s" if rate else "standing"
        return (
            '<div style="padding:0 1em;font-size:12px">'
            f"Feet on the ground, last {WINDOW:.0f} s; loads in % of its weight"
            f'<svg viewBox="0 0 {WIDTH} {ROW * len(self.feet)}" width="100%" font-size="10" fill="currentColor">'
            f"{''.join(rows)}</svg>{told}</div>"
        )


def _short(name: str) -> str:
    return name.removesuffix("_FOOT").removesuffix("_foot")[:6]


def _gaps(down: np.ndarray) -> list[int]:
    """Lengths of the rows of False between two of True."""
    starts, ends = runs(down)
    return (starts[1:] - ends[:-1]).tolist()
