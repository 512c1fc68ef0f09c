"""Latency of the on-board half, signals to joint targets, beside a plain onnxruntime call on the same graph.

    python benchmarks/onboard_latency.py [--bundle BUNDLE] [--steps 20000] [--history 5] [--hidden 128]

Without ``--bundle`` it exports a random policy of the given size. The two alternate step by step in one process, so
that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_sim2real.bundle.golden import plausible_signals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="an exported bundle; default: a random policy")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--history", type=int, default=5, help="frames of history of the random policy")
    parser.add_argument("--hidden", type=int, default=128, help="width of the random policy's three layers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = options.bundle or random_bundle(Path(folder) / "bundle", options.history, options.hidden)
        ours, peer, name = measure(bundle, options.steps)
    print(f"{name}, {options.steps} steps, onnxruntime {ort.__version__}, {platform.machine()}")
    print(f"{'':34}{'p50':>9}{'p99':>9}{'p99.9':>9}   [us]")
    for label, times in (("gaitway on-board, all checks", ours), ("onnxruntime session.run, no checks", peer)):
        p50, p99, p999 = np.percentile(times, [50, 99, 99.9])
        print(f"{label:34}{p50:9.1f}{p99:9.1f}{p999:9.1f}")


def random_bundle(out: Path, history: int, hidden: int) -> Path:
    """Export an untrained blind ANYmal policy: 45 numbers a frame, three hidden layers, 12 joints."""
    import torch
    from gaitway_sim2real.bundle.export import export_bundle
    from gaitway_tasks.robots import ANYMAL_C
    from gaitway_tasks.velocity import blind, velocity_flat
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    widths = [45 * history, hidden, hidden, hidden]
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ELU())]
    actor = nn.Sequential(*layers, nn.Linear(hidden, 12))
    return export_bundle(blind(velocity_flat(ANYMAL_C), history), actor, out, checkpoint_sha256="0" * 64)


def measure(bundle: Path, steps: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Times [us] of both, on the same smooth signals."""
    policy = OnboardPolicy(bundle)
    contract = policy.contract
    signals = plausible_signals(
        np.array(contract.default_joint_pos),
        np.array(contract.command_ranges),
        steps=1000,
        batch=1,
        step_dt=contract.control_dt,
        seed=1,
    )
    readings = [
        Signals(*(signals[name][i, 0] for name in ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro")), stamp=0.0)
        for i in range(1000)
    ]
    commands = signals["command"][:, 0]
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(bundle / "policy.onnx", options, providers=["CPUExecutionProvider"])
    state = np.zeros((1, contract.state_dim), np.float32)
    times = np.zeros((2, steps))
    gc.disable()
    for step in range(-200, steps):  # the first 200 warm up
        i = step % 1000
        start = time.perf_counter_ns()
        targets = policy.step(readings[i], commands[i])
        middle = time.perf_counter_ns()
        feed = {name: value[i] for name, value in signals.items()}
        expected, _, state = session.run(None, {**feed, "state": state})
        end = time.perf_counter_ns()
        if step >= 0:
            times[:, step] = middle - start, end - middle
        elif np.abs(targets - expected[0]).max() > 1e-5:
            raise SystemExit("the two disagree: their times mean nothing")
    gc.enable()
    return times[0] / 1e3, times[1] / 1e3, contract.task


if __name__ == "__main__":
    main()
