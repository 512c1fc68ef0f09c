"""The estimate of the base's velocity beside the truth, on the digital twin under the controller that drives robots.

    python benchmarks/estimation.py BUNDLE [--robot unitree-go2] [--seconds 60] [--seed 0] [--perfect]

A walk with a new random command of the bundle's ranges every 4 s, every fifth of them standing. The twin has noise,
biases and 1 % loss unless it is to be perfect. The bundle need not read its velocity: the estimator runs beside it.
Printed: root mean square error by axis and together, for contacts told by the feet's sensors, by the drives'
torque and by height alone; mean error, mean speed, CPU time of an update.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import numpy as np
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.control.loop import Period
from gaitway_onboard.estimation.leg_inertial import LegInertialEstimator
from gaitway_onboard.interface import Signals
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.hardware import hardware_of
from gaitway_sim2real.rehearse.stage import Stage

NOISE = Quirks(
    loss=0.01, encoder_noise=0.001, encoder_bias=0.005, velocity_noise=0.1, torque_noise=0.3, gyro_noise=0.02,
    gyro_bias=0.005, accelerometer_noise=0.2, orientation_noise=0.003,
)  # fmt: skip
SOURCES = {"sensors": (), "torque": ("foot_force",), "height": ("foot_force", "joint_torque")}
"""Sensors that are hidden from the estimator of each kind."""
SETTLING = 2.0  # [s] of the policy, before errors count


class Beside:
    """Several estimators on the states that the controller sees."""

    provides: tuple[str, ...] = ()

    def __init__(self, stage: Stage, bundle: Path):
        self.stage = stage
        names, period = stage.robot.joint_names, stage.robot.period
        self.estimators = {
            name: LegInertialEstimator.of_bundle(bundle, names, period, stage.hardware.feet) for name in SOURCES
        }
        self.rows: list[np.ndarray] = []
        self.estimates = np.zeros((len(SOURCES), 3))
        self.cpu, self.count = 0.0, 0

    def reset(self) -> None:
        for estimator in self.estimators.values():
            estimator.reset()

    def update(self, signals: Signals) -> None:
        for row, (name, hidden) in enumerate(SOURCES.items()):
            seen = dataclasses.replace(signals, **dict.fromkeys(hidden))
            start = time.process_time()
            self.estimators[name].update(seen)
            self.cpu += time.process_time() - start
            self.count += 1
            assert seen.base_lin_vel is not None
            self.estimates[row] = seen.base_lin_vel

    def look(self, period: Period) -> None:
        if period.mode is Mode.POLICY:
            self.rows.append(np.vstack([self.stage.twin.truth().base_lin_vel, self.estimates]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--robot", default="unitree-go2")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--perfect", action="store_true")
    options = parser.parse_args()
    quirks = Quirks() if options.perfect else NOISE
    stage = Stage(options.bundle, hardware_of(options.robot), quirks=quirks, seed=options.seed)
    beside = stage.estimator = Beside(stage, options.bundle)
    ranges = np.array(stage.policy.contract.command_ranges)
    drawn = np.random.default_rng(options.seed).uniform(*ranges.T, (1 + int(options.seconds // 4), 3))
    drawn[::5] = 0.0

    def command(elapsed: float) -> tuple[float, float, float]:
        vx, vy, yaw = drawn[int(elapsed // 4)]
        return float(vx), float(vy), float(yaw)

    performance = stage.perform(command, options.seconds, on_period=beside.look)
    rows = np.array(beside.rows)[round(SETTLING / stage.robot.period) :]
    truth, errors = rows[:, 0], rows[:, 1:] - rows[:, :1]
    print(f"{performance.outcome}; {len(rows)} states, speed {np.sqrt((truth**2).sum(1).mean()):.2f} m/s rms")
    print("contacts   rms error [m/s]  x      y      z      all    mean error   x       y       z")
    for number, name in enumerate(SOURCES):
        error = errors[:, number]
        rms = np.sqrt((error**2).mean(0))
        numbers = " ".join(f"{value:6.3f}" for value in (*rms, np.sqrt((error**2).sum(1).mean())))
        print(f"{name:24} {numbers}           {' '.join(f'{value:7.3f}' for value in error.mean(0))}")
    print(f"CPU time of an update: {1e6 * beside.cpu / beside.count:.0f} us")


if __name__ == "__main__":
    main()
