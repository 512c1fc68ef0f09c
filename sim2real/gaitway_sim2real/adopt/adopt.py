"""Adoption of a robot: a package with its facts, all from its file, and a line for each fact that was found or guessed.

The file becomes a tree of links (reading). The ends of its limbs are feet, and joints off the legs are held. Motors get
torques and rotors. Mirror images are found, then a pose in which the robot stands, shapes that collide, and gains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.writing import whole_folder, write_text
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.check import check_robot

from ..mujoco.own_model import UNLIMITED
from .building import build
from .feet import find_feet
from .joints import held_joints, joint_order
from .mirrors import Reflection, find_reflections
from .motors import find_efforts, with_rotors
from .package import check_names, write_package
from .pose import NO_STAND, find_legs, find_pose
from .reading import read_tree
from .shapes import collision_shapes, lowest
from .stance import Stance
from .standing import with_drives
from .tree import AdoptError, Foot, Tree


@dataclass(frozen=True, kw_only=True)
class Options:
    """Values that the user gives in place of guesses; patterns are regular expressions of whole names."""

    base: str | None = None
    forward: str = "x"
    feet: tuple[str, ...] = ()
    pose: Mapping[str, float] = field(default_factory=dict)
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    efforts: Mapping[str, float] = field(default_factory=dict)
    armatures: Mapping[str, float] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def adopt(
    path: Path, out: Path, name: str, options: Options, prove: Callable[[Robot], None] = check_robot
) -> list[str]:
    """Write the package ``out`` of the robot in ``path``; returns a line for each fact that was found or guessed.

    ``prove`` raises :class:`UserError` for mirrors that the model does not have.
    """
    check_names(out, name)
    notes: list[str] = []
    with whole_folder(out) as folder:
        robot = _robot(path, folder / f"{name}.xml", options, prove, notes)
        write_package(folder, robot, path, notes)
    return notes


def _robot(path: Path, model: Path, options: Options, prove: Callable[[Robot], None], notes: list[str]) -> Robot:
    tree, feet, size, held = _legged(path, options, notes)
    joints = joint_order(tree, feet, notes)
    efforts = find_efforts(tree, joints, size, options.efforts)
    stance = Stance(with_rotors(tree, efforts, options.armatures, notes), feet)
    stance.check_loops(size)
    reflections = find_reflections(stance, size, notes)
    legs = find_legs(stance)
    given = {name: position for name, position in options.pose.items() if name not in held}
    pose = find_pose(stance, legs, reflections, efforts, given, size, notes)
    shapes = collision_shapes(stance, [leg.joints[0] for leg in legs], size, notes)
    height, foot_height = _heights(stance)
    spec = build(stance.settled(), shapes, stance.feet, round(height, 4))
    spec.modelname = model.stem
    spec.compile()
    write_text(model, spec.to_xml())
    digits = 2 if height > 0.2 else 3
    start = math.ceil(height * 10**digits + 0.2) / 10**digits
    notes.append(f"init_height {start:g} m: base {height:.4f} m above the soles; foot_height {foot_height:.4f} m")
    limits = (stance.tree.joints[name].limits or (-UNLIMITED, UNLIMITED) for name in joints)
    robot = Robot(
        name=model.stem,
        joint_names=tuple(joints),
        body_names=(*(link.name for link in tree.links), *(foot.name for foot in stance.feet if foot.own_body)),
        foot_names=tuple(foot.name for foot in stance.feet),
        default_joint_pos=tuple(pose[name] + 0.0 for name in joints),
        joint_limits=tuple((round(low, 5), round(high, 5)) for low, high in limits),
        soft_joint_pos_limit_factor=0.9,
        init_height=start,
        foot_height=round(foot_height, 4),
        actuators={},
        mjcf=model,
    )
    robot = with_drives(robot, stance, legs, efforts, options.gains, notes)
    robot = _with_mirrors(robot, stance, reflections, prove, notes)
    check_robot(robot)
    return robot


def _legged(path: Path, options: Options, notes: list[str]) -> tuple[Tree, list[Foot], float, dict[str, float]]:
    """The tree with joints off the legs held still, its feet, its height [m], and where the joints are held."""
    tree = read_tree(path, notes, options.base, None, options.forward)
    try:
        feet, _, _ = find_feet(tree, options.feet)
    except AdoptError:
        if not tree.key:
            raise
        tree = replace(tree, key={})
        feet, _, _ = find_feet(tree, options.feet)
        notes.append(NO_STAND)
    if held := held_joints(tree, feet, options.pose, options.held, options.moved, notes):
        tree = replace(read_tree(path, [], options.base, held, options.forward), key=tree.key)
    feet, size, found = find_feet(tree, options.feet)
    notes += [f"base: {tree.base}, {tree.mass:.4g} kg with all of it; --base BODY names another", *found]
    return tree, feet, size, held


def _heights(stance: Stance) -> tuple[float, float]:
    """Height of the base above the soles, and of the feet's origins above them [m]."""
    low = [lowest(stance, foot.link, foot.shapes) for foot in stance.feet]
    over = [stance.place(foot.link, foot.frame.position)[2] for foot in stance.feet]
    return float(stance.place(stance.tree.base)[2]) - min(low), max(float(np.mean(over) - np.mean(low)), 0.0)


def _with_mirrors(
    robot: Robot, stance: Stance, reflections: Mapping[str, Reflection], prove: Callable[[Robot], None],
    notes: list[str],
) -> Robot:  # fmt: skip
    """``robot`` with the mirrors that its model proves."""
    kept = {}
    for title, reflection in reflections.items():
        mirror = reflection.mirror(stance, robot.joint_names)
        try:
            prove(robot.replace(mirrors={title: mirror}))
        except UserError as error:
            notes.append(f"no mirror {title}: {error}")
        else:
            kept[title] = mirror
            notes.append(f"mirror {title}: places, axes, masses and limits of the joints are mirror images")
    return robot.replace(mirrors=kept)
