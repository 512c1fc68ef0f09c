"""Soft actor-critic (Haarnoja et al. 2018b): twin critics, a squashed Gaussian policy and a learnt temperature."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from ..core.policy import computing
from ..restored import box
from ..symmetry import CanonicalActor, Symmetry
from ..trainer import Observation
from .config import SACConfig
from .learner import Learner, Target
from .networks import SquashedGaussian, SquashedMean, TwinCritic
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
    """Actions lie in [-1, 1] everywhere inside and are stretched to the bounds of the action space outside.

    In an action space without bounds they are stretched to +-``action_limit``, or to +-``reach`` (A,) where it is
    narrower: the distances from action 0 to the farther ends of the joints' ranges.
    """

    config: SACConfig

    def __init__(
        self,
        env: VectorEnv,
        config: SACConfig,
        *,
        seed: int,
        total_steps: int | None = None,
        symmetry: Symmetry | None = None,
        reach: Tensor | None = None,
    ):
        if (config.symmetry != "none") != (symmetry is not None):
            raise UserError(f"symmetry is {config.symmetry!r} but {'no' if symmetry is None else 'a'} group was given")
        self._reach = reach
        super().__init__(env, config, seed=seed, total_steps=total_steps, symmetry=symmetry)

    def _build(self, space: spaces.Dict, action_space: spaces.Space[Any]) -> None:
        if not isinstance(action_space, spaces.Box):
            raise UserError(f"action space {action_space}: SAC acts in Box; for Discrete use ppo or dqn")
        self.centre, self.half_width = self._bounds(action_space)
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
        self._average = None if cfg.average_steps is None else Target(self.actor_learner)
        if self._average is not None:
            self.targets["actor"] = self._average
        self._actor_records: list[tuple[Tensor, Tensor]] = []

    def _bounds(self, space: spaces.Box) -> tuple[Tensor, Tensor]:
        """Middle and half the width of the range of each action."""
        dtype, limit = torch.get_default_dtype(), self.config.action_limit
        if np.isfinite(space.low).all() and np.isfinite(space.high).all():
            low, high = space.low, space.high
            return torch.as_tensor((low + high) / 2.0, dtype=dtype), torch.as_tensor((high - low) / 2.0, dtype=dtype)
        if limit is None:
            raise UserError(
                f"action space {space}: SAC squashes actions into finite bounds; set agent.action_limit, give the "
                "action space some (gymnasium.wrappers.RescaleAction does) or use ppo"
            )
        half = torch.full(space.shape, limit, dtype=dtype)
        if self._reach is not None:
            half = torch.minimum(half, self._reach.to(dtype))
        if self.symmetry is not None:  # an action and its mirror image have the same bounds
            half = half[self.symmetry.get_buffer("action_perm")].amax(0)
        return torch.zeros_like(half), half

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

    @property
    def mature_policy(self) -> SquashedGaussian:
        """Policy that is evaluated and exported: the newest, or with ``average_steps`` the mean of the last ones."""
        found = self.policy if self._average is None else self._average.network
        assert isinstance(found, SquashedGaussian)
        return found

    def actor(self) -> nn.Module:
        """The deterministic policy, observation (N, D) to action (N, A), as it acts on the environment."""
        return canonical(SquashedMean(self.mature_policy, self.centre, self.half_width), self.symmetry)

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The squashed means (N, *shape) as environments take them, and no memory."""
        if self.symmetry is not None:
            return self.actor()(observations["policy"]), {}
        return self._to_env(self.mature_policy(observations)[0].tanh()), {}

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"bounds": (self.centre, self.half_width)}

    def load_policy(self, state: dict[str, Any]) -> None:
        super().load_policy(state)
        if self._average is not None:
            self._average.network.load_state_dict(state["targets"]["actor"])

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, updates: int, steps: int) -> None:
        size = self.config.batch_size
        count = self.updates
        for drawn in self._batches(updates):
            for start in range(0, len(drawn), size):
                self.update(drawn[start : start + size], policy=count % self.config.policy_frequency == 0)
                count += 1
        if self._average is not None and self.config.average_steps is not None:
            self._average.move(1.0 - math.exp(-steps / self.config.average_steps) if self.updates else 1.0)

    def update(self, batch: Transitions, *, policy: bool = True) -> None:
        """One step of the critics and, with ``policy``, of temperature and actor; then the targets follow."""
        with computing(torch.device("cpu"), self.config.precision):
            self._update(batch, policy=policy)

    def _update(self, batch: Transitions, *, policy: bool) -> None:
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


def canonical(actor: nn.Module, symmetry: Symmetry | None) -> nn.Module:
    """``actor`` for robots as they are, of one that acts in the canonical domain of a ``symmetry``."""
    return (actor if symmetry is None else CanonicalActor(actor, symmetry)).eval()


def restored(
    state: dict[str, Any],
    config: SACConfig,
    *,
    groups: Collection[str],
    num_actions: int,
    symmetry: Symmetry | None = None,
) -> tuple[SquashedGaussian, nn.Module]:
    """Policy and actor of a trainer's ``state``, without environments; observations and actions are vectors."""
    averaged = config.average_steps is not None
    weights = state["targets"]["actor"] if averaged else state["learners"]["actor"]["network"]
    width = state["world"]["observations"]["policy"].shape[-1]
    space = spaces.Dict({"policy": box(width)})
    policy = SquashedGaussian(space, num_actions, config.actor, config.log_std_range, config.smooth_log_std)
    policy.load_state_dict(weights)
    return policy, canonical(SquashedMean(policy, *state["bounds"]), symmetry)
