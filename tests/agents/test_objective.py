"""Objectives against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from gaitway_agents.core import objective
from torch import tensor


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),  # on policy: the plain policy gradient
        (1.5, 2.0, -2.4, 0.0),  # a good action already made likelier: no further
        (0.5, 2.0, -1.0, -2.0),  # a good action made unlikelier: full gradient back
        (1.5, -2.0, 3.0, 2.0),  # a bad action made likelier: full gradient back
        (0.5, -2.0, 1.4, 0.0),  # a bad action already made unlikelier: no further (clipped at 1 - 0.3)
    ],
)
def test_clipped_surrogate_and_its_gradient(ratio, advantage, loss, slope):
    r = tensor([ratio], requires_grad=True)
    value = objective.clipped_surrogate(r, tensor([advantage]), 0.3, 0.2)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert r.grad.item() == pytest.approx(slope)


def test_value_losses():
    values, old, returns = tensor([3.0, 0.1, 2.0]), tensor([1.0, 0.0, 1.0]), tensor([4.0, 1.0, 0.0])
    assert objective.value_loss(values, returns).tolist() == pytest.approx([1.0, 0.81, 4.0])
    # Moved from 1 to 3 towards 4: counted as 1.2; moved 0.1: inside the clip; moved away from 0: the larger error.
    assert objective.clipped_value_loss(values, old, returns, 0.2).tolist() == pytest.approx([2.8**2, 0.81, 4.0])


def test_gaussian_kl_by_hand():
    zero, one = torch.zeros(1, 2), torch.ones(1, 2)
    assert objective.gaussian_kl(zero, one, zero, one).item() == 0.0
    assert objective.gaussian_kl(zero, one, 3 * one, one).item() == pytest.approx(9.0)  # two times 3^2 / 2
    wider = objective.gaussian_kl(zero, one, zero, 2 * one).item()
    assert wider == pytest.approx(2 * (math.log(2) + 1 / 8 - 1 / 2))
    assert wider != pytest.approx(objective.gaussian_kl(zero, 2 * one, zero, one).item())  # KL(old || new), not back


def test_categorical_kl_by_hand():
    half, quarter = tensor([[0.5, 0.5]]).log(), tensor([[0.25, 0.75]]).log()
    assert objective.categorical_kl(half, half).item() == 0.0
    assert objective.categorical_kl(half, quarter).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert objective.categorical_kl(quarter, half).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    # What is impossible for both adds nothing.
    impossible = tensor([[0.0, -1e9]])
    assert objective.categorical_kl(impossible, impossible).item() == 0.0


def test_k3_is_an_unbiased_and_never_negative_estimate():
    old, new = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(0.3, 1.0)
    samples = old.sample((200_000,))
    estimate = objective.kl_k3(new.log_prob(samples) - old.log_prob(samples))
    assert estimate.min() >= 0.0
    assert estimate.mean().item() == pytest.approx(0.3**2 / 2, rel=0.02)


def test_masked_mean_of_chunks_adds_up_to_the_mean():
    values, mask = torch.randn(10), (torch.rand(10) < 0.5).float()
    count = mask.sum()
    parts = sum(objective.masked_mean(v, m, count) for v, m in zip(values.split(3), mask.split(3), strict=True))
    assert parts.item() == pytest.approx(values[mask > 0].mean().item())
    assert objective.masked_mean(values, None, 10.0).item() == pytest.approx(values.mean().item())
