"""Just enough SVG for a report: axes, lines, dots, boxes. The page's style sheet colours them, for dark mode too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape

import numpy as np


@dataclass
class Axes:
    """A plot area in data coordinates; ``items`` collects SVG elements."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = 720
    height: int = 150
    left: int = 46
    right: int = 12
    top: int = 10
    bottom: int = 26
    items: list[str] = field(default_factory=list)

    def px(self, x: float) -> float:
        share = (x - self.x[0]) / (self.x[1] - self.x[0])
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def py(self, y: float) -> float:
        share = (y - self.y[0]) / (self.y[1] - self.y[0])
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)

    def add(self, element: str) -> None:
        self.items.append(element)

    def text(
        self, x: float, y: float, text: str, css: str = "tick", anchor: str = "middle", turn: bool = False
    ) -> None:
        """Text at pixel coordinates."""
        rotate = f' transform="rotate(-90 {x} {y})"' if turn else ""
        self.add(f'<text x="{x}" y="{y}" class="{css}" text-anchor="{anchor}"{rotate}>{escape(text)}</text>')

    def name(self, y: float, text: str, beside: str = "") -> None:
        """Name of a row at ``y``, left of the plot, and a text at its right end."""
        self.text(self.left - 8, self.py(y) + 4, text, anchor="end")
        if beside:
            self.text(self.width - self.right + 6, self.py(y) + 4, beside, anchor="start")

    def grid(
        self,
        xlabel: str = "",
        ylabel: str = "",
        *,
        x: Iterable[float] | None = None,
        y: Iterable[float] | None = None,
        lines: bool = True,
        said: Callable[[float], str] | None = None,
    ) -> None:
        """Axis titles, ticks at ``x`` and ``y`` or round numbers, and ``lines``; ``said`` writes the numbers of y."""
        for value in ticks(*self.y, 4) if y is None else y:
            at = self.py(value)
            if lines:
                self.add(f'<line x1="{self.left}" x2="{self.width - self.right}" y1="{at}" y2="{at}" class="grid"/>')
            self.text(self.left - 6, at + 3.5, (said or number)(value), anchor="end")
        for value in ticks(*self.x, 8) if x is None else x:
            self.text(self.px(value), self.height - self.bottom + 15, number(value))
        if xlabel:
            self.text((self.left + self.width - self.right) / 2, self.height - 5, xlabel, "label")
        if ylabel:
            self.text(11, (self.top + self.height - self.bottom) / 2, ylabel, "label", turn=True)

    def level(self, y: float, css: str = "limit dashed") -> None:
        """A line across the plot."""
        self.line(self.x, (y, y), css)

    def line(self, x: Iterable[float], y: Iterable[float], css: str) -> None:
        points = " ".join(f"{self.px(a)},{self.py(b)}" for a, b in zip(x, y, strict=True) if math.isfinite(b))
        self.add(f'<polyline points="{points}" class="{css}"/>')

    def dots(self, x: np.ndarray, y: np.ndarray, css: str) -> None:
        """Many points as one path of zero-length strokes with round caps."""
        path = "".join(f"M{self.px(a)} {self.py(b)}h0" for a, b in zip(x, y, strict=True))
        self.add(f'<path d="{path}" class="{css}"/>')

    def box(self, x0: float, x1: float, y0: float, y1: float, css: str, title: str = "", style: str = "") -> None:
        left, right = sorted((self.px(x0), self.px(x1)))
        high, low = sorted((self.py(y0), self.py(y1)))
        inner = f"<title>{escape(title)}</title>" if title else ""
        extra = f' style="{style}"' if style else ""
        self.add(
            f'<rect x="{left}" y="{high}" width="{right - left:.1f}" height="{low - high:.1f}" class="{css}"{extra}>'
            f"{inner}</rect>"
        )

    def render(self, label: str) -> str:
        body = "".join(self.items)
        return f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(label)}">{body}</svg>'


def ticks(low: float, high: float, count: int) -> list[float]:
    """About ``count`` round numbers inside [low, high]."""
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Short, with a true minus sign."""
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("-0", "0" if abs(value) < 1e-12 else "-0").replace("-", "−")
