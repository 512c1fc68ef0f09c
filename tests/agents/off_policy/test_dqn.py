"""Deep Q-networks in worlds whose answers are known."""

from __future__ import annotations

import dataclasses
import io

import gymnasium
import pytest
import torch
from bounded_worlds import Bounded, Choices
from gaitway_agents.core.finite import NonFiniteError
from gaitway_agents.off_policy.config import DQNConfig, NetworkConfig
from gaitway_agents.off_policy.dqn import DQNTrainer
from gaitway_agents.off_policy.presets import DQN_PRESETS
from gaitway_agents.off_policy.replay import Transitions
from gymnasium.vector import AutoresetMode
from tiny_worlds import always, never, signs, zeros
from torch import Tensor, nn

CONFIG = DQNConfig(
    learning_rate=1e-2,
    buffer_size=4096,
    learning_starts=256,
    batch_size=64,
    gamma=0.9,
    train_frequency=64,
    gradient_steps=4,
    target_update_interval=256,
    exploration_fraction=0.5,
    exploration_final=0.1,
    iteration_steps=1024,
    model=NetworkConfig(hidden=(24,)),
)
VARIANTS = {
    "plain": {},
    "double": {"double": True},
    "duelling": {"dueling": True},
    "3 steps": {"n_step": 3},
    "prioritised": {"prioritized": True},
    "Polyak": {"tau": 0.05, "target_update_interval": 1},
    "all": {"double": True, "dueling": True, "n_step": 3, "prioritized": True},
}
TOTAL = 64 * 80


def trained(world: Choices, config: DQNConfig = CONFIG, steps: int = TOTAL, total: int = TOTAL) -> DQNTrainer:
    trainer = DQNTrainer(world, config, seed=0, total_steps=total)
    while trainer.steps < steps:
        trainer.iterate()
    return trainer


def values(trainer: DQNTrainer, *observations: float) -> list[list[float]]:
    with torch.no_grad():
        return trainer.network({"policy": torch.tensor(observations)[:, None]}).tolist()


def choices(trainer: DQNTrainer, *observations: float) -> list[int]:
    return trainer.predict({"policy": torch.tensor(observations)[:, None]})[0].tolist()


# ---- probes: each world fails for one kind of bug --------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "all"])
def test_the_value_of_each_action_for_each_observation(variant):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, (2.0 * action - 1.0)[:, 0] * state[:, 0], always(len(state))

    trainer = trained(Choices(signs, rule), dataclasses.replace(CONFIG, **VARIANTS[variant]))
    assert choices(trainer, -1.0, 1.0) == [0, 1]
    low, high = values(trainer, -1.0, 1.0)
    assert low + high == pytest.approx([1.0, -1.0, -1.0, 1.0], abs=0.05)


@pytest.mark.parametrize("variant", VARIANTS)
def test_discounting(variant):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """Observation 0, then 1; the reward of 1 comes with the second step."""
        return state + 1.0, state[:, 0], state[:, 0] > 0.5

    trainer = trained(Choices(zeros, rule), dataclasses.replace(CONFIG, **VARIANTS[variant]))
    first, second = values(trainer, 0.0, 1.0)
    assert first + second == pytest.approx([0.9, 0.9, 1.0, 1.0], abs=0.08)


# ---- time limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_value_of_a_constant_reward_does_not_depend_on_the_time_limit(n_step):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.ones(len(state)), never(len(state))

    config = dataclasses.replace(CONFIG, gamma=0.5, n_step=n_step)
    trainer = trained(Choices(zeros, rule, time_limit=4), config)
    assert values(trainer, 0.0)[0] == pytest.approx([2.0, 2.0], rel=0.03)


def test_a_truncated_episode_goes_on_from_its_final_observation():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        """-1 and 1 alternate and are the reward; every single step ends at the time limit."""
        return -state, state[:, 0], never(len(state))

    config = dataclasses.replace(CONFIG, gamma=0.5)
    trainer = trained(Choices(signs, rule, time_limit=1), config)
    # Q(x) = x + g Q(-x). From x itself it would be 2 x, from nothing x.
    low, high = values(trainer, -1.0, 1.0)
    assert low + high == pytest.approx([-1 / 1.5, -1 / 1.5, 1 / 1.5, 1 / 1.5], abs=0.06)


# ---- targets and losses, step by step --------------------------------------------------------------------------------


def some_trainer(**changes: object) -> DQNTrainer:
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, torch.ones(len(state)), never(len(state))

    world = Choices(zeros, rule, actions=3, num_envs=2)
    trainer = DQNTrainer(world, dataclasses.replace(CONFIG, **changes), seed=0, total_steps=100)
    with torch.no_grad():
        trainer.learner.vector.normal_()
        trainer.target.vector.normal_()
    return trainer


def some_batch(rows: int = 12, weights: bool = False) -> Transitions:
    return Transitions(
        observations={"policy": torch.randn(rows, 1)},
        actions=torch.randint(3, (rows,)),
        returns=torch.randn(rows),
        discounts=0.9 * (torch.rand(rows) < 0.7),
        next_observations={"policy": torch.randn(rows, 1)},
        rows=torch.arange(rows),
        weights=torch.rand(rows) if weights else None,
    )


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
def test_targets_row_by_row(double, dueling):
    trainer, batch = some_trainer(double=double, dueling=dueling), some_batch()
    found = trainer.target_values(batch)
    for i in range(len(batch)):
        following = {"policy": batch.next_observations["policy"][i : i + 1]}
        target, own = trainer.target.network(following)[0].tolist(), trainer.network(following)[0].tolist()
        judged = target[own.index(max(own))] if double else max(target)
        assert found[i].item() == pytest.approx(batch.returns[i].item() + batch.discounts[i].item() * judged, abs=1e-5)


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_the_gradient_is_that_of_the_weighted_huber_loss(dueling, weights):
    trainer, batch = some_trainer(dueling=dueling, max_grad_norm=1e9), some_batch(weights=weights)
    targets = trainer.target_values(batch)
    taken = trainer.network(batch.observations)[torch.arange(len(batch)), batch.actions]
    losses = nn.functional.smooth_l1_loss(taken, targets, reduction="none")
    loss = (losses * batch.weights).mean() if weights else losses.mean()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(trainer.network.parameters()))])
    trainer.update(batch, targets)
    torch.testing.assert_close(trainer.learner.gradient, expected)
    assert trainer._statistics(trainer._records)["loss"] == pytest.approx(loss.item(), rel=1e-5)


def test_new_priorities_are_the_errors():
    trainer = trained(
        Choices(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), num_envs=4),
        dataclasses.replace(CONFIG, prioritized=True, priority_alpha=1.0),
        1024,
    )
    batch = trainer.replay.sample(64)
    targets = trainer.target_values(batch)
    with torch.no_grad():
        errors = trainer.network(batch.observations).gather(1, batch.actions[:, None])[:, 0] - targets
    trainer.update(batch, targets)
    found = trainer.replay.priorities[batch.rows]
    torch.testing.assert_close(found.float(), errors.abs() + 1e-6, rtol=1e-5, atol=1e-6)


def test_importance_weights_grow_to_their_full_size():
    world = Choices(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))))
    trainer = DQNTrainer(world, dataclasses.replace(CONFIG, prioritized=True), seed=0, total_steps=4 * 1024)
    betas = []
    for _ in range(4):
        trainer.iterate()
        betas.append(trainer.replay.beta)
    assert betas == pytest.approx([0.55, 0.7, 0.85, 1.0])


# ---- schedules -------------------------------------------------------------------------------------------------------


def still(num_envs: int, **settings: object) -> Choices:
    return Choices(zeros, lambda s, a, t: (s, a[:, 0], never(len(s))), num_envs=num_envs, **settings)


def test_exploration_falls_linearly_and_then_stays():
    config = dataclasses.replace(CONFIG, exploration_fraction=0.5, exploration_initial=0.9, exploration_final=0.1)
    trainer = DQNTrainer(still(4), config, seed=0, total_steps=1000)
    found = []
    for steps in (0, 125, 250, 500, 1000):
        trainer.steps = steps
        found.append(trainer.epsilon)
    assert found == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1])


def test_the_share_of_random_actions_is_epsilon():
    config = dataclasses.replace(CONFIG, learning_starts=0, exploration_initial=0.3, exploration_final=0.3)
    trainer = DQNTrainer(still(1000, actions=5), config, seed=0, total_steps=10**6)
    observations = {"policy": torch.zeros(1000, 1)}
    best = choices(trainer, 0.0)[0]
    actions = torch.cat([trainer._explore(observations) for _ in range(40)])
    counts = torch.bincount(actions, minlength=5) / len(actions)
    expected = torch.full((5,), 0.06)
    expected[best] += 0.7
    torch.testing.assert_close(counts, expected, atol=0.01, rtol=0.0)


@pytest.mark.parametrize("num_envs", [1, 3, 8, 64])
def test_updates_follow_from_steps_whatever_the_number_of_environments(num_envs):
    config = dataclasses.replace(CONFIG, learning_starts=0, train_frequency=16, gradient_steps=2, iteration_steps=192)
    trainer = DQNTrainer(still(num_envs), config, seed=0, total_steps=10**6)
    for _ in range(4):
        metrics = trainer.iterate()
    assert trainer.updates == pytest.approx(2 * trainer.steps / 16, abs=2)
    assert trainer.steps == pytest.approx(4 * 192, abs=80)
    assert metrics["rollout/replay"] == trainer.steps


def test_one_update_for_each_step():
    config = dataclasses.replace(CONFIG, learning_starts=32, train_frequency=8, gradient_steps=-1, iteration_steps=64)
    trainer = DQNTrainer(still(4), config, seed=0, total_steps=10**6)
    trainer.iterate()
    assert (trainer.steps, trainer.updates) == (64, 32)


@pytest.mark.parametrize(("interval", "moves"), [(100, [False, True, False, True]), (64, [True] * 4)])
def test_when_the_target_network_moves(interval, moves):
    config = dataclasses.replace(CONFIG, learning_starts=0, target_update_interval=interval, iteration_steps=64)
    trainer = DQNTrainer(still(64), config, seed=0, total_steps=10**6)
    found = []
    for _ in moves:
        before = trainer.target.vector.clone()
        trainer.iterate()
        found.append(not torch.equal(before, trainer.target.vector))
    assert found[1:] == moves[1:]


def test_the_training_ends_where_it_should():
    trainer = DQNTrainer(still(4), CONFIG, seed=0, total_steps=1500)
    while trainer.steps < 1500:
        trainer.iterate()
    assert trainer.steps < 1500 + 64


# ---- impossible actions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("double", [False, True])
def test_impossible_actions_are_never_taken_nor_valued(double):
    """Action 2 pays most, but is impossible where the observation is -1, which every other step is."""

    def rule(state: Tensor, action: Tensor, age: Tensor):
        return -state, action[:, 0], never(len(state))

    config = dataclasses.replace(CONFIG, gamma=0.5, double=double)
    world = Choices(signs, rule, actions=3, forbidden=[False, False, True], time_limit=7)
    trainer = trained(world, config, 2 * TOTAL, 2 * TOTAL)
    masks = torch.tensor([[True, True, False], [True, True, True]])
    actions, _ = trainer.predict({"policy": torch.tensor([[-1.0], [1.0]]), "action_mask": masks})
    assert actions.tolist() == [1, 2]
    # Q(1, 2) = 2 + g (1 + g Q(1, 2)), and Q(-1, 1) = 1 + g Q(1, 2)
    best = 2.5 / 0.75
    assert values(trainer, 1.0)[0][2] == pytest.approx(best, abs=0.15)
    assert values(trainer, -1.0)[0][1] == pytest.approx(1.0 + 0.5 * best, abs=0.15)


def test_nothing_may_be_possible_at_the_end():
    trainer, batch = some_trainer(), some_batch()
    batch.next_observations["action_mask"] = torch.zeros(len(batch), 3, dtype=torch.bool)
    batch.discounts.zero_()
    assert torch.equal(trainer.target_values(batch), batch.returns)


# ---- the same run again ----------------------------------------------------------------------------------------------


def make_world() -> Choices:
    def walk(state: Tensor, action: Tensor, age: Tensor):
        state = 0.9 * state + 0.2 * (action - 0.5)
        return state, -state.square()[:, 0], state[:, 0].abs() > 1.2

    return Choices(signs, walk, time_limit=6, num_envs=8)


def blob(trainer: DQNTrainer) -> bytes:
    file = io.BytesIO()
    torch.save(trainer.state_dict(), file)
    return file.getvalue()


def same(a: object, b: object) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


SMALL = dataclasses.replace(CONFIG, buffer_size=512, train_frequency=16, gradient_steps=3, iteration_steps=160)


@pytest.mark.parametrize("variant", ["plain", "all"])
def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit(variant):
    config = dataclasses.replace(SMALL, **VARIANTS[variant])
    trainer = DQNTrainer(make_world(), config, seed=0, total_steps=5000)
    for _ in range(5):
        trainer.iterate()
    state = torch.load(io.BytesIO(blob(trainer)), weights_only=True)
    resumed = DQNTrainer(make_world(), config, seed=77, total_steps=5000)
    resumed.load_state_dict(state)
    for _ in range(2):
        trainer.iterate()
        resumed.iterate()
    assert same(trainer.state_dict(), resumed.state_dict())
    assert trainer.updates > 100


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    states = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(noise)
        trainer = DQNTrainer(make_world(), SMALL, seed=seed, total_steps=5000)
        for _ in range(4):
            trainer.iterate()
        states.append(trainer.state_dict())
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


def test_the_length_of_iterations_changes_nothing():
    short = dataclasses.replace(SMALL, iteration_steps=32)
    runs = [DQNTrainer(make_world(), config, seed=0, total_steps=5000) for config in (SMALL, short)]
    for trainer in runs:
        while trainer.steps < 800:
            trainer.iterate()
    assert same(runs[0].state_dict(), runs[1].state_dict())


def test_without_the_replay_in_the_checkpoint_a_new_one_is_filled_first():
    config = dataclasses.replace(SMALL, checkpoint_replay=False)
    trainer = DQNTrainer(make_world(), config, seed=0, total_steps=5000)
    for _ in range(4):
        trainer.iterate()
    checkpoint = blob(trainer)
    assert len(checkpoint) < 20_000
    resumed = DQNTrainer(make_world(), config, seed=0, total_steps=5000)
    resumed.load_state_dict(torch.load(io.BytesIO(checkpoint), weights_only=True))
    assert same(resumed.network.state_dict(), trainer.network.state_dict())
    assert resumed.iterate()["learn/updates"] == 0
    assert len(resumed.replay) == 160
    assert resumed.iterate()["learn/updates"] > 0


def test_an_iteration_takes_its_steps_and_tells_numbers():
    trainer = DQNTrainer(make_world(), SMALL, seed=0, total_steps=5000)
    metrics = trainer.iterate()
    assert trainer.num_envs == 8
    assert trainer.steps == len(trainer.replay) == 160
    assert all(isinstance(value, float | int) for value in metrics.values())
    assert {"time/environment", "time/policy", "time/learning", "time/total", "rollout/reward"} <= metrics.keys()


def test_rows_that_are_no_transitions_are_never_learnt_from():
    """The first environment's every third step is none, and pays 1000."""

    class Resetting(Choices):
        count = 0

        def step(self, actions: Tensor):
            observation, reward, terminated, truncated, info = super().step(actions)
            self.count += 1
            if self.count % 3 == 0:
                reward[0] = 1000.0
                info["valid"] = torch.arange(self.num_envs) != 0
            return observation, reward, terminated, truncated, info

    env = Resetting(zeros, lambda s, a, t: (s, torch.ones(len(s)), never(len(s))), num_envs=4)
    trainer = DQNTrainer(env, dataclasses.replace(SMALL, n_step=3), seed=0, total_steps=5000)
    while trainer.steps < 480:
        trainer.iterate()
    steps = trainer.steps // 4
    assert len(trainer.replay) == trainer.steps - steps // 3
    assert trainer.replay.sample(2000).returns.max() < 3.0


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_a_reward_that_is_not_finite_stops_the_run():
    world = Choices(zeros, lambda s, a, t: (s, torch.full((len(s),), float("nan")), never(len(s))))
    with pytest.raises(NonFiniteError, match=r"the reward of environment 0 is nan"):
        DQNTrainer(world, CONFIG, seed=0, total_steps=10_000).iterate()


def test_an_end_without_a_final_observation_stops_the_run():
    class Forgetful(Choices):
        def step(self, actions: Tensor):
            return (*super().step(actions)[:4], {})

    world = Forgetful(zeros, lambda s, a, t: (s, a[:, 0], t == 3))
    with pytest.raises(ValueError, match=r'environment 0: an episode ended, but info\["final_obs"\]'):
        DQNTrainer(world, CONFIG, seed=0, total_steps=10_000).iterate()


def test_what_it_cannot_handle_is_refused_before_anything_starts():
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, action[:, 0], always(len(state))

    with pytest.raises(ValueError, match=r"Box.*DQN chooses among Discrete.*ppo or sac"):
        DQNTrainer(Bounded(zeros, rule, low=[0.0], high=[1.0]), CONFIG, seed=0, total_steps=1000)
    with pytest.raises(ValueError, match="total_steps"):
        DQNTrainer(Choices(zeros, rule), CONFIG, seed=0)
    with pytest.raises(ValueError, match="buffer_size 64"):
        DQNTrainer(Choices(zeros, rule), dataclasses.replace(CONFIG, buffer_size=64), seed=0, total_steps=1000)
    world = Choices(zeros, rule)
    world.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    with pytest.raises(ValueError, match="SAME_STEP"):
        DQNTrainer(world, CONFIG, seed=0, total_steps=1000)


def test_choices_that_do_not_begin_at_zero():
    world = Choices(zeros, lambda s, a, t: (s, a[:, 0], always(len(s))), actions=3)
    world.single_action_space = gymnasium.spaces.Discrete(3, start=5)
    trainer = trained(world, CONFIG, 4096)
    assert choices(trainer, 0.0) == [7]
    assert set(trainer.replay.actions.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    "change",
    [
        {"buffer_size": 0},
        {"batch_size": 0},
        {"n_step": 0},
        {"train_frequency": 0},
        {"gradient_steps": 0},
        {"gradient_steps": -2},
        {"learning_starts": -1},
        {"learning_rate": 0.0},
        {"learning_rate_final": -1.0},
        {"gamma": 1.1},
        {"iteration_steps": 0},
        {"tau": 0.0},
        {"tau": 1.1},
        {"target_update_interval": 0},
        {"exploration_final": 1.5},
        {"exploration_fraction": -0.1},
        {"priority_alpha": -1.0},
        {"max_grad_norm": 0.0},
    ],
    ids=str,
)
def test_a_bad_setting_is_refused_by_name(change):
    ((name, value),) = change.items()
    with pytest.raises(ValueError, match=f"{name} {value}"):
        DQNConfig(**change)


def test_bad_networks_are_refused():
    with pytest.raises(ValueError, match="activation 'sin'"):
        NetworkConfig(activation="sin")
    with pytest.raises(ValueError, match=r"hidden \(8, 0\)"):
        NetworkConfig(hidden=(8, 0))
    with pytest.raises(ValueError, match="dueling needs a hidden layer"):
        DQNConfig(dueling=True, model=NetworkConfig(hidden=()))


def test_presets_are_the_zoos():
    assert {"cartpole", "acrobot", "mountain-car", "lunar-lander", "atari"} <= DQN_PRESETS.keys()
    car = DQN_PRESETS["mountain-car"]
    assert (car.learning_rate, car.gamma, car.train_frequency, car.gradient_steps) == (4e-3, 0.98, 16, 8)
