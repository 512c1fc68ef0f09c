"""Timing of a deployment: the whole of it, in real time, over DDS, beside the process of the twin.

    python benchmarks/deploy_timing.py BUNDLE [--robot unitree-go2] [--seconds 30] [--domain N] [--log FLIGHT.mcap]

'gaitway twin' is started as a process; this one is the deployment, with its guardian and, with ``--log``, the
recorder. Printed: how far the time between two commands was from 2 ms (target: p99 1 ms), signals to targets of the
policy (target: p99 1 ms), CPU of this process (target: 60 % of a core), late periods, and the machine's load, without
which none of it means much.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import scripted, tour_of
from gaitway_onboard.control.controller import ControllerConfig
from gaitway_onboard.control.deployment import drive
from gaitway_onboard.estimation.estimators import open_estimator
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.safety.limits import SafetyLimits
from gaitway_onboard.safety.preflight import check_bundle
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_sim2real.hardware import hardware_of

PATIENT = SafetyLimits(max_state_age=0.5, max_stall=1.0, max_overruns=2000, max_policy_overruns=50)
"""Being late is measured here, not tripped over, as far as limits may be loosened."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--robot", default="unitree-go2")
    parser.add_argument("--seconds", type=float, default=30.0, help="of policy")
    parser.add_argument("--domain", type=int, default=2 + os.getpid() % 98)
    parser.add_argument("--log", type=Path, help="record the flight too")
    options = parser.parse_args()
    twin = subprocess.Popen(
        [sys.executable, "-P", "-m", "gaitway", "twin", options.robot, "--domain", str(options.domain)],
        stdout=subprocess.DEVNULL,
    )
    try:
        measure(options)
    finally:
        twin.send_signal(signal.SIGINT)
        twin.wait(20.0)


def measure(options: argparse.Namespace) -> None:
    hardware = hardware_of(options.robot)
    check_bundle(options.bundle, hardware, i_know=True)
    robot = open_robot(hardware, Connection(interface="lo", domain=options.domain))
    policy = OnboardPolicy(options.bundle, robot.joint_names)
    contract = policy.contract
    robot.connect(timeout=20.0)
    load = os.getloadavg()[0]
    flight = None
    if options.log is not None:
        about = {"robot": hardware.robot, "hardware": hardware.name, "task": contract.task}
        flight = open_flight(options.log, robot.joint_names, about, realtime=True, bundle=options.bundle)
    report = drive(
        robot, policy, scripted(tour_of(contract, options.seconds)), options.seconds,
        interface="lo", domain=options.domain, config=ControllerConfig(limits=PATIENT), hardware=hardware,
        estimator=open_estimator(options.bundle, robot.joint_names, robot.period), flight=flight,
    )  # fmt: skip
    if flight is not None:
        flight.close()
    robot.close()
    timing = report.timing
    assert timing is not None
    print(f"{contract.task} on {options.robot}: {report.reason}; {report.policy_periods} policy periods, "
          f"{report.clamped} with a clamp")  # fmt: skip
    for label, values in (
        ("period error of the 500 Hz loop", 1e3 * timing.period_error),
        ("busy, state read to command sent", 1e3 * timing.busy),
        ("policy, signals to targets", 1e-3 * report.compute_us),
    ):
        if not len(values):
            continue  # it was stopped before
        p50, p99, p999, worst = np.percentile(values, [50, 99, 99.9, 100])
        print(f"{label:34} p50 {p50:7.3f}   p99 {p99:7.3f}   p99.9 {p999:7.3f}   most {worst:8.3f} ms")
    print(f"CPU of the deployment {100 * timing.cpu:.0f} % of a core; {report.overruns} late periods, "
          f"{report.policy_overruns} late policies")  # fmt: skip
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after, on {len(os.sched_getaffinity(0))} cores")
    for note in timing.notes:
        print(f"note: {note}")


if __name__ == "__main__":
    main()
