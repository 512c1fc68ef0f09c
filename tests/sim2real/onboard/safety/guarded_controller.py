"""A process that drives a robot of bookkeeping over DDS or UDP, with a guardian; the test decides what happens to it.

Arguments: bundle, "dds" and a domain or "udp" and a port, seconds. Prints "guardian PID" and, once the policy drives,
"policy"; then the cause.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import Controller, ControllerConfig
from gaitway_onboard.control.runner import run_realtime
from gaitway_onboard.interface import Array, HardwareInterface, SafeStop, Signals
from gaitway_onboard.safety.guardian import Guardian
from gaitway_onboard.safety.limits import SafetyLimits
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_onboard.transports.unitree_frames import COMMANDS, CommandFrame
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.dds import DdsBus
from gaitway_tasks.robots.go2 import GO2
from sim2real.onboard.onboard_robots import PointRobot, WavePolicy

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

    def ignore(self, identity: str) -> None:
        self.bus.ignore(identity)

    def others(self) -> tuple[str, ...]:
        return self.bus.other_writers(self.topic)

    def close(self) -> None:
        self.bus.close()


def over_udp(contract: Contract, port: int) -> HardwareInterface:
    """The robot on this port, connected and taken over; its transport is named by the robot, and is in no table."""
    every = dict.fromkeys(contract.joint_names, 3.0)
    hardware = Hardware(
        name="udp", robot=contract.robot, family="sim2real.onboard.transports.udp_robot:open_robot", wire=port,
        motors=contract.joint_names, effort_limit=every, velocity_limit=every, max_stiffness=every, max_damping=every,
        damping=every,
    )  # fmt: skip
    robot = open_robot(hardware, Connection())
    robot.connect(timeout=30.0)
    robot.take_over()
    return robot


class Herald:
    """Says when the policy drives."""

    controller: Controller
    told = False

    def poll(self, signals: Signals, now: float) -> None:
        if not self.told and self.controller.compute_us:
            self.told = True
            print("policy", flush=True)


def main() -> int:
    bundle, channel, number, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    contract = Contract.load(bundle)
    robot = WireRobot(contract, DdsBus("lo", number)) if channel == "dds" else over_udp(contract, number)
    stop = robot.safe_stop()
    assert stop is not None
    guardian = Guardian(stop, silence=0.4)
    robot.ignore(guardian.identity)
    print("guardian", guardian.pid, flush=True)
    config = ControllerConfig(ramp=0.2, fade=0.1, hold=0.1, settle=0.1, lower=0.2, damp=0.5, limits=PATIENT)
    herald = Herald()
    report = run_realtime(
        robot, WavePolicy(contract), lambda time: (0.0, 0.0, 0.0), seconds, config=config, guardian=guardian,
        operators=[herald], on_start=lambda controller: setattr(herald, "controller", controller),
    )  # fmt: skip
    guardian.close()
    others = robot.others() if isinstance(robot, WireRobot) else ()
    robot.close()
    print(report.cause, *others, flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
