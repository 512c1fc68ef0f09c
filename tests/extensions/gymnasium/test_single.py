"""Environments of other people, one at a time: what they give and what they raise."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.vector.adapt import BrokenEnvironmentError, adapt
from gaitway_files import foreign
from gaitway_files.foreign import EnvironmentRaised
from gaitway_gymnasium import GymTask, make_env
from gymnasium import spaces


class Told(gymnasium.Env[Any, Any]):
    """Three steps an episode; ``say(call, steps)`` gives what differs from the plain results."""

    def __init__(self, say: Any, observation: Any = None, action: Any = None):
        self.observation_space = observation or spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = action or spaces.Discrete(3)
        self.say, self.steps, self.taken = say, 0, []
        self.say("constructor", 0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        plain = {"observation": np.zeros(2, np.float32), "info": {}} | (self.say("reset", 0) or {})
        return plain["observation"], plain["info"]

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.taken.append(action)
        plain = {
            "observation": np.zeros(2, np.float32), "reward": 1.0, "terminated": self.steps == 3, "truncated": False,
            "info": {},
        } | (self.say("step", self.steps) or {})  # fmt: skip
        return tuple(plain.values())


@pytest.fixture
def make(monkeypatch):
    def build(
        say: Any,
        num_envs: int = 2,
        vectorization: str = "sync",
        kind: type[Told] = Told,
        max_episode_steps: int | None = None,
        limit: float = 600.0,
        **more: Any,
    ) -> gymnasium.vector.VectorEnv:
        monkeypatch.delitem(gymnasium.registry, "Told-v0", raising=False)
        gymnasium.register("Told-v0", entry_point=lambda: kind(say, **more), max_episode_steps=max_episode_steps)
        task = GymTask(name="told", env_id="Told-v0", vectorization=vectorization, call_time_limit=limit)
        return adapt(make_env(task, num_envs), limit)

    yield build
    gymnasium.registry.pop("Told-v0", None)


def play(env: Any, steps: int) -> list[Any]:
    env.reset(seed=0)
    return [env.step(torch.zeros(env.action_space.shape, dtype=torch.int64)) for _ in range(steps)]


class Odd(Exception):
    """An exception that cannot be sent to another process."""

    def __init__(self, *, code: int):
        super().__init__(f"code {code}")


@pytest.mark.parametrize("error", [ConnectionError("lost it"), KeyError("x"), Odd(code=3), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("call", ["constructor", "reset", "step"])
def test_what_it_raises_is_told_with_its_name_the_call_and_the_place(call, error, make):
    def say(now: str, steps: int) -> None:
        if now == call and steps in (0, 2):
            raise error

    where = "step 2" if call == "step" else call
    with pytest.raises(EnvironmentRaised) as found:
        play(make(say), 3)
    start = f"environment Told-v0 raised {type(error).__name__}: {error} ({where}), in test_single.py, line "
    assert str(found.value).startswith(start)


def test_what_it_raises_in_another_process_is_told_too(make):
    def say(now: str, steps: int) -> None:
        if steps == 2:
            raise Odd(code=3)

    env = make(say, vectorization="async")
    env.reset(seed=4)
    before = env.state_dict()
    with pytest.raises(EnvironmentRaised, match=r"^environment Told-v0 raised Odd: code 3 \(step 2\), in test_single"):
        play(env, 3)
    assert env.state_dict() == before | {"seeds": [0], "steps": 2}, "a checkpoint can still be written"
    env.close()


@pytest.mark.parametrize("call", ["constructor", "reset", "step"])
def test_a_call_that_does_not_return_is_given_up(call, make, monkeypatch):
    monkeypatch.setattr(foreign, "LOOK", 0.02)
    monkeypatch.setattr(foreign, "_watcher", None)
    where = "step 2" if call == "step" else call
    message = f"^environment Told-v0 does not return from its {where}; raise task.call_time_limit"
    with pytest.raises(BrokenEnvironmentError, match=message):
        play(make(lambda now, steps: now == call and steps in (0, 2) and time.sleep(60), limit=0.2), 3)


def test_a_process_that_does_not_answer_is_not_waited_for(make, monkeypatch):
    monkeypatch.setattr(foreign, "LOOK", 0.02)
    monkeypatch.setattr(foreign, "_watcher", None)
    env = make(lambda now, steps: steps == 2 and time.sleep(60), vectorization="async", limit=2.0)
    with pytest.raises(BrokenEnvironmentError, match=r"^environment Told-v0 does not return from its step 2; "):
        play(env, 3)
    env.unwrapped.close(terminate=True)


def test_a_signal_and_want_of_memory_are_not_the_environments(make):
    def say(now: str, steps: int) -> None:
        if steps == 1:
            raise error

    for error in (KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(error)):
            play(make(say), 1)


@pytest.mark.parametrize(
    "reward", [2, 2.0, np.float32(2), np.array([2.0]), np.array(2), [2.0], torch.tensor([2.0]), np.array([[2]], int)],
    ids=repr,
)  # fmt: skip
def test_a_reward_of_one_element_is_a_number(reward, make):
    *_, info = play(make(lambda now, steps: {"reward": reward}), 3)[2]
    assert info["episode"]["r"].tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    ("given", "ends"),
    [(np.array([True]), True), (1, True), (np.bool_(False), False), (0.0, False), (None, False)],
    ids=repr,
)
def test_ends_are_flags(given, ends, make):
    _, _, terminated, truncated, _ = play(make(lambda now, steps: {"truncated": given}), 1)[0]
    assert truncated.tolist() == [ends] * 2 and not terminated.any()


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({"reward": None}, "reward is None"),
        ({"reward": "2.0"}, "reward is '2.0'"),
        ({"reward": np.ones(2)}, r"reward is array\(\[1., 1.\]\)"),
        ({"terminated": "no"}, "terminated is 'no'"),
        ({"truncated": 2}, "truncated is 2"),
        ({"truncated": float("nan")}, "truncated is nan"),
        ({"observation": np.zeros(3, np.float32)}, r"observation has shape \(3,\), its space promises \(2,\)"),
        ({"more": 1}, "gives 6 results, not observation, reward, terminated, truncated, info"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named(spoilt, message, make):
    env = make(lambda now, steps: spoilt if steps == 2 else None)
    with pytest.raises(BrokenEnvironmentError, match=f"{message}.*step 2 of Told-v0"):
        play(env, 2)


def test_an_entry_that_lacks_is_named(make):
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, ())})
    for given in ({"a": np.zeros(2)}, None):
        with pytest.raises(BrokenEnvironmentError, match=r"observation has no '[ab]'.*reset of Told-v0"):
            make(lambda now, steps, given=given: {"observation": given}, observation=space)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_info_of_any_kind_is_its_own(vectorization, make):
    """Gymnasium puts the entries of all environments into one array, whatever they are."""
    kinds = [1, "two", None, {"valid": False}, np.zeros(3), {"r": 9.0, "l": 9}, np.zeros(2)]
    count = iter(range(10**6))

    def say(now: str, steps: int) -> Any:
        names = ("episode", "valid", "final_obs", "final_info", "_episode", "x")
        return {"info": {name: kinds[next(count) % len(kinds)] for name in names}} if steps < 3 else {"info": None}

    env = make(say, num_envs=3, vectorization=vectorization)
    *_, info = play(env, 3)[2]
    assert info["episode"]["r"].tolist() == [3.0] * 3 and info["episode"]["l"].tolist() == [3] * 3
    env.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_method_action_masks_is_used(vectorization, make):
    """sb3-contrib's convention; at an episode's end it is the mask of what was seen last."""

    class Masked(Told):
        def action_masks(self) -> Any:
            return np.arange(3) <= self.steps % 3

    env = make(lambda now, steps: None, vectorization=vectorization, kind=Masked, max_episode_steps=2)
    observation, _ = env.reset(seed=0)
    steps = [env.step(torch.zeros(2, dtype=torch.int64)) for _ in range(2)]
    allowed = [seen["action_mask"].sum(1).tolist() for seen in (observation, *(step[0] for step in steps))]
    assert allowed == [[1, 1], [2, 2], [1, 1]]
    assert steps[1][4]["final_obs"]["action_mask"].sum(1).tolist() == [3, 3]
    env.close()


def test_a_mask_in_info_comes_before_the_method(make, monkeypatch):
    monkeypatch.setattr(Told, "action_masks", lambda self: np.ones(3, bool), raising=False)
    env = make(lambda now, steps: {"info": {"action_mask": [True, False, False]}})
    assert env.reset(seed=0)[0]["action_mask"].tolist() == [[True, False, False]] * 2


def test_a_method_without_choices_is_no_mask(make, monkeypatch):
    monkeypatch.setattr(Told, "action_masks", lambda self: np.ones(3, bool), raising=False)
    env = make(lambda now, steps: None, action=spaces.Box(-1, 1, (2,)))
    assert set(env.reset(seed=0)[0]) == {"policy"}
