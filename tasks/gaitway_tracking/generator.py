"""Motions made from a robot's facts: gaits by the clock, and slow movements of the body over feet that stand.

Each begins and ends in the default pose, so that a policy can start and stop there. Lengths are in heights of the base
at a reset and times in sqrt(height / g), so that robots of another size move alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gaitway_tasks.registry import UnknownNameError
from gaitway_tasks.robots import Robot
from gaitway_tasks.velocity.gaits import GAITS, GRAVITY

from .kinematics import Skeleton, reach
from .motion import Array, Motion, MotionError, quat_of

STAND = 0.4
"""Time in the default pose at either end [s]."""
RAMP = 2
"""Cycles in which a gait comes to its speed, and in which it stops."""
CYCLES = 8
"""Cycles of a gait at its speed: the part that is repeated."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """A gait at one speed."""

    speed: tuple[float, float] = (0.0, 0.0)
    """Forwards and to the left, as Froude numbers' roots: in sqrt(g height)."""
    turn: float = 0.0
    """Yaw rate, in sqrt(g / height)."""
    pace: bool = False
    """True if the feet of one side swing together; else it is the gait of :data:`GAITS`."""


@dataclass(frozen=True, kw_only=True)
class Sway:
    """Slow movement of the base over feet that stand, back and forth within ``seconds``."""

    seconds: float = 2.0
    place: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Way forwards, to the left and up, in heights."""
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Roll, pitch and yaw [rad]."""
    sides: tuple[int, ...] = (1,)
    """Signs of the movements, one after the other."""


BOW = Sway(place=(-0.05, 0.0, -0.12), turn=(0.0, 0.3, 0.0))
SQUAT = Sway(place=(0.0, 0.0, -0.25), sides=(1, 1))
SWAY = Sway(place=(0.0, 0.04, -0.03), turn=(0.15, 0.0, 0.15), sides=(1, -1))

MOTIONS: dict[str, Steps | Sway | tuple[Steps | Sway, ...]] = {
    "trot": Steps(speed=(0.2, 0.0)),
    "backwards": Steps(speed=(-0.15, 0.0)),
    "sideways": Steps(speed=(0.0, 0.12)),
    "turn": Steps(turn=0.2),
    "pace": Steps(speed=(0.15, 0.0), pace=True),
    "march": Steps(),
    "squat": SQUAT,
    "bow": BOW,
    "sway": SWAY,
    "dance": (BOW, SWAY, SQUAT),
}
"""Motions by name; a tuple is one part after the other."""


def generate(name: str, robot: Robot, fps: float) -> Motion:
    """The motion ``name`` for ``robot``, at ``fps``."""
    if name not in MOTIONS:
        raise UnknownNameError("motion", name, MOTIONS)
    if robot.fixed_base or not robot.foot_names:
        raise MotionError(f"robot {robot.name!r} has no feet: its motions are files")
    recipe = MOTIONS[name]
    place, turn, feet, loop = _made(recipe, robot, fps)
    quat = quat_of(*turn.T)
    return Motion(
        fps=fps, joint_names=robot.joint_names, joint_pos=reach(robot, place, quat, feet), root_pos=place,
        root_quat_wxyz=quat, loop=loop, robot=robot.name,
    )  # fmt: skip


def smooth(share: Array) -> Array:
    """From 0 to 1 with speed and acceleration 0 at either end (a quintic)."""
    x = np.clip(share, 0.0, 1.0)
    risen: Array = x**3 * (10 - 15 * x + 6 * x**2)
    return risen


Made = tuple[Array, Array, Array, tuple[int, int]]
"""Place of the base (T, 3) [m], its roll, pitch and yaw (T, 3) [rad], feet (T, F, 3) [m], and the loop [frames]."""


def _made(recipe: Steps | Sway | tuple[Steps | Sway, ...], robot: Robot, fps: float) -> Made:
    if isinstance(recipe, Steps):
        return _stepping(recipe, robot, fps)
    if isinstance(recipe, Sway):
        return _swaying(recipe, robot, fps)
    place, turn, feet, _ = _made(recipe[0], robot, fps)
    for part in recipe[1:]:
        further = _moved(_made(part, robot, fps), place[-1], turn[-1, 2], 1 + round(STAND * fps))
        place, turn, feet = (np.concatenate(pair) for pair in zip((place, turn, feet), further, strict=True))
    return place, turn, feet, (0, len(place) - 1)


def _moved(made: Made, end: Array, yaw: float, skipped: int) -> tuple[Array, Array, Array]:
    """A part that begins with the base at ``end`` (3,) and ``yaw``, without its first frames."""
    place, turn, feet, _ = made
    c, s = math.cos(yaw), math.sin(yaw)
    rotation = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    begin = np.array([*place[0, :2], 0.0])
    shift = np.array([*end[:2], 0.0])
    turned = turn + np.array([0.0, 0.0, yaw])
    places, paths = ((part[skipped:] - begin) @ rotation.T + shift for part in (place, feet))
    return places, turned[skipped:], paths


def _swaying(recipe: Sway, robot: Robot, fps: float) -> Made:
    start, feet = standing(robot)
    stand, period = round(STAND * fps), round(recipe.seconds * fps)
    phase = np.arange(period) / period
    # Twice a smooth step: there in half of the time, and back.
    there = np.where(phase < 0.5, smooth(2 * phase), smooth(2 - 2 * phase))
    way = np.concatenate([np.zeros(stand), *(side * there for side in recipe.sides), np.zeros(stand + 1)])
    up = np.abs(way)  # up and down are not mirrored, nor is pitch
    place = start + robot.init_height * np.stack((up * recipe.place[0], way * recipe.place[1], up * recipe.place[2]), 1)
    turn = np.stack((way * recipe.turn[0], up * recipe.turn[1], way * recipe.turn[2]), 1)
    return place, turn, np.tile(feet, (len(way), 1, 1)), (0, len(way) - 1)


def _stepping(recipe: Steps, robot: Robot, fps: float) -> Made:
    gait = GAITS.get(len(robot.foot_names))
    if gait is None or len(robot.foot_names) < 4:
        raise MotionError(
            f"robot {robot.name!r} has {len(robot.foot_names)} feet: gaits are made for four and six, whose body need "
            "not sway; its other motions are files, or slow ones such as squat"
        )
    height = robot.init_height
    start, feet = standing(robot)
    period = 2 * round(gait.period * math.sqrt(height / GRAVITY) * fps / 2)
    stand, ramp, level = round(STAND * fps), RAMP * period, CYCLES * period
    count = stand + ramp + level + ramp + stand + 1
    t = np.arange(count + 2 * period)  # feet look ahead
    pace = smooth((t - stand) / ramp) * smooth((stand + ramp + level + ramp - t) / ramp)
    rate, speed = recipe.turn * math.sqrt(GRAVITY / height) / fps, np.array(recipe.speed) * math.sqrt(GRAVITY * height)
    yaw = np.concatenate(([0.0], np.cumsum(rate * pace)[:-1]))
    ahead = np.stack((np.cos(yaw), np.sin(yaw)), 1)
    aside = np.stack((-np.sin(yaw), np.cos(yaw)), 1)
    moved = pace[:, None] * (ahead * speed[0] + aside * speed[1]) / fps
    xy = np.concatenate((np.zeros((1, 2)), np.cumsum(moved, 0)[:-1]))

    swing = round((1 - gait.duty) * period)
    sway = np.zeros((count, 2))
    if recipe.pace:
        phase = 2 * np.pi * (t[:count] - stand - swing / 2) / period
        most = _sway(height, period / fps, float(np.abs(feet[:, 1]).mean()))
        sway = aside[:count] * (-most * pace[:count] * np.cos(phase))[:, None]
    path = np.zeros((count, len(feet), 3))
    offsets = tuple(0.0 if y > 0 else 0.5 for y in feet[:, 1]) if recipe.pace else gait.offsets
    for foot, offset in enumerate(offsets):
        now = feet[foot].copy()
        path[:, foot] = now
        lift = stand + round((1 - offset) % 1 * period)
        while lift + swing <= stand + ramp + level + ramp:
            middle = min(lift + swing + (period - swing) // 2, count - 1)  # of the stance that follows
            there = np.array([*(xy[middle] + feet[foot, 0] * ahead[middle] + feet[foot, 1] * aside[middle]), now[2]])
            share = np.arange(swing + 1) / swing
            path[lift : lift + swing + 1, foot] = now + smooth(share)[:, None] * (there - now)
            path[lift : lift + swing + 1, foot, 2] += gait.height * height * np.sin(np.pi * share) ** 2
            path[lift + swing :, foot] = there
            now, lift = there, lift + period
    place = np.concatenate((xy[:count] + sway, np.zeros((count, 1))), 1) + start
    return place, np.stack((0 * yaw, 0 * yaw, yaw), 1)[:count], path, (stand + ramp, stand + ramp + level)


def _sway(height: float, period: float, side: float) -> float:
    """Way of a base at ``height`` [m] towards the side on which it stands, where feet of a side swing together [m].

    It is that of a linear inverted pendulum which stands ``side`` [m] from the middle, for half of ``period`` [s] each.
    """
    return side * (1.0 - 1.0 / math.cosh(math.sqrt(GRAVITY / height) * period / 4.0))


def standing(robot: Robot) -> tuple[Array, Array]:
    """Place of the base (3,) and of the feet (F, 3) [m] in the default pose, all of them on the ground.

    A default pose may have some feet higher than others, a Go2's by 9 mm.
    """
    skeleton = Skeleton(robot)
    data = skeleton.default()
    feet = np.array([data.xpos[skeleton.model.body(name).id] for name in robot.foot_names])
    down = robot.foot_height
    drop = 0.0 if down is None else float(feet[:, 2].min() - down)
    base = np.array([0.0, 0.0, robot.init_height - drop])
    feet[:, 2] = feet[:, 2].min() - drop
    return base, feet
