"""verl's losses, advantages and corrections against the core's.

verl needs a cluster's worth of packages, so its numbers were recorded: its own functions (``core_algos.py`` and
``rollout_corr_helper.py`` of commit b178a3c) on the waves below. Of a loss there are two: its value, and its gradient
with respect to the log-probabilities times ``PROBE``; of weights and advantages their sum and that with ``PROBE``.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gaitway_agents.core import objective
from gaitway_agents.core.advantage import normalise
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.group_advantage import (
    group_relative,
    leave_one_out,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from gaitway_agents.core.losses import PolicyLoss, PolicyLossConfig
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.core.surrogates import CISPO, SAPO, ClippedSurrogate, Reinforce
from gaitway_agents.core.token_advantage import token_gae
from gaitway_agents.language.corrections import CorrectionConfig, importance_weights, mismatch
from torch import Tensor

NEAR = {"rel": 1e-7, "abs": 1e-8}  # they add 1e-8 to what they divide by
WHITENED = {"rel": 3e-6, "abs": 1e-7}  # or to a variance


def wave(speed: float, size: float = 1.0) -> Tensor:
    return size * torch.sin(speed * torch.arange(1, 21, dtype=torch.float64)).view(4, 5)


MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.float64)
OLD = wave(1.7, 0.5) - 1.5
NOW, REFERENCE, ENGINE = OLD + wave(2.3, 0.6), OLD + wave(3.1, 0.4), OLD + wave(4.7, 0.3)
ADVANTAGES, WEIGHTS, PROBE = wave(0.9, 2.0), wave(5.9, 0.3).exp(), wave(7.7)
REWARDS, VALUES = wave(5.3) * MASK, wave(6.1)
GROUPS = torch.tensor([0, 0, 1, 1])

VANILLA: dict[str, Any] = {"surrogate": ClippedSurrogate(clip_high=0.28, dual_clip=1.4)}
GSPO = ClippedSurrogate(clip_high=0.28, ratio="sequence_token")
LOSSES: dict[str, tuple[dict[str, Any], tuple[float, float]]] = {
    "vanilla, token-mean": (VANILLA, (0.1342876323477471, -0.001428370840387383)),
    "vanilla, token-mean, weighted": (VANILLA, (0.15551115599454512, 0.024351318796606847)),
    "vanilla, seq-mean-token-mean": (
        VANILLA | {"aggregation": "sequence"},
        (0.06411360390443899, 0.15575284027698538),
    ),
    "vanilla, seq-mean-token-mean, weighted": (
        VANILLA | {"aggregation": "sequence"},
        (0.05526932109595489, 0.1781098370330378),
    ),
    "vanilla, seq-mean-token-sum": (
        VANILLA | {"aggregation": "sequence_sum"},
        (0.36929098895630463, -0.003928019811065296),
    ),
    "vanilla, seq-mean-token-sum, weighted": (
        VANILLA | {"aggregation": "sequence_sum"},
        (0.42765567898499895, 0.06696612669066879),
    ),
    "gspo": (
        {"surrogate": GSPO, "aggregation": "sequence"},
        (0.04098411702460486, 0.3038163520225021),
    ),
    "gspo, weighted": (
        {"surrogate": GSPO, "aggregation": "sequence"},
        (0.04546712736006214, 0.25409498884623155),
    ),
    "cispo": ({"surrogate": CISPO(clip_high=0.28)}, (-0.1298736029601353, 0.10611612519620883)),
    "gpg": ({"surrogate": Reinforce()}, (-0.09737020363112198, 0.12718334072888207)),
    "sapo": ({"surrogate": SAPO(), "aggregation": "sequence"}, (-0.17870600937805703, 0.3279089933127856)),
}


def gradient(value: Tensor, log_probs: Tensor) -> tuple[float, float]:
    (slope,) = torch.autograd.grad(value, log_probs)
    return value.item(), (slope * PROBE).sum().item()


@pytest.mark.parametrize("name", LOSSES)
def test_policy_losses(name):
    changes, expected = LOSSES[name]
    config = PolicyLossConfig(entropy_coefficient=0.0, **changes)
    log_probs = NOW.clone().requires_grad_()
    batch = Batch(
        observations={},
        actions=torch.zeros(4, 5),
        log_probs=OLD,
        advantages=ADVANTAGES,
        mask=MASK,
        weights=WEIGHTS if "weighted" in name else None,
    )
    losses, _ = PolicyLoss(config)(Evaluation(log_probs=log_probs, entropy=torch.zeros(4, 5)), batch)
    if config.aggregation == "sequence":
        loss = objective.sequence_means(losses, MASK).mean()
    else:
        loss = objective.masked_mean(losses, MASK, MASK.sum() if config.aggregation == "decision" else 4.0)
    assert gradient(loss, log_probs) == pytest.approx(expected, **NEAR)


KL = {
    "k1": (-0.03478637806629498, 0.07024033674420935),
    "k2": (0.12176474722229118, 0.10305494394343108),
    "k3": (0.13068679126921412, 0.07474023418135399),
}
KL["k1+"], KL["k3+"] = (KL["k1"][0], KL["k2"][1]), (KL["k3"][0], KL["k2"][1])
"""Their straight-through estimates, which the recorded commit cannot run: a value, and the gradient of k2."""


@pytest.mark.parametrize("estimator", KL)
def test_estimates_of_the_divergence(estimator):
    log_probs = NOW.clone().requires_grad_()
    estimate = objective.kl_estimate(log_probs, REFERENCE, estimator)
    found = gradient(objective.masked_mean(estimate, MASK, MASK.sum()), log_probs)
    assert found == pytest.approx(KL[estimator], **NEAR)


def test_the_clipped_value_loss():
    """Theirs is half the squared error."""
    values = NOW.clone().requires_grad_()
    errors = objective.clipped_value_loss(values, OLD, OLD + wave(2.1, 0.9), 0.1)
    found = gradient(0.5 * objective.masked_mean(errors, MASK, MASK.sum()), values)
    assert found == pytest.approx((0.4017286338728558, 0.27802307221503586), **NEAR)


GAE = (
    -1.4112047374707044, -0.30971017705987003, 1.0417248203502307, 1.671050734210479, 1.2607393826050979,
    0.09857328248299148, -0.20515290800454516,
    0.30850387573332083, -1.0405124834593935, -1.035757928728263,
    -0.3782538544075504,
)  # fmt: skip
RETURNS = (
    -0.9209102752344842, -0.061734928560836844, 1.0443349670627298, 1.4892071031083454, 0.9793576431039172,
    -0.21058366836336384, -0.5639092232502625,
    -0.02541245769650513, -1.0794063845241917, -0.9313939547827833,
    0.022999618709098973,
)  # fmt: skip


def test_gae_of_tokens_with_a_gap():
    advantages = token_gae(REWARDS, VALUES, MASK, 0.97, 0.9)
    kept = MASK.bool()
    assert (advantages + VALUES)[kept].tolist() == pytest.approx(RETURNS, **NEAR)
    assert normalise(advantages, MASK)[kept].tolist() == pytest.approx(GAE, **WHITENED)


def test_advantages_of_groups():
    rewards = REWARDS.sum(1)
    whole = MASK.clone()
    whole[2, 1] = 1.0  # their REINFORCE++ forgets at a gap what comes after it
    expected = {
        "grpo": (-3.5354777039578558, -0.9739912539742572),
        "dr grpo": (-0.28329131836119015, -0.11427626304163285),
        "rloo": (-0.5665826367223803, -0.2285525260832657),
        "reinforce++": (0.0, -1.4897492058160098),
        "reinforce++ baseline": (0.0, -1.6130053683801933),
    }
    found = {
        "grpo": group_relative(rewards, GROUPS, eps=1e-6)[:, None] * MASK,
        "dr grpo": group_relative(rewards, GROUPS, "none")[:, None] * MASK,
        "rloo": leave_one_out(rewards, GROUPS)[:, None] * MASK,
        "reinforce++": reinforce_plus_plus(wave(5.3) * whole, whole),
        "reinforce++ baseline": reinforce_plus_plus_baseline(rewards, GROUPS, MASK),
    }
    for name, advantages in found.items():
        sums = advantages.sum().item(), (advantages * PROBE).sum().item()
        assert sums == pytest.approx(expected[name], **WHITENED), name


CORRECTIONS: dict[str, tuple[dict[str, Any], tuple[float, float, float]]] = {
    "token": ({"level": "token", "high": 1.15}, (10.671443224429318, 1.1797762381004395, 3 / 11)),
    "sequence": ({"level": "sequence", "high": 1.15}, (11.106982024382681, 0.6979835925285971, 5 / 11)),
    "token_k1": (
        {"level": "token", "rule": "reject", "low": 1 / 1.2, "high": 1 / 0.85},
        (5.0, 0.7299488006951635, 6 / 11),
    ),
    "seq_sum_k1": (
        {"level": "sequence", "rule": "reject", "low": 1 / 1.1, "high": 1 / 0.75},
        (4.0, -0.08846258661969619, 7 / 11),
    ),
    "seq_mean_k1": (
        {"level": "geometric", "rule": "reject", "low": 1 / 1.05, "high": 1 / 0.9},
        (9.0, 0.4478961845092373, 2 / 11),
    ),
}
"""Truncated weights and rejection; bounds of the latter are theirs on engine / trainer, the other way up."""


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_of_an_engine(name):
    arguments, expected = CORRECTIONS[name]
    weights, statistics = importance_weights(OLD, ENGINE, MASK, CorrectionConfig(**arguments))
    found = weights.sum().item(), (weights * PROBE).sum().item(), statistics["importance_outside"]
    assert found == pytest.approx(expected, **NEAR)


def test_the_mismatch_of_engine_and_trainer():
    assert mismatch(OLD, ENGINE, MASK)["mismatch_kl"] == pytest.approx(0.024808419918329563, **NEAR)
