"""Smooth, plausible signals to compare runtimes on, and the recording of them that travels in a bundle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime as ort
from gaitway_onboard.rotation import quat_from_rpy
from numpy.typing import NDArray

Signals = dict[str, NDArray[np.float32]]
HEIGHT = 0.5  # [m], of a legged robot's base above the ground, about


def plausible_signals(
    default_joint_pos: NDArray[np.floating],
    command_ranges: NDArray[np.floating],
    *,
    steps: int,
    batch: int,
    step_dt: float,
    seed: int,
    estimated: Mapping[str, int] | None = None,
    joint_pos_limits: NDArray[np.floating] | None = None,
) -> Signals:
    """Signals of a robot that sways about its default pose, each (steps, batch, d); velocities match positions.

    ``command_ranges`` is (D, 2); commands change once a second. ``estimated`` has the width of each estimated input.
    Joints sway by no more than half of their range in ``joint_pos_limits`` (J, 2): fingers move by centimetres.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(steps)[:, None, None] * step_dt

    def sway(amplitude: float | NDArray[np.floating], dims: int) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """A sum of two sines per number, and its derivative."""
        value, rate = np.zeros((2, steps, batch, dims))
        for _ in range(2):
            size, omega, phase = (rng.uniform(low, high, (batch, dims)) for low, high in
                                  ((0.0, amplitude), (2.0, 14.0), (0.0, 2 * np.pi)))  # fmt: skip
            value += size * np.sin(omega * time + phase)
            rate += size * omega * np.cos(omega * time + phase)
        return value, rate

    most = np.full(len(default_joint_pos), 0.3)
    if joint_pos_limits is not None:
        most = np.minimum(most, np.diff(joint_pos_limits, axis=1)[:, 0] / 2.0)
    joint_pos, joint_vel = sway(most, len(default_joint_pos))
    angles, gyro = sway(0.2, 3)
    ticks = (time[:, 0, 0] // 1.0).astype(int)
    low, high = np.asarray(command_ranges, dtype=float).T
    commands = rng.uniform(low, high, (ticks[-1] + 1, batch, len(low)))
    signals = {
        "joint_pos": default_joint_pos + joint_pos,
        "joint_vel": joint_vel,
        "imu_quat_wxyz": quat_from_rpy(angles),
        "gyro": gyro,
        "command": commands[ticks],
    }
    for name, width in (estimated or {}).items():
        centre = HEIGHT if name == "height_scan" else 0.0
        signals[name] = centre + sway(0.1, width)[0]
    return {name: value.astype(np.float32) for name, value in signals.items()}


def record_golden(session: ort.InferenceSession, signals: Signals, state_dim: int) -> Signals:
    """Run ``signals`` (T, 1, d) with a reset half-way: every input and output, (T, d), and where the resets are."""
    steps = len(signals["joint_pos"])
    reset = np.zeros(steps, dtype=bool)
    reset[[0, steps // 2]] = True
    names = [output.name for output in session.get_outputs()]
    rows: dict[str, list[NDArray[np.float32]]] = {name: [] for name in (*signals, "state", *names)}
    state = np.zeros((1, state_dim), np.float32)
    for step in range(steps):
        if reset[step]:
            state = np.zeros_like(state)
        feed = {name: value[step] for name, value in signals.items()} | {"state": state}
        outputs = dict(zip(names, session.run(names, feed), strict=True))
        for name, value in (feed | outputs).items():
            rows[name].append(value[0])
        state = outputs["next_state"]
    return {name: np.stack(values) for name, values in rows.items()} | {"reset": reset}
