"""Share of robots that fall when they are pushed, with its Wilson interval, over as many robots as are asked for.

    python benchmarks/pushes.py BUNDLE [--robots 5000] [--push 0.5] [--seed 0] [--threads 0] [--chunk 250]

The scenario is the suite's "Pushes 0.5 m/s": 20 s with random commands, a fifth of the robots stand, and a velocity
step every four seconds. Robots are run in chunks, each with a seed of its own, so that memory stays bounded.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_sim2real.trial.intervals import wilson
from gaitway_sim2real.trial.judging import Plants, run_scenario
from gaitway_velocity.metrics import survivals
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--robots", type=int, default=5000)
    parser.add_argument("--push", type=float, default=0.5, help="size of the velocity steps [m/s]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores; results do not depend on it")
    parser.add_argument("--chunk", type=int, default=250, help="robots at a time")
    options = parser.parse_args()
    contract = OnboardPolicy(options.bundle).contract
    model = options.bundle / "robot.xml"
    plants = Plants(contract, model, model)
    pushes = replace(next(scenario for scenario in SCENARIOS if scenario.name == "pushes"), push=options.push)
    threads = options.threads or len(os.sched_getaffinity(0))
    fell, given, survived, causes, start = 0, 0, 0, Counter[str](), time.process_time()
    chunks = math.ceil(options.robots / options.chunk)
    for chunk in range(chunks):
        robots = min(options.chunk, options.robots - chunk * options.chunk)
        scenario = replace(pushes, envs=robots, draws=f"pushes benchmark {chunk}")
        recording = run_scenario(SUITE, options.bundle, contract, plants, scenario, options.seed, threads)
        kept = survivals(recording.push, recording.fall_step)
        fell, given, survived = (
            fell + int((recording.fall_step >= 0).sum()),
            given + len(kept),
            survived + int(kept.sum()),
        )
        causes.update(cause for cause in recording.fall_cause if cause)
        print(f"{min(options.robots, (chunk + 1) * options.chunk)} of {options.robots} robots: {fell} fell", flush=True)
    low, high = wilson(fell, options.robots)
    print(
        f"falls {100 * fell / options.robots:.2f} % of {options.robots} robots, {pushes.seconds:.0f} s, pushes of "
        f"{options.push:g} m/s (95 % certain: at least {100 * low:.2f} %, at most {100 * high:.2f} %); "
        f"{given - survived} of {given} pushes not survived; {time.process_time() - start:.0f} CPU-s"
    )
    for cause, count in causes.most_common():
        print(f"  {cause}: {count}")


if __name__ == "__main__":
    main()
