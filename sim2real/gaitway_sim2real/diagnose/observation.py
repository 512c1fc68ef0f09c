"""Compare the recorded observation with the one the bundle would have built, term by term, and name the difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .findings import Finding
from .fit import EXACT, ColumnFit, fit_columns, is_equal, is_white, rms, saturation
from .terms import JOINT_KINDS, SUBTRACTS_POSE, Term
from .view import View

SIGN_BAND = 0.35  # a slope this close to minus the usual one is a flipped sign
EXPLAINS = 0.7  # another quantity must leave less than this share of the residual to be believed
CLOSE_TO = 0.15  # offset within this share of the default pose: it is the default pose
NoteOrFindings = tuple[str, list[Finding]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """A recorded quantity beside its expectation, (T, N, C) each, with words for its columns and for the user."""

    where: str
    found: np.ndarray
    expected: np.ndarray
    columns: Sequence[str]
    usable: np.ndarray  # (T, N) rows that count
    continues: np.ndarray  # (T - 1, N)
    noisy: bool
    pose: np.ndarray | None = None
    """Offset to test for: the default pose, in the unit of ``found``."""
    pose_words: tuple[str, str] = (
        "the default pose is not subtracted: recorded values are absolute positions",
        "observe joint_pos, not joint_pos_rel, or subtract default_joint_pos",
    )
    """Meaning of such an offset, and the fix."""
    clip_cause: str = "observation_clip"
    clip_fix: str = "give the term the clip ({low:.6g}, {high:.6g}) before its scale"
    by_name: Callable[[np.ndarray], str] | None = None
    """A name for an order of the columns."""
    policy_is_expected: bool = False
    """The policy's columns are those of ``expected``, and ``found`` goes by name; else the other way round."""


def check_term(view: View, term: Term, frames: np.ndarray, name_order: Callable[[np.ndarray], str]) -> NoteOrFindings:
    """Check of the columns of one term: a line about the check, and its findings."""
    if term.value is None:
        return f"{term.name}: not checked, {term.why_not}", []
    joint = term.kind in JOINT_KINDS
    start = term.start
    usable = view.age >= 1  # Isaac Lab's derived quantities are a step old after a reset
    if term.kind == "last_action":
        usable = usable & ((view.age >= 2) | view.start_known)
    pose = None
    if term.kind in SUBTRACTS_POSE:
        pose = np.array(view.contract.default_joint_pos) * np.asarray(term.layout.scale)
    case = Compared(
        where=f"observation term {term.name} (columns {start}:{start + term.layout.dim} of the frame)",
        found=frames[..., term.columns],
        expected=term.observed(term.value),
        columns=view.contract.joint_names if joint else [f"column {start + i}" for i in range(term.layout.dim)],
        usable=usable,
        continues=view.continues,
        noisy=view.recording.observation_noise and term.kind not in ("last_action", "generated_commands"),
        pose=pose,
        clip_cause="action_clip" if term.kind == "last_action" else "observation_clip",
        clip_fix="raw_clip should be {high:.6g}" if term.kind == "last_action" else Compared.clip_fix,
        by_name=name_order if joint else None,
    )
    note, findings = compare(case)
    if not findings or _fully_explained(findings):
        return f"{term.name}: {note}", findings
    return _try_alternatives(term, case, note, findings)


def _fully_explained(findings: list[Finding]) -> bool:
    return all(f.cause != "unexplained" and f.numbers.get("residual_share", 1.0) < 0.05 for f in findings)


def _try_alternatives(term: Term, case: Compared, note: str, findings: list[Finding]) -> NoteOrFindings:
    """Test for another quantity altogether. Simple causes stand unless one of these leaves clearly less."""
    found = case.found[case.usable]
    before = rms(found - case.expected[case.usable])
    explained = min((f.numbers.get("residual", before) for f in findings), default=before)
    residuals = [rms(found - term.observed(other.value)[case.usable]) for other in term.alternatives]
    if not residuals or min(residuals) > EXPLAINS * explained:
        return f"{term.name}: {note}", findings
    best = int(np.argmin(residuals))
    other = term.alternatives[best]
    if not other.cause:
        return f"{term.name}: is the velocity of the base link's origin, not of its centre of mass", []
    evidence = f"{term.name}: rms difference {before:.3g} as the bundle builds it, {residuals[best]:.3g} so"
    return f"{term.name}: {other.what}", [
        Finding(
            cause=other.cause,
            where=(case.where,),
            what=other.what,
            evidence=evidence,
            fix=other.fix,
            numbers={"before": before, "after": residuals[best]},
            key=other.what,
        )
    ]


def compare(case: Compared) -> NoteOrFindings:
    """Clip, order, sign, scale and offset of one quantity; "unexplained" if these do not account for it."""
    found, expected = case.found[case.usable], case.expected[case.usable]
    if not len(found):
        return "not checked, no two steps follow each other", []
    if is_equal(found, expected):
        return "as the bundle builds it", []
    if (bounds := saturation(found, expected)) is not None:
        return _clipped(case, bounds)
    fit = fit_columns(found, expected)
    findings = _name(case, fit)
    fitted = fit.slope * case.expected[..., fit.source] + fit.offset
    left = case.found - fitted
    exact = is_equal(found, fitted[case.usable])
    both = case.continues & case.usable[1:] & case.usable[:-1]
    white = is_white(left, both)
    if not exact and not (case.noisy and white):
        share = fit.rms / max(fit.rms_as_is, 1e-12)
        if not findings or share > EXPLAINS:
            findings = [_unexplained(case, fit)]
    if findings:
        return f"differs by {fit.rms_as_is:.3g} (rms)", findings
    return f"as the bundle builds it, with noise of {fit.rms_as_is:.2g} (rms)", []


def _clipped(case: Compared, bounds: tuple[float, float]) -> NoteOrFindings:
    """A plateau explains what it cuts off; the rest is compared again with the plateau in the expectation too."""
    low, high = bounds
    share = float(np.mean((case.found <= low) | (case.found >= high)))
    clipped = replace(case, expected=np.clip(case.expected, low, high))
    fit = fit_columns(case.found[case.usable], clipped.expected[case.usable], reorder=False)
    finding = Finding(
        cause=case.clip_cause,
        where=(case.where,),
        what=f"values are cut off at [{low:.6g}, {high:.6g}], which the bundle does not do",
        evidence=f"{case.where.split(' (')[0]}: {share:.1%} of the numbers sit exactly on a bound; rms difference "
        f"{fit.rms_as_is:.3g} with the clip, {rms((case.found - case.expected)[case.usable]):.3g} without",
        fix=case.clip_fix.format(low=low, high=high),
        numbers={"low": low if np.isfinite(low) else None, "high": high if np.isfinite(high) else None, "share": share},
        key=f"{high:.3g}",
    )
    inside = (case.found > low) & (case.found < high)
    rest = (case.found - clipped.expected)[inside]
    calm = case.noisy or float(np.abs(rest).mean() if rest.size else 0.0) < 10 * EXACT
    if calm:
        return "is clipped", [finding]
    return "is clipped", [finding, *_name(clipped, fit_columns(case.found[case.usable], clipped.expected[case.usable]))]


def _name(case: Compared, fit: ColumnFit) -> list[Finding]:
    """The causes that a column fit shows."""
    share = fit.rms / max(fit.rms_as_is, 1e-12)
    numbers = {"residual": fit.rms, "residual_share": share}
    where, evidence = (case.where,), f"{case.where.split(' (')[0]}: rms difference {fit.rms_as_is:.3g} as the bundle "
    evidence += f"builds it, {fit.rms:.3g} so"
    usual = float(np.median(np.abs(fit.slope)))
    flipped = (np.abs(fit.slope + usual) < SIGN_BAND * usual) & fit.slope_differs
    findings: list[Finding] = []

    def add(cause: str, what: str, fix: str, key: str = "", **more: Any) -> None:
        findings.append(Finding(cause=cause, where=where, what=what, evidence=evidence, fix=fix, key=key,
                                numbers=numbers | more))  # fmt: skip

    if fit.reordered:
        source = np.argsort(fit.source) if case.policy_is_expected else fit.source
        order = [case.columns[i] for i in source]
        name = case.by_name(source) if case.by_name else ""
        what = f"the policy's columns are in {name or 'another'} order: {', '.join(order)}"
        cause, remedy = "frame", "reorder the components"
        if case.by_name:
            cause, remedy = "joint_order", f"joint_names of the policy should be [{', '.join(order)}]"
        add(cause, what, remedy, str(source.tolist()), order=order)
    if flipped.any():
        names = [case.columns[i] for i in fit.source[flipped]]
        listed = ", ".join(names)
        remedy = f"negate {listed} where the policy reads or commands it, or turn the joint's axis"
        add("sign", f"the sign of {listed} is flipped", remedy, str(names), columns=names)
    size = np.abs(fit.slope)
    if scaled := [i for i in range(len(size)) if fit.slope_differs[i] and abs(size[i] - 1.0) > 0.05]:
        factor = float(np.median(size[scaled]))
        same = np.ptp(size[scaled]) < 0.1 * factor and len(scaled) > 1
        listed = "all columns" if same and len(scaled) == len(size) else ", ".join(case.columns[i] for i in scaled)
        factors = f"{factor:.4g}" if same or len(scaled) == 1 else ", ".join(f"{size[i]:.3g}" for i in scaled)
        what = f"{listed}: recorded values are {factors} times the bundle's"
        add("scale", what, f"multiply the bundle's scale by {factor:.4g}", factors=size.tolist())
    if fit.offset_differs.any():
        moved = np.flatnonzero(fit.offset_differs)
        listed = ", ".join(f"{case.columns[fit.source[i]]} {fit.offset[i]:+.3g}" for i in moved)
        words = f"recorded values are shifted: {listed}", "correct the default pose or offset that the bundle uses"
        pose = None if case.pose is None else case.pose[fit.source]
        if pose is not None and np.abs(fit.offset - pose).max() < CLOSE_TO * np.abs(pose).max():
            words = case.pose_words
        add("offset", *words, offsets=fit.offset.tolist())
    return findings


def _unexplained(case: Compared, fit: ColumnFit) -> Finding:
    return Finding(
        cause="unexplained",
        where=(case.where,),
        what="recorded values are not those that the bundle builds, and no known cause accounts for it",
        evidence=f"rms difference {fit.rms_as_is:.3g}; {fit.rms:.3g} after the best order, sign, scale and offset",
        fix="compare the term's function, its parameters and its signals in both environments",
        numbers={"residual": fit.rms, "residual_share": 1.0},
    )
