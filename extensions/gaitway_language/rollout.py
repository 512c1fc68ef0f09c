"""What an engine returns, and what agents learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

PADDING = 0
"""The token beside a sequence: any will do, also one with a meaning, since masks come from lengths."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn."""

    max_tokens: int
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    stop_tokens: tuple[int, ...] = ()
    """Tokens that end an answer; they belong to it."""
    seed: int = 0
    """Two calls with equal seeds, prompts and weights draw the same tokens."""
    limits: tuple[int, ...] = ()
    """Most tokens of each prompt's answer, where they differ: ``max_tokens`` is the largest of them."""
    continued: bool = False
    """The next call goes on from these answers, with the same weights: what is computed of them is kept until then."""

    def limits_of(self, prompts: Sequence[object]) -> tuple[int, ...]:
        """Most tokens of each prompt's answer; ValueError where ``limits`` are not those of these prompts."""
        limits = self.limits or (self.max_tokens,) * len(prompts)
        if len(limits) != len(prompts) or any(not 1 <= limit <= self.max_tokens for limit in limits):
            raise ValueError(
                f"limits {limits} of {len(prompts)} prompts: give one for each, from 1 to max_tokens={self.max_tokens}"
            )
        return limits


@dataclass(frozen=True)
class Completion:
    """The continuation of one prompt."""

    tokens: list[int]
    log_probs: list[float]
    """Log-probability of each token at the temperature it was drawn at, before top-p and top-k."""
    finished: bool
    """Ended by a stop token rather than at ``max_tokens``."""


class Engine(Protocol):
    """Continues prompts with a copy of the policy's weights, or the weights themselves."""

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """One completion for each prompt; repeat a prompt for several."""
        ...

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float] | None:
        """Take new weights, named as in the model's ``state_dict``, and forget whatever was cached of old ones.

        May return numbers for the log.
        """
        ...

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability at temperature 1 of every token but the first after those before it, for checks."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Sampled sequences and what they earned: tensors as ``gaitway_agents.language.world.Rollout`` describes them."""

    tokens: Tensor
    lengths: Tensor
    mask: Tensor
    log_probs: Tensor
    groups: Tensor
    finished: Tensor
    rewards: Tensor
    parts: Mapping[str, Tensor]
    version: int
    prompts: Sequence[str]
    """Text of each sequence's prompt, for people."""
    completions: Sequence[str]
    """Text of each answer, for people."""
    rows: Sequence[Mapping[str, object]]
    """The row that each sequence answers."""
    timing: Mapping[str, float] = field(default_factory=dict)
    """Seconds by what they went to: "generation" and "reward"."""
