"""Standing of a robot under its gains: simulated, with stiffer legs if it sinks, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import mujoco
import numpy as np
from gaitway_files.writing import whole_file
from gaitway_tasks.robots import Robot, mjcf
from gaitway_tasks.robots.robot import DCMotor

from ..mujoco.camera import Camera, RenderingError
from ..mujoco.model import addresses, compile_robot, prepare_robot
from .motors import Gain, actuators, by_name, find_gains
from .pose import Leg
from .stance import Stance
from .tree import AdoptError

SECONDS, TILT = 5.0, 0.1  # time for which a robot on four feet or more stands [s], and its largest tilt then [rad]
TIMESTEP = 0.005
STIFFER = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5)  # factors on the legs' gains that are tried until it stands
PICTURE = (848, 480)


def with_drives(
    robot: Robot, stance: Stance, legs: Sequence[Leg], efforts: Mapping[str, float],
    given: Mapping[str, tuple[float, float]], notes: list[str],
) -> Robot:  # fmt: skip
    """``robot`` with the gains under which it stands; ``given`` {pattern: (kp, kd)} are the user's."""
    torques, many = stance.torques()[0], len(legs) > 2
    told = {
        name: Gain(kp=kp, kd=kd, part="given") for name, (kp, kd) in by_name(given, list(efforts), "--gains").items()
    }
    for factor in STIFFER:
        found, topple = find_gains(stance, legs, efforts, torques, factor)
        found |= told
        robot = robot.replace(actuators=actuators(stance.tree, found, efforts))
        tilt, fallen = stands(robot) if many else (0.0, False)
        if not fallen:
            break
    told_gains = dict.fromkeys(f"{gain.part} kp {gain.kp:g} kd {gain.kd:g}" for gain in found.values())
    stiffer = f", legs {factor:g} times as stiff, or it would not stand" if factor > 1.0 else ""
    notes.append(
        f"gains: {', '.join(told_gains)} (gravity topples a leg's share by {topple:.3g} N m/rad; fitted to nine robots"
        f"{stiffer}); --gains REGEX=KP:KD,... changes them"
    )
    if any(isinstance(law, DCMotor) for law in robot.actuators.values()):
        notes.append("motors: torque falls to nothing at the file's velocity, from its effort at rest")
    if fallen:
        raise AdoptError(
            f"{stance.tree.path}: it does not stand in its default pose: after {SECONDS:g} s it is tilted by "
            f"{tilt:.2f} rad or has sunk: give stiffer gains, --gains 'REGEX=KP:KD', or another pose, "
            "--pose JOINT=RAD,..."
        )
    notes.append(
        f"stands for {SECONDS:g} s under these gains, tilted by {tilt:.3f} rad at most"
        if many
        else "two feet: these gains do not balance it, a policy does"
    )
    return robot


def stands(robot: Robot) -> tuple[float, bool]:
    """Largest tilt of the base [rad] while the robot holds its default pose on flat ground, and True if it falls."""
    spec, base = prepare_robot(robot.mjcf, robot.joint_names, timestep=TIMESTEP)
    mjcf.set_actuators(spec, robot.joint_names, robot.joint_actuators)
    model, data, at = _started(spec, base, robot)
    data.ctrl[:] = robot.default_joint_pos
    tilt = 0.0
    for _ in range(round(SECONDS / TIMESTEP)):
        mujoco.mj_step(model, data)
        up = float(data.xmat[at["base_body"]][8])
        tilt = max(tilt, math.acos(min(max(up, -1.0), 1.0)))
        if not math.isfinite(up) or tilt > 1.0:
            return tilt, True
    sunk = float(data.qpos[at["base_qpos"] + 2]) < 0.6 * robot.init_height
    return tilt, tilt > TILT or sunk


def take_picture(robot: Robot, out: Path) -> None:
    """Write ``out`` (png), the robot in its default pose. Raises :class:`RenderingError` if this machine cannot."""
    spec, base = prepare_robot(robot.mjcf, robot.joint_names, timestep=TIMESTEP, visual=True)
    model, data, _ = _started(spec, base, robot)
    try:
        from PIL import Image

        with Camera(model, PICTURE) as camera, whole_file(out) as partial:
            camera.camera.distance = 3.2 * max(robot.init_height, 0.2)
            camera.look(data.qpos, np.array([0.0, 0.0, 0.6 * robot.init_height]))
            camera.blot(np.zeros(3), 0.0, (0.75 * robot.init_height, 0.4 * robot.init_height), 0.06)
            Image.fromarray(camera.shoot()).save(partial)
    except ImportError as error:
        raise RenderingError(f"{error.name or error} is not installed: pip install gaitway[mujoco]") from None
    except (RuntimeError, AttributeError, OSError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RenderingError(f"cannot render ({reason}): install libegl1 and libopengl0") from None


def _started(spec: mujoco.MjSpec, base: str, robot: Robot) -> tuple[mujoco.MjModel, mujoco.MjData, dict[str, int]]:
    """Model, data in the default pose on the ground, and addresses."""
    model = compile_robot(spec, robot.mjcf)
    at, data = addresses(model, base, robot.joint_names), mujoco.MjData(model)
    data.qpos[at["base_qpos"] : at["base_qpos"] + 7] = 0.0, 0.0, robot.init_height, 1.0, 0.0, 0.0, 0.0
    data.qpos[at["joint_qpos"]] = robot.default_joint_pos
    return model, data, at
