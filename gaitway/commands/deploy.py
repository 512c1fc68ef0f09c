"""``gaitway deploy``: drive a real robot, or a twin on its wire.

Drive a robot with a bundle: check the bundle against the robot, connect, show the robot's state, ask, take over, then
damped -> stand up -> default pose -> policy -> default pose -> sink -> damped. Every ending damps the robot; a guardian
process does so if this one is killed or hangs. Read docs/deploy.md before the first deployment.

The operator continues with 'start' (remote) or Enter (keyboard), stops with 'L2+B', 'select', space or Ctrl-C, and
lowers the robot with 'L2+A' or x. --auto continues without waiting; without a terminal, for instance in a script on a
twin, give --auto --yes.

--command is a constant, a script, a "tour" of the trained commands (needs --seconds), or a source: "remote" (sticks of
the robot's remote), "gamepad", "keyboard", "cmd_vel" (a ROS 2 topic). The default is to stand.

Without a bundle, --excite moves a hung robot for 'gaitway identify'.

The exit code is 0 if the deployment ended as asked, 1 after a trip or with an incomplete --log, 2 for bad input (the
robot has not moved).

examples:
  gaitway deploy runs/walk/bundle --robot unitree-go2 --interface eth0
  gaitway deploy runs/walk/bundle --robot unitree-go2 --interface eth0 --command remote --log flight.mcap
  gaitway deploy runs/walk/bundle --robot unitree-go2 --interface lo --domain 1 --auto --command tour --seconds 30
  gaitway deploy --excite 60 --robot unitree-go2 --interface eth0 --log excitation.mcap
  gaitway deploy runs/walk/bundle --robot ros2 --config anymal.yaml --interface eth0 --command cmd_vel
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import DEPLOY, SIGNING
from . import common

if TYPE_CHECKING:
    from gaitway_onboard.control.commands import CommandSource
    from gaitway_onboard.control.controller import Controller, ControllerConfig
    from gaitway_onboard.control.deployment import Survey
    from gaitway_onboard.control.loop import LoopReport
    from gaitway_onboard.flight.encoder import Encoder
    from gaitway_onboard.interface import HardwareInterface


SOURCES = ("remote", "gamepad", "keyboard", "cmd_vel")


def add_options(parser: options.Parser) -> None:
    parser.option("bundle BUNDLE", "policy to run", Path, nargs="?")
    parser.option("--robot NAME", "robot to drive: unitree-go2, unitree-h1, unitree-g1, ... or ros2", required=True)
    parser.option("--interface NAME", "network interface that the robot is on; lo for 'gaitway twin'", required=True)
    parser.option("--domain", "DDS domain (default 0; 'gaitway twin' is on 1)", options.domain, default=0)
    parser.option("--config FILE.yaml", "ros2 only: topics, joints, gains", Path)
    parser.option("--command SOURCE|VX,VY,YAW", "source of commands, or one command", dest="velocity")
    parser.option("--gamepad DEVICE", "gamepad to read with --command gamepad (default: the first one)", Path)
    parser.option("--seconds S", "run the policy for S seconds (default: until the operator ends it)", options.seconds)
    parser.option("--excite S", "move a hung robot for identification, without a bundle", options.seconds)
    parser.option("--seed", "random seed of --excite (default 0)", options.seed, default=0)
    parser.option("--log FILE.mcap", "record the flight", Path)
    parser.option(
        "--limit NAME=VALUE", "change a safety limit; looser ones need --i-know; docs/trips.md lists them", many=True
    )
    parser.switch("--auto", "stand up and start the policy without waiting for the operator's start")
    parser.switch(
        "--yes", "do not ask before taking over; the robot then still waits for a start, unless --auto is given"
    )
    parser.switch("--i-know", "accept a bundle without a verdict PASS, or looser limits")
    parser.option(
        "--trust KEY.pub",
        "run only bundles signed with this key, or with one in this folder; repeatable",
        Path,
        many=True,
    )
    parser.switch("--silent-writers", "start although other programs could send commands, and stop at their first one")
    parser.option(
        "--robot-id ID", "choose one of several robots: its id as an error message shows it, or its address", many=True
    )
    parser.switch("--unsealed-states", "accept states without a checksum, which some simulators send")
    parser.switch(
        "--no-own-controller", "do not switch off the robot's own controller: for simulators, which have none"
    )


def run(args: argparse.Namespace) -> int:
    common.require("driving a robot", DEPLOY)
    if (args.bundle is None) == (args.excite is None):
        raise UserError("give a bundle, or --excite without one")
    if args.trust and args.bundle is None:
        raise UserError("--trust checks a bundle's signature, and --excite has no bundle: leave --trust out")
    if args.excite is not None and (args.velocity is not None or args.seconds is not None):
        raise UserError("--excite has its own motion and length: leave --command and --seconds out")
    from gaitway_onboard.control.controller import ControllerConfig
    from gaitway_onboard.safety.limits import parse_limits

    config = ControllerConfig(auto=args.auto, limits=parse_limits(args.limit))
    with contextlib.ExitStack() as stack:
        report, flight = _deploy(args, config, stack)
    incomplete = flight.incomplete if flight is not None else None
    print(_summary(report, args.log, incomplete))
    return 0 if report.ok and incomplete is None else 1


SOURCES = ("remote", "gamepad", "keyboard", "cmd_vel")
"""Sources of velocities."""


@dataclass
class _Panel:
    """Source of commands, and the operators who can stop or continue."""

    source: CommandSource
    about: str
    operators: list[Any] = field(default_factory=list)


def _deploy(
    args: argparse.Namespace, config: ControllerConfig, stack: contextlib.ExitStack
) -> tuple[LoopReport, Encoder | None]:
    """Outcome and flight; the flight is closed with ``stack``."""
    from gaitway_onboard.bundle.reading import one_reading
    from gaitway_onboard.control.console import Console
    from gaitway_onboard.control.deployment import drive, survey
    from gaitway_onboard.flight.opening import open_flight
    from gaitway_onboard.safety.checks import SafetyFilter
    from gaitway_onboard.safety.support import open_support
    from gaitway_onboard.transports.open import Connection, open_robot
    from gaitway_sim2real.hardware import hardware_of

    hardware = hardware_of(args.robot, args.config)
    bundle = None if args.bundle is None else stack.enter_context(one_reading(args.bundle))
    signed = _signed(args, bundle)
    doubts = _check(args, bundle, hardware) + _loosened(args, config)
    if not (args.yes or sys.stdin.isatty()):
        raise UserError(
            "no terminal to ask on, or to press Enter on: if somebody has a hand on the stop button, --auto --yes "
            "stands up and starts the policy; --yes alone waits for 'start' on the robot's transmitter"
        )
    if args.log is not None:
        from gaitway_onboard.flight.file import check_path

        check_path(args.log)

    console = Console()
    stack.callback(console.close)
    connection = Connection(
        interface=args.interface, domain=args.domain, own_controller=not args.no_own_controller,
        silent_writers=args.silent_writers, unsealed_states=args.unsealed_states, robot_ids=args.robot_id,
        say=console.say,
    )  # fmt: skip
    robot = open_robot(hardware, connection)
    stack.callback(robot.close)
    policy, estimator, seconds = _policy(args, bundle, robot, hardware)
    support = None if bundle is None else open_support(bundle, robot.joint_names)
    if isinstance(support, str):
        doubts += (f"its legs do not tell where down is: {support}",)
        support = None
    panel = _panel(args, robot, policy.contract, stack)
    print(
        f"connecting to {args.robot} on {args.interface}, domain {args.domain}: waiting for its states ...", flush=True
    )
    robot.connect()
    seen = survey(robot, SafetyFilter(policy.contract, robot.joint_names, config.limits, hardware))
    print(_checklist(args, policy.contract, panel, seconds, seen, signed, doubts), flush=True)
    start = _start(args, seen)
    _confirm(args)

    flight = None
    if args.log is not None:
        about = {"robot": hardware.robot, "hardware": hardware.name, "task": policy.contract.task}
        if bundle is not None:
            about["bundle"] = args.bundle.absolute().name
        flight = open_flight(args.log, robot.joint_names, about, realtime=True, bundle=bundle)
        stack.callback(flight.close)
    operators = [*panel.operators, *_keyboard(panel, policy.contract, stack)]

    def on_start(controller: Controller) -> None:
        console.line = lambda: _line(controller, robot)

    report = drive(
        robot, policy, panel.source, seconds, config=replace(config, start=start), hardware=hardware,
        estimator=estimator, support=support, flight=flight, operators=operators, say=console.say, on_start=on_start,
    )  # fmt: skip
    return report, flight


def _check(args: argparse.Namespace, bundle: Path | None, hardware: Any) -> tuple[str, ...]:
    """Check ``bundle``, a copy of ``args.bundle``, against this robot: raise for errors, return the warnings."""
    if bundle is None:
        return ()
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_onboard.bundle.reading import named
    from gaitway_onboard.safety.preflight import check_bundle, rehearsal_doubts

    provided = Contract.load(bundle).estimators or {}
    doubts: tuple[str, ...] = check_bundle(bundle, hardware, provided=tuple(provided), i_know=args.i_know)
    doubts += () if args.robot == "ros2" else rehearsal_doubts(bundle, hardware)
    return tuple(named(doubt, bundle, args.bundle) for doubt in doubts)


def _signed(args: argparse.Namespace, bundle: Path | None) -> str | None:
    """Trusted signer of the bundle; None without --trust."""
    if bundle is None or not args.trust:
        return None
    common.require("--trust", SIGNING)
    from gaitway_onboard.bundle.signature import load_public_keys, verify_bundle

    key = verify_bundle(bundle, load_public_keys(args.trust))
    return f"by {key.path}, {key.fingerprint}"


def _loosened(args: argparse.Namespace, config: ControllerConfig) -> tuple[str, ...]:
    """Warnings about limits looser than the safe defaults; raises :class:`UserError` without --i-know."""
    doubts = config.limits.loosened()
    if doubts and not args.i_know:
        raise UserError(f"{'; '.join(doubts)}: leave --limit out, or take the risk with --i-know")
    return doubts


def _policy(
    args: argparse.Namespace, bundle: Path | None, robot: HardwareInterface, hardware: Any
) -> tuple[Any, Any, float]:
    """Policy, estimator and duration [s]."""
    if bundle is None:
        from gaitway_sim2real.identify.excitation import Excitation
        from gaitway_tasks.robots import ROBOTS

        excitation = Excitation(ROBOTS[hardware.robot], robot.joint_names, seconds=args.excite, seed=args.seed)
        return excitation, None, args.excite
    from gaitway_onboard.bundle.policy import OnboardPolicy
    from gaitway_onboard.estimation.estimators import open_estimator

    policy = OnboardPolicy(bundle, robot.joint_names)
    estimator = open_estimator(bundle, robot.joint_names, robot.period, hardware.feet)
    return policy, estimator, args.seconds or float("inf")


def _panel(args: argparse.Namespace, robot: Any, contract: Any, stack: contextlib.ExitStack) -> _Panel:
    from gaitway_onboard.control.commands import check_range, parse_script, scripted, tour_of
    from gaitway_onboard.control.devices import Gamepad, RemoteOperator, first_gamepad

    remote = RemoteOperator(contract)
    operators: list[Any] = [remote]
    wanted = args.velocity or ",".join(map(str, contract.still))
    if wanted in SOURCES:
        contract.check_velocity(f"{wanted} gives")
    if wanted == "remote":
        return _Panel(lambda time: remote.sticks.command(robot.clock()), "the transmitter's sticks", operators)
    if wanted == "gamepad":
        pad = Gamepad(args.gamepad or first_gamepad(), contract)
        stack.callback(pad.close)
        return _Panel(lambda time: pad.sticks.command(robot.clock()), "the gamepad's sticks", [*operators, pad])
    if wanted == "keyboard":
        if not sys.stdin.isatty():
            raise UserError("--command keyboard needs a terminal")
        return _Panel(lambda time: contract.still, "the keyboard", operators)  # known once it is opened
    if wanted == "cmd_vel":
        from gaitway_onboard.transports.cmd_vel import CmdVel

        config = getattr(robot, "config", None)
        topic = config.cmd_vel if config is not None else "/cmd_vel"
        source = CmdVel(robot.bus, topic, stamped=config is not None and config.cmd_vel_stamped)
        return _Panel(source, f"the ROS 2 topic {topic}", operators)
    if wanted == "tour":
        if args.seconds is None:
            raise UserError("--command tour needs its length: add --seconds S")
        return _Panel(scripted(tour_of(contract, args.seconds)), "a tour of the trained commands", operators)
    script = parse_script(wanted)
    check_range(script, contract)
    return _Panel(scripted(script), f"the script {wanted}", operators)


def _keyboard(panel: _Panel, contract: Any, stack: contextlib.ExitStack) -> Iterator[Any]:
    """The terminal's keys, where there is a terminal."""
    if not sys.stdin.isatty():
        return
    import time

    from gaitway_onboard.control.devices import Keyboard

    keyboard = Keyboard(contract)
    stack.callback(keyboard.close)
    if panel.about == "the keyboard":
        panel.source = lambda elapsed: keyboard.sticks.command(time.monotonic())
    print(Keyboard.HELP + (Keyboard.STEERING if contract.follows_velocity else ""), flush=True)
    yield keyboard


def _checklist(
    args: argparse.Namespace,
    contract: Any,
    panel: _Panel,
    seconds: float,
    seen: Any,
    signed: str | None,
    doubts: tuple[str, ...],
) -> str:
    length = "until the operator ends it" if seconds == float("inf") else f"for {seconds:g} s"
    rows = [
        ("robot", f"{args.robot} on {args.interface}, domain {args.domain}"),
        *(("", line) for line in seen.lines()),
        ("policy", f"{contract.task} at {1 / contract.control_dt:.0f} Hz {length}, commanded by {panel.about}"),
        *([("signed", signed)] if signed is not None else []),
        ("log", str(args.log) if args.log else "none: --log FILE.mcap records what happens"),
    ]
    rows += [("NOT READY", seen.fault.text)] if seen.fault is not None else []
    rows += [("WARNING", doubt) for doubt in doubts]
    return "\n".join(f"  {name:<10} {text}" for name, text in rows)


def _start(args: argparse.Namespace, seen: Survey) -> str:
    """What the operator can do to go on, in words; raises :class:`UserError` where that is nothing."""
    health = seen.signals.health
    ways = [
        *(["Enter"] if sys.stdin.isatty() else []),
        *(["'start' on the gamepad"] if args.velocity == "gamepad" else []),
        *(["'start' on the transmitter"] if health is not None and health.remote is not None else []),
    ]
    if not ways and not args.auto:
        raise UserError(
            "no terminal to press Enter on, and no transmitter heard: nobody could start the policy; add --auto, which "
            "stands up and starts it"
        )
    return " or ".join(ways) + ("" if sys.stdin.isatty() else "; without a terminal, --auto needs none")


def _confirm(args: argparse.Namespace) -> None:
    if args.yes:
        return
    print("  Is the robot on its stand or clear of people, the area free, and a hand on the stop button?")
    if input("take over the motors? [y/N] ").strip().lower() not in ("y", "yes"):
        raise UserError("not taken over: nothing was sent")


def _line(controller: Controller, robot: Any) -> str:
    vx, vy, yaw = controller.command
    late = f"{controller.policy_overruns} late" if controller.policy_overruns else "in time"
    return (
        f"{controller.mode:<8} command {vx:+.2f} {vy:+.2f} {yaw:+.2f}   "
        f"policy {len(controller.compute_us)} steps, {late}   {controller.clamped} clamped"
    )


def _summary(report: LoopReport, log: Path | None, incomplete: str | None) -> str:
    import numpy as np

    words = "ENDED" if report.ok else f"TRIPPED ({report.cause})"
    lines = [f"{words}: {report.reason}"]
    if report.policy_periods:
        p50, p99 = np.percentile(report.compute_us, [50, 99])
        lines.append(
            f"policy: {report.policy_periods} periods, {report.policy_overruns} late, {report.clamped} clamped; "
            f"signals to targets {p50 / 1e3:.2f} ms median, {p99 / 1e3:.2f} ms p99"
        )
    if report.timing is not None:
        lines.append(f"loop: {report.timing.summary()}; {report.overruns} late")
        lines += [f"note: {note}" for note in report.timing.notes]
    if incomplete is not None:
        lines.append(f"RECORDING INCOMPLETE: {incomplete}")
    if log is not None:
        lines.append(f"flight: {log} (gaitway replay {log})")
    return "\n".join(lines)
