"""The gradient that is written out: autograd's own numbers, where it is used and where it is not."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from gaitway_agents import presets
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.finite import NonFiniteError
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.surrogates import CISPO, ClippedSurrogate
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import ACTION_MASK
from gymnasium import spaces

CONFIG = OptimizerConfig(
    epochs=3, minibatches=4, learning_rate=1e-2, schedule="constant", normalize_advantages="minibatch", eps=1e-5,
    surrogate=ClippedSurrogate(clip=0.1, clip_high=0.15), entropy_coefficient=0.02, value_clip=0.3, max_grad_norm=0.5,
)  # fmt: skip
MODEL = ActorCriticConfig(actor_hidden=(16, 8), critic_hidden=(12,), init_std=0.7)
ROWS = 70


def box(dim: int) -> spaces.Box:
    return spaces.Box(-float("inf"), float("inf"), (dim,))


def policy_of(actions: spaces.Space, model: ActorCriticConfig = MODEL, *, mask: bool = False) -> ActorCritic:
    torch.manual_seed(3)
    seen = {"policy": box(5), "critic": box(7)}
    if mask:
        seen[ACTION_MASK] = spaces.MultiBinary(int(actions.n))
    return ActorCritic(spaces.Dict(seen), actions, model)


@torch.no_grad()
def batch_of(policy: ActorCritic, rows: int = ROWS, *, mask: bool = False) -> Batch:
    """Decisions of a policy that has since moved, so that ratios and values are beyond their clips."""
    torch.manual_seed(4)
    observations = {"policy": torch.randn(rows, 5), "critic": torch.randn(rows, 7)}
    if mask:
        observations[ACTION_MASK] = torch.rand(rows, policy.head.num_outputs) < 0.7
        observations[ACTION_MASK][:, 0] = True
    parameters = policy.distribution(observations)
    actions = policy.head.sample(parameters, torch.Generator().manual_seed(5))
    values = policy.value(observations)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(parameters, actions) + 0.2 * torch.randn(rows),
        advantages=torch.randn(rows),
        values=values + 0.4 * torch.randn(rows),
        returns=values + torch.randn(rows),
    )


def updated(policy: ActorCritic, config: OptimizerConfig, batch: Batch, *, by_autograd: bool) -> dict[str, float]:
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(6))
    assert optimizer._written_out is not None
    if by_autograd:
        optimizer._written_out = None
    else:
        optimizer._accumulate = None  # a call would fail
    return optimizer.update(batch)


@pytest.fixture
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


ACTIONS = {"numbers": (box(3), False), "choices": (spaces.Discrete(4), False), "masked": (spaces.Discrete(4), True)}
CHANGES = {
    "as it is": {},
    "values free": {"clip_value_loss": False, "value_coefficient": 0.25},
    "no entropy": {"entropy_coefficient": 0.0},
    "one minibatch": {"minibatches": 1, "normalize_advantages": "batch"},
    "gradients clipped as one": {"clip_groups": False, "max_grad_norm": 0.05},
    "rmsprop": {"algorithm": "rmsprop"},
    "decay": {"weight_decay": 0.1},
}


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("actions", ACTIONS)
def test_an_update_is_that_by_autograd(actions, change, activation):
    space, mask = ACTIONS[actions]
    config = dataclasses.replace(CONFIG, **CHANGES[change])
    model = dataclasses.replace(MODEL, activation=activation)
    written, recorded = (policy_of(space, model, mask=mask) for _ in range(2))
    batch = batch_of(written, mask=mask)
    found = updated(written, config, batch, by_autograd=False)
    expected = updated(recorded, config, batch, by_autograd=True)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)  # these are float32
    assert found["clip_fraction"] > 0.1
    for (name, mine), theirs in zip(written.named_parameters(), recorded.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11, msg=name)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("log_std", [False, True])
@pytest.mark.parametrize("min_std", [1e-3, 0.9], ids=["free", "held"])
def test_the_deviation_moves_as_by_autograd(log_std, min_std):
    """Numbers' deviation has a limit, beyond which it has no gradient."""
    model = dataclasses.replace(MODEL, log_std=log_std, min_std=min_std)
    written, recorded = (policy_of(box(3), model) for _ in range(2))
    batch = batch_of(written)
    updated(written, CONFIG, batch, by_autograd=False)
    updated(recorded, CONFIG, batch, by_autograd=True)
    torch.testing.assert_close(written.head.raw_std, recorded.head.raw_std, rtol=1e-9, atol=1e-11)
    assert bool((written.head.raw_std != policy_of(box(3), model).head.raw_std).any()) == (min_std < 0.7)


@pytest.mark.parametrize("preset", ["PPO_CARTPOLE", "PPO_CLASSIC", "PPO_MUJOCO", "PPO_CHEETAH", "A2C", "VPG"])
def test_presets_of_small_tasks_use_it(preset):
    config = getattr(presets, preset)
    policy = policy_of(spaces.Discrete(2) if preset == "PPO_CARTPOLE" else box(2), config.model)
    optimizer = PolicyOptimizer(policy, dataclasses.replace(config.optimizer, minibatches=1, critic=None))
    assert optimizer._written_out is not None
    assert optimizer._written_out.is_for(policy.prepared(batch_of(policy)), ROWS)


@pytest.mark.parametrize(
    ("config", "model"),
    [
        ({"schedule": "adaptive"}, {}),
        ({"max_kl": 0.1}, {}),
        ({"workers": 2}, {}),
        ({"precision": "bfloat16"}, {}),
        ({"surrogate": CISPO()}, {}),
        ({"surrogate": ClippedSurrogate(dual_clip=3.0)}, {}),
        ({"surrogate": ClippedSurrogate(ratio="sequence")}, {}),
        ({}, {"activation": "silu"}),
        ({}, {"dreamer": presets.PPO_DREAMER.model.dreamer}),
    ],
    ids=str,
)
def test_whatever_is_not_written_out_is_left_to_autograd(config, model):
    policy = policy_of(box(3), dataclasses.replace(MODEL, **model))
    assert PolicyOptimizer(policy, dataclasses.replace(CONFIG, **config))._written_out is None


def test_losses_that_were_added_and_several_choices_are_left_to_autograd():
    several = policy_of(spaces.MultiDiscrete([3, 2]))
    assert PolicyOptimizer(several, CONFIG)._written_out is None
    policy = policy_of(box(3))
    added = {"small": lambda policy, new, batch: new.log_probs}
    assert PolicyOptimizer(policy, CONFIG, added=added)._written_out is None


def test_batches_with_more_in_them_are_left_to_autograd():
    policy = policy_of(box(3))
    written, batch = PolicyOptimizer(policy, CONFIG)._written_out, policy.prepared(batch_of(policy))
    assert written.is_for(batch, ROWS)
    ones = torch.ones(ROWS)
    more = [batch.replace(mask=ones), batch.replace(weights=ones), batch.replace(distribution=(ones, ones))]
    assert not any(written.is_for(each, ROWS) for each in [*more, batch.replace(returns=None), batch_of(policy)])
    assert not written.is_for(batch, 10**6)


def test_a_number_that_is_not_finite_stops_before_the_step():
    policy = policy_of(box(3))
    batch = batch_of(policy)
    batch.returns[7] = float("nan")
    optimizer = PolicyOptimizer(policy, dataclasses.replace(CONFIG, minibatches=1))
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    with pytest.raises(NonFiniteError, match="returns is not finite"):
        optimizer.update(batch)
    assert all(torch.equal(mine, was) for mine, was in zip(policy.parameters(), before, strict=True))


def test_a_checkpoint_continues_bit_for_bit():
    """Loading writes into the parameters and the optimiser's moments, which the written-out passes hold views of."""
    policy, other = policy_of(box(3)), policy_of(box(3))
    batch = batch_of(policy)
    straight = PolicyOptimizer(policy, CONFIG, torch.Generator().manual_seed(0))
    straight.update(batch)
    saved = {"policy": policy.state_dict(), "optimizer": straight.state_dict()}
    saved = torch.load(_written(saved), weights_only=True)
    straight.generator.manual_seed(1)
    straight.update(batch)
    resumed = PolicyOptimizer(other, CONFIG, torch.Generator().manual_seed(1))
    other.load_state_dict(saved["policy"])
    resumed.load_state_dict(saved["optimizer"])
    resumed.update(batch)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(other.parameters(), policy.parameters(), strict=True))


def _written(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file
