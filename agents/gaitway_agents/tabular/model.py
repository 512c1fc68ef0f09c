"""The exact model of a finite environment, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gaitway_files.errors import UserError
from gymnasium.vector import (
    SyncVectorEnv,
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorRewardWrapper,
)
from torch import Tensor

MAX_ENTRIES = 2**28
"""Entries of the transition array, 2 GiB."""
LEARNERS = "q-learning and sarsa learn it from samples"


@dataclass(frozen=True, kw_only=True)
class TabularModel:
    """A finite Markov decision process with S states and A actions, float64.

    ``transitions[s, a, t]`` is the probability that the episode goes on in state t; what is missing to 1 is the
    probability that it ends, ``terminal[s, a]``. ``rewards[s, a]`` is the expected reward and ``start[s]`` the
    probability to begin in s. ``time_limit`` [steps] truncates episodes and is no part of the decision process.
    """

    transitions: Tensor
    rewards: Tensor
    terminal: Tensor
    start: Tensor
    time_limit: int | None = None

    def __post_init__(self) -> None:
        total = self.transitions.sum(2) + self.terminal
        bad = ~((total - 1.0).abs() < 1e-9) | (self.transitions < 0).any(2) | (self.terminal < 0)
        if bool(bad.any()):
            state, action = bad.nonzero()[0].tolist()
            raise UserError(
                f"the outcomes of action {action} in state {state} have probability {float(total[state, action]):g} in "
                "all: probabilities must not be negative and add up to 1"
            )
        if not torch.isfinite(self.rewards).all():
            raise UserError("a reward of the model is not finite")
        if abs(float(self.start.sum()) - 1) > 1e-9:
            raise UserError(f"the probabilities of the first state add up to {float(self.start.sum())}, not to 1")

    @property
    def num_states(self) -> int:
        return len(self.rewards)

    @property
    def num_actions(self) -> int:
        return self.rewards.shape[1]

    def chain(self, policy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions (S, S), rewards (S,) and ends (S,) under a policy: actions (S,) or probabilities (S, A)."""
        if policy.dim() == 1:
            policy = torch.nn.functional.one_hot(policy, self.num_actions).double()
        transitions = torch.einsum("sa,sat->st", policy, self.transitions)
        return transitions, (policy * self.rewards).sum(1), (policy * self.terminal).sum(1)


def model_from_table(
    table: dict[int, dict[int, Iterable[tuple[float, int, float, bool]]]], start: Any, time_limit: int | None = None
) -> TabularModel:
    """Model from Gymnasium's ``P[state][action] = [(probability, next state, reward, terminated), ...]``."""
    states, actions = len(table), len(table[0])
    if states * states * actions > MAX_ENTRIES:
        raise UserError(f"{states:,} states and {actions} actions: too many for exact planning; {LEARNERS}")
    transitions, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    terminal = np.zeros_like(rewards)
    for state in range(states):
        for action in range(actions):
            for probability, following, reward, terminated in table[state][action]:
                rewards[state, action] += probability * reward
                if terminated:
                    terminal[state, action] += probability
                else:
                    transitions[state, action, int(following)] += probability
    return TabularModel(
        transitions=torch.from_numpy(transitions),
        rewards=torch.from_numpy(rewards),
        terminal=torch.from_numpy(terminal),
        start=torch.tensor(np.asarray(start), dtype=torch.float64),
        time_limit=time_limit,
    )


def model_of(env: gymnasium.Env[Any, Any]) -> TabularModel:
    """The model that Gymnasium's toy-text environments carry: ``P`` and ``initial_state_distrib``.

    Raises ValueError where there is none, or where it does not describe what happens.
    """
    bare, wrapper = env.unwrapped, env
    table, start = getattr(bare, "P", None), getattr(bare, "initial_state_distrib", None)
    if table is None or start is None:
        raise UserError(f"{bare} has no model (P and initial_state_distrib) to plan with: {LEARNERS}")
    if getattr(bare, "fickle_passenger", False):
        raise UserError(f"{bare}: its P leaves out that a fickle passenger changes the destination; {LEARNERS}")
    while isinstance(wrapper, gymnasium.Wrapper):
        if isinstance(wrapper, gymnasium.ObservationWrapper | gymnasium.ActionWrapper | gymnasium.RewardWrapper):
            raise UserError(f"{type(wrapper).__name__} changes {bare}, so that its P is no longer true: {LEARNERS}")
        wrapper = wrapper.env
    return model_from_table(table, start, env.spec.max_episode_steps if env.spec else None)


def find_model(env: VectorEnv) -> TabularModel:
    """The model of a vector environment that runs Gymnasium environments in this process (``SyncVectorEnv``)."""
    inner: Any = env
    while not isinstance(inner, SyncVectorEnv):
        if isinstance(inner, VectorObservationWrapper | VectorActionWrapper | VectorRewardWrapper):
            raise UserError(f"{type(inner).__name__} changes {inner.env}, so that its P is no longer true: {LEARNERS}")
        if not hasattr(inner, "env"):
            raise UserError(
                f"{inner} shows no model to plan with: only Gymnasium's SyncVectorEnv does, of environments with P; "
                f"{LEARNERS}"
            )
        inner = inner.env
    return model_of(inner.envs[0])
