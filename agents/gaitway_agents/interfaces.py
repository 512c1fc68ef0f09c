"""Interfaces between worlds of texts and agents: the one module of agents that extensions import.

Everywhere sequences are tensors (B, L), prompt first, padded on the right. ``mask`` is 1 exactly where the policy chose
the token: not on prompts, padding, nor what a tool wrote. Column t of ``log_probs``, ``advantages`` and ``values``
belongs to token t as chosen after the tokens before it.

The counterpart for everything else is Gymnasium's ``VectorEnv`` in torch, see :mod:`gaitway_agents.vector.adapt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

PADDING = 0
"""The token beside a sequence: any will do, also one with a meaning, since masks come from lengths."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sampling parameters of tokens."""

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
            raise UserError(
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

    def close(self) -> None:
        """Give back processes, connections and memory."""
        ...


@dataclass(frozen=True, kw_only=True)
class TokenRollout:
    """Sampled sequences and their rewards."""

    tokens: Tensor
    """Token numbers, shape (B, L)."""
    lengths: Tensor
    """Tokens of each sequence without its padding, shape (B,)."""
    mask: Tensor
    """1.0 where the policy chose the token, shape (B, L)."""
    log_probs: Tensor
    """Log-probabilities that the engine gave its own choices at the sampling temperature, shape (B, L); 0 elsewhere."""
    groups: Tensor
    """Index, from 0, of the prompt that each sequence answers, shape (B,); a prompt's sequences are adjacent."""
    finished: Tensor
    """Mask of the sequences that ended by themselves rather than at the length limit, shape (B,), bool."""
    rewards: Tensor
    """Weighted sum of the reward's parts, shape (B,)."""
    parts: Mapping[str, Tensor]
    """Each part of the reward before its weight, shape (B,)."""
    version: int
    """Number of ``update_weights`` calls before the sequences were sampled."""
    versions: Tensor | None = None
    """The same number for each token, where answers were drawn in several parts, shape (B, L), int64; on tokens that
    the policy did not choose it has no meaning. None: ``version`` for all."""
    turn_rewards: Tensor | None = None
    """Rewards that single turns earned, at their last token, shape (B, L); they are a part of ``rewards``, whose rest
    belongs to the end."""
    timing: Mapping[str, float] = field(default_factory=dict)
    """Seconds by part: "generation" and "reward"."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """Further numbers for the log, by name."""
    prompts: Sequence[str] = ()
    """Text of each sequence's prompt, for people; nothing in a world without texts."""
    completions: Sequence[str] = ()
    """Text of each answer, for people."""
    rows: Sequence[Mapping[str, object]] = ()
    """The row that each sequence answers."""


class TokenWorld(Protocol):
    """Prompts, an engine that continues them, and rewards."""

    @property
    def temperature(self) -> float:
        """Sampling temperature of answers; the policy's log-probabilities are those at this temperature."""
        ...

    def sample(self, num_prompts: int, group_size: int) -> TokenRollout:
        """``group_size`` sampled answers to each of the next ``num_prompts`` prompts, with their rewards."""
        ...

    def update_weights(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        """Let the engine answer with these weights from now on, and check that it does; numbers for the log.

        Names are those of the model's ``state_dict`` with adapters merged.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Position in the prompts, and state of the sampler's random numbers."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`state_dict` was."""
        ...
