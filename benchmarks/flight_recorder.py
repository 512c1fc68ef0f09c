"""Cost of recording a flight: time per call, the recorder's CPU, bytes, and the disturbance of a 500 Hz loop.

    python benchmarks/flight_recorder.py [--seconds 20] [--rounds 3]

A loop of 2 ms logs what a Go2's controller logs: a state and a frame each period, a step of a policy with 300 numbers
of memory every tenth, all of it noise that compresses badly. Rounds with the recorder and rounds that log nothing
alternate, since a busy machine slows both.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from gaitway_onboard.flight.encoder import Encoder
from gaitway_onboard.flight.log import FlightLog
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import read_flight
from gaitway_onboard.interface import Decision, Health, Remote, Signals
from gaitway_tasks.robots import GO2

PERIOD, EVERY = 0.002, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    periods = round(options.seconds / PERIOD)
    late: dict[str, list[np.ndarray]] = {"recorded": [], "silent": []}
    print(f"{options.rounds} rounds of {options.seconds:g} s each way, load {os.getloadavg()[0]:.1f}")
    for number in range(options.rounds):
        late["silent"].append(fly(FlightLog(), periods)[0])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "flight.mcap"
            log = open_flight(path, GO2.joint_names, {"robot": GO2.name}, realtime=True)
            before = cpu_of(log)
            found, costs = fly(log, periods)
            used = cpu_of(log) - before
            log.close()
            late["recorded"].append(found)
            flight = read_flight(path)
            size = path.stat().st_size
        whole = len(flight.state) == len(flight.frame) == periods and not log.dropped
        calls = ", ".join(f"{name} {np.median(us):.1f} / {np.percentile(us, 99):.1f}" for name, us in costs.items())
        share, rate = 100 * used / options.seconds, size / options.seconds / 1e3
        print(f"round {number}: us per call, median / p99: {calls}")
        print(
            f"  recorder {share:.1f} % of a core, {rate:.0f} kB/s, {'nothing lost' if whole else f'LOST {log.dropped}'}"
        )
    for name, rounds in late.items():
        error = 1e3 * np.concatenate(rounds)
        p50, p99, p999 = np.percentile(error, [50, 99, 99.9])
        print(f"{name:9} wake-up after the deadline [ms]: median {p50:.3f}, p99 {p99:.3f}, p99.9 {p999:.3f}")


def fly(log: FlightLog, periods: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Lateness of each period's start [s], (T,), and durations of each kind of call [us]."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(periods, 60)).astype(np.float32)
    gains, memory = np.full(12, 25.0), rng.normal(size=300).astype(np.float32)
    late, costs = (
        np.zeros(periods),
        {"state": np.zeros(periods), "frame": np.zeros(periods), "policy": np.zeros(periods)},
    )
    clock, start = time.perf_counter, time.monotonic() + 0.01
    log.event(start, "mode", "policy")
    for k in range(periods):
        deadline = start + k * PERIOD
        time.sleep(max(0.0, deadline - time.monotonic()))
        late[k] = max(0.0, time.monotonic() - deadline)
        signals = reading(noise[k], k, deadline)
        targets = signals.joint_pos + 0.1
        first = clock()
        log.state(signals)
        second = clock()
        log.frame(deadline, "policy", targets, gains, gains, targets)
        third = clock()
        costs["state"][k], costs["frame"][k] = second - first, third - second
        if k % EVERY == 0:
            log.policy(Decision(deadline, (0.5, 0.0, 0.0), memory, targets, {}, targets, 0.0), False)
            costs["policy"][k] = clock() - third
    return late, {name: 1e6 * values[values > 0] for name, values in costs.items()}


def reading(noise: np.ndarray, k: int, stamp: float) -> Signals:
    return Signals(
        joint_pos=noise[:12], joint_vel=noise[12:24], imu_quat_wxyz=noise[24:28], gyro=noise[28:31], stamp=stamp,
        accelerometer=noise[31:34], joint_torque=noise[34:46], foot_force=noise[46:50],
        health=Health(tick=2 * k, motor_temperature=noise[48:60], battery=0.9, remote=Remote()),
    )  # fmt: skip


def cpu_of(log: Encoder) -> float:
    """User and system time of the recorder's process so far [s]."""
    assert log.recorder_pid is not None
    fields = Path(f"/proc/{log.recorder_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
