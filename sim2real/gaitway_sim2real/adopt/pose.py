"""Default pose of a robot: the file's own if the robot stands in it, else the result of a search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from gaitway_files.errors import UserError
from gaitway_tasks.robots.anatomy import small_turn
from mujoco import minimize

from .mirrors import Reflection
from .stance import Stance
from .tree import AdoptError, Array, Foot, Tree

STRAIGHT = {2: 0.95, 4: 0.86, 6: 0.86}
"""Height of a standing leg as a share of its straight length, by the number of feet."""
RATIOS = (1.0, 1.04, 1.08, 0.95)  # factors on it that are tried in turn until the motors carry the robot
SPRAWL = (0.45, 0.65)
"""Height and reach of a leg that stands sideways, as shares of its length from the second joint on."""
MARGIN = 0.08  # distance of a standing joint from its limits, as a share of its range, at most 0.1 rad
ACROSS = 0.7  # least share of a joint's axis along y for it to bend a leg forwards and back
STARTS = 12
UNBALANCED = 0.1  # largest share of the weight that may lie beside the feet
SPREAD = 0.04  # largest difference in height of the soles, as a share of the robot's height
UNEVEN = 0.05  # difference of a pose from its mirror image that rounding explains [rad]
NO_STAND = "the file's own keyframe is no pose to stand in"


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A leg: its joints with motors from the base to the foot, and those among them that bend it forwards and back."""

    foot: Foot
    joints: tuple[str, ...]
    bends: tuple[str, ...]
    hinges: tuple[str, ...]
    """Joints between its links that bend it, with those that loops move."""
    sideways: bool
    length: float


def find_legs(stance: Stance) -> list[Leg]:
    tree = stance.tree
    stance.put(tree.neutral())
    legs = [_leg(stance, foot) for foot in stance.feet]
    shared = set.intersection(*(set(leg.joints) for leg in legs))
    if shared and min(len(leg.joints) for leg in legs) < len(shared) + 2:
        names = ", ".join(foot.name for foot in stance.feet)
        raise AdoptError(
            f"{tree.path}: {names} end one limb, like fingers of an arm: name the feet with --feet A,B,..."
        )
    return legs


def _leg(stance: Stance, foot: Foot) -> Leg:
    tree, along = stance.tree, {name: np.abs(stance.axis(name)) for name in stance.tree.joints}
    chain = [joint.name for link in tree.chain(foot.link) for joint in link.joints]
    joints = tuple(name for name in tree.limb(foot.link) if name in tree.driven)
    bends = tuple(name for name in joints if along[name][1] > ACROSS)
    sideways = len(stance.feet) > 2 and len(joints) > 2 and bool(along[joints[0]][2] > ACROSS)
    if not sideways and (not bends or sum(along[name][0] > ACROSS for name in joints) > len(bends)):
        raise AdoptError(
            f"{tree.path}: the leg to {foot.name!r} does not bend forwards and back ({', '.join(joints)}): in the "
            f"frame of {tree.base!r} x must point forwards; if the robot faces along another axis, name it with "
            "--forward y, -y or -x"
        )
    hinges = tuple(chain[1:] if sideways else [name for name in chain if along[name][1] > ACROSS]) or tuple(chain)
    parts = np.diff([*(stance.anchor(name) for name in hinges), stance.sole(foot)], axis=0)
    length = float(np.linalg.norm(parts if sideways else parts[:, [0, 2]], axis=1).sum())
    return Leg(foot=foot, joints=joints, bends=bends, hinges=hinges, sideways=sideways, length=length)


# ---- standing ------------------------------------------------------------------------------------------------------


def find_pose(
    stance: Stance, legs: Sequence[Leg], reflections: dict[str, Reflection], efforts: Mapping[str, float],
    given: Mapping[str, float], size: float, notes: list[str],
) -> dict[str, float]:  # fmt: skip
    """The default pose, in which ``stance`` is left. ``given`` {joint: position} is the user's.

    Reflections of which the pose is not its own image are removed.
    """
    told = _told(stance.tree, efforts, given, reflections)
    for pose, reason in _candidates(stance, legs, list(reflections.values()), told, notes):
        stance.put(pose)
        if (fault := _fault(stance, efforts, size)) is None:
            stance.put(pose := _evened(stance.tree, pose, reflections, notes))
            notes.append(f"default pose: {reason}")
            return pose
    raise AdoptError(f"{stance.tree.path}: {fault}")


def _candidates(
    stance: Stance, legs: Sequence[Leg], reflections: Sequence[Reflection], told: Mapping[str, float], notes: list[str]
) -> Iterator[tuple[dict[str, float], str]]:
    """Poses to stand in and how they come about: the file's own, then legs bent less and less."""
    change = "--pose JOINT=RAD,... changes it"
    if stance.tree.key and not told:
        pose = {name: stance.tree.key[name] for name in stance.tree.joints}
        yield pose, f"the file's own keyframe, in which it stands; {change}"
        stance.tree = replace(stance.tree, key={})  # asked for another one, so it does not stand
        notes.append(NO_STAND)
    for factor in RATIOS:
        ratio = min(STRAIGHT[len(legs)] * factor, 0.98)
        reason = (
            f"feet under the hips or the weight, legs {ratio:.0%} of their straight height, base level, within limits "
            f"and the motors' torque; {change}"
        )
        found = _search(stance, legs, reflections, ratio)
        yield found | dict(told), "as given, the other joints by a search" if told else reason


def _fault(stance: Stance, efforts: Mapping[str, float], size: float) -> str | None:
    """The reason why the robot does not stand in the pose of ``stance``, and the fix."""
    for name in efforts:
        low, high = stance.tree.joints[name].limits or (-math.inf, math.inf)
        if not low <= stance.pose[name] <= high:
            return f"{name} at {stance.pose[name]:g} is outside its range: give a pose, --pose JOINT=RAD,..."
    torques, missed = stance.torques()
    weakest = max(efforts, key=lambda name: abs(torques[name]) / efforts[name])
    if abs(torques[weakest]) > efforts[weakest]:
        return (
            f"the motors are too weak to stand: {weakest} needs {abs(torques[weakest]):.3g} N m and has "
            f"{efforts[weakest]:.3g}: if it has more, say --effort '{weakest}=N', or give a pose with straighter legs, "
            "--pose JOINT=RAD,..."
        )
    if missed > UNBALANCED:
        return (
            "in the pose that was found its weight lies beside its feet: give one that balances, --pose JOINT=RAD,..., "
            "or other feet, --feet A,B,..."
        )
    if (high := stance.unlevel()) > SPREAD * size:
        return (
            f"feet {', '.join(foot.name for foot in stance.feet)} do not reach the ground together: in the pose that "
            f"was found they differ by {high:.3f} m in height: give one, --pose JOINT=RAD,..."
        )
    return None


def _told(
    tree: Tree, joints: Mapping[str, float], given: Mapping[str, float], reflections: Mapping[str, Reflection]
) -> dict[str, float]:
    """``given`` and its mirror images, unless they are given too."""
    for name, value in given.items():
        if name not in tree.joints:
            raise UserError(f"--pose {name}: the robot has no such joint that moves; it has {', '.join(joints)}")
        low, high = tree.joints[name].limits or (-math.inf, math.inf)
        if not low <= value <= high:
            raise UserError(f"--pose {name}={value:g}: its range is {low:.4g} to {high:.4g} rad")
    told = dict(given)
    for each in reflections.values():
        told = {each.joints[name][0]: each.joints[name][1] * value for name, value in told.items()} | told
    return told


def _evened(
    tree: Tree, pose: dict[str, float], reflections: dict[str, Reflection], notes: list[str]
) -> dict[str, float]:
    """A pose within limits and alike in mirror images; a reflection of which it is no image is removed."""
    for title, reflection in list(reflections.items()):
        image = reflection.evened(pose)
        if max(abs(image[name] - pose[name]) for name in image) > UNEVEN:
            notes.append(f"no mirror {title}: the default pose is not its own image")
            del reflections[title]
        else:
            pose = image
    ranges = {name: tree.joints[name].limits or (-np.inf, np.inf) for name in tree.driven}
    return pose | {name: float(np.clip(pose[name], *ends)) for name, ends in ranges.items()}


# ---- search --------------------------------------------------------------------------------------------------------


def _search(stance: Stance, legs: Sequence[Leg], reflections: Sequence[Reflection], ratio: float) -> dict[str, float]:
    """A pose with bent knees, feet under the hips and flat, and the base level; mirror images stand alike."""
    tree, start = stance.tree, stance.tree.neutral()
    bounds = {name: _bounds(tree, name) for name in tree.joints}
    start = pose = {name: float(np.clip(value, *bounds[name])) for name, value in start.items()}
    left = next((each for each in reflections if each.axis == "y"), None)
    shift = 0.0
    for _ in range(3 if len(legs) == 2 else 1):  # two feet stand under the weight, which moves with the legs
        done: set[str] = set()
        for leg in legs:
            if leg.joints[0] in done:
                continue
            stance.put(start)
            rear = float(stance.sole(leg.foot)[0]) <= 0.0
            forward = len(legs) == 2 or (rear and len(reflections) > 1)
            own = _fit(stance, leg, bounds, ratio, shift, forward)
            done.update(leg.joints)
            if left is not None:
                images = {left.joints[name][0]: left.joints[name][1] * value for name, value in own.items()}
                done.update(left.joints[name][0] for name in leg.joints)
                own = images | own
            pose = pose | own
        stance.put(pose)
        shift += float(stance.com()[0] - np.mean([stance.sole(leg.foot) for leg in legs], 0)[0])
    pose = pose | {name: stance.pose[name] for name in stance.passive}
    for reflection in reflections:
        pose = reflection.evened(pose)
    return {name: round(float(np.clip(value, *bounds[name])), 3) for name, value in pose.items()}


def _bounds(tree: Tree, name: str) -> tuple[float, float]:
    """Range of a joint in a standing pose [rad]."""
    low, high = tree.joints[name].limits or (-np.pi, np.pi)
    margin = min(MARGIN * (high - low), 0.1) if tree.joints[name].limits else 0.0
    return low + margin, high - margin


def _fit(
    stance: Stance, leg: Leg, bounds: Mapping[str, tuple[float, float]], ratio: float, shift: float, forward: bool
) -> dict[str, float]:
    """Joint positions of a leg whose sole is in its place: the best of several starts, with the knee ``forward``."""
    names, foot = leg.joints, leg.foot
    passive = [name for name in stance.passive if name in stance.tree.limb(foot.link)]
    low, high = np.array([bounds[name] for name in names]).T
    rest, begun = np.array([stance.pose[name] for name in names]), dict(stance.pose)
    hip, level, at_rest = stance.anchor(leg.hinges[0]), stance.turn(foot.link), stance.sole(foot)
    target = np.array([hip[0] + shift, at_rest[1], hip[2] - ratio * leg.length])
    if leg.sideways:
        out = (at_rest - stance.anchor(names[0])) * [1.0, 1.0, 0.0]
        out /= max(float(np.linalg.norm(out)), 1e-9)
        target = hip + SPRAWL[1] * leg.length * out - [0.0, 0.0, SPRAWL[0] * leg.length]
    loose = np.array([0.02 if name in leg.bends or leg.sideways else 0.3 for name in names])

    def residual(q: Array) -> Array:
        stance.put(dict(zip(names, q.tolist(), strict=True)))
        away = 10.0 * (stance.sole(foot) - target) / leg.length
        turned = 5.0 * small_turn(level, stance.turn(foot.link)) * foot.flat
        return np.concatenate([away, loose * (q - rest), turned])

    def residuals(qs: Array) -> Array:  # (J, K) -> (R, K)
        return np.stack([residual(q) for q in qs.T], 1)

    rng = np.random.default_rng(0)
    best: tuple[float, dict[str, float]] = np.inf, {}
    for attempt in range(STARTS):
        begin = rest + (attempt > 0) * 1.2 * rng.uniform(-1.0, 1.0, len(names)) * (loose < 0.1)
        if attempt < 3 and not leg.sideways:  # straight, bent forwards, bent back
            begin = rest.copy()
            for name, bend in zip(leg.bends[:2], (1.0, -2.0), strict=False):
                begin[names.index(name)] += 0.5 * (0.0, 1.0, -1.0)[attempt] * bend
        stance.put(begun)
        q, _ = minimize.least_squares(
            np.clip(begin, low, high), residuals, [low, high], eps=1e-5, xtol=1e-6, max_iter=40, verbose=0
        )
        now = residual(q.ravel())
        cost = float(now @ now) + 0.05 * _bent_wrong(stance, leg, forward)
        if cost < best[0] - 1e-6:
            best = cost, {name: stance.pose[name] for name in (*names, *passive)}
    return best[1]


def _bent_wrong(stance: Stance, leg: Leg, forward: bool) -> bool:
    """True if the knee is behind the line from hip to foot and should be before it; sideways, if it is too low."""
    if leg.sideways:
        return bool(stance.anchor(leg.joints[-1])[2] < stance.anchor(leg.joints[1])[2] - 0.05 * leg.length)
    if len(leg.hinges) < 2:
        return False
    hip, knee, foot = stance.anchor(leg.hinges[0]), stance.anchor(leg.hinges[1]), stance.sole(leg.foot)
    share = (hip[2] - knee[2]) / max(hip[2] - foot[2], 1e-6)
    before = float(knee[0] - (hip[0] + share * (foot[0] - hip[0])))
    return before < 0.0 if forward else before > 0.0
