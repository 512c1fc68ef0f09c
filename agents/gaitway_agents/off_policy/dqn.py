"""Deep Q-networks (Mnih et al. 2015), with the improvements that became standard as switches."""

from __future__ import annotations

from typing import Any

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from torch import Tensor, nn

from ..models.heads import ACTION_MASK, FORBIDDEN
from ..trainer import Observation
from .config import DQNConfig
from .learner import Learner, Target
from .networks import QNetwork
from .prioritized import PrioritizedReplayBuffer
from .replay import ReplayBuffer, Transitions
from .trainer import TOGETHER, OffPolicyTrainer


class DQNTrainer(OffPolicyTrainer):
    """Epsilon-greedy on action values, which follow one-step or n-step targets from a slower copy of themselves."""

    config: DQNConfig

    def _build(self, space: spaces.Dict, action_space: spaces.Space[Any]) -> None:
        if not self.total_steps:
            raise UserError("DQN needs total_steps: exploration_fraction is a part of the training")
        if not isinstance(action_space, spaces.Discrete):
            raise UserError(
                f"action space {action_space}: DQN chooses among Discrete actions; for Box use ppo or sac, for "
                "MultiDiscrete use ppo"
            )
        self.num_actions, self.first_action = int(action_space.n), int(action_space.start)
        cfg = self.config
        self.network = QNetwork(space, self.num_actions, cfg.model, dueling=cfg.dueling)
        self.learner = Learner(self.network, cfg.learning_rate, max_grad_norm=cfg.max_grad_norm)
        self.target = Target(self.learner)
        self.learners, self.targets = {"q": self.learner}, {"q": self.target}

    def _make_replay(self, seed: int) -> ReplayBuffer:
        cfg = self.config
        if not cfg.prioritized:
            return super()._make_replay(seed)
        return PrioritizedReplayBuffer(
            cfg.buffer_size,
            self.num_envs,
            gamma=cfg.gamma,
            n_step=cfg.n_step,
            seed=seed,
            alpha=cfg.priority_alpha,
            beta=cfg.priority_beta,
        )

    # ---- acting ------------------------------------------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """Part of the training that is done, 0 to 1."""
        assert self.total_steps
        return min(1.0, self.steps / self.total_steps)

    @property
    def epsilon(self) -> float:
        """Chance of a random action."""
        cfg = self.config
        done = min(1.0, self.progress / cfg.exploration_fraction) if cfg.exploration_fraction else 1.0
        return cfg.exploration_initial + (cfg.exploration_final - cfg.exploration_initial) * done

    def _explore(self, observations: Observation) -> Tensor:
        if self.steps < self.config.learning_starts:
            return self._random(observations)
        greedy = torch.rand(self.num_envs, generator=self.generator) >= self.epsilon
        count = int(greedy.sum())
        if count == 0:
            return self._random(observations)
        best = self._best(observations)
        return best if count == self.num_envs else torch.where(greedy, best, self._random(observations))

    def _random(self, observations: Observation) -> Tensor:
        mask = observations.get(ACTION_MASK)
        if mask is None:
            return torch.randint(self.num_actions, (self.num_envs,), generator=self.generator)
        chances = torch.rand(mask.shape, generator=self.generator)
        return chances.masked_fill(~mask.bool(), -1.0).argmax(1)

    def _best(self, observations: Observation) -> Tensor:
        return _possible(self.network(observations), observations).argmax(1)

    def _to_env(self, actions: Tensor) -> Tensor:
        return actions + self.first_action if self.first_action else actions

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The best actions (N,) as environments take them, and no memory."""
        return self._to_env(self._best(observations)), {}

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, updates: int, steps: int) -> None:
        cfg = self.config
        # The target network changes with the steps of the environments, not with updates.
        if self.steps // cfg.target_update_interval > (self.steps - steps) // cfg.target_update_interval:
            self.target.move(cfg.tau)
        if isinstance(self.replay, PrioritizedReplayBuffer):
            self.replay.beta = cfg.priority_beta + (1.0 - cfg.priority_beta) * self.progress
        for drawn in self._batches(updates, 1 if cfg.double or cfg.prioritized else TOGETHER):
            values = self.target_values(drawn)
            for start in range(0, len(drawn), cfg.batch_size):
                rows = slice(start, start + cfg.batch_size)
                self.update(drawn[rows], values[rows])

    @torch.no_grad()
    def target_values(self, batch: Transitions) -> Tensor:
        """Targets for the values of the actions taken, (B,)."""
        following = batch.next_observations
        values = _possible(self.target.network(following), following)
        if self.config.double:
            best = self._best(following)
            value = values.gather(1, best[:, None])[:, 0]
        else:
            value = values.amax(1)
        return batch.returns + batch.discounts * value

    @torch.no_grad()
    def update(self, batch: Transitions, targets: Tensor) -> None:
        """One step down the gradient of the mean Huber loss, which is the error clipped to [-1, 1]."""
        with torch.enable_grad():
            values = self.network(batch.observations)
        actions = batch.actions[:, None]
        taken = values.detach().gather(1, actions)
        errors = taken - targets[:, None]
        slope = errors.clamp(-1.0, 1.0)
        if batch.weights is not None:
            slope *= batch.weights[:, None]
        gradient = torch.zeros_like(values).scatter_(1, actions, slope / len(batch))
        self.learner.zero_grad()
        values.backward(gradient)
        self.learner.step()
        if isinstance(self.replay, PrioritizedReplayBuffer):
            self.replay.update(batch.rows, errors[:, 0])
        self._records.append((taken, errors) if batch.weights is None else (taken, errors, batch.weights[:, None]))

    def _statistics(self, records: list[tuple[Tensor, ...]]) -> dict[str, float]:
        taken, errors, *weights = (torch.cat(parts) for parts in zip(*records, strict=True))
        loss = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
        loss = loss * weights[0] if weights else loss
        return {"loss": float(loss.mean()), "value": float(taken.mean()), "epsilon": self.epsilon}


def _possible(values: Tensor, observations: Observation) -> Tensor:
    """Values (B, A) with those of impossible actions far below all others, but finite: nothing may be possible at the
    end of an episode, and its discount of 0 must make that 0."""
    mask = observations.get(ACTION_MASK)
    return values if mask is None else values.masked_fill(~mask.bool(), FORBIDDEN)
