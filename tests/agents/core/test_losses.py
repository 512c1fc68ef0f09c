"""The policy's loss: what its settings mean, what masks and weights do, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.losses import PolicyLoss, PolicyLossConfig, ReferenceKL
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.core.surrogates import (
    CISPO,
    RATIOS,
    SAPO,
    VESPO,
    ClippedSurrogate,
    ImportanceSampling,
    Reinforce,
    Surrogate,
)
from torch import Tensor, tensor

PLAIN = PolicyLossConfig(entropy_coefficient=0.0)


class Squared(Surrogate):
    """A surrogate from outside: r A for small steps, bent by a square."""

    def losses(self, ratio: Tensor, log_probs: Tensor, advantages: Tensor) -> Tensor:
        return -advantages * (ratio - 0.1 * (ratio - 1.0).square())


SURROGATES = (ClippedSurrogate(), ImportanceSampling(), Reinforce(), CISPO(), SAPO(), VESPO(), Squared())


def tokens(seed: int = 0) -> tuple[Tensor, Batch]:
    """Log-probabilities (3, 5) of a policy that has moved, and the batch of the one before."""
    g = torch.Generator().manual_seed(seed)
    old, step, reference, advantages, weights = torch.randn(5, 3, 5, generator=g, dtype=torch.float64)
    mask = tensor([[0.0, 1, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 0, 1, 0]], dtype=torch.float64)
    batch = Batch(
        observations={},
        actions=torch.zeros(3, 5, dtype=torch.long),
        log_probs=old - 2,
        advantages=advantages,
        mask=mask,
        reference=old - 2 + 0.3 * reference,
        weights=weights.exp(),
    )
    return (old - 2 + 0.5 * step).requires_grad_(), batch


def evaluation(log_probs: Tensor, entropy: Tensor | None = None) -> Evaluation:
    return Evaluation(log_probs=log_probs, entropy=torch.ones_like(log_probs) if entropy is None else entropy)


def losses(config: PolicyLossConfig, log_probs: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    loss = PolicyLoss(config)
    found, statistics = loss(evaluation(log_probs), batch)
    return found, dict(zip(loss.statistics, statistics, strict=True))


@pytest.mark.parametrize(
    "surrogate",
    [*SURROGATES, *(replace(s, ratio=r) for s in SURROGATES if isinstance(s, ImportanceSampling) for r in RATIOS)],
)
def test_every_surrogate_is_the_policy_gradient_on_policy(surrogate):
    """Their gradients part ways only when the policy has moved."""
    log_probs, batch = tokens()
    batch = batch.replace(log_probs=log_probs.detach(), weights=None)
    if getattr(surrogate, "ratio", None) == "sequence":  # whose decisions share one advantage
        batch = batch.replace(advantages=batch.advantages[:, :1].expand(3, 5))
    config = replace(PLAIN, surrogate=surrogate)
    found = (losses(config, log_probs, batch)[0] * batch.mask).sum()
    (slope,) = torch.autograd.grad(found, log_probs)
    torch.testing.assert_close(slope, -batch.advantages * batch.mask)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_what_is_masked_changes_nothing(surrogate):
    log_probs, batch = tokens()
    config = replace(PLAIN, surrogate=surrogate, reference_kl=ReferenceKL(coefficient=0.1))
    kept = batch.mask.bool()
    expected = losses(config, log_probs, batch)[0][kept]
    junk = torch.full_like(log_probs, 1e6)
    changed = batch.replace(
        log_probs=torch.where(kept, batch.log_probs, -1e9),
        reference=torch.where(kept, batch.reference, 1e9),
        weights=torch.where(kept, batch.weights, junk),
    )
    assert torch.equal(losses(config, log_probs, changed)[0][kept], expected)


@pytest.mark.parametrize("surrogate", [one for one in SURROGATES if one != VESPO()])
def test_weights_multiply_the_surrogate_and_not_the_leash(surrogate):
    log_probs, batch = tokens()
    for coefficient in (0.0, 0.5):
        reference_kl = ReferenceKL(coefficient=coefficient) if coefficient else None
        config = replace(PLAIN, surrogate=surrogate, reference_kl=reference_kl)
        leash = 0.0
        if coefficient:
            leash = coefficient * losses(config, log_probs, batch)[1]["reference_kl"]
        weighted, plain = (losses(config, log_probs, b)[0] for b in (batch, batch.replace(weights=None)))
        found, expected = weighted - leash, (plain - leash) * batch.weights
        torch.testing.assert_close(found[batch.mask > 0], expected[batch.mask > 0])


def test_weights_belong_to_the_importance_weight_of_vespo():
    log_probs, batch = tokens()
    config = replace(PLAIN, surrogate=VESPO())
    older = batch.replace(weights=None, log_probs=batch.log_probs - batch.weights.log())
    torch.testing.assert_close(losses(config, log_probs, batch)[0], losses(config, log_probs, older)[0])


def test_zero_advantages_leave_exactly_no_gradient():
    log_probs, batch = tokens()
    batch = batch.replace(advantages=torch.zeros(3, 5, dtype=torch.float64))
    for surrogate in SURROGATES:
        found = losses(replace(PLAIN, surrogate=surrogate), log_probs, batch)[0]
        assert torch.autograd.grad(found.sum(), log_probs)[0].abs().max() == 0.0


def test_the_leash_by_hand():
    log_probs, batch = tokens()
    gap = (batch.reference - log_probs) * batch.mask
    k3 = gap.exp() - 1 - gap
    config = replace(PLAIN, reference_kl=ReferenceKL(coefficient=0.25))
    plain = losses(PLAIN, log_probs, batch)[0]
    torch.testing.assert_close(losses(config, log_probs, batch)[0], plain + 0.25 * k3)
    ratio = ((log_probs - batch.log_probs) * batch.mask).exp()
    corrected = losses(replace(PLAIN, reference_kl=ReferenceKL(coefficient=0.25, importance=True)), log_probs, batch)
    torch.testing.assert_close(corrected[0], plain + 0.25 * k3 * ratio)
    torch.testing.assert_close(corrected[1]["reference_kl"], k3.detach())
    with pytest.raises(ValueError, match="reference_kl needs the batch's reference log-probabilities"):
        losses(config, log_probs, batch.replace(reference=None))


def test_a_value_may_have_a_clip_of_its_own():
    zero = torch.zeros(1)
    batch = Batch(observations={}, actions=zero, log_probs=zero, advantages=zero, values=zero, returns=zero + 2)
    new = Evaluation(log_probs=zero, entropy=zero, values=zero + 1)
    for clip, error in ((None, (2 - 0.2) ** 2), (0.5, 1.5**2), (3.0, 1.0)):
        found, _ = PolicyLoss(replace(PLAIN, value_clip=clip))(new, batch)
        assert found.item() == pytest.approx(error)


def test_the_share_of_clipped_decisions():
    log_probs, batch = tokens()
    ratio = (log_probs - batch.log_probs).exp()
    outside = ((ratio > 1.3) | (ratio < 0.8)).double() * batch.mask
    assert 0 < outside.sum() < batch.mask.sum()
    for surrogate in (ClippedSurrogate(clip_high=0.3), CISPO(clip_high=0.3), SAPO(), Reinforce(), VESPO()):
        config = replace(PLAIN, surrogate=surrogate)
        share = losses(config, log_probs, batch)[1]["clip_fraction"] * batch.mask
        assert torch.equal(share, outside if hasattr(surrogate, "clip") else torch.zeros_like(share))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (ImportanceSampling, {"ratio": "token"}, "ratio 'token': use one of 'decision'"),
        (ReferenceKL, {"estimator": "k4"}, "estimator 'k4': use one of 'k1'"),
        (ReferenceKL, {"coefficient": 0.0}, "coefficient 0.0: must be positive"),
        (ClippedSurrogate, {"clip": 0.0}, "clip 0.0: must be positive"),
        (CISPO, {"clip_high": -1.0}, "clip_high -1.0: must be positive"),
        (ClippedSurrogate, {"dual_clip": 0.9}, "dual_clip 0.9: must be above 1"),
        (SAPO, {"temperatures": (1.0, 0.0)}, r"temperatures \(1.0, 0.0\): must be positive"),
        (VESPO, {"rates": (-1.0, 2.0)}, "rates"),
        (PolicyLossConfig, {"value_clip": 0.0}, "value_clip 0.0: must be positive"),
        (PolicyLossConfig, {"aggregation": "mean"}, "aggregation 'mean': use one of 'decision'"),
        (PolicyLossConfig, {"aggregation": "constant"}, "aggregation 'constant', horizon None"),
        (PolicyLossConfig, {"horizon": 8}, "aggregation 'decision', horizon 8"),
        (PolicyLossConfig, {"horizon": 0, "aggregation": "constant"}, "horizon 0: must be at least 1"),
    ],
)
def test_what_is_refused(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        kind(**changes)
