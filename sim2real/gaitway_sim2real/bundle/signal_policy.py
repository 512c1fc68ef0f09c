"""A task's observation, its trained actor and its action as one torch module over the signals a robot measures.

Nothing is re-implemented: the observation comes from the task's own terms and :class:`ObservationManager`, evaluated
over a world that knows the measured signals and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.parts import ESTIMATE, IMU, MEASURED, HeightScan
from gaitway_tasks.actions import joint_positions, joint_targets, of_joints
from gaitway_tasks.commands import Command, steering
from gaitway_tasks.managers import ObservationManager
from gaitway_tasks.math import projected_gravity
from gaitway_tasks.mdp.commands import settling
from gaitway_tasks.robots import Robot
from gaitway_tasks.signals import signals_of
from gaitway_tasks.spec import Task
from gaitway_tasks.world import World
from torch import Tensor, nn

from .calibration import CommandCalibration


@dataclass
class JointState:
    """What a robot with a fixed base measures of :class:`gaitway_tasks.world.RobotState`."""

    joint_pos: Tensor
    joint_vel: Tensor


@dataclass
class MeasuredState(JointState):
    """The measurable half of :class:`gaitway_tasks.world.RobotState`."""

    root_quat_wxyz: Tensor
    root_ang_vel_b: Tensor

    @property
    def projected_gravity_b(self) -> Tensor:
        return projected_gravity(self.root_quat_wxyz)


@dataclass
class EstimatedState(MeasuredState):
    """Measured state with an estimate of the base velocity."""

    root_lin_vel_b: Tensor


@dataclass
class MeasuredWorld:
    """The measurable half of :class:`gaitway_tasks.world.World`."""

    spec: Robot
    default_joint_pos: Tensor
    soft_joint_pos_limits: Tensor
    step_dt: float
    command_name: str
    followed: Command
    robot: JointState
    told: Tensor
    """The command, (N, D)."""
    action: Tensor
    episode_step: Tensor
    scan: Tensor | None
    seen: Tensor | None
    """Place of the one object that the actor reads, base frame [m], (N, 3)."""
    left: Tensor | None
    """Time for which a robot that is told to stand is still to step [s], (N,)."""

    @property
    def num_envs(self) -> int:
        return len(self.action)

    @property
    def device(self) -> torch.device:
        return self.action.device

    def command(self, name: str) -> Tensor:
        if name != self.command_name:
            raise UserError(f"the actor reads the command {name!r}; a bundle carries {self.command_name!r} only")
        return self.told

    def command_of(self, name: str) -> Command:
        self.command(name)
        return self.followed

    def settling(self, name: str) -> Tensor | None:
        return self.left

    def object_pos(self, name: str) -> Tensor:
        if self.seen is None:
            raise AttributeError(f"object_pos: nothing estimates where {name!r} is")
        return self.seen

    def height_scan(self, name: str) -> Tensor:
        if self.scan is None:
            raise AttributeError(f"height_scan: nothing estimates what the scanner {name!r} sees")
        return self.scan


class SignalPolicy(nn.Module):
    """Raw signals in, joint position targets out; all memory is in ``state``.

    The inputs are those every robot measures, then what the task says is estimated, then ``state``:
    :attr:`input_widths` has their names and widths in order.

    ``state`` is [started (1), last action (J), history (H * frame, frame-major; absent for H = 1), step of the gait's
    cycle (1; absent without a clock), limited command (D; absent without a limit), time to settle (1; absent without
    one), the actor's memory (M; absent without one)]. Actions are of all joints, 0 for one that does not act. All zero
    of the state means "just reset": the
    history is then filled with the first frame, as the training environment does, and the limited command is that of
    rest. An actor with a memory states its
    width as ``memory_size`` and maps observation and memory to action and next memory.
    """

    offset: Tensor
    scale: Tensor
    clips: Tensor | None
    rest: Tensor | None
    order: Tensor
    acting: Tensor | None
    moved: Tensor
    numbers: Tensor | None
    estimate_scale: Tensor

    def __init__(self, task: Task, actor: nn.Module, calibration: CommandCalibration | None = None):
        super().__init__()
        self.calibration = calibration
        robot, group = task.robot, task.observations["policy"]
        joints = robot.num_joints
        self.actor: Any = actor
        positions, (command_name, command) = joint_positions(task), steering(task)
        self.command_width, self.fixed_base = len(command.ranges()), robot.fixed_base
        self.num_joints, self.raw_clip = joints, positions.raw_clip
        self.estimates: dict[str, int] = getattr(actor, "widths", {})
        """Widths of the signals that the actor estimates for itself."""
        self.register_buffer("estimate_scale", estimate_scale(task, self.estimates))
        self.history_length, self.memory_size = group.history_length, int(getattr(actor, "memory_size", 0))
        acting = positions.acting(robot)
        self.register_buffer("acting", None if len(acting) == joints else torch.tensor(acting))
        moved, numbers = (torch.tensor(part) for part in positions.sources(robot))
        self.register_buffer("moved", moved)
        self.register_buffer("numbers", None if len(numbers) == len(acting) else numbers)
        self.register_buffer("scale", torch.tensor(positions.scales(robot)))
        self.register_buffer("offset", torch.tensor(positions.offsets(robot)))
        clips = positions.clips(robot)
        self.register_buffer("clips", None if clips is None else torch.tensor(clips).T)
        self.cycle_steps = cycle_steps(task)
        self.settle = float(getattr(command, "settle", 0.0))
        self.limits = command.acceleration is not None
        self.register_buffer("rest", None if not any(command.rest or ()) else torch.tensor(command.rest))
        self.estimated = estimated_widths(task)
        zeros = {name: torch.zeros(1, width) for name, width in self._signal_widths().items()}
        self.world = MeasuredWorld(
            spec=robot,
            default_joint_pos=torch.tensor(robot.default_joint_pos),
            soft_joint_pos_limits=torch.tensor(robot.soft_joint_limits()),
            step_dt=task.timing.step_dt,
            command_name=command_name,
            followed=command,
            robot=_state(zeros),
            told=zeros["command"],
            action=torch.zeros(1, len(acting)),
            episode_step=torch.zeros(1),
            scan=zeros.get("height_scan"),
            seen=zeros.get("object_pos"),
            left=torch.zeros(1) if self.settle else None,
        )
        # Without corruption the manager draws nothing from the generator. Terms that pass the check of their declared
        # signals look at the measured half of a world only, hence the casts.
        self.manager = ObservationManager(
            replace(group, enable_corruption=False), cast(World, self.world), torch.Generator()
        )
        self.register_buffer("order", self.manager.order)

    @property
    def state_dim(self) -> int:
        history = self.manager.dim if self.history_length > 1 else 0
        return 1 + self.num_joints + history + sum(self._small_widths) + self.memory_size

    @property
    def _small_widths(self) -> tuple[int, ...]:
        """Widths of clock, limited command and, if there is one, time to settle in the state."""
        limited = self.command_width if self.limits else 0
        return int(self.cycle_steps > 0), limited, *([1] if self.settle else [])

    @property
    def input_widths(self) -> dict[str, int]:
        return {**self._signal_widths(), "state": self.state_dim}

    def _signal_widths(self) -> dict[str, int]:
        widths = zip(MEASURED, (self.num_joints, self.num_joints, 4, 3, self.command_width), strict=True)
        measured = {name: width for name, width in widths if not (self.fixed_base and name in IMU)}
        return {**measured, **self.estimated}

    def observation(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Observation of the actor (N, D), and the history, clock, limited command and time to settle, (N, K)."""
        signals, state = dict(zip(self._signal_widths(), inputs, strict=False)), inputs[-1]
        small = self._small_widths
        kept = self.state_dim - 1 - self.num_joints - sum(small) - self.memory_size
        widths = [1, self.num_joints, kept, *small, self.memory_size]
        started, last_action, past, step, limited, *more = state.split(widths, 1)
        command = signals["command"]
        if self.limits:
            if self.rest is not None:
                limited = torch.where(started > 0.5, limited, self.rest)
            command = limited = self.world.followed.limited(command, limited, cast(World, self.world))
        if self.calibration is not None:
            command = self.calibration(command)
        if self.settle:
            more[0] = settling(command, more[0][:, 0], self.settle, self.world.step_dt)[:, None]
        world = replace(
            self.world,
            robot=_state(signals),
            told=command,
            action=last_action if self.acting is None else last_action.index_select(1, self.acting),
            episode_step=step.flatten(),
            scan=signals.get("height_scan"),
            seen=signals.get("object_pos"),
            left=more[0][:, 0] if self.settle else None,
        )
        self.manager.world = cast(World, world)
        frame = self.manager.frame()
        step = torch.remainder(step + 1.0, float(max(self.cycle_steps, 1)))
        if self.history_length == 1:
            return frame, torch.cat((past, step, limited, *more[:-1]), 1)
        pushed = torch.cat((past[:, self.manager.frame_dim :], frame), 1)
        history = torch.where(started > 0.5, pushed, frame.repeat(1, self.history_length))
        return history.index_select(1, self.order), torch.cat((history, step, limited, *more[:-1]), 1)

    @property
    def output_widths(self) -> dict[str, int]:
        """Names and widths of the outputs, in order."""
        joints, estimates = self.num_joints, {ESTIMATE + name: width for name, width in self.estimates.items()}
        return {"joint_pos_target": joints, "action": joints, **estimates, "next_state": self.state_dim}

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """``joint_pos_target`` (N, J), ``action`` (N, J), what the actor estimates (N, d) each, ``next_state`` (N, S).

        The inputs are (N, d) each.
        """
        observation, history = self.observation(*inputs)
        state = inputs[-1]
        memory = state[:, self.state_dim - self.memory_size :]
        estimates: tuple[Tensor, ...] = ()
        if self.memory_size:
            action, memory = self.actor(observation, memory)
        elif self.estimates:
            action, joined = self.actor.with_estimates(observation)
            estimates = (joined / self.estimate_scale).split(list(self.estimates.values()), 1)
        else:
            action = self.actor(observation)
        if self.raw_clip is not None:
            action = action.clamp(-self.raw_clip, self.raw_clip)
        if self.acting is not None:
            if self.numbers is not None:
                action = action.index_select(1, self.numbers)
            action = of_joints(action, self.moved, self.num_joints)
        limits = None if self.clips is None else (self.clips[0], self.clips[1])
        target = joint_targets(action, self.scale, self.offset, limits)
        return target, action, *estimates, torch.cat((torch.ones_like(state[:, :1]), action, history, memory), 1)


def _state(signals: dict[str, Tensor]) -> JointState:
    if "gyro" not in signals:
        return JointState(signals["joint_pos"], signals["joint_vel"])
    joint_pos, joint_vel, quat, gyro = (signals[name] for name in MEASURED[:4])
    if "base_lin_vel" not in signals:
        return MeasuredState(joint_pos, joint_vel, quat, gyro)
    return EstimatedState(joint_pos, joint_vel, quat, gyro, signals["base_lin_vel"])


def estimate_scale(task: Task, widths: Mapping[str, int]) -> Tensor:
    """Scales of the critic's terms for signals of ``widths``, (E,)."""
    if not widths:
        return torch.ones(0)
    terms = task.observations["critic"].terms
    return torch.cat([torch.as_tensor(terms[name].scale).expand(width) for name, width in widths.items()])


def cycle_steps(task: Task) -> int:
    """Control steps after which every clock that the actor reads starts again; 0 if it reads none."""
    terms = task.observations["policy"].terms.values()
    cycles = [round(t.params["period"] / task.timing.step_dt) for t in terms if "clock" in signals_of(t.func)]
    return math.lcm(*cycles) if cycles else 0


def estimated_widths(task: Task) -> dict[str, int]:
    """Width of each estimated input that the actor reads, in the order of the inputs."""
    read = {signal for term in task.observations["policy"].terms.values() for signal in signals_of(term.func)}
    widths = {}
    if "root_lin_vel_b" in read & set(task.estimators):
        widths["base_lin_vel"] = 3
    if "height_scan" in read & set(task.estimators):
        widths["height_scan"] = len(height_scan_of(task).points())
    if "object_pos" in read & set(task.estimators):
        if len(task.objects) != 1:
            raise UserError(f"{task.name} has the objects {sorted(task.objects)}: a bundle carries one")
        widths["object_pos"] = 3
    return widths


def height_scan_of(task: Task) -> HeightScan:
    """The one height scanner that the actor reads."""
    terms = task.observations["policy"].terms.values()
    names = {term.params["sensor"] for term in terms if "height_scan" in signals_of(term.func)}
    if len(names) != 1:
        raise UserError(f"the actor of {task.name} reads the height scanners {sorted(names)}: a bundle carries one")
    name = names.pop()
    scanner = task.height_scanners[name]
    if scanner.body not in (None, task.robot.base_name):
        raise UserError(
            f"{task.name}: height scanner {name!r} hangs from the body {scanner.body!r}, and a bundle's is that of the "
            f"base: set task.height_scanners.{name}.body=null if that will do"
        )
    return HeightScan(resolution=scanner.resolution, size=scanner.size)
