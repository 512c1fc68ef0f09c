"""``gaitway adopt``: make a robot that can be trained from its URDF or MJCF.

Write a Python package with the robot's facts, a model for training and its tasks, all from the file: base, feet,
mirrors, joint order, a standing pose, heights, limits, motors, gains, simple collision shapes, and a picture.

Each thing that was found or guessed is printed in a line, with the option that changes it. What cannot be guessed is
asked for by name. Nothing is written unless the robot stands.

The package is yours: read it, edit it, and train the folder. DIR/tasks.py has the tasks WALK and BLIND.

examples:
  gaitway adopt robot.urdf --out my_robot
  gaitway adopt robot.urdf --out my_robot --effort '.*_knee=45' --effort '.*=24'
  gaitway adopt robot.xml --out my_robot --feet FL_foot,FR_foot,RL_foot,RR_foot --pose FL_knee=-1.2,FR_knee=-1.2
  gaitway train my_robot --out runs/mine
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import WORLDS
from . import common

WORKS_ON = True
_number, _angle = options.number(0.0), options.number()


def add_options(parser: options.Parser) -> None:
    parser.option("source ROBOT.urdf|ROBOT.xml", "robot to adopt", Path)
    parser.option("--out DIR", "package to write; its name is one of Python, like my_robot", Path, required=True)
    parser.option("--name", "name of the robot (default: that of DIR)")
    parser.option("--base BODY", "base, if it is not the first link with a mass")
    parser.option("--forward", "axis of the base along which it walks (default x)", choices=("x", "y", "-x", "-y"))
    parser.option("--feet A,B,...", "links that are feet", _words, default=())
    parser.option("--pose JOINT=RAD,...", "joints of the default pose", _pairs("RAD", _angle), default={})
    parser.option("--gains REGEX=KP:KD,...", "gains of joints", _pairs("KP:KD", _gain), default={})
    parser.option("--effort REGEX=N", "largest torque of joints [N m]", _pairs("N", _number), many=True)
    parser.option("--armature REGEX=N", "inertia of motors at their joints [kg m^2]", _pairs("N", _number), many=True)
    parser.option("--hold REGEX", "joints to hold still, as an arm's", many=True)
    parser.option("--move REGEX", "joints off the legs to move all the same", many=True)


def run(args: argparse.Namespace) -> int:
    common.require("adopt", WORLDS["mujoco"])
    from gaitway_mujoco.mirrors import verify_mirrors
    from gaitway_sim2real.adopt.adopt import Options, adopt

    if not args.source.is_file():
        raise UserError(f"{args.source} is no file: give a robot's URDF or MJCF")
    options = Options(
        base=args.base,
        forward=args.forward or "x",
        feet=args.feet,
        pose=args.pose,
        gains=args.gains,
        efforts=_joined(args.effort),
        armatures=_joined(args.armature),
        held=tuple(args.hold),
        moved=tuple(args.move),
    )
    name = args.name or args.out.name.replace("_", "-")
    for line in adopt(args.source, args.out, name, options, verify_mirrors):
        print(line)
    print(f"{args.out}: __init__.py, tasks.py, {name}.xml")
    print(f"next: look at {args.out / 'standing.png'}, then gaitway train {args.out}")
    return 0


def _joined(given: Sequence[dict[str, float]]) -> dict[str, float]:
    return {pattern: value for each in given for pattern, value in each.items()}


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _pairs(meaning: str, convert: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    """The type of an option with values by name or pattern."""

    def read(text: str) -> dict[str, Any]:
        found = {}
        for word in _words(text):
            name, sign, value = word.rpartition("=")
            try:
                found[name] = convert(value)
            except argparse.ArgumentTypeError:
                sign = ""
            if not sign:
                raise argparse.ArgumentTypeError(f"{word!r}: expected NAME={meaning}")
        return found

    return read


def _gain(text: str) -> tuple[float, float]:
    kp, _, kd = text.partition(":")
    return _number(kp), _number(kd)
