"""A trained robot that follows commands: a bundle in a lockstep simulation, or a run in the world it learns in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import mujoco
import numpy as np
from gaitway_onboard.bundle.parts import OWN_VELOCITY
from gaitway_onboard.control.commands import STILL, Command, Script, follow, tour, tour_of
from gaitway_onboard.rotation import quat_apply, tilt_of
from gaitway_tasks.ground import LEVEL, Ground
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gaitway_sim2real.lockstep.surroundings import Contacts
    from gaitway_tasks.spec import Task

    from ..runs.choice import Which

Array = NDArray[np.floating]
UPSIDE_DOWN = 0.3  # a base whose z axis has less than this of "up" in it has fallen
VELOCITY: tuple[str, ...] = ("forward [m/s]", "left [m/s]", "turn left [rad/s]")
LYING, GET_UP_S = 0.5, 1.0  # so has one that stays below this share of its height for so long [s]


class Walker(Protocol):
    """``model`` is made to be looked at; ``qpos`` (nq,) poses it.

    A command has a number for each of ``labels``, in ``command_ranges``; ``still`` is that of a robot at rest. Numbers
    of a robot that ``steers`` are vx, vy [m/s] and yaw rate [rad/s].
    ``stage`` is what the film camera needs to know of the model, ``caption`` a few words for a corner of the film.
    ``own`` is the velocity as the policy estimated it in the last step, NaN for what it does not estimate, or None.
    ``heading`` is the direction of the base's x axis in the world's plane [rad].
    ``title``, the robot's, and ``detail``, its task and the policy's origin, stand on a page.
    """

    name: str
    title: str
    detail: str
    caption: str
    model: mujoco.MjModel
    base_qpos: int
    control_dt: float
    steers: bool
    labels: tuple[str, ...]
    command_ranges: tuple[tuple[float, float], ...]
    still: Command
    stage: Any

    @property
    def qpos(self) -> Array: ...
    def velocity(self) -> Array: ...
    def own(self) -> Array | None: ...
    def step(self, command: Array) -> None: ...
    def reset(self) -> None: ...
    def heading(self) -> float: ...
    def push(self, velocity: Array) -> None: ...
    def tour(self, seconds: float) -> Script: ...


class BundleWalker:
    """A bundle in a lockstep simulation: what would run on the robot."""

    def __init__(self, bundle: Path, model: Path | None = None, ground: Ground = LEVEL):
        from gaitway_onboard.bundle.policy import OnboardPolicy
        from gaitway_onboard.safety.gains import walking_gains
        from gaitway_sim2real.lockstep.robot import LockstepRobot
        from gaitway_sim2real.lockstep.surroundings import Surroundings

        self.robot = LockstepRobot(bundle, model, visual=True, ground=ground)
        self.policy = OnboardPolicy(bundle, self.robot.joint_names)
        contract = self.policy.contract
        self._gains = walking_gains(contract, self.robot.joint_names)
        self.name, self.caption, self.model = contract.task, "exported policy", self.robot.model
        self.title, self.detail = _title(contract.robot), f"{contract.task}, bundle {bundle.absolute().name}"
        self.stage: Any = self.robot.plant
        self.surroundings = Surroundings(self.robot.plant)
        self.base_qpos, self.control_dt = self.robot.plant.base_qpos, contract.control_dt
        self.steers, self.still, self.command_ranges = (
            contract.follows_velocity,
            contract.still,
            contract.command_ranges,
        )
        named = zip(contract.command_names, contract.command_units, strict=True)
        self.labels = VELOCITY if self.steers else tuple(name if u == "1" else f"{name} [{u}]" for name, u in named)
        self.fixed = self.robot.plant.fixed_pose is not None
        self._lying = 0.0
        self._told: Command = self.still
        self.reset()

    @property
    def qpos(self) -> Array:
        return self.robot.data.qpos

    def velocity(self) -> Array:
        return self.robot.base_velocity()

    def own(self) -> Array | None:
        own = self.policy.estimates.get(OWN_VELOCITY)
        return None if own is None else planar(own)

    def step(self, command: Array) -> None:
        self._told = follow(tuple(command.tolist()), self._told, self.policy.contract)
        targets = self.policy.step(self.robot.read(), self._told)
        self.robot.write(targets, *self._gains)
        self.robot.sleep_until(self.robot.clock() + self.control_dt)
        if self.fixed:
            return
        low = self.robot.base_height() < LYING * self.stage.start_height
        self._lying = self._lying + self.control_dt if low else 0.0
        if np.cos(tilt_of(self._base_quat())) < UPSIDE_DOWN or self._lying > GET_UP_S:
            self.reset()

    def _base_quat(self) -> Array:
        quat: Array = self.stage.frame.orientation(self.qpos[self.base_qpos + 3 : self.base_qpos + 7])
        return quat

    def heading(self) -> float:
        return _heading(self._base_quat())

    def contacts(self) -> Contacts:
        return self.surroundings.contacts(self.robot.data)

    def reset(self) -> None:
        self._lying, self._told = 0.0, self.still
        self.robot.place(self.policy.contract.default_joint_pos)
        self.policy.reset()

    def push(self, velocity: Array) -> None:
        dof = self.robot.plant.base_dof
        self.robot.data.qvel[dof : dof + 2] += velocity

    def tour(self, seconds: float) -> Script:
        return tour_of(self.policy.contract, seconds)


class WorldWalker:
    """A run's policy in the world it learns in; works while it trains, and for policies no robot could run.

    ``ground`` takes the place of the task's, ``which`` is the checkpoint.
    """

    def __init__(self, run: Path, ground: Ground | None = None, which: Which = None):
        import torch
        from gaitway_sim2real.bundle.signal_policy import estimate_scale
        from gaitway_sim2real.mujoco.model import RobotModel, addresses
        from gaitway_tasks.commands import steering

        from ..domains.robots import in_mujoco
        from ..runs.folder import RunFolder
        from ..training.load import load_actor

        torch.set_num_threads(1)
        config, actor, checkpoint = load_actor(RunFolder.open(run), which)
        self.actor: Any = actor
        config = in_mujoco(config)
        if ground is not None:
            config = replace(config, task=config.robot_task.replace(ground=ground))
        self.env, self.command = _quiet_env(config)
        task = config.robot_task
        self.caption = f"{int(checkpoint.stem.removeprefix('step_')):,} steps"
        self.name, self.control_dt = f"{task.name} after {self.caption}", task.timing.step_dt
        self.title, self.detail = _title(task.robot.name), f"{task.name}, run {run.absolute().name}, {self.caption}"
        self.model, self.base_qpos = _visual_model(task), 0
        _lay_tile(self.env.world, self.model)
        self.steers, self.labels = True, VELOCITY
        self.still: Command = STILL
        self.command_ranges: tuple[tuple[float, float], ...] = tuple(steering(task)[1].ranges().values())
        self.stage = RobotModel(
            **addresses(self.model, task.robot.base_name, task.robot.joint_names),
            start_height=task.robot.init_height,
            foot_names=task.robot.foot_names,
        )
        self._qpos = self.env.world.batch.bind("qpos")
        self._widths: dict[str, int] = getattr(self.actor, "widths", {})
        self._scale = estimate_scale(task, self._widths)
        self._own: Array | None = None
        self.observation: Any = None
        self.reset()

    @property
    def qpos(self) -> Array:
        return self._qpos[0]

    def velocity(self) -> Array:
        robot = self.env.world.robot
        return np.array([*robot.root_lin_vel_b[0, :2].tolist(), float(robot.root_ang_vel_b[0, 2])])

    def own(self) -> Array | None:
        return self._own

    def step(self, command: Array) -> None:
        import torch

        self.command.command[0] = torch.as_tensor(command, dtype=torch.float32)
        observation = self.observation["policy"]
        action = self.policy.act(observation)
        self._own = self._estimate(observation)
        self.observation, _, terminated, truncated, _ = self.env.step(action)
        self.policy.forget(terminated | truncated)

    def _estimate(self, observation: Any) -> Array | None:
        if "base_lin_vel" not in self._widths:
            return None
        import torch

        with torch.inference_mode():
            _, joined = self.actor.with_estimates(observation)
        parts = (joined / self._scale).split(list(self._widths.values()), 1)
        return planar(parts[list(self._widths).index("base_lin_vel")][0].numpy())

    def reset(self) -> None:
        from ..training.load import Acting

        self.observation, _ = self.env.reset()
        self.policy = Acting(self.actor, 1)

    def heading(self) -> float:
        return _heading(self.qpos[3:7])

    def push(self, velocity: Array) -> None:
        import torch

        planar = torch.tensor([[*velocity, 0.0]], dtype=torch.float32)
        self.env.world.add_root_velocity(torch.tensor([0]), planar, torch.zeros(1, 3))
        self.env.world.finish_events()

    def tour(self, seconds: float) -> Script:
        return tour(self.command_ranges, seconds)


def _title(robot: str) -> str:
    """Full name of a robot that Gaitway knows, or its name."""
    from gaitway_tasks.robots.known import own

    return own()[robot].title if robot in own() else robot


def planar(velocity: Array) -> Array:
    """vx and vy of an estimate (3,), and NaN for the yaw rate, which sensors measure."""
    return np.array([*velocity[:2], np.nan])


def _heading(quat: Array) -> float:
    """Direction of the x axis in the world's plane [rad]."""
    forward = quat_apply(quat, np.array([1.0, 0.0, 0.0]))
    return float(np.arctan2(forward[1], forward[0]))


def _quiet_env(config: Any) -> tuple[Any, Any]:
    """One environment of the task without noise, randomisation, pushes or commands of its own."""
    from gaitway_tasks.commands import velocity_steering

    task = config.robot_task
    name, command = velocity_steering(task)
    quiet = task.replace(
        commands={name: command.steered()},
        curriculum={},
        events={key: _exactly(event) for key, event in task.events.items() if event.mode == "reset"},
        observations={key: replace(group, enable_corruption=False) for key, group in task.observations.items()},
        timing=replace(task.timing, episode_length_s=1e6),
    )
    env: Any = config.environments.make_env(replace(config, task=quiet, num_threads=1), 1, config.seed)
    return env, env.managers.commands[name]


def _exactly(event: Any) -> Any:
    """A reset event that always gives the middle of its ranges."""

    def middle(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: middle(item) for key, item in value.items()}
        if isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, int | float) for x in value):
            return ((value[0] + value[1]) / 2,) * 2
        return value

    return replace(event, params=middle(dict(event.params)))


def _lay_tile(world: Any, model: mujoco.MjModel) -> None:
    """Show the tile that the first environment of ``world`` stands on, if its ground has tiles."""
    fields, geom = mujoco.mjtGeom.mjGEOM_HFIELD, model.geom("ground").id
    if model.geom_type[geom] == fields:
        model.hfield_data[:] = world.model.hfield_data
        model.geom_dataid[geom] = world.batch.expand("geom_dataid")[0, world.model.geom("ground").id]


def _visual_model(task: Task) -> mujoco.MjModel:
    from gaitway_sim2real.mujoco.stage import set_stage
    from gaitway_tasks.robots import mjcf

    spec = mjcf.load_spec(task.robot.mjcf)
    mjcf.add_ground(spec, task.ground)
    set_stage(spec)
    return spec.compile()
