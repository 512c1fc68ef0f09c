"""``gaitway rehearse``: try a deployment on the robot's digital twin.

Rehearse a deployment against the robot's digital twin, and give a verdict.

  nominal    lying, standing up, touring the trained commands, lying down; with lost and late messages. Required: no
             fall, no trip, no clamp, and small velocity errors
  faults     each fault that the controller must detect, in each mode that moves the robot. Required: the right reason,
             the robot damped within two policy periods and kept damped
  processes  'gaitway twin' and 'gaitway deploy' as processes over DDS on the loopback interface: the end of the
             script, a second deployment, SIGTERM, SIGKILL and SIGSTOP

All but the processes run in simulated time and are deterministic. The processes take a minute; --no-dds skips them.

Writes rehearsal.html and rehearsal.json. Without --quick, --model and --terrain, also copies rehearsal.json into the
bundle, where 'gaitway deploy' reads it.

The exit code is 0 if the verdict is PASS, 1 if it is FAIL, 2 if the bundle cannot be used on this robot.

examples:
  gaitway rehearse runs/walk/bundle --robot unitree-go2
  gaitway rehearse runs/walk/bundle --robot unitree-go2 --quick --no-dds
  gaitway rehearse runs/walk/bundle --robot unitree-go2 --terrain rough:0.05 --no-dds
  gaitway rehearse runs/walk/bundle --robot unitree-go2 --minutes 30 --loss 0.05 --jitter 0.01
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import options, sources
from ..catalogue import MUJOCO, REHEARSE_DDS
from . import common

if TYPE_CHECKING:
    from gaitway_sim2real.rehearse.verdict import Trial


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|BUNDLE", "run (exported first) or bundle", Path)
    common.add_checkpoint(parser)
    parser.option("--robot NAME", "hardware, such as unitree-go2", required=True)
    parser.option(
        "--minutes", "length of the nominal walk (default 10)", options.number(0.0, 1440.0, above=True), default=10.0
    )
    parser.option("--loss", "share of messages lost, each way (default 0.01)", options.number(0.0, 1.0), default=0.01)
    parser.option(
        "--jitter", "largest random delay of a message [s] (default 0.005)", options.number(0.0, 1.0), default=0.005
    )
    parser.option("--seed", "random seed of loss and jitter (default 0)", options.seed, default=0)
    parser.option("--model robot.xml", "another MJCF of the same robot, for the twin", Path)
    common.add_terrain(parser)
    parser.switch("--quick", "run one minute and a part of the trials, for a first look")
    parser.add_argument(
        "--dds",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also run real processes over DDS on the loopback interface (default)",
    )
    parser.option("--domain N", "DDS domain of the processes (default: a free one)", options.domain)
    parser.option("--jobs", "processes at the same time (default: one per core)", options.whole(0, 4096), default=0)
    parser.option("--report DIR", "folder of the report (default rehearsal/ beside the bundle)", Path)


def run(args: argparse.Namespace) -> int:
    from ..training.interrupt import ended_in_order

    with ended_in_order():  # workers, the twin and a deployment are ended too
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    common.require("rehearse", MUJOCO)
    if args.dds:
        common.require("rehearsing with processes (leave them out with --no-dds)", REHEARSE_DDS)
    from gaitway_onboard.bundle.verdict import REHEARSAL_FILE
    from gaitway_sim2real.hardware import hardware_of
    from gaitway_sim2real.rehearse.suite import Settings, rehearse_bundle, save, write_report

    from ..runs.files import make_folder
    from ..runs.private import typed

    settings = Settings(
        minutes=args.minutes,
        loss=args.loss,
        jitter=args.jitter,
        seed=args.seed,
        quick=args.quick,
        jobs=args.jobs,
        ground=common.ground_of(args),
    )
    hardware = hardware_of(args.robot)
    which = sources.settled(args.source, args.checkpoint)
    bundle = sources.bundle_of(args.source, which=which)
    report = args.report or bundle.resolve().parent / "rehearsal"
    make_folder(report)
    rehearsal, trace = rehearse_bundle(
        bundle,
        hardware,
        settings,
        model=args.model,
        wire=(lambda: _processes(bundle, hardware, args)) if args.dds else None,
        progress=_show,
        say=lambda text: print(text, flush=True),
    )
    page = write_report(rehearsal, trace, report, shlex.join(["gaitway", *typed()]))
    if args.model is None and args.terrain is None and not args.quick:
        save(rehearsal, bundle / REHEARSAL_FILE)
    print(rehearsal.summary())
    print(f"report: {page}")
    return 0 if rehearsal.passed else 1


def _processes(bundle: Path, hardware: Any, args: argparse.Namespace) -> Iterator[Trial]:
    from gaitway_onboard.wire.dds import DdsBus
    from gaitway_sim2real.rehearse.processes import free_domain, rehearse_processes
    from gaitway_tasks.terrain import write_ground

    domain = free_domain() if args.domain is None else args.domain
    bus = DdsBus("lo", domain, sender_times=True)
    try:
        launcher = (sys.executable, "-P", "-m", "gaitway")
        terrain = None if args.terrain is None else write_ground(args.terrain)
        yield from rehearse_processes(bundle, hardware, bus, launcher, domain=domain, seed=args.seed, terrain=terrain)
    finally:
        bus.close()


def _show(done: int, total: int, trial: Trial) -> None:
    """A line per trial."""
    mark = "ok  " if trial.passed else "FAIL"
    print(f"[{done:2}/{total}] {mark} {trial.title}: {trial.outcome}", flush=True)
