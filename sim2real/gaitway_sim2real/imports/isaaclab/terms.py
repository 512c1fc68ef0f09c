"""Conversion of Isaac Lab's observation terms to Gaitway's: functions, columns, joints and history.

A policy of Isaac Lab may read a subset of joints, give each term a history of its own, or concatenate several groups.
Our observation group has whole terms and one history length, so it is made as large as needed and the policy's columns
are picked from it: :attr:`PolicyObservation.columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaitway_onboard.bundle.parts import HeightScan
from gaitway_tasks.mdp import observations
from gaitway_tasks.spec import MAX_HISTORY, HeightScanner, ObservationGroup, ObservationTerm
from gaitway_tasks.vocabulary import BY_ISAACLAB, OBSERVATIONS

from .config import Opaque, Settings, given
from .errors import IsaacLabImportError
from .names import matching

MODULES = (
    "isaaclab.envs.mdp",
    "omni.isaac.lab.envs.mdp",
    "isaaclab_tasks.manager_based.locomotion.velocity.mdp",
    "gaitway_tasks.mdp.observations",
)
"""Modules in which a function of a known name is the known function."""

OWN = "gaitway_isaaclab.terms"
"""Gaitway's own terms in Isaac Lab: the name is the dotted path of the function, and joints are in the order of the
actions, independently of the simulator's order."""

GROUP_SETTINGS = {
    "concatenate_terms", "concatenate_dim", "enable_corruption", "history_length", "flatten_history_dim",
    "history_order",
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """One of our terms, the kind of its columns, and the parameters of Isaac Lab's function that it understands."""

    func: Callable[..., Any]
    kind: str
    params: frozenset[str] = frozenset({"asset_cfg"})


PARAMS = {
    "command": {"command_name"},
    "action": {"action_name"},
    "height_scan": {"sensor_cfg", "sensor", "offset"},
}
"""Parameters of Isaac Lab's functions that read these signals; others have the robot."""


def _known(name: str) -> Known:
    row, func = OBSERVATIONS[name], getattr(observations, name)
    if row.signal in PARAMS:
        return Known(func, row.signal, frozenset(PARAMS[row.signal]))
    return Known(func, "joints" if row.mirror == "joints" else "vector")


KNOWN = {function: _known(name) for function, name in BY_ISAACLAB.items() if OBSERVATIONS[name].inverse}
"""Our terms by the name of Isaac Lab's function. A run whose default joint velocities are not zero is refused."""

FIX = (
    f"known observation functions are {', '.join(KNOWN)} of isaaclab.envs.mdp; replace the term in the task and train "
    f"again, or write the Gaitway task by hand and export the actor with gaitway_sim2real.bundle.export.export_bundle"
)


@dataclass(frozen=True)
class RobotNames:
    """Facts about the rest of the run that the mapping of terms needs."""

    joint_names: tuple[str, ...]
    """Joints in the training simulator's order, which the bundle keeps."""
    action_joints: Mapping[str, Sequence[str]]
    """Joints of each action term, in the order of its numbers."""
    asset: str
    """Name of the robot in the scene."""
    base_names: tuple[str, ...]
    """Names that the body under the height scanner may have to be the base."""


@dataclass
class PolicyObservation:
    """The policy's input in Gaitway's terms."""

    group: ObservationGroup
    columns: tuple[int, ...]
    """Column in the observation of ``group`` of each number that the policy reads."""
    widths: dict[str, int]
    """Numbers of each term that the policy reads, history included."""
    functions: dict[str, str]
    """Isaac Lab's function of each term."""
    commands: tuple[str, ...]
    scanners: dict[str, HeightScanner]
    notes: list[str] = field(default_factory=list)


@dataclass
class _Mapped:
    label: str
    function: str
    term: ObservationTerm
    full: int
    """Columns of our term."""
    selection: list[int]
    """Columns that the policy reads."""
    history: int
    block: int = 0
    """Terms of one block are read step by step, those of others one after the other."""


def map_observations(env: Settings, groups: Sequence[str], names: RobotNames, problems: list[str]) -> PolicyObservation:
    """The concatenation of the observation ``groups`` of ``env``; unmapped terms are added to ``problems``."""
    mapped: list[_Mapped] = []
    notes: list[str] = []
    scanners: dict[str, HeightScanner] = {}
    all_groups = env.child("observations")
    for group_name in groups:
        if group_name not in all_groups:
            raise IsaacLabImportError(
                f"agent.yaml's actor reads the observation group {group_name!r}, which env.yaml does not have"
            )
        group = all_groups.child(group_name)
        if not group.get("concatenate_terms", bool, True) or group.get("concatenate_dim", int, -1) not in (-1, 0):
            problems.append(f"observation group {group_name!r}: its terms are not concatenated to one vector")
        first, by_time = len(mapped), _by_time(group)
        for name, value in group.data.items():
            if name in GROUP_SETTINGS or not given(value):
                continue
            label = name if len(groups) == 1 else f"{group_name}.{name}"
            try:
                term = _map_term(label, group.child(name), group, env, names, scanners, notes)
            except IsaacLabImportError as problem:
                problems.append(f"observation term {label!r}: {problem}")
                continue
            term.block = first if by_time else len(mapped)
            mapped.append(term)
    return _assemble(mapped, scanners, notes)


def _assemble(mapped: list[_Mapped], scanners: dict[str, HeightScanner], notes: list[str]) -> PolicyObservation:
    history = max((term.history for term in mapped), default=1)
    if history > MAX_HISTORY:
        raise IsaacLabImportError(f"a history of {history} frames: at most {MAX_HISTORY} are read")
    read: dict[tuple[int, int, int], list[int]] = {}
    start = 0
    for place, entry in enumerate(mapped):
        for age in range(history - entry.history, history):
            read[entry.block, age, place] = [start + age * entry.full + column for column in entry.selection]
        start += entry.full * history
    commands = [entry.term.params["command_name"] for entry in mapped if "command_name" in entry.term.params]
    return PolicyObservation(
        group=ObservationGroup(terms={entry.label: entry.term for entry in mapped}, history_length=history),
        columns=tuple(column for _, columns in sorted(read.items()) for column in columns),
        widths={entry.label: len(entry.selection) * entry.history for entry in mapped},
        functions={entry.label: entry.function for entry in mapped},
        commands=tuple(dict.fromkeys(commands)),
        scanners=scanners,
        notes=notes,
    )


def _map_term(
    label: str,
    node: Settings,
    group: Settings,
    env: Settings,
    names: RobotNames,
    scanners: dict[str, HeightScanner],
    notes: list[str],
) -> _Mapped:
    function = node.require("func", str)
    module, _, name = function.partition(":")
    if own := module == OWN:
        module, _, name = name.rpartition(".")
    known = KNOWN.get(name)
    if known is None or not any(module == m or module.startswith(f"{m}.") for m in MODULES):
        raise IsaacLabImportError(f"{function} is not known")
    if given(node.data.get("modifiers")):
        raise IsaacLabImportError(f"{function} passes through modifiers, which are not supported")
    params = Settings(node.get("params", dict, {}), f"{node.where}.params")
    if surplus := [key for key, value in params.data.items() if key not in known.params and given(value)]:
        raise IsaacLabImportError(f"{function} is given the parameter {surplus[0]!r}, which is not supported")
    history, flat = _history(node, group)
    if history > 1 and not flat:
        raise IsaacLabImportError(f"{function} keeps its history as a dimension of its own (flatten_history_dim)")
    if lag := node.get("delay_max_lag", int, 0):
        notes.append(
            f"{label}: up to {lag} control steps late in training (delay_max_lag); the bundle reads it at once"
        )
    ours: dict[str, Any] = {}
    joints = list(names.joint_names)
    full, selection = 3, [0, 1, 2]
    if known.kind in ("vector", "joints"):
        selected = _action_joints(Settings({}, ""), names) if own else _joints(params, names, function)
        if known.kind == "joints":
            full, selection = len(joints), [joints.index(joint) for joint in selected]
    elif known.kind == "command":
        ours["command_name"] = params.require("command_name", str)
    elif known.kind == "action":
        full, selection = len(joints), [joints.index(joint) for joint in _action_joints(params, names)]
    else:
        sensor = params.require("sensor", str) if own else params.child("sensor_cfg").require("name", str)
        scanners[sensor] = _scanner(env, sensor, names, notes)
        ours |= {"sensor": sensor, "offset": float(params.get("offset", float, 0.5))}
        full = len(HeightScan(resolution=scanners[sensor].resolution, size=scanners[sensor].size).points())
        selection = list(range(full))
    term = ObservationTerm(
        func=known.func, params=ours, clip=_clip(node), scale=_scale(node, function, full, selection)
    )
    return _Mapped(label, function, term, full, selection, history)


def _history(node: Settings, group: Settings) -> tuple[int, bool]:
    """History length and whether it is flattened; the group's settings overrule the term's (Isaac Lab's rule)."""
    length = group.get("history_length", int)
    source = node if length is None else group
    length = node.get("history_length", int, 0) if length is None else length
    return max(1, length), source.get("flatten_history_dim", bool, True)


def _by_time(group: Settings) -> bool:
    """True if the terms of a group with one history are laid out step by step (Isaac Lab's rule for ``"time"``)."""
    order = group.get("history_order", str, "term")
    if order not in ("term", "time"):
        raise IsaacLabImportError(f"{group.where}.history_order is {order!r}; Isaac Lab has 'term' and 'time'")
    return order == "time" and group.get("concatenate_dim", int, -1) == -1 and bool(group.get("history_length", int))


def _joints(params: Settings, names: RobotNames, function: str) -> list[str]:
    """The joints that a term's ``asset_cfg`` selects, in the order of its numbers; all without one."""
    if "asset_cfg" not in params:
        return list(names.joint_names)
    asset = params.child("asset_cfg")
    if (name := asset.get("name", str, names.asset)) != names.asset:
        raise IsaacLabImportError(f"{function} reads {name!r}, not the robot {names.asset!r}")
    if patterns := asset.get("joint_names", (str, list, tuple)):
        return matching(
            patterns, names.joint_names, asset.where, preserve_order=asset.get("preserve_order", bool, False)
        )
    ids = asset.get("joint_ids", (slice, list, tuple), slice(None))
    try:
        return list(names.joint_names[ids]) if isinstance(ids, slice) else [names.joint_names[i] for i in ids]
    except (IndexError, TypeError):
        raise IsaacLabImportError(
            f"{asset.where}.joint_ids is {ids!r}, for a robot with {len(names.joint_names)} joints"
        ) from None


def _action_joints(params: Settings, names: RobotNames) -> list[str]:
    if (name := params.get("action_name", str)) is None:
        return [joint for joints in names.action_joints.values() for joint in joints]
    if name not in names.action_joints:
        raise IsaacLabImportError(f"reads the action {name!r}; there are {', '.join(names.action_joints)}")
    return list(names.action_joints[name])


def _clip(node: Settings) -> tuple[float, float] | None:
    clip = node.get("clip", (tuple, list))
    if clip is None:
        return None
    if len(clip) != 2:
        raise IsaacLabImportError(f"{node.where}.clip is {clip!r}; expected (low, high)")
    return float(clip[0]), float(clip[1])


def _scale(node: Settings, function: str, full: int, selection: list[int]) -> float | tuple[float, ...]:
    scale = node.data.get("scale")
    if isinstance(scale, Opaque):
        raise IsaacLabImportError(f"the scale of {function} was written as a Python object ({scale.tag})")
    scale = node.get("scale", (float, tuple, list), 1.0)
    if not isinstance(scale, (tuple, list)):
        return float(scale)
    if len(scale) != len(selection):
        raise IsaacLabImportError(f"{node.where}.scale has {len(scale)} numbers for a term of {len(selection)}")
    factors = [1.0] * full
    for column, factor in zip(selection, scale, strict=True):
        factors[column] = float(factor)
    return tuple(factors)


def _scanner(env: Settings, sensor: str, names: RobotNames, notes: list[str]) -> HeightScanner:
    """The scene's ray caster as a yaw-aligned grid under the base; anything else is refused."""
    node = env.child("scene").child(sensor)
    pattern = node.child("pattern_cfg")
    offset = Settings(node.get("offset", dict, {}), f"{node.where}.offset").get("pos", (tuple, list), (0.0, 0.0, 0.0))
    alignment = node.get("ray_alignment", str, "base")
    if node.get("attach_yaw_only", bool, False):
        alignment = "yaw"
    faults = {
        f"its pattern is {pattern.get('func', str)}": not pattern.get("func", str, "").endswith(":grid_pattern"),
        f"its ordering is {pattern.get('ordering', str)!r}": pattern.get("ordering", str, "xy") != "xy",
        f"its rays are aligned with {alignment!r}, not 'yaw'": alignment != "yaw",
        "its rays do not point down": tuple(pattern.get("direction", (tuple, list), (0, 0, -1))) != (0, 0, -1),
        f"it is offset sideways by {tuple(offset[:2])}": tuple(offset[:2]) != (0, 0),
    }
    for fault, present in faults.items():
        if present:
            raise IsaacLabImportError(f"the ray caster {sensor!r} is no yaw-aligned grid under the base: {fault}")
    body = node.require("prim_path", str).rpartition("/")[2]
    if body not in names.base_names:
        notes.append(
            f"height scan {sensor!r} hung from the body {body!r} in training; the bundle's is that of the base"
        )
    size = pattern.require("size", (tuple, list))
    return HeightScanner(resolution=float(pattern.require("resolution", float)), size=(float(size[0]), float(size[1])))
