"""``gaitway identify``: fit a robot's parameters to flights on a stand.

Fit gain scales, motor strength, friction, armature and delay of a robot to flights on a stand, feet in the air: record
them with 'gaitway deploy --excite 60 --log flight.mcap'. For a folder, all its flights are used.

The flight is simulated in windows; least squares fit the parameters to the measured joint motion and drive torques.
--out is the parameter file, with standard deviations, for 'gaitway train --parameters'; a page beside it shows how much
better the parameters predict, and what this motion cannot identify. --network also trains an actuator network on the
same flights, which then replaces the drive model.

Walking flights are refused, because the contact forces are unknown. docs/identify.md has the details.

The exit code is 0 if the parameters explain the flight, 1 if not, 2 for bad input.

examples:
  gaitway identify flight.mcap --robot unitree-go2 --out params.yaml
  gaitway identify flights/ --robot unitree-go2 --out params.yaml --share type
  gaitway identify flight.mcap --robot unitree-go2 --out params.yaml --network mlp
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import options
from ..catalogue import IDENTIFY, IDENTIFY_NETWORK
from . import common

if TYPE_CHECKING:
    from gaitway_sim2real.identify.drive_log import DriveLog
    from gaitway_sim2real.identify.identify import Identification

PERIOD = 0.005  # [s], physics step of the tasks, at which a network will be asked
REACH = 0.01  # [s], how far a network looks back beyond the delay


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("flight FLIGHT.mcap|LOG|FOLDER", "one flight, a log of another program, or a folder of them", Path)
    parser.option("--robot NAME", "hardware such as unitree-go2, or a robot's name", required=True)
    parser.option("--out params.yaml", "parameter file to write", Path, required=True)
    parser.option("--report FILE.html", "report page (default: beside --out)", Path)
    parser.option(
        "--share",
        "fit values per joint, per type (the same joint of every leg), or per robot (default joint)",
        default="joint",
        choices=("joint", "type", "robot"),
    )
    parser.option("--model robot.xml", "another MJCF of the same robot", Path)
    parser.option("--network", "also train an actuator network; needs torch", choices=("mlp", "lstm"))
    common.add_log_options(parser)
    parser.option("--seed", "random seed of the coarse search (default 0)", options.seed, default=0)
    parser.option("--threads", "physics threads (default: all cores)", options.whole(0, 4096), default=0)


def run(args: argparse.Namespace) -> int:
    common.require("identify", IDENTIFY if args.network is None else IDENTIFY_NETWORK)
    from gaitway_sim2real.identify.drive_log import read_drive_logs
    from gaitway_sim2real.identify.identify import UnexplainedError, identify
    from gaitway_sim2real.identify.report import report
    from gaitway_tasks.robots.parameters_file import save_parameters

    from ..runs.files import make_folder, write_text_atomically

    robot = common.named_robot(args.robot)
    page = args.report or args.out.with_suffix(".html")
    for path in (args.out, page):
        make_folder(path.absolute().parent)
    logs = read_drive_logs(args.flight, robot, gains=args.gains, topics=args.topics, say=print)
    found = identify(
        logs,
        robot,
        share=args.share,
        model=args.model,
        seed=args.seed,
        threads=args.threads,
        say=lambda text: print(text, flush=True),
    )
    write_text_atomically(page, report(found).html())
    print(found.summary())
    try:
        found.check()
    except UnexplainedError:
        print(f"page: {page}")
        raise
    parameters = found.parameters
    if args.network is not None:
        parameters = replace(parameters, actuator_network=_network(args, logs, found))
    save_parameters(parameters, args.out)
    print(f"parameters: {args.out}\npage: {page}")
    return 0


def _network(args: argparse.Namespace, logs: Sequence[DriveLog], found: Identification) -> str:
    """Train an actuator network and write it beside the parameters; returns its file's name."""
    import math

    import numpy as np
    from gaitway_sim2real.identify.drive_log import IdentificationError, steady_part
    from gaitway_sim2real.identify.networks import train_network
    from gaitway_tasks.actuator_network import save_network

    strength = found.values.joints["strength"]
    steady = []
    for log in map(steady_part, logs):
        if log.torque is None:
            raise IdentificationError(f"{log.source}: the robot reports no torque, and a network is taught by it")
        # Drives measure current: what they report is not what a weak motor gives.
        steady.append(replace(log, torque=strength * np.asarray(log.torque)))
    reach = math.ceil((found.parameters.delay + REACH) / PERIOD)
    trained = train_network(
        steady,
        found.robot,
        kind=args.network,
        period=PERIOD,
        input_idx=(0, 1, 2, *range(4, max(4, reach) + 1, 2)),
        seed=args.seed,
        say=lambda text: print(text, flush=True),
    )
    path = args.out.with_name(f"{args.out.stem}-drives.npz")
    save_network(trained.network, trained.description, path)
    print(
        f"network: {path}; torque off by {trained.error:.3f} N m of {trained.spread:.3f} N m on held-out motion, the "
        f"commanded law by {trained.pd_error:.3f} N m"
    )
    return path.name
