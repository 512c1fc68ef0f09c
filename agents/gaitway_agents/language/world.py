"""What a language agent asks of the place where its sequences come from.

Everywhere in this package sequences are tensors (B, L), prompt first, padded on the right. ``mask`` is 1 exactly where
the policy chose the token: not on prompts, padding, nor what a tool wrote. Column t of ``log_probs``, ``advantages``
and ``values`` belongs to token t as chosen after the tokens before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from torch import Tensor


class Rollout(Protocol):
    """Sampled sequences and what they earned."""

    @property
    def tokens(self) -> Tensor:
        """Whole numbers, shape (B, L)."""
        ...

    @property
    def lengths(self) -> Tensor:
        """Tokens of each sequence without its padding, shape (B,)."""
        ...

    @property
    def mask(self) -> Tensor:
        """1.0 where the policy chose the token, shape (B, L)."""
        ...

    @property
    def log_probs(self) -> Tensor:
        """What the engine said of its own choices at the sampling temperature, shape (B, L); 0 elsewhere."""
        ...

    @property
    def groups(self) -> Tensor:
        """Which prompt of the rollout each sequence answers, from 0, shape (B,); a prompt's sequences are adjacent."""
        ...

    @property
    def finished(self) -> Tensor:
        """Whether the sequence ended by itself rather than at the limit of its length, shape (B,), bool."""
        ...

    @property
    def rewards(self) -> Tensor:
        """Weighted sum of the reward's parts, shape (B,)."""
        ...

    @property
    def parts(self) -> Mapping[str, Tensor]:
        """Each part of the reward before its weight, shape (B,)."""
        ...

    @property
    def version(self) -> int:
        """How often ``follow`` had been called when the sequences were sampled."""
        ...

    @property
    def timing(self) -> Mapping[str, float]:
        """Seconds by what they went to: "generation" and "reward"."""
        ...


class TokenWorld(Protocol):
    """Prompts, an engine that continues them, and rewards."""

    @property
    def temperature(self) -> float:
        """That answers are sampled at; the policy's log-probabilities are those at this temperature."""
        ...

    def sample(self, num_prompts: int, group_size: int) -> Rollout:
        """``group_size`` sampled answers to each of the next ``num_prompts`` prompts, with their rewards."""
        ...

    def follow(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        """Let the engine answer with these weights from now on, and check that it does; numbers for the log.

        Names are those of the model's ``state_dict`` with adapters merged.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where the prompts and the sampler's random numbers are."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
