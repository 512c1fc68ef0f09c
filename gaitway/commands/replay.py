"""``gaitway replay``: show and check a recorded flight.

Read a flight that 'gaitway deploy' or 'gaitway run --log' recorded. Print a summary: modes, cause of the end,
clamps, late periods, losses, extremes. A flight whose recorder was killed is read as far as it was stored.

--against compares the flight with a bundle: the policy's outputs for the recorded signals; the joint motion that MuJoCo
predicts from recorded states and frames; and the policy in simulation under the same velocity commands. --parameters
gives MuJoCo the drives that 'gaitway identify' found.

--report writes a page of plots, --viewer plays the motion in a web browser, --video films it. Orientation and joints
come from the robot's sensors; velocity is estimated, and position is its integral.

The exit code is 0; 1 if the bundle that flew does not compute the recorded outputs; 2 for bad input.

examples:
  gaitway replay flight.mcap
  gaitway replay flight.mcap --report out/ --video flight.mp4
  gaitway replay flight.mcap --against runs/walk/bundle --report out/
  gaitway replay stand.mcap --hung --against bundle --parameters params.yaml
  gaitway replay cut_off.mcap --recover whole.mcap
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options, sources
from ..catalogue import FLIGHT, MUJOCO, PLAY
from . import common


def add_options(parser: options.Parser) -> None:
    parser.option("flight FLIGHT.mcap|LOG", "a recorded flight, or a log of another program", Path)
    parser.option("--robot NAME", "robot of a log, hardware such as unitree-go2, or a robot's name")
    common.add_log_options(parser)
    parser.option("--against BUNDLE|RUN", "compare the flight with this bundle", Path)
    parser.option("--parameters FILE.yaml", "identified drives, for --against", Path)
    parser.switch("--hung", "set if the robot hung on a stand with its feet in the air")
    parser.option("--report DIR", "folder for an HTML report", Path)
    parser.option("--video FILE.mp4", "film the motion; needs no display", Path)
    parser.switch("--viewer", "play it in a web browser")
    common.add_page(parser, "viewer's page")
    parser.option("--seconds S", "serve the viewer for S seconds (default: until Ctrl-C)", options.seconds)
    parser.option("--recover OUT.mcap", "write everything readable to a new, complete file", Path)


def run(args: argparse.Namespace) -> int:
    common.require("reading a flight", FLIGHT)
    _check(args)
    from gaitway_onboard.flight.reading import recover
    from gaitway_sim2real.logs.reading import LogOptions, read_any
    from gaitway_sim2real.replay.summary import summarise, text

    from ..runs.files import make_folder, write_text_atomically
    from ..training.progress import Counter

    robot = None if args.robot is None else common.named_robot(args.robot)
    options = LogOptions(robot=robot, gains=args.gains, topics=args.topics)
    flight, foreign = read_any(args.flight, options, args.recover, say=print)
    if robot is not None and flight.robot != robot.name:
        raise UserError(f"{args.flight} is a flight of {flight.robot or 'an unknown robot'}: leave out --robot")
    summary = summarise(flight)
    print(text(summary))
    if args.recover is not None:
        if not foreign:
            recover(args.flight, args.recover)
        print(f"recovered: {args.recover}")
    if not (args.against or args.report or args.video or args.viewer):
        return 0
    from gaitway_sim2real.replay.compare import compare, motion_of
    from gaitway_sim2real.replay.film import film
    from gaitway_sim2real.replay.report import report
    from gaitway_tasks.robots import ROBOTS

    comparison = None
    if args.against is not None:
        parameters = None
        if args.parameters is not None:
            from gaitway_tasks.robots.parameters_file import load_parameters

            parameters = load_parameters(args.parameters, flight.robot)
        bundle = sources.bundle_of(args.against)
        comparison = compare(flight, bundle, hung=args.hung, parameters=parameters, say=print)
        print(comparison.text(flight))
    # A robot that Gaitway does not know has plots all the same, but no body to be shown.
    drawn = args.video or args.viewer or flight.robot in ROBOTS
    motion = motion_of(flight, hung=args.hung) if drawn else None
    if args.video is not None and motion is not None:
        make_folder(args.video.absolute().parent)
        film(flight, motion, args.video, frames=Counter("film", "frames").each)
        print(f"video: {args.video}")
    if args.report is not None:
        import os

        make_folder(args.report)
        page = args.report / "replay.html"
        beside = os.path.relpath(args.video, args.report) if args.video is not None else ""
        write_text_atomically(page, report(summary, motion, comparison, beside).html())
        print(f"report: {page}")
    if args.viewer and motion is not None:
        from ..view.flight import show_flight

        show_flight(flight, motion, args.host, args.port, args.seconds)
    return 0 if comparison is None or comparison.ok else 1


def _check(args: argparse.Namespace) -> None:
    """Check all arguments that can be checked before a long flight is read."""
    if args.parameters is not None and args.against is None:
        raise UserError("--parameters change the simulation of --against: add --against BUNDLE")
    if args.against or args.report:
        common.require("comparing and plotting", MUJOCO)
    if args.video or args.viewer:
        common.require("films and the viewer", PLAY)
    if args.video is not None:
        from gaitway_sim2real.mujoco.film import check_video_path

        check_video_path(args.video)
    if args.seconds is not None and not args.viewer:
        raise UserError(f"--seconds {args.seconds} is the viewer's: add --viewer, or leave it out")
    if args.viewer:
        from ..view.scene import check_port

        check_port(args.host, args.port)
