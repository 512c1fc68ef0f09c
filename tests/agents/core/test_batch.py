"""Batches: every tensor goes along with its rows."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from gaitway_agents.core.batch import Batch, concatenate


def make(rows: int, offset: float = 0.0, **without: None) -> Batch:
    """Row i of every tensor holds i + offset."""

    def column(*shape: int) -> torch.Tensor:
        return (torch.arange(rows) + offset).reshape(-1, *[1] * len(shape)).expand(rows, *shape).clone()

    tensors = {
        "observations": {"policy": column(3), "critic": column(5)},
        "actions": column(2),
        "log_probs": column(),
        "advantages": column(),
        "values": column(),
        "returns": column(),
        "distribution": (column(2), column(2)),
        "mask": column(),
        "reference": column(),
        "weights": column(),
    }
    return Batch(**{**tensors, **without})


@pytest.mark.parametrize("rows", [torch.tensor([4, 1, 1]), slice(2, 5)])
def test_indexing_takes_the_same_rows_of_everything(rows):
    part, expected = make(6)[rows], torch.arange(6.0)[rows]
    tensors = part.named_tensors()
    assert set(tensors) == set(make(6).named_tensors())
    assert {f.name for f in dataclasses.fields(Batch)} == {name.split(".")[0] for name in tensors}
    for name, value in tensors.items():
        assert len(value) == 3, name
        assert all(torch.equal(value[i], torch.full_like(value[i], float(x))) for i, x in enumerate(expected)), name


def test_a_function_reaches_every_tensor():
    batch = make(4)
    doubled = batch.map(lambda value: 2.0 * value)
    assert set(doubled.named_tensors()) == set(batch.named_tensors())
    for name, value in doubled.named_tensors().items():
        assert torch.equal(value, 2.0 * batch.named_tensors()[name]), name
    without = make(4, values=None, returns=None, mask=None, distribution=()).map(lambda value: value)
    assert (without.values, without.returns, without.mask, without.distribution) == (None, None, None, ())


def test_optional_tensors_stay_absent():
    part = make(4, values=None, returns=None, mask=None, distribution=())[torch.tensor([0, 2])]
    assert len(part) == 2
    assert (part.values, part.returns, part.mask, part.distribution) == (None, None, None, ())
    joined = concatenate([part, part])
    assert len(joined) == 4
    assert (joined.values, joined.returns, joined.mask, joined.distribution) == (None, None, None, ())


def test_concatenate_keeps_the_order_of_rows():
    joined = concatenate([make(2), make(3, offset=10.0)])
    for name, value in joined.named_tensors().items():
        assert value.reshape(5, -1)[:, 0].tolist() == [0, 1, 10, 11, 12], name


def test_replace_leaves_the_original_alone():
    batch = make(2)
    changed = batch.replace(actions=torch.zeros(2, 2))
    assert batch.actions[1, 0] == 1.0
    assert changed.actions[1, 0] == 0.0
    assert changed.log_probs is batch.log_probs
