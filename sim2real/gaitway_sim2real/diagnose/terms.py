"""Expected values of each observation term by the bundle, from the recorded states, with the usual mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import TermLayout
from gaitway_onboard.rotation import quat_apply, quat_apply_inverse
from gaitway_tasks.vocabulary import BY_ISAACLAB, OBSERVATIONS

from .view import View

DOWN = np.array([0.0, 0.0, -1.0])
SCAN_OFFSET = 0.5  # [m], of the term height_scan
BY_SIGNAL = {row.signal: name for name, row in OBSERVATIONS.items() if row.inverse}
JOINT_KINDS = tuple(name for name, row in OBSERVATIONS.items() if row.mirror == "joints")
SUBTRACTS_POSE = tuple(name for name, row in OBSERVATIONS.items() if row.inverse == "plus default pose")


@dataclass(frozen=True, kw_only=True, eq=False)
class Alternative:
    """Another quantity that a term is sometimes mistaken for."""

    cause: str
    what: str
    fix: str
    value: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Term:
    """One term of the policy's frame: its place, and its raw value before clip and scale, (T, N, dim)."""

    layout: TermLayout
    kind: str
    start: int
    value: np.ndarray | None
    """None where nothing recorded says what it should be."""
    why_not: str
    alternatives: tuple[Alternative, ...]

    @property
    def name(self) -> str:
        return self.layout.term

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.layout.dim)

    def observed(self, raw: np.ndarray) -> np.ndarray:
        """``raw`` as the bundle puts it into the observation: clip, then scale."""
        clip = self.layout.clip
        return (raw if clip is None else np.clip(raw, *clip)) * np.asarray(self.layout.scale)


def expected_terms(view: View, bundle: Path) -> list[Term]:
    """Every term of the contract's observation, in order."""
    kinds, start, terms = _kinds(view.contract, bundle), 0, []
    for layout, kind in zip(view.contract.observation, kinds, strict=True):
        value, why_not = _value(view, kind)
        if value is not None and value.shape[-1] != layout.dim:
            why_not = f"it has {layout.dim} numbers where {kind} has {value.shape[-1]}"
            value = None
        alternatives = () if value is None else tuple(_alternatives(view, kind))
        terms.append(
            Term(layout=layout, kind=kind, start=start, value=value, why_not=why_not, alternatives=alternatives)
        )
        start += layout.dim
    return terms


def _kinds(contract: Contract, bundle: Path) -> list[str]:
    """The function behind each term: its name in io_descriptors.yaml, else by the signal it reads."""
    names: dict[Any, str] = {}
    try:
        content = read_yaml(bundle / "io_descriptors.yaml") or {}
        described = content.get("observations", {}).get("policy", [])
        names = {
            row.get("extras", {}).get("term"): str(row.get("full_path") or "").rpartition(".")[2] for row in described
        }
    except (FileError, AttributeError, TypeError):  # of another program
        pass
    kinds = []
    for term in contract.observation:
        by_signal = BY_SIGNAL.get(term.signals[0], "") if len(term.signals) == 1 else ""
        name = names.get(term.term, "")
        kinds.append(BY_ISAACLAB.get(name, name) or by_signal)
    return kinds


def _value(view: View, kind: str) -> tuple[np.ndarray | None, str]:
    known: dict[str, Callable[[], np.ndarray]] = {
        "base_lin_vel": lambda: view.lin_vel_b if view.com_lin_vel_b is None else view.com_lin_vel_b,
        "base_ang_vel": lambda: view.ang_vel_b,
        "projected_gravity": lambda: quat_apply_inverse(view.quat, np.broadcast_to(DOWN, view.lin_vel_b.shape)),
        "generated_commands": lambda: view.command,
        "joint_pos_rel": lambda: view.joint_pos - np.array(view.contract.default_joint_pos),
        "joint_pos": lambda: view.joint_pos,
        "joint_vel_rel": lambda: view.joint_vel,
        "last_action": lambda: last_action(view),
    }
    if kind in known:
        return known[kind](), ""
    if kind == "height_scan":
        scan = view.recording.height_scan
        return (None, "the recording has no height_scan") if scan is None else (scan.astype(float) - SCAN_OFFSET, "")
    return None, f"its function {kind or 'is undescribed and'} is not known here"


def last_action(view: View, age: int = 1) -> np.ndarray:
    """The action ``age`` steps ago, clamped as the contract says; 0 before an episode's first."""
    limit = view.contract.action.raw_clip
    action = view.action if limit is None else np.clip(view.action, -limit, limit)
    past = np.concatenate([np.zeros_like(action[:age]), action[:-age]])
    return np.where((view.age >= age)[..., None], past, 0.0)


def _alternatives(view: View, kind: str) -> list[Alternative]:
    wrong = np.roll(view.quat, -1, axis=-1), np.roll(view.quat, 1, axis=-1)  # x, y, z, w taken for w, x, y, z; reverse
    order = "a quaternion of order {} was read as {}"
    orders = (order.format("x, y, z, w", "w, x, y, z"), order.format("w, x, y, z", "x, y, z, w"))
    order_fix = "give the rotation its own component order (Isaac Lab 2.3, MuJoCo: w first; Isaac Lab 3.0, ROS: w last)"
    found: list[Alternative] = []

    def add(cause: str, what: str, fix: str, value: np.ndarray) -> None:
        found.append(Alternative(cause=cause, what=what, fix=fix, value=value))

    if kind in ("base_lin_vel", "base_ang_vel"):
        in_base, in_world = (
            (view.lin_vel_b, view.lin_vel_w) if kind == "base_lin_vel" else (view.ang_vel_b, view.ang_vel_w)
        )
        quantity = "velocity" if kind == "base_lin_vel" else "angular velocity"
        add("frame", f"the {quantity} is in the world frame", f"rotate the {quantity} into the base frame", in_world)
        add(
            "frame",
            f"the {quantity} was rotated into the base frame twice",
            f"rotate the {quantity} once: what the simulator gives is in the base frame already",
            quat_apply_inverse(view.quat, in_base),
        )
        add(
            "frame",
            f"the world-frame {quantity} was rotated by the base's orientation instead of its inverse",
            "use the inverse rotation (quat_apply_inverse)",
            quat_apply(view.quat, in_world),
        )
        for quat, what in zip(wrong, orders, strict=True):
            add("quaternion_order", what, order_fix, quat_apply_inverse(quat, in_world))
    if kind == "base_lin_vel" and view.com_lin_vel_b is not None:
        add("", "", "", view.lin_vel_b)
    if kind == "projected_gravity":
        down = np.broadcast_to(DOWN, view.lin_vel_b.shape)
        for quat, what in zip(wrong, orders, strict=True):
            add("quaternion_order", what, order_fix, quat_apply_inverse(quat, down))
        add(
            "frame",
            "gravity was rotated by the base's orientation instead of its inverse",
            "use the inverse rotation (quat_apply_inverse)",
            quat_apply(view.quat, down),
        )
        add("frame", "gravity is in the world frame", "rotate gravity into the base frame", down)
    if kind == "last_action":
        add(
            "delay",
            "the action of two steps ago stands where the last one should",
            "feed the action of the previous step",
            last_action(view, 2),
        )
    return found
