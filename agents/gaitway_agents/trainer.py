"""The interface of every agent to the training loop, and the record of finished episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from gaitway_files.errors import UserError
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

Observation = dict[str, Tensor]


@dataclass(frozen=True)
class Episode:
    """One finished episode: raw undiscounted return, before any clipping or scaling of rewards."""

    steps: int
    """Environment steps of the whole training when it ended."""
    ret: float
    length: int
    cut: bool = False
    """True for an evaluation's episode that had not ended when its steps were up: ``ret`` is what it had until then."""


class Learner(Protocol):
    """Learner: call ``iterate`` until ``steps`` are done."""

    steps: int
    """Environment steps; of language agents, sequences that were sampled or read."""

    def iterate(self) -> dict[str, float]:
        """One unit of work. Flat metrics ``learn/...``, ``rollout/...`` and seconds ``time/...``, ``time/total``."""
        ...

    def pop_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def load_policy(self, state: dict[str, Any]) -> None:
        """Load from a ``state_dict`` only the parts for acting; environments may differ."""
        ...


class Trainer(Learner, Protocol):
    """An agent and its vector environment."""

    env: VectorEnv

    def initial_memory(self, num_envs: int) -> Observation:
        """Memory of the policy at the start of an episode: further entries of the observations, all zero."""
        ...

    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """Deterministic actions as environments take them, and the memory to merge into the next observations."""
        ...


Ended = tuple[int, Tensor, Tensor]
"""Steps of the whole training, returns (K,) and lengths (K,) of episodes that ended in a step, where they were."""


def ended_in(info: dict[str, Any], steps: int) -> list[Ended]:
    """The episodes that ended in a step, from the ``info["episode"]`` of the environment contract."""
    if "episode" not in info:
        return []
    # An environment that knows which ended spares a GPU the question.
    rows = info["ended"] if "ended" in info else info["_episode"].nonzero().flatten()
    return [(steps, info["episode"]["r"][rows], info["episode"]["l"][rows])]


def episodes_of(parts: Sequence[Ended]) -> list[Episode]:
    """Numbers that can be written down, copied from where the environments are in one go."""
    if not parts:
        return []
    steps = [at for at, returns, _ in parts for _ in range(len(returns))]
    returns = torch.cat([part[1] for part in parts]).tolist()
    lengths = torch.cat([part[2] for part in parts]).tolist()
    return [Episode(at, ret, int(length)) for at, ret, length in zip(steps, returns, lengths, strict=True)]


def episodes_from(info: dict[str, Any], steps: int) -> list[Episode]:
    """The episodes that ended in a step."""
    return episodes_of(ended_in(info, steps))


def check_autoreset(env: VectorEnv) -> None:
    """Refuse an environment that does not restart in the step that ends an episode."""
    if (mode := env.metadata.get("autoreset_mode")) != AutoresetMode.SAME_STEP:
        raise UserError(f"autoreset mode {mode}: SAME_STEP is needed")


Watch = Callable[[Tensor, Tensor, Tensor], None]
"""Callback for each step of an evaluation: mask of the environments (N,) that play an episode that counts,
``terminated`` and ``truncated`` (N,)."""


LONGEST = 10_000
"""Steps after which an evaluation cuts an episode, of environments without a time limit."""


@torch.no_grad()
def evaluate(
    trainer: Trainer, env: VectorEnv, episodes: int, seed: int, watch: Watch | None = None, longest: int = LONGEST
) -> list[Episode]:
    """Play ``episodes`` deterministic episodes in ``env``; every environment plays an equal share of them.

    Shares are fixed beforehand, because taking the first to finish would favour short episodes. An episode that has
    not ended after ``longest`` steps is cut, and its environment plays no further one: it may never end.
    """
    shares = [episodes // env.num_envs + (row < episodes % env.num_envs) for row in range(env.num_envs)]
    finished: list[list[Episode]] = [[] for _ in shares]
    observation, _ = env.reset(seed=seed)
    memory = trainer.initial_memory(env.num_envs)
    steps = 0
    counted, age = torch.tensor(shares) > 0, torch.zeros(len(shares), dtype=torch.int64)
    paid: Tensor = torch.zeros(())
    while counted.any():
        action, memory = trainer.predict(observation | memory)
        observation, reward, terminated, truncated, info = env.step(action)
        steps += env.num_envs
        if watch is not None:
            watch(counted, terminated, truncated)
        valid = info.get("valid", torch.ones_like(terminated))
        age, paid = age + valid.cpu(), reward * valid + paid.to(reward.device)
        if "episode" in info:
            for row in info["_episode"].nonzero().flatten().tolist():
                finished[row].append(Episode(steps, float(info["episode"]["r"][row]), int(info["episode"]["l"][row])))
                counted[row] = len(finished[row]) < shares[row]
                age[row] = paid[row] = 0
        for row in (counted & (age >= longest)).nonzero().flatten().tolist():
            finished[row].append(Episode(steps, float(paid[row]), int(age[row]), cut=True))
            counted[row], shares[row] = False, len(finished[row])
        if memory:
            goes_on = valid & ~(terminated | truncated)
            memory = {name: value * goes_on[:, None] for name, value in memory.items()}
    rounds = range(max(shares))
    wanted = [played[:share] for played, share in zip(finished, shares, strict=True)]
    return [played[i] for i in rounds for played in wanted if i < len(played)]
