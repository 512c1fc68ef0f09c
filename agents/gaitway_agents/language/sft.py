"""Supervised fine-tuning: the likelihood of demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from gaitway_files.errors import UserError
from torch import nn

from ..core.batch import Batch
from ..core.likelihood import NegativeLogLikelihood
from ..core.optimizer import OptimizerConfig
from ..models.causal_lm import CausalLMPolicy
from .fixed_data import FixedDataConfig, FixedDataTrainer, one_step
from .pairs import Example
from .sequences import pad


@dataclass(frozen=True, kw_only=True)
class SFTConfig(FixedDataConfig):
    """Settings of supervised fine-tuning. The loss is the mean over the tokens of a batch that are to be learnt."""

    last_answer_only: bool = False
    """Learn only the last answer of a conversation with several; otherwise all of them are learnt."""
    optimizer: OptimizerConfig = field(default_factory=lambda: one_step(learning_rate=2e-5))


class SFTTrainer(FixedDataTrainer):
    """Learns what the masks of ``demonstrations`` keep; ``model`` is a causal LM of transformers.

    Examples of different length share forward passes without padding as the policy's ``chunks`` arranges it.
    """

    def __init__(
        self,
        model: nn.Module,
        demonstrations: Sequence[Example],
        config: SFTConfig,
        *,
        seed: int,
        total_steps: int | None = None,
    ):
        for row, (_, mask) in enumerate(demonstrations):
            if not mask[1:].any():
                raise UserError(f"demonstration {row} has no token to learn: its mask is empty")
        self.demonstrations = demonstrations
        self.device = next(model.parameters()).device
        super().__init__(
            CausalLMPolicy(model, entropy="none", likeliest=True, dropout=True),
            len(demonstrations),
            self._batch,
            NegativeLogLikelihood(accuracy=True),
            config,
            seed=seed,
            total_steps=total_steps,
        )

    def _batch(self, rows: list[int]) -> Batch:
        return batch_of_examples([self.demonstrations[row] for row in rows], self.device)


def batch_of_examples(examples: Sequence[Example], device: torch.device) -> Batch:
    """Sequences of tokens (L,) with masks (L,) of those to be learnt, as a batch without rewards."""
    tokens, lengths, mask = pad(examples, device)
    mask[:, 0] = 0.0  # nothing comes before the first token, so nothing predicts it
    none = mask.new_zeros(()).expand(mask.shape)
    return Batch(observations={"lengths": lengths}, actions=tokens, log_probs=none, advantages=none, mask=mask)
