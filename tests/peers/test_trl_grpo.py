"""Losses and gradients of TRL's own ``GRPOTrainer``, and its advantages and corrections, against the core's.

Its loss runs as it is, on a trainer that was never set up: the log-probabilities come from a table instead of a model.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gaitway_agents.core import objective
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.group_advantage import group_relative, leave_one_out
from gaitway_agents.core.losses import PolicyLoss, ReferenceKL
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.policy import Evaluation, Policy
from gaitway_agents.core.surrogates import CISPO, SAPO, VESPO, ClippedSurrogate
from gaitway_agents.language.corrections import (
    CorrectionConfig,
    high_entropy,
    importance_weights,
    off_policy_mask,
)
from torch import Tensor, nn

trl = pytest.importorskip("trl")
ROWS, LENGTH = 6, 7
TOLERANCE = {"rtol": 0.0, "atol": 1e-14}


class Table(Policy):
    """A policy whose parameters are the log-probabilities of its actions, and the entropies there."""

    def __init__(self, log_probs: Tensor, entropy: Tensor):
        super().__init__()
        self.log_probs, self.entropy = nn.Parameter(log_probs), nn.Parameter(entropy)

    def evaluate(self, batch: Batch) -> Evaluation:
        rows = batch.observations["row"]
        return Evaluation(log_probs=self.log_probs[rows], entropy=self.entropy[rows])


def numbers(seed: int = 0) -> tuple[Tensor, Tensor, Batch]:
    """Log-probabilities and entropies now, and a batch of a policy that was elsewhere; sequences of 1 to 7 tokens."""
    g = torch.Generator().manual_seed(seed)
    old = -torch.rand(ROWS, LENGTH, generator=g, dtype=torch.float64) - 0.5
    moved, away, engine = 0.5 * torch.randn(3, ROWS, LENGTH, generator=g, dtype=torch.float64)
    mask = (torch.arange(LENGTH) < torch.tensor([[7], [1], [4], [7], [2], [5]])).double()
    mask[0, 3] = 0.0  # what a tool wrote
    advantages = torch.randn(ROWS, 1, generator=g, dtype=torch.float64).expand(ROWS, LENGTH).contiguous()
    batch = Batch(
        observations={"row": torch.arange(ROWS)},
        actions=torch.zeros(ROWS, LENGTH, dtype=torch.long),
        log_probs=old,
        advantages=advantages,
        mask=mask,
        reference=old + away,
        weights=engine.exp(),
    )
    return old + moved, torch.rand(ROWS, LENGTH, generator=g, dtype=torch.float64), batch


def theirs(
    log_probs: Tensor, entropy: Tensor, batch: Batch, args: dict[str, Any], settings: dict[str, Any], vllm: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """TRL's loss, and its gradient with respect to log-probabilities and entropies."""
    from accelerate import Accelerator

    log_probs, entropy = log_probs.clone().requires_grad_(), entropy.clone().requires_grad_()
    trainer = trl.GRPOTrainer.__new__(trl.GRPOTrainer)
    vespo = {"vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0}
    usual_args = {
        "delta": None,
        "use_bias_correction_kl": False,
        "sapo_temperature_pos": 1.0,
        "sapo_temperature_neg": 1.25,
    }
    usual = {
        "args": SimpleNamespace(**(usual_args | vespo | {"steps_per_generation": 1} | args)),
        "model": SimpleNamespace(training=True),
        "accelerator": Accelerator(cpu=True),
        "_metrics": defaultdict(lambda: defaultdict(list)),
        "_get_per_token_logps_and_entropies": lambda *_, **__: (log_probs, entropy, None),
        "loss_type": "dapo",
        "importance_sampling_level": "token",
        "beta": 0.0,
        "epsilon_low": 0.2,
        "epsilon_high": 0.28,
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "use_vllm": vllm,
        "vllm_importance_sampling_correction": vllm,
        "max_completion_length": LENGTH,
        "current_gradient_accumulation_steps": 1,
        "use_adaptive_entropy": False,
        "entropy_coef": 0.0,
        "aux_loss_enabled": False,
    }
    for name, value in (usual | settings).items():
        setattr(trainer, name, value)
    trainer._entropy_bonus_enabled = trainer.entropy_coef != 0.0
    inputs = {
        "prompt_ids": torch.zeros(ROWS, 2, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 2),
        "completion_ids": batch.actions,
        "completion_mask": batch.mask,
        "advantages": batch.advantages,
        "old_per_token_logps": batch.log_probs,
        "ref_per_token_logps": batch.reference,
        "num_items_in_batch": batch.mask.sum(),
    }
    if vllm:
        inputs["importance_sampling_ratio"] = batch.weights
    loss = trainer._compute_loss(None, inputs)
    slopes = torch.autograd.grad(loss, (log_probs, entropy), allow_unused=True)
    return loss.detach(), *(torch.zeros_like(log_probs) if slope is None else slope for slope in slopes)


CLIP = ClippedSurrogate(clip_high=0.28)


def ours(log_probs: Tensor, entropy: Tensor, batch: Batch, **changes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The core's: the gradient is what its optimiser has stepped along."""
    usual: dict[str, Any] = {
        "epochs": 1,
        "minibatches": 1,
        "schedule": "constant",
        "normalize_advantages": "none",
        "max_grad_norm": 1e9,
        "entropy_coefficient": 0.0,
        "chunk_size": 4,
        "surrogate": CLIP,
    }
    config = OptimizerConfig(**(usual | changes))
    policy = Table(log_probs.clone(), entropy.clone())
    losses = PolicyLoss(config)(policy.evaluate(batch), batch)[0].detach()
    if config.aggregation == "sequence":
        loss = objective.sequence_means(losses, batch.mask).mean()
    else:
        count = batch.mask.sum() if config.aggregation == "decision" else ROWS * (config.horizon or 1)
        loss = objective.masked_mean(losses, batch.mask, count)
    PolicyOptimizer(policy, config, torch.Generator().manual_seed(0)).update(batch)
    return loss, policy.log_probs.grad.clone(), policy.entropy.grad.clone()


def agree(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, **TOLERANCE)
    assert expected[1].abs().max() > 1e-3


SAME = {
    "grpo": {"aggregation": "sequence"},
    "bnpo": {"aggregation": "decision"},
    "dapo": {"aggregation": "decision"},
    "dr_grpo": {"aggregation": "constant", "horizon": LENGTH},
    "luspo": {"aggregation": "sequence_sum"},
    "cispo": {"surrogate": CISPO(clip=1.0, clip_high=0.78)},
    "sapo": {"surrogate": SAPO(temperatures=(1.0, 1.25)), "aggregation": "sequence"},
    "vespo": {"surrogate": VESPO()},
}
"""The core's settings for every ``loss_type`` of TRL's."""
RATIO = {"token": "decision", "sequence": "sequence"}


def same(loss_type: str, level: str, coefficient: float = 0.0, importance: bool = False, **clip: Any) -> dict[str, Any]:
    """The core's settings for a ``loss_type`` and a level of the ratio, with more settings of the clip."""
    surrogate = SAME[loss_type].get("surrogate", CLIP)
    if loss_type != "vespo":
        surrogate = replace(surrogate, ratio=RATIO[level], **clip)
    leash = ReferenceKL(coefficient=coefficient, importance=importance) if coefficient else None
    return SAME[loss_type] | {"surrogate": surrogate, "reference_kl": leash}


def named(loss_type: str, **settings: Any) -> dict[str, Any]:
    """Settings of TRL's; its "cispo" has a cap on the ratio in place of a clip."""
    return {"loss_type": loss_type} | ({"epsilon_high": 1.78} if loss_type == "cispo" else {}) | settings


@pytest.mark.parametrize("vllm", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("beta", [0.0, 0.1], ids=["", "kl"])
@pytest.mark.parametrize(
    ("loss_type", "level"), [(t, level) for t in SAME for level in RATIO if (t, level) != ("vespo", "sequence")]
)
def test_every_loss_type(loss_type, level, beta, vllm):
    log_probs, entropy, batch = numbers()
    settings = named(loss_type, importance_sampling_level=level, beta=beta)
    changes = same(loss_type, level, beta)
    if loss_type == "vespo" and vllm:  # theirs sums over padding too, where an engine's weights are 1
        batch = batch.replace(weights=torch.where(batch.mask > 0, batch.weights, 1.0))
    expected = theirs(log_probs, entropy, batch, {}, settings, vllm)
    agree(ours(log_probs, entropy, batch if vllm else batch.replace(weights=None), **changes), expected)


@pytest.mark.parametrize("delta", [1.3, 1.5, 4.0])
@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dapo", "dr_grpo", "luspo"])
def test_their_delta_is_the_dual_clip(loss_type, delta):
    found = []
    for seed, level in itertools.product(range(3), ("token", "sequence")):
        log_probs, entropy, batch = numbers(seed)
        settings = named(loss_type, importance_sampling_level=level)
        expected = theirs(log_probs, entropy, batch, {"delta": delta}, settings, False)
        batch = batch.replace(weights=None)
        mine = ours(log_probs, entropy, batch, **same(loss_type, level, dual_clip=delta))
        agree(mine, expected)
        found.append(mine[0] - ours(log_probs, entropy, batch, **same(loss_type, level))[0])
    assert torch.stack(found).abs().max() > 0.0 or delta == 4.0  # the bound was reached


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "cispo", "sapo"])
def test_the_leash_corrected_for_an_older_policy(loss_type, level):
    log_probs, entropy, batch = numbers()
    settings = named(loss_type, importance_sampling_level=level, beta=0.3)
    changes = same(loss_type, level, 0.3, importance=True)
    expected = theirs(log_probs, entropy, batch, {"use_bias_correction_kl": True}, settings, False)
    agree(ours(log_probs, entropy, batch.replace(weights=None), **changes), expected)


def test_the_entropy_bonus_is_the_mean_of_tokens():
    log_probs, entropy, batch = numbers()
    expected = theirs(log_probs, entropy, batch, {}, {"entropy_coef": 0.02}, False)
    agree(ours(log_probs, entropy, batch.replace(weights=None), entropy_coefficient=0.02), expected)
    assert expected[2].abs().max() > 0.0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_learning_where_the_entropy_is_high(share):
    log_probs, entropy, batch = numbers()
    weights = high_entropy(entropy, batch.mask, share)
    assert weights.sum() / batch.mask.sum() == pytest.approx(share, abs=1 / 25)
    expected = theirs(log_probs, entropy, batch, {}, {"top_entropy_quantile": share, "beta": 0.1}, False)
    agree(ours(log_probs, entropy, batch.replace(weights=weights), reference_kl=ReferenceKL(coefficient=0.1)), expected)


@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.3])
def test_sequences_off_the_policy_are_dropped(threshold):
    log_probs, entropy, batch = numbers()
    weights, statistics = off_policy_mask(batch.advantages, log_probs, batch.log_probs, batch.mask, threshold)
    kept = trl.GRPOTrainer.get_off_policy_mask(batch.advantages, log_probs, batch.log_probs, batch.mask, threshold)
    assert torch.equal(weights, kept * batch.mask)
    assert statistics["off_policy_dropped"] == pytest.approx(1.0 - float(weights.sum() / batch.mask.sum()))
    expected = theirs(log_probs, entropy, batch, {}, {"off_policy_mask_threshold": threshold}, False)
    agree(ours(log_probs, entropy, batch.replace(weights=weights)), expected)


TOOL = (
    "{% for m in messages %}{% if m.role == 'tool' %}<user>(result) {{ m.content }}<end>"
    "{% else %}<{{ m.role }}>{{ m.content }}<end>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.mark.parametrize("template", ["", TOOL], ids=["own", "chatml"])
def test_what_stands_between_two_answers(template):
    """``_get_tool_suffix_ids`` of their trainer."""
    from gaitway_language.conversation import Conversation
    from gaitway_language.tokenizer import build_tokenizer

    tokenizer = build_tokenizer(["three and four are 7", "<user> (result) 7\n<assistant>\n"])
    tokenizer.chat_template = template or tokenizer.chat_template
    trainer = trl.GRPOTrainer.__new__(trl.GRPOTrainer)
    trainer.processing_class, trainer.chat_template, trainer.chat_template_kwargs = tokenizer, None, {}
    trainer._is_vlm, trainer._tokenizer, trainer.eos_token_id = False, tokenizer, tokenizer.eos_token_id
    expected = trainer._get_tool_suffix_ids([{"role": "tool", "name": "sum", "content": "three and four are 7"}])
    assert Conversation(tokenizer).reply("three and four are 7") == expected
    assert tokenizer.unk_token_id not in expected


MODES = [(level, rule) for level in ("token", "sequence") for rule in ("truncate", "mask")]


@pytest.mark.parametrize("bounds", [(None, 3.0), (0.7, 1.4), (None, 1.05)])
@pytest.mark.parametrize(("level", "rule"), MODES)
def test_corrections_of_an_engine(level, rule, bounds):
    """Theirs are a part of a method that generates, scores and logs; its lines on the ratio, retyped."""
    _, _, batch = numbers(3)
    engine = batch.log_probs - batch.weights.log()
    low, high = bounds
    gap = (batch.log_probs - engine) * batch.mask
    ratio = (gap.sum(-1, keepdim=True) if level == "sequence" else gap).exp()
    if rule == "truncate":
        expected = ratio.clamp(low, high)
    else:
        outside = (ratio < (-torch.inf if low is None else low)) | (ratio > high)
        expected = ratio.masked_fill(outside, 0.0)
    config = CorrectionConfig(level=level, rule=rule, low=low, high=high)
    found, statistics = importance_weights(batch.log_probs, engine, batch.mask, config)
    torch.testing.assert_close(found, expected * batch.mask, rtol=0.0, atol=1e-15)
    assert 0.0 < statistics["importance_outside"] < 1.0 or bounds == (None, 3.0)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_group_advantages(scale):
    """``scale_rewards`` of their trainer, through its own ``nanstd``."""
    from trl.trainer.utils import nanstd

    rewards = torch.randn(4, 8, dtype=torch.float64)
    deviation = {"group": nanstd(rewards, dim=1)[:, None], "batch": nanstd(rewards), "none": 1.0 - 1e-4}[scale]
    expected = (rewards - torch.nanmean(rewards, dim=1)[:, None]) / (deviation + 1e-4)
    groups = torch.arange(4).repeat_interleave(8)
    found = group_relative(rewards.flatten(), groups, scale)
    torch.testing.assert_close(found, expected.flatten(), rtol=1e-6, atol=0.0)  # theirs counts in float32
    others = (rewards.sum(1, keepdim=True) - rewards) / 7
    torch.testing.assert_close(leave_one_out(rewards.flatten(), groups), (rewards - others).flatten(), **TOLERANCE)
