"""Cost of the on-board checks: the share of the loop's period that judging states and clamping commands takes.

    python benchmarks/check_cost.py BUNDLE [--robot unitree-go2] [--seconds 30]

The twin walks the tour of the trained commands in simulated time, and every call of the safety filter is timed by the
processor time of its thread. Beside it stands the whole step of the controller, policy included. The policy and the
twin run between the calls, so that caches are as cold as in a deployment.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from false_trips import hardware_for
from gaitway_onboard.control.commands import scripted
from gaitway_onboard.control.controller import Controller
from gaitway_onboard.safety.checks import SafetyFilter
from gaitway_onboard.safety.clamp import Clamp
from gaitway_sim2real.rehearse.nominal import laps
from gaitway_sim2real.rehearse.stage import Stage
from gaitway_sim2real.rehearse.suite import Settings

PARTS = {
    "states judged": (SafetyFilter, "fault"),
    "commands noted": (SafetyFilter, "sent"),
    "commands clamped": (Clamp, "command"),
    "whole step of the controller": (Controller, "step"),
}
WHOLE = "whole step of the controller"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--robot", default="unitree-go2")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    times: dict[str, list[int]] = defaultdict(list)
    for name, (owner, method) in PARTS.items():
        setattr(owner, method, timed(getattr(owner, method), times[name]))
    stage = Stage(options.bundle, hardware_for(options.robot, options.bundle), quirks=Settings().quirks, seed=0)
    gc.disable()
    performance = stage.perform(scripted(laps(stage.policy.contract, options.seconds)), options.seconds)
    gc.enable()
    period, steps = stage.robot.period, len(times[WHOLE])
    print(f"{options.robot}, {steps} steps of {1e3 * period:g} ms, {performance.outcome}")
    print(f"{'':30}{'mean':>9}{'p50':>9}{'p99':>9}   [us]{'of the period':>17}")
    checks = 0.0
    for name, values in times.items():
        mean = sum(values) / steps / 1e3
        checks += mean * (name != WHOLE)
        p50, p99 = np.percentile(values, [50, 99]) / 1e3
        print(f"{name:30}{mean:9.1f}{p50:9.1f}{p99:9.1f}{1e-4 * mean / period:23.2f} %")
    print(f"{'all checks':30}{checks:9.1f}{'':18}{1e-4 * checks / period:23.2f} %")


def timed(function: Callable[..., Any], times: list[int]) -> Callable[..., Any]:
    def called(*arguments: Any) -> Any:
        start = time.thread_time_ns()
        try:
            return function(*arguments)
        finally:
            times.append(time.thread_time_ns() - start)

    return called


if __name__ == "__main__":
    main()
