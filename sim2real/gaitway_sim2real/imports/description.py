"""Description: all that must be known to run somebody's policy, as data that a file can hold.

Every reader of a family gives one; ``gaitway import --describe FILE.yaml`` reads one that you wrote. Vectors of joints
are in the policy's own order, the order of ``joints``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaitway_files.patterns import matches
from gaitway_tasks.spec import MAX_DECIMATION

from .errors import PolicyImportError

OLDEST = 1000
"""Greatest age of a frame; published policies have up to 50."""
WIDEST = 100_000
"""Most numbers of an observation, history and all; published policies have up to 2,000."""
MOST = 256
"""Most joints, terms of an observation and patterns of names; published policies have up to 60, 20 and 30."""
CONTROL_DT = (0.0001, 1.0)
"""Shortest and longest time from one action to the next [s]."""
Numbers = tuple[float, ...]
Range = tuple[float, float]
TWIST = ("lin_vel_x", "lin_vel_y", "ang_vel_z")
TERMS: dict[str, int | str] = {
    "base_ang_vel": 3, "base_lin_vel": 3, "projected_gravity": 3, "euler_xyz": 3, "generated_commands": 3,
    "joint_pos": "joints", "joint_pos_rel": "joints", "joint_vel_rel": "joints", "last_action": "action",
    "phase": "clock", "phase_sin": "clock", "phase_cos": "clock", "moving": 1, "constant": 1,
}  # fmt: skip
"""Terms of an observation, and the numbers of each."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One term of the observation: ``scale * clamp(term, clip)``, as Isaac Lab has it."""

    term: str
    """One of :data:`TERMS`."""
    scale: float | Numbers = 1.0
    clip: Range | None = None
    columns: tuple[int, ...] | None = None
    """Columns that the policy reads, in its order; None reads all."""
    ages: tuple[int, ...] | None = None
    """Frames of this term, where they are others than the history's."""
    zeroed: tuple[str, ...] = ()
    """Joints whose numbers are 0 whatever they do: wheels, or a head that did not move in training."""
    at: tuple[float, float, float] | None = None
    """Point of the base whose velocity ``base_lin_vel`` is [m]; None is the base's origin."""
    value: float | Numbers = 0.0
    """Number of a ``constant``, or its numbers."""


@dataclass(frozen=True, kw_only=True)
class History:
    """Frames of the observation that the policy reads."""

    ages: tuple[int, ...] = (0,)
    """Control steps ago of each frame, in the policy's order: (2, 1, 0) is oldest first."""
    by: str = "term"
    """``term``: all frames of a term, then the next term; ``step``: all terms of a frame, then the next frame."""
    fill: str = "first"
    """Filling of frames before the first: ``first`` (the first, repeated) or ``zeros``."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Phase of the gait, one number for each of ``offsets``.

    The terms ``phase`` (in cycles, from 0 to below 1), ``phase_sin`` and ``phase_cos`` read it; ``moving`` is 0 where
    the robot rests, else 1.
    """

    frequency: float
    """[Hz]"""
    faster: float = 0.0
    """Increase of the frequency [Hz] at a command of length ``fastest_at`` or more, in proportion below it."""
    fastest_at: float = 1.0
    offsets: Numbers = (0.0,)
    """Phase of each foot at the start, in cycles."""
    stance: float = 0.5
    """Share of a cycle in which the phase shown goes from 0 to 0.5; the rest of the cycle has the other half."""
    first: int = 0
    """Control steps that the clock has advanced when the policy runs for the first time."""
    rest_below: float = 0.0
    """Length of the command below which the robot rests; 0 never rests."""
    rest_phase: float | None = None
    """Phase of all feet at rest, in cycles; the term ``phase`` shows it as it is, such as -1. None gives 0 for all."""
    restarts: bool = False
    """True if the clock starts anew after a rest; otherwise it went on."""
    wakes_late: bool = False
    """True if the first step after a rest reads phase 0, as where the runner still has the frequency of the rest."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """``target = clamp(offset + scale * clamp(action, raw_clip), clip)`` [rad], of the joints that the policy moves.

    A low-pass mixes what ``scale`` multiplies with its past: ``(1 - p) * action + p * past``. The policy's term
    ``last_action`` is not filtered.
    """

    joints: tuple[str, ...]
    scale: Numbers
    offset: Numbers
    clip: tuple[Range, ...] | None = None
    raw_clip: tuple[Range, ...] | None = None
    previous_action: float = 0.0
    """Share p of the previous clamped action, 0 at first."""
    previous_result: float = 0.0
    """Share p of this filter's previous result, 0 at first."""

    @property
    def past(self) -> float:
        """Share of the past in either filter."""
        return self.previous_action or self.previous_result


@dataclass(frozen=True, kw_only=True)
class Command:
    """The velocity command: ranges of the training, and what the source's runner does before the policy sees it."""

    ranges: Mapping[str, Range]
    """[m/s], [m/s] and [rad/s], by the names of :data:`TWIST`."""
    clamp: bool = False
    """True if the command is clamped to its ranges."""
    deadband: float = 0.0
    """Length of (vx, vy) below which both are 0 [m/s]."""
    acceleration: tuple[float, float, float] | None = None
    """Largest change of the command per second [m/s^2, m/s^2, rad/s^2]."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """Joints that the robot has and the policy does not know, held where they are told. Patterns of names."""

    position: Mapping[str, float] = field(default_factory=dict)
    """[rad]"""
    stiffness: Mapping[str, float] = field(default_factory=dict)
    """[N m/rad]"""
    damping: Mapping[str, float] = field(default_factory=dict)
    """[N m s/rad]"""
    effort_limit: Mapping[str, float] = field(default_factory=dict)
    """[N m]"""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The policy's graph and the names of its tensors."""

    file: str
    """Name of the file that it was read from."""
    observation: str = ""
    """Input that is the observation, (N, D); without a name, the first."""
    action: str = ""
    """Output that is the action, (N, A); without a name, the first."""
    memory: tuple[tuple[str, str, int], ...] = ()
    """(input, output, the axis that counts robots) of each recurrent state, which starts at zero."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of a foreign policy: all that running it needs."""

    family: str
    """Name of the reader, or ``described``."""
    name: str
    robot: str | None = None
    """The one of Gaitway's robots that is meant, where several have the joints."""
    joints: tuple[str, ...]
    default_joint_pos: Numbers
    """[rad]"""
    stiffness: Numbers
    """[N m/rad]"""
    damping: Numbers
    """[N m s/rad]"""
    effort_limit: Numbers | None = None
    """[N m]; None takes the robot's or the model's."""
    damping_is_whole: bool = False
    """True if ``damping`` holds the joints' passive damping too, which the bundle's model then has no more: a source
    that simulates with passive damping alone commands none, and a robot needs it from its motors."""
    armature: Numbers | None = None
    """[kg m^2]; None keeps the model's."""
    held: Held = Held()
    init_height: float | None = None
    """Height of the base at the start [m]; None takes the robot's or the model's."""
    control_dt: float
    physics_dt: float | None = None
    """None is a whole share of ``control_dt`` of at most 5 ms."""
    action: Action
    observation: tuple[Term, ...]
    history: History = History()
    clip_observation: float | None = None
    """Clamp of every number of the observation."""
    command: Command
    clock: Clock | None = None
    network: Network
    licence: str = "not stated"
    source: str = "not stated"
    """Place where the policy was published."""
    guessed: Mapping[str, str] = field(default_factory=dict)
    """Facts that the source does not state, with the values assumed in their place."""
    notes: tuple[str, ...] = ()
    """Differences from the source's own runner."""

    def __post_init__(self) -> None:
        for what, listed in (
            ("joints", self.joints),
            ("action.joints", self.action.joints),
            ("terms", self.observation),
        ):
            if len(listed) > MOST:
                raise PolicyImportError(f"the description of {self.name} has {len(listed)} {what}: {MOST} at most")
        faults = [*_lengths(self), *_joints(self), *_terms(self), *_others(self)]
        if faults:
            more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
            raise PolicyImportError(f"the description of {self.name}: {'; '.join(faults[:3])}{more}")

    def width(self, term: Term) -> int:
        """Numbers of ``term`` that the policy reads."""
        return self.full_width(term) if term.columns is None else len(term.columns)

    def full_width(self, term: Term) -> int:
        """Numbers of ``term`` before its ``columns`` are chosen."""
        size = TERMS[term.term]
        if isinstance(size, int):
            return len(term.value) if isinstance(term.value, tuple) else size
        return {"joints": len(self.joints), "action": len(self.action.joints),
                "clock": len(self.clock.offsets) if self.clock else 0}[size]  # fmt: skip

    def ages(self, term: Term) -> tuple[int, ...]:
        """Control steps ago of each frame of ``term``."""
        return self.history.ages if term.ages is None else term.ages

    def name_of(self, term: Term) -> str:
        """The term's name in the contract; one that is read in parts has its columns."""
        return term.term if term.columns is None else f"{term.term}{list(term.columns)}"

    @property
    def frame_dim(self) -> int:
        """Numbers of one frame."""
        return sum(self.width(term) for term in self.observation)

    @property
    def observation_dim(self) -> int:
        """Numbers of the policy's input, D."""
        return sum(self.width(term) * len(self.ages(term)) for term in self.observation)

    def renamed(self, names: Mapping[str, str]) -> Description:
        """Description with other names of joints."""

        def new(joints: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.get(joint, joint) for joint in joints)

        return self.replace(
            joints=new(self.joints),
            action=dataclasses.replace(self.action, joints=new(self.action.joints)),
            observation=tuple(dataclasses.replace(term, zeroed=new(term.zeroed)) for term in self.observation),
        )

    def replace(self, **changes: Any) -> Description:
        return dataclasses.replace(self, **changes)


def _lengths(d: Description) -> Sequence[str]:
    vectors = {"default_joint_pos": d.default_joint_pos, "stiffness": d.stiffness, "damping": d.damping}
    vectors |= {key: value for key in ("effort_limit", "armature") if (value := getattr(d, key)) is not None}
    faults = [
        f"{key} has {len(value)} numbers for {len(d.joints)} joints"
        for key, value in vectors.items()
        if len(value) != len(d.joints)
    ]
    return faults + [
        f"action.{key} has {len(value)} entries for {len(d.action.joints)} joints of the action"
        for key in ("scale", "offset", "clip", "raw_clip")
        if (value := getattr(d.action, key)) is not None and len(value) != len(d.action.joints)
    ]


def _joints(d: Description) -> Sequence[str]:
    faults = []
    for what, names in (("joints", d.joints), ("action.joints", d.action.joints)):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            faults.append(f"{what} lists {', '.join(twice)} twice")
    named = [("action.joints", d.action.joints), *((f"zeroed of {t.term}", t.zeroed) for t in d.observation)]
    return faults + [
        f"{what} has {', '.join(unknown)}, and joints are {', '.join(d.joints)}"
        for what, names in named
        if (unknown := [name for name in names if name not in d.joints])
    ]


def _terms(d: Description) -> Sequence[str]:
    faults = []
    for number, term in enumerate(d.observation):
        where = f"observation[{number}]"
        if term.term not in TERMS:
            faults.append(f"{where} is {term.term!r}; known terms are {', '.join(TERMS)}")
            continue
        if (TERMS[term.term] == "clock" or term.term == "moving") and d.clock is None:
            faults.append(f"{where} is {term.term}, and there is no clock: add clock: {{frequency: ...}}")
            continue
        if term.columns is not None and not all(0 <= column < d.full_width(term) for column in term.columns):
            faults.append(f"{where}.columns are {list(term.columns)}, and {term.term} has {d.full_width(term)} numbers")
        if isinstance(term.scale, tuple) and len(term.scale) != d.width(term):
            faults.append(f"{where}.scale has {len(term.scale)} numbers for {d.width(term)} of {term.term}")
        if term.zeroed and TERMS[term.term] != "joints":
            faults.append(f"{where}.zeroed names joints, and {term.term} has no number for each joint")
    return faults


def _others(d: Description) -> Sequence[str]:
    faults = []
    if not d.observation:
        faults.append("observation has no term")
    if not CONTROL_DT[0] <= d.control_dt <= CONTROL_DT[1]:
        faults.append(f"control_dt is {d.control_dt}, and must be from {CONTROL_DT[0]} to {CONTROL_DT[1]} s")
    if d.physics_dt is not None and not d.control_dt / MAX_DECIMATION <= d.physics_dt <= d.control_dt:
        faults.append(
            f"physics_dt is {d.physics_dt}, and must be at most control_dt and at least a {MAX_DECIMATION}th of it"
        )
    if not _terms(d) and d.observation_dim > WIDEST:
        faults.append(f"the policy would read {len(d.history.ages)} frames of {d.frame_dim} numbers: at most {WIDEST}")
    ages = {"history": d.history.ages} | {
        f"observation[{k}]": t.ages for k, t in enumerate(d.observation) if t.ages is not None
    }
    for where, steps in ages.items():
        if not steps or not 0 <= min(steps) <= max(steps) <= OLDEST:
            faults.append(f"{where}.ages are {list(steps[:8])}, expected steps ago, from 0 to {OLDEST}")
    if len(ages) > 1 and d.history.by == "step":
        faults.append(
            "a term has ages of its own, and history.by is step, which has all terms of a frame: make it term"
        )
    if d.history.by not in ("term", "step"):
        faults.append(f"history.by is {d.history.by!r}; it is term or step")
    if d.history.fill not in ("first", "zeros"):
        faults.append(f"history.fill is {d.history.fill!r}; it is first or zeros")
    if tuple(d.command.ranges) != TWIST:
        faults.append(f"command.ranges has {', '.join(d.command.ranges)}; expected {', '.join(TWIST)}")
    if d.clock is not None and not 0.0 < d.clock.stance < 1.0:
        faults.append(f"clock.stance is {d.clock.stance:g}; it is between 0 and 1")
    shares = (d.action.previous_action, d.action.previous_result)
    if not all(0.0 <= share < 1.0 for share in shares) or all(shares):
        faults.append(
            f"action has previous_action {shares[0]:g} and previous_result {shares[1]:g}: one of them may be above 0, "
            "and is below 1"
        )
    faults += [f"the range of {k} is empty: {list(v)}" for k, v in d.command.ranges.items() if v[0] > v[1]]
    return faults


def per_name(value: Any, names: Sequence[str], what: str) -> tuple[Any, ...]:
    """One value for each of ``names``: a number for all, a list in their order, or a mapping of patterns."""
    if isinstance(value, Mapping):
        if len(value) > MOST:
            raise PolicyImportError(f"{what} has {len(value)} patterns: {MOST} at most")
        found = []
        for name in names:
            matching = [v for pattern, v in value.items() if matches(pattern, name)]
            if not matching:
                raise PolicyImportError(f"{what}: no pattern matches the joint {name}: {', '.join(value)}")
            found.append(matching[0])
        return tuple(found)
    if isinstance(value, list | tuple):
        if len(value) != len(names):
            raise PolicyImportError(f"{what} has {len(value)} entries for {len(names)} joints")
        return tuple(value)
    return (value,) * len(names)
