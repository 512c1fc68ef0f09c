"""Soft actor-critic in worlds whose answers are known."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from bounded_worlds import Bounded, Choices
from gaitway_agents.core.finite import NonFiniteError
from gaitway_agents.off_policy.config import NetworkConfig, SACConfig
from gaitway_agents.off_policy.presets import FAST_SAC, SAC_PRESETS
from gaitway_agents.off_policy.replay import Transitions
from gaitway_agents.off_policy.sac import SACTrainer
from tiny_worlds import TinyWorld, always, never, signs, zeros
from torch import Tensor

CONFIG = SACConfig(
    learning_rate=1e-2,
    buffer_size=8192,
    learning_starts=256,
    batch_size=64,
    gamma=0.9,
    train_frequency=64,
    gradient_steps=4,
    tau=0.05,
    learn_temperature=False,
    initial_temperature=0.01,
    iteration_steps=1024,
    actor=NetworkConfig(hidden=(24,)),
    critic=NetworkConfig(hidden=(24,)),
)
FAST = dataclasses.replace(
    CONFIG,
    clipped_double=False,
    policy_frequency=2,
    betas=(0.9, 0.95),
    weight_decay=0.001,
    log_std_range=(-5.0, 0.0),
    smooth_log_std=True,
    actor=dataclasses.replace(FAST_SAC.actor, hidden=(24,)),
    critic=dataclasses.replace(FAST_SAC.critic, hidden=(24,)),
)
VARIANTS = {"plain": CONFIG, "fast": FAST, "3 steps": dataclasses.replace(CONFIG, n_step=3)}
UNIT = {"low": [-1.0], "high": [1.0]}


def trained(world: TinyWorld, config: SACConfig = CONFIG, vector_steps: int = 100, seed: int = 0) -> SACTrainer:
    trainer = SACTrainer(world, config, seed=seed)
    while trainer.steps < vector_steps * world.num_envs:
        trainer.iterate()
    return trainer


def values(trainer: SACTrainer, *observations: float, action: float = 0.0) -> list[float]:
    x = torch.tensor(observations)[:, None]
    with torch.no_grad():
        return trainer.critic({"policy": x}, torch.full_like(x, action))[0].tolist()


def actions(trainer: SACTrainer, *observations: float) -> list[float]:
    return trainer.predict({"policy": torch.tensor(observations)[:, None]})[0][:, 0].tolist()


# ---- probes: each world fails for one kind of bug --------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "fast"])
def test_the_value_of_each_observation_and_its_best_action(variant):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, (state - (action - 0.6 * state).square())[:, 0], always(len(state))

    config = dataclasses.replace(VARIANTS[variant], learning_rate=2e-2)
    trainer = trained(Bounded(signs, rule, **UNIT), config)
    assert values(trainer, -1.0, 1.0) == pytest.approx([-1.36, 0.64], abs=0.1)
    assert actions(trainer, -1.0, 1.0) == pytest.approx([-0.6, 0.6], abs=0.15)


@pytest.mark.parametrize("variant", VARIANTS)
def test_discounting(variant):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """Observation 0, then 1; the reward of 1 comes with the second step."""
        return state + 1.0, state[:, 0], state[:, 0] > 0.5

    config = dataclasses.replace(VARIANTS[variant], initial_temperature=1e-6)
    trainer = trained(Bounded(zeros, rule, **UNIT), config, 50)
    assert values(trainer, 0.0, 1.0) == pytest.approx([0.9, 1.0], abs=0.08)


def test_the_value_of_a_constant_reward_does_not_depend_on_the_time_limit():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.ones(len(state)), never(len(state))

    config = dataclasses.replace(CONFIG, gamma=0.5, initial_temperature=1e-6)
    trainer = trained(Bounded(zeros, rule, time_limit=4, **UNIT), config, 50)
    assert values(trainer, 0.0) == pytest.approx([2.0], rel=0.05)


# ---- entropy ---------------------------------------------------------------------------------------------------------


def test_entropy_to_come_has_a_price():
    """No rewards: Q = g (Q + temperature x entropy), and the entropy of a free policy on [-1, 1] is log 2."""

    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.zeros(len(state)), never(len(state))

    config = dataclasses.replace(CONFIG, gamma=0.5, initial_temperature=1.0)
    trainer = trained(Bounded(zeros, rule, **UNIT), config)
    entropy = trainer.iterate()["learn/entropy"]
    assert entropy == pytest.approx(0.693, abs=0.05)
    assert values(trainer, 0.0) == pytest.approx([entropy], abs=0.08)


def test_the_temperature_holds_the_entropy_at_its_target():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action[:, 0] - 0.2).square(), always(len(state))

    config = dataclasses.replace(CONFIG, learn_temperature=True, initial_temperature=1.0, target_entropy=0.3)
    trainer = trained(Bounded(zeros, rule, **UNIT), config)
    assert trainer.iterate()["learn/entropy"] == pytest.approx(0.3, abs=0.1)


def test_the_default_target_is_minus_the_number_of_actions():
    world = Bounded(zeros, lambda s, a, t: (s, a[:, 0], always(len(s))), low=[-1.0] * 3, high=[1.0] * 3)
    assert SACTrainer(world, CONFIG, seed=0).target_entropy == -3.0


# ---- one update ------------------------------------------------------------------------------------------------------


def some_trainer(**changes: object) -> SACTrainer:
    world = Bounded(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), low=[-1.0] * 2, high=[1.0] * 2, num_envs=2)
    trainer = SACTrainer(world, dataclasses.replace(CONFIG, **changes), seed=0)
    with torch.no_grad():
        trainer.target.vector.normal_()
    return trainer


def some_batch(rows: int = 12) -> Transitions:
    return Transitions(
        observations={"policy": torch.randn(rows, 1)},
        actions=2.0 * torch.rand(rows, 2) - 1.0,
        returns=torch.randn(rows),
        discounts=0.9 * (torch.rand(rows) < 0.7),
        next_observations={"policy": torch.randn(rows, 1)},
        rows=torch.arange(rows),
    )


@pytest.mark.parametrize("clipped", [True, False])
def test_targets_row_by_row(clipped):
    trainer, batch = some_trainer(clipped_double=clipped), some_batch()
    noise = torch.randn(12, 2)
    trainer._noise = lambda rows: noise
    found = trainer.target_values(batch, torch.tensor([0.3]))
    for i in range(12):
        following = {"policy": batch.next_observations["policy"][i : i + 1]}
        action, log_prob = trainer.policy.sample(following, noise[i : i + 1])
        first, second = (value.item() for value in trainer.target.network(following, action))
        value = min(first, second) if clipped else (first + second) / 2.0
        expected = batch.returns[i].item() + batch.discounts[i].item() * (value - 0.3 * log_prob.item())
        assert found[i].item() == pytest.approx(expected, abs=1e-5)


def test_the_actors_step_leaves_the_critics_alone():
    trainer, batch = some_trainer(), some_batch()
    trainer.update(batch)
    critics, gradient = trainer.critic_learner.vector.clone(), trainer.critic_learner.gradient.clone()
    actions, log_prob = trainer.policy.sample(batch.observations, torch.randn(12, 2))
    actor = trainer.actor_learner.vector.clone()
    trainer._improve_actor(batch, actions, log_prob, torch.tensor([0.3]))
    assert torch.equal(critics, trainer.critic_learner.vector)
    assert torch.equal(gradient, trainer.critic_learner.gradient)
    assert all(p.requires_grad for p in trainer.critic.parameters())
    assert not torch.equal(actor, trainer.actor_learner.vector)


def test_the_policy_moves_every_other_time():
    trainer = some_trainer(
        policy_frequency=2, learning_starts=0, train_frequency=2, gradient_steps=1, iteration_steps=2
    )
    moved = []
    for _ in range(6):
        before = trainer.actor_learner.vector.clone()
        trainer.iterate()
        moved.append(not torch.equal(before, trainer.actor_learner.vector))
    assert moved == [True, False] * 3


# ---- bounds ----------------------------------------------------------------------------------------------------------


def test_actions_are_stretched_to_their_bounds():
    """The world itself checks every action; the best one is at -1.5 of [-2, 0] and 7 of [1, 10]."""

    def rule(state: Tensor, action: Tensor, age: Tensor):
        error = (action - torch.tensor([-1.5, 7.0])) / torch.tensor([1.0, 4.5])
        return state, -error.square().sum(1), always(len(state))

    trainer = trained(Bounded(zeros, rule, low=[-2.0, 1.0], high=[0.0, 10.0]), CONFIG, 120)
    assert trainer.predict({"policy": torch.zeros(1, 1)})[0][0].tolist() == pytest.approx([-1.5, 7.0], abs=0.7)
    batch = trainer.replay.sample(1000)
    assert -1.0 <= batch.actions.min() < batch.actions.max() <= 1.0
    # The reward tells which action an environment got.
    error = (batch.actions - torch.tensor([-0.5, 1.0 / 3.0])).square().sum(1)
    torch.testing.assert_close(batch.returns, -error, rtol=1e-4, atol=1e-5)


def test_warm_up_actions_are_uniform():
    world = Bounded(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), low=[-1.0, 0.0], high=[1.0, 4.0], num_envs=2000)
    trainer = SACTrainer(world, dataclasses.replace(CONFIG, learning_starts=10**6), seed=0)
    actions = trainer._to_env(trainer._explore({"policy": torch.zeros(2000, 1)}))
    quantiles = actions.quantile(torch.tensor([0.1, 0.5, 0.9]), dim=0)
    torch.testing.assert_close(quantiles[:, 0], torch.tensor([-0.8, 0.0, 0.8]), atol=0.08, rtol=0.0)
    torch.testing.assert_close(quantiles[:, 1], torch.tensor([0.4, 2.0, 3.6]), atol=0.16, rtol=0.0)


def test_what_it_cannot_handle_is_refused_before_anything_starts():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, action[:, 0], always(len(state))

    with pytest.raises(ValueError, match=r"inf.*finite bounds.*RescaleAction"):
        SACTrainer(TinyWorld(zeros, rule), CONFIG, seed=0)
    with pytest.raises(ValueError, match=r"Discrete\(2\).*ppo or dqn"):
        SACTrainer(Choices(zeros, rule), CONFIG, seed=0)
    config = dataclasses.replace(CONFIG, learning_rate_final=0.0)
    with pytest.raises(ValueError, match="learning_rate_final needs total_steps"):
        SACTrainer(Bounded(zeros, rule, **UNIT), config, seed=0)


def test_a_reward_that_is_not_finite_stops_the_run():
    world = Bounded(zeros, lambda s, a, t: (s, torch.full((len(s),), float("inf")), never(len(s))), **UNIT)
    with pytest.raises(NonFiniteError, match=r"the reward of environment 0 is inf"):
        SACTrainer(world, CONFIG, seed=0).iterate()


@pytest.mark.parametrize(
    "change",
    [
        {"tau": 0.0},
        {"initial_temperature": 0.0},
        {"policy_frequency": 0},
        {"log_std_range": (1.0, 1.0)},
        {"betas": (0.9, 1.0)},
        {"weight_decay": -0.1},
        {"max_grad_norm": -1.0},
        {"batch_size": 0},
    ],
    ids=str,
)
def test_a_bad_setting_is_refused_by_name(change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        SACConfig(**change)


# ---- the same run again ----------------------------------------------------------------------------------------------


def make_world() -> Bounded:
    def walk(state: Tensor, action: Tensor, age: Tensor):
        state = 0.9 * state + 0.2 * action
        return state, -state.square()[:, 0], state[:, 0].abs() > 1.5

    return Bounded(signs, walk, time_limit=6, num_envs=8, low=[-2.0], high=[1.0])


def same(a: object, b: object) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit(variant):
    config = dataclasses.replace(
        VARIANTS[variant], buffer_size=512, train_frequency=16, gradient_steps=3, iteration_steps=160
    )
    config = dataclasses.replace(config, learn_temperature=True, learning_rate_final=1e-4)
    trainer = SACTrainer(make_world(), config, seed=0, total_steps=2000)
    for _ in range(4):
        trainer.iterate()
    file = io.BytesIO()
    torch.save(trainer.state_dict(), file)
    file.seek(0)
    resumed = SACTrainer(make_world(), config, seed=77, total_steps=2000)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        trainer.iterate()
        resumed.iterate()
    assert same(trainer.state_dict(), resumed.state_dict())
    assert trainer.updates > 100


def test_the_learning_rate_falls_linearly_to_its_end():
    config = dataclasses.replace(CONFIG, learning_rate_final=1e-3, iteration_steps=128, learning_starts=0)
    trainer = SACTrainer(make_world(), config, seed=0, total_steps=512)
    rates = []
    for _ in range(4):
        trainer.iterate()
        rates.append(trainer.critic_learner.adam.param_groups[0]["lr"])
    assert rates == pytest.approx([7.75e-3, 5.5e-3, 3.25e-3, 1e-3])


def test_normalised_observations_are_learnt_whatever_their_scale():
    def first(n: int, generator: torch.Generator) -> Tensor:
        return 1000.0 + 1e-2 * signs(n, generator)

    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action[:, 0] - 0.6 * (state[:, 0] - 1000.0).sign()).square(), always(len(state))

    trainer = trained(Bounded(first, rule, **UNIT), FAST)
    assert actions(trainer, 999.99, 1000.01) == pytest.approx([-0.6, 0.6], abs=0.25)
    target = trainer.target.network.encoder.parts["policy"].normalizer
    assert target.mean.item() == pytest.approx(1000.0, abs=0.01)


def test_presets():
    assert {"pendulum", "lunar-lander-continuous", "mujoco"} <= SAC_PRESETS.keys()
    assert FAST_SAC.critic.layer_norm
    assert FAST_SAC.train_frequency == 128
