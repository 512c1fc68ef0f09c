"""``gaitway convert``: write a robot's MJCF or URDF as a USD for Isaac Lab.

Write one's own robot as the USD that Isaac Lab loads with UsdFileCfg. Masses, inertias, joint limits, armature and
friction are those of MuJoCo's compiled model; meshes collide as their convex hulls, as in MuJoCo. Drives get the gains
of the file's position actuators, else none: Isaac Lab's actuators replace them.

A URDF's first link becomes a floating base. An MJCF needs a free joint on its first body.

--engine also loads the robot there, in Isaac Lab 3.0 on the CPU, and compares masses, inertias and joint limits.

examples:
  gaitway convert robot.xml --out robot.usd
  gaitway convert robot.urdf --out robot.usd --engine physx
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..backends.table import engines
from . import common


def add_options(parser: common.Parser) -> None:
    parser.option("source ROBOT.xml|ROBOT.urdf", "the robot", Path)
    parser.option("--out FILE.usd", "file to write; .usda is readable text", Path, required=True)
    parser.option("--engine", "load it in this engine of Isaac Lab 3.0 and compare", choices=tuple(engines()))


def run(args: argparse.Namespace) -> int:
    from gaitway_isaaclab.own_robot import check_loaded, robot_in
    from gaitway_isaaclab.usd import check_name, write_usd

    from ..runs.files import make_folder

    robot = robot_in(args.source)
    check_name(args.out)
    make_folder(args.out.absolute().parent)
    # Isaac Lab must be the first to import pxr, with which the file is written.
    lines = [] if args.engine is None else check_loaded(robot, args.engine)
    write_usd(robot, args.out)
    print(f"{args.out}: {len(robot.body_names)} bodies, {len(robot.joint_names)} joints, base {robot.base_name}")
    for line in lines:
        print(f"{args.engine}: {line}")
    return 0
