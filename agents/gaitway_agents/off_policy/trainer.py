"""The outer loop of agents with a replay buffer: gather some steps, update some times."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..core.finite import NonFiniteError, check_given
from ..models.encoders import Encoder
from ..symmetry import Symmetry
from ..trainer import Observation, episodes_from
from ..with_env import WithEnv
from .config import OffPolicyConfig
from .learner import Learner, Target
from .replay import ReplayBuffer, Transitions

TOGETHER = 16
"""Batches drawn at once where nothing that happens between their updates changes the draw."""


class OffPolicyTrainer(WithEnv, ABC):
    """``iterate()`` gathers ``iteration_steps`` environment steps and makes the updates that are due on the way.

    The number of updates follows from the number of environment steps alone, so it is the same whatever the number of
    environments; with one of them the order of steps and updates is Stable-Baselines3's. Actions are kept in the
    buffer as the agent chose them and turned into the environment's by ``_to_env``.
    """

    def __init__(
        self,
        env: VectorEnv,
        config: OffPolicyConfig,
        *,
        seed: int,
        total_steps: int | None = None,
        symmetry: Symmetry | None = None,
    ):
        """With a ``symmetry`` the whole learner lives in the canonical domain; what enters an environment is mirrored
        back."""
        super().__init__(env, total_steps)
        self.observations: Observation = {}
        self.symmetry = symmetry
        space = env.single_observation_space
        if not isinstance(space, spaces.Dict):
            raise UserError(f"observation space {space}: Dict is needed")
        if config.learning_rate_final is not None and not total_steps:
            raise UserError("learning_rate_final needs total_steps: how long the training over which to anneal is")
        self.config, self.observation_space = config, space
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._build(space, env.single_action_space)
        encoders = [module for x in self.learners.values() for module in x.network.modules()]
        self._normalizing = [m for m in encoders if isinstance(m, Encoder) and any(True for _ in m.buffers())]
        self.replay = self._make_replay(seed)
        self.updates = 0
        self._learn_after = config.learning_starts
        self._credit = 0
        self._rewards: list[Tensor] = []
        self._log: dict[str, list[float]] = {}
        self._records: list[tuple[Tensor, ...]] = []

    # ---- what each agent does its own way ----------------------------------------------------------------------------

    learners: dict[str, Learner]
    targets: dict[str, Target]

    @abstractmethod
    def _build(self, space: spaces.Dict, action_space: spaces.Space[Any]) -> None:
        """Networks and optimisers; refuses spaces that the agent cannot handle."""

    @abstractmethod
    def _explore(self, observations: Observation) -> Tensor:
        """Actions to gather with, (N, ...)."""

    @abstractmethod
    def _to_env(self, actions: Tensor) -> Tensor:
        """Actions as environments take them."""

    @abstractmethod
    def _learn(self, updates: int, steps: int) -> None:
        """Make ``updates`` after ``steps`` more steps."""

    @abstractmethod
    def _statistics(self, records: list[tuple[Tensor, ...]]) -> dict[str, float]:
        """Statistics of the updates of an iteration, from the rows that they appended to ``_records``."""

    @abstractmethod
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """Deterministic actions as environments take them, and no memory."""

    def _make_replay(self, seed: int) -> ReplayBuffer:
        cfg = self.config
        return ReplayBuffer(cfg.buffer_size, self.num_envs, gamma=cfg.gamma, n_step=cfg.n_step, seed=seed)

    # ---- one iteration -----------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """Gather and learn for a while. Returns metrics, with the seconds spent under ``time/``."""
        cfg, start = self.config, time.perf_counter()
        self.timing = {"environment": 0.0, "policy": 0.0, "learning": 0.0}
        if not self.observations:
            self.observations = self.env.reset()[0]
        until = self.steps + cfg.iteration_steps
        if self.total_steps and self.steps < self.total_steps:
            until = min(until, self.total_steps)
        updates = self.updates
        while self.steps < until:
            self._round()
        metrics = self._summary()
        metrics |= {"learn/updates": self.updates - updates, "rollout/replay": len(self.replay)}
        metrics |= {f"time/{name}": value for name, value in self.timing.items()}
        return metrics | {"time/total": time.perf_counter() - start}

    def _round(self) -> None:
        """``train_frequency`` steps and the updates that are due for them."""
        cfg = self.config
        steps = max(1, cfg.train_frequency // self.num_envs)
        self._gather(steps)
        start = time.perf_counter()
        gathered, due = steps * self.num_envs, 0
        if self.steps > self._learn_after:
            if cfg.gradient_steps == -1:
                due = gathered
            else:
                due, self._credit = divmod(self._credit + gathered * cfg.gradient_steps, cfg.train_frequency)
        self._anneal()
        self._learn(due, gathered)
        self.updates += due
        self.timing["learning"] += time.perf_counter() - start

    @torch.no_grad()
    def _gather(self, steps: int) -> None:
        """Some steps of every environment, into the replay buffer."""
        environment, begin = 0.0, time.perf_counter()
        for _ in range(steps):
            observations, element = self._canonical(self.observations)
            actions = self._explore(observations)
            env_actions = self._to_env(self._mirrored(actions, element))
            start = time.perf_counter()
            self.observations, rewards, terminated, truncated, info = self.env.step(env_actions)
            following = _following(self.observations, terminated | truncated, info)
            environment += time.perf_counter() - start
            self.steps += self.num_envs
            following, _ = self._canonical(following)
            self.replay.add(observations, actions, rewards, terminated, truncated, following, info.get("valid"))
            self._rewards.append(rewards)
            for encoder in self._normalizing:
                encoder.update(observations)
            self._episodes += episodes_from(info, self.steps)
            for name, value in info.get("log", {}).items():
                self._log.setdefault(name, []).append(value)
        check_given(torch.stack(self._rewards[-steps:]), {})
        self.timing["environment"] += environment
        self.timing["policy"] += time.perf_counter() - begin - environment

    def _canonical(self, observations: Observation) -> tuple[Observation, Tensor | None]:
        """Observations as the agent sees them, and the mirror element (N,) that took them there."""
        if self.symmetry is None:
            return observations, None
        return self.symmetry.canonicalize(observations, self.steps // self.num_envs)

    def _mirrored(self, actions: Tensor, element: Tensor | None) -> Tensor:
        """Actions (N, A) of the agent, for the environments as they are."""
        if self.symmetry is None or element is None:
            return actions
        return self.symmetry.apply_to("action", actions, element)

    def _anneal(self) -> None:
        cfg = self.config
        if cfg.learning_rate_final is not None and self.total_steps:
            done = min(1.0, self.steps / self.total_steps)
            for learner in self.learners.values():
                learner.set_learning_rate(cfg.learning_rate + (cfg.learning_rate_final - cfg.learning_rate) * done)

    def _batches(self, updates: int, together: int = TOGETHER) -> Iterator[Transitions]:
        """Draw the batches of ``updates`` updates, up to ``together`` of them at once."""
        while updates > 0:
            count = min(updates, together)
            yield self.replay.sample(count * self.config.batch_size)
            updates -= count

    def _summary(self) -> dict[str, float]:
        """Metrics of an iteration; raises :class:`NonFiniteError` if it was the one in which training diverged."""
        metrics = {"rollout/reward": float(torch.cat(self._rewards).mean())}
        metrics |= {f"rollout/{name}": sum(values) / len(values) for name, values in self._log.items()}
        if self._records:
            metrics |= {f"learn/{name}": value for name, value in self._statistics(self._records).items()}
            bad = next((name for name, value in metrics.items() if not math.isfinite(value)), None)
            if bad:
                raise NonFiniteError(f"training diverged after {self.steps} steps: {bad} is {metrics[bad]}")
        self._rewards.clear()
        self._log.clear()
        self._records.clear()
        return metrics

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on; the replay buffer if ``checkpoint_replay``."""
        return {
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "targets": {name: target.network.state_dict() for name, target in self.targets.items()},
            "replay": self.replay.state_dict() if self.config.checkpoint_replay else None,
            "generator": self.generator.get_state(),
            "steps": self.steps,
            "updates": self.updates,
            "learn_after": self._learn_after,
            "credit": self._credit,
            "world": {"observations": self.observations, "envs": self.env_states()},
        }

    def load_policy(self, state: dict[str, Any]) -> None:
        """Load networks and optimisers alone, for playing."""
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        for name, target in self.targets.items():
            target.network.load_state_dict(state["targets"][name])
        self.generator.set_state(state["generator"])
        self.steps, self.updates, self._credit = state["steps"], state["updates"], state["credit"]
        self.observations = dict(state["world"]["observations"])
        self.load_env_states(state["world"]["envs"])
        if state["replay"] is not None:
            self._learn_after = state["learn_after"]
            self.replay.load_state_dict(state["replay"])
        else:
            self._learn_after = self.steps + self.config.learning_starts


def _following(observations: Observation, ended: Tensor, info: dict[str, Any]) -> Observation:
    """True next observations (N, ...): at the end of an episode the last one, not the first of the next episode."""
    if not bool(ended.any()):
        return observations
    if "final_obs" not in info:
        row = int(ended.nonzero()[0])
        raise UserError(f'environment {row}: an episode ended, but info["final_obs"] does not tell what was seen last')
    final = info["final_obs"]
    return {
        name: torch.where(ended.view(-1, *[1] * (value.dim() - 1)), final[name], value)
        for name, value in observations.items()
    }
