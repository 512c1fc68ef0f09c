"""Is the model the world's, and is a world that has none refused?"""

import gymnasium
import pytest
import torch
from gaitway_agents.tabular.model import find_model, model_from_table, model_of
from gaitway_agents.vector.adapt import adapt
from gymnasium.wrappers import TransformReward
from gymnasium.wrappers.vector import ClipReward

COIN = {
    0: {0: [(0.5, 1, 2.0, False), (0.25, 0, -4.0, False), (0.25, 2, 8.0, True)], 1: [(1.0, 0, -1.0, False)]},
    1: {0: [(0.5, 0, 1.0, False), (0.5, 0, 3.0, False)], 1: [(1.0, 2, 5.0, True)]},
    2: {0: [(1.0, 2, 0.0, True)], 1: [(1.0, 2, 0.0, True)]},
}


def test_arrays_say_what_the_table_says():
    model = model_from_table(COIN, [0.25, 0.75, 0.0], 7)
    assert model.transitions[0].tolist() == [[0.25, 0.5, 0.0], [1.0, 0.0, 0.0]]
    assert model.transitions[1].tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert model.rewards.tolist() == [[2.0, -1.0], [2.0, 5.0], [0.0, 0.0]]
    assert model.terminal.tolist() == [[0.25, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert model.start.tolist() == [0.25, 0.75, 0.0] and model.time_limit == 7


def test_chain_of_a_policy():
    model = model_from_table(COIN, [1.0, 0.0, 0.0])
    transitions, rewards, ends = model.chain(torch.tensor([0, 1, 0]))
    assert transitions[0].tolist() == [0.25, 0.5, 0.0] and rewards.tolist() == [2.0, 5.0, 0.0]
    mixed = model.chain(torch.full((3, 2), 0.5, dtype=torch.float64))
    assert mixed[0][0].tolist() == [0.625, 0.25, 0.0] and mixed[1].tolist() == [0.5, 3.5, 0.0]
    assert ends.tolist() == [0.25, 1.0, 1.0]


@pytest.mark.parametrize("name", ["FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4"])
def test_sampled_transitions_agree_with_the_model(name):
    """Random walks in the environment itself never see what the model calls impossible."""
    env = gymnasium.make(name)
    model = model_of(env)
    env.action_space.seed(0)
    state, _ = env.reset(seed=0)
    assert model.start[state] > 0
    for _ in range(500):
        action = int(env.action_space.sample())
        following, reward, terminated, truncated, _ = env.step(action)
        outcomes = env.unwrapped.P[state][action]
        assert (model.terminal[state, action] if terminated else model.transitions[state, action, following]) > 0
        assert min(o[2] for o in outcomes) <= reward <= max(o[2] for o in outcomes)
        state = following if not (terminated or truncated) else env.reset()[0]


def test_found_through_the_adapter_with_its_time_limit(gym_envs):
    model = find_model(gym_envs("FrozenLake8x8-v1"))
    assert (model.num_states, model.num_actions, model.time_limit) == (64, 4, 200)
    assert find_model(gym_envs("FrozenLake8x8-v1", max_episode_steps=50)).time_limit == 50
    assert find_model(gym_envs("CliffWalking-v1")).time_limit is None


def test_worlds_without_a_true_model_are_refused(gym_envs, corridor):
    with pytest.raises(ValueError, match=r"Blackjack.* no model .* q-learning and sarsa"):
        find_model(gym_envs("Blackjack-v1"))
    with pytest.raises(ValueError, match=r"fickle passenger .* q-learning and sarsa"):
        find_model(gym_envs("Taxi-v4", fickle_passenger=True))
    with pytest.raises(ValueError, match=r"TransformReward changes .*FrozenLake"):
        find_model(gym_envs("FrozenLake-v1", wrappers=[lambda env: TransformReward(env, lambda reward: 2 * reward)]))
    with pytest.raises(ValueError, match=r"ClipReward changes"):
        inner = gymnasium.make_vec("FrozenLake-v1", num_envs=1, vectorization_mode="sync")
        find_model(adapt(ClipReward(inner, -1.0, 0.5)))
    with pytest.raises(ValueError, match=r"Corridor.* no model .*SyncVectorEnv"):
        find_model(corridor())


def test_wrong_probabilities_are_named():
    broken = {0: {0: [(1.0, 0, 0.0, True)], 1: [(0.7, 0, 0.0, False), (0.2, 0, 0.0, True)]}}
    with pytest.raises(ValueError, match=r"action 1 in state 0 have probability 0\.9"):
        model_from_table(broken, [1.0])
    with pytest.raises(ValueError, match=r"first state add up to 0\.5"):
        model_from_table({0: {0: [(1.0, 0, 0.0, True)]}}, [0.5])
    with pytest.raises(ValueError, match="not finite"):
        model_from_table({0: {0: [(1.0, 0, float("nan"), True)]}}, [1.0])


def test_too_large_a_world_is_refused_before_memory_is_taken():
    cell = {0: [(1.0, 0, 0.0, True)]}
    with pytest.raises(ValueError, match=r"20,000 states .* q-learning"):
        model_from_table(dict.fromkeys(range(20000), cell), [1.0])
