"""Actuator networks learn a drive that is late, weak and rubs, better than the law that was commanded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from gaitway_sim2real.identify.drive_log import DriveLog, IdentificationError
from gaitway_sim2real.identify.networks import train_network
from gaitway_tasks.actuator_network import NetworkDrives, save_network
from gaitway_tasks.robots import GO2

KP, KD, DT, LATE = 25.0, 0.5, 0.005, 2


def recording(seconds: float, seed: int) -> DriveLog:
    """Twelve joints that follow moving targets through a drive 10 ms late, at 80 % of its torque, with friction."""
    rng = np.random.default_rng(seed)
    count = round(seconds / DT)
    time = DT * np.arange(count)
    tones = rng.uniform(0.3, 3.0, (3, 12))
    phase = rng.uniform(0.0, 6.0, (3, 12))
    target = 0.25 * np.sin(2 * np.pi * tones[:, None] * time[:, None] + phase[:, None]).sum(0)
    pos, vel, torque = (np.zeros((count, 12)) for _ in range(3))
    for k in range(1, count):
        late = max(0, k - 1 - LATE)
        wanted = KP * (target[late] - pos[k - 1]) - KD * vel[k - 1]
        torque[k - 1] = 0.8 * wanted - 0.4 * np.tanh(vel[k - 1] / 0.05)
        vel[k] = vel[k - 1] + DT * (torque[k - 1] - 0.3 * vel[k - 1]) / 0.08
        pos[k] = pos[k - 1] + DT * vel[k]
    gains = np.ones((count, 12))
    return DriveLog(
        source="synthetic", time=time, pos=pos, vel=vel, torque=torque, gravity=np.zeros((count, 3)),
        frame_time=time, targets=target, stiffness=KP * gains, damping=KD * gains,
    )  # fmt: skip


@pytest.fixture(scope="module")
def log() -> DriveLog:
    return recording(12.0, 0)


@pytest.mark.parametrize(("kind", "epochs", "share"), [("mlp", 30, 0.25), ("lstm", 30, 0.5)])
def test_a_network_beats_the_commanded_law(log: DriveLog, tmp_path: Path, kind: str, epochs: int, share: float) -> None:
    said: list[str] = []
    trained = train_network([log], GO2, kind=kind, period=DT, epochs=epochs, say=said.append)
    assert trained.error < share * trained.pd_error
    assert trained.pd_error < trained.spread
    assert len(said) == epochs
    path = save_network(trained.network, trained.description, tmp_path / "drives.npz")
    drives = NetworkDrives(path, GO2, DT, 1)
    unseen = recording(3.0, 1)
    assert unseen.torque is not None
    import torch

    found = np.array(
        [
            drives.torque(*(torch.tensor(row[None], dtype=torch.float32) for row in (target - pos, vel)))[0].numpy()
            for target, pos, vel in zip(unseen.targets, unseen.pos, unseen.vel, strict=True)
        ]
    )
    pd = KP * (unseen.targets - unseen.pos) - KD * unseen.vel
    error, commanded = (np.sqrt(np.mean((x - unseen.torque)[50:-1] ** 2)) for x in (found, pd))
    assert error < 2.0 * share * commanded


def test_training_is_the_same_twice(log: DriveLog) -> None:
    first, second = (train_network([log], GO2, epochs=2, seed=3) for _ in range(2))
    assert first.error == second.error


def test_what_no_network_can_learn_from_is_refused(log: DriveLog) -> None:
    with pytest.raises(IdentificationError, match="reports no torque"):
        train_network([dataclasses.replace(log, torque=None)], GO2)
    gains = log.stiffness.copy()
    gains[100:, 3] = 40.0
    with pytest.raises(IdentificationError, match="kp of FR_hip_joint changes from 25 to 40"):
        train_network([dataclasses.replace(log, stiffness=gains)], GO2)
    with pytest.raises(IdentificationError, match="too little for a network"):
        train_network([recording(2.0, 0)], GO2)
    with pytest.raises(IdentificationError, match="at least one recording"):
        train_network([], GO2)
