"""Robots that trample about in a rich way, recorded in a simulator that may be wrong in one known way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from gaitway_mujoco import make_env
from gaitway_mujoco.recorder import RolloutRecorder
from gaitway_tasks.recording import Recording
from gaitway_tasks.robots import ANYMAL_C, GO2, Robot
from gaitway_tasks.spec import Task
from gaitway_tasks.velocity import velocity_flat
from gymnasium.vector import VectorWrapper
from torch import Tensor, nn

HISTORY = 3
STIFFNESS = {"anymal-c": (100.0, 4.0), "go2": (35.0, 1.0)}
LEG_JOINTS = ("hfe", "kfe", "thigh_joint", "calf_joint")
ROBOTS = {robot.name: robot for robot in (ANYMAL_C, GO2)}


def make_task(robot: Robot, history: int = HISTORY) -> Task:
    """Velocity tracking with an estimated base velocity, a history, and drives that hold the robot up by themselves."""
    stiffness, damping = STIFFNESS[robot.name]
    drives = {
        name: replace(law, stiffness=stiffness, damping=damping, armature=None) for name, law in robot.actuators.items()
    }
    task = velocity_flat(robot.replace(actuators=drives))
    group = replace(task.observations["policy"], history_length=history, enable_corruption=False)
    calm = {name: event for name, event in task.events.items() if event.mode == "reset"}
    action = replace(task.actions, scale=0.5)
    return replace(
        task, observations={"policy": group}, actions=action, rewards={}, events=calm, estimators=("root_lin_vel_b",)
    )


def rough_life(task: Task) -> Task:
    """The same task with all that training adds: noise, payloads, slippery ground, pushes every second, short episodes.

    None of it is a mismatch.
    """
    events = velocity_flat(ANYMAL_C).events
    push = replace(events["push_robot"], interval_range_s=(0.5, 1.0))
    group = replace(task.observations["policy"], enable_corruption=True)
    return replace(
        task,
        observations={"policy": group},
        events={**events, "push_robot": push},
        timing=replace(task.timing, episode_length_s=1.6),
    )


class Trample(nn.Module):
    """A trot on the spot whose joints also wobble, each at its own rhythm, and heed a small random network.

    The clock is the memory. ``pose`` (J,) is what bends the legs: the default pose, hips left out.
    """

    memory_size = 1

    def __init__(self, width: int, pose: Tensor, legs: int = 4, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        joints = len(pose)
        self.net = nn.Sequential(nn.Linear(width, 24), nn.Tanh(), nn.Linear(24, joints), nn.Tanh())
        for layer in (self.net[0], self.net[2]):
            nn.init.normal_(layer.weight, std=0.7 / math.sqrt(layer.weight.shape[1]), generator=generator)
            nn.init.zeros_(layer.bias)
        self.rates = nn.Parameter(torch.linspace(0.6, 2.4, joints)[torch.randperm(joints, generator=generator)])
        self.starts = nn.Parameter(6.28 * torch.rand(joints, generator=generator))
        diagonal = torch.tensor([0.0, math.pi, math.pi, 0.0])  # both robots list their legs as two pairs of one side
        self.lift = nn.Parameter(0.8 * pose)
        self.legs = nn.Parameter(diagonal.repeat_interleave(joints // legs))

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        swing = self.lift * torch.sin(6.2832 * 1.7 * memory + self.legs).clamp(min=0.0)
        wobble = 0.2 * torch.sin(6.2832 * self.rates * memory + self.starts)
        return swing + wobble + 0.12 * self.net(observation), memory + 0.02


def make_actor(task: Task, seed: int = 0) -> Trample:
    robot = task.robot
    width = (12 + 3 * robot.num_joints) * task.observations["policy"].history_length
    bends = torch.tensor([1.0 if name.lower().endswith(LEG_JOINTS) else 0.0 for name in robot.joint_names])
    return Trample(width, bends * torch.tensor(robot.default_joint_pos), seed=seed)


class Tamper(VectorWrapper):
    """Between the recorder and the environment: changes the action on the way in."""

    def __init__(self, env: object, change: Callable[[Tensor], Tensor]):
        super().__init__(env)
        self.change = change

    def step(self, actions: Tensor) -> tuple:
        return self.env.step(self.change(actions))


def record(
    task: Task,
    actor: Trample,
    *,
    steps: int = 110,
    envs: int = 8,
    seed: int = 0,
    see: Callable[[Tensor, RolloutRecorder], Tensor] | None = None,
    act: Callable[[Tensor], Tensor] | None = None,
    emit: Callable[[Tensor], Tensor] | None = None,
    **options: object,
) -> Recording:
    """Run ``actor`` in ``task``. ``see`` changes what it observes, ``emit`` the actions it is recorded with, ``act``
    what the environment then makes of them."""
    env = make_env(task, envs, seed=seed, num_threads=1, **options)
    recorder = RolloutRecorder(env if act is None else Tamper(env, act))
    observation, _ = recorder.reset(seed=seed)
    memory = torch.zeros(envs, 1)
    with torch.inference_mode():
        for _ in range(steps):
            seen = observation["policy"]
            if see is not None:
                seen = see(seen, recorder)
                recorder._observation = seen
            action, memory = actor(seen, memory)
            action = action if emit is None else emit(action)
            observation, _, terminated, truncated, _ = recorder.step(action.clone())
            memory = memory * ~(terminated | truncated)[:, None]
    return recorder.recording()
