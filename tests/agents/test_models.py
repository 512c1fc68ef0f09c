"""Networks: what they compute, and that what is exported is what was trained."""

from __future__ import annotations

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.policy import computing
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import gaussian_log_prob
from gaitway_agents.models.linear import MIN_ROWS, Linear
from gaitway_agents.models.mlp import mlp
from torch import nn


@pytest.mark.parametrize("rows", [1, MIN_ROWS, MIN_ROWS + 37])
@pytest.mark.parametrize("sizes", [(48, 512), (5, 1), (1, 7), (128, 12)])
def test_linear_equals_torchs_forward_and_backward(rows, sizes):
    ours, torchs = Linear(*sizes), nn.Linear(*sizes)
    torchs.load_state_dict(ours.state_dict())
    data = torch.randn(rows, sizes[0])
    results = []
    for layer in (ours, torchs):
        x = data.clone().requires_grad_()
        y = layer(x)
        y.sin().sum().backward()
        results.append((y, x.grad, layer.weight.grad, layer.bias.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_linear_in_other_precisions_and_shapes():
    layer = Linear(3, 2)
    x = torch.randn(2, MIN_ROWS, 3)
    torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(MIN_ROWS, 3)).dtype == torch.bfloat16
    assert layer.double()(torch.randn(MIN_ROWS, 3).double()).dtype == torch.float64


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_a_network_of_elus_as_one_operation_equals_its_layers(precision):
    ours = mlp([40, 96, 64, 3], "elu")
    x = torch.randn(MIN_ROWS + 5, 40)
    results = []
    for network in (ours, nn.Sequential(*ours)):
        inputs = x.clone().requires_grad_()
        with torch.autocast("cpu", precision, enabled=precision is not None):
            y = network(inputs)
        assert y.grad_fn.name().startswith("_EluNetwork") == (network is ours)
        results.append((y, *torch.autograd.grad(y.float().sin().sum(), [inputs, *ours.parameters()])))
        with torch.no_grad(), torch.autocast("cpu", precision, enabled=precision is not None):
            assert torch.equal(network(x), y)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if precision is None else {"rtol": 0.05, "atol": 0.3}
    torch.testing.assert_close(*results, **tolerance)


def test_a_network_of_elus_can_be_differentiated_twice():
    ours = mlp([4, 8, 2], "elu")
    x = torch.randn(MIN_ROWS, 4)
    curvatures = []
    for network in (ours, nn.Sequential(*ours)):
        slope = torch.autograd.grad(network(x).square().sum(), list(ours.parameters()), create_graph=True)
        curvatures.append(torch.autograd.grad(sum(part.square().sum() for part in slope), list(ours.parameters())))
    torch.testing.assert_close(*curvatures, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_prepared_features_change_nothing(precision):
    policy = make_policy(clip_observations=2.0)
    batch = Batch(
        observations={"policy": torch.randn(30, 6) * 3, "critic": torch.randn(30, 9) + 1},
        actions=torch.randn(30, 2),
        log_probs=torch.zeros(30),
        advantages=torch.zeros(30),
    )
    policy.update_normalizers(batch.observations)
    with computing(torch.device("cpu"), precision):
        plain, prepared = policy.evaluate(batch), policy.evaluate(policy.prepared(batch))
    assert torch.equal(plain.log_probs, prepared.log_probs)
    assert torch.equal(plain.values, prepared.values)


def test_log_prob_equals_torchs():
    mean, std = torch.randn(6, 4, requires_grad=True), torch.full((4,), 0.3, requires_grad=True)
    actions = torch.randn(6, 4)
    expected = torch.distributions.Normal(mean, std).log_prob(actions).sum(-1)
    torch.testing.assert_close(gaussian_log_prob(mean, std, actions), expected)


def make_policy(**settings: object) -> ActorCritic:
    config = ActorCriticConfig(actor_hidden=(32,), critic_hidden=(16,), **settings)
    return ActorCritic(boxes(policy=6, critic=9), box(2), config)


def test_the_exported_actor_is_the_mean_of_the_policy_with_its_normaliser():
    policy = make_policy()
    policy.update_normalizers({"policy": torch.randn(100, 6) * 4 + 2, "critic": torch.randn(100, 9)})
    x = torch.randn(8, 6)
    mean, _ = policy.distribution({"policy": x})
    torch.testing.assert_close(policy.export_actor()(x), mean)
    assert not torch.allclose(policy.actor(x), mean)


def test_the_actor_exports_with_a_dynamic_batch():
    actor = make_policy().export_actor().eval()
    rows = torch.export.Dim("rows", min=2, max=4 * MIN_ROWS)
    exported = torch.export.export(actor, (torch.randn(8, 6),), dynamic_shapes=({0: rows},))
    for n in (2, 2 * MIN_ROWS):
        x = torch.randn(n, 6)
        torch.testing.assert_close(exported.module()(x), actor(x), rtol=1e-4, atol=1e-5)


def test_the_critic_sees_its_own_group_and_the_actor_only_the_policys():
    policy = make_policy()
    a = {"policy": torch.randn(4, 6), "critic": torch.randn(4, 9)}
    other_critic, other_policy = {**a, "critic": torch.randn(4, 9)}, {**a, "policy": torch.randn(4, 6)}
    assert torch.equal(policy.distribution(a)[0], policy.distribution(other_critic)[0])
    assert torch.equal(policy.value(a), policy.value(other_policy))
    assert not torch.equal(policy.value(a), policy.value(other_critic))
    alone = ActorCritic(boxes(policy=6), box(2), ActorCriticConfig())
    assert alone.value({"policy": torch.randn(4, 6)}).shape == (4,)


def test_the_standard_deviation_keeps_above_its_floor():
    policy = make_policy(init_std=0.5, min_std=0.1)
    policy.head.raw_std.data.fill_(-3.0)
    _, std = policy.distribution({"policy": torch.zeros(1, 6)})
    assert std.flatten().tolist() == pytest.approx([0.1, 0.1])


def test_a_small_output_gain_starts_near_zero():
    x = {"policy": torch.randn(50, 6)}
    assert make_policy(actor_output_gain=0.01).distribution(x)[0].abs().max() < 0.05
    assert make_policy().distribution(x)[0].abs().max() > 0.05


def test_orthogonal_weights_have_their_gains():
    policy = make_policy(orthogonal=True)
    for network, last in ((policy.actor, 0.01), (policy.critic, 1.0)):
        for layer, gain in ((network[0], 2.0**0.5), (network[-1], last)):
            singular = torch.linalg.svdvals(layer.weight)
            torch.testing.assert_close(singular, torch.full_like(singular, gain))
            assert not layer.bias.any()
    assert make_policy().actor[0].bias.any()  # torch's own initialisation


def test_mlp_puts_activations_between_layers_only():
    layers = mlp([3, 4, 5, 2], "relu")
    assert [type(layer) for layer in layers] == [Linear, nn.ReLU, Linear, nn.ReLU, Linear]


@pytest.mark.parametrize(
    "change",
    [
        {"activation": "elo"},
        {"init_std": 0.0},
        {"min_std": -1.0},
        {"unimix": 1.0},
        {"unimix": -0.1},
        {"actor_hidden": (0,)},
        {"critic_hidden": (8, -1)},
    ],
    ids=str,
)
def test_a_bad_setting_is_refused_by_name(change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        ActorCriticConfig(**change)
