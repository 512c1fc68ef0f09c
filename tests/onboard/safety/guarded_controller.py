"""A process that drives a robot of bookkeeping over real DDS, with a guardian; what happens to it is the test's doing.

Arguments: bundle, DDS domain, seconds. Prints "guardian PID" and, once the policy drives, "policy"; then the cause.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import Controller, ControllerConfig
from gaitway_onboard.control.runner import run_realtime
from gaitway_onboard.interface import Array, SafeStop, Signals
from gaitway_onboard.safety.guardian import Guardian
from gaitway_onboard.safety.limits import SafetyLimits
from gaitway_onboard.transports.unitree_frames import COMMANDS, CommandFrame
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.dds import DdsBus
from gaitway_tasks.robots.go2 import GO2
from onboard.onboard_robots import PointRobot, WavePolicy

PATIENT = SafetyLimits(max_state_age=0.5, max_stall=1.0, max_overruns=2000, max_policy_overruns=50)
"""A busy machine is no fault here; only the guardian's own limit counts."""


class WireRobot(PointRobot):
    def __init__(self, contract: Contract, bus: DdsBus):
        super().__init__(contract, wall=True, offset=0.0)
        assert GO2.hardware is not None
        self.frame, self.loose = CommandFrame(GO2.hardware), np.full(12, 3.0)
        self.topic = Topic("rt/lowcmd", COMMANDS[GO2.hardware.family].name)
        self.publisher, self.bus = bus.publisher(self.topic), bus

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        super().write(targets, stiffness, damping)
        self.frame.fill(targets, stiffness, damping)
        self.publisher.send(self.frame.sealed())

    def damp(self) -> None:
        self.frame.fill(0.0, 0.0, self.loose)
        self.publisher.send(self.frame.sealed())

    def safe_stop(self) -> SafeStop:
        self.frame.fill(0.0, 0.0, self.loose)
        stop = self.bus.safe_stop(self.topic, bytes(self.frame.sealed()))
        return dataclasses.replace(stop, seconds=0.8)


class Herald:
    """Says when the policy drives."""

    controller: Controller
    told = False

    def poll(self, signals: Signals, now: float) -> None:
        if not self.told and self.controller.compute_us:
            self.told = True
            print("policy", flush=True)


def main() -> int:
    bundle, domain, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    contract = Contract.load(bundle)
    bus = DdsBus("lo", domain)
    robot = WireRobot(contract, bus)
    guardian = Guardian(robot.safe_stop(), silence=0.4)
    bus.ignore(guardian.identity)
    print("guardian", guardian.pid, flush=True)
    config = ControllerConfig(ramp=0.2, fade=0.1, hold=0.1, settle=0.1, lower=0.2, damp=0.5, limits=PATIENT)
    herald = Herald()
    report = run_realtime(
        robot, WavePolicy(contract), lambda time: (0.0, 0.0, 0.0), seconds, config=config, guardian=guardian,
        operators=[herald], on_start=lambda controller: setattr(herald, "controller", controller),
    )  # fmt: skip
    guardian.close()
    others = bus.other_writers(robot.topic)
    bus.close()
    print(report.cause, *others, flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
