"""One robot that walks in every way: the episode that the report's curves and the video show."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply
from gaitway_sim2real.mujoco.plant import Plant
from gaitway_sim2real.trial import showcase
from gaitway_sim2real.trial.feet import FootTrace
from gaitway_sim2real.trial.simulate import Policy, Trajectory

STAND = "stand"
SEQUENCE: tuple[tuple[float, str, tuple[float, float, float]], ...] = (
    (1.5, STAND, (0.0, 0.0, 0.0)),
    (3.5, "forward, slow", (0.5, 0.0, 0.0)),
    (3.5, "forward, fast", (1.0, 0.0, 0.0)),
    (3.5, "forward, turning", (0.5, 0.0, 0.6)),
    (3.5, "sideways", (0.0, 0.5, 0.0)),
    (3.5, "backward", (-0.5, 0.0, 0.0)),
    (3.5, "turning", (0.0, 0.0, -0.8)),
    (1.5, STAND, (0.0, 0.0, 0.0)),
)
"""Seconds, what a person would call it, and the command as a share of the contract's ranges."""
WINDOW = 2.0
"""Part of each kind of walking that is shown [s]: its end, when the robot is up to speed."""


@dataclass(frozen=True, kw_only=True)
class Showcase(showcase.Showcase):
    """A walk whose feet were recorded at every physics step."""

    foot_x: np.ndarray
    """Distance of each foot ahead of the base [m], (T, F), in the base's heading."""

    @property
    def feet(self) -> FootTrace:
        assert self.recording.feet is not None
        return self.recording.feet

    def windows(self) -> list[tuple[str, float, float]]:
        """Each kind of walking: its label, and the last :data:`WINDOW` seconds of it [s], as far as the robot stood."""
        spans, start = [], 0.0
        for label, run in itertools.groupby(self.labels):
            start += len(list(run)) * self.recording.control_dt
            if label != STAND and start <= self.end + 1e-9:
                spans.append((label, start - WINDOW, start))
        return spans


def command_sequence(contract: Contract) -> tuple[np.ndarray, tuple[str, ...]]:
    """The commands (T, 3) and a label for each control step; without walks that the contract does not have."""
    low, high = np.array(contract.command_ranges).T
    rows, labels = [], []
    for seconds, label, share in SEQUENCE:
        count = round(seconds / contract.control_dt)
        command = np.where(
            np.array(share) >= 0, np.array(share) * np.maximum(high, 0), -np.array(share) * np.minimum(low, 0)
        )
        if any(share) and not command.any():
            continue
        rows.append(np.tile(np.clip(command, low, high), (count, 1)))
        labels += [label] * count
    return np.concatenate(rows), tuple(labels)


def run_showcase(plant: Plant, contract: Contract, policy: Policy) -> Showcase:
    """Run the sequence once, undisturbed. ``plant`` must measure gaits; ``policy`` must be fresh and for one robot."""
    found = showcase.run_showcase(plant, contract, policy, *command_sequence(contract))
    return Showcase(recording=found.recording, labels=found.labels, foot_x=foot_x(plant, found.recording))


def foot_x(plant: Plant, rec: Trajectory) -> np.ndarray:
    """Distance of the first robot's feet ahead of its base [m], (T, F): the middle of their shapes."""
    assert plant.feet is not None and rec.qpos is not None
    model, data = plant.model, mujoco.MjData(plant.model)
    shapes = [model.sensor_refid[np.isin(model.sensor_adr, addresses)] for addresses in plant.feet.clearance]
    ahead = quat_apply(rec.base_quat[:, 0].astype(float), np.array([1.0, 0.0, 0.0]))[:, :2]
    ahead /= np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), 1e-9)
    result = np.zeros((len(ahead), len(shapes)))
    for t, qpos in enumerate(rec.qpos[:, 0]):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        feet = np.array([data.geom_xpos[geoms, :2].mean(0) for geoms in shapes])
        result[t] = (feet - rec.base_pos[t, 0, :2]) @ ahead[t]
    return result
