"""Observations, masks and actions of every space, on their way through the adapter."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from counting import counting
from gaitway_agents.vector.adapt import BrokenEnvironmentError, adapt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv


class Spaces(gymnasium.Env[Any, Any]):
    """Gives ``first`` for ever; keeps the last action."""

    def __init__(
        self, observation: spaces.Space, first: Any, action: spaces.Space | None = None, info: Any = None
    ) -> None:
        self.observation_space, self.first, self.info = observation, first, info or {}
        self.action_space = action or spaces.Discrete(2)
        self.last: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.first, self.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.last = action
        return self.first, 0.0, False, False, self.info


def lone(*args: Any, **kwargs: Any) -> tuple[VectorEnv, Spaces]:
    env = Spaces(*args, **kwargs)
    return adapt(SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)), env


PICTURE = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)


@pytest.mark.parametrize(
    ("space", "first", "target", "expected"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), np.array([0.5, -0.5]), "Box", torch.tensor([[0.5, -0.5]])),
        (spaces.Box(0, 255, (5, 6, 3), np.uint8), PICTURE, "Box", torch.from_numpy(PICTURE).permute(2, 0, 1)[None]),
        (spaces.Box(0, 255, (3, 5, 6), np.uint8), PICTURE.transpose(2, 0, 1), "Box",
         torch.from_numpy(PICTURE).permute(2, 0, 1)[None]),
        (spaces.Box(0, 255, (5, 6), np.uint8), PICTURE[..., 0], "Box", torch.from_numpy(PICTURE)[None, None, ..., 0]),
        (spaces.Box(0, 255, (3,), np.uint8), np.array([1, 2, 255], np.uint8), "Box", torch.tensor([[1.0, 2.0, 255.0]])),
        (spaces.Discrete(4, start=2), 5, "Discrete", torch.tensor([3])),
        (spaces.MultiDiscrete([3, 4]), np.array([2, 3]), "MultiDiscrete", torch.tensor([[2, 3]])),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), "Box", torch.tensor([[1.0, 0.0, 1.0]])),
        (spaces.Tuple((spaces.Discrete(32), spaces.Discrete(2))), (20, 1), "MultiDiscrete", torch.tensor([[20, 1]])),
    ],
)  # fmt: skip
def test_observations_of_every_space(space, first, target, expected):
    env, _ = lone(space, first)
    observation, _ = env.reset(seed=0)
    assert type(env.single_observation_space["policy"]).__name__ == target
    assert observation["policy"].dtype == expected.dtype and torch.equal(observation["policy"], expected)
    assert env.observation_space["policy"].contains(observation["policy"].numpy())
    stepped, *_ = env.step(torch.zeros(1, dtype=torch.int64))
    assert torch.equal(stepped["policy"], expected)


def test_dictionaries_keep_their_names_and_masks_become_flags():
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3), "action_mask": spaces.MultiBinary(2)})
    env, _ = lone(space, {"a": np.ones(2, np.float32), "b": 2, "action_mask": np.array([1, 0], np.int8)})
    observation, _ = env.reset(seed=0)
    assert set(observation) == {"a", "b", "action_mask"} == set(env.single_observation_space.spaces)
    assert observation["action_mask"].tolist() == [[True, False]]
    assert observation["b"].tolist() == [2]


def test_a_mask_in_info_becomes_an_observation():
    env, inner = lone(spaces.Discrete(3), 1, info={"action_mask": np.array([0, 1], np.int8)})
    assert env.single_observation_space["action_mask"] == spaces.MultiBinary((2,))
    assert env.reset(seed=0)[0]["action_mask"].tolist() == [[False, True]]
    assert env.step(torch.zeros(1, dtype=torch.int64))[0]["action_mask"].tolist() == [[False, True]]
    inner.info = {}
    assert env.step(torch.zeros(1, dtype=torch.int64))[0]["action_mask"].tolist() == [[True, True]]


def test_who_gives_no_mask_may_do_anything():
    some = Spaces(spaces.Discrete(3), 1, info={"action_mask": np.array([0, 1], np.int8)})
    none = Spaces(spaces.Discrete(3), 1)
    env = adapt(SyncVectorEnv([lambda: some, lambda: none], autoreset_mode=AutoresetMode.SAME_STEP))
    assert env.reset(seed=0)[0]["action_mask"].tolist() == [[False, True], [True, True]]


def test_masks_follow_the_episode():
    """Taxi's masks are those of its states, also in the first and the last observation."""
    for mode in AutoresetMode:
        env = adapt(gymnasium.make_vec("Taxi-v4", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode},
                                       max_episode_steps=5))  # fmt: skip
        taxi = gymnasium.make("Taxi-v4").unwrapped
        observation, _ = env.reset(seed=3)
        for step in range(11):
            seen = [observation]
            observation, *_, info = env.step(torch.tensor([0, 1, 2]))
            if "final_obs" in info:
                assert step in (4, 9)
                seen.append(info["final_obs"])
            for one in [*seen, observation]:
                expected = np.stack([taxi.action_mask(int(state)) for state in one["policy"]])
                np.testing.assert_array_equal(one["action_mask"].numpy(), expected.astype(bool))


def test_unknown_spaces_are_refused_with_what_to_do():
    nested = spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})})
    with pytest.raises(ValueError, match=r"'a'.*FlattenObservation"):
        lone(nested, {"a": {"b": 0}})
    with pytest.raises(ValueError, match="FlattenObservation"):
        lone(spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1))), (0, np.zeros(1)))
    with pytest.raises(ValueError, match="action space"):
        lone(spaces.Discrete(2), 0, action=spaces.MultiBinary(2))


@pytest.mark.parametrize(
    ("space", "given_action", "received"),
    [
        (spaces.Discrete(3, start=-1), torch.tensor([0]), -1),
        (spaces.MultiDiscrete([2, 3]), torch.tensor([[1, 2]]), [1, 2]),
        (spaces.Box(-1.0, 2.0, (2,), np.float64), torch.tensor([[-7.0, 7.0]]), [-1.0, 2.0]),
        (spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf])), torch.tensor([[-7.0, -7.0]]), [-7.0, 0.0]),
    ],
)
def test_actions_reach_the_environment_in_its_own_terms(space, given_action, received):
    env, inner = lone(spaces.Discrete(2), 0, action=space)
    env.reset(seed=0)
    kept = given_action.clone()
    env.step(given_action)
    np.testing.assert_array_equal(inner.last, received)
    assert torch.equal(given_action, kept), "the agent keeps its unclipped action"
    assert np.asarray(inner.last).dtype == space.dtype


def test_bad_actions_are_refused():
    env = adapt(counting("sync same-step", [5, 5], [False, False]))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(torch.zeros(2, 1))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"\(1, 1\).*\(2, 1\)"):
        env.step(torch.zeros(1, 1))
    with pytest.raises(ValueError, match=r"environment 1 is .*nan.*policy"):
        env.step(torch.tensor([[0.0], [torch.nan]]))
    env, _ = lone(spaces.Discrete(2), 0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"float32.*whole numbers"):
        env.step(torch.zeros(1))


def test_observations_out_of_a_discrete_space_are_refused():
    env, inner = lone(spaces.Discrete(3), 2)
    env.reset(seed=0)
    inner.first = 3
    with pytest.raises(BrokenEnvironmentError, match=r"'policy' of environment 0 is 3, outside of Discrete\(3\)"):
        env.step(torch.zeros(1, dtype=torch.int64))


def test_large_finite_numbers_are_not_refused():
    env, _ = lone(spaces.Box(-np.inf, np.inf, (2,)), np.array([3e38, -3e38], np.float32))
    assert torch.isfinite(env.reset(seed=0)[0]["policy"]).all()
