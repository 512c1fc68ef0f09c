"""Temporal-difference updates against textbook loops."""

import itertools

import pytest
import torch
from gaitway_agents.tabular.td_control import epsilon_greedy, greedy, move_towards, one_hot, sample, td_targets
from hypothesis import given, settings
from hypothesis import strategies as st

Q = torch.tensor([[1.0, 3.0, 3.0, 0.0], [5.0, 2.0, 1.0, 4.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True, False, True], [False, True, False, True]])


def test_greedy_takes_the_first_of_the_best_allowed():
    assert greedy(Q).tolist() == [1, 0]
    assert greedy(Q, MASK).tolist() == [1, 3]


def test_epsilon_greedy_probabilities():
    assert epsilon_greedy(Q, 0.4).tolist() == [pytest.approx([0.1, 0.4, 0.4, 0.1]), pytest.approx([0.7, 0.1, 0.1, 0.1])]
    masked = epsilon_greedy(Q, 0.4, MASK)
    assert masked[0].tolist() == pytest.approx([0.4 / 3, 0.6 + 0.4 / 3, 0.0, 0.4 / 3])
    assert masked[1].tolist() == pytest.approx([0.0, 0.2, 0.0, 0.8])


def test_sampling_has_the_given_frequencies():
    probabilities = torch.tensor([0.0, 0.5, 0.2, 0.3], dtype=torch.float64)
    drawn = sample(probabilities.expand(40_000, 4), torch.Generator().manual_seed(0))
    shares = drawn.bincount(minlength=4) / len(drawn)
    assert shares[0] == 0.0
    torch.testing.assert_close(shares.double(), probabilities, atol=0.01, rtol=0)  # four standard deviations


def test_targets_of_each_method():
    rewards, terminated = torch.tensor([1.0, 1.0]), torch.tensor([False, True])
    q_learning = td_targets(rewards, terminated, Q, one_hot(greedy(Q), 4), 0.5)
    assert q_learning.tolist() == [1.0 + 0.5 * 3.0, 1.0]
    sarsa = td_targets(rewards, ~terminated, Q, one_hot(torch.tensor([0, 3]), 4), 0.5)
    assert sarsa.tolist() == [1.0, 1.0 + 0.5 * 4.0]
    expected = td_targets(rewards, terminated, Q, epsilon_greedy(Q, 0.4), 0.5)
    assert expected.tolist() == pytest.approx([1.0 + 0.5 * (0.1 * 1 + 0.4 * 3 + 0.4 * 3), 1.0])
    other = Q.flip(1)
    double = td_targets(rewards, ~terminated, other, one_hot(greedy(Q), 4), 0.5)
    assert double[1] == 1.0 + 0.5 * other[1, 0]


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(-5, 5)), min_size=1, max_size=6), st.floats(0.01, 1.0))
@settings(max_examples=50)
def test_simultaneous_updates_are_the_mean_over_all_orders(samples, rate):
    start = [1.0, -2.0, 0.5]
    orders = []
    for order in itertools.permutations(samples):
        table = list(start)
        for entry, target in order:
            table[entry] += rate * (target - table[entry])
        orders.append(table)
    entries, targets = torch.tensor([s[0] for s in samples]), torch.tensor([s[1] for s in samples], dtype=torch.float64)
    table = torch.tensor(start, dtype=torch.float64)
    errors = move_towards(table, entries, targets, rate)
    torch.testing.assert_close(table, torch.tensor(orders, dtype=torch.float64).mean(0), atol=1e-10, rtol=0)
    assert errors.tolist() == pytest.approx([target - start[entry] for entry, target in samples])
