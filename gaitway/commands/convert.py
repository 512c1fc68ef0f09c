"""``gaitway convert``: write a robot's URDF or MJCF as an MJCF in one file, or as a USD for Isaac Lab.

With --out FILE.xml, write a URDF as the MJCF that Gaitway trains with, or an MJCF of several files as one. Meshes are
vertices within it.

With --out FILE.usd, write your own robot as the USD that Isaac Lab loads with UsdFileCfg. Masses and inertias are the
file's, and all else is that of MuJoCo's compiled model; meshes collide as their convex hulls, as in MuJoCo. Drives get
the gains of the file's position actuators, if it has any: Isaac Lab's actuators replace them. What a USD cannot hold is
refused by name.

A URDF's first link becomes a floating base. For a USD, an MJCF needs a free joint on its first body.

--engine also loads the robot there, in Isaac Lab 3.0 on the CPU, and compares masses, inertias and joint limits.

examples:
  gaitway convert robot.urdf --out robot.xml
  gaitway convert robot.xml --out robot.usd
  gaitway convert robot.urdf --out robot.usd --engine physx
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options
from ..backends.table import BACKENDS, backend, engines

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source ROBOT.xml|ROBOT.urdf", "robot to convert", Path)
    parser.option("--out FILE.xml|FILE.usd", "file to write; .usda is a USD in readable text", Path, required=True)
    parser.option("--engine", "also load it in this engine of Isaac Lab 3.0, and compare", choices=tuple(engines()))


def run(args: argparse.Namespace) -> int:
    written = {suffix: found for found in map(backend, BACKENDS) for suffix in found.models}
    if args.out.suffix not in written:
        raise UserError(f"--out {args.out}: end it with {', '.join(written)}")
    for line in written[args.out.suffix].convert(args.source, args.out, args.engine):
        print(line)
    return 0
