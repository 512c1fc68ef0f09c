"""Encoders: from observations of any space to features, and policies that share one."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.policy import computing
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.encoders import IMAGES, Encoder, ImpalaCNN, NatureCNN
from gaitway_agents.models.heads import ACTION_MASK
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPO_ATARI
from gaitway_agents.source import source_of
from gaitway_agents.vector.adapt import adapt
from gymnasium import spaces
from torch import Tensor, nn

IMAGE = spaces.Box(0, 255, (3, 40, 36), np.uint8)


def encode(space: spaces.Space, x: Tensor, *, normalize: bool = False) -> Tensor:
    encoder = Encoder(spaces.Dict({"policy": space}), ["policy"], normalize=normalize)
    features = encoder({"policy": x})
    assert features.shape == (len(x), encoder.dim)
    return features


# ---- one observation -------------------------------------------------------------------------------------------------


def test_an_image_goes_through_mnihs_network():
    network, x = NatureCNN((3, 42, 37)), torch.randint(256, (5, 3, 42, 37), dtype=torch.uint8)
    plain = nn.Sequential(
        nn.Conv2d(3, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(512), nn.ReLU(),
    )  # fmt: skip
    plain(torch.zeros(1, 3, 42, 37))
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(network.parameters()), plain.parameters())
    torch.testing.assert_close(network(x), plain(x.float() / 255.0), rtol=1e-4, atol=1e-5)
    assert network.dim == 512 and network(x).dtype == torch.float32
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            rows = layer.weight.detach().flatten(1)
            rows = rows if rows.shape[0] <= rows.shape[1] else rows.T
            torch.testing.assert_close(rows @ rows.T, 2.0 * torch.eye(len(rows)), rtol=1e-4, atol=1e-4)
            assert not layer.bias.any()


def test_an_image_goes_through_espeholts_network():
    network, x = ImpalaCNN((4, 84, 84)), torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    assert sum(p.numel() for p in network.parameters()) == 1_089_232  # with 16, 32 and 32 channels
    layers = iter([layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)])

    def convolve(x):
        layer = next(layers)
        return nn.functional.conv2d(x, layer.weight, layer.bias, padding=1)

    found = x.float() / 255.0
    for _ in range(3):
        found = nn.functional.max_pool2d(convolve(found), 3, 2, padding=1)
        for _ in range(2):
            found = found + convolve(convolve(found.relu()).relu())
    assert found.shape == (2, 32, 11, 11)
    last = next(layers)
    expected = nn.functional.linear(found.relu().flatten(1), last.weight, last.bias).relu()
    torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-4)
    assert network(x).shape == (2, network.dim) and not list(layers)


@pytest.mark.parametrize("shape", [(3, 35, 84), (84, 84, 3)], ids=["too small", "channels last"])
@pytest.mark.parametrize("network", IMAGES.values(), ids=IMAGES)
def test_an_image_that_does_not_fit_is_refused(network, shape):
    with pytest.raises(ValueError, match=r"need \(C, H, W\) with H and W of 36 or more"):
        network(shape)


def test_numbers_are_one_hot():
    found = encode(spaces.Discrete(4, start=-1), torch.tensor([-1, 2, 0]))
    assert found.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert found.is_floating_point()


def test_several_numbers_are_one_hot_side_by_side():
    space = spaces.MultiDiscrete([2, 3], start=[0, 5])
    assert encode(space, torch.tensor([[1, 5], [0, 7]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    grid = spaces.MultiDiscrete(np.array([[2, 3], [2, 2]]))
    assert encode(grid, torch.tensor([[[1, 2], [0, 1]]])).tolist() == [[0, 1, 0, 0, 1, 1, 0, 0, 1]]


@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (2, 3), np.float32), spaces.MultiBinary((2, 3))], ids=str)
def test_numbers_of_any_shape_are_flattened(space):
    x = torch.arange(12.0).reshape(2, 2, 3)
    assert torch.equal(encode(space, x), x.flatten(1))
    torch.testing.assert_close(encode(space, x, normalize=True), x.flatten(1) / 1.01)


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Tuple([box(2)]), spaces.Graph(box(1), None)], ids=str)
def test_a_space_that_has_no_features_is_refused_by_name(space):
    with pytest.raises(ValueError, match="observation 'policy' of space"):
        encode(space, torch.zeros(1, 2))


# ---- several ---------------------------------------------------------------------------------------------------------

MIXED = spaces.Dict(
    {
        "arm": box(2),
        "camera": IMAGE,
        "door": spaces.Discrete(3),
        "keys": spaces.MultiDiscrete([2, 2]),
        "lamps": spaces.MultiBinary(2),
    }
)


def mixed_observations(rows: int) -> dict[str, Tensor]:
    return {
        "arm": 5.0 * torch.randn(rows, 2) + 1.0,
        "camera": torch.randint(256, (rows, *IMAGE.shape), dtype=torch.uint8),
        "door": torch.randint(3, (rows,)),
        "keys": torch.randint(2, (rows, 2)),
        "lamps": torch.randint(2, (rows, 2)).float(),
    }


def test_several_observations_are_side_by_side_in_the_order_of_their_names():
    x = mixed_observations(6)
    keys = ["lamps", "camera", "door"]
    encoder = Encoder(MIXED, keys, normalize=False)
    parts = [Encoder(MIXED, [key], normalize=False) for key in keys]
    for key, part in zip(keys, parts, strict=True):
        part.parts[key].load_state_dict(encoder.parts[key].state_dict())
    assert encoder.dim == 2 + 512 + 3
    assert torch.equal(encoder(x), torch.cat([part(x) for part in parts], 1))


@pytest.mark.parametrize("name", ["keys", "values", "type", "training", "forward", "camera.rgb", "left hand"])
def test_an_observation_may_be_called_anything(name):
    space = spaces.Dict({name: box(2), "other": spaces.Discrete(2)})
    policy, x = ActorCritic(space, box(1), SMALL), {name: torch.randn(4, 2), "other": torch.tensor([0, 1, 1, 0])}
    policy.update_normalizers(x)
    again = ActorCritic(space, box(1), SMALL)
    again.load_state_dict(policy.state_dict())
    assert torch.equal(again.value(x), policy.value(x))
    assert not torch.equal(policy.value({**x, name: torch.zeros(4, 2)}), policy.value(x))


def test_only_vectors_are_normalised():
    encoder, x = Encoder(MIXED, list(MIXED), normalize=True), mixed_observations(400)
    before = encoder(x)
    encoder.update(x)
    after = encoder(x)
    vectors = [0, 1, encoder.dim - 2, encoder.dim - 1]  # the arm comes first, the lamps last
    others = [i for i in range(encoder.dim) if i not in vectors]
    assert torch.equal(after[:, others], before[:, others])
    torch.testing.assert_close(after[:, vectors].mean(0), torch.zeros(4), rtol=0.0, atol=1e-5)
    torch.testing.assert_close(after[:, vectors].std(0), torch.ones(4), rtol=0.05, atol=0.0)


def test_an_observation_that_is_normalised_may_be_clipped():
    encoder = Encoder(boxes(policy=1), ["policy"], normalize=True, clip=2.0)
    encoder.update({"policy": torch.randn(1000, 1)})
    assert encoder({"policy": torch.tensor([[9.0], [-9.0]])}).flatten().tolist() == [2.0, -2.0]


# ---- in a policy -----------------------------------------------------------------------------------------------------

SMALL = ActorCriticConfig(actor_hidden=(8,), critic_hidden=(8,), normalize_observations=True)


def test_a_policy_reads_all_there_is_but_the_critics_and_the_mask():
    space = spaces.Dict({**MIXED.spaces, "critic": box(7), ACTION_MASK: spaces.MultiBinary(4)})
    policy = ActorCritic(space, spaces.Discrete(4), SMALL)
    assert policy.actor_encoder.keys == sorted(MIXED)
    assert policy.critic_encoder.keys == ["critic"]
    named = ActorCritic(spaces.Dict({**space.spaces, "policy": box(2)}), spaces.Discrete(4), SMALL)
    assert named.actor_encoder.keys == ["policy"]


def make_batch(policy: ActorCritic, observations: dict[str, Tensor]) -> Batch:
    with torch.no_grad():
        distribution, values = policy.distribution(observations), policy.value(observations)
        actions = policy.head.sample(distribution, torch.Generator().manual_seed(0))
    rows = len(actions)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions),
        advantages=torch.randn(rows),
        values=values,
        returns=values + torch.randn(rows),
        distribution=distribution,
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("change", [{}, {"workers": 2, "chunk_size": 3}, {"precision": "bfloat16"}], ids=str)
def test_an_update_trains_every_part_of_the_encoder(shared, change):
    torch.manual_seed(1)
    config = dataclasses.replace(SMALL, share_encoder=shared)
    policy, x = ActorCritic(MIXED, spaces.Discrete(4), config), mixed_observations(16)
    policy.update_normalizers(x)
    before = [p.detach().clone() for p in policy.parameters()]
    settings = OptimizerConfig(epochs=2, minibatches=2, schedule="constant", **change)
    statistics = PolicyOptimizer(policy, settings, torch.Generator().manual_seed(0)).update(make_batch(policy, x))
    assert all(math.isfinite(value) for value in statistics.values())
    for (name, new), old in zip(policy.named_parameters(), before, strict=True):
        assert (new != old).any(), name


def test_a_shared_encoder_is_one_and_runs_once():
    policy, x = ActorCritic(MIXED, box(2), dataclasses.replace(SMALL, share_encoder=True)), mixed_observations(5)
    assert policy.critic_encoder is policy.actor_encoder
    (group,) = policy.parameter_groups()
    assert len({id(p) for p in group}) == len(group) == len(list(policy.parameters()))
    calls = []
    policy.actor_encoder.register_forward_hook(lambda *_: calls.append(1))
    batch = make_batch(policy, x)
    calls.clear()
    new = policy.evaluate(batch)
    assert len(calls) == 1
    torch.testing.assert_close(new.values, policy.value(x))
    torch.testing.assert_close(new.distribution[0], policy.distribution(x)[0])
    policy.update_normalizers(x)
    assert policy.actor_encoder.parts["arm"].normalizer.count.item() == 5  # not twice


def test_the_gradients_of_both_losses_meet_in_a_shared_encoder():
    policy, x = ActorCritic(boxes(policy=3), box(2), SMALL), {"policy": torch.randn(5, 3)}
    image = ActorCritic(MIXED, box(2), dataclasses.replace(SMALL, share_encoder=True))
    weight = image.actor_encoder.parts["camera"].output[0].weight
    batch = make_batch(image, mixed_observations(5))
    parts = []
    for term in ("log_probs", "values"):
        (gradient,) = torch.autograd.grad(getattr(image.evaluate(batch), term).sum(), weight)
        assert gradient.abs().max() > 0.0
        parts.append(gradient)
    new = image.evaluate(batch)
    (both,) = torch.autograd.grad((new.log_probs + new.values).sum(), weight)
    torch.testing.assert_close(both, sum(parts), rtol=1e-3, atol=1e-5)
    apart = policy.evaluate(make_batch(policy, x))
    for term, network in ((apart.log_probs, policy.critic), (apart.values, policy.actor)):
        assert torch.autograd.grad(term.sum(), network[0].weight, allow_unused=True, retain_graph=True) == (None,)


def test_an_encoder_cannot_be_shared_by_observations_of_two_kinds():
    with pytest.raises(ValueError, match="share_encoder: the critic has an observation of its own"):
        ActorCritic(boxes(policy=3, critic=5), box(2), dataclasses.replace(SMALL, share_encoder=True))
    with pytest.raises(ValueError, match="share_encoder with a recurrent policy"):
        dataclasses.replace(SMALL, share_encoder=True, recurrent="gru")


@pytest.mark.parametrize(
    ("space", "action"), [(MIXED, box(2)), (boxes(policy=3), spaces.Discrete(2))], ids=["observations", "actions"]
)
def test_what_no_robot_takes_is_not_exported(space, action):
    with pytest.raises(ValueError, match="only a policy from the observation 'policy' to continuous actions"):
        ActorCritic(space, action, SMALL).export_actor()


# ---- a policy that sees images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_policy_plays_images_in_the_type_that_it_learns_in(precision):
    """Then the ratio of its first update is that of the same numbers."""

    class Screen(gym.Env):
        observation_space, action_space = spaces.Box(0, 255, (1, 36, 36), np.uint8), spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.integers(256, size=(1, 36, 36), dtype=np.uint8), {}

        def step(self, action):
            return self.reset()[0], 0.0, False, False, {}

    env = adapt(gym.vector.SyncVectorEnv([Screen] * 2, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP))
    optimizer = replace(PPO_ATARI.optimizer, precision=precision, minibatches=1)
    config = replace(PPO_ATARI, num_steps=4, optimizer=optimizer, learning_rate_final=None)
    trainer = OnPolicyTrainer(source_of(env, config), config, seed=0)
    batch = trainer._prepare(trainer.source.collect(0, last=False))
    with torch.no_grad(), computing(torch.device("cpu"), precision):
        same = trainer.policy.evaluate(batch)
    with torch.no_grad(), computing(torch.device("cpu"), "float32" if precision == "bfloat16" else "bfloat16"):
        other = trainer.policy.evaluate(batch)
    assert (same.log_probs - batch.log_probs).abs().max() < 1e-6 < (other.log_probs - batch.log_probs).abs().max()
    assert (same.values - batch.values).abs().max() < 1e-6 < (other.values - batch.values).abs().max()
