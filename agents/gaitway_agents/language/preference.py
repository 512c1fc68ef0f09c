"""Learning a policy from preferences without a reward model: DPO and its kin, and KTO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

import torch
from gaitway_files.errors import UserError
from torch import Tensor, nn

from ..core import distributed
from ..core.batch import Batch
from ..core.optimizer import OptimizerConfig
from ..core.preference import PreferenceLossConfig, preference_loss
from .fixed_data import FixedDataConfig, FixedDataTrainer, one_step
from .pairs import Example, Judged, Pair, SequencePolicy, batch_of_pairs, check_pairs, pairs_of
from .reference import Reference
from .sequences import pad


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig(FixedDataConfig, PreferenceLossConfig):
    """Settings of learning from fixed preferences."""

    optimizer: OptimizerConfig = field(default_factory=lambda: one_step(learning_rate=1e-6))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "kto" and self.batch_size < 2:
            raise UserError("batch_size 1: 'kto' compares each prompt with the next one's answer; take at least 2")


class PreferenceTrainer(FixedDataTrainer):
    """Learns from pairs, or, with loss "kto", from single answers, which a pair is two of.

    ``model`` is a causal LM of transformers. The reference is the model as it is now; its log-probabilities are
    computed once and kept. SimPO has none.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Sequence[Pair] | Sequence[Judged],
        config: PreferenceConfig,
        *,
        seed: int,
        total_steps: int | None = None,
    ):
        policy = SequencePolicy(model, entropy="none")
        self.reference = Reference(policy, config.optimizer.precision) if config.needs_reference else None
        self.device = next(model.parameters()).device
        if config.loss == "kto":
            self.answers = _answers(data)
            rows, width, batch_of = len(self.answers), 1, self._batch_of_answers
        else:
            self.pairs = _pairs(data, config.loss)
            rows, width, batch_of = len(self.pairs), 2, self._batch_of_pairs
        self._known = torch.full((rows, width), torch.nan)
        super().__init__(policy, rows, batch_of, preference_loss(config), config, seed=seed, total_steps=total_steps)

    # ---- batches ---------------------------------------------------------------------------------------------------

    def _batch_of_pairs(self, rows: list[int]) -> Batch:
        batch = batch_of_pairs([self.pairs[row] for row in rows], self.device)
        return batch if self.reference is None else batch.replace(reference=self._reference(rows, batch))

    def _batch_of_answers(self, rows: list[int]) -> Batch:
        examples = [self.answers[row][0] for row in rows]
        batch = pairs_of(*pad(examples, self.device))
        desirable = torch.tensor([float(self.answers[row][1]) for row in rows], device=self.device)
        baseline = self._divergence(examples).expand(len(rows))
        observations = batch.observations | {"desirable": desirable, "baseline": baseline}
        return batch.replace(observations=observations, reference=self._reference(rows, batch)[:, 0])

    @torch.no_grad()
    def _divergence(self, examples: Sequence[Example]) -> Tensor:
        """KTO's estimate of KL(policy || reference), at least 0: answers of other prompts stand in for samples."""
        following = [*examples[1:], examples[0]]
        batch = pairs_of(*pad([_crossed(a, b) for a, b in zip(examples, following, strict=True)], self.device))
        apart = (self.evaluate(batch).log_probs - self._said(batch)).mean()
        return distributed.mean_(apart).clamp(min=0.0)

    def _reference(self, rows: list[int], batch: Batch) -> Tensor:
        """The reference's log-probabilities of the answers of these rows, shape (rows, answers)."""
        if torch.isnan(self._known[rows]).any():
            self._known[rows] = self._said(batch).view(len(rows), -1).cpu()
        return self._known[rows].to(self.device)

    def _said(self, batch: Batch) -> Tensor:
        assert self.reference is not None
        return self.reference.evaluate(batch, self.config.optimizer)

    def rewards(self, batch: Batch) -> Tensor:
        """Log-ratios of answers to the reference, shape (B, 2); for SimPO, mean log-probabilities of their tokens."""
        log_probs = self.evaluate(batch).log_probs
        if self.reference is None:
            return log_probs / batch.observations["mask"].sum(-1)
        return log_probs - self._said(batch)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        # Kept, because the same example between other ones differs in the last digit.
        return super().state_dict() | {"reference": self._known}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._known = state["reference"].clone()


def _pairs(data: Sequence[Pair] | Sequence[Judged], loss: str) -> Sequence[Pair]:
    if not _are_pairs(data):
        raise UserError(f"loss {loss!r} needs pairs of answers, chosen and rejected; single ones are for 'kto'")
    check_pairs(data)
    return data


def _answers(data: Sequence[Pair] | Sequence[Judged]) -> Sequence[Judged]:
    """Single answers; those of pairs are one after the other, chosen ones desirable."""
    if _are_pairs(data):
        check_pairs(data)
        return [judged for chosen, rejected, _ in data for judged in ((chosen, True), (rejected, False))]
    answers = cast("Sequence[Judged]", data)
    for row, ((_, mask), _) in enumerate(answers):
        if not mask[1:].any():
            raise UserError(f"answer {row} is empty: its mask keeps no token")
    return answers


def _are_pairs(data: Sequence[Pair] | Sequence[Judged]) -> TypeGuard[Sequence[Pair]]:
    return len(data[:1]) == 0 or len(data[0]) == 3


def _crossed(example: Example, other: Example) -> Example:
    """The prompt of one example and the answer of another."""
    (tokens, mask), (foreign, kept) = example, other
    begin, start = int(mask.bool().int().argmax()), int(kept.bool().int().argmax())
    return torch.cat((tokens[:begin], foreign[start:])), torch.cat((torch.zeros(begin), kept[start:]))
