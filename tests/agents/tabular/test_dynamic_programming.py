"""Published exact values, a slow reference, every policy by enumeration, and the traps of no discount."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.tabular.dynamic_programming import (
    action_values,
    best_within,
    evaluate_policy,
    evaluate_within,
    greedy_policy,
)
from gaitway_agents.tabular.model import TabularModel, model_from_table, model_of
from hypothesis import given, settings
from hypothesis import strategies as st

from .solve import policy_iteration, value_iteration

EXACT = [
    # id, options, gamma, value of the start
    ("FrozenLake-v1", {}, 0.99, 0.542026),
    ("FrozenLake-v1", {}, 1.0, 14 / 17),
    ("FrozenLake-v1", {"is_slippery": False}, 0.99, 0.99**5),
    ("FrozenLake-v1", {"is_slippery": False}, 1.0, 1.0),
    ("FrozenLake8x8-v1", {}, 0.99, 0.414640),
    ("FrozenLake8x8-v1", {}, 1.0, 1.0),
    ("CliffWalking-v1", {}, 0.99, -12.247898),
    ("CliffWalking-v1", {}, 1.0, -13.0),
    ("CliffWalkingSlippery-v1", {}, 1.0, -64.709176),
    ("Taxi-v4", {}, 0.99, 6.327464),
    ("Taxi-v4", {}, 1.0, 7.93),
]


def model(name: str, **options) -> TabularModel:
    return model_of(gymnasium.make(name, **options))


def at_start(world: TabularModel, values: torch.Tensor) -> float:
    return float(world.start @ values)


@pytest.mark.parametrize(("name", "options", "gamma", "value"), EXACT)
def test_published_values_by_both_methods(name, options, gamma, value):
    world = model(name, **options)
    swept, iterated = value_iteration(world, gamma), policy_iteration(world, gamma)
    assert at_start(world, iterated.values) == pytest.approx(value, abs=5e-7)
    torch.testing.assert_close(swept.values, iterated.values, atol=1e-8, rtol=0)
    assert torch.equal(swept.policy, iterated.policy)
    torch.testing.assert_close(evaluate_policy(world, swept.policy, gamma), iterated.values, atol=1e-8, rtol=0)
    if gamma < 1.0:
        assert swept.error_bound is not None and iterated.error_bound is not None
        distance = float((swept.values - iterated.values).abs().max())
        assert distance <= swept.error_bound + iterated.error_bound < 1e-7


@pytest.mark.parametrize(
    ("name", "gamma", "in_time", "best"),
    [
        ("FrozenLake-v1", 0.99, 0.7402, 0.7442),
        ("FrozenLake8x8-v1", 0.99, 0.8630, 0.9132),
        ("FrozenLake8x8-v1", 1.0, 0.8857, 0.9132),
        ("Taxi-v4", 0.99, 7.93, 7.93),
    ],
)
def test_published_values_within_the_time_limit(name, gamma, in_time, best):
    world = model(name)
    assert world.time_limit
    own = evaluate_within(world, policy_iteration(world, gamma).policy, world.time_limit)
    clocked, _ = best_within(world, world.time_limit)
    assert at_start(world, own[-1]) == pytest.approx(in_time, abs=5e-5)
    assert at_start(world, clocked[-1]) == pytest.approx(best, abs=5e-5)


# ---- slow twins ----------------------------------------------------------------------------------------------------


def loop_values(table, gamma: float) -> list[float]:
    """Optimal values by Gauss-Seidel loops over the outcomes."""
    values = [0.0] * len(table)
    change = 1.0
    while change > 1e-13:
        change = 0.0
        for state, actions in table.items():
            best = max(
                sum(p * (r + gamma * (0.0 if end else values[t])) for p, t, r, end in outcomes)
                for outcomes in actions.values()
            )
            change = max(change, abs(best - values[state]))
            values[state] = best
    return values


@pytest.mark.parametrize("name", ["FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1"])
def test_equal_to_loops_over_outcomes(name):
    env = gymnasium.make(name)
    expected = loop_values(env.unwrapped.P, 0.95)
    np.testing.assert_allclose(value_iteration(model_of(env), 0.95).values, expected, atol=1e-9)
    np.testing.assert_allclose(policy_iteration(model_of(env), 0.95).values, expected, atol=1e-9)


def test_time_limited_success_equals_pushing_probability_forwards():
    env = gymnasium.make("FrozenLake-v1")
    world = model_of(env)
    policy = policy_iteration(world, 0.99).policy
    here, success = world.start.numpy().copy(), 0.0
    for _ in range(100):
        following = np.zeros_like(here)
        for state, mass in enumerate(here):
            for p, t, r, end in env.unwrapped.P[state][int(policy[state])]:
                success += mass * p * r
                following[t] += 0.0 if end else mass * p
        here = following
    assert at_start(world, evaluate_within(world, policy, 100)[-1]) == pytest.approx(success, abs=1e-12)


@st.composite
def worlds(draw) -> TabularModel:
    """Random worlds of few states; every action ends the episode with a probability of at least 0.05."""
    states, actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    transitions = rng.dirichlet(np.full(states, 0.5), (states, actions))
    terminal = rng.choice([0.05, 0.3, 1.0], (states, actions))
    return TabularModel(
        transitions=torch.from_numpy(transitions * (1.0 - terminal[..., None])),
        rewards=torch.from_numpy(rng.choice([-3.0, -1.0, 0.0, 0.0, 1.0, 10.0], (states, actions))),
        terminal=torch.from_numpy(terminal),
        start=torch.from_numpy(rng.dirichlet(np.ones(states))),
    )


@given(worlds(), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
@settings(max_examples=40)
def test_no_policy_is_better_in_any_state(world, gamma):
    solution = policy_iteration(world, gamma)
    every = itertools.product(range(world.num_actions), repeat=world.num_states)
    best = torch.stack([evaluate_policy(world, torch.tensor(policy), gamma) for policy in every]).amax(0)
    torch.testing.assert_close(solution.values, best, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(value_iteration(world, gamma).values, best, atol=1e-9, rtol=1e-9)


@given(worlds(), st.sampled_from([0.5, 1.0]), st.integers(0, 2**16))
@settings(max_examples=40)
def test_evaluation_satisfies_the_bellman_equation(world, gamma, seed):
    policy = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(world.num_actions), world.num_states))
    values = evaluate_policy(world, policy, gamma)
    expected = (policy * action_values(world, values, gamma)).sum(1)
    torch.testing.assert_close(values, expected, atol=1e-10, rtol=1e-10)


@given(worlds(), st.integers(1, 6))
@settings(max_examples=20)
def test_seeing_the_clock_is_at_least_as_good_and_one_step_is_greedy(world, horizon):
    clocked, actions = best_within(world, horizon)
    own = evaluate_within(world, policy_iteration(world, 1.0).policy, horizon)
    assert bool((clocked >= own - 1e-12).all())
    torch.testing.assert_close(clocked[1], world.rewards.amax(1))
    torch.testing.assert_close(world.rewards.gather(1, actions[0][:, None])[:, 0], clocked[1])
    torch.testing.assert_close(evaluate_within(world, actions[0], 1)[1], clocked[1])


# ---- no discount ---------------------------------------------------------------------------------------------------


def test_ties_are_broken_towards_the_goal():
    """Without slipping every step that keeps the goal in reach is best; the first such action bumps into a wall."""
    world = model("FrozenLake-v1", is_slippery=False)
    solution = value_iteration(world, 1.0)
    first = action_values(world, solution.values, 1.0).argmax(1)
    assert at_start(world, evaluate_within(world, first, 100)[-1]) == 0.0
    assert at_start(world, evaluate_within(world, solution.policy, 6)[-1]) == 1.0
    assert at_start(world, evaluate_policy(world, solution.policy, 1.0)) == 1.0


def test_a_policy_that_never_ends_is_evaluated_only_where_that_costs_nothing():
    world = model("CliffWalking-v1")
    up = torch.zeros(48, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"gamma 1: from state 0 the policy never ends"):
        evaluate_policy(world, up, 1.0)
    assert at_start(world, evaluate_policy(world, up, 0.9)) == pytest.approx(-10.0)
    lake = model("FrozenLake-v1", is_slippery=False)
    assert at_start(lake, evaluate_policy(lake, torch.zeros(16, dtype=torch.int64), 1.0)) == 0.0


def test_an_absorbing_state_that_is_not_called_an_end():
    table = {0: {0: [(0.5, 1, 4.0, False), (0.5, 0, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
    world = model_from_table(table, [1.0, 0.0])
    assert policy_iteration(world, 1.0).values.tolist() == pytest.approx([4.0, 0.0])
    assert value_iteration(world, 1.0).values.tolist() == pytest.approx([4.0, 0.0])


def test_staying_out_for_ever_beats_a_goal_that_costs():
    table = {0: {0: [(1.0, 0, -20.0, True)], 1: [(1.0, 0, 0.0, False)]}}
    world = model_from_table(table, [1.0])
    for solution in (value_iteration(world, 1.0), policy_iteration(world, 1.0)):
        assert solution.values.tolist() == [0.0] and solution.policy.tolist() == [1]


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_a_return_without_limit_is_refused(reward):
    world = model_from_table({0: {0: [(1.0, 0, reward, False)]}}, [1.0])
    with pytest.raises(ValueError, match="use gamma below 1"):
        policy_iteration(world, 1.0)
    with pytest.raises(ValueError, match="lower gamma"):
        value_iteration(world, 1.0, max_sweeps=50)
    assert policy_iteration(world, 0.9).values.tolist() == pytest.approx([10.0 * reward])


def test_greedy_policy_takes_the_first_of_equal_actions_with_a_discount():
    table = {0: {a: [(1.0, 0, reward, True)] for a, reward in enumerate([0.0, 1.0, 1.0 + 1e-12, 1.0])}}
    world = model_from_table(table, [1.0])
    assert greedy_policy(world, torch.zeros(1, dtype=torch.float64), 0.9).tolist() == [1]
