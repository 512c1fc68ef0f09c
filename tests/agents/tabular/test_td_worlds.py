"""Q-learning, SARSA and their variants: what they must find in worlds whose answer is known exactly."""

import pytest
import torch
from gaitway_agents.tabular.dynamic_programming import (
    action_values,
    evaluate_policy,
    evaluate_within,
)
from gaitway_agents.tabular.model import TabularModel, find_model
from gaitway_agents.tabular.td_trainer import QLearningConfig, SarsaConfig, TDControlTrainer
from gymnasium.vector import VectorEnv

from .solve import policy_iteration


def trained_for(env: VectorEnv, config, total_steps: int, seed: int = 0) -> TDControlTrainer:
    trainer = TDControlTrainer(env, config, seed=seed, total_steps=total_steps)
    while trainer.steps < total_steps:
        trainer.iterate()
    return trainer


def policy_of(trainer: TDControlTrainer, states: int) -> torch.Tensor:
    return trainer.predict({"policy": torch.arange(states)})[0]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(QLearningConfig, {}, id="q-learning"),
        pytest.param(QLearningConfig, {"double": True}, id="double q-learning"),
        pytest.param(SarsaConfig, {}, id="sarsa"),
        pytest.param(SarsaConfig, {"expected": True}, id="expected sarsa"),
    ],
)
def test_shortest_path_on_the_lake_that_is_not_slippery(kind, options, gym_envs):
    env = gym_envs("FrozenLake-v1", 16, is_slippery=False)
    trainer = trained_for(env, kind(learning_rate=0.5, exploration_final=0.0, **options), 6_000)
    model = find_model(env)
    values = evaluate_policy(model, policy_of(trainer, 16), 0.99)
    assert float(model.start @ values) == pytest.approx(0.99**5)
    if kind is QLearningConfig:
        assert trainer.value_start() == pytest.approx(0.99**5, abs=1e-4)


def soft(model: TabularModel, epsilon: float) -> TabularModel:
    """The same world for somebody whose hand slips to a random action with probability ``epsilon``."""

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return (1 - epsilon) * x + epsilon * x.mean(1, keepdim=True)

    return TabularModel(
        transitions=mixed(model.transitions),
        rewards=mixed(model.rewards),
        terminal=mixed(model.terminal),
        start=model.start,
    )


@pytest.mark.slow
def test_the_cliff_q_learning_walks_along_the_edge_and_sarsa_keeps_away(gym_envs):
    """Sutton & Barto 2018, example 6.6; what is best for a hand that slips is known exactly."""
    epsilon, env = 0.1, gym_envs("CliffWalking-v1", 32)
    model, options = find_model(env), {"gamma": 1.0, "exploration_initial": epsilon, "exploration_final": epsilon}
    slipping = soft(model, epsilon)
    values = policy_iteration(slipping, 1.0).values
    best, first_action = float(model.start @ values), float(model.start @ action_values(model, values, 1.0).amax(1))
    q = trained_for(env, QLearningConfig(**options, learning_rate=0.5), 15_000)
    sarsa = trained_for(env, SarsaConfig(**options, learning_rate=0.3, learning_rate_final=0.0), 40_000)
    safe, edge = policy_of(sarsa, 48), policy_of(q, 48)

    assert float(model.start @ evaluate_within(model, edge, 100)[-1]) == -13.0
    assert -19.0 <= float(model.start @ evaluate_within(model, safe, 100)[-1]) <= -15.0
    slipping_safe, slipping_edge = (float(slipping.start @ evaluate_policy(slipping, p, 1.0)) for p in (safe, edge))
    assert slipping_edge < 1.5 * best < slipping_safe <= best  # negative numbers
    assert sarsa.value_start() == pytest.approx(first_action, rel=0.06)  # it knows which action it has taken
    assert q.value_start() == pytest.approx(-13.0, abs=0.05)


@pytest.mark.slow
def test_slippery_lake_with_the_default_configuration(gym_envs):
    env = gym_envs("FrozenLake-v1", 32)
    trainer = trained_for(env, QLearningConfig(), 40_000)
    model = find_model(env)
    assert model.time_limit
    success = float(model.start @ evaluate_within(model, policy_of(trainer, 16), model.time_limit)[-1])
    assert success >= 0.70  # 0.7402 is the best for this discount
    episodes = trainer.pop_episodes()
    assert sum(e.ret for e in episodes[-500:]) / 500 >= 0.5  # still exploring
    assert all(1 <= e.length <= 100 and e.ret in (0.0, 1.0) for e in episodes)
    assert [e.steps for e in episodes] == sorted(e.steps for e in episodes) and trainer.pop_episodes() == []


@pytest.mark.slow
def test_taxi_obeys_its_action_mask(gym_envs):
    env = gym_envs("Taxi-v4", 32)
    config = QLearningConfig(learning_rate=0.5, num_steps=50)
    trainer = TDControlTrainer(env, config, seed=0, total_steps=36_000)
    while trainer.steps < 36_000:
        trainer.iterate()
        assert trainer._now is not None
        assert bool(trainer._now["mask"].gather(1, trainer._now["action"][:, None]).all())
    model = find_model(env)
    episodes = trainer.pop_episodes()
    assert min(e.ret for e in episodes) >= -200.0  # forbidden actions alone would cost more
    observation, _ = env.reset(seed=7)
    for _ in range(20):
        action, _ = trainer.predict(observation)
        assert bool(observation["action_mask"].gather(1, action[:, None]).all())
        observation = env.step(action)[0]
    assert trainer.value_start() == pytest.approx(6.33, abs=0.8)
    assert float(model.start @ policy_iteration(model, 0.99).values) == pytest.approx(6.327464, abs=1e-6)


def test_double_learning_is_not_fooled_by_luck(table_envs):
    """Sutton & Barto 2018, example 6.7, sixty times at once: going left loses 0.1 on average."""
    copies, arms = 60, 10
    noisy = [(0.5, 0, 0.9, True), (0.5, 0, -1.1, True)]
    table = {}
    for i in range(copies):
        left = [(1.0, 2 * i + 1, 0.0, False)]
        table[2 * i] = {a: left if a == 0 else [(1.0, 2 * i, 0.0, True)] for a in range(arms)}
        table[2 * i + 1] = dict.fromkeys(range(arms), noisy)
    bias, lefts = {}, {}
    for double in (False, True):
        env = table_envs(table, lambda i: [2 * i], num_envs=copies)
        config = QLearningConfig(
            gamma=1.0, learning_rate=0.1, exploration_initial=0.3, exploration_final=0.3, double=double, num_steps=300
        )
        trainer = TDControlTrainer(env, config, seed=0)
        trainer.iterate()
        bias[double] = float(trainer.tables[0, 0::2, 0].mean())
        lefts[double] = float((trainer.tables.mean(0)[0::2].argmax(1) == 0).double().mean())
    assert bias[False] > 0.02 > 0.0 > bias[True]
    assert lefts[False] > 2 * lefts[True]


def test_states_of_several_numbers(gym_envs):
    """Blackjack: the player's sum, the dealer's card, a usable ace."""
    env = gym_envs("Blackjack-v1", 16)
    trainer = TDControlTrainer(env, QLearningConfig(gamma=1.0), seed=0, total_steps=16_000)
    assert trainer.tables.shape == (1, 32 * 11 * 2, 2)
    grid = torch.cartesian_prod(torch.arange(32), torch.arange(11), torch.arange(2))
    assert torch.equal(trainer.spaces.states({"policy": grid}), torch.arange(704))
    while trainer.steps < 16_000:
        trainer.iterate()
    sticks, _ = trainer.predict({"policy": torch.tensor([[20, 10, 0], [20, 5, 0], [21, 3, 1]])})
    hits, _ = trainer.predict({"policy": torch.tensor([[8, 10, 0], [9, 9, 0], [7, 10, 0]])})
    assert sticks.tolist() == [0, 0, 0] and hits.tolist() == [1, 1, 1]
