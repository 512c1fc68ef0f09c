"""How a task is trained unless told otherwise: the training half of each preset. The task half is in gaitway_tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.presets import PPOConfig, cpu_has_bfloat16
from gaitway_mujoco.model import PhysicsOptions

ISAAC_LAB: dict[str, Any] = {
    "num_envs": 4096,
    "total_steps": 300 * 24 * 4096,
    "agent": PPOConfig(model=ActorCriticConfig(normalize_observations=False)),
    "physics": PhysicsOptions(),
}
"""Isaac Lab's flat ANYmal-C settings: 4096 environments, 24 steps, 300 iterations."""

CPU: dict[str, Any] = {
    "num_envs": 256,
    "checkpoint_interval": 50,
    "total_steps": 8_000_000,
    "agent": PPOConfig(
        gamma=0.98,
        symmetry="canonical",
        learning_rate_final=2e-4,
        model=ActorCriticConfig(init_std=0.8),
        optimizer=OptimizerConfig(
            epochs=4,
            minibatches=2,
            entropy_coefficient=0.003,
            learning_rate=1.5e-3,
            schedule="constant",
            max_kl=0.12,
            workers=2,
        ),
    ),
    "physics": PhysicsOptions(max_action_delay=0.02),
}
"""For two cores: few environments and many updates. A policy acts in one quarter of the command space and is mirrored
into the others, which halves the steps it needs."""

SPRINT: dict[str, Any] = CPU | {
    "total_steps": 3_000_000,
    "agent": replace(CPU["agent"], learning_rate_final=1e-4),
    "physics": PhysicsOptions(),
}


def training_settings(preset: str | None) -> dict[str, Any]:
    """Fields of :class:`gaitway.config.TrainConfig` that go with ``preset``, in the precision this CPU is best at."""
    settings = {None: ISAAC_LAB, "cpu": CPU, "sprint": SPRINT}[preset]
    if preset is None or not cpu_has_bfloat16():
        return settings
    agent = settings["agent"]
    return settings | {"agent": replace(agent, optimizer=replace(agent.optimizer, precision="bfloat16"))}
