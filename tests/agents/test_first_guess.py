"""A policy's first guess: fitted before its first update, the same in every process, and not again after a resume."""

import numpy as np
import pytest
import torch
from box_spaces import box
from gaitway_agents.first_guess import FirstGuess, fit
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gymnasium import spaces

PHASES = 20
GUESS = FirstGuess((3, 4), torch.stack((torch.linspace(-1.0, 1.0, PHASES), torch.zeros(PHASES)), 1))


def policy():
    torch.manual_seed(0)
    made = ActorCritic(spaces.Dict({"policy": box(6)}), box(2), ActorCriticConfig(actor_hidden=(64, 64)))
    seen = torch.randn(500, 6) * 3.0 + 1.0
    seen[:, 3:5] *= 0.2
    made.update_normalizers({"policy": seen})
    return made


def seen(phase, generator=None):
    observation = torch.randn(1, 6, generator=generator)
    angle = 2.0 * np.pi * phase / PHASES
    observation[0, 3:5] = torch.tensor([np.sin(angle), np.cos(angle)])
    return {"policy": observation}


def test_the_mean_action_follows_the_clock_whatever_else_is_seen():
    made = policy()
    missing = fit(made, GUESS)
    assert missing < 0.15
    for phase in range(2, PHASES - 2):  # at the ends the actions jump
        mean = made.distribution(seen(phase))[0]
        np.testing.assert_allclose(mean[0].detach(), GUESS.actions[phase], atol=0.35)
    resting = {"policy": torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 1.0]])}
    np.testing.assert_allclose(made.distribution(resting)[0][0].detach(), [0.0, 0.0], atol=0.2)


def test_every_process_fits_alike_and_draws_from_no_common_generator():
    first, second = policy(), policy()
    torch.manual_seed(1)
    fit(first, GUESS)
    before = torch.random.get_rng_state()
    fit(second, GUESS)
    assert torch.equal(before, torch.random.get_rng_state())
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_critic_and_noise_are_left_alone():
    made, untouched = policy(), policy()
    fit(made, GUESS)
    kept = {n: p for n, p in untouched.named_parameters() if not n.startswith("actor.")}
    assert kept and all(torch.equal(p, dict(made.named_parameters())[n]) for n, p in kept.items())
    assert all(p.grad is None or not p.grad.any() for p in made.parameters())


@pytest.mark.parametrize("column", [0, 5])
def test_the_clock_may_stand_anywhere(column):
    guess = FirstGuess((column, 3), GUESS.actions)
    assert fit(policy(), guess) < 0.15
