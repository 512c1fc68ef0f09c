"""A causal language model beside the teacher that it is compared with, token by token over the whole vocabulary."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..core.batch import Batch
from ..core.distillation import generalised_jsd
from ..core.policy import Evaluation
from .causal_lm import LOGITS, CausalLMPolicy, check_head, output_layer
from .sequences import hidden_states, without_dropout


class DistilledLMPolicy(CausalLMPolicy):
    """``model`` learns, ``teacher`` stays: causal LMs of transformers with the same tokens.

    Where one has more logits than the other, as models whose vocabulary was padded have, both are cut to those that
    both have. ``beta`` is that of :func:`generalised_jsd`; both distributions are at ``temperature``.
    """

    def __init__(self, model: nn.Module, teacher: nn.Module, *, beta: float, temperature: float = 1.0):
        super().__init__(model, temperature=temperature, entropy="none")
        without_dropout(teacher)
        check_head(teacher)
        # No part of the policy: neither learnt, nor in its checkpoints.
        self._teacher, self.beta = [teacher.requires_grad_(False)], beta

    @property
    def _shares(self) -> bool:
        return False

    def evaluate(self, batch: Batch) -> Evaluation:
        """Log-probabilities and divergences (B, L) at the tokens that ``batch.mask`` keeps; 0 elsewhere."""
        assert batch.mask is not None
        lengths, shape = batch.observations["lengths"], batch.actions.shape
        width = int(lengths.max())
        tokens, chosen = batch.actions[:, :width], batch.mask[:, 1:width].bool()
        states = self.hidden(tokens, lengths)[:, :-1][chosen]
        with torch.no_grad():
            taught = hidden_states(self._teacher[0], tokens, lengths)[:, :-1][chosen]
        where = nn.functional.pad(chosen, (1, shape[1] - width))
        log_probs, divergence = (
            values.new_zeros(shape).masked_scatter(where, values)
            for values in self._compared(states, taught, tokens[:, 1:][chosen])
        )
        return Evaluation(log_probs=log_probs, entropy=torch.zeros_like(log_probs), divergence=divergence)

    def _compared(self, states: Tensor, taught: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities of targets and divergences (M,), a slice of both models' logits at a time."""
        heads = output_layer(self.model), output_layer(self._teacher[0])
        rows = max(1, LOGITS.get(states.device.type, 2**24) // (2 * heads[0](states[:1]).shape[-1]))
        parts = [
            checkpoint(_compare, *part, *heads, self.temperature, self.beta, use_reentrant=False)
            for part in zip(states.split(rows), taught.split(rows), targets.split(rows), strict=True)
        ]
        return tuple(torch.cat(values) for values in zip(*parts, strict=True))


def _compare(
    states: Tensor,
    taught: Tensor,
    targets: Tensor,
    head: Callable[[Tensor], Tensor],
    teacher_head: Callable[[Tensor], Tensor],
    temperature: float,
    beta: float,
) -> tuple[Tensor, Tensor]:
    said, wanted = head(states), teacher_head(taught)
    common = min(said.shape[-1], wanted.shape[-1])
    student, teacher = (
        ((logits if logits.dtype == torch.float64 else logits.float())[:, :common] / temperature).log_softmax(-1)
        for logits in (said, wanted)
    )
    return student.gather(1, targets[:, None])[:, 0].detach(), generalised_jsd(student, teacher, beta)
