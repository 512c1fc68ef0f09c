"""A motion of one quadruped made into one of another: feet and base keep their paths, scaled by the length of the legs.

The target stands in its default pose, follows the motion, repeats its middle, and stands again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gaitway_onboard.rotation import quat_apply, yaw_of
from gaitway_tasks.robots import Robot

from .formats import LAIKAGO
from .generator import STAND, smooth, standing
from .kinematics import lowered, reach, reaches
from .motion import Array, Motion, MotionError, slerp

BLEND = 0.6
"""Time from the default pose into a motion, and back [s]."""
HIPS = np.array([[0.21, -0.1157, 0.0], [0.21, 0.1157, 0.0], [-0.21, -0.1157, 0.0], [-0.21, 0.1157, 0.0]])
"""Hips of a Laikago in its base frame [m]: front right, front left, rear right, rear left (motion_imitation)."""
LINK, ASIDE = 0.25, 0.037
"""Length of its thighs and shanks, and distance of its legs from its hips [m]."""
MISSED = 0.08
"""Most by which a foot that stands may miss its place [m], with legs of a Laikago's length: joints have other limits.
"""
STANDING = 0.02
"""Height over the lowest up to which a foot stands, and must be where it should be [m]."""
SIGNS = np.array([-1, 1, 1, 1, 1, 1, -1, 1, 1, 1, 1, 1])
OFFSETS = np.tile([0.0, -0.6, 0.66], 4)
"""Signs and offsets of its joints [rad], from its model's to those that are 0 with straight legs (motion_imitation)."""
SIDES = np.array([-1, 1, -1, 1])
LEGS = {"FR": 0, "FL": 1, "RR": 2, "RL": 3, "RF": 0, "LF": 1, "RH": 2, "LH": 3}
"""Legs of a Laikago by the first letters of a quadruped's feet: Unitree's and ANYbotics'."""


def laikago_feet(joint_pos: Array) -> Array:
    """Feet of a Laikago in its base frame [m], (T, 4, 3)."""
    aside, hip, knee = np.moveaxis((joint_pos * SIGNS - OFFSETS).reshape(-1, 4, 3), -1, 0)
    x = -LINK * (np.sin(hip) + np.sin(hip + knee))
    z = -LINK * (np.cos(hip) + np.cos(hip + knee))
    y = SIDES * ASIDE
    feet: Array = HIPS + np.stack((x, y * np.cos(aside) - z * np.sin(aside), y * np.sin(aside) + z * np.cos(aside)), -1)
    return feet


def retarget(motion: Motion, robot: Robot, fps: float, slower: float = 1.0) -> Motion:
    """``motion``, of a Laikago or of a robot with the joints of ``robot``, for ``robot``, ``slower`` times slower.

    Raises :class:`MotionError` for what its legs cannot do.
    """
    motion = replace(motion, fps=motion.fps / slower)
    if motion.joint_names != LAIKAGO:
        return with_stands(motion.ordered(robot.joint_names).resampled(fps), robot)
    places = [LEGS.get(name[:2], -1) for name in robot.foot_names]
    if sorted(places) != [0, 1, 2, 3]:
        raise MotionError(
            f"{robot.name} has the feet {', '.join(robot.foot_names) or 'none'}: clips of quadrupeds need four, whose "
            f"names begin with {', '.join(LEGS)}"
        )
    motion = motion.resampled(fps)
    ours = standing(robot)[1]
    theirs = laikago_feet(motion.joint_pos)[:, places]
    world = motion.root_pos[:, None] + quat_apply(np.repeat(motion.root_quat_wxyz[:, None], 4, 1), theirs)
    low = world[..., 2].min()
    hips = HIPS[places] + np.stack((np.zeros(4), SIDES[places] * ASIDE, np.zeros(4)), -1)
    scale = float(reaches(robot).max()) / (2 * LINK)
    turn = np.repeat(motion.root_quat_wxyz[:, None], 4, 1)
    place = scale * motion.root_pos
    place[:, 2] = scale * (motion.root_pos[:, 2] - low) + ours[:, 2].min()
    nominal = np.concatenate((ours[:, :2], np.zeros((4, 1))), 1) - scale * np.concatenate(
        (hips[:, :2], np.zeros((4, 1))), 1
    )
    heading = yaw_of(motion.root_quat_wxyz)
    shift = quat_apply(np.repeat(_about_z(heading)[:, None], 4, 1), np.tile(nominal, (len(motion), 1, 1)))
    feet = place[:, None] + scale * quat_apply(turn, theirs) + shift
    stands = feet[..., 2] < ours[:, 2].min() + STANDING
    place = lowered(robot, place, motion.root_quat_wxyz, feet, stands)
    joints = reach(robot, place, motion.root_quat_wxyz, feet, stands=stands, farthest=MISSED * scale)
    return with_stands(
        Motion(
            fps=fps, joint_names=robot.joint_names, joint_pos=joints, root_pos=place,
            root_quat_wxyz=motion.root_quat_wxyz, loop=(0, len(joints) - 1), robot=robot.name,
        ), robot,
    )  # fmt: skip


def with_stands(motion: Motion, robot: Robot) -> Motion:
    """``motion`` between two times in the default pose of ``robot``, with smooth ways into and out of it.

    It begins at the place 0 with heading 0.
    """
    turn = _about_z(-yaw_of(motion.root_quat_wxyz[0]))
    origin = motion.root_pos[0] * [1.0, 1.0, 0.0]
    count, fps = len(motion), motion.fps
    place = quat_apply(np.tile(turn, (count, 1)), motion.root_pos - origin)
    quat = _times(np.tile(turn, (count, 1)), motion.root_quat_wxyz)
    stand, blend = round(STAND * fps), round(BLEND * fps)
    share = smooth(np.arange(1, blend) / blend)
    default = np.array(robot.default_joint_pos)
    height = standing(robot)[0]

    def pose(row: int) -> tuple[Array, Array]:
        """Place and rotation of the default pose where the motion is in ``row``."""
        return place[row] * [1.0, 1.0, 0.0] + height, _about_z(yaw_of(quat[row]))

    speed = (place[1] - place[0]) * fps, (place[-1] - place[-2]) * fps
    start, start_quat = pose(0)
    end, end_quat = pose(-1)
    # The base comes to its speed on the way, in half of the way that it would take at it.
    ahead = np.outer(0.5 * blend / fps * share**2, speed[0] * [1, 1, 0])
    after = np.outer(0.5 * blend / fps * (1 - (1 - share) ** 2), speed[1] * [1, 1, 0])
    shift = -0.5 * blend / fps * speed[0] * [1, 1, 0]
    start, final = start + shift, end + 0.5 * blend / fps * speed[1] * [1, 1, 0]
    into = start + ahead + np.outer(share, place[0] - pose(0)[0])
    out = place[-1] + after + np.outer(share, pose(-1)[0] - place[-1])
    joints = motion.joint_pos
    parts = (
        (np.tile(default, (stand, 1)), np.tile(start, (stand, 1)), np.tile(start_quat, (stand, 1))),
        (default + share[:, None] * (joints[0] - default), into,
         slerp(np.tile(start_quat, (len(share), 1)), np.tile(quat[0], (len(share), 1)), share[:, None])),
        (joints, place, quat),
        (joints[-1] + share[:, None] * (default - joints[-1]), out,
         slerp(np.tile(quat[-1], (len(share), 1)), np.tile(end_quat, (len(share), 1)), share[:, None])),
        (np.tile(default, (stand + 1, 1)), np.tile(final, (stand + 1, 1)), np.tile(end_quat, (stand + 1, 1))),
    )  # fmt: skip
    joined = [np.concatenate([part[column] for part in parts]) for column in range(3)]
    first = stand + len(share)
    closes = np.abs(joints[0] - joints[-1]).max() < 0.1
    loop = (first, first + count - 1) if closes else (0, len(joined[0]) - 1)
    return replace(
        motion, joint_pos=joined[0], root_pos=joined[1], root_quat_wxyz=joined[2], loop=loop, robot=robot.name,
        joint_names=robot.joint_names,
    )  # fmt: skip


def _about_z(yaw: np.ndarray) -> Array:
    zero = np.zeros_like(yaw)
    turned: Array = np.stack((np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)), -1)
    return turned


def _times(a: Array, b: Array) -> Array:
    from gaitway_onboard.rotation import quat_mul

    return np.asarray(quat_mul(a, b))
