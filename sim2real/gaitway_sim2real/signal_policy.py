"""A task's observation, its trained actor and its action as one torch module over the signals a robot measures.

Nothing is re-implemented: the observation comes from the task's own terms and :class:`ObservationManager`, evaluated
over a world that knows the measured signals and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from gaitway_tasks.managers import ObservationManager
from gaitway_tasks.math import projected_gravity
from gaitway_tasks.robots import Robot
from gaitway_tasks.spec import Task
from gaitway_tasks.world import World
from torch import Tensor, nn


@dataclass
class MeasuredState:
    """The measurable half of :class:`gaitway_tasks.world.RobotState`."""

    joint_pos: Tensor
    joint_vel: Tensor
    root_quat_wxyz: Tensor
    root_ang_vel_b: Tensor

    @property
    def projected_gravity_b(self) -> Tensor:
        return projected_gravity(self.root_quat_wxyz)


@dataclass
class MeasuredWorld:
    """The measurable half of :class:`gaitway_tasks.world.World`."""

    spec: Robot
    default_joint_pos: Tensor
    soft_joint_pos_limits: Tensor
    step_dt: float
    command_name: str
    robot: MeasuredState
    velocity_command: Tensor
    action: Tensor

    @property
    def num_envs(self) -> int:
        return len(self.action)

    @property
    def device(self) -> torch.device:
        return self.action.device

    def command(self, name: str) -> Tensor:
        if name != self.command_name:
            raise ValueError(f"the actor reads the command {name!r}; a bundle carries {self.command_name!r} only")
        return self.velocity_command


class SignalPolicy(nn.Module):
    """Raw signals in, joint position targets out; all memory is in ``state``.

    ``state`` is [started (1), last action (J), history (H * frame, frame-major; absent for H = 1), the actor's memory
    (M; absent without one)]. All zero means "just reset": the history is then filled with the first frame, as the
    training environment does. An actor with a memory states its width as ``memory_size`` and maps observation and
    memory to action and next memory.
    """

    default_joint_pos: Tensor
    order: Tensor

    def __init__(self, task: Task, actor: nn.Module):
        super().__init__()
        robot, group = task.robot, task.observations["policy"]
        joints = robot.num_joints
        self.actor, self.scale, self.num_joints = actor, float(task.actions.scale), joints
        self.history_length, self.memory_size = group.history_length, int(getattr(actor, "memory_size", 0))
        self.register_buffer("default_joint_pos", torch.tensor(robot.default_joint_pos))
        self.world = MeasuredWorld(
            spec=robot,
            default_joint_pos=torch.tensor(robot.default_joint_pos),
            soft_joint_pos_limits=torch.tensor(robot.soft_joint_limits()),
            step_dt=task.timing.step_dt,
            command_name=next(iter(task.commands)),
            robot=MeasuredState(torch.zeros(1, joints), torch.zeros(1, joints), torch.zeros(1, 4), torch.zeros(1, 3)),
            velocity_command=torch.zeros(1, 3),
            action=torch.zeros(1, joints),
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
        return 1 + self.num_joints + history + self.memory_size

    def observation(
        self, joint_pos: Tensor, joint_vel: Tensor, imu_quat_wxyz: Tensor, gyro: Tensor, command: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the actor sees (N, D), and the history to keep (N, H * frame)."""
        kept = self.state_dim - 1 - self.num_joints - self.memory_size
        started, last_action, past, _ = state.split([1, self.num_joints, kept, self.memory_size], 1)
        world = replace(
            self.world,
            robot=MeasuredState(joint_pos, joint_vel, imu_quat_wxyz, gyro),
            velocity_command=command,
            action=last_action,
        )
        self.manager.world = cast(World, world)
        frame = self.manager.frame()
        if self.history_length == 1:
            return frame, past
        pushed = torch.cat((past[:, self.manager.frame_dim :], frame), 1)
        history = torch.where(started > 0.5, pushed, frame.repeat(1, self.history_length))
        return history.index_select(1, self.order), history

    def forward(
        self, joint_pos: Tensor, joint_vel: Tensor, imu_quat_wxyz: Tensor, gyro: Tensor, command: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``joint_pos_target`` (N, J), ``action`` (N, J), ``next_state`` (N, S)."""
        observation, history = self.observation(joint_pos, joint_vel, imu_quat_wxyz, gyro, command, state)
        memory = state[:, self.state_dim - self.memory_size :]
        if self.memory_size:
            action, memory = self.actor(observation, memory)
        else:
            action = self.actor(observation)
        next_state = torch.cat((torch.ones_like(state[:, :1]), action, history, memory), 1)
        return self.default_joint_pos + self.scale * action, action, next_state
