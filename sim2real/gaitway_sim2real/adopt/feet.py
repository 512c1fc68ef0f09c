"""Feet of a tree: the ends of limbs that reach the ground, where their soles are, and what touches the ground."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..mujoco.shapes import MESH, Shape
from .shapes import all_points, box_of, points, sphere
from .stance import Stance
from .tree import AdoptError, Array, Foot, Frame, Link, Tree

LEVEL = 0.25
"""Ends of limbs within this share of the robot's height of the lowest one are feet."""
FLAT = 0.12
"""Length of a sole, as a share of the robot's height, from which it is flat."""
BAND = 0.02
"""Points of a foot within this share of the robot's height of the lowest one are its sole."""
ROUND = 0.12
"""Difference of a wheel's radii that rounding explains."""
COUNTS = (2, 4, 6)
SENSORS = ("imu", "camera", "sensor", "optical", "lidar")
"""Words in names of fixed links that are no feet."""


def neutral(tree: Tree) -> dict[str, float]:
    """Joints in the file's own standing pose, or at zero, or at the end of their range that is nearest to zero."""
    pose = {name: tree.key.get(name, 0.0) for name in tree.joints}
    for name, joint in tree.joints.items():
        if joint.limits is not None:
            pose[name] = float(np.clip(pose[name], *joint.limits))
    return pose


def find_feet(tree: Tree, names: Sequence[str] = ()) -> tuple[list[Foot], float, list[str]]:
    """The feet from front to rear, left before right; the robot's height [m]; and the reasons."""
    stance = Stance(tree)
    stance.put(neutral(tree))
    ends = _named(tree, names) if names else [link for link in tree.links[1:] if not tree.children(link.name)]
    if not ends:
        raise AdoptError(f"{tree.path}: no link hangs on the base {tree.links[0].name!r}: it has no feet")
    low = {end.name: float(_cloud(stance, end)[:, 2].min()) for end in ends}
    origins = np.array([stance.place(link.name) for link in tree.links])
    top, lowest = float(origins[:, 2].max()), min(low.values())
    reach = max(float(np.linalg.norm(stance.place(end.name)[:2])) for end in ends)
    sprawled = top - lowest < LEVEL * reach
    if names:
        found, why = ends, "given"
    elif sprawled:
        usual = Counter(len(tree.chain(end.name)) for end in ends).most_common(1)[0][0]
        found, why = [end for end in ends if len(tree.chain(end.name)) == usual], "legs stretched out alike"
    else:
        found = [end for end in ends if low[end.name] <= lowest + LEVEL * (top - lowest)]
        why = "ends of limbs that are lowest with all joints at zero"
        if tree.key:
            why = "ends of limbs that are lowest in the file's own pose"
    listed = ", ".join(end.name for end in found)
    if len(found) not in COUNTS:
        others = ", ".join(end.name for end in ends if end not in found) or "none"
        raise AdoptError(
            f"{tree.path}: feet found: {len(found)} ({listed}; other limbs: {others}), and a robot here walks on two, "
            "four or six: name its feet with --feet A,B,..."
        )
    size = top - lowest if not sprawled else reach
    feet = [_foot(stance, end, size, sprawled) for end in found]
    for foot in feet:
        _refuse_wheel(stance, foot)
    ordered = _ordered(stance, feet, tree)
    notes = [f"feet: {', '.join(foot.name for foot in ordered)} ({why}); --feet A,B,... names others"]
    for note in dict.fromkeys(foot.note for foot in ordered if foot.note):
        notes.append(f"feet {', '.join(foot.name for foot in ordered if foot.note == note)}: {note}")
    return ordered, size, notes


def _named(tree: Tree, names: Sequence[str]) -> list[Link]:
    carriers = {frame.name: link for link in tree.links for frame in link.frames}
    for name in names:
        if name not in carriers:
            raise AdoptError(f"--feet {name}: the file has no such link; it has {', '.join(carriers)}")
    return [carriers[name] for name in names]


def _cloud(stance: Stance, link: Link) -> Array:
    """Points of a link in the world: of its shapes, or of its frames where it has none."""
    own = all_points(link.shapes)
    if not len(own):
        own = np.array([frame.position for frame in link.frames])
    return stance.place(link.name, own)


def _tip(stance: Stance, link: Link, sprawled: bool) -> tuple[Frame, Array, Array]:
    """The fixed link that ends a leg, its points in the leg's last link, and the direction it ends in, both there."""
    turn = stance.turn(link.name)
    down = turn.T @ np.array([0.0, 0.0, -1.0])
    clouds = {frame.name: all_points(frame.shapes) for frame in link.frames if frame.shapes}
    if not clouds:
        named = [frame for frame in link.frames if not any(word in frame.name.lower() for word in SENSORS)]
        clouds = {frame.name: frame.position[None] for frame in named or link.frames[:1]}
    if sprawled:
        far = np.concatenate(list(clouds.values())) - link.joints[-1].position
        end = far[np.linalg.norm(far, axis=1).argmax()]
        down = end / max(float(np.linalg.norm(end)), 1e-9)
    reach = {name: float((cloud @ down).max()) for name, cloud in clouds.items()}
    furthest = max(reach, key=lambda name: reach[name])
    frame = next(each for each in link.frames if each.name == furthest)
    return frame, clouds[furthest], down


def _foot(stance: Stance, link: Link, size: float, sprawled: bool) -> Foot:
    frame, cloud, down = _tip(stance, link, sprawled)
    if not frame.shapes and float(np.linalg.norm(frame.position - link.joints[-1].position)) < 0.05 * size:
        raise AdoptError(
            f"{stance.tree.path}: link {link.name!r} ends a leg and has no collision shape, so where the leg ends is "
            "unknown: give it a sphere at its end, or a fixed link there"
        )
    depth = cloud @ down
    sole = cloud[depth >= depth.max() - BAND * size]
    forward = stance.turn(link.name).T @ np.array([1.0, 0.0, 0.0])
    axes = _axes(down, forward)
    low, high = (sole @ axes).min(0), (sole @ axes).max(0)
    middle = axes @ np.array([*((low + high) / 2.0)[:2], -float(depth.max())])
    flat = bool((high - low)[:2].max() > FLAT * size) and not sprawled
    note = ""
    if flat:
        shapes = frame.shapes
        if any(each.kind == MESH for each in shapes) or len(shapes) > 8:
            thick = sole if np.ptp(sole @ down) > 1e-3 else np.concatenate([sole, sole - 0.01 * down])
            shapes = (box_of(thick, axes),)
            note = "its sole becomes a box"
    else:
        shapes, made = _ball(frame, down, depth, middle, (high - low)[:2], size)
        note = made
    away = float(np.linalg.norm(frame.position)) if frame is not link.frames[0] else 0.0
    if frame is not link.frames[0] and (not flat or away > 0.02 * size):
        moved = tuple(each.name for each in link.frames if each.name == frame.name)
        return Foot(
            name=frame.name, link=link.name, own_body=True, position=frame.position, rotation=frame.rotation,
            frames=moved, sole=middle, flat=flat, shapes=shapes, note=note,
        )  # fmt: skip
    if not flat and float(np.linalg.norm(middle)) > 0.2 * size:
        center = shapes[0].position if shapes[0].kind == "sphere" else middle
        note = f"{note}, and " * bool(note) + "bodies of their own at the ends of the last links"
        return Foot(
            name=f"{link.name}_foot", link=link.name, own_body=True, position=center, rotation=np.eye(3), frames=(),
            sole=middle, flat=flat, shapes=shapes, note=note,
        )  # fmt: skip
    return Foot(
        name=link.name, link=link.name, own_body=False, position=np.zeros(3), rotation=np.eye(3), frames=(),
        sole=middle, flat=flat, shapes=shapes, note=note,
    )  # fmt: skip


def _axes(down: Array, forward: Array) -> Array:
    """Axes with z against ``down`` and x as near to ``forward`` as that allows, as columns."""
    up = -down
    ahead = forward - (forward @ up) * up
    if np.linalg.norm(ahead) < 0.1:
        ahead = np.cross(up, np.array([0.0, 1.0, 0.0]) if abs(up[1]) < 0.9 else np.array([0.0, 0.0, 1.0]))
    ahead = ahead / np.linalg.norm(ahead)
    return np.stack([ahead, np.cross(up, ahead), up], 1)


def _ball(
    frame: Frame, down: Array, depth: Array, middle: Array, width: Array, size: float
) -> tuple[tuple[Shape, ...], str]:
    """What touches the ground at the end of a leg without a flat sole: the file's ball, or one in its place."""
    reach = {number: float((points(each) @ down).max()) for number, each in enumerate(frame.shapes)}
    if reach:
        last = frame.shapes[max(reach, key=lambda number: reach[number])]
        if last.kind == "sphere":
            return (last,), ""
        if last.kind == "capsule":
            ends = [last.position + side * last.size[1] * last.rotation[:, 2] for side in (-1.0, 1.0)]
            if abs(float(last.rotation[:, 2] @ down)) < 0.3:
                return (last,), ""
            return (sphere(max(ends, key=lambda end: float(end @ down)), float(last.size[0])),), ""
        radius = float(np.clip(width.min() / 2.0, 0.015 * size, 0.06 * size))
        return (sphere(middle - radius * down, radius),), f"a ball of {radius:.3f} m in place of its {last.kind}"
    radius = 0.03 * size
    return (sphere(middle, radius),), f"no shape in the file: a ball of {radius:.3f} m (a guess)"


def _refuse_wheel(stance: Stance, foot: Foot) -> None:
    link = stance.tree.by_name[foot.link]
    if len(link.joints) != 1 or link.joints[0].slide or link.joints[0].limits is not None or not link.shapes:
        return
    joint = link.joints[0]
    axis = stance.axis(joint.name)
    if abs(axis[2]) > 0.3:
        return
    around = _cloud(stance, link) - stance.anchor(joint.name)
    ahead = np.cross(axis, [0.0, 0.0, 1.0])
    radii = np.array([(around @ way).max() for way in (ahead, -ahead, np.array([0, 0, 1.0]), np.array([0, 0, -1.0]))])
    if radii.min() > 0.0 and np.ptp(radii) < ROUND * radii.max():
        raise AdoptError(
            f"{stance.tree.path}: {foot.link!r} is a wheel of {radii.mean():.3f} m on the endless joint "
            f"{joint.name!r}: "
            "tasks here are for legs; make the wheels' joints fixed to walk on them"
        )


def _ordered(stance: Stance, feet: list[Foot], tree: Tree) -> list[Foot]:
    """From front to rear, and left before right."""
    where = {foot.name: stance.place(foot.link, foot.sole) for foot in feet}
    left = sorted((foot for foot in feet if where[foot.name][1] > 0.0), key=lambda foot: -where[foot.name][0])
    right = sorted((foot for foot in feet if where[foot.name][1] <= 0.0), key=lambda foot: -where[foot.name][0])
    if len(left) != len(right):
        ahead = ", ".join(f"{name} at y = {at[1]:.3f} m" for name, at in where.items())
        raise AdoptError(
            f"{tree.path}: the feet are not on both sides of the base {tree.links[0].name!r} ({ahead}): in its frame x "
            "must point forwards, y left and z up; turn it in the file, or name other feet with --feet A,B,..."
        )
    return [foot for pair in zip(left, right, strict=True) for foot in pair]


def mirrored(stance: Stance, left: Foot, right: Foot, axis: int) -> Foot:
    """``right`` with the made-up parts of ``left`` in mirror image, so that both sides are alike to the last digit."""
    if not left.own_body or left.frames or right.frames:
        return right
    flip = np.ones(3)
    flip[axis] = -1.0
    turn = stance.turn(right.link)

    def image(point: Array) -> Array:
        return np.asarray(turn.T @ (flip * stance.place(left.link, point) - stance.place(right.link)))

    if np.linalg.norm(image(left.position) - right.position) > 0.02:
        return right
    shapes = (sphere(image(left.shapes[0].position), float(left.shapes[0].size[0])),)
    keep = left.shapes[0].kind == "sphere"
    return replace(right, position=image(left.position), sole=image(left.sole), shapes=shapes if keep else right.shapes)
