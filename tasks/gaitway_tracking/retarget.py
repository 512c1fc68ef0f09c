"""A motion of one quadruped made into one of another: feet and base keep their paths, scaled by the length of the legs.

The target stands in its default pose, follows the motion, repeats its middle, and stands again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gaitway_onboard.rotation import quat_apply, quat_mul, yaw_of
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
LEVEL = np.array([1.0, 1.0, 0.0])
"""Factors that leave a place's x and y."""
CLOSED = 1.5
"""Most by which a motion's last frame may differ from its first one, in the largest step between frames, to be repeated
without a stand in between."""
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
    motion = motion.resampled(fps)
    place, feet, scale = _scaled(motion, robot)
    stands = feet[..., 2] < standing(robot)[1][:, 2].min() + STANDING
    place = lowered(robot, place, motion.root_quat_wxyz, feet, stands)
    joints = reach(robot, place, motion.root_quat_wxyz, feet, stands=stands, farthest=MISSED * scale)
    done = replace(motion, joint_names=robot.joint_names, joint_pos=joints, root_pos=place)
    return with_stands(done, robot)


def _scaled(motion: Motion, robot: Robot) -> tuple[Array, Array, float]:
    """Places of the base (T, 3) and of the feet (T, F, 3) [m] of a Laikago's motion in the size of ``robot``, and that
    size. Feet are as far from where ``robot`` has them as the Laikago's are from under its hips."""
    places = [LEGS.get(name[:2], -1) for name in robot.foot_names]
    if sorted(places) != [0, 1, 2, 3]:
        raise MotionError(
            f"{robot.name} has the feet {', '.join(robot.foot_names) or 'none'}: clips of quadrupeds need four, whose "
            f"names begin with {', '.join(LEGS)}"
        )
    ours, theirs = standing(robot)[1], laikago_feet(motion.joint_pos)[:, places]
    quat = np.repeat(motion.root_quat_wxyz[:, None], 4, 1)
    from_base = quat_apply(quat, theirs)
    low = (motion.root_pos[:, None] + from_base)[..., 2].min()
    scale, sole = float(reaches(robot).max()) / (2 * LINK), ours[:, 2].min()
    place = scale * motion.root_pos
    place[:, 2] += sole - scale * low
    under = HIPS[places] + np.stack((np.zeros(4), SIDES[places] * ASIDE, np.zeros(4)), -1)
    shift = (ours - scale * under) * [1.0, 1.0, 0.0]
    headings = np.repeat(_about_z(yaw_of(motion.root_quat_wxyz))[:, None], 4, 1)
    return place, place[:, None] + scale * from_base + quat_apply(headings, np.tile(shift, (len(motion), 1, 1))), scale


Part = tuple[Array, Array, Array]
"""Joints (T, J) [rad], places (T, 3) [m] and rotations (T, 4) of the base."""


def with_stands(motion: Motion, robot: Robot) -> Motion:
    """``motion`` between two times in the default pose of ``robot``, with smooth ways into and out of it.

    It begins at the place 0 with heading 0. A motion that ends as it begins, but for its place, is what is repeated.
    """
    count, fps, joints = len(motion), motion.fps, motion.joint_pos
    turn = np.tile(_about_z(-yaw_of(motion.root_quat_wxyz[0])), (count, 1))
    place = quat_apply(turn, motion.root_pos - motion.root_pos[0] * LEVEL)
    quat = np.asarray(quat_mul(turn, motion.root_quat_wxyz))
    into = _way_in(joints[0], place[:2], quat[0], robot, fps)
    out = [part[::-1] for part in _way_in(joints[-1], place[:-3:-1], quat[-1], robot, fps)]
    parts = (into, (joints, place, quat), out)
    joined = [np.concatenate([part[column] for part in parts]) for column in range(3)]
    first = len(into[0])
    step = np.abs(np.diff(joints, axis=0)).max()
    closes = np.abs(joints[0] - joints[-1]).max() <= CLOSED * step
    return replace(
        motion, joint_pos=joined[0], root_pos=joined[1], root_quat_wxyz=joined[2], robot=robot.name,
        loop=(first, first + count - 1) if closes else (0, len(joined[0]) - 1), joint_names=robot.joint_names,
    )  # fmt: skip


def _way_in(joints: Array, place: Array, quat: Array, robot: Robot, fps: float) -> Part:
    """Way from the default pose to a motion's first frame: its ``joints`` (J,), first two places (2, 3), rotation (4,).

    The base comes to its speed in half of the way that it takes at it.
    """
    stand, blend = round(STAND * fps), round(BLEND * fps)
    share = np.concatenate((np.zeros(stand), smooth(np.arange(1, blend) / blend)))
    default, pose = np.array(robot.default_joint_pos), place[0] * LEVEL + standing(robot)[0]
    way = 0.5 * blend * (place[1] - place[0]) * LEVEL
    upright = _about_z(yaw_of(quat))
    return (
        default + share[:, None] * (joints - default),
        pose - way + np.outer(share**2, way) + np.outer(share, place[0] - pose),
        slerp(np.tile(upright, (len(share), 1)), np.tile(quat, (len(share), 1)), share[:, None]),
    )


def _about_z(yaw: np.ndarray) -> Array:
    zero = np.zeros_like(yaw)
    turned: Array = np.stack((np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)), -1)
    return turned
