"""Load a trained policy from a checkpoint of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gaitway_agents.registry import ENVIRONMENTS
from torch import Tensor

from ..errors import RunError
from ..runs.choice import Which, settle
from ..runs.folder import RunFolder, fitting, read_checkpoint

if TYPE_CHECKING:
    from gaitway_agents.trainer import Trainer
    from gymnasium.vector import VectorEnv
    from torch import nn

    from ..train_config import TrainConfig


def load_state(run: RunFolder, which: Which = None) -> tuple[dict[str, Any], Path]:
    """State and file of a checkpoint of a run, which must have one.

    ``which`` is a number of steps, "best", "last", or None for the run's own choice: the newest, as a rule.
    """
    if (steps := settle(run, which)) is not None:
        path = run.kept()[steps]
        return read_checkpoint(path), path
    if (found := run.load_checkpoint()) is None:
        raise RunError(f"{run.path} has no checkpoint yet: train it first")
    return found


def trainer_of(run: RunFolder, env: VectorEnv, which: Which = None) -> Trainer:
    """A run's agent with the policy of a checkpoint, in an environment that is there."""
    config = run.config()
    state, path = load_state(run, which)
    trainer = config.environments.trainer_in(env, config, config.seed)
    with fitting(path, run.path):
        trainer.load_policy(state["trainer"])
    return trainer


class Acting:
    """A robot's deterministic policy in ``num_envs`` environments, with the memory of one that has any."""

    def __init__(self, actor: Any, num_envs: int, device: torch.device | str = "cpu"):
        self.actor, self.memory = actor, torch.zeros(num_envs, getattr(actor, "memory_size", 0), device=device)

    @torch.inference_mode()
    def act(self, observation: Tensor) -> Tensor:
        """Actions, shape (N, A), for observations, shape (N, D)."""
        if not self.memory.numel():
            return self.actor(observation).clone()
        action, self.memory = self.actor(observation, self.memory)
        return action.clone()

    def forget(self, ended: Tensor) -> None:
        """Clear the memory of environments whose episode ended, (N,) of bool."""
        self.memory = self.memory * ~ended[:, None]


def act_in(env: Any, actor: Any, steps: Iterable[int], seed: int, device: torch.device | str = "cpu") -> None:
    """Let a robot's deterministic policy act in ``env``, a world of robots, for ``steps`` from a reset by ``seed``."""
    observation, _ = env.reset(seed=seed)
    policy = Acting(actor, env.num_envs, device)
    for _ in steps:
        observation, _, terminated, truncated, _ = env.step(policy.act(observation["policy"]))
        policy.forget(terminated | truncated)


def load_policy(run: RunFolder, which: Which = None) -> tuple[TrainConfig, nn.Module, nn.Module, Path]:
    """The policy of a robot's run from a checkpoint, its deterministic actor, and the checkpoint.

    They are made of configuration and checkpoint alone: no environment is built.
    """
    config = run.config()
    config.robot_task  # noqa: B018  refuses what is no robot's
    if ENVIRONMENTS[config.algorithm].restored is None:
        able = ", ".join(name for name, row in ENVIRONMENTS.items() if row.restored is not None)
        raise RunError(f"{run.path} was trained with {config.algorithm}, which is not exported: train with {able}")
    state, path = load_state(run, which)
    with fitting(path, run.path):
        policy, actor = config.environments.restored(config, state["trainer"])
    return config, policy, actor, path


def load_actor(run: RunFolder, which: Which = None) -> tuple[TrainConfig, nn.Module, Path]:
    """The deterministic policy (N, D) -> (N, A) of a robot's run, from a checkpoint, and the checkpoint."""
    config, _, actor, path = load_policy(run, which)
    return config, actor, path
