"""``gaitway run``: run a bundle as on the robot.

Run a bundle as on the robot: replay the recorded inputs, stay passive, ramp to the default pose, hold, run the policy
at the contract's rate, and damp at every ending. No training code is imported.

--sim, the default, steps MuJoCo through the interface of a robot. Without --command the robot tours the commands it was
trained on.

--case repeats a failing case that 'gaitway validate --falsify' found, on eight robots: the policy alone drives them,
without the modes of the loop. --video films one of them.

A LEAPP package or another policy that 'gaitway import' reads is first written as a bundle, in bundle/ in its folder or
NAME-bundle/ beside its file.

The summary begins with OK, TRIPPED, or DOES NOT FOLLOW if the robot went less than half of the speed that it was told.

The exit code is 0 after a complete run, also of a robot that does not follow ('gaitway validate' judges it), 1 after a
safety trip or a case that the policy does not survive, 2 if the bundle cannot be used.

examples:
  gaitway run runs/walk/bundle --sim --seconds 20
  gaitway run runs/walk/bundle --command 0.5,0,0 --video walk.mp4
  gaitway run runs/walk/bundle --case runs/walk/validation/falsified/case-1.json --video case.mp4
  gaitway run runs/walk/bundle --terrain stairs-up:0.10
  gaitway run runs/walk/bundle --command '0:0,0,0;2:0.8,0,0;6:0.5,0,0.5' --realtime
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options, sources
from ..catalogue import FLIGHT, MUJOCO
from . import common


def add_options(parser: options.Parser) -> None:
    parser.option("bundle BUNDLE|POLICY", "bundle or foreign policy (imported first)", Path)
    parser.option("--robot NAME", "robot, if a foreign policy does not name it")
    parser.switch("--sim", "run in a MuJoCo simulation (the default)")
    parser.option("--world", argparse.SUPPRESS, choices=("twin",))  # how --sim was once written
    parser.option("--seconds", "length of the policy's part (default 20)", options.seconds)
    parser.option("--command VX,VY,YAW", "command, or a script 't:vx,vy,yaw;...'", dest="velocity")
    parser.option("--case FILE", "repeat a failing case of 'gaitway validate --falsify'", Path)
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
    if args.case is not None:
        return _repeat(args, bundle)
    for path in filter(None, (args.video, args.log)):
        make_folder(path.absolute().parent)
    report = run_bundle(
        bundle,
        args.seconds or 20.0,
        command=parse_script(args.velocity) if args.velocity else None,
        model=args.model,
        video=args.video,
        log=args.log,
        realtime=args.realtime,
        ground=common.ground_of(args),
        frames=Counter("film", "frames").each,
    )
    return report.exit_code


def _repeat(args: argparse.Namespace, bundle: Path) -> int:
    """Run a failing case again, and film it."""
    from gaitway_sim2real.falsify import case_film, load_case, run_case
    from gaitway_sim2real.mujoco.film import check_video_path

    from ..training.progress import Counter

    alone = {"seconds": "seconds", "velocity": "command", "model": "model", "terrain": "terrain", "log": "log"}
    if given := [name for key, name in alone.items() if getattr(args, key) is not None] + ["realtime"] * args.realtime:
        raise UserError(f"--{given[0]}: a case has its own commands, robot, floor and length; leave it or --case out")
    if args.video is not None:
        check_video_path(args.video)
    case = load_case(args.case)
    print(f"case of size {case.size:.2f} of {case.task}, in which it {case.says}")
    outcome = run_case(case, bundle)
    print(f"{'OK' if outcome.survived else 'FALLS'}: {outcome.words()}")
    if args.video is not None:
        case_film(case, outcome, bundle, args.video, Counter("film", "frames").each)
        print(f"video: {args.video}")
    return 0 if outcome.survived else 1
