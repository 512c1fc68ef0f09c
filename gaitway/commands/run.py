"""``gaitway run``: run a bundle as on the robot.

Run a bundle as on the robot: replay the recorded inputs, stay passive, ramp to the default pose, hold, run the policy
at the contract's rate, and damp at every ending. No training code is imported.

--sim, the default, steps MuJoCo through the interface of a robot. Without --command the robot tours the commands it was
trained on.

A LEAPP package or another policy that 'gaitway import' reads is first written as a bundle, in bundle/ in its folder or
NAME-bundle/ beside its file.

The exit code is 0 after a complete run, 1 after a safety trip, 2 if the bundle cannot be used.

examples:
  gaitway run runs/walk/bundle --sim --seconds 20
  gaitway run runs/walk/bundle --command 0.5,0,0 --video walk.mp4
  gaitway run runs/walk/bundle --terrain stairs-up:0.10
  gaitway run runs/walk/bundle --command '0:0,0,0;2:0.8,0,0;6:0.5,0,0.5' --realtime
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import options, sources
from ..catalogue import FLIGHT, MUJOCO
from . import common


def add_options(parser: options.Parser) -> None:
    parser.option("bundle BUNDLE|POLICY", "bundle or foreign policy (imported first)", Path)
    parser.option("--robot NAME", "robot, if a foreign policy does not name it")
    parser.switch("--sim", "run in a MuJoCo simulation (the default)")
    parser.option("--world", argparse.SUPPRESS, choices=("twin",))  # how --sim was once written
    parser.option("--seconds", "length of the policy's part (default 20)", options.seconds, default=20.0)
    parser.option("--command VX,VY,YAW", "command, or a script 't:vx,vy,yaw;...'", dest="velocity")
    parser.option("--model robot.xml", "another MJCF of the same robot", Path)
    common.add_terrain(parser)
    parser.option("--video FILE.mp4", "film the run; needs no display", Path)
    parser.option("--log FLIGHT.mcap", "record the run, for 'gaitway replay'", Path)
    parser.switch("--realtime", "run in real time (default: as fast as possible)")


def run(args: argparse.Namespace) -> int:
    if args.world is not None:
        print("gaitway run: --world twin is now --sim", file=sys.stderr)
    common.require("running in simulation", MUJOCO)
    from gaitway_onboard.bundle.contract import verify_files
    from gaitway_onboard.control.commands import parse_script
    from gaitway_sim2real.lockstep.run import run_bundle

    from ..runs.files import make_folder
    from ..training.progress import Counter

    if args.log is not None:
        common.require("recording a flight", FLIGHT)
    bundle = args.bundle
    if args.robot is not None or (bundle.exists() and not sources.is_bundle(bundle)):
        bundle = sources.bundle_of(bundle, args.robot)
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
        ground=common.ground_of(args),
        frames=Counter("film", "frames").each,
    )
    return report.exit_code
