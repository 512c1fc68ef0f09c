"""Losses of answers that older weights drew: AReaL's decoupled objective and TRL's asynchronous GRPO.

AReaL needs a cluster's worth of packages, so its numbers were recorded: ``ppo_actor_loss_fn`` of its
``areal/utils/functional`` (commit fbc966d) on the waves of ``test_verl.py``. TRL's loss runs as it is, on a trainer
that was never set up.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gaitway_agents.core import objective
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.losses import PolicyLoss, PolicyLossConfig
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.core.surrogates import ClippedSurrogate
from gaitway_agents.language.corrections import CorrectionConfig, importance_weights
from peers.test_trl_grpo import agree, numbers, ours
from peers.test_verl import ADVANTAGES, ENGINE, MASK, NOW, OLD, gradient
from torch import Tensor

AREAL: dict[str, tuple[CorrectionConfig, float | None, tuple[float, float]]] = {
    "no cap": (CorrectionConfig(high=None), None, (0.2022649422140287, 0.19213573656613547)),
    "cap 1.02": (CorrectionConfig(rule="mask", high=1.02), None, (0.22394076628056647, 0.11910336570049398)),
    "cap 1.02, dual clip": (CorrectionConfig(rule="mask", high=1.02), 1.4, (0.1742556618662452, -0.07404474686387681)),
}


@pytest.mark.parametrize("name", AREAL)
def test_the_decoupled_objective(name):
    """The clip is around the weights at the start of the update; tokens have importance weights."""
    correction, dual_clip, expected = AREAL[name]
    weights, _ = importance_weights(OLD, ENGINE, MASK, correction)
    log_probs = NOW.clone().requires_grad_()
    batch = Batch(
        observations={},
        actions=torch.zeros(4, 5),
        log_probs=OLD,
        advantages=ADVANTAGES,
        mask=MASK,
        weights=weights,
    )
    surrogate = ClippedSurrogate(clip_high=0.28, dual_clip=dual_clip)
    config = PolicyLossConfig(entropy_coefficient=0.0, surrogate=surrogate)
    losses, _ = PolicyLoss(config)(Evaluation(log_probs=log_probs, entropy=torch.zeros(4, 5)), batch)
    found = gradient(objective.masked_mean(losses, MASK, MASK.sum()), log_probs)
    assert found == pytest.approx(expected, rel=1e-12)


def theirs(log_probs: Tensor, entropy: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """``compute_loss`` of TRL's asynchronous trainer on packed tokens, and its gradients."""
    pytest.importorskip("trl")
    from accelerate import Accelerator
    from trl.experimental.async_grpo import AsyncGRPOTrainer

    log_probs, entropy = log_probs.clone().requires_grad_(), entropy.clone().requires_grad_()
    trainer = AsyncGRPOTrainer.__new__(AsyncGRPOTrainer)
    settings: dict[str, Any] = {
        "accelerator": Accelerator(cpu=True),
        "epsilon_low": 0.2,
        "epsilon_high": 0.28,
        "aux_loss_enabled": False,
        "current_gradient_accumulation_steps": 1,
        "_metrics": defaultdict(lambda: defaultdict(list)),
    }
    counted = ("forward_tokens", "trained_tokens", "seq_len_weighted", "samples", "forward_s")
    for name, value in (settings | {f"_step_{name}": 0.0 for name in counted}).items():
        setattr(trainer, name, value)
    rows, length = log_probs.shape
    none = torch.full((1,), -1)
    chosen = batch.mask.flatten().bool()
    everything = torch.ones(1, rows * length)
    inputs = {
        "attention_mask": everything,
        "input_ids": everything.long(),
        "position_ids": everything.long(),
        "shift_labels": everything.long(),
        "token_index": torch.arange(rows * length).where(chosen, -1),
        "old_log_probs": batch.log_probs.flatten(),
        "advantages": batch.advantages.flatten(),
        "segment_id": torch.arange(rows).repeat_interleave(length),
        "tree_kv_index": none,
        "tree_cu_seqlens_q": none,
        "tree_cu_seqlens_k": none,
        "tree_max_seqlens": torch.zeros(1, 2, dtype=torch.long),
        "global_n_tokens": batch.mask.sum()[None],
        "global_n_forward_tokens": torch.ones(1),
        "mean_seq_len": torch.ones(1),
    }
    output = SimpleNamespace(log_probs=log_probs, entropy=entropy)
    loss = trainer.compute_loss(lambda **_: output, inputs)
    (slope,) = torch.autograd.grad(loss, log_probs)
    return loss.detach(), slope, torch.zeros_like(entropy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_asynchronous_grpo(seed):
    """The clip is around the weights that drew each token."""
    log_probs, entropy, batch = numbers(seed)
    batch = batch.replace(weights=None)
    agree(ours(log_probs, entropy, batch, aggregation="decision"), theirs(log_probs, entropy, batch))
