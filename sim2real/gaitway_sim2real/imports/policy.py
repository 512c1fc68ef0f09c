"""The two halves of a described policy around its network: raw signals to observation, and action to joint targets.

All memory is in ``state``: [started (1), last action (A), clock (1), limited command (3), frames (H * F, oldest first),
filtered action (A), the network's memory (M)]. All zero means "just reset". Parts that the policy does not use are
absent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.parts import MEASURED
from gaitway_tasks.actions import joint_targets
from gaitway_tasks.math import projected_gravity
from torch import Tensor, nn

from .description import TWIST, Description, Term

CYCLE = 20_000
"""Most control steps after which a clock of fixed frequency is at its start again, exactly."""


class Observer(nn.Module):
    """Signals of a bundle's inputs to the policy's observation.

    ``joints`` are the contract's, in whose order ``joint_pos`` and ``joint_vel`` come; ``memory`` has the shape of each
    recurrent state of the network for one robot, and the axis that counts robots.
    """

    pick: Tensor
    default: Tensor
    low: Tensor
    high: Tensor
    largest_change: Tensor
    offsets: Tensor
    columns: Tensor

    def __init__(
        self, description: Description, joints: Sequence[str], memory: Sequence[tuple[tuple[int, ...], int]] = ()
    ):
        super().__init__()
        d = self.description = description
        self.memory = [(tuple(shape), axis) for shape, axis in memory]
        self.memory_sizes = [math.prod(shape) for shape, _ in self.memory]
        self.depth = 1 + max(age for term in d.observation for age in d.ages(term))
        self.num_joints = len(joints)
        ranges = torch.tensor([d.command.ranges[name] for name in TWIST])
        buffers = {
            "pick": torch.tensor([joints.index(name) for name in d.joints]),
            "default": torch.tensor(d.default_joint_pos),
            "low": ranges[:, 0],
            "high": ranges[:, 1],
            "largest_change": torch.tensor(d.command.acceleration or (0.0,) * 3) * d.control_dt,
            "offsets": torch.tensor(d.clock.offsets if d.clock else (0.0,)),
            "columns": torch.tensor(self._columns()),
        }
        for name, value in buffers.items():
            self.register_buffer(name, value)
        for number, term in enumerate(d.observation):
            full = d.full_width(term)
            mask = torch.ones(full)
            mask[[d.joints.index(name) for name in term.zeroed]] = 0.0
            chosen = torch.arange(full) if term.columns is None else torch.tensor(term.columns)
            self.register_buffer(f"mask_{number}", mask)
            self.register_buffer(f"chosen_{number}", chosen)
            self.register_buffer(
                f"scale_{number}", torch.as_tensor(term.scale, dtype=torch.float32).expand(len(chosen))
            )
        self.advance, self.cycle = _rate(description)

    @property
    def estimated(self) -> dict[str, int]:
        """Width of each input that no sensor gives."""
        read = {term.term for term in self.description.observation}
        return {"base_lin_vel": 3} if "base_lin_vel" in read else {}

    @property
    def widths(self) -> list[int]:
        """Widths of the parts of the state, in the order of the module's account of it."""
        d = self.description
        clock, limited = int(d.clock is not None), 0 if d.command.acceleration is None else 3
        frames = d.frame_dim * self.depth if self.depth > 1 else 0
        filtered = len(d.action.joints) if d.action.previous_result else 0
        return [1, len(d.action.joints), clock, limited, frames, filtered, sum(self.memory_sizes)]

    @property
    def kept_width(self) -> int:
        """Width of what the first half gives the second to keep, or to filter the action with."""
        return sum(self.widths[2:5]) + 1 + (len(self.description.action.joints) if self.description.action.past else 0)

    @property
    def input_widths(self) -> dict[str, int]:
        measured = zip(MEASURED, (self.num_joints, self.num_joints, 4, 3, 3), strict=True)
        return {**dict(measured), **self.estimated, "state": sum(self.widths)}

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Observation (N, D), clock, limited command and frames to keep (N, K), and each memory in its own shape."""
        signals = dict(zip(self.input_widths, inputs, strict=True))
        started, action, clock, limited, past, filtered, memory = signals["state"].split(self.widths, 1)
        command, limited = self._command(signals["command"], limited)
        phases, clock = self._phases(command, started, clock)
        values = {
            "base_ang_vel": signals["gyro"],
            "projected_gravity": projected_gravity(signals["imu_quat_wxyz"]),
            "euler_xyz": _euler(signals["imu_quat_wxyz"]),
            "generated_commands": command,
            "joint_pos": signals["joint_pos"].index_select(1, self.pick),
            "joint_vel_rel": signals["joint_vel"].index_select(1, self.pick),
            "last_action": action,
            **phases,
        }
        values["joint_pos_rel"] = values["joint_pos"] - self.default
        terms = [self._term(n, term, values, signals) for n, term in enumerate(self.description.observation)]
        frame = torch.cat(terms, 1)
        if self.description.clip_observation is not None:
            frame = frame.clamp(-self.description.clip_observation, self.description.clip_observation)
        frames = frame
        if self.depth > 1:
            first = frame.repeat(1, self.depth)
            if self.description.history.fill == "zeros":
                first = torch.cat((torch.zeros_like(past[:, frame.shape[1] :]), frame), 1)
            frames = torch.where(started > 0.5, torch.cat((past[:, frame.shape[1] :], frame), 1), first)
            past = frames
        small = [part for part, width in zip((clock, limited, past), self.widths[2:5], strict=True) if width]
        rule = self.description.action
        before = [filtered if rule.previous_result else action] if rule.past else []
        kept = torch.cat((*small, started, *before), 1)  # never empty: graphs have no empty tensors
        return frames.index_select(1, self.columns), kept, *self._unpack(memory)

    def _term(self, number: int, term: Term, values: dict[str, Tensor], signals: dict[str, Tensor]) -> Tensor:
        if term.term == "constant":
            numbers = term.value if isinstance(term.value, tuple) else (term.value,)
            value = torch.tensor(numbers, dtype=torch.float32).expand(signals["gyro"].shape[0], -1)
        elif term.term == "base_lin_vel":
            value = signals["base_lin_vel"]
            if term.at is not None:
                value = value + torch.linalg.cross(signals["gyro"], torch.tensor(term.at).expand_as(value))
        else:
            value = values[term.term]
        chosen: Tensor = getattr(self, f"chosen_{number}")
        value = (value * getattr(self, f"mask_{number}")).index_select(1, chosen)
        value = value if term.clip is None else value.clamp(*term.clip)
        return value * getattr(self, f"scale_{number}")

    def _command(self, command: Tensor, limited: Tensor) -> tuple[Tensor, Tensor]:
        """Command as the policy observes it, and the limited command to keep."""
        rule = self.description.command
        if rule.clamp:
            command = torch.minimum(torch.maximum(command, self.low), self.high)
        if rule.deadband:
            moving = (command[:, :2].norm(dim=1, keepdim=True) >= rule.deadband).to(command.dtype)
            command = torch.cat((command[:, :2] * moving, command[:, 2:]), 1)
        if rule.acceleration is not None:
            limited = limited + torch.clamp(command - limited, -self.largest_change, self.largest_change)
            command = limited
        return command, limited

    def _phases(self, command: Tensor, started: Tensor, count: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Each foot's phase, its sine and cosine, and the count at the next step."""
        clock = self.description.clock
        if clock is None:
            return {}, count
        length = command.norm(dim=1, keepdim=True)
        count = torch.where(started > 0.5, count, torch.full_like(count, clock.first * self.advance))
        if clock.wakes_late:  # a count below 0 is that of a step after a rest
            rested = count < 0.0
            count = torch.where(rested, count + self.cycle, count)
        share = torch.clamp(length / clock.fastest_at, max=1.0)
        advance = self.advance + clock.faster * self.description.control_dt * share
        following = torch.remainder(count + advance, self.cycle)
        shown = torch.where(rested, torch.zeros_like(count), count) if clock.wakes_late else count
        cycles = shown / self.cycle + self.offsets
        if clock.stance != 0.5:
            part = torch.remainder(cycles, 1.0)
            later = 0.5 + 0.5 * (part - clock.stance) / (1.0 - clock.stance)
            cycles = torch.where(part < clock.stance, 0.5 * part / clock.stance, later)
        angle = 2.0 * math.pi * cycles
        phase, sine, cosine, moving = torch.remainder(cycles, 1.0), angle.sin(), angle.cos(), torch.ones_like(length)
        if clock.rest_below:
            resting = length < clock.rest_below
            moving = 1.0 - resting.to(length.dtype)
            at_rest = (0.0,) * 3 if clock.rest_phase is None else (clock.rest_phase, *_circle(clock.rest_phase))
            phase, sine, cosine = (
                torch.where(resting, torch.full_like(value, still), value)
                for value, still in zip((phase, sine, cosine), at_rest, strict=True)
            )
            if clock.restarts:
                following = torch.where(resting, torch.zeros_like(following), following)
            if clock.wakes_late:
                following = torch.where(resting, following - self.cycle, following)
        return {"phase": phase, "phase_sin": sine, "phase_cos": cosine, "moving": moving}, following

    def _columns(self) -> list[int]:
        """Place of each number of the observation among the frames, oldest first."""
        d = self.description
        starts, start = [], 0
        for term in d.observation:
            starts.append(range(start, start + d.width(term)))
            start += d.width(term)
        newest = (self.depth - 1) * start
        if d.history.by == "step":
            return [newest - age * start + k for age in d.history.ages for k in range(start)]
        return [
            newest - age * start + k
            for term, columns in zip(d.observation, starts, strict=True)
            for age in d.ages(term)
            for k in columns
        ]

    def _unpack(self, memory: Tensor) -> list[Tensor]:
        parts = memory.split(self.memory_sizes, 1) if self.memory_sizes else []
        return [
            torch.movedim(part.reshape(-1, *shape), 0, axis)
            for part, (shape, axis) in zip(parts, self.memory, strict=True)
        ]


class Mover(nn.Module):
    """The network's action to joint targets and the next state."""

    scale: Tensor
    offset: Tensor
    clips: Tensor | None
    raw_clips: Tensor | None
    place: Tensor

    def __init__(self, observer: Observer, joints: Sequence[str], held: Sequence[float]):
        super().__init__()
        d, action = observer.description, observer.description.action
        self.rule, self.memory, self.keeps = action, observer.memory, sum(observer.widths[2:5])
        self.register_buffer("raw_clips", None if action.raw_clip is None else torch.tensor(action.raw_clip).T)
        place = [action.joints.index(name) if name in action.joints else len(action.joints) for name in joints]
        self.register_buffer("place", torch.tensor(place))
        scale, offset, clips = scales_offsets_clips(d, joints, held)
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("offset", torch.tensor(offset))
        self.register_buffer("clips", None if clips is None else torch.tensor(clips).T)

    def forward(self, action: Tensor, kept: Tensor, *memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``joint_pos_target`` (N, J), ``action`` (N, J) and ``next_state`` (N, S)."""
        if self.raw_clips is not None:
            action = torch.minimum(torch.maximum(action, self.raw_clips[0]), self.raw_clips[1])
        mixed = action
        if self.rule.past:
            mixed = (1.0 - self.rule.past) * action + self.rule.past * kept[:, -action.shape[1] :]
        limits = None if self.clips is None else (self.clips[0], self.clips[1])
        target = joint_targets(self._spread(mixed), self.scale, self.offset, limits)
        remembered = [
            torch.movedim(part, axis, 0).reshape(-1, math.prod(shape))
            for part, (shape, axis) in zip(memory, self.memory, strict=True)
        ]
        parts = [torch.ones_like(action[:, :1]), action, *([kept[:, : self.keeps]] if self.keeps else [])]
        parts += [*([mixed] if self.rule.previous_result else []), *remembered]
        return target, self._spread(action), torch.cat(parts, 1)

    def _spread(self, action: Tensor) -> Tensor:
        """The numbers of the policy's joints (N, A) at the places of the contract's (N, J)."""
        return torch.cat((action, torch.zeros_like(action[:, :1])), 1).index_select(1, self.place)


def scales_offsets_clips(
    d: Description, joints: Sequence[str], held: Sequence[float]
) -> tuple[list[float], list[float], list[tuple[float, float]] | None]:
    """Scale, offset and clip of each contract joint; those that the policy does not move stay ``held``."""
    order = {name: k for k, name in enumerate(d.action.joints)}
    scale = [d.action.scale[order[name]] if name in order else 1.0 for name in joints]
    offset = [d.action.offset[order[name]] if name in order else at for name, at in zip(joints, held, strict=True)]
    if d.action.clip is None:
        return scale, offset, None
    return (
        scale,
        offset,
        [d.action.clip[order[name]] if name in order else (at, at) for name, at in zip(joints, held, strict=True)],
    )


def _rate(d: Description) -> tuple[float, float]:
    """Advance of the clock's count in a control step, and the count of a whole cycle.

    A fixed frequency counts in whole numbers, which float32 adds without error.
    """
    if d.clock is None:
        return 0.0, 1.0
    share = d.clock.frequency * d.control_dt
    if not 0.0 < share < 0.5:
        raise UserError(f"the clock's frequency is {d.clock.frequency:g} Hz: it must be between 0 and half the rate")
    exact = Fraction(share).limit_denominator(CYCLE)
    if d.clock.faster or abs(float(exact) - share) > 1e-12:
        return share, 1.0
    return float(exact.numerator), float(exact.denominator)


def _circle(phase: float) -> tuple[float, float]:
    """Sine and cosine of a phase in cycles."""
    return math.sin(2.0 * math.pi * phase), math.cos(2.0 * math.pi * phase)


def _euler(quat: Tensor) -> Tensor:
    """Roll, pitch and yaw [rad], (N, 3)."""
    w, x, y, z = quat.unbind(1)
    roll = torch.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = torch.asin(torch.clamp(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return torch.stack((roll, pitch, yaw), 1)
