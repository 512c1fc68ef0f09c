"""A bundle's robots in Isaac Lab: its graph, joint order, drives and control period, on the physics of its engines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gaitway_files.errors import UserError
from gaitway_isaaclab import preflight
from gaitway_isaaclab.walk import State, Walk
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.rotation import quat_apply, quat_from_axis
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.estimates import true_estimates
from gaitway_sim2real.mujoco.laws import actuator_law
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.mjcf import load_spec

if TYPE_CHECKING:
    from gaitway_isaaclab.viewer import Viewer

PHYSICS_DT = 0.005
"""Coarsest physics step [s]; the contract's own if that is shorter. As in ``gaitway validate``."""
FRICTION = 0.8
"""Friction of the ground, that of ``gaitway validate`` too."""
PERIOD = 4.0
"""Time between two commands [s]."""
MAX_TILT, MIN_HEIGHT = 1.0, 0.5
"""A robot has fallen if its base tilts further [rad], or is below this part of its initial height."""


def robot_of(contract: Contract, bundle: Path, body_names: Sequence[str], foot_names: Sequence[str]) -> Robot:
    """The robot that the contract drives, of the bundle's ``robot.xml``; ``body_names`` begin with the base."""
    return Robot(
        name=Path(contract.robot.replace(":", "_")).name,
        joint_names=contract.joint_names,
        body_names=tuple(body_names),
        foot_names=tuple(foot_names),
        default_joint_pos=contract.default_joint_pos,
        joint_limits=contract.joint_pos_limits,
        soft_joint_pos_limit_factor=contract.soft_joint_pos_limit_factor,
        init_height=contract.init_height,
        actuators={
            f"drives_{number}": actuator_law(actuator, tuple(re.escape(joint) for joint in actuator.joints))
            for number, actuator in enumerate(contract.actuators, 1)
        },
        mjcf=bundle / "robot.xml",
    )


def signals_of(contract: Contract, state: State) -> dict[str, np.ndarray]:
    """Inputs of the bundle's graph but its command, from the simulation's ``state``."""
    return {
        "joint_pos": state["joint_pos"],
        "joint_vel": state["joint_vel"],
        "imu_quat_wxyz": state["base_quat"],
        "gyro": state["ang_vel"],
        **true_estimates(contract, state["base_pos"], state["base_quat"], lambda: state["lin_vel"], LEVEL),
    }


class BundleRobots:
    """``count`` robots of ``bundle`` on flat ground in Isaac Lab's ``physics``; None is the installation's own choice.

    They stand in the default pose, each with another heading. Raises :class:`gaitway_files.errors.UserError` before
    anything starts where Isaac Lab cannot run.
    """

    def __init__(self, bundle: str | Path, count: int, *, physics: str | None = None, viewer: Viewer | None = None):
        bundle = Path(bundle)
        verify_files(bundle)
        self.contract = contract = Contract.load(bundle)
        contract.check_velocity("walks in Isaac Lab follow")
        engine = preflight.check(physics)
        if (release := preflight.find().release) != "3.0":
            raise UserError(f"bundles walk in Isaac Lab 3.0, this is {release}: {preflight.INSTALL['3.0']}")
        bodies = [body.name for body in load_spec(bundle / "robot.xml").bodies if body.name != "world"]
        self.policy = BatchedPolicy(bundle / "policy.onnx", contract, count)
        decimation = int(np.ceil(contract.control_dt / min(PHYSICS_DT, contract.physics_dt) - 1e-9))
        self.physics_dt = contract.control_dt / decimation
        self.walk = Walk(
            robot_of(contract, bundle, bodies, contract.foot_bodies), count,
            physics=engine, physics_dt=self.physics_dt, decimation=decimation,
            friction=FRICTION, viewer=viewer,
        )  # fmt: skip
        self.count = count
        self._yaw = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
        self.place(np.arange(count))

    @property
    def engine(self) -> str:
        """Version of Isaac Lab, and its physics engine."""
        found = self.walk.simulation
        return f"Isaac Lab {found['versions']['isaaclab']}, {found['engine']}"

    def signals(self) -> dict[str, np.ndarray]:
        """Inputs of the graph but its command, of this moment."""
        return signals_of(self.contract, self.walk.state())

    def base_pos(self) -> np.ndarray:
        """Positions of the bases from where each robot started [m], (N, 3)."""
        return self.walk.state()["base_pos"]

    def lin_vel(self) -> np.ndarray:
        """Velocities of the bases in their own frames [m/s], (N, 3)."""
        return self.walk.state()["lin_vel"]

    def step(self, target: np.ndarray) -> np.ndarray:
        """Hold ``target`` [rad] (N, J) for a control period; returns the drives' last torques [N m], (N, J)."""
        self.walk.step(target)
        return self.walk.torque()

    def fallen(self) -> np.ndarray:
        """Mask of the robots whose base is tilted too far or too low, (N,) bool."""
        state = self.walk.state()
        upright = quat_apply(state["base_quat"], np.array([0.0, 0.0, 1.0]))[:, 2]
        standing = (upright > np.cos(MAX_TILT)) & (state["base_pos"][:, 2] > MIN_HEIGHT * self.contract.init_height)
        return ~standing  # NaN stands nowhere

    def place(self, rows: np.ndarray) -> None:
        """Put the robots ``rows`` (K,) back to where they started, with the policy's state of a start."""
        count = len(rows)
        base = np.tile([0.0, 0.0, self.contract.init_height], (count, 1))
        pose = np.tile(self.contract.default_joint_pos, (count, 1))
        self.walk.place(base, quat_from_axis(2, self._yaw[rows]), pose, np.zeros((count, 3)), rows)
        self.policy.state[rows] = 0.0

    def close(self) -> None:
        """End the simulation."""
        self.walk.close()


def random_commands(contract: Contract, count: int, seed: int) -> Iterator[np.ndarray]:
    """Commands of each control step without end, (N, 3) vx, vy [m/s], yaw rate [rad/s]: a new one every 4 s."""
    rng = np.random.default_rng(seed)
    low, high = np.array(contract.command_ranges).T
    while True:
        drawn = rng.uniform(low, high, (count, 3))
        for _ in range(max(1, round(PERIOD / contract.control_dt))):
            yield drawn
