"""Trust-region updates: the mathematics in float64, what a line search may do, and who may touch what."""

from __future__ import annotations

import copy
import dataclasses

import gymnasium
import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch, concatenate
from gaitway_agents.core.critic import CriticConfig
from gaitway_agents.core.finite import NonFiniteError
from gaitway_agents.core.trust_region import TrustRegionConfig, TrustRegionOptimizer, conjugate_gradient
from gaitway_agents.models import linear
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.presets import PPOConfig
from hypothesis import given
from hypothesis import strategies as st
from on_policy import on_policy_trainer
from probe_worlds import GAMMA, every_probe, solve
from tiny_worlds import TinyWorld, never, signs
from torch import Tensor, nn

MODEL = ActorCriticConfig(
    actor_hidden=(8, 6), critic_hidden=(8,), activation="tanh", init_std=0.7, log_std=True, normalize_observations=False
)
CONFIG = TrustRegionConfig(critic=CriticConfig(epochs=1))
SPACES = {
    "box": box(3),
    "discrete": gymnasium.spaces.Discrete(4),
    "multi-discrete": gymnasium.spaces.MultiDiscrete([2, 3]),
}
each_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


@pytest.fixture
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_policy(
    space: gymnasium.Space = SPACES["box"], config: ActorCriticConfig = MODEL, seed: int = 0
) -> ActorCritic:
    torch.manual_seed(seed)
    return ActorCritic(boxes(policy=5, critic=7), space, config).to(torch.get_default_dtype())


@torch.no_grad()
def make_batch(policy: ActorCritic, rows: int = 64, seed: int = 1) -> Batch:
    """Batch as a rollout of ``policy`` would leave it, with advantages that prefer some actions to others."""
    generator = torch.Generator().manual_seed(seed)
    observations = {name: torch.randn(rows, n, generator=generator) for name, n in (("policy", 5), ("critic", 7))}
    distribution = policy.distribution(observations)
    actions = policy.head.sample(distribution, generator)
    preference = actions.reshape(rows, -1).to(distribution[0].dtype).sum(1) * observations["policy"][:, 0]
    values = policy.value(observations)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions),
        advantages=preference + 0.3 * torch.randn(rows, generator=generator),
        values=values,
        returns=values + torch.randn(rows, generator=generator),
    )


def flat(parameters: list[nn.Parameter]) -> Tensor:
    return torch.cat([p.detach().flatten() for p in parameters])


def actor(policy: ActorCritic) -> Tensor:
    return flat(policy.parameter_groups()[0])


def critic(policy: ActorCritic) -> Tensor:
    return flat(policy.parameter_groups()[1])


# ---- the step --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 8), st.integers(0, 1000))
def test_conjugate_gradients_solve_a_system_in_as_many_steps_as_it_has_unknowns(size, seed):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    matrix = root @ root.T + torch.eye(size, dtype=torch.float64)
    target = torch.randn(size, generator=generator, dtype=torch.float64)
    found = conjugate_gradient(lambda v: matrix @ v, target, size)
    torch.testing.assert_close(matrix @ found, target, rtol=1e-4, atol=1e-4)


def test_conjugate_gradients_of_nothing_are_nothing():
    assert not conjugate_gradient(lambda v: v, torch.zeros(3), 10).any()


def fisher(policy: ActorCritic, batch: Batch) -> Tensor:
    """Mean over the batch of E[score score^T], the expectation worked out from each distribution's closed form."""
    parameters = policy.parameter_groups()[0]

    def gradient(value: Tensor) -> Tensor:
        parts = torch.autograd.grad(value, parameters, retain_graph=True, materialize_grads=True)
        return torch.cat([part.flatten() for part in parts])

    distribution = policy.distribution(batch.observations)
    if len(distribution) == 2:
        mean, std = distribution
        weights = [1.0 / std[0].square(), 2.0 / std[0].square()]  # the Fisher information of a normal distribution
    else:
        mean, weights = distribution[0].exp(), None
    total = torch.zeros(len(actor(policy)), len(actor(policy)))
    for row in range(len(batch)):
        for i in range(mean.shape[1]):
            if weights is None:
                score = gradient(distribution[0][row, i])
                total += mean[row, i].detach() * torch.outer(score, score)
            else:
                for parameter, weight in zip(distribution, weights, strict=True):
                    slope = gradient(parameter[row, i])
                    total += weight[i].detach() * torch.outer(slope, slope)
    return total / len(batch)


@pytest.mark.usefixtures("_float64")
@each_space
def test_the_longest_step_is_the_natural_gradient_up_to_the_edge_of_the_region(space):
    policy = make_policy(space)
    batch = make_batch(policy, rows=24)
    config = dataclasses.replace(
        CONFIG, cg_iterations=300, target_kl=1e-7, normalize_advantages="none", line_search_steps=1
    )
    before = actor(policy)
    curvature = fisher(policy, batch) + config.cg_damping * torch.eye(len(before))
    log_probs = policy.head.log_prob(policy.distribution(batch.observations), batch.actions)
    gradient = torch.autograd.grad(
        (batch.advantages * log_probs).mean(), policy.parameter_groups()[0], materialize_grads=True
    )
    direction = torch.linalg.solve(curvature, torch.cat([g.flatten() for g in gradient]))
    expected = direction * (2.0 * config.target_kl / (direction @ curvature @ direction)).sqrt()
    statistics = TrustRegionOptimizer(policy, config).update(batch)
    assert statistics["step"] == 1.0
    error = actor(policy) - before - expected
    assert error.norm() < 1e-4 * expected.norm()


@given(
    space=st.sampled_from(list(SPACES)),
    seed=st.integers(0, 10_000),
    log_kl=st.floats(-4, 2),
    steps=st.integers(1, 6),
    shrink=st.floats(0.1, 0.9),
    damping=st.floats(0, 1),
)
def test_a_step_keeps_to_the_region_and_improves_or_nothing_changes(space, seed, log_kl, steps, shrink, damping):
    """Both measured apart from the optimiser: with torch's distributions, and by the parameters' bits."""
    policy = make_policy(SPACES[space], seed=seed)
    batch = make_batch(policy, seed=seed + 1)
    config = dataclasses.replace(
        CONFIG, target_kl=10.0**log_kl, line_search_steps=steps, line_search_shrink=shrink, cg_damping=damping
    )
    before, old = actor(policy), torchs(policy, batch)
    statistics = TrustRegionOptimizer(policy, config).update(batch)
    if statistics["step"] == 0.0:
        assert torch.equal(actor(policy), before)
        assert statistics["kl"] == 0.0
        return
    assert statistics["step"] in [pytest.approx(shrink**k) for k in range(steps)]
    new = torchs(policy, batch)
    kl = sum(torch.distributions.kl_divergence(a, b).reshape(64, -1).sum(1) for a, b in zip(old, new, strict=True))
    assert kl.mean().item() <= config.target_kl * (1.0 + 1e-4) + 1e-6
    assert statistics["kl"] == pytest.approx(kl.mean().item(), rel=1e-3, abs=1e-6)
    ratio = (log_prob(new, batch) - log_prob(old, batch)).exp()
    advantages = (batch.advantages - batch.advantages.mean()) / batch.advantages.std()
    improvement = ((ratio - 1.0) * advantages).mean().item()
    assert improvement > -1e-6
    assert statistics["policy_loss"] == pytest.approx(-improvement, abs=1e-4)


@torch.no_grad()
def torchs(policy: ActorCritic, batch: Batch) -> list[torch.distributions.Distribution]:
    """The policy's distributions as torch's."""
    parameters = policy.distribution(batch.observations)
    if len(parameters) == 2:
        return [torch.distributions.Normal(*parameters)]
    parts = parameters[0].split(policy.head.sizes, 1)
    return [torch.distributions.Categorical(logits=part) for part in parts]


def log_prob(distributions: list[torch.distributions.Distribution], batch: Batch) -> Tensor:
    if len(distributions) == 1:
        return distributions[0].log_prob(batch.actions).reshape(len(batch), -1).sum(1)
    return sum(d.log_prob(batch.actions[:, i]) for i, d in enumerate(distributions))


@each_space
def test_the_line_search_does_both(space):
    """In a small region the second-order model of the KL holds, and the first step is taken; in a large one not."""
    for target, accepted in ((1e-3, True), (1.0, False)):
        policy = make_policy(space)
        before = actor(policy)
        config = dataclasses.replace(CONFIG, target_kl=target, line_search_steps=1, cg_damping=1e-3)
        statistics = TrustRegionOptimizer(policy, config).update(make_batch(policy))
        assert statistics["step"] == float(accepted)
        assert torch.equal(actor(policy), before) != accepted


def test_without_advantages_the_policy_stays():
    policy = make_policy()
    before = actor(policy)
    batch = make_batch(policy)
    statistics = TrustRegionOptimizer(policy, CONFIG).update(batch.replace(advantages=torch.ones(len(batch))))
    assert statistics["step"] == 0.0
    assert torch.equal(actor(policy), before)


# ---- the critic and the rest of the policy ---------------------------------------------------------------------------


def test_policy_and_critic_learn_apart():
    policy = make_policy()
    optimizer = TrustRegionOptimizer(policy, CONFIG)
    batch = make_batch(policy)
    policy_before, critic_before = actor(policy), critic(policy)
    optimizer._improve(batch)
    assert torch.equal(critic(policy), critic_before)
    moved = actor(policy)
    assert not torch.equal(moved, policy_before)
    optimizer.critic.update(batch)
    assert torch.equal(actor(policy), moved)
    assert not torch.equal(critic(policy), critic_before)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("chunk_size", [4096, 7])
def test_the_critic_takes_the_steps_of_adam(chunk_size):
    """Two epochs of three minibatches, against a loop of a few lines with the same order of rows."""
    policy, other = make_policy(), make_policy()
    batch = make_batch(policy, rows=50)
    config = CriticConfig(epochs=2, minibatches=3, learning_rate=1e-2, chunk_size=chunk_size)
    optimizer = TrustRegionOptimizer(
        policy, dataclasses.replace(CONFIG, critic=config), torch.Generator().manual_seed(5)
    )
    statistics = optimizer.update(batch)
    generator, losses = torch.Generator().manual_seed(5), []
    adam = torch.optim.Adam(other.parameter_groups()[1], 1e-2)
    for _ in range(2):
        for rows in torch.randperm(50, generator=generator).tensor_split(3):
            part = batch[rows]
            loss = (other.value(part.observations) - part.returns).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(loss.item())
    torch.testing.assert_close(critic(policy), critic(other), rtol=1e-9, atol=1e-9)
    assert statistics["value_loss"] == pytest.approx(sum(losses) / 6)


def test_masked_rows_do_not_count():
    expected, found = make_policy(), make_policy()
    batch, padding = make_batch(expected, rows=40), make_batch(expected, rows=24, seed=9)
    padding = padding.replace(advantages=torch.full((24,), 1e3), returns=torch.full((24,), 1e3))
    masked = concatenate([batch.replace(mask=torch.ones(40)), padding.replace(mask=torch.zeros(24))])
    first = TrustRegionOptimizer(expected, CONFIG).update(batch)
    second = TrustRegionOptimizer(found, CONFIG).update(masked)
    torch.testing.assert_close(actor(found), actor(expected), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(critic(found), critic(expected), rtol=1e-4, atol=1e-5)
    assert second == pytest.approx(first, rel=1e-2, abs=1e-5)


def test_onednns_products_can_be_differentiated_twice(monkeypatch):
    """Layers and batches as large as those that leave the ordinary operator."""
    results = []
    for onednn in (True, False):
        monkeypatch.setattr(linear, "ONEDNN", onednn and linear._has_onednn())
        layer = linear.Linear(128, 128)
        torch.manual_seed(3)
        nn.init.normal_(layer.weight, std=0.1)
        nn.init.zeros_(layer.bias)
        x = torch.randn(512, 128, requires_grad=True)
        (slope,) = torch.autograd.grad(layer(x).tanh().square().mean(), layer.weight, create_graph=True)
        results.append(torch.autograd.grad(slope.square().sum(), (x, layer.weight, layer.bias)))
    for a, b in zip(*results, strict=True):
        assert a.abs().max() > 0.0
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-8)


def test_wide_networks_take_the_same_step_with_and_without_onednn(monkeypatch):
    wide = dataclasses.replace(MODEL, actor_hidden=(128, 128))
    steps = []
    for onednn in (True, False):
        monkeypatch.setattr(linear, "ONEDNN", onednn and linear._has_onednn())
        policy = make_policy(config=wide)
        before = actor(policy)
        assert TrustRegionOptimizer(policy, CONFIG).update(make_batch(policy, rows=512))["step"] == 1.0
        steps.append(actor(policy) - before)
    torch.testing.assert_close(*steps, rtol=1e-2, atol=1e-5)


def test_the_first_bad_tensor_is_named_and_nothing_is_stepped():
    policy = make_policy()
    before = actor(policy)
    batch = make_batch(policy)
    batch.advantages[3] = torch.inf
    with pytest.raises(NonFiniteError, match=r"batch\.advantages is not finite"):
        TrustRegionOptimizer(policy, dataclasses.replace(CONFIG, normalize_advantages="none")).update(batch)
    assert torch.equal(actor(policy), before)
    batch = make_batch(policy)
    batch.returns[3] = torch.nan
    before = critic(policy)
    with pytest.raises(NonFiniteError, match=r"batch\.returns is not finite"):
        TrustRegionOptimizer(policy, CONFIG).update(batch)
    assert torch.equal(critic(policy), before)


def test_a_saved_optimizer_continues_bit_for_bit():
    policy, other = make_policy(), make_policy()
    first = TrustRegionOptimizer(policy, CONFIG, torch.Generator().manual_seed(0))
    first.update(make_batch(policy))
    second = TrustRegionOptimizer(other, CONFIG, torch.Generator().manual_seed(1))
    other.load_state_dict(policy.state_dict())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.critic.generator.set_state(first.critic.generator.get_state())
    batch = make_batch(policy, seed=4)
    for optimizer in (first, second):
        optimizer.update(batch)
    assert torch.equal(flat(list(policy.parameters())), flat(list(other.parameters())))


# ---- in the trainer --------------------------------------------------------------------------------------------------

TRAINING = PPOConfig(
    num_steps=8,
    gamma=GAMMA,
    model=dataclasses.replace(MODEL, actor_hidden=(16,), critic_hidden=(16,), init_std=0.5, min_std=0.1),
    optimizer=TrustRegionConfig(
        target_kl=0.1, cg_damping=0.01, critic=CriticConfig(epochs=4, minibatches=2, learning_rate=2e-2)
    ),
)


@every_probe
def test_probes(probe):
    solve(probe, TRAINING, 30)


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -state.square()[:, 0], never(len(state))


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_every_update_of_a_training_stays_in_the_region(recurrent):
    model = dataclasses.replace(TRAINING.model, recurrent=recurrent, memory_size=8)
    config = dataclasses.replace(TRAINING, model=model, learning_rate_final=0.0)
    trainer = on_policy_trainer(TinyWorld(signs, walk, time_limit=6), config, seed=0, total_steps=6 * 8 * 64)
    steps = [trainer.iterate() for _ in range(6)]
    assert all(m["learn/kl"] <= 0.1 for m in steps)
    assert max(m["learn/kl"] for m in steps) > 0.01
    assert steps[3]["learn/learning_rate"] == pytest.approx(1e-2)


def test_what_does_not_go_with_a_trust_region_is_refused():
    for change, name in (
        ({"model": dataclasses.replace(TRAINING.model, share_encoder=True)}, "share_encoder"),
        ({"recompute_advantages": True}, "recompute_advantages"),
    ):
        with pytest.raises(ValueError, match=name):
            dataclasses.replace(TRAINING, **change)
    shared = ActorCritic(boxes(policy=5), box(3), dataclasses.replace(MODEL, share_encoder=True))
    with pytest.raises(ValueError, match="share_encoder"):
        TrustRegionOptimizer(shared, CONFIG)


@pytest.mark.parametrize(
    "change",
    [
        {"target_kl": 0.0},
        {"cg_iterations": 0},
        {"cg_damping": -0.1},
        {"line_search_steps": 0},
        {"line_search_shrink": 1.0},
        {"normalize_advantages": "minibatch"},
    ],
    ids=str,
)
def test_a_bad_setting_is_refused_by_name(change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        TrustRegionConfig(**change)


@pytest.mark.parametrize(
    "change", [{"epochs": 0}, {"minibatches": 0}, {"learning_rate": 0.0}, {"chunk_size": 0}], ids=str
)
def test_a_bad_setting_of_the_critic_is_refused_by_name(change):
    (name,) = change
    with pytest.raises(ValueError, match=rf"{name} 0"):
        CriticConfig(**change)
