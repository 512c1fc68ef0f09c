"""Feet of a tree: the ends of limbs that reach the ground, their soles, and their shapes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from gaitway_tasks.robots.source import Inertial

from ..mujoco.shapes import MESH, Shape
from .shapes import all_points, box_of, points, sphere
from .stance import Stance
from .tree import AdoptError, Array, Foot, Frame, Link, Tree

COUNTS = (2, 4, 6)
LEVEL = 0.25  # ends of limbs within this share of the robot's height of the lowest one are feet
FLAT = 0.12  # length of a sole, as a share of the robot's height, from which it is flat
BAND = 0.02  # points of a foot within this share of the robot's height of the lowest one are its sole
ROUND = 0.12  # difference of a wheel's radii that rounding explains
SENSORS = ("imu", "camera", "sensor", "optical", "lidar")  # words in names of fixed links that are no feet


def find_feet(tree: Tree, names: Sequence[str] = ()) -> tuple[list[Foot], float, list[str]]:
    """The feet from front to rear, left before right; the robot's height [m]; and the reasons.

    ``names`` are those that the user gives.
    """
    stance = Stance(tree)
    stance.put(tree.neutral())
    ends = _named(tree, names) if names else [link for link in tree.links[1:] if not tree.children(link.name)]
    if not ends:
        raise AdoptError(f"{tree.path}: no link hangs on the base {tree.base!r}: it has no feet")
    low = {end.name: float(_cloud(stance, end)[:, 2].min()) for end in ends}
    top, lowest = max(float(stance.place(link.name)[2]) for link in tree.links), min(low.values())
    reach = max(float(np.linalg.norm(stance.place(end.name)[:2])) for end in ends)
    sprawled = top - lowest < LEVEL * reach
    if names:
        found, why = ends, "given"
    elif sprawled:
        usual = Counter(len(tree.chain(end.name)) for end in ends).most_common(1)[0][0]
        found, why = [end for end in ends if len(tree.chain(end.name)) == usual], "legs stretched out alike"
    else:
        found = [end for end in ends if low[end.name] <= lowest + LEVEL * (top - lowest)]
        pose = "in the file's own pose" if tree.key else "with all joints at zero"
        why = f"ends of limbs that are lowest {pose}"
    if len(found) not in COUNTS:
        listed, others = (", ".join(end.name for end in ends if (end in found) == kept) for kept in (True, False))
        raise AdoptError(
            f"{tree.path}: feet found: {len(found)} ({listed}; other limbs: {others or 'none'}), and a robot here "
            "walks on two, four or six: name its feet with --feet A,B,..."
        )
    size = reach if sprawled else top - lowest
    for end in found:
        _refuse_wheel(stance, end)
    feet = _ordered(stance, [_foot(stance, end, size, sprawled) for end in found])
    notes = [f"feet: {', '.join(foot.name for foot in feet)} ({why}); --feet A,B,... names others"]
    for note in dict.fromkeys(foot.note for foot in feet if foot.note):
        notes.append(f"feet {', '.join(foot.name for foot in feet if foot.note == note)}: {note}")
    return feet, size, notes


def _named(tree: Tree, names: Sequence[str]) -> list[Link]:
    carriers = {frame.name: link for link in tree.links for frame in link.frames}
    for name in names:
        if name not in carriers:
            raise AdoptError(f"--feet {name}: the file has no such link; it has {', '.join(carriers)}")
    return [carriers[name] for name in names]


def _cloud(stance: Stance, link: Link) -> Array:
    """Points of a link in the world: of its shapes, or the origins of its frames if it has none."""
    own = all_points(link.shapes)
    return stance.place(link.name, own if len(own) else np.array([frame.position for frame in link.frames]))


def _foot(stance: Stance, link: Link, size: float, sprawled: bool) -> Foot:
    frame, cloud, down = _tip(stance, link, sprawled)
    if not frame.shapes and float(np.linalg.norm(frame.position - link.joints[-1].position)) < 0.05 * size:
        raise AdoptError(
            f"{stance.tree.path}: link {link.name!r} ends a leg and has no collision shape, so where the leg ends is "
            "unknown: give it a sphere at its end, or a fixed link there"
        )
    depth = cloud @ down
    sole = cloud[depth >= depth.max() - BAND * size]
    axes = _axes(down, stance.turn(link.name)[0])
    low, high = (sole @ axes).min(0), (sole @ axes).max(0)
    flat = bool((high - low)[:2].max() > FLAT * size) and not sprawled
    ends = itertools.product(*zip(low[:2], high[:2], strict=True))
    supports = np.array([axes @ [*end, -depth.max()] for end in ends])
    middle, shapes, note = supports.mean(0), frame.shapes, ""
    if not flat:
        supports = middle[None]
        shapes, note = _ball(frame, down, middle, float((high - low)[:2].min()), size)
    elif len(shapes) > 8 or any(each.kind == MESH for each in shapes):
        thick = sole if np.ptp(sole @ down) > 1e-3 else np.concatenate([sole, sole - 0.01 * down])
        shapes, note = (box_of(thick, axes),), "its sole becomes a box"
    own = frame if not flat or float(np.linalg.norm(frame.position)) > 0.02 * size else link.frames[0]
    if own is link.frames[0] and not flat and float(np.linalg.norm(middle)) > 0.2 * size:
        nothing = Inertial(0.0, np.zeros(3), np.zeros((3, 3)))
        at = shapes[0].position
        own = Frame(name=f"{link.name}_foot", position=at, rotation=np.eye(3), inertial=nothing, shapes=())
        note = f"{note}, and " * bool(note) + "bodies of their own at the ends of the last links"
    return Foot(link=link.name, frame=own, supports=supports, shapes=shapes, note=note)


def _tip(stance: Stance, link: Link, sprawled: bool) -> tuple[Frame, Array, Array]:
    """The frame that ends a leg, its points, and the direction in which the leg ends; all in the leg's last link."""
    clouds = {frame.name: all_points(frame.shapes) for frame in link.frames if frame.shapes}
    if not clouds:
        named = [frame for frame in link.frames if not any(word in frame.name.lower() for word in SENSORS)]
        clouds = {frame.name: frame.position[None] for frame in named or link.frames[:1]}
    down = -stance.turn(link.name)[2]
    if sprawled:
        far = np.concatenate(list(clouds.values())) - link.joints[-1].position
        end = far[np.linalg.norm(far, axis=1).argmax()]
        down = end / max(float(np.linalg.norm(end)), 1e-9)
    furthest = max(clouds, key=lambda name: float((clouds[name] @ down).max()))
    return next(each for each in link.frames if each.name == furthest), clouds[furthest], down


def _axes(down: Array, forward: Array) -> Array:
    """Axes with z against ``down`` and x as near to ``forward`` as that allows, as columns."""
    ahead = forward - (forward @ down) * down
    if np.linalg.norm(ahead) < 0.1:
        ahead = np.cross(down, np.eye(3)[np.abs(down).argmin()])
    ahead = ahead / np.linalg.norm(ahead)
    return np.stack([ahead, np.cross(ahead, down), -down], 1)


def _ball(frame: Frame, down: Array, middle: Array, width: float, size: float) -> tuple[tuple[Shape, ...], str]:
    """Shape that touches the ground at the end of a leg without a flat sole: the file's ball, or a made one."""
    if not frame.shapes:
        radius = 0.03 * size
        return (sphere(middle, radius),), f"no shape in the file: a ball of {radius:.3f} m (a guess)"
    last = max(frame.shapes, key=lambda shape: float((points(shape) @ down).max()))
    if last.kind == "sphere":
        return (last,), ""
    along = last.rotation[:, 2] * np.sign(last.rotation[:, 2] @ down)
    if last.kind == "capsule" and along @ down > 0.3:
        return (sphere(last.position + last.size[1] * along, float(last.size[0])),), ""
    radius = float(np.clip(width / 2.0, 0.015 * size, 0.06 * size))
    return (sphere(middle - radius * down, radius),), f"a ball of {radius:.3f} m in place of its {last.kind}"


def _refuse_wheel(stance: Stance, link: Link) -> None:
    """Raise for a link that turns endlessly about a level axis, and is round or has no shape."""
    if len(link.joints) != 1 or link.joints[0].slide or link.joints[0].limits is not None:
        return
    joint = link.joints[0].name
    axis, up = stance.axis(joint), np.array([0.0, 0.0, 1.0])
    ahead = np.cross(axis, up)
    radii = ((_cloud(stance, link) - stance.anchor(joint)) @ np.stack([ahead, -ahead, up, -up], 1)).max(0)
    round_ = radii.min() > 0.0 and np.ptp(radii) < ROUND * radii.max()
    if abs(axis[2]) <= 0.3 and (round_ or not link.shapes):
        size = f" of {radii.mean():.3f} m" if round_ else ""
        raise AdoptError(
            f"{stance.tree.path}: {link.name!r} is a wheel{size} on the endless joint {joint!r}: "
            "tasks here are for legs; make the wheels' joints fixed to walk on them"
        )


def _ordered(stance: Stance, feet: list[Foot]) -> list[Foot]:
    """From front to rear, and left before right."""
    where = {foot.name: stance.sole(foot) for foot in feet}
    feet = sorted(feet, key=lambda foot: -where[foot.name][0])
    left, right = ([foot for foot in feet if (where[foot.name][1] > 0.0) == side] for side in (True, False))
    if len(left) != len(right):
        listed = ", ".join(f"{name} at y = {at[1]:.3f} m" for name, at in where.items())
        raise AdoptError(
            f"{stance.tree.path}: the feet are not on both sides of the base {stance.tree.base!r} ({listed}): in its "
            "frame x must point forwards, y left and z up; turn it in the file, or name other feet with --feet A,B,..."
        )
    return [foot for pair in zip(left, right, strict=True) for foot in pair]
