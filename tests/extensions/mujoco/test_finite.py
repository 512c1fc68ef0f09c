"""Only finite numbers come in and go out, and what is refused says whose fault it is."""

from dataclasses import replace

import gymnasium
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env
from gaitway_tasks.managers import TermError
from gaitway_tasks.spec import Event, ObservationTerm, Reward
from quiet import quiet_task

BLIND = "velocity-flat-go2-blind"


def broken(world, value=float("nan"), columns=None, after=0):
    """Zeros but for environment 1, from a step of its episode on."""
    found = torch.zeros(world.num_envs) if columns is None else torch.zeros(world.num_envs, columns)
    if int(world.episode_step[1]) >= after:
        found[1] = value
    return found


def shove(world, env_ids):
    zeros = torch.zeros(len(env_ids), 3)
    world.add_root_velocity(env_ids, torch.full_like(zeros, float("nan")), zeros)


def scale(world, env_ids, setter):
    getattr(world, setter)(env_ids, torch.full((len(env_ids),), float("nan")))


def with_reward(value):
    term = Reward(func=broken, weight=1.0, params={"value": value, "after": 3})
    return quiet_task(BLIND, rewards=quiet_task(BLIND).rewards | {"mine": term})


def with_observation():
    group = quiet_task(BLIND).observations["policy"]
    terms = group.terms | {"mine": ObservationTerm(func=broken, params={"columns": 2, "after": 3})}
    return quiet_task(BLIND, observations=quiet_task(BLIND).observations | {"policy": replace(group, terms=terms)})


def walk(task, steps=5):
    env = make_env(task, 2, num_threads=1)
    env.reset(seed=0)
    for _ in range(steps):
        env.step(torch.zeros(2, 12))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_not_finite_is_named_with_environment_and_step(value):
    with pytest.raises(TermError, match=rf"reward 'mine' .*broken\) is {value} in environment 1, in step 3"):
        walk(with_reward(value))


def test_large_rewards_are_only_large():
    walk(with_reward(3e38))


def test_an_observation_that_is_not_finite_is_named_with_its_column():
    with pytest.raises(TermError, match=r"observation 'mine' .*is nan in environment 1, column 0, in step 3"):
        walk(with_observation())


def test_an_event_cannot_write_what_is_not_finite():
    push = Event(func=shove, mode="interval", interval_range_s=(0.02, 0.02))
    with pytest.raises(TermError, match=r"event 'push'.*root velocity is \[nan"):
        walk(quiet_task(BLIND, events=quiet_task(BLIND).events | {"push": push}))


@pytest.mark.parametrize("setter", ["set_friction", "set_added_mass", "set_mass_scale", "set_motor_strength"])
def test_no_property_of_a_robot_becomes_nan(setter):
    event = Event(func=scale, mode="startup", params={"setter": setter})
    name = setter.removeprefix("set_").replace("_", " ")
    with pytest.raises(UserError, match=f"{name} is nan in row 0"):
        walk(quiet_task(BLIND, events=quiet_task(BLIND).events | {"mine": event}), 1)


def test_a_broken_policy_is_named():
    env = make_env(quiet_task(BLIND), 2, num_threads=1)
    env.reset(seed=0)
    actions = torch.zeros(2, 12)
    actions[1, 4] = float("nan")
    with pytest.raises(UserError, match="action for environment 1 "):
        env.step(actions)


def test_no_gradient_passes_through_a_step():
    env = make_env(quiet_task(BLIND), 2, num_threads=1)
    env.reset(seed=0)
    observation, reward, *_ = env.step(torch.zeros(2, 12, requires_grad=True))
    assert not reward.requires_grad and not any(value.requires_grad for value in observation.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"solver": "newton", "speed": 3}, "speed=3 .*solver, iterations"), ({"render_mode": "human"}, "human.*--video")],
)
def test_what_these_environments_do_not_have_is_said(settings, message):
    with pytest.raises(UserError, match=message):
        gymnasium.make_vec("Gaitway/Velocity-Flat-Go2-v0", num_envs=1, preset="cpu", **settings)


def test_one_seed_for_all():
    env = make_env(quiet_task(BLIND), 2, num_threads=1)
    with pytest.raises(UserError, match=r"seed=\[1, 2\]: give one number"):
        env.reset(seed=[1, 2])


def test_gymnasiums_time_limit_is_the_episodes():
    env = gymnasium.make_vec("Gaitway/Velocity-Flat-Go2-v0", num_envs=2, preset="cpu", max_episode_steps=7)
    env.reset(seed=0)
    ended = [env.step(torch.zeros(2, 12))[3].tolist() for _ in range(7)]
    assert ended == [[False] * 2] * 6 + [[True] * 2]
