"""``gaitway motion``: check, film, convert and retarget the motions that robots learn to follow.

A motion is one of Gaitway's by name (trot, pace, turn, march, squat, bow, ...), made for the robot, or a file: .npz of
Gaitway, whole_body_tracking or holosoma, .csv of Unitree, .txt of motion_imitation. docs/tracking.md describes them.

check     say whether the robot can do it: joints, floor, speeds, and torques by inverse dynamics
show      film it, without physics
convert   write it as Gaitway's .npz, with the joints by name; it gets stands at both ends
retarget  write a quadruped's clip for another one: feet and base keep their paths, scaled by the length of the legs

examples:
  gaitway motion check trot --robot go2
  gaitway motion show bow --robot anymal-c --out bow.mp4
  gaitway motion retarget dog_pace.txt --robot go2 --slower 1.5 --out pace.npz
  gaitway motion convert dance.csv --robot g1-29dof --out dance.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import PLAY
from ..runs.files import make_folder
from . import common

ACTIONS = ("check", "show", "convert", "retarget")
FPS = 50.0
"""Frames per second of what is written and examined."""


def add_options(parser: options.Parser) -> None:
    parser.option("action ACTION", "check, show, convert or retarget", choices=ACTIONS)
    parser.option("motion MOTION", "name or file of a motion")
    parser.option("--robot ROBOT", "robot that is to follow it", required=True)
    parser.option("--out FILE", "file to write: .mp4 of show, .npz of the others", Path)
    parser.option("--fps", "frames per second of a file that does not say it", options.number(1.0, 1000.0))
    parser.option("--slower", "retarget: make it slower by this factor (default 1)", options.number(0.1, 10.0))


def run(args: argparse.Namespace) -> int:
    common.require("motion", PLAY)
    robot = common.named_robot(args.robot)
    suffix = {"show": ".mp4", "convert": ".npz", "retarget": ".npz"}.get(args.action)
    if suffix and (args.out is None or args.out.suffix != suffix):
        raise UserError(f"motion {args.action} writes a file: give --out NAME{suffix}")
    if suffix is None and args.out is not None:
        raise UserError("motion check writes no file: leave --out out")
    if args.slower is not None and args.action != "retarget":
        raise UserError(f"--slower {args.slower:g} belongs to motion retarget")
    from gaitway_tracking.feasibility import examine
    from gaitway_tracking.formats import LAIKAGO, read_motion
    from gaitway_tracking.generator import MOTIONS, generate
    from gaitway_tracking.retarget import retarget

    if args.motion in MOTIONS:
        motion = generate(args.motion, robot, FPS)
    else:
        motion = read_motion(Path(args.motion), robot, args.fps)
        if motion.joint_names == LAIKAGO and args.action != "retarget":
            raise UserError(
                f"{args.motion} is a motion of another robot: gaitway motion retarget {args.motion} --robot "
                f"{args.robot} --out FILE.npz"
            )
        if args.action in ("convert", "retarget"):
            motion = retarget(motion, robot, FPS, args.slower or 1.0)
        motion = motion.ordered(robot.joint_names).resampled(FPS)
    if args.action == "show":
        from gaitway_tracking.film import film_motion

        print(f"film: {film_motion(args.motion, motion, robot, args.out)}")
        return 0
    if args.out is not None:
        make_folder(args.out.absolute().parent)
        motion.save(args.out)
        print(f"motion: {args.out}")
    first, last = motion.loop
    print(f"{motion.seconds:.2f} s of {robot.name}, repeats from {first / FPS:.2f} to {last / FPS:.2f} s")
    found = examine(motion, robot)
    for finding in found:
        mark = "ok" if finding.ok else "NO" if finding.decides else "note"
        print(
            f"  {mark:4} {finding.name}: {max(finding.value, 0.0):.2f} {finding.unit}".rstrip()
            + f" (at most {finding.limit:g})"
            + (f", {finding.where}" if finding.where and not finding.ok else "")
        )
    bad = [finding.name for finding in found if finding.decides and not finding.ok]
    if bad:
        print(f"{robot.name} cannot do this motion: {', '.join(bad)}")
    return 1 if bad and args.action == "check" else 0
