"""Advantages of tokens against a slow definition: one sequence at a time, one decision after the other."""

from __future__ import annotations

import pytest
import torch
from gaitway_agents.core.advantage import gae
from gaitway_agents.core.token_advantage import returns_to_go, token_gae, turn_gae
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor


def numbers(seed: int, rows: int, columns: int, density: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, values and a mask with prompts, gaps and padding in any order; what is masked out is poison."""
    g = torch.Generator().manual_seed(seed)
    mask = (torch.rand(rows, columns, generator=g) < density).double()
    rewards, values = torch.randn(2, rows, columns, generator=g, dtype=torch.float64)
    poison = torch.full_like(rewards, float("nan"))
    return torch.where(mask.bool(), rewards, poison), torch.where(mask.bool(), values, poison), mask


def slow_gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    advantages = torch.zeros_like(mask)
    for row in range(len(mask)):
        columns = mask[row].nonzero().flatten().tolist()
        for i, column in enumerate(columns):
            for k in range(i, len(columns)):
                following = float(values[row, columns[k + 1]]) if k + 1 < len(columns) else 0.0
                error = float(rewards[row, columns[k]]) + gamma * following - float(values[row, columns[k]])
                advantages[row, column] += (gamma * lam) ** (k - i) * error
    return advantages


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_token_gae_equals_its_definition(seed, rows, columns, density, gamma, lam):
    rewards, values, mask = numbers(seed, rows, columns, density)
    found = token_gae(rewards, values, mask, gamma, lam)
    torch.testing.assert_close(found, slow_gae(rewards, values, mask, gamma, lam))
    assert found.shape == mask.shape and (found[mask == 0] == 0).all()


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1))
def test_returns_to_go_are_gae_without_a_critic(seed, rows, columns, density, gamma):
    rewards, _, mask = numbers(seed, rows, columns, density)
    torch.testing.assert_close(
        returns_to_go(rewards, mask, gamma), slow_gae(rewards, torch.zeros_like(mask), mask, gamma, 1.0)
    )


def test_by_hand_with_a_tool_between_two_decisions():
    # Decisions in columns 1, 3 and 4; column 2 is what a tool wrote. Errors: 0 + 2/2 - 1 = 0, 0 + 4/2 - 2, 8 - 4.
    mask = tensor([[0.0, 1, 0, 1, 1, 0]])
    values, rewards = tensor([[9.0, 1, 9, 2, 4, 9]]), tensor([[9.0, 0, 9, 0, 8, 9]])
    assert token_gae(rewards, values, mask, 0.5, 0.5).tolist() == [[0.0, 0.25, 0.0, 1.0, 4.0, 0.0]]
    assert returns_to_go(rewards, mask, 0.5).tolist() == [[0.0, 2.0, 0.0, 4.0, 8.0, 0.0]]


def test_the_same_numbers_as_a_rollout_of_robots():
    """Whole sequences are environments side by side, whose episodes end with the rollout."""
    g = torch.Generator().manual_seed(3)
    rewards, values = torch.randn(2, 4, 7, generator=g)
    done = torch.zeros(7, 4, dtype=torch.bool)
    done[-1] = True
    following = torch.cat((values.T[1:], torch.zeros(1, 4)))
    robots = gae(rewards.T, values.T, following, done, done, 0.97, 0.9)
    assert torch.equal(token_gae(rewards, values, torch.ones(4, 7), 0.97, 0.9), robots.T)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_sequences_without_decisions_have_no_advantages(shape):
    nothing = torch.zeros(shape)
    assert torch.equal(token_gae(nothing + 1.0, nothing + 1.0, nothing, 1.0, 1.0), nothing)
    assert torch.equal(returns_to_go(nothing + 1.0, nothing), nothing)


# Three dialogues after the prompt 9. After the reply 7 two go on; after the reply 8, whose turn has two tokens, one.
DIALOGUES = tensor([[9, 1, 2, 7, 1, 0], [9, 3, 8, 8, 1, 2], [9, 1, 1, 7, 4, 0]])
CHOSEN = tensor([[0.0, 1, 1, 0, 1, 0], [0, 1, 0, 0, 1, 1], [0, 1, 1, 0, 1, 0]])
PAID = tensor([[0.0, 0, 0.5, 0, 1, 0], [0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 3, 0]])


def test_turns_are_compared_with_those_in_the_same_place():
    # Returns 1.5, 2 and 3 from the prompt on: 13/6 on average. After the reply 7: 1 and 3. The turn after 8 is alone
    # and keeps the 13/6 of the one before it.
    first = [1.5 - 13 / 6, 2 - 13 / 6, 3 - 13 / 6]
    expected = tensor([[0, first[0], first[0], 0, -1, 0], [0, first[1], 0, 0, first[1], first[1]],
                       [0, first[2], first[2], 0, 1, 0]])  # fmt: skip
    torch.testing.assert_close(turn_gae(PAID, DIALOGUES, CHOSEN, 1.0, 1.0), expected)


def test_without_lambda_a_turn_is_credited_with_the_place_that_it_leads_to():
    found = turn_gae(PAID, DIALOGUES, CHOSEN, 0.5, 0.0)
    values = {9: (1 + 1 + 1.5) / 3, 7: 2.0}
    assert found[0, 1].item() == pytest.approx(0.5 + 0.5 * values[7] - values[9])
    assert found[2, 1].item() == pytest.approx(0.5 * values[7] - values[9])
    assert found[1, 1].item() == pytest.approx(0.5 * values[9] - values[9])  # what follows is alone
    assert found[2, 4].item() == pytest.approx(3.0 - values[7])


def test_the_same_reply_to_another_prompt_is_another_place():
    other = DIALOGUES.clone()
    other[2, 0] = 5
    assert turn_gae(PAID, other, CHOSEN, 1.0, 1.0)[2].tolist() == [0.0] * 6
    assert turn_gae(PAID, other, CHOSEN, 1.0, 1.0)[0, 4].item() == pytest.approx(1 - 1.75)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_single_answers_to_one_prompt_are_compared_with_their_mean(rewards, gamma, lam):
    tokens = tensor([[4, i, 3] for i in range(len(rewards))])
    mask = tensor([[0.0, 1, 1]]).repeat(len(rewards), 1)
    paid = torch.zeros(mask.shape).index_put((torch.arange(len(rewards)), tensor(2)), tensor(rewards))
    expected = (tensor(rewards) - tensor(rewards).mean())[:, None] * mask
    torch.testing.assert_close(turn_gae(paid, tokens, mask, gamma, lam), expected, atol=1e-5, rtol=0)


def test_a_dialogue_without_a_turn_has_no_advantage():
    assert turn_gae(PAID, DIALOGUES, torch.zeros(3, 6), 1.0, 1.0).tolist() == [[0.0] * 6] * 3
