"""``gaitway twin``: serve a simulated robot on the wire of the real one.

Serve a MuJoCo robot on the topics of the real one, in real time, for 'gaitway deploy' or any other program that drives
such a robot. A Unitree robot starts lying under its own controller, which must be released as on the real one; robots
on two feet hang on a stand. "ros2" is the robot that the --config file describes.

--quirk switches imperfections on; all are off by default and repeat with the same --seed. --fault provokes a fault at a
time after the start. docs/twin.md lists both.

The default is the loopback interface and domain 1, so that no robot on a network hears it.

examples:
  gaitway twin unitree-go2
  gaitway twin unitree-go2 --hung --viewer
  gaitway twin unitree-go2 --terrain stairs-up:0.10
  gaitway twin unitree-go2 --quirk latency=0.004 --quirk jitter=0.002 --quirk loss=0.01 --seed 3
  gaitway twin unitree-go2 --fault 20:silence --fault 25:joint-range:FL_calf_joint
  gaitway twin unitree-g1 --interface eth0 --domain 5
  gaitway twin ros2 --config anymal.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import PLAY, WIRE_TWIN
from . import common

if TYPE_CHECKING:
    from gaitway_sim2real.digital_twin.twin import Twin


def add_options(parser: options.Parser) -> None:
    parser.option("robot ROBOT", "robot to simulate: unitree-go2, unitree-h1, unitree-g1, ... or ros2")
    parser.option("--config FILE.yaml", "ros2 only: topics, joints, gains", Path)
    parser.option("--interface", "network interface (default lo)", default="lo")
    parser.option("--domain", "DDS domain (default 1; real robots are on 0)", options.domain, default=1)
    parser.option("--model robot.xml", "another MJCF of the same robot", Path)
    common.add_terrain(parser)
    base = parser.add_mutually_exclusive_group()
    base.add_argument(
        "--hung", action="store_true", default=None, help="hang the robot on a stand with its feet in the air"
    )
    base.add_argument(
        "--free", dest="hung", action="store_false", help="put the robot on the ground, even one on two feet"
    )
    parser.switch("--standing", "start standing instead of lying")
    parser.switch("--no-own-controller", "obey commands at once, without the robot's own controller and services")
    parser.option("--quirk NAME=VALUE|FILE.yaml", "add an imperfection, or a file of them", many=True)
    parser.option("--fault TIME:NAME[:JOINT]", "provoke a fault [s after the start]", many=True)
    parser.option("--seed", "random seed (default 0)", options.seed, default=0)
    parser.option("--seconds S", "serve for S seconds (default: until Ctrl-C)", options.seconds)
    parser.switch("--viewer", "show it in a web browser, with buttons for faults")
    common.add_page(parser, "viewer's page")


def run(args: argparse.Namespace) -> int:
    common.require("a twin on the wire", WIRE_TWIN)
    faults = [_fault(text) for text in args.fault]
    if args.viewer:
        common.require("the viewer", PLAY)
        from ..view.scene import check_port

        check_port(args.host, args.port)
    from gaitway_onboard.wire.dds import DdsBus
    from gaitway_sim2real.digital_twin.serve import serve

    from ..training.interrupt import stop_requests

    with stop_requests() as stop:
        bus = DdsBus(args.interface, args.domain)
        try:
            twin = _twin(args, bus)
            for after, name, joint in faults:
                twin.inject(name, after=after, joint=joint)
            story = _Story(twin)
            print(_greeting(args, twin), flush=True)
            with _viewer(args, twin) as show:

                def every() -> None:
                    story.go_on()
                    show()

                report = serve(
                    twin,
                    bus,
                    seconds=args.seconds or float("inf"),
                    stopped=lambda: stop.signal is not None,
                    every=every,
                )
        finally:
            bus.close()
    print(story.summary())
    print(
        f"served {report.seconds:.1f} s at {100 * report.load:.0f} % of a core; at worst {1e3 * report.worst:.0f} ms "
        "late" + (f"; TOO SLOW: {report.skipped:.1f} s were skipped" if report.skipped else "")
    )
    return 0


def _twin(args: argparse.Namespace, bus: Any) -> Twin:
    from gaitway_sim2real.digital_twin.quirks import read_quirks
    from gaitway_sim2real.digital_twin.twin import open_twin

    return open_twin(
        args.robot,
        bus,
        config=args.config,
        model=args.model,
        quirks=read_quirks(args.quirk),
        seed=args.seed,
        hung=args.hung,
        standing=args.standing,
        own_controller=not args.no_own_controller,
        visual=args.viewer,
        ground=common.ground_of(args),
    )


def _fault(text: str) -> tuple[float, str, str | None]:
    """Time [s], name and joint of a fault, from "time:name" or "time:name:joint"."""
    time, _, rest = text.partition(":")
    name, _, joint = rest.partition(":")
    try:
        after = float(time)
    except ValueError:
        after = float("nan")
    if not name or not 0.0 <= after < float("inf"):
        raise UserError(f"--fault {text}: expected seconds:name or seconds:name:joint, such as 20:silence")
    return after, name, joint or None


def _greeting(args: argparse.Namespace, twin: Twin) -> str:
    wire = f"--interface {args.interface} --domain {args.domain}"
    robot = f"--robot {args.robot}" + (f" --config {args.config}" if args.config else "")
    posture = "hung on a stand" if twin.body.hung else "standing" if args.standing else "lying"
    where = "" if args.terrain is None else f" on {args.terrain.title.lower()}"
    own = f" under its own controller {twin.sport.name!r}" if twin.sport is not None else ""
    length = "until Ctrl-C" if args.seconds is None else f"for {args.seconds:g} s"
    return (
        f"{args.robot} is {posture}{where}{own}, on interface {args.interface}, domain {args.domain}\n"
        f"  sends    {', '.join(twin.side.sends)}\n"
        f"  obeys    {', '.join(twin.side.obeys)}\n"
        f"  drive it with: gaitway deploy BUNDLE {robot} {wire}\n"
        f"  waits    for commands, {length}"
    )


def _viewer(args: argparse.Namespace, twin: Twin) -> Any:
    import contextlib

    if not args.viewer:
        return contextlib.nullcontext(lambda: None)
    from ..view.twin import watching

    return watching(twin, args.robot, args.host, args.port)


class _Story:
    """Log with one line per change: the active controller, provoked faults, refused commands."""

    def __init__(self, twin: Twin):
        self.twin, self.start = twin, twin.time
        self.told: dict[str, Any] = {"own": True}
        self.faults: set[int] = set()
        self.last_accepted, self.last_command = 0, float("-inf")

    def go_on(self) -> None:
        twin, counters = self.twin, self.twin.counters
        if counters.accepted != self.last_accepted:
            self.last_accepted, self.last_command = counters.accepted, twin.time
        if twin.sport is not None:
            self._tell("own", twin.sport.active, "its own controller is active", "its own controller is released")
        driven = twin.time - self.last_command < 0.1
        self._tell("driven", driven, "commands arrive", "no commands arrive")
        for name in ("corrupt", "foreign", "not_finite", "refused"):
            self._tell(name, getattr(counters, name) > 0, f"ignoring commands: {name.replace('_', ' ')}", "")
        for number, injection in enumerate(twin.faults.injections):
            if number not in self.faults and twin.time >= injection.start:
                self.faults.add(number)
                where = f" at {twin.joint_names[injection.joint]}" if injection.fault.of_a_joint else ""
                self._say(f"fault {injection.fault}{where}")

    def _tell(self, key: str, now: bool, on: str, off: str) -> None:
        if self.told.get(key, False) != now:
            self.told[key] = now
            if text := on if now else off:
                self._say(text)

    def _say(self, text: str) -> None:
        print(f"  {self.twin.time - self.start:7.2f} s  {text}", flush=True)

    def summary(self) -> str:
        counters = self.twin.counters
        ignored = {name: getattr(counters, name) for name in ("corrupt", "foreign", "not_finite", "refused", "lost")}
        named = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in ignored.items() if count)
        return f"obeyed {counters.accepted} commands" + (f"; ignored: {named}" if named else "")
