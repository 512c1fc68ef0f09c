"""Weights of tokens that others have sampled: by hand, against importance sampling's own claims, and at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.corrections import (
    CorrectionConfig,
    high_entropy,
    importance_weights,
    mismatch,
    off_policy_mask,
)
from torch import tensor

MASK = tensor([[0.0, 1, 1, 1], [0, 1, 0, 1]])
ENGINE = tensor([[9.0, -1, -2, -1], [9, -3, 9, -1]])
RATIOS = tensor([[1.0, 2, 0.5, 4], [1, 1, 1, 0.1]])
TRAINER = ENGINE + RATIOS.log()


def rows(weights: torch.Tensor) -> list[list[float]]:
    return [[round(value, 5) for value in row] for row in weights.tolist()]


@pytest.mark.parametrize(
    ("arguments", "expected", "outside"),
    [
        ({}, [[0, 2, 0.5, 2], [0, 1, 0, 0.1]], 1 / 5),
        ({"high": None}, [[0, 2, 0.5, 4], [0, 1, 0, 0.1]], 0.0),
        ({"low": 0.25, "high": 3.0}, [[0, 2, 0.5, 3], [0, 1, 0, 0.25]], 2 / 5),
        ({"rule": "mask", "low": 0.25, "high": 3.0}, [[0, 2, 0.5, 0], [0, 1, 0, 0]], 2 / 5),
        ({"rule": "reject", "low": 0.25, "high": 3.0}, [[0, 1, 1, 0], [0, 1, 0, 0]], 2 / 5),
        ({"level": "sequence", "high": 3.0}, [[0, 3, 3, 3], [0, 0.1, 0, 0.1]], 3 / 5),
        ({"level": "sequence", "rule": "mask", "high": 3.0}, [[0, 0, 0, 0], [0, 0.1, 0, 0.1]], 3 / 5),
        ({"level": "geometric", "high": None}, [[0, 1.5874, 1.5874, 1.5874], [0, 0.31623, 0, 0.31623]], 0.0),
        ({"level": "geometric", "rule": "reject", "low": 0.5}, [[0, 1, 1, 1], [0, 0, 0, 0]], 2 / 5),
    ],
)
def test_importance_weights_by_hand(arguments, expected, outside):
    weights, statistics = importance_weights(TRAINER, ENGINE, MASK, CorrectionConfig(**arguments))
    assert rows(weights) == expected
    assert statistics["importance_outside"] == pytest.approx(outside)
    kept = weights[MASK.bool()]
    assert statistics["importance_mean"] == pytest.approx(kept.mean().item())
    assert statistics["importance_effective"] == pytest.approx((kept.sum() ** 2 / kept.square().sum() / 5).item())


def test_weights_turn_the_engine_s_mean_into_the_trainer_s():
    """Importance weights turn an average over the engine's samples into one over the trainer's."""
    engine, trainer = tensor([0.7, 0.2, 0.1]).double(), tensor([0.4, 0.3, 0.3]).double()
    reward = tensor([1.0, -2.0, 6.0]).double()
    samples = torch.multinomial(engine, 200_000, replacement=True, generator=torch.Generator().manual_seed(0))[:, None]
    mask = torch.ones_like(samples, dtype=torch.float64)
    weights, statistics = importance_weights(
        trainer.log()[samples], engine.log()[samples], mask, CorrectionConfig(high=None)
    )
    plain, weighted = reward[samples].mean().item(), (weights * reward[samples]).mean().item()
    assert weighted == pytest.approx((trainer * reward).sum().item(), abs=0.05)
    assert abs(plain - weighted) > 0.2
    assert statistics["importance_mean"] == pytest.approx(1.0, abs=0.01)
    kl = (engine * (engine / trainer).log()).sum().item()
    assert mismatch(trainer.log()[samples], engine.log()[samples], mask)["mismatch_kl"] == pytest.approx(kl, rel=0.02)


def test_an_engine_that_agrees_changes_nothing():
    for level in ("token", "sequence", "geometric"):
        for rule in ("truncate", "mask", "reject"):
            weights, statistics = importance_weights(
                ENGINE, ENGINE, MASK, CorrectionConfig(level=level, rule=rule, low=0.5, high=2.0)
            )
            assert torch.equal(weights, MASK)
            assert statistics == {"importance_mean": 1.0, "importance_outside": 0.0, "importance_effective": 1.0}
    assert mismatch(ENGINE, ENGINE, MASK) == {"mismatch_kl": 0.0, "mismatch_max": 0.0}


def test_the_mismatch_by_hand():
    found = mismatch(TRAINER, ENGINE, MASK)
    k3 = [r - 1 - math.log(r) for r in (2.0, 0.5, 4.0, 1.0, 0.1)]
    assert found["mismatch_kl"] == pytest.approx(sum(k3) / 5)
    assert found["mismatch_max"] == pytest.approx(math.log(10.0))


def test_what_an_engine_could_not_say_is_not_corrected():
    engine = ENGINE.clone()
    engine[0, 3] = float("nan")
    weights, _ = importance_weights(TRAINER, engine, MASK, CorrectionConfig(high=None))
    assert rows(weights)[0] == [0, 2, 0.5, 1]
    assert mismatch(TRAINER, engine, MASK)["mismatch_max"] == pytest.approx(math.log(10.0))


@pytest.mark.parametrize("rule", ["truncate", "mask", "reject"])
def test_tokens_that_the_engine_thought_impossible_stay_finite(rule):
    trainer = tensor([[0.0, 200.0]])
    weights, statistics = importance_weights(trainer, torch.zeros(1, 2), torch.ones(1, 2), CorrectionConfig(rule=rule))
    assert weights.tolist() == [[1.0, 2.0 if rule == "truncate" else 0.0]]
    assert all(math.isfinite(value) for value in statistics.values())


def test_weights_carry_no_gradient():
    trainer = TRAINER.clone().requires_grad_()
    assert not importance_weights(trainer, ENGINE, MASK, CorrectionConfig())[0].requires_grad


def test_bad_sequences_off_the_policy_are_dropped_and_good_ones_are_not():
    advantages = tensor([[-1.0, -1, -1, -1], [-1, -1, -1, -1]])
    drift = tensor([[0.0, 0.5, 0.1, 0.3], [0, 0.1, 9.0, 0.1]])  # means 0.3 and 0.1; the gap does not count
    weights, statistics = off_policy_mask(advantages, ENGINE - drift, ENGINE, MASK, 0.2)
    assert rows(weights) == [[0, 0, 0, 0], [0, 1, 0, 1]]
    assert statistics == {"off_policy_dropped": pytest.approx(3 / 5)}
    assert torch.equal(off_policy_mask(-advantages, ENGINE - drift, ENGINE, MASK, 0.2)[0], MASK)
    assert torch.equal(off_policy_mask(advantages, ENGINE + drift, ENGINE, MASK, 0.2)[0], MASK)  # likelier now


def test_the_tokens_of_highest_entropy():
    entropy = tensor([[9.0, 0.1, 0.5, 0.3], [9, 0.2, 9, 0.4]])
    assert rows(high_entropy(entropy, MASK, 0.4)) == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert torch.equal(high_entropy(entropy, MASK, 1.0), MASK)
    assert torch.equal(high_entropy(entropy, torch.zeros(2, 4), 0.2), torch.zeros(2, 4))


@pytest.mark.parametrize("share", [0.2, 0.25, 0.37, 0.999])
@pytest.mark.parametrize("count", [1, 11, 1001])
def test_the_tokens_of_highest_entropy_are_those_above_the_quantile(share, count):
    entropy = torch.rand(1, count, generator=torch.Generator().manual_seed(count))
    kept = high_entropy(entropy, torch.ones(1, count), share)
    assert torch.equal(kept, (entropy >= entropy.quantile(1.0 - share)).float())


def test_more_tokens_than_a_quantile_of_torch_can_take():
    entropy = tensor([[0.0], [1.0], [2.0], [3.0]]).expand(4, 2**22 + 1)
    kept = high_entropy(entropy, torch.ones(()).expand(entropy.shape), 0.3)
    assert kept.mean(1).tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "answer"}, "level 'answer': use one of 'token', 'sequence', 'geometric'"),
        ({"rule": "clip"}, "rule 'clip': use one of 'truncate', 'mask', 'reject'"),
        ({"low": 2.0, "high": 1.0}, r"bounds \(2.0, 1.0\) of importance weights: 0 <= low < high"),
        ({"low": -1.0}, r"bounds \(-1.0, 2.0\)"),
        ({"high": 0.0}, r"bounds \(None, 0.0\)"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        importance_weights(TRAINER, ENGINE, MASK, CorrectionConfig(**arguments))


def test_thresholds_that_drop_all_are_refused():
    with pytest.raises(ValueError, match=r"off_policy_threshold 0.0: must be positive"):
        PolicyGradientConfig(off_policy_threshold=0.0)
    with pytest.raises(ValueError, match=r"entropy_share 1.5: must lie in \(0, 1\]"):
        PolicyGradientConfig(entropy_share=1.5)
