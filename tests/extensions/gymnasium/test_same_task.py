"""EnvPool's environments are Gymnasium's: spaces, limits, first states, and the physics of every step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gaitway_gymnasium.make import uses_envpool
from gaitway_gymnasium.tasks import IDS, task_named

SHARED = [name for name in IDS if uses_envpool(task_named(name))]
MUJOCO = [name for name in SHARED if IDS[name].endswith("-v5")]
HAIRY = ["ant", "humanoid", "humanoid-standup"]
"""Bodies with so many contacts that another version of MuJoCo's solver is soon far away."""
BOX2D = ["lunar-lander", "lunar-lander-continuous", "bipedal-walker"]
CLASSIC = [name for name in SHARED if name not in MUJOCO + BOX2D]


def pool(name: str, num_envs: int, seed: int = 0) -> Any:
    import envpool  # 100 MB, which only those who run this need

    return envpool.make(IDS[name], env_type="gymnasium", num_envs=num_envs, num_threads=1, seed=seed)


def single(name: str) -> Any:
    return gymnasium.make(IDS[name], disable_env_checker=True)


def test_the_catalogue_is_shared_where_it_should_be():
    assert len(MUJOCO) == 11 and len(CLASSIC) == 5 and set(SHARED) == {*MUJOCO, *CLASSIC, *BOX2D}
    for name in set(IDS) - set(SHARED):
        assert IDS[name].split("-")[0] in ("FrozenLake", "FrozenLake8x8", "CliffWalking", "Taxi", "Blackjack")


@pytest.mark.parametrize("name", SHARED)
def test_spaces_and_limits(name):
    ours, theirs = pool(name, 1), single(name)
    assert ours.config["max_episode_steps"] == theirs.spec.max_episode_steps
    assert ours.observation_space.shape == theirs.observation_space.shape
    assert ours.observation_space.dtype == theirs.observation_space.dtype
    if isinstance(theirs.action_space, gymnasium.spaces.Box):
        np.testing.assert_allclose(ours.action_space.low, theirs.action_space.low)
        np.testing.assert_allclose(ours.action_space.high, theirs.action_space.high)
    else:
        assert ours.action_space == theirs.action_space
    if name not in BOX2D:  # for which it declares bounds from 1e-38 to 3e38
        assert ours.observation_space == theirs.observation_space


def furthest(a: np.ndarray, b: np.ndarray) -> float:
    """The largest two-sample Kolmogorov-Smirnov statistic of any column of (n, D) and (m, D), and of any column's
    distance from its middle, which shows other widths sooner."""
    statistics, middle = [0.0], np.median(np.concatenate((a, b)), 0)
    a, b = (np.column_stack((part, np.abs(part - middle))) for part in (a, b))
    for x, y in zip(np.round(a, 5).T, np.round(b, 5).T, strict=True):
        both = np.concatenate((x, y))
        x_below, y_below = (np.searchsorted(np.sort(part), both, "right") / len(part) for part in (x, y))
        statistics.append(np.abs(x_below - y_below).max())
    return max(statistics)


CRITICAL = 2.7 * np.sqrt(2 / 100)
"""Exceeded by one column in a million, of two samples of 100 with the same distribution."""


@pytest.mark.parametrize("name", SHARED)
def test_first_states_have_the_same_distribution(name):
    ours, theirs = pool(name, 50), single(name)
    first = np.concatenate([ours.reset()[0] for _ in range(2)])
    theirs.reset(seed=0)
    expected = np.stack([theirs.reset()[0] for _ in range(100)])
    assert furthest(first, expected) < CRITICAL


def test_the_statistic_sees_small_differences():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-0.05, 0.05, (2, 100, 4))
    assert furthest(a, b) < CRITICAL
    assert furthest(a, 2.5 * b) > CRITICAL
    assert furthest(a, b + np.array([0.05, 0, 0, 0])) > CRITICAL


# ---- one step after another from the same state ----------------------------------------------------------------------


def angle(cos: float, sin: float) -> float:
    return float(np.arctan2(sin, cos))


def classic_state(name: str, o: np.ndarray) -> np.ndarray:
    if name == "pendulum":
        return np.array([angle(o[0], o[1]), o[2]])
    if name == "acrobot":
        return np.array([angle(o[0], o[1]), angle(o[2], o[3]), o[4], o[5]])
    return o.astype(np.float64)


def mujoco_state(name: str, o: np.ndarray, env: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities behind a first observation; where the robot is in the plane is not observed, nor
    of any consequence."""
    nq, nv = env.model.nq, env.model.nv
    qpos, qvel = np.zeros(nq), np.zeros(nv)
    if name == "inverted-double-pendulum":
        qpos[:] = o[0], angle(o[3], o[1]), angle(o[4], o[2])
        qvel[:] = o[5:8]
    elif name == "reacher":
        qpos[:] = angle(o[0], o[2]), angle(o[1], o[3]), o[4], o[5]
        qvel[:2] = o[6:8]
    elif name == "pusher":
        qpos[:7], qvel[:7] = o[:7], o[7:14]
        env.set_state(qpos, qvel)
        qpos[8], qpos[7] = (o[17:20] - env.get_body_com("object"))[:2]  # the joint along y comes first
    else:
        hidden = {"inverted-pendulum": 0}.get(name, 2 if env.model.jnt_type[0] == 0 or name == "swimmer" else 1)
        qpos[hidden:], qvel[:] = o[: nq - hidden], o[nq - hidden : nq - hidden + nv]
    return qpos, qvel


def compare_steps(name: str, set_state: Any, steps: int, tolerance: float) -> None:
    ours, theirs = pool(name, 6, seed=3), single(name)
    theirs.reset(seed=0)
    core = theirs.unwrapped
    first, _ = ours.reset()
    rng = np.random.default_rng(0)
    box = isinstance(theirs.action_space, gymnasium.spaces.Box)
    low, high = (theirs.action_space.low, theirs.action_space.high) if box else (0, theirs.action_space.n)
    shape = (steps, 6, *theirs.action_space.shape)
    script = rng.uniform(low, high, shape).astype(np.float32) if box else rng.integers(low, high, shape)
    results = [ours.step(actions) for actions in script]
    compared = 0
    for i in range(6):
        theirs.reset()
        set_state(core, first[i])
        for actions, (observation, reward, terminated, _, _) in zip(script, results, strict=True):
            expected = core.step(actions[i])
            np.testing.assert_allclose(observation[i], expected[0], rtol=tolerance, atol=tolerance)
            assert reward[i] == pytest.approx(expected[1], rel=tolerance, abs=tolerance)
            assert terminated[i] == expected[2]
            compared += 1
            if terminated[i]:
                break
    assert compared >= 18


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_control_moves_alike(name):
    def set_state(core: Any, observation: np.ndarray) -> None:
        core.state = classic_state(name, observation)

    compare_steps(name, set_state, 30, 2e-4)


@pytest.mark.parametrize("name", MUJOCO)
def test_robots_move_alike(name):
    def set_state(core: Any, observation: np.ndarray) -> None:
        core.set_state(*mujoco_state(name, observation, core))

    if name in HAIRY:
        compare_steps(name, set_state, 3, 0.02)
    else:
        compare_steps(name, set_state, 6, 1e-6)


@pytest.mark.parametrize("name", BOX2D)
def test_terrains_and_landings_are_alike(name):
    """Their states cannot be set: distributions of what is seen and earned under random actions.

    Each landing has its own actions, because one sequence may lead all walkers to the same knife's edge.
    """
    ours, theirs = pool(name, 100), single(name)
    space, moments = theirs.action_space, (1, 8, 30)
    space.seed(0)
    seen, expected = ({t: np.zeros((100, space_size(theirs) + 1)) for t in moments} for _ in range(2))
    ours.reset()
    for t in range(1, max(moments) + 1):
        observation, reward, *_ = ours.step(np.stack([space.sample() for _ in range(100)]))
        if t in moments:
            seen[t][:] = np.column_stack((observation, reward))
    for i in range(100):
        theirs.reset(seed=i)
        for t in range(1, max(moments) + 1):
            observation, reward, *_ = theirs.step(space.sample())
            if t in moments:
                expected[t][i] = np.append(observation, reward)
    for t in moments:
        assert furthest(seen[t], expected[t]) < CRITICAL, t


def space_size(env: Any) -> int:
    return int(np.prod(env.observation_space.shape))
