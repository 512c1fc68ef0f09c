"""How a task is trained unless told otherwise: the training half of each preset. The task half is in gaitway_tasks."""

from __future__ import annotations

from typing import Any

from gaitway_agents.presets import PPOConfig
from gaitway_mujoco.model import PhysicsOptions

ISAAC_LAB: dict[str, Any] = {
    "num_envs": 4096,
    "total_steps": 300 * 24 * 4096,
    "agent": PPOConfig(),
    "physics": PhysicsOptions(),
}
"""Isaac Lab's flat ANYmal-C settings: 4096 environments, 24 steps, 300 iterations."""

CPU: dict[str, Any] = {
    "num_envs": 256,
    "total_steps": 4_000_000,
    "agent": PPOConfig(),
    "physics": PhysicsOptions(),
}
"""For a machine with few cores and no GPU."""


def training_settings(preset: str | None) -> dict[str, Any]:
    """Fields of :class:`gaitway.config.TrainConfig` that go with ``preset``."""
    return {None: ISAAC_LAB, "cpu": CPU}.get(preset, ISAAC_LAB)
