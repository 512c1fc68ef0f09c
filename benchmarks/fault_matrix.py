"""The safety figures of a bundle, many times over: faults by mode, for several seeds.

    python benchmarks/fault_matrix.py BUNDLE [--robot unitree-go2] [--seeds 3] [--loss 0.01] [--jitter 0.005] [--jobs 0]

As the faults of 'gaitway rehearse', without its nominal walk. Printed for each fault: cells passed, how long detection
took at least and at most, and the largest torque that any frame asked for, of its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from gaitway_sim2real.hardware import hardware_of
from gaitway_sim2real.rehearse.suite import Settings, rehearse_bundle
from gaitway_sim2real.rehearse.verdict import FAULTS, Trial


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--robot", default="unitree-go2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loss", type=float, default=0.01)
    parser.add_argument("--jitter", type=float, default=0.005)
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    hardware = hardware_of(options.robot)
    found: dict[str, list[Trial]] = defaultdict(list)
    for seed in range(options.seeds):
        settings = Settings(minutes=0.1, loss=options.loss, jitter=options.jitter, seed=seed, jobs=options.jobs)
        rehearsal, _ = rehearse_bundle(options.bundle, hardware, settings, groups=(FAULTS,))
        for trial in rehearsal.trials:
            found[trial.name].append(trial)
    print(f"{'fault':14} cells passed   detected after [ms]   largest torque of limit")
    for name, trials in found.items():
        passed = f"{sum(trial.passed for trial in trials)} of {len(trials)}"
        worst = max(value(trial, "largest torque asked for, of the limit") for trial in trials)
        times = [value(trial, "detected after") for trial in trials]
        print(f"{name:14} {passed:>12}   {min(times):8.0f} to {max(times):<8.0f}   {worst:10.3f}")
    failures = [line for trials in found.values() for trial in trials for line in trial.failures()]
    print("\n".join(failures) or "all passed")
    sys.exit(1 if failures else 0)


def value(trial: Trial, title: str) -> float:
    return next((check.value for check in trial.checks if check.title == title), float("nan"))


if __name__ == "__main__":
    main()
