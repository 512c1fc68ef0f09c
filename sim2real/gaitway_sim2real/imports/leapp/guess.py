"""Facts that a LEAPP package lacks, from its robot and Isaac Lab's velocity tasks; each with a note."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_files.yaml_files import dump_yaml
from gaitway_onboard.bundle.contract import Contract, sha256
from gaitway_onboard.bundle.parts import HeightScan
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.commands import steering
from gaitway_tasks.robots import ROBOTS, ActuatorLaw, Robot, mjcf
from gaitway_tasks.spec import Task
from gaitway_tasks.velocity import velocity_flat

from ...bundle.contracts import CONVENTIONS, versions
from ...bundle.io_descriptors import io_descriptors, raw_observation
from ...bundle.model_files import copy_model
from ...bundle.robot_fields import robot_fields
from .connect import Connections, connect
from .package import TARGET_KIND, LeappError, LeappPackage

ISAACLAB_SCAN = HeightScan(resolution=0.1, size=(1.6, 1.0))
"""The scanner of Isaac Lab's rough velocity tasks."""
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A package together with the robot, gains, rates and commands that it is run with."""

    task: Task
    """Its robot has the package's gains."""
    connections: Connections
    control_dt: float
    physics_dt: float
    scan: HeightScan | None

    @property
    def command_ranges(self) -> dict[str, tuple[float, float]]:
        return steering(self.task)[1].ranges()

    @property
    def estimated(self) -> dict[str, int]:
        """Width of each input that no sensor gives."""
        widths = {"base_lin_vel": 3} if "base_lin_vel" in self.connections.signals else {}
        return widths | ({"height_scan": len(self.scan.points())} if self.scan else {})

    def contract(self, package: LeappPackage, **parts: Any) -> Contract:
        """The contract but for ``parts``; the files' hashes are still missing."""
        return Contract(
            task=package.name,
            **robot_fields(self.task.robot),
            control_dt=self.control_dt,
            physics_dt=self.physics_dt,
            commands={"base_velocity": self.command_ranges},
            conventions=CONVENTIONS,
            software=versions(),
            checkpoint_sha256=sha256(package.model),
            files={},
            height_scan=self.scan,
            **parts,
        )

    def write_files(
        self, folder: Path, package: LeappPackage, scale: tuple[float, ...], offset: tuple[float, ...]
    ) -> None:
        """``robot.xml`` with its licence, and ``io_descriptors.yaml``."""
        robot = self.task.robot
        spec = mjcf.load_spec(copy_model(robot.mjcf, folder))
        mjcf.check_joints(spec, robot.joint_names)
        model: mujoco.MjModel = spec.compile()
        dofs = [int(model.joint(name).dofadr[0]) for name in robot.joint_names]
        names = [re.escape(name) for name in robot.joint_names]
        actions = JointPositionAction(
            scale=dict(zip(names, scale, strict=True)), offset=dict(zip(names, offset, strict=True))
        )
        group = replace(self.task.observations["policy"], terms={})
        described = io_descriptors(
            self.task.replace(actions=actions, observations={"policy": group}),
            {},
            armature=model.dof_armature[dofs].tolist(),
            friction=model.dof_frictionloss[dofs].tolist(),
        )
        described["observations"]["policy"] = [
            raw_observation(tensor.name, self.connections.sources[tensor.name].signal, tensor.width, tensor.elements)
            for tensor in package.inputs
        ]
        described["scene"] = {
            "decimation": round(self.control_dt / self.physics_dt),
            "dt": self.control_dt,
            "physics_dt": self.physics_dt,
        }
        (folder / "io_descriptors.yaml").write_text(dump_yaml(described), "utf-8")


def guess(package: LeappPackage, robot: str | None, say: Say) -> Guess:
    """Complete ``package`` with the robot called ``robot``, or the one that it fits; ``say`` hears what is assumed."""
    chosen = _robot(package, robot, say)
    connections = connect(package, chosen.joint_names)
    chosen = _with_gains(chosen, package, connections, say)
    task = velocity_flat(chosen)
    control_dt = task.timing.step_dt
    if package.frequency is not None:
        control_dt = 1.0 / package.frequency
    else:
        say(f"the package names no rate: {1 / control_dt:g} Hz, as Isaac Lab's velocity tasks; another is said under "
            f"pipeline: configs: frequency in its YAML")  # fmt: skip
    steps = max(1, round(control_dt / task.timing.physics_dt))
    say(f"commands as {task.name} has them; the package does not say what it was trained on")
    return Guess(
        task=task,
        connections=connections,
        control_dt=control_dt,
        physics_dt=control_dt / steps,
        scan=_scan(package, connections),
    )


def _robot(package: LeappPackage, name: str | None, say: Say) -> Robot:
    if name is not None:
        if name not in ROBOTS:
            raise LeappError(f"--robot {name}: Gaitway knows {', '.join(ROBOTS)}")
        return ROBOTS[name]
    joints = {joint for tensor in package.outputs if tensor.kind == TARGET_KIND for joint in tensor.elements or ()}
    if not joints:
        raise LeappError(f"{package.path} has no output of kind {TARGET_KIND} with joint names: it cannot be run here")
    fitting = [robot for robot in ROBOTS.values() if set(robot.joint_names) == joints]
    if not fitting:
        raise LeappError(
            f"{package.path} moves {', '.join(sorted(joints))}, and no robot that Gaitway knows has exactly these "
            f"joints ({', '.join(ROBOTS)}): add it to gaitway_tasks.robots"
        )
    said = _plain(f"{package.name} {package.node}")
    named = [robot for robot in fitting if _plain(robot.name) in said]
    if len(fitting) == 1 and not named:
        say(f"taken for {fitting[0].name}, whose joints it has; --robot names another")
        return fitting[0]
    if not named:
        raise LeappError(
            f"{package.path} fits {', '.join(robot.name for robot in fitting)}: name its robot with --robot"
        )
    return max(named, key=lambda robot: len(robot.name))


def _plain(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def _with_gains(robot: Robot, package: LeappPackage, connections: Connections, say: Say) -> Robot:
    """``robot`` with the gains that the package outputs, which must be constants."""
    if any(set(columns) != set(robot.joint_names) for columns in connections.gains.values()):
        say(f"gains as {robot.name} has them; the package does not give them for every joint")
        return robot
    runs = [package.run({t.name: np.full(t.shape, fill) for t in package.inputs}) for fill in (0.0, 0.5)]
    gains: dict[str, dict[str, float]] = {}
    for what, columns in connections.gains.items():
        values = [{j: float(run[name].reshape(-1)[k]) for j, (name, k) in columns.items()} for run in runs]
        if values[0] != values[1]:
            raise LeappError(f"{package.path}: the {what} changes while the policy runs; a bundle's is constant")
        gains[what] = values[0]
    if not all(value > 0.0 for value in gains["stiffness"].values()):
        say(f"gains as {robot.name} has them: the package's are zero, as Isaac Lab's of explicit actuators are")
        return robot
    groups: dict[tuple[ActuatorLaw, float, float], list[str]] = {}
    for joint, law in zip(robot.joint_names, robot.joint_actuators, strict=True):
        groups.setdefault((law, gains["stiffness"][joint], gains["damping"][joint]), []).append(joint)
    laws = {
        f"group_{k}": replace(law, stiffness=kp, damping=kd, joints=tuple(map(re.escape, joints)))
        for k, ((law, kp, kd), joints) in enumerate(groups.items())
    }
    say(f"torque limits as {robot.name} has them; the package has gains only")
    return robot.replace(actuators=laws)


def _scan(package: LeappPackage, connections: Connections) -> HeightScan | None:
    for tensor in package.inputs:
        if connections.sources[tensor.name].form == "ray_hits":
            if tensor.shape[1] != len(ISAACLAB_SCAN.points()):
                raise LeappError(
                    f"{package.path}: its height scanner has {tensor.shape[1]} rays, and only that of Isaac Lab's "
                    f"velocity tasks is known, with {len(ISAACLAB_SCAN.points())}"
                )
            return ISAACLAB_SCAN
    return None
