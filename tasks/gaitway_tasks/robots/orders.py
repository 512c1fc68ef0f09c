"""Joint orders of the simulators, in which the vectors of an imported policy are laid out.

PhysX numbers the joints of an articulation breadth-first over the kinematic tree, Newton depth-first
(``newton.utils.topological_sort``). Both visit the children of a body by the paths of their joints, however the asset
lists them, and PhysX hinges before slides. For ANYmal D, Go2, H1 and G1 both orders are those of Isaac Lab's own
``scripts/sim2sim_transfer/config/newton_to_physx_*.yaml``.
"""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from gaitway_files.errors import UserError
from gaitway_files.mjcf_files import read_mjcf
from gaitway_files.reading import FileError

from .robot import Robot


def physx_order(robot: Robot) -> tuple[str, ...]:
    """Joint names in the order of Isaac Lab with PhysX: breadth-first over ``robot.mjcf``, siblings by name."""
    return _checked(robot, _tree(robot.mjcf)[0])


def newton_order(robot: Robot) -> tuple[str, ...]:
    """Joint names in the order of Isaac Lab with Newton: depth-first over ``robot.mjcf``, siblings by name."""
    return _checked(robot, _tree(robot.mjcf)[1])


def _checked(robot: Robot, found: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name for name in found if name in robot.joint_names)
    if missing := [name for name in robot.joint_names if name not in names]:
        raise UserError(
            f"robot {robot.name!r} lists joint {', '.join(missing)}, which {robot.mjcf} does not have; "
            "correct joint_names or the model"
        )
    return names


@functools.cache
def _tree(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Hinge and slide joints of an MJCF (breadth-first, depth-first)."""
    try:
        world = read_mjcf(path).find("worldbody")
    except FileError as error:
        raise UserError(f"the joint order is read from the MJCF, and {path} cannot be parsed: {error.reason}") from None
    if world is None:
        raise UserError(f"{path} has no worldbody of its own; included files are not followed: merge them into it")
    level, breadth_first = [world], []
    while level:
        breadth_first += [name for body in level for name in _joints(body)]
        level = [child for body in level for child in sorted(body.iterfind("body"), key=_place)]
    pending, depth_first = [world], []
    while pending:
        body = pending.pop()
        depth_first += list(_joints(body))
        pending += sorted(body.iterfind("body"), key=lambda child: _place(child)[1], reverse=True)
    return tuple(breadth_first), tuple(depth_first)


def _place(body: ElementTree.Element) -> tuple[str, str]:
    """Kind and name of the joint that a body hangs from; bodies without one, which are fixed, come first."""
    joint = body.find("joint")
    return ("", "") if joint is None else (joint.get("type", "hinge"), joint.get("name", ""))


def _joints(body: ElementTree.Element) -> Iterator[str]:
    for joint in body.iterfind("joint"):
        if joint.get("type") not in ("free", "ball") and (name := joint.get("name")):
            yield name
