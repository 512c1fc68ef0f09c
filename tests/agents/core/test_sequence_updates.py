"""Updates on masked sequences: how their losses are averaged, and that no cutting up of the work shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bigram import Bigram, sequences
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.losses import AGGREGATIONS, PolicyLoss, ReferenceKL
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.surrogates import ClippedSurrogate
from torch import Tensor

PLAIN = OptimizerConfig(
    epochs=1,
    minibatches=1,
    schedule="constant",
    learning_rate=1e-3,
    max_grad_norm=1e9,
    normalize_advantages="none",
    entropy_coefficient=0.01,
)


def configured(aggregation: str, **changes) -> OptimizerConfig:
    return replace(PLAIN, aggregation=aggregation, horizon=9 if aggregation == "constant" else None, **changes)


def make_batch(rows: int = 12) -> Batch:
    batch = sequences(rows, 7, 3, Bigram(0))
    assert batch.mask is not None
    batch.mask[4] = 0.0  # a sequence without decisions counts as one
    return batch


def gradient(config: OptimizerConfig, batch: Batch) -> Tensor:
    optimizer = PolicyOptimizer(Bigram(0), config, torch.Generator().manual_seed(0))
    optimizer.update(batch)
    return optimizer.store.gradient.clone()


def slowly(config: OptimizerConfig, batch: Batch) -> Tensor:
    """The definition, one sequence at a time."""
    policy = Bigram(0)
    losses, _ = PolicyLoss(config)(policy.evaluate(batch), batch)
    rows = [losses[i][batch.mask[i] > 0] for i in range(len(batch))]
    if config.aggregation == "decision":
        total = torch.cat(rows).mean()
    elif config.aggregation == "sequence":
        total = sum(row.mean() for row in rows if len(row)) / len(rows)
    elif config.aggregation == "sequence_sum":
        total = sum(row.sum() for row in rows) / len(rows)
    else:
        total = sum(row.sum() for row in rows) / (len(rows) * 9)
    return torch.autograd.grad(total, policy.logits)[0].flatten()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_aggregations_are_their_definitions(aggregation):
    config = configured(aggregation, reference_kl=ReferenceKL(coefficient=0.1))
    torch.testing.assert_close(gradient(config, make_batch()), slowly(config, make_batch()))


def test_aggregations_differ():
    found = [gradient(configured(aggregation), make_batch()) for aggregation in AGGREGATIONS]
    directions = torch.stack([g / g.norm() for g in found])
    alike = directions @ directions.T
    assert alike[0, 2].item() == pytest.approx(1.0) == alike[2, 3].item()  # sums, whatever they are divided by
    assert alike[0, 1] < 0.999  # short sequences weigh as much as long ones


@pytest.mark.parametrize("ratio", ["decision", "sequence", "sequence_token"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_chunks_and_workers_change_nothing(aggregation, ratio):
    config = configured(aggregation, surrogate=ClippedSurrogate(ratio=ratio))
    expected = gradient(config, make_batch())
    for change in ({"chunk_size": 5}, {"chunk_size": 1}, {"workers": 2, "chunk_size": 4}):
        torch.testing.assert_close(gradient(replace(config, **change), make_batch()), expected)


def test_columns_of_padding_change_nothing():
    batch = make_batch()
    wider = batch.map(lambda x: torch.nn.functional.pad(x, (0, 3), value=0) if x.dim() == 2 else x)
    for aggregation in AGGREGATIONS:
        config = configured(aggregation, surrogate=ClippedSurrogate(ratio="sequence"))
        torch.testing.assert_close(gradient(config, wider), gradient(config, batch))


@pytest.mark.parametrize("change", [{"aggregation": "sequence"}, {"surrogate": ClippedSurrogate(ratio="sequence")}])
def test_single_decisions_are_no_sequences(change):
    """Rows (N,), as robots have them."""
    batch = make_batch()

    class Rows(Bigram):
        def evaluate(self, batch: Batch):
            new = super().evaluate(batch)
            return replace(new, log_probs=new.log_probs[:, 1], entropy=new.entropy[:, 1])

    rows = batch.replace(
        log_probs=batch.log_probs[:, 1],
        advantages=batch.advantages[:, 1],
        mask=None,
        weights=None,
        reference=None,
    )
    with pytest.raises(ValueError, match=r"decisions of shape \(12,\) are in no sequences"):
        PolicyOptimizer(Rows(), replace(PLAIN, **change)).update(rows)
