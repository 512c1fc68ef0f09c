"""Load a trained policy from the newest checkpoint of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import RunError
from ..runs.folder import RunFolder, fitting

if TYPE_CHECKING:
    from gaitway_agents.trainer import Trainer
    from torch import nn

    from ..config.train_config import TrainConfig


def load_trainer(run: RunFolder, num_envs: int = 1) -> tuple[TrainConfig, Trainer, Path]:
    """A run's agent with the policy of its newest checkpoint, in ``num_envs`` fresh environments; the checkpoint.

    The environments are MuJoCo's where the run learnt in Isaac Lab, which need not be there.
    """
    config = run.config()
    found = run.load_checkpoint()
    if found is None:
        raise RunError(f"{run.path} has no checkpoint yet: train it first")
    state, path = found
    trainer = config.domain.player(config, run.path, num_envs)
    with fitting(path, run.path):
        trainer.load_policy(state["trainer"])
    return config, trainer, path


class Acting:
    """A robot's deterministic policy in ``num_envs`` environments, with the memory of one that has any."""

    def __init__(self, actor: Any, num_envs: int):
        self.actor, self.memory = actor, torch.zeros(num_envs, getattr(actor, "memory_size", 0))

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


def load_actor(run: RunFolder) -> tuple[TrainConfig, nn.Module, Path]:
    """The deterministic policy (N, D) -> (N, A) of a robot's run, from its newest checkpoint, and the checkpoint."""
    config, trainer, path = load_trainer(run)
    trainer.env.close()
    config.robot_task  # noqa: B018  refuses what is no robot's
    return config, trainer.actor(), path  # type: ignore[attr-defined]
