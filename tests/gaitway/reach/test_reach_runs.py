"""The arm that comes with Gaitway, from training to the wire."""

import gymnasium
import numpy as np
import pytest
from gaitway_onboard.flight.reading import read_flight

from gaitway.cli import main
from gaitway.start import Order, preset_of
from gaitway.train_config import ConfigError, resolve

SMALL = ["num_envs=4", "agent.num_steps=8", "total_steps=64", "agent.optimizer.minibatches=1", "num_threads=1",
         "evaluation_episodes=2", "task.timing.episode_length_s=0.4"]  # fmt: skip
REST = (0.45, 0.0, 0.4, 0.0, np.pi, -3.14)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A policy that is its first guess, but for an update: it holds poses."""
    folder = tmp_path_factory.mktemp("reach")
    assert main(["train", "reach-franka", "--preset", "cpu", "--out", str(folder / "run"), *SMALL]) == 0
    assert main(["export", str(folder / "run"), "--out", str(folder / "bundle")]) == 0
    return folder / "bundle"


def test_gymnasium_makes_it():
    env = gymnasium.make_vec("Gaitway/Reach-Franka-v0", num_envs=2)
    observation, _ = env.reset(seed=0)
    assert observation["policy"].shape == (2, 32) and env.single_action_space.shape == (7,)


def test_its_preset_is_chosen_and_its_suite_examines():
    config = resolve("reach-franka", preset="cpu", overrides=["until=good"])
    assert config.until == "good" and preset_of(Order(task="reach-franka")) == "cpu"
    with pytest.raises(ConfigError, match=r"agent\.first_guess: the policy of reach-franka observes a history"):
        resolve("reach-franka", preset="cpu", overrides=["task.observations.policy.history_length=2"])


@pytest.mark.slow
def test_it_runs_and_is_recorded(bundle, tmp_path):
    log = tmp_path / "flight.mcap"
    pose = ",".join(str(value) for value in (0.5, 0.1, 0.3, 0.0, np.pi, -2.0))
    assert main(["run", str(bundle), "--seconds", "3", "--command", pose, "--log", str(log)]) == 0
    assert not read_flight(log).follows_velocity
