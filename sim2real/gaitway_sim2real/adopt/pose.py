"""Standing pose of a tree: the file's own, or one that a search finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .feet import neutral
from .mirrors import Reflection
from .shapes import all_points
from .stance import Stance
from .tree import AdoptError, Array, Foot, Tree

STRAIGHT = {2: 0.95, 4: 0.86, 6: 0.86}
"""Height of a standing leg as a share of its straight length, by the number of feet."""
RATIOS = (1.0, 1.04, 1.08, 0.95)
"""Factors on it that are tried in turn until the motors carry the robot."""
MARGIN = 0.08
"""Distance of a standing joint from its limits, as a share of its range, at most 0.1 rad."""
ACROSS = 0.7
"""Least share of a joint's axis along y for it to bend a leg forwards and back."""
STARTS = 12
SPRAWL = (0.45, 0.65)
"""Height and reach of a leg that stands sideways, as shares of its length from the second joint on."""


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A leg: its joints from the base to the foot, those that bend it forwards and back among them."""

    foot: Foot
    joints: tuple[str, ...]
    bends: tuple[str, ...]
    hinges: tuple[str, ...]
    """Joints between its links that bend it, with those that loops move."""
    sideways: bool
    length: float


def legs_of(tree: Tree, stance: Stance, feet: Sequence[Foot]) -> list[Leg]:
    stance.put(neutral(tree))
    found = []
    for foot in feet:
        chain = [joint.name for link in tree.chain(foot.link) for joint in link.joints]
        joints = tuple(name for name in tree.limb(foot.link) if name in tree.driven)
        bends = tuple(name for name in joints if abs(stance.axis(name)[1]) > ACROSS)
        sideways = len(feet) > 2 and len(joints) > 2 and bool(abs(stance.axis(joints[0])[2]) > ACROSS)
        hinges = tuple(name for name in chain if sideways or abs(stance.axis(name)[1]) > ACROSS)[int(sideways) :]
        at = [stance.anchor(name) for name in hinges or chain]
        ends = [*at[1:], stance.place(foot.link, foot.sole)]
        drop = [
            float(np.linalg.norm((b - a)[[0, 2]] if not sideways else b - a)) for a, b in zip(at, ends, strict=True)
        ]
        found.append(
            Leg(
                foot=foot,
                joints=joints,
                bends=bends,
                hinges=hinges or tuple(chain),
                sideways=sideways,
                length=sum(drop),
            )
        )
    for leg in found:
        across = [name for name in leg.joints if abs(stance.axis(name)[0]) > ACROSS]
        if not leg.sideways and (not leg.bends or len(across) > len(leg.bends)):
            raise AdoptError(
                f"{tree.path}: the leg to {leg.foot.name!r} does not bend forwards and back "
                f"({', '.join(leg.joints)}"
                f"): in the frame of {tree.links[0].name!r} x must point forwards; if the robot faces "
                f"along another axis, "
                "name it with --forward y, -y or -x"
            )
    return found


def bounds(tree: Tree, name: str) -> tuple[float, float]:
    """Range of a joint in a standing pose [rad]."""
    limits = tree.joints[name].limits
    if limits is None:
        return -np.pi, np.pi
    margin = min(MARGIN * (limits[1] - limits[0]), 0.1)
    return limits[0] + margin, limits[1] - margin


def search(
    tree: Tree, stance: Stance, legs: Sequence[Leg], reflections: Sequence[Reflection], ratio: float
) -> dict[str, float]:
    """A pose with bent knees, feet under the hips and flat, and the base level; mirror images stand alike."""
    pose = {name: float(np.clip(value, *bounds(tree, name))) for name, value in neutral(tree).items()}
    start = dict(pose)
    left = next((each for each in reflections if each.axis == "y"), None)
    shift = 0.0
    for _ in range(3 if len(legs) == 2 else 1):
        done: set[str] = set()
        for leg in legs:
            if leg.joints[0] in done:
                continue
            stance.put(start)
            front = float(stance.place(leg.foot.link, leg.foot.sole)[0]) > 0.0
            forward = len(legs) == 2 or (not front and len(reflections) > 1)
            own = {*leg.joints, *tree.limb(leg.foot.link)}
            pose |= _one_leg(tree, stance, leg, ratio, shift, 1.0 if forward else -1.0)
            done |= set(leg.joints)
            if left is not None:
                moved = [*leg.joints, *(name for name in stance.passive if name in left.joints)]
                image = {left.joints[name][0]: left.joints[name][1] * pose[name] for name in moved}
                pose |= {name: value for name, value in image.items() if name not in own}
                done |= {left.joints[name][0] for name in leg.joints}
        stance.put(pose)
        feet = np.mean([stance.place(leg.foot.link, leg.foot.sole) for leg in legs], 0)
        shift += float(stance.com()[0] - feet[0])
    pose |= {name: stance.pose[name] for name in stance.passive}
    return {name: round(float(np.clip(value, *bounds(tree, name))), 3) for name, value in pose.items()}


def _one_leg(tree: Tree, stance: Stance, leg: Leg, ratio: float, shift: float, forward: float) -> dict[str, float]:
    names, foot = leg.joints, leg.foot
    low, high = np.array([bounds(tree, name) for name in names]).T
    rest = np.array([stance.pose[name] for name in names])
    hip = stance.anchor(leg.hinges[0])
    before, at_rest = stance.turn(foot.link), stance.place(foot.link, foot.sole)
    target = np.array([hip[0] + shift, at_rest[1], hip[2] - ratio * leg.length])
    if leg.sideways:
        out = (at_rest - stance.anchor(names[0])) * [1.0, 1.0, 0.0]
        out /= max(float(np.linalg.norm(out)), 1e-9)
        target = hip + SPRAWL[1] * leg.length * out - [0.0, 0.0, SPRAWL[0] * leg.length]
    loose = np.array([0.02 if name in leg.bends or leg.sideways else 0.3 for name in names])

    def residual(q: Array) -> Array:
        stance.put(dict(zip(names, q.tolist(), strict=True)))
        away = 10.0 * (stance.place(foot.link, foot.sole) - target) / leg.length
        parts = [away, loose * (q - rest)]
        if foot.flat:
            turned = stance.turn(foot.link) @ before.T
            parts.append(
                5.0
                * np.array([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]])
                / 2.0
            )
        return np.concatenate(parts)

    rng = np.random.default_rng(0)
    best: tuple[float, dict[str, float]] = np.inf, {}
    begun = dict(stance.pose)
    for attempt in range(STARTS):
        spread = 0.0 if attempt == 0 else 1.2
        begin = np.clip(rest + spread * rng.uniform(-1.0, 1.0, len(names)) * (loose < 0.1), low, high)
        if attempt < 3 and leg.bends and not leg.sideways:
            bend = 0.5 * (0.0, 1.0, -1.0)[attempt]
            for place, name in enumerate(leg.bends[:2]):
                begin[names.index(name)] = rest[names.index(name)] + bend * (1.0, -2.0)[place]
            begin = np.clip(begin, low, high)
        stance.put(begun)
        _, cost = _least_squares(residual, begin, low, high)
        cost += 0.05 * (_knee(stance, leg) * forward < 0.0) if not leg.sideways else 0.05 * (_knee_below(stance, leg))
        if cost < best[0] - 1e-6:
            best = cost, {name: stance.pose[name] for name in (*names, *stance.passive)}
    stance.put(best[1])
    return best[1]


def _knee(stance: Stance, leg: Leg) -> float:
    """Distance of the knee before the line from hip to foot [m]."""
    if len(leg.hinges) < 2:
        return 0.0
    hip, knee, foot = (
        stance.anchor(leg.hinges[0]),
        stance.anchor(leg.hinges[1]),
        stance.place(leg.foot.link, leg.foot.sole),
    )
    share = (hip[2] - knee[2]) / max(hip[2] - foot[2], 1e-6)
    return float(knee[0] - (hip[0] + share * (foot[0] - hip[0])))


def _knee_below(stance: Stance, leg: Leg) -> bool:
    return bool(stance.anchor(leg.joints[-1])[2] < stance.anchor(leg.joints[1])[2] - 0.05 * leg.length)


def _least_squares(residual: Callable[[Array], Array], q: Array, low: Array, high: Array) -> tuple[Array, float]:
    """Levenberg and Marquardt's method within bounds."""
    now, damping = residual(q), 1e-2
    for _ in range(40):
        columns = [(residual(q + step) - now) / 1e-5 for step in 1e-5 * np.eye(len(q))]
        jacobian = np.stack(columns, 1)
        gradient, square = jacobian.T @ now, jacobian.T @ jacobian
        free = ~(((q <= low) & (gradient > 0)) | ((q >= high) & (gradient < 0)))
        step = np.zeros_like(q)
        if free.any():
            part = square[np.ix_(free, free)] + damping * np.eye(int(free.sum()))
            step[free] = -np.linalg.solve(part, gradient[free])
        trial = np.clip(q + np.clip(step, -0.5, 0.5), low, high)
        after = residual(trial)
        if after @ after < now @ now:
            small = float(np.abs(trial - q).max()) < 1e-6
            q, now, damping = trial, after, max(damping / 5.0, 1e-9)
            if small:
                break
        else:
            damping *= 8.0
            if damping > 1e6:
                break
    residual(q)
    return q, float(now @ now)


def supports(stance: Stance, feet: Sequence[Foot]) -> list[tuple[str, Array]]:
    """Links and points in the world that carry the robot: the sole of a ball, the corners of a flat foot."""
    found = []
    for foot in feet:
        if not foot.flat:
            found.append((foot.link, stance.place(foot.link, foot.sole)))
            continue
        cloud = stance.place(foot.link, all_points(foot.shapes))
        slope = 0.12 * float(np.ptp(cloud[:, :2], 0).max())  # of a sole that no ankle levels
        low = cloud[cloud[:, 2] < cloud[:, 2].min() + 0.01 + slope]
        ends = [(low @ way).argmax() for way in np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])]
        found += [(foot.link, low[end]) for end in ends]
    return found


def unlevel(stance: Stance, feet: Sequence[Foot]) -> float:
    """Difference in height of the soles [m]."""
    heights = [stance.place(foot.link, foot.sole)[2] for foot in feet]
    return float(np.ptp(heights))


def lacking(torques: Mapping[str, float], efforts: Mapping[str, float]) -> tuple[str, float] | None:
    """The joint whose motor is weakest against ``torques``, and the torque's share of its effort, if above 1."""
    share = {name: abs(torques[name]) / efforts[name] for name in efforts}
    worst = max(share, key=lambda name: share[name])
    return (worst, share[worst]) if share[worst] > 1.0 else None
