"""``gaitway run``: the on-robot half. Imports no torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..catalogue import FLIGHT, TWIN
from . import common

DESCRIPTION = """\
Run a bundle as it would run on the robot: replay the recorded inputs, then passive, ramp to the default pose,
hold, policy at the contract's rate, and damping at every ending. Nothing of the training half is imported.

--sim, the default, steps MuJoCo behind the interface that a robot has. Without --command the robot tours the commands
it was trained on.

A LEAPP package is first written as a bundle, in bundle/ in its folder.

The exit code is 0 after a complete run, 1 after a safety trip, 2 if the bundle cannot be used.

examples:
  gaitway run runs/walk/bundle --sim --seconds 20
  gaitway run runs/walk/bundle --command 0.5,0,0 --video walk.mp4
  gaitway run runs/walk/bundle --command '0:0,0,0;2:0.8,0,0;6:0.5,0,0.5' --realtime
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "run", "run a bundle as on the robot", DESCRIPTION)
    parser.add_argument("bundle", type=Path, metavar="BUNDLE|LEAPP", help="bundle or LEAPP package")
    parser.add_argument("--robot", metavar="NAME", help="robot, if a LEAPP package does not name it")
    parser.add_argument("--sim", action="store_true", help="run in a MuJoCo simulation (the default)")
    parser.add_argument("--world", choices=("twin",), help=argparse.SUPPRESS)  # how --sim was once written
    parser.add_argument("--seconds", type=common.seconds, default=20.0, help="length of the policy's part (default 20)")
    parser.add_argument(
        "--command", dest="velocity", metavar="VX,VY,YAW", help="command, or a script 't:vx,vy,yaw;...'"
    )
    parser.add_argument("--model", type=Path, metavar="robot.xml", help="another MJCF of the same robot")
    parser.add_argument("--video", type=Path, metavar="FILE.mp4", help="film the run; needs no display")
    parser.add_argument("--log", type=Path, metavar="FLIGHT.mcap", help="record the run, for 'gaitway replay'")
    parser.add_argument("--realtime", action="store_true", help="keep to the wall clock")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.world is not None:
        print("gaitway run: --world twin is now --sim", file=sys.stderr)
    common.require("running in simulation", TWIN)
    from gaitway_onboard.bundle.contract import verify_files
    from gaitway_onboard.control.commands import parse_script
    from gaitway_sim2real.lockstep.run import run_bundle

    from ..runs.files import make_folder
    from ..training.progress import Counter

    if args.log is not None:
        common.require("recording a flight", FLIGHT)
    bundle = args.bundle
    if args.robot is not None or common.is_leapp(args.bundle):
        bundle = common.bundle_of(args.bundle, args.robot)
    verify_files(bundle)
    for path in filter(None, (args.video, args.log)):
        make_folder(path.absolute().parent)
    report = run_bundle(
        bundle,
        args.seconds,
        command=parse_script(args.velocity) if args.velocity else None,
        model=args.model,
        video=args.video,
        log=args.log,
        realtime=args.realtime,
        frames=Counter("film", "frames").each,
    )
    return report.exit_code
