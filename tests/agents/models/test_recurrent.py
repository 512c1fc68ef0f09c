"""The recurrent policy: the same numbers step by step and as sequences, and a task that needs a memory."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.recurrent import GRU, RecurrentActorCritic
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld, never, signs
from torch import Tensor, nn

MODEL = ActorCriticConfig(
    actor_hidden=(16,), critic_hidden=(16,), init_std=0.5, recurrent="gru", memory_size=16, normalize_observations=False
)
CONFIG = PPOConfig(
    num_steps=10,
    gamma=0.9,
    model=MODEL,
    optimizer=OptimizerConfig(epochs=4, minibatches=2, learning_rate=1e-2, schedule="constant", clip_value_loss=False),
)


def test_the_unit_equals_torchs():
    ours, torchs = GRU(5, 7), nn.GRU(5, 7, batch_first=True)
    with torch.no_grad():
        for name, layer in (("ih", ours.input), ("hh", ours.recurrent)):
            layer.weight.copy_(getattr(torchs, f"weight_{name}_l0"))
            layer.bias.copy_(getattr(torchs, f"bias_{name}_l0"))
    x, memory = torch.randn(3, 6, 5), torch.randn(3, 7)
    expected, last = torchs(x, memory[None])
    torch.testing.assert_close(ours.sequence(x, memory, torch.ones(3, 6, 1)), expected)
    for t in range(6):
        memory = ours(x[:, t], memory)
        torch.testing.assert_close(memory, expected[:, t])
    torch.testing.assert_close(memory, last[0])


def test_a_cleared_memory_starts_a_sequence_afresh():
    gru, x = GRU(2, 4), torch.randn(3, 6, 2)
    continues = torch.ones(3, 6, 1)
    continues[1, 4] = 0.0
    found = gru.sequence(x, torch.randn(3, 4), continues)
    afresh = gru.sequence(x[1:2, 4:], torch.zeros(1, 4), torch.ones(1, 2, 1))
    torch.testing.assert_close(found[1:2, 4:], afresh)
    assert not torch.allclose(gru.sequence(x, torch.randn(3, 4), torch.ones(3, 6, 1))[1, 4:], afresh[0])


def recall(n: int, generator: torch.Generator) -> Tensor:
    """State: the cue as shown, whether it is time to answer, and, unseen, the cue."""
    cue = signs(n, generator)
    return torch.cat((cue, torch.zeros(n, 1), cue), 1)


def answer(state: Tensor, action: Tensor, age: Tensor):
    """The cue is shown at first; the action two steps later should repeat it, and the episode is over."""
    last = age == 2
    reward = torch.where(last, -(action[:, 0] - state[:, 2]).square(), torch.zeros(()))
    state = torch.stack((torch.zeros(len(state)), (age == 1).float(), state[:, 2]), 1)
    return state, reward, last


def make_world() -> TinyWorld:
    return TinyWorld(recall, answer, observation_dim=2)


@pytest.mark.parametrize("normalize", [False, True])
def test_replaying_a_rollout_gives_the_probabilities_that_it_was_made_with(normalize):
    """Episodes end at different steps inside the rollouts, and memories reach over from one rollout to the next."""
    model = dataclasses.replace(MODEL, normalize_observations=normalize)
    one = dataclasses.replace(CONFIG.optimizer, epochs=1, minibatches=1)
    trainer = on_policy_trainer(make_world(), dataclasses.replace(CONFIG, model=model, optimizer=one), seed=0)
    for _ in range(3):
        metrics = trainer.iterate()
        assert metrics["learn/kl"] == pytest.approx(0.0, abs=1e-6)
        assert metrics["learn/clip_fraction"] == 0.0


def final_error(trainer: OnPolicyTrainer) -> float:
    """Mean squared error of the deterministic answer over both cues."""
    world, actor = make_world(), trainer.actor()
    observation, _ = world.reset()
    cue, memory = observation["policy"][:, :1], torch.zeros(world.num_envs, MODEL.memory_size)
    with torch.no_grad():
        for _ in range(3):
            inputs = (
                (observation["policy"], memory) if trainer.config.model.recurrent == "gru" else observation.values()
            )
            outputs = actor(*inputs)
            action, memory = outputs if isinstance(outputs, tuple) else (outputs, memory)
            observation, *_ = world.step(action)
    return (action - cue).square().mean().item()


@pytest.mark.slow
def test_only_a_policy_with_a_memory_learns_to_remember():
    errors = {}
    for kind in ("gru", "none"):
        model = dataclasses.replace(MODEL, recurrent=kind)
        trainer = on_policy_trainer(make_world(), dataclasses.replace(CONFIG, model=model), seed=0)
        for _ in range(18):
            trainer.iterate()
        errors[kind] = final_error(trainer)
    assert errors["gru"] < 0.15
    assert errors["none"] > 0.7  # without knowing the cue nothing beats 0, whose error is 1


def test_a_truncated_episode_is_bootstrapped_with_what_was_remembered():
    """The reward is the cue of the first step, for ever: V = cue / (1 - g), also where a time limit cuts."""

    def rule(state: Tensor, action: Tensor, age: Tensor):
        return torch.stack((torch.zeros(len(state)), state[:, 1]), 1), state[:, 1], never(len(state))

    def first(n: int, generator: torch.Generator) -> Tensor:
        return signs(n, generator).expand(n, 2).clone()

    world = TinyWorld(first, rule, time_limit=4)
    config = dataclasses.replace(CONFIG, gamma=0.7, random_episode_start=False)
    trainer = on_policy_trainer(world, config, seed=0)
    for _ in range(40):
        trainer.iterate()
    cue = torch.tensor([[-1.0], [1.0]])
    with torch.no_grad():
        observation = {"policy": cue} | trainer.policy.initial_memory(2)
        assert trainer.policy.value(observation).tolist() == pytest.approx([-1 / 0.3, 1 / 0.3], rel=0.1)
        _, memory = trainer.policy.act(observation)
        later = {"policy": torch.zeros(2, 1)} | memory
        assert trainer.policy.value(later).tolist() == pytest.approx([-1 / 0.3, 1 / 0.3], rel=0.1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_cutting_up_the_work_changes_nothing_but_rounding(precision):
    results = []
    for change in ({}, {"chunk_size": 5}, {"workers": 2}):
        optimizer = dataclasses.replace(CONFIG.optimizer, learning_rate=1e-3, precision=precision, **change)
        trainer = on_policy_trainer(make_world(), dataclasses.replace(CONFIG, optimizer=optimizer), seed=0)
        trainer.iterate()
        results.append(nn.utils.parameters_to_vector(trainer.policy.parameters()).detach())
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-3, atol=1e-4 if precision == "float32" else 3e-3)


def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit():
    trainer = on_policy_trainer(make_world(), CONFIG, seed=0)
    trainer.iterate()
    buffer = io.BytesIO()
    torch.save(trainer.state_dict(), buffer)
    buffer.seek(0)
    resumed = on_policy_trainer(make_world(), CONFIG, seed=5)
    resumed.load_state_dict(torch.load(buffer, weights_only=True))
    for _ in range(2):
        trainer.iterate()
        resumed.iterate()
    pairs = zip(trainer.policy.state_dict().items(), resumed.policy.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for (_, a), b in pairs)


def test_the_exported_step_is_the_policys():
    model = dataclasses.replace(MODEL, normalize_observations=True)
    policy = RecurrentActorCritic(boxes(policy=4, critic=6), box(2), model)
    policy.update_normalizers({"policy": torch.randn(50, 4) * 3, "critic": torch.randn(50, 6)})
    seen = {"policy": torch.randn(3, 4), "critic": torch.randn(3, 6)} | policy.initial_memory(3)
    actor, memory = policy.export_actor(), torch.zeros(3, MODEL.memory_size)
    for _ in range(3):
        (mean, _), remembered = policy.act(seen)
        action, memory = actor(seen["policy"], memory)
        torch.testing.assert_close(action, mean)
        torch.testing.assert_close(memory, remembered["actor_memory"])
        seen |= remembered


def test_every_parameter_belongs_to_one_gradient_group():
    for kind in (ActorCritic, RecurrentActorCritic):
        policy = kind(boxes(policy=4), box(2), MODEL)
        grouped = [id(p) for group in policy.parameter_groups() for p in group]
        assert sorted(grouped) == sorted(id(p) for p in policy.parameters())


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="recurrent 'lstm'"):
        ActorCriticConfig(recurrent="lstm")
    with pytest.raises(ValueError, match="memory_size"):
        ActorCriticConfig(memory_size=0)
    with pytest.raises(ValueError, match=r"symmetry 'canonical' with model\.recurrent 'gru'"):
        PPOConfig(symmetry="canonical", model=MODEL)
    with pytest.raises(ValueError, match=r"optimizer\.minibatches 100: .* 64 rows"):
        optimizer = dataclasses.replace(CONFIG.optimizer, minibatches=100)
        on_policy_trainer(make_world(), dataclasses.replace(CONFIG, optimizer=optimizer), seed=0).iterate()
