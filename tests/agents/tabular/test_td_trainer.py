"""Q-learning, SARSA and their variants: probes, checkpoints, schedules, refusals."""

import io

import gymnasium
import pytest
import torch
from gaitway_agents.tabular.td_trainer import QLearningConfig, SarsaConfig, TDControlTrainer
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import SyncVectorEnv, VectorEnv

ALL = {
    "q-learning": (QLearningConfig, {}),
    "double q-learning": (QLearningConfig, {"double": True}),
    "sarsa": (SarsaConfig, {}),
    "double sarsa": (SarsaConfig, {"double": True}),
    "expected sarsa": (SarsaConfig, {"expected": True}),
    "double expected sarsa": (SarsaConfig, {"double": True, "expected": True}),
}
CALM = {"gamma": 0.9, "learning_rate": 0.5, "exploration_initial": 0.5, "exploration_final": 0.5}


def trained(env: VectorEnv, config, iterations: int, *, seed: int = 0, total_steps: int | None = None):
    trainer = TDControlTrainer(env, config, seed=seed, total_steps=total_steps)
    for _ in range(iterations):
        metrics = trainer.iterate()
    return trainer, metrics


def policy_of(trainer: TDControlTrainer, states: int) -> torch.Tensor:
    return trainer.predict({"policy": torch.arange(states)})[0]


# ---- probes: each isolates one mistake -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(
    ("table", "first", "values"),
    [
        pytest.param(
            {0: {0: [(1, 1, 0.0, False)]}, 1: {0: [(1, 0, 1.0, True)]}}, [0], [[0.9], [1.0]], id="discounted delay"
        ),
        pytest.param(
            {
                0: {0: [(1, 0, 1.0, True)], 1: [(1, 0, -1.0, True)]},
                1: {0: [(1, 0, -1.0, True)], 1: [(1, 0, 1.0, True)]},
            },
            [0, 1],
            [[1.0, -1.0], [-1.0, 1.0]],
            id="state and action",
        ),
    ],
)
def test_probes(method, table, first, values, table_envs):
    kind, options = ALL[method]
    env = table_envs(table, first)
    trainer, metrics = trained(env, kind(**CALM, **options, num_steps=60), 2)
    expected = torch.tensor(values, dtype=torch.float64).expand(trainer.tables.shape)
    torch.testing.assert_close(trainer.tables, expected, atol=1e-3, rtol=0)
    wanted = torch.tensor(values).argmax(1)
    assert torch.equal(policy_of(trainer, len(values)), wanted)
    assert metrics["learn/value_start"] == pytest.approx(
        sum(max(values[state]) for state in first) / len(first), abs=0.25 if len(first) > 1 else 1e-3
    )


@pytest.mark.parametrize("method", ALL)
def test_a_time_limit_does_not_change_values(method, table_envs):
    kind, options = ALL[method]
    env = table_envs({0: {0: [(1, 0, 1.0, False)], 1: [(1, 0, 1.0, False)]}}, [0], time_limit=3)
    trainer, _ = trained(env, kind(**CALM, **options, num_steps=100), 3)
    torch.testing.assert_close(trainer.tables, torch.full_like(trainer.tables, 10.0), atol=1e-2, rtol=0)


class Unknown(SyncVectorEnv):
    """A NEXT_STEP environment that cannot restart single environments."""


def test_the_step_of_a_restart_is_no_transition(table_envs):
    table = {0: {0: [(1, 1, 1.0, True)]}, 1: {0: [(1, 1, 0.0, True)]}}
    env = table_envs(table, [0], kind=Unknown)
    trainer, metrics = trained(env, QLearningConfig(**CALM, initial_value=7.0, num_steps=60), 2)
    assert trainer.tables[0, :, 0].tolist() == [pytest.approx(1.0, abs=1e-6), 7.0]
    assert metrics["learn/value_start"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["rollout/reward"] == 1.0


def test_a_final_state_may_allow_nothing(corridor):
    class Masked(corridor):
        """Left is not allowed, and in the last state neither is."""

        def _observe(self, state):
            right = state < 4
            return {"policy": state + 10, "action_mask": torch.stack([torch.zeros_like(right), right], 1)}

    for kind, options in ALL.values():
        trainer, metrics = trained(Masked(4), kind(**CALM, **options, num_steps=200), 1)
        assert trainer.tables[:, :, 0].unique().tolist() == [0.0]
        expected = torch.tensor([0.9**3, 0.9**2, 0.9, 1.0, 0.0], dtype=torch.float64)
        assert float((trainer.tables.mean(0)[:, 1] - expected).abs().max()) < 0.2
        assert metrics["learn/td_error"] < 0.2


def test_an_iteration_without_transitions_has_metrics(table_envs):
    """After resuming, an adapted environment has a step in which all restart."""
    env = table_envs({0: {0: [(1, 0, 1.0, True)]}}, [0])
    trainer = TDControlTrainer(env, QLearningConfig(**CALM, num_steps=1), seed=0)
    trainer.iterate()
    trainer.load_state_dict(trainer.state_dict())
    metrics = trainer.iterate()
    assert metrics["learn/td_error"] == metrics["rollout/reward"] == 0.0
    assert trainer.iterate()["rollout/reward"] == 1.0


# ---- checkpoints, schedules, spaces --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL)
def test_resuming_is_bit_identical(method, corridor):
    kind, options = ALL[method]

    def make() -> TDControlTrainer:
        config = kind(**options, learning_rate_final=0.01, num_steps=20)
        return TDControlTrainer(corridor(5), config, seed=3, total_steps=600)

    straight = make()
    for _ in range(3):
        straight.iterate()
    file = io.BytesIO()
    torch.save(straight.state_dict(), file)
    file.seek(0)
    for _ in range(3):
        metrics = straight.iterate()
    resumed = make()
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(3):
        again = resumed.iterate()
    assert resumed.steps == straight.steps == 600
    assert torch.equal(resumed.tables, straight.tables) and not torch.equal(straight.tables, make().tables)
    assert {k: v for k, v in metrics.items() if "time" not in k} == {k: v for k, v in again.items() if "time" not in k}


def test_numbering_that_does_not_start_at_zero(corridor):
    env = corridor(8)
    trainer, _ = trained(env, QLearningConfig(**CALM, num_steps=300), 1)
    action, memory = trainer.predict({"policy": torch.arange(10, 14)})
    assert action.tolist() == [4, 4, 4, 4] and memory == {}


def test_the_same_seed_gives_the_same_table(gym_envs):
    config = QLearningConfig(**CALM, initial_value=1.0)
    tables = [trained(gym_envs("FrozenLake-v1", 4), config, 2, seed=seed)[0].tables for seed in (5, 5, 6)]
    assert torch.equal(tables[0], tables[1]) and not torch.equal(tables[0], tables[2])


def test_schedules(corridor):
    config = QLearningConfig(
        exploration_initial=0.8,
        exploration_final=0.2,
        exploration_fraction=0.5,
        learning_rate=0.4,
        learning_rate_final=0.0,
    )
    trainer = TDControlTrainer(corridor(), config, seed=0, total_steps=1000)
    seen = []
    for steps in (0, 250, 500, 1000, 2000):
        trainer.steps = steps
        seen.append((trainer.epsilon, trainer.learning_rate))
    assert seen == [pytest.approx(pair) for pair in [(0.8, 0.4), (0.5, 0.3), (0.2, 0.2), (0.2, 0.0), (0.2, 0.0)]]


@pytest.mark.parametrize(
    ("name", "message"),
    [("CartPole-v1", r"observation space .* Discrete or MultiDiscrete .* ppo or dqn"), ("Pendulum-v1", "Discrete")],
)
def test_spaces_without_a_table_are_refused(name, message, gym_envs):
    with pytest.raises(ValueError, match=message):
        TDControlTrainer(gym_envs(name), QLearningConfig(), seed=0, total_steps=100)


def test_other_autoreset_modes_and_missing_lengths_are_refused(corridor):
    raw = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(ValueError, match="SAME_STEP is needed"):
        TDControlTrainer(raw, QLearningConfig(), seed=0, total_steps=100)
    with pytest.raises(ValueError, match="exploration_final needs total_steps"):
        TDControlTrainer(adapt(raw), QLearningConfig(), seed=0)
    with pytest.raises(ValueError, match="learning_rate_final needs total_steps"):
        TDControlTrainer(corridor(), QLearningConfig(**CALM, learning_rate_final=0.0), seed=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gamma", 1.1),
        ("exploration_initial", -0.1),
        ("learning_rate", 0.0),
        ("learning_rate_final", 2.0),
        ("num_steps", 0),
    ],
)
def test_settings_that_make_no_sense_are_named(field, value):
    with pytest.raises(ValueError, match=rf"{field} {value}"):
        QLearningConfig(**{field: value})


def test_a_table_of_another_world_is_refused(corridor, gym_envs):
    state = TDControlTrainer(corridor(), QLearningConfig(**CALM), seed=0).state_dict()
    with pytest.raises(ValueError, match=r"\(1, 5, 2\), \(1, 16, 4\) is needed"):
        TDControlTrainer(gym_envs("FrozenLake-v1"), QLearningConfig(**CALM), seed=0).load_state_dict(state)
