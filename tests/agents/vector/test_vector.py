"""The adapter: exact counts in every autoreset mode, statistics of episodes, and saved states."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from counting import KINDS, SLOW_KINDS, Counting, StubbornCounting, counting
from gaitway_agents.core.advantage import gae
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers import vector as vector_wrappers
from hypothesis import given, settings
from hypothesis import strategies as st


def still(env: VectorEnv) -> torch.Tensor:
    return torch.zeros(env.action_space.shape)


# ---- autoreset -------------------------------------------------------------------------------------------------------


def check_counts(env: VectorEnv, lengths: list[int], dies: list[bool], steps: int) -> int:
    """Every number of ``steps`` steps is the one that counting gives; how many rows were no transitions."""
    n, invalid = len(lengths), 0
    limits, deaths = torch.tensor(lengths), torch.tensor(dies)
    observation, _ = env.reset(seed=0)
    age, restarts = torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.bool)
    for _ in range(steps):
        assert torch.equal(observation["policy"][~restarts, 0], age[~restarts].float())
        observation, reward, terminated, truncated, info = env.step(still(env) + 3.0)
        valid = info.get("valid", torch.ones(n, dtype=torch.bool))
        assert torch.equal(valid, ~restarts)
        assert ("valid" in info) == bool(restarts.any())
        age = torch.where(restarts, 0, age + 1)
        over = age == limits
        assert torch.equal(reward, valid.float())
        assert torch.equal(terminated, over & deaths) and torch.equal(truncated, over & ~deaths)
        assert ("final_obs" in info) == ("_final_obs" in info) == ("episode" in info) == bool(over.any())
        if over.any():
            assert torch.equal(info["_final_obs"], over) and torch.equal(info["_episode"], over)
            assert info["final_obs"]["policy"].shape == (n, 1)
            assert torch.equal(info["final_obs"]["policy"][over, 0], limits[over].float())
            assert torch.equal(info["episode"]["l"][over], limits[over])
            assert torch.equal(info["episode"]["r"][over], limits[over].float())
        restarts = over & bool(isinstance(env.env, StubbornCounting))
        age = torch.where(over & ~restarts, 0, age)
        invalid += int((~valid).sum())
    return invalid


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(ends=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4))
def test_every_mode_counts_the_same(kind, ends):
    lengths, dies = [length for length, _ in ends], [dead for _, dead in ends]
    invalid = check_counts(adapt(counting(kind, lengths, dies)), lengths, dies, 15)
    assert (invalid > 0) == (kind == "stubborn"), "only what cannot restart alone loses steps"


@pytest.mark.parametrize("kind", SLOW_KINDS)
def test_other_processes_count_the_same(kind):
    env = adapt(counting(kind, [2, 5], [False, True]))
    assert check_counts(env, [2, 5], [False, True], 12) == 0
    env.close()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(length=st.integers(1, 9), gamma=st.floats(0.0, 0.99), lam=st.floats(0.0, 1.0))
def test_the_value_of_one_reward_a_step_does_not_depend_on_the_time_limit(kind, length, gamma, lam):
    """1 / (1 - gamma) explains every rollout exactly, unless a time limit is taken for a death."""
    env = adapt(counting(kind, [length, length + 2], [False, False]))
    env.reset(seed=0)
    rows = {"reward": [], "terminated": [], "truncated": [], "valid": []}
    for _ in range(12):
        _, reward, terminated, truncated, info = env.step(still(env))
        valid = info.get("valid", torch.ones(2, dtype=torch.bool))
        for name, value in zip(rows, (reward.double(), terminated, truncated, valid), strict=True):
            rows[name].append(value)
    reward, terminated, truncated, valid = (torch.stack(values) for values in rows.values())
    value = torch.full_like(reward, 1.0 / (1.0 - gamma))
    advantage = gae(reward, value, value, terminated, terminated | truncated, gamma, lam)
    assert advantage[valid].abs().max() < 1e-9 / (1.0 - gamma)
    if gamma > 0.1:
        mistaken = gae(reward, value, value, truncated, truncated, gamma, lam)
        assert mistaken[truncated].abs().min() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_steps_bootstrap_from_what_was_seen_last(kind):
    """With a value that depends on the observation, only the true final observation gives these advantages."""
    env, gamma = adapt(counting(kind, [3], [False])), 0.9
    value = torch.tensor([0.3, -1.2, 2.0, 0.7])
    observation, _ = env.reset(seed=0)
    for _ in range(9):
        before = int(observation["policy"][0, 0])
        observation, reward, _, truncated, info = env.step(still(env))
        if not info.get("valid", torch.ones(1, dtype=torch.bool))[0]:
            continue
        after = info["final_obs"]["policy"] if truncated[0] else observation["policy"]
        delta = reward[0] + gamma * value[int(after[0, 0])] - value[before]
        assert delta == pytest.approx(float(1.0 + gamma * value[before + 1] - value[before]))


def test_a_death_at_the_time_limit_is_a_death():
    def both(age: int, result: tuple[Any, ...]) -> tuple[Any, ...]:
        return *result[:2], age == 4, age == 4, {}

    env = adapt(SyncVectorEnv([partial(Counting, 4, False, both)], autoreset_mode=AutoresetMode.SAME_STEP))
    env.reset(seed=0)
    for _ in range(4):
        _, _, terminated, truncated, _ = env.step(still(env))
    assert terminated.all() and not truncated.any()


# ---- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", AutoresetMode)
def test_statistics_of_the_environments_own(mode):
    """Statistics beneath reward wrappers count."""

    def make() -> gymnasium.Env:
        env = RecordEpisodeStatistics(Counting(3))
        return gymnasium.wrappers.TransformReward(env, lambda reward: 0.01 * reward)

    env = adapt(SyncVectorEnv([make], autoreset_mode=mode))
    env.reset(seed=0)
    ends = [info for *_, info in (env.step(still(env)) for _ in range(9)) if "episode" in info]
    assert [(float(end["episode"]["r"][0]), int(end["episode"]["l"][0])) for end in ends] == [(3.0, 3)] * 3


def test_statistics_of_a_vector_wrapper():
    inner = counting("sync next-step", [2, 3], [True, False])
    env = adapt(vector_wrappers.RecordEpisodeStatistics(inner))
    env.reset(seed=0)
    seen = []
    for _ in range(10):
        *_, info = env.step(still(env))
        if "episode" in info:
            seen += [(i, float(info["episode"]["r"][i])) for i in info["_episode"].nonzero().flatten().tolist()]
    assert set(seen) == {(0, 2.0), (1, 3.0)}


class Stray(StubbornCounting):
    """Pays for the step that only restarts."""

    def step(self, actions: Any) -> tuple[Any, ...]:
        observation, reward, *rest = super().step(actions)
        return observation, reward + 7.0 * (reward == 0.0), *rest


def test_what_a_restart_pays_belongs_to_no_episode():
    env = adapt(Stray([2, 3], [False, True]))
    env.reset(seed=0)
    ends = [info for *_, info in (env.step(still(env)) for _ in range(12)) if "episode" in info]
    assert {tuple(end["episode"]["r"][end["_episode"]].tolist()) for end in ends} <= {(2.0,), (3.0,), (2.0, 3.0)}


class Reusing(StubbornCounting):
    """Writes every result into the same arrays, and accounts for every second episode only."""

    def __init__(self) -> None:
        super().__init__([2, 3], [False, True])
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.arrays: list[Any] = []

    def step(self, actions: Any) -> tuple[Any, ...]:
        observation, reward, terminated, truncated, _ = super().step(actions)
        over = terminated | truncated
        numbers = np.array([5.0, 6.0], np.float32)
        new = [observation, reward.astype(np.float32), terminated, truncated, over, over & (self.age == 3), numbers]
        self.arrays = self.arrays or [np.array(value) for value in new]
        for mine, value in zip(self.arrays, new, strict=True):
            mine[...] = value
        *result, over, counted, numbers = self.arrays
        info = {
            "final_obs": result[0],
            "_final_obs": over,
            "episode": {"r": numbers, "l": numbers},
            "_episode": counted,
        }
        return *result, info


def test_nothing_is_kept_that_the_environment_writes_to():
    env = adapt(Reusing())
    env.reset(seed=0)
    kept = [env.step(still(env)) for _ in range(6)]
    copies = copy.deepcopy(kept)
    env.env.arrays[0][:] = -1.0
    for array in env.env.arrays[1:]:
        array[:] = 1
    for one, other in zip(kept, copies, strict=True):
        assert torch.equal(one[0]["policy"], other[0]["policy"])
        assert all(torch.equal(a, b) for a, b in zip(one[1:4], other[1:4], strict=True))
        assert one[4].keys() == other[4].keys()
        for name in ("_final_obs", "_episode"):
            assert name not in one[4] or torch.equal(one[4][name], other[4][name])
    accounts = [info for *_, info in kept if "episode" in info]
    assert len(accounts) == 1 and accounts[0]["_episode"].tolist() == [False, True]
    assert float(accounts[0]["episode"]["r"][1]) == 6.0


class Chatty(Counting):
    """Tells ``info`` in every step and reset."""

    def __init__(self, info: Any):
        super().__init__(3)
        self.info = info

    def reset(self, **settings: Any) -> tuple[Any, Any]:
        return super().reset(**settings)[0], dict(self.info)

    def step(self, action: Any) -> tuple[Any, ...]:
        return *super().step(action)[:4], dict(self.info)


@pytest.mark.parametrize(
    "info",
    [
        {"valid": False},
        {"valid": np.array([True, False])},
        {"episode": 7},
        {"episode": {"reward": 3.0}},
        {"episode": {"r": "red", "l": "left"}},
        {"episode": {"r": 40.0, "l": 90}},
        {"episode": {"r": 40.0, "l": 0}, "valid": 0, "ended": 1, "log": {"x": 1}, "final_rows": 2, "_episode": 5},
        {"final_info": {"episode": {"r": 40.0, "l": 90}}, "env_id": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", AutoresetMode)
def test_an_environments_own_info_is_its_own_business(info, mode):
    env = adapt(SyncVectorEnv([lambda: Chatty(info)] * 2, autoreset_mode=mode))
    env.reset(seed=0)
    steps = [env.step(still(env))[4] for _ in range(9)]
    assert not any("valid" in told for told in steps)
    assert [told.keys() for told in steps if told] == [{"final_obs", "_final_obs", "_episode", "ended", "episode"}] * 3
    for told in steps[2::3]:
        assert told["episode"]["r"].tolist() == [3.0, 3.0] and told["episode"]["l"].tolist() == [3, 3]


# ---- what adapt lets through -----------------------------------------------------------------------------------------


def test_what_is_in_torch_already_passes_unchanged():
    env = adapt(counting("sync same-step", [5], [False]))
    assert adapt(env) is env
    env.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
    with pytest.raises(ValueError, match="SAME_STEP"):
        adapt(env)


def test_an_undeclared_autoreset_mode_is_refused():
    env = StubbornCounting([3], [False])
    env.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        adapt(env)


# ---- state -----------------------------------------------------------------------------------------------------------


class Remembering(StubbornCounting):
    def state_dict(self) -> dict[str, Any]:
        return {"age": self.age.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.age = state["age"].copy()


def test_the_state_is_exact_where_the_environments_is():
    def run(env: VectorEnv) -> list[Any]:
        return [env.step(still(env)) for _ in range(7)]

    env = adapt(Remembering([3, 4], [False, True]))
    env.reset(seed=0)
    for _ in range(3):
        env.step(still(env))
    saved = copy.deepcopy(env.state_dict())
    expected, fresh = run(env), adapt(Remembering([3, 4], [False, True]))
    fresh.load_state_dict(saved)
    for one, other in zip(expected, run(fresh), strict=True):
        assert torch.equal(one[0]["policy"], other[0]["policy"])
        assert all(torch.equal(a, b) for a, b in zip(one[1:4], other[1:4], strict=True))
        assert one[4].keys() == other[4].keys()
        if "episode" in one[4]:
            assert torch.equal(one[4]["episode"]["r"], other[4]["episode"]["r"])


def test_other_environments_restart_by_seed_and_steps():
    def make() -> VectorEnv:
        vector_kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
        return adapt(gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync", vector_kwargs=vector_kwargs))

    left = torch.zeros(3, dtype=torch.int64)
    env = make()
    env.reset(seed=7)
    saved = []
    for _ in range(2):
        env.step(left)
        saved.append(env.state_dict())
    assert all(type(value) in (int, list) for value in saved[0].values())

    def resume(state: dict[str, Any]) -> list[Any]:
        fresh = make()
        fresh.load_state_dict(copy.deepcopy(state))
        return [fresh.step(left) for _ in range(4)]

    first, again, later = resume(saved[0]), resume(saved[0]), resume(saved[1])
    observation, reward, terminated, truncated, info = first[0]
    assert not info["valid"].any() and truncated.all() and not terminated.any() and not reward.any()
    assert "episode" not in info and "valid" not in first[1][4]
    assert all(torch.equal(a[0]["policy"], b[0]["policy"]) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0][0]["policy"], later[0][0]["policy"])
    assert len(torch.unique(observation["policy"], dim=0)) == 3
