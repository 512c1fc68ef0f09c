"""Gymnasium's, EnvPool's and ale-py's environments, adapted, against the contract of every Gaitway environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import conformance
import gaitway_ale
import gaitway_gymnasium
import pytest
import torch
from gaitway_agents.vector.adapt import adapt
from torch import Tensor

Follows = Callable[[dict[str, Tensor], Tensor, dict[str, Tensor]], Tensor]


def gym(name: str, backend: str) -> conformance.Factory:
    def make(num_envs: int, *, seed: int = 0, num_threads: int = 1, episode_length: int | None = None) -> Any:
        task = replace(gaitway_gymnasium.task_named(name), backend=backend, max_episode_steps=episode_length)
        return adapt(gaitway_gymnasium.make_env(task, num_envs, seed=seed, num_threads=num_threads))

    return make


def atari(name: str, **changes: Any) -> conformance.Factory:
    def make(num_envs: int, *, seed: int = 0, num_threads: int = 1, episode_length: int | None = None) -> Any:
        task = replace(gaitway_ale.task_named(name), episodic_life=False, **changes)
        if episode_length is not None:
            task = replace(task, max_frames=episode_length * task.frame_skip)
        return adapt(gaitway_ale.make_env(task, num_envs, seed=seed, num_threads=num_threads))

    return make


def itself(num_envs: int, *, seed: int = 0, num_threads: int = 1, episode_length: int | None = None) -> Any:
    """EnvPool's own vector environment, which restarts an episode in the step after its last."""
    limit = {} if episode_length is None else {"max_episode_steps": episode_length}
    import envpool  # 100 MB, which only those who run this need

    pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=num_envs, seed=seed, num_threads=1, **limit)
    return adapt(pool)


FACTORIES = {
    "cartpole-envpool": gym("cartpole", "envpool"),
    "cartpole-gymnasium": gym("cartpole", "gymnasium"),
    "pendulum-envpool": gym("pendulum", "envpool"),
    "pendulum-gymnasium": gym("pendulum", "gymnasium"),
    "hopper-envpool": gym("hopper", "envpool"),
    "frozen-lake-gymnasium": gym("frozen-lake", "gymnasium"),
    "breakout": atari("breakout"),
    "breakout-ram": atari("breakout-ram", stack=2),
}


@pytest.fixture(params=FACTORIES)
def make(request: pytest.FixtureRequest) -> conformance.Factory:
    return FACTORIES[request.param]


def test_shapes_and_types(make):
    conformance.check_shapes_and_types(make)


def test_results_are_not_overwritten(make):
    conformance.check_results_are_not_overwritten(make)


def test_bad_use_is_refused(make):
    conformance.check_bad_use_is_refused(make)


@pytest.mark.parametrize("name", ["pendulum-envpool", "pendulum-gymnasium", "breakout-ram"])
def test_time_limit_is_exact(name):
    conformance.check_time_limit_is_exact(FACTORIES[name])


@pytest.mark.parametrize(
    "name", ["cartpole-envpool", "pendulum-gymnasium", "hopper-envpool", "breakout", "breakout-ram"]
)
def test_seeds(name):
    game = name.startswith("breakout")  # starts alike but for some no-ops, and takes a while to load
    conformance.check_seeds(FACTORIES[name], num_envs=2 if game else 6, all_differ=not game)


@pytest.mark.parametrize("name", ["cartpole-envpool", "hopper-envpool", "breakout"])
def test_threads_do_not_matter(name):
    conformance.check_threads_do_not_matter(FACTORIES[name], num_envs=3 if name == "breakout" else 7)


def pendulum(before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> Tensor:
    cos, sin, speed = before["policy"].unbind(1)
    torque = action[:, 0].clamp(-2.0, 2.0)
    speed = (speed + (15.0 * sin + 3.0 * torque) * 0.05).clamp(-8.0, 8.0)
    angle = torch.atan2(sin, cos) + speed * 0.05
    return _near(after["policy"], torch.stack((angle.cos(), angle.sin(), speed), 1))


def cartpole(before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> Tensor:
    """Barto, Sutton and Anderson (1983), explicit Euler."""
    x, speed, angle, rate = before["policy"].double().unbind(1)
    force = 20.0 * action - 10.0
    push = (force + 0.05 * rate**2 * angle.sin()) / 1.1
    turn = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4.0 / 3.0 - 0.1 * angle.cos() ** 2 / 1.1))
    pull = push - 0.05 * turn * angle.cos() / 1.1
    expected = (x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * rate, rate + 0.02 * turn)
    return _near(after["policy"], torch.stack(expected, 1).float())


def hopper(before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> Tensor:
    """Height and angles move as far as their velocities carry them; the first of the velocities is that of x."""
    angles, rates, new_rates = before["policy"][:, :5], before["policy"][:, 6:], after["policy"][:, 6:]
    return (after["policy"][:, :5] - angles - 0.004 * (rates + new_rates)).abs().amax(1) < 0.05


def newest_moves_up(before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> Tensor:
    """Of stacked frames all but the newest have been seen before."""
    stack = 4 if before["policy"].dim() == 4 else 2
    old, new = before["policy"].unflatten(1, (stack, -1)), after["policy"].unflatten(1, (stack, -1))
    return (new[:, :-1] == old[:, 1:]).flatten(1).all(1)


def _near(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs().amax(1) < 1e-4


@pytest.mark.parametrize(
    ("name", "follows", "episode_length", "steps", "least"),
    [
        ("cartpole-envpool", cartpole, None, 60, 10),
        ("cartpole-envpool", cartpole, 7, 40, 20),
        ("cartpole-gymnasium", cartpole, 12, 60, 15),
        ("itself", cartpole, 12, 60, 15),
        ("pendulum-envpool", pendulum, 5, 32, 24),  # all end at once: more than the pool has spares
        ("pendulum-gymnasium", pendulum, 5, 32, 24),
        ("hopper-envpool", hopper, None, 120, 10),
        ("breakout", newest_moves_up, 11, 40, 12),
        ("breakout-ram", newest_moves_up, None, 350, 4),
    ],
)
def test_final_observations_are_true(name: str, follows: Follows, episode_length: int | None, steps: int, least: int):
    make = itself if name == "itself" else FACTORIES[name]
    env = make(5, episode_length=episode_length)
    assert conformance.check_transitions(env, follows, conformance.actions(env, steps)) >= least
