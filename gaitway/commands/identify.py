"""``gaitway identify``: what a robot's drives and joints really do, from flights of the robot on a stand."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import IDENTIFY
from ..errors import UserError
from . import common

DESCRIPTION = """\
Fit gain scales, motor strength, friction, armature and delay of a robot to what it did on a stand, feet in the air:
record it with 'gaitway deploy --excite 60 --log flight.mcap'. A folder stands for all its flights.

The flight is simulated in pieces and least squares move the parameters until the joints move, and the drives report
torque, as measured. --out gets the parameters, each with its standard deviation, for 'gaitway train --parameters';
beside it a page shows how much better they predict, and what this motion could not tell.

Walking flights are refused: what touched the robot is unknown. docs/identify.md says what else to know.

The exit code is 0 if the parameters explain the flight, 1 if not, 2 if it cannot be used.

examples:
  gaitway identify flight.mcap --robot unitree-go2 --out params.yaml
  gaitway identify flights/ --robot unitree-go2 --out params.yaml --share type
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "identify", "fit a robot's parameters to flights on a stand", DESCRIPTION)
    parser.add_argument("flight", type=Path, metavar="FLIGHT.mcap|FOLDER", help="one flight, or a folder of them")
    parser.add_argument("--robot", required=True, metavar="NAME", help="such as unitree-go2, or the name of a robot")
    parser.add_argument("--out", type=Path, required=True, metavar="params.yaml", help="parameter file to write")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="the page (default: beside --out)")
    parser.add_argument(
        "--share",
        default="joint",
        choices=("joint", "type", "robot"),
        help="joints with numbers in common: none, those at the same place of each leg, all (default joint)",
    )
    parser.add_argument("--model", type=Path, metavar="robot.xml", help="another MJCF of the same robot")
    parser.add_argument("--seed", type=int, default=0, help="of the rough search (default 0)")
    parser.add_argument("--threads", type=int, default=0, help="of the physics (default: all cores)")
    return parser


def run(args: argparse.Namespace) -> int:
    common.require("identify", IDENTIFY)
    if args.threads < 0 or args.seed < 0:
        raise UserError("--threads and --seed: give numbers that are not negative")
    from gaitway_sim2real.identify.drive_log import read_drive_logs
    from gaitway_sim2real.identify.identify import UnexplainedError, identify
    from gaitway_sim2real.identify.report import render_page
    from gaitway_sim2real.onboard.parameters import save_parameters

    from ..files import make_folder, write_text_atomically

    robot = _robot(args.robot)
    page = args.report or args.out.with_suffix(".html")
    for path in (args.out, page):
        make_folder(path.absolute().parent)
    logs = read_drive_logs(args.flight, robot)
    found = identify(
        logs,
        robot,
        share=args.share,
        model=args.model,
        seed=args.seed,
        threads=args.threads,
        say=lambda text: print(text, flush=True),
    )
    write_text_atomically(page, render_page(found))
    print(found.summary())
    try:
        found.check()
    except UnexplainedError:
        print(f"page: {page}")
        raise
    save_parameters(found.parameters, args.out)
    print(f"parameters: {args.out}\npage: {page}")
    return 0


def _robot(name: str) -> Any:
    from gaitway_sim2real.onboard.transports.open import HARDWARE
    from gaitway_tasks.robots import ROBOTS

    if name in HARDWARE:
        return ROBOTS[HARDWARE[name].robot]
    if name in ROBOTS:
        return ROBOTS[name]
    raise UserError(f"unknown robot {name!r}: known are {', '.join([*HARDWARE, *ROBOTS])}")
