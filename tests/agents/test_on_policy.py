"""The on-policy trainer in worlds whose answers are known."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from bounded_worlds import Choices
from gaitway_agents.core.finite import BrokenRolloutError
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from gaitway_agents.symmetry import Symmetry
from gymnasium.vector import AutoresetMode
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld, always, never, signs, zeros
from torch import Tensor

CONFIG = PPOConfig(
    num_steps=8,
    gamma=0.9,
    model=ActorCriticConfig(
        actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False, init_std=0.5, min_std=0.1
    ),
    optimizer=OptimizerConfig(
        epochs=4, minibatches=2, learning_rate=1e-2, schedule="constant", clip_value_loss=False, entropy_coefficient=0.0
    ),
)


def trained(world: TinyWorld, iterations: int, config: PPOConfig = CONFIG, seed: int = 0) -> OnPolicyTrainer:
    trainer = on_policy_trainer(world, config, seed=seed)
    for _ in range(iterations):
        trainer.iterate()
    return trainer


def values(trainer: OnPolicyTrainer, *observations: float) -> list[float]:
    with torch.no_grad():
        return trainer.policy.value({"policy": torch.tensor(observations)[:, None]}).tolist()


def actions(trainer: OnPolicyTrainer, *observations: float) -> list[float]:
    with torch.no_grad():
        return trainer.actor()(torch.tensor(observations)[:, None]).flatten().tolist()


def choices(trainer: OnPolicyTrainer, *observations: float, mask: Tensor | None = None) -> list[int]:
    seen = {"policy": torch.tensor(observations)[:, None]} | ({} if mask is None else {"action_mask": mask})
    return trainer.predict(seen)[0].tolist()


# ---- probes: each world fails for one kind of bug --------------------------------------------------------------------


def test_the_critic_learns_a_function_of_the_observation():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, state[:, 0], always(len(state))

    assert values(trained(TinyWorld(signs, rule), 25), -1.0, 1.0) == pytest.approx([-1.0, 1.0], abs=0.1)


def test_rewards_are_discounted_back_in_time():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """Observation 0, then 1; the reward of 1 comes with the second step."""
        return state + 1.0, state[:, 0], state[:, 0] > 0.5

    assert values(trained(TinyWorld(zeros, rule), 40), 0.0, 1.0) == pytest.approx([0.9, 1.0], abs=0.05)


def test_the_actor_finds_the_best_action_for_each_observation():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action - state).square()[:, 0], always(len(state))

    assert actions(trained(TinyWorld(signs, rule), 40), -1.0, 1.0) == pytest.approx([-1.0, 1.0], abs=0.2)


def test_credit_reaches_an_earlier_action():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """Rule of a delayed reward: an action at observation 0 is observed, offset by 5, and judged two steps later."""
        first = age == 0
        reward = torch.where(age == 2, -(state[:, 0] - 5.0 - 0.7).square(), torch.zeros(()))
        return torch.where(first[:, None], 5.0 + action, state), reward, age == 2

    config = dataclasses.replace(CONFIG, num_steps=12)
    assert actions(trained(TinyWorld(zeros, rule), 50, config), 0.0) == pytest.approx([0.7], abs=0.25)


# ---- choices ---------------------------------------------------------------------------------------------------------


def test_the_actor_finds_the_best_choice_for_each_observation():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """Choice 1 is right for -1 and choice 2 for 1."""
        return state, (action[:, 0] == torch.where(state[:, 0] > 0.0, 2.0, 1.0)).float(), always(len(state))

    assert choices(trained(Choices(signs, rule, actions=4), 30), -1.0, 1.0) == [1, 2]


def test_the_actor_finds_the_best_of_the_choices_that_it_has():
    """The higher the better, but 2 is forbidden where the observation is negative; the world refuses it there."""

    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, action[:, 0], always(len(state))

    world = Choices(signs, rule, actions=3, forbidden=[False, False, True])
    trainer = trained(world, 30)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert choices(trainer, -1.0, 1.0, mask=mask) == [1, 2]
    assert choices(trainer, 1.0, mask=mask[:1]) != [2]  # likeliest, but not allowed
    assert values(trainer, -1.0, 1.0) == pytest.approx([1.0, 2.0], abs=0.15)


# ---- time limits -----------------------------------------------------------------------------------------------------


def test_the_value_of_a_constant_reward_does_not_depend_on_the_time_limit():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.ones(len(state)), never(len(state))

    trainer = trained(TinyWorld(zeros, rule, time_limit=5), 50)
    assert values(trainer, 0.0) == pytest.approx([1.0 / (1.0 - 0.9)], rel=0.03)


def test_termination_is_not_a_time_limit():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.ones(len(state)), age == 4

    discounted = [sum(0.9**k for k in range(left)) for left in range(1, 6)]
    value = values(trained(TinyWorld(zeros, rule), 50), 0.0)[0]
    assert min(discounted) < value < max(discounted)  # the observation does not tell the age: a mean over ages


def test_a_truncated_episode_is_bootstrapped_from_its_final_observation():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """-1 and 1 alternate and are the reward; every single step ends at the time limit."""
        return -state, state[:, 0], never(len(state))

    # A rate that falls to almost nothing lets the noise of the last steps die out.
    config = dataclasses.replace(CONFIG, learning_rate_final=1e-4)
    world = TinyWorld(signs, rule, time_limit=1)
    trainer = on_policy_trainer(world, config, seed=0, total_steps=80 * config.num_steps * world.num_envs)
    for _ in range(80):
        trainer.iterate()
    # V(x) = x + g V(-x). Bootstrapping from x itself would give 10 x, from the next episode's start x, and from
    # nothing x.
    assert values(trainer, -1.0, 1.0) == pytest.approx([-1.0 / 1.9, 1.0 / 1.9], abs=1e-3)


# ---- normalisation, symmetry -----------------------------------------------------------------------------------------


def test_badly_scaled_observations_are_learnt_with_the_normaliser():
    def first(n: int, generator: torch.Generator) -> Tensor:
        return 1000.0 + 1e-2 * signs(n, generator)

    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action[:, 0] - (state[:, 0] - 1000.0).sign()).square(), always(len(state))

    errors = []
    for normalize, iterations in ((True, 40), (False, 10)):
        model = dataclasses.replace(CONFIG.model, normalize_observations=normalize)
        trainer = trained(TinyWorld(first, rule), iterations, dataclasses.replace(CONFIG, model=model))
        found = torch.tensor(actions(trainer, 999.99, 1000.01))
        errors.append((found - torch.tensor([-1.0, 1.0])).abs().max().item())
    assert errors[0] < 0.35 < 0.8 < errors[1]


def mirror_group() -> Symmetry:
    flip = torch.zeros(2, 1, dtype=torch.int64), torch.tensor([[1.0], [-1.0]])
    return Symmetry({"policy": flip}, flip, selectors=(0,))


@pytest.mark.parametrize("mode", ["canonical", "augment", "loss"])
def test_symmetric_learners_solve_a_symmetric_task(mode):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action - state).square()[:, 0], always(len(state))

    config = dataclasses.replace(CONFIG, symmetry=mode)
    trainer = on_policy_trainer(TinyWorld(signs, rule), config, seed=0, symmetry=mirror_group())
    for _ in range(40):
        statistics = trainer.iterate()
    assert ("learn/mirror_loss" in statistics) == (mode == "loss")
    left, right = actions(trainer, -1.0, 1.0)
    assert right == pytest.approx(1.0, abs=0.2)
    assert left == pytest.approx(-right, abs=1e-6 if mode == "canonical" else 0.15)


@pytest.mark.parametrize("mode", ["none", "canonical"])
def test_the_critic_sees_all_final_observations_at_once(mode, monkeypatch):
    """And says of each what it says of the few of one step; episodes end at all times."""
    config = dataclasses.replace(CONFIG, symmetry=mode, num_steps=12)
    world = TinyWorld(signs, walk, time_limit=5, num_envs=16, seed=6)
    group = None if mode == "none" else mirror_group()
    trainer = on_policy_trainer(world, config, seed=0, symmetry=group)
    rollout = trainer.source.collect(0, last=False)
    assert len(rollout.finals) > 8 and len({len(rows) for _, rows, _ in rollout.finals}) > 2
    with torch.no_grad():
        values = trainer.policy.value(rollout.flat_observations()).view(config.num_steps, 16)
        expected = torch.cat((values[1:], trainer.policy.value(rollout.following)[None]))
        for t, rows, final in rollout.finals:
            expected[t, rows] = trainer.policy.value(trainer.source._canonical(final)[0])
        sizes: list[int] = []
        value = trainer.policy.value
        monkeypatch.setattr(trainer.policy, "value", lambda seen: sizes.append(len(seen["policy"])) or value(seen))
        assert (trainer._next_values(rollout, values) - expected).abs().max() <= 1e-6
    assert sizes == [16, sum(len(rows) for _, rows, _ in rollout.finals)]  # no other rows than those that ended


# ---- the same run again ----------------------------------------------------------------------------------------------


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -state.square()[:, 0], state[:, 0].abs() > 2.0


FULL = dataclasses.replace(
    CONFIG,
    model=dataclasses.replace(CONFIG.model, normalize_observations=True),
    optimizer=OptimizerConfig(epochs=2, minibatches=3, clip_value_loss=True, chunk_size=60),
)


def make_world() -> TinyWorld:
    return TinyWorld(signs, walk, time_limit=6, num_envs=32)


def state_bytes(trainer: OnPolicyTrainer) -> bytes:
    """Parameters, statistics, optimiser, random and environment state as one string."""
    buffer = io.BytesIO()
    torch.save(trainer.state_dict(), buffer)
    buffer.seek(0)
    tensors: list[bytes] = []

    def collect(value: object) -> None:
        if isinstance(value, Tensor):
            tensors.append(value.numpy().tobytes())
        elif isinstance(value, dict):
            [collect(v) for v in value.values()]
        elif isinstance(value, list | tuple):
            [collect(v) for v in value]
        else:
            tensors.append(repr(value).encode())

    collect(torch.load(buffer, weights_only=True))
    return b"|".join(tensors)


def test_the_same_seed_gives_the_same_bits():
    first = state_bytes(trained(make_world(), 4, FULL))
    torch.manual_seed(123)  # the run has random numbers of its own
    assert state_bytes(trained(make_world(), 4, FULL)) == first
    assert state_bytes(trained(make_world(), 4, FULL, seed=1)) != first


def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit():
    trainer = trained(make_world(), 3, FULL)
    buffer = io.BytesIO()
    torch.save(trainer.state_dict(), buffer)
    buffer.seek(0)
    resumed = on_policy_trainer(make_world(), FULL, seed=77)
    resumed.load_state_dict(torch.load(buffer, weights_only=True))
    for _ in range(3):
        trainer.iterate()
        resumed.iterate()
    assert resumed.steps == trainer.steps == 6 * 8 * 32
    assert state_bytes(resumed) == state_bytes(trainer)


def test_an_iteration_learns_from_all_environments_and_tells_numbers():
    trainer = on_policy_trainer(make_world(), FULL, seed=0)
    metrics = trainer.iterate()
    assert trainer.steps == 8 * 32
    assert trainer.policy.actor_encoder.parts["policy"].normalizer.count.item() == 8 * 32
    not_numbers = {name: value for name, value in metrics.items() if not isinstance(value, float | int)}
    assert not not_numbers


@pytest.mark.parametrize(
    ("anneal", "expected"),
    [("linear", [1e-2, 7.75e-3, 5.5e-3, 3.25e-3, 1e-3]), ("exponential", [1e-2 * 10 ** (-k / 4) for k in range(5)])],
)
def test_the_learning_rate_falls_to_its_end_and_stays_there(anneal, expected):
    config = dataclasses.replace(CONFIG, learning_rate_final=1e-3, anneal=anneal)
    trainer = on_policy_trainer(make_world(), config, seed=0, total_steps=4 * 8 * 32)
    rates = [trainer.iterate()["learn/learning_rate"] for _ in range(6)]
    assert rates == pytest.approx([*expected, 1e-3])
    sooner = on_policy_trainer(
        make_world(), dataclasses.replace(config, anneal_steps=4 * 8 * 32), seed=0, total_steps=100 * 8 * 32
    )
    assert [sooner.iterate()["learn/learning_rate"] for _ in range(6)] == rates


@pytest.mark.parametrize("final", [None, 0.0])
def test_no_rate_falls_exponentially_to_nothing(final):
    with pytest.raises(ValueError, match="anneal 'exponential' with learning_rate_final"):
        dataclasses.replace(CONFIG, learning_rate_final=final, anneal="exponential")


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_a_reward_that_is_not_finite_stops_the_run_before_it_is_learnt_from():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.full((len(state),), float("nan")), never(len(state))

    trainer = on_policy_trainer(TinyWorld(zeros, rule), CONFIG, seed=0)
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    with pytest.raises(BrokenRolloutError, match="reward of environment 0 is nan"):
        trainer.iterate()
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))


def test_bad_combinations_are_refused():
    world = make_world()
    with pytest.raises(ValueError, match="symmetry is 'none' but a group"):
        on_policy_trainer(world, CONFIG, seed=0, symmetry=mirror_group())
    with pytest.raises(ValueError, match="symmetry is 'augment' but no group"):
        on_policy_trainer(world, dataclasses.replace(CONFIG, symmetry="augment"), seed=0)
    with pytest.raises(ValueError, match="total_steps"):
        on_policy_trainer(world, dataclasses.replace(CONFIG, learning_rate_final=1e-4), seed=0)
    world.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    with pytest.raises(ValueError, match="SAME_STEP"):
        on_policy_trainer(world, CONFIG, seed=0)


@pytest.mark.parametrize(
    "change",
    [{"symmetry": "mirror"}, {"gamma": 1.1}, {"lam": -0.1}, {"learning_rate_final": 1e-4}, {"num_steps": 0}],
    ids=str,
)
def test_a_bad_setting_is_refused_by_name(change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        PPOConfig(**change)
