"""Soft actor-critic with what robots need: bounds of their own, mirrors, averaged actors, reduced precision, export."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
import torch
from bit_by_bit import differences
from gaitway_agents.off_policy.config import NetworkConfig, SACConfig
from gaitway_agents.off_policy.sac import SACTrainer, restored
from gaitway_agents.symmetry import Symmetry
from tiny_worlds import TinyWorld, never, signs
from torch import Tensor

NETWORK = NetworkConfig(hidden=(24,), activation="silu", layer_norm=True, normalize_observations=True)
CONFIG = SACConfig(
    learning_rate=1e-2,
    buffer_size=8192,
    learning_starts=256,
    batch_size=64,
    gamma=0.9,
    n_step=3,
    train_frequency=64,
    gradient_steps=2,
    tau=0.05,
    initial_temperature=0.01,
    learn_temperature=False,
    iteration_steps=512,
    action_limit=1.5,
    symmetry="canonical",
    actor=NETWORK,
    critic=NETWORK,
)
FLIP = (torch.tensor([[0], [0]]), torch.tensor([[1.0], [-1.0]]))
"""The group of one mirror, which turns the sign of one number."""


def mirror() -> Symmetry:
    return Symmetry({"policy": FLIP}, FLIP, [0])


class Recorded(TinyWorld):
    """A world that remembers what it was last told to do."""

    def step(self, actions: Tensor) -> Any:
        self.told = actions.clone()
        return super().step(actions)


def follow(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best action is the state's own sign times 0.8."""
    return state, -(action - 0.8 * state).square()[:, 0], never(len(state))


def trainer_of(config: SACConfig = CONFIG, seed: int = 0, **more: Any) -> SACTrainer:
    world = Recorded(signs, follow, time_limit=6, num_envs=16)
    more.setdefault("symmetry", None if config.symmetry == "none" else mirror())
    return SACTrainer(world, config, seed=seed, total_steps=4096, **more)


def trained(config: SACConfig = CONFIG, iterations: int = 4) -> SACTrainer:
    trainer = trainer_of(config)
    for _ in range(iterations):
        trainer.iterate()
    return trainer


# ---- bounds ----------------------------------------------------------------------------------------------------------


def test_bounds_are_the_limit_or_the_reach_where_that_is_nearer():
    world = TinyWorld(signs, follow, action_dim=3)
    config = dataclasses.replace(CONFIG, symmetry="none")
    trainer = SACTrainer(world, config, seed=0, reach=torch.tensor([0.4, 1.5, 9.0]))
    assert trainer._to_env(torch.ones(1, 3))[0].tolist() == pytest.approx([0.4, 1.5, 1.5])
    assert trainer._to_env(-torch.ones(1, 3))[0].tolist() == pytest.approx([-0.4, -1.5, -1.5])


def test_an_action_and_its_mirror_image_have_the_same_bounds():
    """Of a mirror that swaps the first two actions, the wider bound is that of both."""
    swap = torch.tensor([[0, 1, 2], [1, 0, 2]])
    group = Symmetry({"policy": FLIP}, (swap, torch.ones(2, 3)), [0])
    world = TinyWorld(signs, follow, action_dim=3)
    trainer = SACTrainer(world, CONFIG, seed=0, symmetry=group, reach=torch.tensor([0.4, 0.6, 0.5]))
    assert trainer.half_width.tolist() == pytest.approx([0.6, 0.6, 0.5])


def test_a_space_without_bounds_needs_a_limit():
    with pytest.raises(ValueError, match=r"inf.*agent\.action_limit"):
        trainer_of(dataclasses.replace(CONFIG, action_limit=None))
    with pytest.raises(ValueError, match="action_limit"):
        SACConfig(action_limit=0.0)


# ---- mirrors ---------------------------------------------------------------------------------------------------------


def test_the_agent_learns_canonical_images_and_environments_get_actions_as_they_are():
    trainer = trained(dataclasses.replace(CONFIG, n_step=1, gamma=0.0, initial_temperature=0.1), 12)
    found = trainer.predict({"policy": torch.tensor([[-1.0], [1.0]])})[0][:, 0]
    assert found.tolist() == pytest.approx([-0.8, 0.8], abs=0.2)
    batch = trainer.replay.sample(500)
    for observations in (batch.observations, batch.next_observations):
        assert (observations["policy"] == 1.0).all()
    # The reward of one step tells which action the world got: as good in the image as where the robot was.
    rows = batch.rows
    expected = -(1.5 * batch.actions[:, 0] - 0.8).square()
    torch.testing.assert_close(trainer.replay.rewards[rows], expected, rtol=1e-4, atol=1e-5)
    assert trainer.env.told.sign().unique().tolist() == [-1.0, 1.0]


def test_actions_of_images_are_images_of_actions():
    trainer = trained(iterations=1)
    x = torch.randn(50, 1)
    there, here = (trainer.predict({"policy": sign * x})[0] for sign in (-1.0, 1.0))
    torch.testing.assert_close(there, -here)


@pytest.mark.parametrize(("setting", "group"), [("canonical", None), ("none", mirror())])
def test_setting_and_group_must_agree(setting, group):
    with pytest.raises(ValueError, match=f"symmetry is '{setting}'"):
        trainer_of(dataclasses.replace(CONFIG, symmetry=setting), symmetry=group)


# ---- the policy that is played ---------------------------------------------------------------------------------------


def test_the_average_moves_by_the_share_of_its_steps():
    config = dataclasses.replace(CONFIG, average_steps=1000, iteration_steps=64)
    trainer = trained(config, 7)
    assert trainer.updates > 0
    before = trainer.mature_policy.state_dict()
    before = {name: value.clone() for name, value in before.items()}
    trainer.iterate()  # one round of 64 steps
    share = 1.0 - torch.tensor(-64 / 1000).exp()
    for name, parameter in trainer.policy.named_parameters():
        expected = before[name] + share * (parameter - before[name])
        torch.testing.assert_close(trainer.mature_policy.state_dict()[name], expected.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("average", [None, 300])
@pytest.mark.parametrize("symmetry", ["canonical", "none"])
def test_an_exported_actor_acts_as_the_trainer(average, symmetry):
    config = dataclasses.replace(CONFIG, average_steps=average, symmetry=symmetry)
    trainer, x = trained(config, 2), torch.randn(40, 1)
    wanted = trainer.predict({"policy": x})[0]
    group = None if symmetry == "none" else mirror()
    policy, actor = restored(trainer.state_dict(), config, groups=("policy",), num_actions=1, symmetry=group)
    for made in (trainer.actor(), actor):
        torch.testing.assert_close(made(x), wanted)
    weights = trainer.mature_policy.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in policy.state_dict().items())
    assert wanted.abs().max() <= 1.5


# ---- updates ---------------------------------------------------------------------------------------------------------


def test_bfloat16_makes_nearly_the_same_update():
    noise = torch.randn(64, 1)
    moved = []
    for precision in ("float32", "bfloat16"):
        trainer = trainer_of(dataclasses.replace(CONFIG, precision=precision, learning_starts=10**6))
        trainer.iterate()
        before = trainer.critic_learner.vector.clone()
        trainer._noise = lambda rows: noise
        trainer.update(trainer.replay.sample(64))
        assert trainer.critic_learner.gradient.dtype == torch.float32
        moved.append((trainer.critic_learner.gradient.clone(), trainer.critic_learner.vector - before))
    (exact, _), (rough, step) = moved
    assert not torch.equal(exact, rough)
    assert torch.cosine_similarity(exact, rough, dim=0) > 0.99
    assert step.abs().max() > 0.0


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit(precision):
    config = dataclasses.replace(CONFIG, precision=precision, average_steps=500, learn_temperature=True)
    trainer = trained(config, 2)
    file = io.BytesIO()
    torch.save(trainer.state_dict(), file)
    file.seek(0)
    resumed = trainer_of(config, seed=77)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        trainer.iterate()
        resumed.iterate()
    assert differences(trainer.state_dict(), resumed.state_dict()) == []
    assert trainer.updates > 40
