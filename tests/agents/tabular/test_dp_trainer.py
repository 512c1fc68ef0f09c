"""Planning agents: they sweep until nothing changes, and play as well as they say."""

import io

import pytest
import torch
from gaitway_agents.tabular.dp_trainer import (
    PolicyIterationConfig,
    PolicyIterationTrainer,
    ValueIterationConfig,
    ValueIterationTrainer,
)
from gaitway_agents.tabular.dynamic_programming import evaluate_within
from gaitway_agents.tabular.model import find_model
from gaitway_agents.trainer import evaluate

from .solve import policy_iteration

PLANNERS = [
    pytest.param(ValueIterationTrainer, ValueIterationConfig, id="value iteration"),
    pytest.param(PolicyIterationTrainer, PolicyIterationConfig, id="policy iteration"),
]


def solved(trainer):
    metrics = {}
    while not trainer.finished:
        assert trainer.steps < 5_000
        metrics = trainer.iterate()
    return metrics


@pytest.mark.parametrize(("kind", "config"), PLANNERS)
@pytest.mark.parametrize(
    ("name", "gamma", "value", "in_time", "best"),
    [
        ("FrozenLake-v1", 0.99, 0.542026, 0.7402, 0.7442),
        ("FrozenLake8x8-v1", 1.0, 1.0, 0.8857, 0.9132),
        ("CliffWalking-v1", 1.0, -13.0, None, None),
        ("Taxi-v4", 1.0, 7.93, 7.93, 7.93),
    ],
)
def test_metrics_at_the_end(kind, config, name, gamma, value, in_time, best, gym_envs):
    trainer = kind(gym_envs(name), config(gamma=gamma), seed=0, total_steps=100_000)
    metrics = solved(trainer)
    assert metrics["learn/value_start"] == pytest.approx(value, abs=5e-7)
    assert metrics["learn/residual"] <= 1e-11
    assert ("learn/error_bound" in metrics) == (gamma < 1.0)
    assert metrics.get("learn/return_in_time") == (in_time and pytest.approx(in_time, abs=5e-5))
    assert metrics.get("learn/best_return_in_time") == (best and pytest.approx(best, abs=5e-5))
    assert {"time/environment", "time/policy", "time/learning", "time/total"} <= set(metrics)
    solution = policy_iteration(find_model(trainer.env), gamma)
    assert torch.equal(trainer.policy(), solution.policy)
    torch.testing.assert_close(trainer.values, solution.values, atol=1e-8, rtol=0)


@pytest.mark.parametrize(("kind", "config"), PLANNERS)
def test_every_sweep_gets_closer_and_further_ones_change_nothing(kind, config, gym_envs):
    trainer = kind(gym_envs("FrozenLake-v1"), config(), seed=0)
    truth = policy_iteration(trainer.model, 0.99).values
    distance, steps = float("inf"), 0
    while not trainer.finished:
        metrics = trainer.iterate()
        steps += 1
        now = float((trainer.values - truth).abs().max())
        assert now <= distance + 1e-12 and now <= metrics["learn/error_bound"] + 1e-9
        distance = now
    assert trainer.steps == steps
    values, policy = trainer.values.clone(), trainer.policy().clone()
    trainer.iterate()
    assert trainer.finished and torch.equal(trainer.policy(), policy)
    torch.testing.assert_close(trainer.values, values, atol=1e-11, rtol=0)


def test_policies_on_the_way_are_no_better_than_their_values(gym_envs):
    trainer = ValueIterationTrainer(gym_envs("FrozenLake-v1", is_slippery=False), ValueIterationConfig(), seed=0)
    for known in range(1, 5):
        trainer.iterate()
        success = evaluate_within(trainer.model, trainer.policy(), 100)[-1]
        assert float(trainer.model.start @ success) == 0.0 and int((success > 0).sum()) >= known
    trainer.iterate()
    assert float(trainer.model.start @ evaluate_within(trainer.model, trainer.policy(), 6)[-1]) == 1.0


def test_played_in_the_environment_it_succeeds_as_often_as_it_says(gym_envs):
    trainer = ValueIterationTrainer(gym_envs("FrozenLake-v1"), ValueIterationConfig(), seed=0)
    promised = solved(trainer)["learn/return_in_time"]
    episodes = evaluate(trainer, gym_envs("FrozenLake-v1", 50), 1000, seed=1)
    assert sum(e.ret for e in episodes) / 1000 == pytest.approx(promised, abs=4 * (0.74 * 0.26 / 1000) ** 0.5)
    assert max(e.length for e in episodes) == 100


@pytest.mark.parametrize(("kind", "config"), PLANNERS)
def test_taxi_and_cliff_are_played_optimally(kind, config, gym_envs):
    cliff = kind(gym_envs("CliffWalking-v1"), config(gamma=1.0), seed=0)
    solved(cliff)
    assert [e.ret for e in evaluate(cliff, gym_envs("CliffWalking-v1", 2), 2, seed=0)] == [-13.0, -13.0]
    taxi = kind(gym_envs("Taxi-v4"), config(gamma=1.0), seed=0)
    solved(taxi)
    env = gym_envs("Taxi-v4", 50)
    first = taxi.spaces.states(env.reset(seed=3)[0])
    returns = torch.tensor([e.ret for e in evaluate(taxi, env, 50, seed=3)], dtype=torch.float64)
    torch.testing.assert_close(returns, taxi.values[first], atol=1e-8, rtol=0)


@pytest.mark.parametrize(("kind", "config"), PLANNERS)
@pytest.mark.parametrize("gamma", [0.99, 1.0])
def test_resuming_is_bit_identical(kind, config, gamma, gym_envs):
    def make():
        return kind(gym_envs("FrozenLake-v1"), config(gamma=gamma), seed=0)

    straight = make()
    for _ in range(4):
        straight.iterate()
    file = io.BytesIO()
    torch.save(straight.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    resumed, played = make(), make()
    resumed.load_state_dict(state)
    played.load_policy(state)
    everywhere = {"policy": torch.arange(16)}
    assert torch.equal(played.predict(everywhere)[0], straight.predict(everywhere)[0]) and played.steps == 0
    solved(straight)
    solved(resumed)
    assert resumed.steps == straight.steps and torch.equal(resumed.values, straight.values)
    assert torch.equal(resumed.policy(), straight.policy())


@pytest.mark.parametrize(("kind", "config"), PLANNERS)
def test_a_world_without_a_model_names_those_who_can(kind, config, gym_envs, corridor):
    with pytest.raises(ValueError, match=r"no model .* q-learning and sarsa"):
        kind(gym_envs("Blackjack-v1"), config(), seed=0)
    with pytest.raises(ValueError, match=r"no model .* q-learning and sarsa"):
        kind(corridor(), config(), seed=0)
    with pytest.raises(ValueError, match=r"a table needs Discrete .* ppo or dqn"):
        kind(gym_envs("CartPole-v1"), config(), seed=0)


def test_a_return_without_limit_is_named_in_the_sweep_that_finds_it(table_envs):
    env = table_envs({0: {0: [(1.0, 0, 1.0, False)]}}, [0])
    trainer = PolicyIterationTrainer(env, PolicyIterationConfig(gamma=1.0), seed=0)
    with pytest.raises(ValueError, match="use gamma below 1"):
        solved(trainer)


def test_settings_that_make_no_sense_are_named(gym_envs):
    with pytest.raises(ValueError, match=r"gamma 1\.5"):
        PolicyIterationConfig(gamma=1.5)
    with pytest.raises(ValueError, match=r"tolerance 0.0: must be at least 1e-14"):
        ValueIterationConfig(tolerance=0.0)
    state = ValueIterationTrainer(gym_envs("FrozenLake-v1"), ValueIterationConfig(), seed=0).state_dict()
    with pytest.raises(ValueError, match="values of 16 states, 48 are needed"):
        ValueIterationTrainer(gym_envs("CliffWalking-v1"), ValueIterationConfig(), seed=0).load_state_dict(state)
