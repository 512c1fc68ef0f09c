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


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.1, -2.0, 2.2, 2.0),  # bad, below the bound: as before
        (4.0, -2.0, 6.0, 0.0),  # bad and beyond it: as if the ratio were 3
        (4.0, 2.0, -2.4, 0.0),  # good actions are clipped already
    ],
)
def test_dual_clip_bounds_the_loss_of_bad_actions(ratio, advantage, loss, slope):
    r, a = tensor([ratio], requires_grad=True), tensor([advantage])
    value = objective.dual_clip(objective.clipped_surrogate(r, a, 0.2, 0.2), a, 3.0)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert r.grad.item() == pytest.approx(slope)


@pytest.mark.parametrize(("ratio", "weight"), [(1.0, 1.0), (3.0, 1.2), (0.1, 0.7)])
def test_cispo_keeps_every_gradient_and_clips_its_weight(ratio, weight):
    log_probs = tensor([math.log(ratio * 0.2)], requires_grad=True)
    value = objective.cispo((log_probs - math.log(0.2)).exp(), log_probs, tensor([-2.0]), 0.3, 0.2)
    value.sum().backward()
    assert value.item() == pytest.approx(2.0 * weight * math.log(ratio * 0.2))
    assert log_probs.grad.item() == pytest.approx(2.0 * weight)


def test_sapo_has_the_policy_gradient_at_ratio_one_and_saturates_elsewhere():
    ratio, advantages = tensor([1.0, 1.0, 30.0, 30.0], requires_grad=True), tensor([2.0, -2.0, 2.0, -2.0])
    value = objective.sapo(ratio, advantages, (1.0, 2.0))
    value.sum().backward()
    assert value.tolist() == pytest.approx([-4.0, 2.0, -8.0, 4.0])  # -A (4 / heat) sigmoid(heat (r - 1))
    assert ratio.grad.tolist() == pytest.approx([-2.0, 2.0, 0.0, 0.0], abs=1e-6)


def test_gamma_weights_are_one_on_policy_and_vanish_on_both_sides():
    log_weights = tensor([0.0, 0.0, math.log(2.0), math.log(0.5), -50.0, 50.0])
    advantages = tensor([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    found = objective.gamma_weights(log_weights, advantages, (2.0, 3.0), (3.0, 2.0))
    expected = [1.0, 1.0, 4.0 * math.exp(-3.0), 0.125 * math.exp(1.0), 0.0, 0.0]
    assert found.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_decisions():
    log_ratio = tensor([[0.1, 0.3, 9.0], [0.5, 9.0, 9.0]], requires_grad=True)
    mask, weights = tensor([[1.0, 1, 0], [1, 0, 0]]), tensor([[1.0, 3.0, 0.0], [1.0, 0.0, 0.0]])
    for function, slopes in (
        (objective.sequence_log_ratio, [[2.0, 2.0, 0.0], [1.0, 0.0, 0.0]]),  # every decision's weight, shared out
        (objective.sequence_token_log_ratio, [[1.0, 3.0, 0.0], [1.0, 0.0, 0.0]]),  # every decision for itself
    ):
        found = function(log_ratio, mask)
        assert torch.allclose(found, tensor([[0.2] * 3, [0.5] * 3]))
        (slope,) = torch.autograd.grad((found * weights).sum(), log_ratio)
        assert torch.allclose(slope, tensor(slopes))


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


@pytest.mark.parametrize("estimator", objective.KL_ESTIMATORS)
def test_estimates_of_the_divergence_and_of_its_gradient(estimator):
    """KL(N(m, 1) || N(0, 1)) is m^2 / 2 with gradient m; what each estimator finds of both at m = 0.3."""
    generator, at = torch.Generator().manual_seed(0), 0.3
    samples = at + torch.randn(400_000, generator=generator, dtype=torch.float64)
    m = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    estimate = objective.kl_estimate(-0.5 * (samples - m).square(), -0.5 * samples.square(), estimator).mean()
    (slope,) = torch.autograd.grad(estimate, m)
    bias = at**4 / 8 if estimator == "k2" else 0.0  # E[x^2] / 2 of the log-ratio x ~ N(m^2 / 2, m^2)
    assert estimate.item() == pytest.approx(at**2 / 2 + bias, abs=2e-3)
    assert slope.item() == pytest.approx(0.0 if estimator == "k1" else at, abs=5e-3)


def test_k3_follows_the_reverse_divergence():
    """Of Bernoullis, in closed form: its gradient is that of KL(reference || policy), k2's that of the KL itself."""
    logit, reference = torch.tensor(0.4, dtype=torch.float64, requires_grad=True), tensor([0.9, 0.1]).double()
    probabilities = torch.stack((logit.sigmoid(), 1 - logit.sigmoid()))
    forward = (probabilities * (probabilities.log() - reference.log())).sum()
    reverse = (reference * (reference.log() - probabilities.log())).sum()
    for estimator, divergence in (("k2", forward), ("k3", reverse), ("k3+", forward), ("k1+", forward)):
        estimate = objective.kl_estimate(probabilities.log(), reference.log(), estimator)
        found, expected = (
            torch.autograd.grad(value, logit, retain_graph=True)[0]
            for value in ((probabilities.detach() * estimate).sum(), divergence)
        )
        torch.testing.assert_close(found, expected)


def test_means_of_sequences_need_sequences():
    values, mask = tensor([[1.0, 2.0, 9.0], [9.0, 9.0, 9.0]]), tensor([[1.0, 1, 0], [0, 0, 0]])
    assert objective.sequence_means(values, mask).tolist() == [1.5, 0.0]
    assert objective.sequence_sums(values, mask).tolist() == [3.0, 0.0]
    with pytest.raises(ValueError, match=r"decisions of shape \(4,\) are in no sequences \(B, T\)"):
        objective.sequence_means(torch.ones(4), None)


def test_masked_mean_of_chunks_adds_up_to_the_mean():
    values, mask = torch.randn(10), (torch.rand(10) < 0.5).float()
    count = mask.sum()
    parts = sum(objective.masked_mean(v, m, count) for v, m in zip(values.split(3), mask.split(3), strict=True))
    assert parts.item() == pytest.approx(values[mask > 0].mean().item())
    assert objective.masked_mean(values, None, 10.0).item() == pytest.approx(values.mean().item())
