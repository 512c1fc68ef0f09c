"""Value iteration and policy iteration as agents: they read the environment's model and never step it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, Range, Share
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..trainer import Observation
from ..with_env import WithEnv
from .dynamic_programming import (
    action_values,
    best_within,
    converged,
    discounts,
    error_bound,
    evaluate_policy,
    evaluate_within,
    greedy_policy,
    improve,
    sweep,
)
from .model import find_model
from .spaces import TableSpaces


@dataclass(frozen=True, kw_only=True)
class _PlanningConfig(Checked):
    gamma: Share = 0.99
    """Discount factor, typically 0.9 to 1; 1 is allowed where the undiscounted return is finite."""


@dataclass(frozen=True, kw_only=True)
class ValueIterationConfig(_PlanningConfig):
    """Value iteration (Bellman 1957), all states at once."""

    tolerance: Annotated[float, Range(lambda value: value >= 1e-14, "must be at least 1e-14")] = 1e-12
    """Stop when no value changes by more, relative to 1 or to the largest value."""


@dataclass(frozen=True, kw_only=True)
class PolicyIterationConfig(_PlanningConfig):
    """Policy iteration (Howard 1960) with exact evaluation."""


class _Planner(WithEnv, ABC):
    """``iterate()`` is one sweep over all states. ``steps`` counts sweeps, for no step of an environment is taken.

    Once ``finished``, further sweeps change nothing, and the metrics tell what the policy returns within the
    environment's time limit, without discount, and what the best policy that sees the clock would.
    """

    def __init__(self, env: VectorEnv, config: Any, *, seed: int = 0, total_steps: int | None = None):
        super().__init__(env, None)
        self.config, self.gamma = config, config.gamma
        self.spaces, self.model = TableSpaces(env), find_model(env)
        if (self.model.num_states, self.model.num_actions) != (self.spaces.num_states, self.spaces.num_actions):
            raise UserError(
                f"the model has {self.model.num_states} states and {self.model.num_actions} actions, the environment "
                f"shows {self.spaces.num_states} and {self.spaces.num_actions}: a wrapper changes them"
            )
        self.values = torch.zeros(self.model.num_states, dtype=torch.float64)
        """After the last sweep, (S,)."""
        self.finished = False
        self._policy: Tensor | None = None

    def iterate(self) -> dict[str, float]:
        """One sweep. Returns metrics, with the seconds spent under ``time/``."""
        begin = time.perf_counter()
        residual = self._sweep()
        self.steps += 1
        self._policy = None
        metrics = {"learn/residual": residual, "learn/value_start": float(self.model.start @ self.values)}
        if (bound := error_bound(residual, self.gamma)) is not None:
            metrics["learn/error_bound"] = bound
        if self.finished and self.model.time_limit:
            metrics |= self._in_time(self.model.time_limit)
        total = time.perf_counter() - begin
        return metrics | {"time/environment": 0.0, "time/policy": 0.0, "time/learning": total, "time/total": total}

    @abstractmethod
    def _sweep(self) -> float:
        """Set ``values`` and ``finished``; returns the largest change that a Bellman update makes."""

    def policy(self) -> Tensor:
        """Greedy actions (S,) for the values so far."""
        if self._policy is None:
            # Breaking ties well takes planning of its own, which the values before the last ones must not profit from.
            first_best = action_values(self.model, self.values, self.gamma).argmax(1)
            self._policy = greedy_policy(self.model, self.values, self.gamma) if self.finished else first_best
        return self._policy

    def _in_time(self, limit: int) -> dict[str, float]:
        own, (best, _) = evaluate_within(self.model, self.policy(), limit), best_within(self.model, limit)
        return {
            "learn/return_in_time": float(self.model.start @ own[-1]),
            "learn/best_return_in_time": float(self.model.start @ best[-1]),
        }

    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """Greedy actions."""
        return self.policy()[self.spaces.states(observations)] + self.spaces.first_action, {}

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "finished": self.finished, "values": self.values.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.steps = state["steps"]

    def load_policy(self, state: dict[str, Any]) -> None:
        """Take only the values, and whether they are final."""
        if state["values"].shape != self.values.shape:
            raise UserError(f"values of {len(state['values'])} states, {len(self.values)} are needed")
        self.values, self.finished, self._policy = state["values"].clone(), state["finished"], None


class ValueIterationTrainer(_Planner):
    """One Bellman update of every state at a time."""

    config: ValueIterationConfig

    def _sweep(self) -> float:
        self.values, residual = sweep(self.model, self.values, self.gamma)
        self.finished = converged(self.values, residual, self.config.tolerance)
        return residual


class PolicyIterationTrainer(_Planner):
    """One exact evaluation and one improvement of the policy at a time."""

    def __init__(self, env: VectorEnv, config: PolicyIterationConfig, *, seed: int = 0, total_steps: int | None = None):
        super().__init__(env, config)
        self._next = torch.zeros(self.model.num_states, dtype=torch.int64)  # to be evaluated
        self._stage = 0

    def _sweep(self) -> float:
        stages = discounts(self.gamma)
        discount = stages[self._stage]
        self.values = evaluate_policy(self.model, self._next, discount)
        self._next, changed = improve(self.model, self._next, self.values, discount)
        self.finished = not changed and discount == self.gamma
        if not changed and not self.finished:
            self._stage += 1
        return sweep(self.model, self.values, self.gamma)[1]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"next": self._next.clone(), "stage": self._stage}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._next, self._stage = state["next"].clone(), state["stage"]
