"""Check of the actions: the bundle's graph gives the recorded actions, and these give the recorded targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import projected_gravity
from gaitway_tasks.vocabulary import OBSERVATIONS, SIGNALS

from ..bundle.batched_policy import BatchedPolicy
from .findings import Finding
from .fit import EXACT, affine, is_equal, rms, saturation
from .history import HistoryLayout, contract_layout
from .observation import Compared, NoteOrFindings, compare
from .seen_command import limited_columns, told
from .terms import SCAN_OFFSET, Term, last_action
from .view import View

SAME_POLICY = 0.3  # residual over spread of the actions, above which they are another policy's
MAX_LAG = 4  # control steps


def check_policy(view: View, terms: list[Term], bundle: Path) -> NoteOrFindings:
    """Feed the graph the signals and the state that make it see exactly the recorded observation.

    Column by column, whatever the columns hold: the network that made the actions saw these numbers in these places.
    """
    layout = contract_layout(view.contract)
    dims = [term.layout.dim for term in terms]
    frames = view.observation[..., layout.columns(dims, 0)]
    signals, unknown = _signals_behind(view, terms, frames)
    signals = {name: signals[name] for name in view.contract.input_names if name in signals}
    if unknown:
        return f"policy: not checked, nothing leads back from {', '.join(unknown)} to the graph's inputs", []
    usable = _reachable(terms, frames)
    contract = view.contract
    signals["command"], known = told(contract, signals["command"])
    usable = usable & known
    history = sum(dims) * layout.length if layout.length > 1 else 0
    memory = contract.state_dim - 1 - contract.num_joints - history
    if memory:
        usable = usable & view.start_known
    if usable.sum() < 20:
        return "policy: not checked, too few steps whose past is known", []
    actor = BatchedPolicy(bundle / "policy.onnx", contract, 1)
    past = np.concatenate([frames[..., :0], *_past(view, dims, layout)], -1) if history else frames[..., :0]
    last = next((frames[..., t.columns] / _scale(t) for t in terms if t.kind == "last_action"), last_action(view))
    computed = _run(actor, signals, last, past, memory, limited_columns(contract), view.first)
    limit = contract.action.raw_clip
    recorded = view.action if limit is None else np.clip(view.action, -limit, limit)
    return _compare_policy(view, recorded, computed, usable)


def _compare_policy(view: View, recorded: np.ndarray, computed: np.ndarray, usable: np.ndarray) -> NoteOrFindings:
    found, known = recorded[usable], computed[usable]
    if is_equal(found, known):
        return "policy: the graph gives the recorded actions", []
    if (bounds := saturation(found, known)) is not None:
        low, high = bounds
        left = rms(found - np.clip(known, low, high))
        if left < 0.2 * rms(found - known):
            return "policy: recorded actions are clipped", [_clip_finding("the policy's actions", low, high, found)]
    fit = affine(found, known)
    share = float(np.median(fit.residual / np.maximum(found.std(0), 1e-9)))
    difference = rms(found - known)
    if share < SAME_POLICY and not fit.slope_differs.any():
        return f"policy: the graph gives the recorded actions, with noise of {difference:.2g} (rms)", []
    correlations = [np.corrcoef(found[:, j], known[:, j])[0, 1] for j in range(found.shape[1]) if known[:, j].std() > 0]
    return "policy: the graph gives other actions", [
        Finding(
            cause="policy",
            where=("policy.onnx",),
            what="given the recorded observations, the bundle's graph computes other actions than were recorded",
            evidence=f"rms difference {difference:.3g} of actions with spread {found.std():.3g}; median correlation "
            f"{np.median(correlations) if correlations else 0.0:.2f}",
            fix="export or import the checkpoint that was recorded, with its observation normaliser",
            numbers={"difference": difference},
        )
    ]


def check_targets(view: View, name_order: Callable[[np.ndarray], str]) -> NoteOrFindings:
    """Check that the bundle makes the recorded joint targets from the recorded actions."""
    if view.target is None:
        return "joint targets: not recorded; the dynamics check uses those that the bundle would make", []
    contract, action = view.contract, view.contract.action
    scale, offset = np.array(action.scale), np.array(action.offset)
    usable = np.full(view.first.shape, True)
    found = (view.target - offset) / np.where(scale == 0.0, 1.0, scale)
    expected = (targets_of(contract, view.action) - offset) / np.where(scale == 0.0, 1.0, scale)
    if is_equal(found[usable] * scale, expected[usable] * scale):
        return "joint targets: as the bundle makes them of the recorded actions", []
    lag, lagged = _lag(view, found, expected)
    findings = []
    if lag:
        findings.append(
            Finding(
                cause="delay",
                where=("joint targets",),
                what=f"joint targets follow the action of {lag} control step{'s' * (lag > 1)} ago",
                evidence=f"rms difference {rms((found - expected)[view.age >= lag]):.3g} without the delay, "
                f"{rms((found - lagged)[view.age >= lag]):.3g} with it (in units of the action)",
                fix=f"apply actions {lag * contract.control_dt * 1e3:g} ms late, or record without the delay",
                numbers={"steps": lag, "seconds": lag * contract.control_dt},
            )
        )
        usable = view.age >= lag
        if is_equal(found[usable] * scale, lagged[usable] * scale):
            return "joint targets: late", findings
    case = Compared(
        where="joint targets (in units of the action)",
        found=found,
        expected=lagged,
        columns=contract.joint_names,
        usable=usable,
        continues=view.continues,
        noisy=False,
        pose=-offset / np.where(scale == 0.0, 1.0, scale),
        pose_words=(
            "the action's offset is not added: targets are scale * action alone",
            "action offset should be 0 (use_default_offset=False)",
        ),
        by_name=name_order,
        policy_is_expected=True,
    )
    bounds = saturation(found[usable], lagged[usable])
    if bounds is not None:
        findings.append(_clip_finding("joint targets", *bounds, found[usable]))
        case = replace(case, expected=np.clip(lagged, *bounds))
    note, more = compare(case)
    return f"joint targets: {note}", findings + more


def targets_of(contract: Contract, action: np.ndarray) -> np.ndarray:
    """Joint position targets [rad] that the bundle makes of raw actions (..., J)."""
    law = contract.action
    if law.raw_clip is not None:
        action = np.clip(action, -law.raw_clip, law.raw_clip)
    target = np.array(law.offset) + np.array(law.scale) * action
    return target if law.clip is None else np.clip(target, *np.array(law.clip).T)


def shifted(view: View, values: np.ndarray, lag: int) -> np.ndarray:
    """``values`` (T, N, J) of ``lag`` steps ago; rows whose episode is younger repeat its first."""
    if not lag:
        return values
    index = np.arange(len(values))[:, None] - np.minimum(lag, view.age)
    return values[index, np.arange(values.shape[1])[None]]


def _lag(view: View, found: np.ndarray, expected: np.ndarray) -> tuple[int, np.ndarray]:
    usable = view.age >= MAX_LAG
    shifts = [shifted(view, expected, lag) for lag in range(MAX_LAG + 1)]
    left = [float(np.median(affine(found[usable], s[usable]).residual)) for s in shifts]
    best = int(np.argmin(left))
    if left[best] > 0.5 * left[0] or left[0] < EXACT:
        best = 0
    return best, shifts[best]


def _clip_finding(where: str, low: float, high: float, found: np.ndarray) -> Finding:
    share = float(np.mean((found <= low) | (found >= high)))
    low, high = (float(f"{bound:.6g}") if np.isfinite(bound) else bound for bound in (low, high))
    return Finding(
        cause="action_clip",
        where=(where,),
        what=f"actions are clipped to [{low:g}, {high:g}], which the bundle does not do",
        evidence=f"{where}: {share:.1%} of the numbers sit exactly on a bound",
        fix=f"raw_clip should be {max(abs(low), abs(high)) if np.isfinite(low + high) else high:g}",
        numbers={"low": low if np.isfinite(low) else None, "high": high if np.isfinite(high) else None, "share": share},
        key=f"{high:.3g}",
    )


def _scale(term: Term) -> np.ndarray:
    scale = np.asarray(term.layout.scale, float)
    return np.where(scale == 0.0, 1.0, scale)


def _signals_behind(view: View, terms: list[Term], frames: np.ndarray) -> tuple[dict[str, np.ndarray], list[str]]:
    """Graph inputs (T, N, d) that make the graph build ``frames``, and the terms that no input leads to."""
    pose = np.array(view.contract.default_joint_pos)
    zeros = np.zeros(view.joint_pos.shape)
    signals = {
        "joint_pos": zeros + pose,
        "joint_vel": zeros,
        "imu_quat_wxyz": view.quat,
        "gyro": view.ang_vel_b,
        "command": view.command,
    }
    inverse: dict[str | None, Callable[[np.ndarray], np.ndarray]] = {
        "same": lambda x: x,
        "plus default pose": lambda x: x + pose,
        "plus offset": lambda x: x + SCAN_OFFSET,
        "gravity": quat_of_gravity,
    }
    unknown = []
    for term in terms:
        row = OBSERVATIONS.get(term.kind)
        if row is not None and row.inverse in inverse:
            name = SIGNALS[row.signal].input
            assert name is not None
            signals[name] = inverse[row.inverse](frames[..., term.columns] / _scale(term))
        elif row is None or row.inverse not in ("last action", "clock"):  # the graph has these in its state
            unknown.append(term.name)
    unknown += [name for name in view.contract.estimated if name not in signals]
    return signals, unknown


def quat_of_gravity(gravity: np.ndarray) -> np.ndarray:
    """Four numbers w, x, y, z that the closed form of projected gravity maps to ``gravity`` (..., 3), which may be no
    unit vector; impossible below z = -1, where the nearest is given."""
    gx, gy, gz = np.moveaxis(gravity, -1, 0)
    square = np.maximum((gz + 1.0) / 2.0, 0.0)
    y = np.sqrt(square)
    safe = np.maximum(y, 1e-4)
    w, z = gx / (2.0 * safe), -gy / (2.0 * safe)
    level = y < 1e-4
    return np.stack([np.where(level, 1.0, w), np.zeros_like(w), np.where(level, 0.0, y), np.where(level, 0.0, z)], -1)


def _reachable(terms: list[Term], frames: np.ndarray) -> np.ndarray:
    """Rows whose gravity some quaternion gives (see :func:`quat_of_gravity`)."""
    for term in terms:
        if term.kind == "projected_gravity":
            gravity = frames[..., term.columns] / _scale(term)
            again = projected_gravity(quat_of_gravity(gravity))
            result: np.ndarray = np.abs(again - gravity).max(-1) < 1e-5
            return result
    return np.full(frames.shape[:2], True)


def _past(view: View, dims: list[int], layout: HistoryLayout) -> list[np.ndarray]:
    """The H frames the graph's state holds before a step, oldest first; the first is about to be dropped."""
    ages = [layout.length - 1, *range(layout.length - 1, 0, -1)]
    return [view.observation[..., layout.columns(dims, age)] for age in ages]


def _run(
    actor: BatchedPolicy,
    signals: dict[str, np.ndarray],
    last: np.ndarray,
    past: np.ndarray,
    memory: int,
    limited: slice | None,
    first: np.ndarray,
) -> np.ndarray:
    """Raw actions (T, N, J). With a memory step by step, else all at once.

    ``limited`` is where the state has the command, so that nothing limits how fast that changes.
    """
    steps, n = first.shape
    started = np.ones((steps, n, 1))
    if not memory:
        rows = {name: value.reshape(steps * n, -1) for name, value in signals.items()}
        actor.state = np.concatenate([started, last, past], -1).reshape(steps * n, -1).astype(np.float32)
        return actor(rows)[1].reshape(steps, n, -1)
    kept, actions = np.zeros((n, memory), np.float32), []
    for t in range(steps):
        kept = np.where(first[t][:, None], 0.0, kept)
        actor.state = np.concatenate([started[t], last[t], past[t], kept], -1).astype(np.float32)
        if limited is not None:
            actor.state[:, limited] = signals["command"][t]
        actions.append(actor({name: value[t] for name, value in signals.items()})[1])
        kept = actor.state[:, -memory:]
    return np.array(actions)
