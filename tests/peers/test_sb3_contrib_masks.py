"""PPO with masked actions against sb3-contrib's MaskablePPO: parameters after a whole update."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from box_spaces import boxes
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import ACTION_MASK
from gymnasium import spaces

pytest.importorskip("sb3_contrib")
from sb3_contrib import MaskablePPO
from sb3_copy import assert_same_parameters, fill, make_batch, sb3_copy, vector

ROWS, MINIBATCHES = 32, 4


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("unlucky", [False, True], ids=["free", "one option only in some rows"])
@pytest.mark.parametrize("space", [spaces.Discrete(5), spaces.MultiDiscrete([3, 2, 4])], ids=lambda s: type(s).__name__)
def test_parameters_after_an_update(space, unlucky, monkeypatch):
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()
    mask = torch.rand(ROWS, sum(sizes)) < 0.6
    mask[:, np.cumsum([0, *sizes[:-1]])] = True  # always the first option of each choice
    if unlucky:
        mask[: ROWS // 2] = False
        mask[:, np.cumsum([0, *sizes[:-1]])] = True
    seen = spaces.Dict({**boxes(policy=5).spaces, ACTION_MASK: spaces.MultiBinary(sum(sizes))})
    config = ActorCriticConfig(
        actor_hidden=(16, 8), critic_hidden=(16, 8), activation="tanh", normalize_observations=False
    )
    policy = ActorCritic(seen, space, config)
    batch = make_batch(policy, ROWS, mask)
    theirs = sb3_copy(
        MaskablePPO,
        policy,
        space,
        ROWS,
        batch_size=ROWS // MINIBATCHES,
        n_epochs=3,
        learning_rate=3e-3,
        ent_coef=0.01,
    )
    fill(theirs, batch)
    theirs.rollout_buffer.action_masks = mask.double().numpy()[:, None]
    order = torch.randperm(ROWS)
    monkeypatch.setattr(torch, "randperm", lambda n, **_: order)
    monkeypatch.setattr(np.random, "permutation", lambda n: order.numpy())
    settings = OptimizerConfig(
        epochs=3,
        minibatches=MINIBATCHES,
        learning_rate=3e-3,
        schedule="constant",
        entropy_coefficient=0.01,
        value_coefficient=0.5,
        clip_value_loss=False,
        normalize_advantages="minibatch",
        clip_groups=False,
        max_grad_norm=0.5,
        eps=1e-5,
    )
    start = vector(policy)
    statistics = PolicyOptimizer(policy, settings).update(batch)
    theirs.train()
    assert_same_parameters(policy, theirs, 1e-9)
    assert (vector(policy) - start).abs().max() > 1e-3
    logged = theirs.logger.name_to_value
    assert statistics["entropy"] == pytest.approx(-logged["train/entropy_loss"], rel=1e-5)
    assert statistics["clip_fraction"] == pytest.approx(logged["train/clip_fraction"], abs=1e-6)
