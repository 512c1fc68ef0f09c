"""Q-learning, SARSA and their variants on vector environments."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveInt, PositiveShare, Share
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..trainer import Observation, episodes_from
from ..with_env import WithEnv
from .spaces import TableSpaces
from .td_control import epsilon_greedy, greedy, move_towards, one_hot, sample, td_targets


@dataclass(frozen=True, kw_only=True)
class _TDConfig(Checked):
    gamma: Share = 0.99
    """Discount factor; typically 0.9 to 1."""
    learning_rate: PositiveShare = 0.1
    """Learning rate; typically 0.01 to 0.5."""
    learning_rate_final: Share | None = None
    """Anneal the learning rate linearly to this over the whole training; None keeps it."""
    exploration_initial: Share = 1.0
    """Share of random actions at the start."""
    exploration_final: Share = 0.05
    """Share of random actions at the end; typically 0.01 to 0.1."""
    exploration_fraction: Share = 0.5
    """Part of the training over which that share falls linearly to ``exploration_final``."""
    initial_value: float = 0.0
    """Initial value of every state and action; values above any possible return make the agent try everything."""
    double: bool = False
    """Two tables, each judging the other's choice (van Hasselt 2010): no bias towards lucky samples."""
    num_steps: PositiveInt = 100
    """Steps of every environment per iteration."""


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(_TDConfig):
    """Q-learning (Watkins 1989), which learns the best policy whatever it does meanwhile."""


@dataclass(frozen=True, kw_only=True)
class SarsaConfig(_TDConfig):
    """SARSA (Rummery & Niranjan 1994), which learns what its own exploration costs."""

    expected: bool = False
    """Average over the next action instead of drawing it (van Seijen et al. 2009): less noise."""


EXPECTED_SARSA = SarsaConfig(expected=True)


class TDControlTrainer(WithEnv):
    """``iterate()`` is ``num_steps`` steps of every environment, with an update of the table after each."""

    def __init__(
        self, env: VectorEnv, config: QLearningConfig | SarsaConfig, *, seed: int, total_steps: int | None = None
    ):
        super().__init__(env, total_steps)
        self.config = config
        if not total_steps:
            if config.exploration_final != config.exploration_initial:
                raise UserError("exploration_final needs total_steps: how long the training over which to anneal is")
            if config.learning_rate_final is not None:
                raise UserError("learning_rate_final needs total_steps: how long the training over which to anneal is")
        self.spaces = TableSpaces(env)
        self.generator = torch.Generator().manual_seed(seed)
        shape = (1 + config.double, self.spaces.num_states, self.spaces.num_actions)
        self.tables = torch.full(shape, config.initial_value, dtype=torch.float64)
        """Action values, (1 or 2 tables, S, A)."""
        self._draws_next = isinstance(config, SarsaConfig) and not config.expected
        self._starts = torch.zeros(self.spaces.num_states, dtype=torch.int64)  # how often episodes began there
        self._now: Observation | None = None  # where the environments are, and what they will do
        self._choosing = 0.0

    @property
    def epsilon(self) -> float:
        cfg = self.config
        return _anneal(cfg.exploration_initial, cfg.exploration_final, self._progress(cfg.exploration_fraction))

    @property
    def learning_rate(self) -> float:
        final = self.config.learning_rate_final
        rate = self.config.learning_rate
        return rate if final is None else _anneal(rate, final, self._progress(1.0))

    def _progress(self, fraction: float) -> float:
        """Share of the first ``fraction`` of the training that is over."""
        end = fraction * (self.total_steps or 0)
        return min(1.0, self.steps / end) if end > 0 else 1.0

    # ---- one iteration ---------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """``num_steps`` steps. Returns metrics, with the seconds spent under ``time/``."""
        begin = time.perf_counter()
        self._choosing = stepping = 0.0
        if self._now is None:
            self._now = self._begin()
        errors, rewards = [], []
        for _ in range(self.config.num_steps):
            before = time.perf_counter()
            outcome = self.env.step(self._now["action"] + self.spaces.first_action)
            stepping += time.perf_counter() - before
            self._now, error, reward = self._learn(self._now, *outcome)
            errors.append(error)
            rewards.append(reward)
        total = time.perf_counter() - begin
        return {
            "learn/value_start": self.value_start(),
            "learn/td_error": _mean(torch.cat(errors).abs()),
            "learn/epsilon": self.epsilon,
            "learn/learning_rate": self.learning_rate,
            "rollout/reward": _mean(torch.cat(rewards)),
            "time/environment": stepping,
            "time/policy": self._choosing,
            "time/learning": total - stepping - self._choosing,
            "time/total": total,
        }

    def value_start(self) -> float:
        """Mean value of the best action where episodes began so far."""
        share = self._starts.double() / self._starts.sum().clamp(min=1)
        return float(share @ self.tables.mean(0).amax(1))

    def _begin(self) -> Observation:
        place = self._place(self.env.reset()[0])
        return place | {"action": self._choose(place), "fresh": torch.ones(self.num_envs, dtype=torch.bool)}

    def _place(self, observation: Observation) -> Observation:
        """States (N,), and which actions (N, A) are allowed there if the environment says so."""
        place = {"state": self.spaces.states(observation)}
        if "action_mask" in observation:
            mask = observation["action_mask"].bool()
            place["mask"] = mask | ~mask.any(1, keepdim=True)  # where all is over, nothing may be allowed
        return place

    def _policy(self, place: Observation) -> Tensor:
        """Probabilities (N, A) of the policy that acts."""
        return epsilon_greedy(self.tables[:, place["state"]].mean(0), self.epsilon, place.get("mask"))

    def _choose(self, place: Observation) -> Tensor:
        before = time.perf_counter()
        action = sample(self._policy(place), self.generator)
        self._choosing += time.perf_counter() - before
        return action

    def _learn(
        self,
        last: Observation,
        observation: Observation,
        reward: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        info: dict[str, Any],
    ) -> tuple[Observation, Tensor, Tensor]:
        """Update the table by one step. Returns where the environments are now, the errors and the rewards."""
        self.steps += len(reward)
        self._episodes += episodes_from(info, self.steps)
        done = terminated | truncated
        valid = info.get("valid", torch.ones_like(done))
        here = following = self._place(observation)
        if bool(done.any()):
            final = self._place(info["final_obs"])
            following = {k: torch.where(done if v.dim() == 1 else done[:, None], final[k], v) for k, v in here.items()}
        taken = self._choose(following) if self._draws_next else None
        errors = self._update(last, reward, terminated, following, taken, valid)
        self._starts += last["state"][last["fresh"] & valid].bincount(minlength=len(self._starts))
        action = self._choose(here)
        # SARSA goes on with the very action it has learnt from; only where an episode begins there is none yet.
        action = action if taken is None else torch.where(done, action, taken)
        return here | {"action": action, "fresh": done | (last["fresh"] & ~valid)}, errors, reward[valid]

    def _update(
        self,
        last: Observation,
        reward: Tensor,
        terminated: Tensor,
        following: Observation,
        taken: Tensor | None,
        valid: Tensor,
    ) -> Tensor:
        """One update for each valid transition; returns their errors."""
        cfg, (count, num_states, num_actions) = self.config, self.tables.shape
        own = torch.randint(count, reward.shape, generator=self.generator)
        own_q, other_q = (self.tables[table, following["state"]] for table in (own, count - 1 - own))
        if taken is not None:
            next_policy = one_hot(taken, num_actions)
        elif isinstance(cfg, SarsaConfig):
            next_policy = self._policy(following)
        else:
            next_policy = one_hot(greedy(own_q, following.get("mask")), num_actions)
        targets = td_targets(reward, terminated, other_q, next_policy, cfg.gamma)
        entries = (own * num_states + last["state"]) * num_actions + last["action"]
        return move_towards(self.tables.view(-1), entries[valid], targets[valid], self.learning_rate)

    # ---- policies and checkpoints ----------------------------------------------------------------------------------

    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The first of the best actions."""
        place = self._place(observations)
        action = greedy(self.tables[:, place["state"]].mean(0), place.get("mask"))
        return action + self.spaces.first_action, {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "tables": self.tables.clone(),
            "generator": self.generator.get_state(),
            "steps": self.steps,
            "starts": self._starts.clone(),
            "lanes": None if self._now is None else [self._now],
            "envs": self.env_states(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.generator.set_state(state["generator"])
        self.steps, self._now = state["steps"], None if state["lanes"] is None else state["lanes"][0]
        self._starts = state["starts"].clone()
        self.load_env_states(state["envs"])

    def load_policy(self, state: dict[str, Any]) -> None:
        """Take only the tables."""
        if state["tables"].shape != self.tables.shape:
            raise UserError(f"a table of {tuple(state['tables'].shape)}, {tuple(self.tables.shape)} is needed")
        self.tables = state["tables"].clone()


def _anneal(start: float, final: float, progress: float) -> float:
    return start + (final - start) * progress


def _mean(values: Tensor) -> float:
    """0 of nothing: in a step in which all environments restart there are no transitions."""
    return float(values.sum()) / max(1, len(values))
