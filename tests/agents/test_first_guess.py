"""A policy's first guess: fitted before its first update, the same in every process, and not again after a resume."""

import io

import numpy as np
import pytest
import torch
from box_spaces import box
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.first_guess import FirstGuess, fit
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.presets import PPOConfig
from gymnasium import spaces
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld

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


def test_a_guess_by_a_table_that_stands_alone_reads_nothing_else():
    seen = torch.rand(200, 3, generator=torch.Generator().manual_seed(1)) * 2.0 - 1.0
    actions = torch.stack((seen[:, 0] * seen[:, 1], seen[:, 2]), 1)
    torch.manual_seed(0)
    config = ActorCriticConfig(actor_hidden=(64, 64), normalize_observations=False)
    made = ActorCritic(spaces.Dict({"policy": box(6)}), box(2), config)
    assert fit(made, FirstGuess((1, 3, 4), actions, seen, alone=True, steps=400)) < 0.05
    observation = torch.randn(200, 6)
    observation[:, [1, 3, 4]] = seen
    np.testing.assert_allclose(made.distribution({"policy": observation})[0].detach(), actions, atol=0.2)
    first = next(layer for layer in made.actor.modules() if isinstance(layer, torch.nn.Linear))
    assert not first.weight[:, [0, 2, 5]].any() and first.weight[:, [1, 3, 4]].any()


def clocks(count, generator):
    """Sine and cosine of any phase."""
    angle = 2.0 * np.pi * torch.rand(count, generator=generator)
    return torch.stack((angle.sin(), angle.cos()), 1)


def indifferent(state, action, age):
    return state.roll(1, 0), torch.zeros(len(state)), torch.zeros(len(state), dtype=torch.bool)


def trainer():
    world = TinyWorld(clocks, indifferent, time_limit=6, num_envs=32, observation_dim=2)
    sine = torch.sin(2.0 * torch.pi * torch.arange(PHASES) / PHASES)[:, None]
    config = PPOConfig(
        num_steps=8, average_steps=1000, model=ActorCriticConfig(actor_hidden=(32,), critic_hidden=(16,)),
        optimizer=OptimizerConfig(learning_rate=1e-6, schedule="constant"),
    )  # fmt: skip
    return on_policy_trainer(world, config, seed=0, guess=FirstGuess((0, 1), sine))


def acts(made):
    with torch.no_grad():
        return made.actor()(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])).flatten().tolist()


def test_a_training_begins_with_it_and_counts_the_rollout_that_it_needs():
    made = trainer()
    assert acts(made) != pytest.approx([1.0, 0.0, -1.0], abs=0.3)
    made.iterate()
    assert acts(made) == pytest.approx([1.0, 0.0, -1.0], abs=0.3)  # and so does the mean over updates
    assert made.steps == 2 * 8 * 32
    made.iterate()
    assert made.steps == 3 * 8 * 32


def test_a_continued_training_is_not_fitted_again():
    first, second = trainer(), trainer()
    first.iterate()
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    for made in (first, second):
        made.iterate()
    assert acts(first) == acts(second) and first.steps == second.steps == 3 * 8 * 32
