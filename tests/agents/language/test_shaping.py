"""Rewards of answers: the details of "The N+ implementation details of RLHF with PPO" (Huang et al. 2024), one each."""

import pytest
import torch
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.samples import Samples, join
from gaitway_agents.language.shaping import overlong, shaped_rewards, token_rewards, whitened


def samples(rewards=(1.0, 2.0), finished=(True, False), sizes=(2, 4), prompt=2):
    """Sequences with answers of some sizes behind a prompt of two tokens."""
    width = prompt + max(sizes)
    mask = torch.zeros(len(sizes), width)
    for row, size in enumerate(sizes):
        mask[row, prompt : prompt + size] = 1.0
    return Samples(
        tokens=torch.arange(len(sizes) * width).reshape(len(sizes), width),
        lengths=prompt + torch.tensor(sizes),
        mask=mask,
        log_probs=-mask,
        groups=torch.arange(len(sizes)),
        finished=torch.tensor(finished),
        rewards=torch.tensor(rewards),
        turn_rewards=torch.zeros_like(mask),
        staleness=torch.zeros_like(mask, dtype=torch.long),
        parts={"all": torch.tensor(rewards)},
    )


def shaped(**settings):
    return shaped_rewards(samples(), PolicyGradientConfig(**settings)).tolist()


def test_an_answer_without_an_end_may_earn_a_fixed_reward_whatever_it_says():
    assert shaped(missing_eos_reward=-1.0) == [1.0, -1.0]


def test_an_answer_without_an_end_may_lose_a_penalty():
    assert shaped(missing_eos_penalty=0.5) == [1.0, 1.5]


def test_rewards_stay_as_they_are_unless_asked():
    assert shaped() == [1.0, 2.0]


def test_long_answers_are_punished_softly():
    # DAPO's equation 13 with a maximum of 20 tokens and a cache of 4.
    assert overlong(torch.tensor([10.0, 16.0, 17.0, 19.0, 20.0, 30.0]), 16, 20).tolist() == [0, 0, 0.25, 0.75, 1, 1]
    assert shaped(overlong_start=2, overlong_end=6) == [1.0, 1.5]


def test_the_score_is_at_the_last_token_and_the_penalty_at_every_one():
    mask = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    penalties = torch.full((2, 4), 0.1)
    found = token_rewards(torch.tensor([1.0, 2.0]), mask, penalties)
    torch.testing.assert_close(found, torch.tensor([[0.0, -0.1, 0.9, 0.0], [0.0, 0.0, -0.1, 1.9]]))


def test_the_score_is_at_the_last_token_that_the_policy_chose_between_those_of_tools():
    mask = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]])
    assert token_rewards(torch.tensor([3.0]), mask).tolist() == [[0, 0, 0, 3.0, 0, 0]]


def test_what_a_turn_earned_stays_at_its_end():
    mask, earned = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0]]), torch.tensor([[0.0, 2.0, 0.0, 0.5, 0.0]])
    assert token_rewards(torch.tensor([3.0]), mask, None, earned).tolist() == [[0, 2.0, 0, 1.0, 0]]


def test_a_sequence_without_a_chosen_token_earns_nothing():
    assert token_rewards(torch.tensor([3.0]), torch.zeros(1, 4)).tolist() == [[0, 0, 0, 0]]


def test_whitened_rewards_keep_their_mean_and_have_unit_deviation():
    mask = torch.tensor([[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    found = whitened(torch.tensor([[9.0, -0.1, 0.3, 2.0], [9.0, 0.5, 1.0, 9.0]]), mask)
    kept = found[mask.bool()]
    assert float(kept.mean()) == pytest.approx(0.74, abs=1e-6) and float(kept.std()) == pytest.approx(1.0, abs=1e-6)
    assert not found[~mask.bool()].any()


def test_joined_samples_keep_their_groups_apart_and_widen():
    one, two = samples(), samples(sizes=(1, 6))
    both = join([one, two])
    assert both.groups.tolist() == [0, 1, 2, 3] and both.tokens.shape == (4, 8)
    assert both.sizes.tolist() == [2, 4, 1, 6]
    assert not both.mask[:2, 6:].any() and torch.equal(both.tokens[2:], two.tokens)
    assert torch.equal(both.rows(torch.tensor([3])).parts["all"], two.parts["all"][1:])
