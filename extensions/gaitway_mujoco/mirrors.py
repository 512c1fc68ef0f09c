"""Check a robot's declared mirrors against the kinematics of its MJCF."""

from __future__ import annotations

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_tasks.robots import Mirror, Robot, mjcf
from gaitway_tasks.symmetry import joint_mirror
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-3  # [m] rounding in published models is far below it, a wrong sign far above
ANGLE = 0.3  # [rad]


def verify_mirrors(robot: Robot) -> None:
    """Raise ``ValueError`` unless mirrored joint angles put the feet at mirrored places, for every declared mirror.

    Joints are moved one at a time from zero, so that the error can name the joint whose sign or partner is wrong, and
    then all together. Default pose and joint limits must be their own mirror images, since observations and actions
    are relative to them. Masses are not compared: a payload may sit off the middle without harm.
    """
    feet_at = _FootKinematics(robot)
    for name, mirror in robot.mirrors.items():
        _verify(robot, name, mirror, feet_at)


def _verify(robot: Robot, name: str, mirror: Mirror, feet_at: _FootKinematics) -> None:
    perm, sign = (part.numpy() for part in joint_mirror(robot, mirror))
    feet = _image_feet(robot, name, mirror)
    flip = np.ones(3)
    flip["xyz".index(mirror.axis)] = -1.0

    def check(pose: Array, subject: str) -> None:
        distance = np.linalg.norm(feet_at(sign * pose[perm]) - feet_at(pose)[feet] * flip, axis=1)
        foot = int(distance.argmax())
        if distance[foot] > TOLERANCE:
            raise UserError(
                f"robot {robot.name!r}, mirror {name!r}: {subject} puts {robot.foot_names[foot]} "
                f"{distance[foot]:.3f} m from the mirror image: correct 'pairs', 'flip' or 'axis' of the mirror, or "
                f"the model {robot.mjcf.name}"
            )

    check(np.zeros(robot.num_joints), "the model itself, with all joints at zero,")
    for joint, joint_name in enumerate(robot.joint_names):
        image = int(np.flatnonzero(perm == joint)[0])
        pose = np.zeros(robot.num_joints)
        pose[joint] = ANGLE
        check(
            pose,
            f"moving joint {joint_name} by {ANGLE} rad and its image {robot.joint_names[image]} by "
            f"{sign[image] * ANGLE:g} rad",
        )
    for pose in np.random.default_rng(0).uniform(-ANGLE, ANGLE, (3, robot.num_joints)):
        check(pose, "moving all joints together")
    _check_joint_values(robot, name, perm, sign)


class _FootKinematics:
    """Foot positions in the base frame [m], (F, 3), for joint angles (J,)."""

    def __init__(self, robot: Robot):
        spec = mjcf.load_spec(robot.mjcf)
        mjcf.check_joints(spec, robot.joint_names)
        mjcf.strip_visuals(spec)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.addresses = [self.model.joint(name).qposadr[0] for name in robot.joint_names]
        self.base = self.model.body(robot.base_name).id
        self.feet = [self.model.body(name).id for name in robot.foot_names]

    def __call__(self, joint_pos: Array) -> Array:
        self.data.qpos[self.addresses] = joint_pos
        mujoco.mj_kinematics(self.model, self.data)
        turn = self.data.xmat[self.base].reshape(3, 3)
        return (self.data.xpos[self.feet] - self.data.xpos[self.base]) @ turn


def _image_feet(robot: Robot, name: str, mirror: Mirror) -> list[int]:
    """Index of each foot's mirror image."""
    images = []
    for foot in robot.foot_names:
        image = mirror.image(foot)
        if image not in robot.foot_names:
            raise UserError(f"robot {robot.name!r}, mirror {name!r}: the image of {foot} would be {image}, not a foot")
        images.append(robot.foot_names.index(image))
    return images


def _check_joint_values(robot: Robot, name: str, perm: Array, sign: Array) -> None:
    default, limits = np.array(robot.default_joint_pos), np.array(robot.joint_limits)
    wanted_default = sign * default[perm]
    wanted_limits = np.sort(sign[:, None] * limits[perm], axis=1)
    for joint, joint_name in enumerate(robot.joint_names):
        for what, value, wanted in (
            ("default position", default[joint], wanted_default[joint]),
            ("lower limit", limits[joint, 0], wanted_limits[joint, 0]),
            ("upper limit", limits[joint, 1], wanted_limits[joint, 1]),
        ):
            if abs(value - wanted) > TOLERANCE:
                raise UserError(
                    f"robot {robot.name!r}, mirror {name!r}: the {what} of {joint_name} is {value:.4g} rad, but its "
                    f"image {robot.joint_names[perm[joint]]} asks for {wanted:.4g} rad: make them mirror images"
                )
