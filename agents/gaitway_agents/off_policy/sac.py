"""Soft actor-critic (Haarnoja et al. 2018b): twin critics, a squashed Gaussian policy and a learnt temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from torch import Tensor, nn

from ..trainer import Observation
from .config import SACConfig
from .learner import Learner, Target
from .networks import SquashedGaussian, TwinCritic
from .replay import Transitions
from .trainer import OffPolicyTrainer


class Temperature(nn.Module):
    """The price of entropy, learnt through its logarithm."""

    def __init__(self, initial: float):
        super().__init__()
        self.log = nn.Parameter(torch.full((1,), math.log(initial)))

    def forward(self) -> Tensor:
        return self.log.detach().exp()


class SACTrainer(OffPolicyTrainer):
    """Actions lie in [-1, 1] everywhere inside and are stretched to the bounds of the action space outside."""

    config: SACConfig

    def _build(self, space: spaces.Dict, action_space: spaces.Space[Any]) -> None:
        if not isinstance(action_space, spaces.Box):
            raise UserError(f"action space {action_space}: SAC acts in Box; for Discrete use ppo or dqn")
        low, high = action_space.low, action_space.high
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UserError(
                f"action space {action_space}: SAC squashes actions into finite bounds; give the action space some "
                "(gymnasium.wrappers.RescaleAction does) or use ppo"
            )
        dtype = torch.get_default_dtype()
        self.centre = torch.as_tensor((low + high) / 2.0, dtype=dtype)
        self.half_width = torch.as_tensor((high - low) / 2.0, dtype=dtype)
        self.action_dim = spaces.flatdim(action_space)
        cfg = self.config
        self.target_entropy = -float(self.action_dim) if cfg.target_entropy is None else cfg.target_entropy
        self.policy = SquashedGaussian(space, self.action_dim, cfg.actor, cfg.log_std_range, cfg.smooth_log_std)
        self.critic = TwinCritic(space, self.action_dim, cfg.critic)
        self.temperature = Temperature(cfg.initial_temperature)
        self.actor_learner, self.critic_learner = self._learner(self.policy), self._learner(self.critic)
        self.temperature_learner = Learner(self.temperature, cfg.learning_rate, betas=cfg.betas)
        self.target = Target(self.critic_learner)
        self.learners = {"actor": self.actor_learner, "critic": self.critic_learner}
        self.learners["temperature"] = self.temperature_learner
        self.targets = {"critic": self.target}
        self._actor_records: list[tuple[Tensor, Tensor]] = []

    def _learner(self, network: nn.Module) -> Learner:
        cfg = self.config
        return Learner(
            network, cfg.learning_rate, betas=cfg.betas, weight_decay=cfg.weight_decay, max_grad_norm=cfg.max_grad_norm
        )

    # ---- acting ------------------------------------------------------------------------------------------------------

    def _explore(self, observations: Observation) -> Tensor:
        shape = (self.num_envs, self.action_dim)
        if self.steps < self.config.learning_starts:
            return 2.0 * torch.rand(shape, generator=self.generator) - 1.0
        mean, log_std = self.policy(observations)
        return (mean + log_std.exp() * torch.randn(shape, generator=self.generator)).tanh()

    def _to_env(self, actions: Tensor) -> Tensor:
        return self.centre + self.half_width * actions.view(-1, *self.centre.shape)

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The squashed means (N, *shape) as environments take them, and no memory."""
        return self._to_env(self.policy(observations)[0].tanh()), {}

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, updates: int, steps: int) -> None:
        size = self.config.batch_size
        count = self.updates
        for drawn in self._batches(updates):
            for start in range(0, len(drawn), size):
                self.update(drawn[start : start + size], policy=count % self.config.policy_frequency == 0)
                count += 1

    def update(self, batch: Transitions, *, policy: bool = True) -> None:
        """One step of the critics and, with ``policy``, of temperature and actor; then the targets follow."""
        cfg = self.config
        alpha = self.temperature()
        if policy:
            actions, log_prob = self.policy.sample(batch.observations, self._noise(len(batch)))
            if cfg.learn_temperature:
                # The gradient of -log(alpha) (log pi + target entropy)
                self.temperature_learner.gradient.copy_(-(log_prob.detach().mean() + self.target_entropy))
                self.temperature_learner.step()
        targets = self.target_values(batch, alpha)
        self.critic_learner.zero_grad()
        values = self.critic(batch.observations, batch.actions)
        with torch.no_grad():
            errors = [value - targets for value in values]
        torch.autograd.backward(values, [error / len(batch) for error in errors])
        self.critic_learner.step()
        if policy:
            self._improve_actor(batch, actions, log_prob, alpha)
        self.target.move(cfg.tau)
        self._records.append((*errors, values[0].detach()))
        if policy:
            self._actor_records.append((log_prob.detach(), alpha))

    @torch.no_grad()
    def target_values(self, batch: Transitions, alpha: Tensor) -> Tensor:
        """Targets for the values of the actions taken, (B,), entropy included."""
        following = batch.next_observations
        actions, log_prob = self.policy.sample(following, self._noise(len(batch)))
        value = self._both(*self.target.network(following, actions))
        return batch.returns + batch.discounts * (value - alpha * log_prob)

    def _improve_actor(self, batch: Transitions, actions: Tensor, log_prob: Tensor, alpha: Tensor) -> None:
        self.actor_learner.zero_grad()
        self.critic.requires_grad_(False)  # only the actions' gradient is wanted
        value = self._both(*self.critic(batch.observations, actions))
        self.critic.requires_grad_(True)
        loss = (alpha * log_prob - value).mean()
        loss.backward()
        self.actor_learner.step()

    def _statistics(self, records: list[tuple[Tensor, ...]]) -> dict[str, float]:
        first, second, values = (torch.cat(parts) for parts in zip(*records, strict=True))
        result = {"critic_loss": float(0.5 * (first.square() + second.square()).mean()), "value": float(values.mean())}
        if self._actor_records:
            log_prob, alpha = (torch.cat(parts) for parts in zip(*self._actor_records, strict=True))
            result |= {"entropy": -float(log_prob.mean()), "temperature": float(alpha.mean())}
        self._actor_records.clear()
        return result

    def _both(self, first: Tensor, second: Tensor) -> Tensor:
        """One value of the two critics'."""
        return torch.minimum(first, second) if self.config.clipped_double else 0.5 * (first + second)

    def _noise(self, rows: int) -> Tensor:
        return torch.randn(rows, self.action_dim, generator=self.generator)
