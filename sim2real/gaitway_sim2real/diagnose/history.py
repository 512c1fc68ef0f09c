"""Layout of a recorded observation's columns over past frames.

Decided by the recording alone: under the right layout, the frame of age k at step t is the newest frame of step t - k.
Noise cancels, and what the columns mean does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from .findings import Finding
from .view import View

MATCH = 0.98  # share of the numbers that must be found again where a layout says they are


@dataclass(frozen=True, kw_only=True)
class HistoryLayout:
    length: int
    term_major: bool = True
    oldest_first: bool = True

    def columns(self, dims: list[int], age: int) -> np.ndarray:
        """Columns of the frame that is ``age`` steps old, (F,), in the order of the terms."""
        place = self.length - 1 - age if self.oldest_first else age
        starts = np.cumsum([0, *dims[:-1]])
        if self.term_major:
            return np.concatenate(
                [self.length * start + place * dim + np.arange(dim) for start, dim in zip(starts, dims, strict=True)]
            )
        return place * sum(dims) + np.arange(sum(dims))

    def __str__(self) -> str:
        if self.length == 1:
            return "one frame"
        major = "term-major" if self.term_major else "frame-major"
        return f"{self.length} frames, {major}, {'oldest' if self.oldest_first else 'newest'} first"


def contract_layout(contract: Contract) -> HistoryLayout:
    return HistoryLayout(length=max(term.history for term in contract.observation))


def find_layout(view: View) -> tuple[HistoryLayout | None, list[Finding]]:
    """The layout of the recorded observation, or None, and what is wrong with the bundle's."""
    dims = [term.dim for term in view.contract.observation]
    expected, frame, width = contract_layout(view.contract), sum(dims), view.observation.shape[2]
    where = (f"observation, columns 0:{width}",)
    if width % frame:
        return None, [_wrong_size(view, dims, expected, where)]
    length = width // frame
    candidates = [
        HistoryLayout(length=length, term_major=t, oldest_first=o) for t in (True, False) for o in (True, False)
    ]
    scores = [consistency(view, dims, layout) for layout in candidates]
    best = candidates[int(np.argmax(scores))]
    if length == 1 or (length == expected.length and scores[0] >= MATCH):
        best = candidates[0]
    elif max(scores) < MATCH:
        return None, [
            Finding(
                cause="history_layout",
                where=where,
                what=f"the {width} columns do not repeat earlier frames of {frame} numbers in any known layout",
                evidence=f"best of the four layouts: {best}, {max(scores):.0%} of the numbers found again",
                fix="compare the recorded term order and dimensions with the bundle's; is the history a stride apart?",
            )
        ]
    findings = [] if best == expected else [_wrong_layout(view, dims, best, expected, scores, where)]
    return best, findings + _reset_fill(view, dims, best, where)


def consistency(view: View, dims: list[int], layout: HistoryLayout) -> float:
    """Share of the numbers of past frames that are where ``layout`` says, among columns that change."""
    newest = view.observation[..., layout.columns(dims, 0)]
    hits: list[float] = []
    for age in range(1, layout.length):
        rows = view.age[age:] >= age
        past, now = newest[:-age][rows], view.observation[age:][..., layout.columns(dims, age)][rows]
        latest = newest[age:][rows]
        moved = np.abs(past - latest) > 1e-4 * np.maximum(1.0, np.abs(past))  # a constant would agree with anything
        if moved.any():
            hits.append(float((np.abs(past - now) <= 1e-5 * np.maximum(1.0, np.abs(past)))[moved].mean()))
    return float(np.mean(hits)) if hits else 1.0


def _wrong_size(view: View, dims: list[int], expected: HistoryLayout, where: tuple[str, ...]) -> Finding:
    width, bundle = view.observation.shape[2], sum(dims) * expected.length
    difference = abs(width - bundle) / expected.length
    terms = ", ".join(f"{term.term} ({term.dim})" for term in view.contract.observation)
    verb = "has more" if width > bundle else "lacks some"
    frames = f" in each of {expected.length} frames" if expected.length > 1 else ""
    return Finding(
        cause="observation_size",
        where=where,
        what=f"the recorded observation has {width} columns, the bundle builds {bundle}: it {verb}",
        evidence=f"{difference:g} columns{frames}; the bundle's terms are {terms}",
        fix="export or import the policy with the terms that the recorded environment has",
        numbers={"recorded": width, "bundle": bundle},
    )


def _wrong_layout(
    view: View,
    dims: list[int],
    found: HistoryLayout,
    expected: HistoryLayout,
    scores: list[float],
    where: tuple[str, ...],
) -> Finding:
    length = found.length != expected.length
    own = consistency(view, dims, expected) if not length else float("nan")
    return Finding(
        cause="history_layout",
        where=where,
        what=f"the recorded observation is {found}; the bundle builds {expected}",
        evidence=f"numbers of past frames found again: {max(scores):.1%} in the recorded layout"
        + ("" if length else f", {own:.1%} in the bundle's"),
        fix=f"history_length should be {found.length}" if length else f"the history should be built {found}",
        numbers={"recorded": str(found), "bundle": str(expected)},
    )


def _reset_fill(view: View, dims: list[int], layout: HistoryLayout, where: tuple[str, ...]) -> list[Finding]:
    """After a reset, past frames must repeat the first one."""
    rows = view.first & view.start_known & (view.age == 0)
    if layout.length == 1 or not rows.any():
        return []
    newest, oldest = (view.observation[rows][:, layout.columns(dims, age)] for age in (0, layout.length - 1))
    scale = np.maximum(1.0, np.abs(newest))
    if (np.abs(oldest - newest) > 1e-4 * scale).any(1).mean() < 0.5:
        return []
    zero = not np.abs(oldest).max() > 1e-6
    what = "zeros" if zero else "not the first frame"
    return [
        Finding(
            cause="history_layout",
            where=where,
            what=f"after a reset the past frames are {what}; the bundle fills them with the first frame",
            evidence=f"{int(rows.sum())} resets; largest past value {np.abs(oldest).max():.3g}",
            fix="fill the history with the first observation after a reset, or start the bundle's history likewise",
            key="reset",
        )
    ]
