"""Observations, masks and actions of every space, on their way through the adapter."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from counting import counting
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.encoders import Encoder
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
        (spaces.Box(-1, 1, (), np.float64), np.float64(0.5), "Box", torch.tensor([[0.5]])),
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


NESTED = spaces.Dict(
    {
        "arm": spaces.Dict(
            {"left": spaces.Box(-1, 1, ()), "hand": spaces.Tuple((spaces.Discrete(5), spaces.Discrete(2)))}
        ),
        "task": spaces.Text(9),
        "both": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.Sequence(spaces.Discrete(2)))),
    }
)
GIVEN = {
    "arm": {"left": np.float32(0.5), "hand": (4, 1)},
    "task": "open",
    "both": (2, np.array([0.1, 0.2], np.float32), (1, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("mode", AutoresetMode)
def test_parts_inside_parts_are_named_and_texts_left_out(mode):
    class Ends(Spaces):
        def step(self, action: Any) -> tuple[Any, ...]:
            return self.first, 0.0, True, False, {}

    env = adapt(SyncVectorEnv([lambda: Ends(NESTED, GIVEN)] * 2, autoreset_mode=mode))
    expected = {
        "arm.left": [[0.5]] * 2, "arm.hand": [[4, 1]] * 2, "both.0": [2] * 2,
        "both.1": [[np.float32(0.1), np.float32(0.2)]] * 2,
    }  # fmt: skip
    observation, _ = env.reset(seed=0)
    following, *_, info = env.step(torch.zeros(2, dtype=torch.int64))
    for seen in (observation, following, info["final_obs"]):
        assert {name: value.tolist() for name, value in seen.items()} == expected
        assert env.observation_space.contains({name: value.numpy() for name, value in seen.items()})
    assert [note.partition(" is left out: ")[0] for note in env.notes] == ["observation 'both.2'", "observation 'task'"]


def test_what_has_no_readable_part_is_refused_with_what_to_do():
    for space, first in ((spaces.Text(5), "a"), (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), {"a": ()})):
        with pytest.raises(ValueError, match=r"(Text|Sequence).*agents read Box.*ObservationWrapper.*gym:MODULE:ID"):
            lone(space, first)
    with pytest.raises(ValueError, match="two entries of one name"):
        lone(spaces.Dict({"a.b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})}), None)
    with pytest.raises(ValueError, match="action space"):
        lone(spaces.Discrete(2), 0, action=spaces.MultiBinary(2))


@pytest.mark.parametrize(
    ("shape", "target", "note"),
    [
        ((40, 40, 45), (45, 40, 40), "images of 40 x 40 pixels, 45 channels (last)"),
        ((45, 40, 40), (45, 40, 40), "images of 40 x 40 pixels, 45 channels (first)"),
        ((96, 96, 3), (3, 96, 96), "images of 96 x 96 pixels, 3 channels (last)"),
        ((210, 160, 3), (3, 210, 160), "images of 210 x 160 pixels, 3 channels (last)"),
        ((3, 60, 100), (3, 60, 100), "images of 60 x 100 pixels, 3 channels (first)"),
        ((64, 64, 64), (64, 64, 64), "images of 64 x 64 pixels, 64 channels (last)"),
        ((50, 60), (1, 50, 60), "images of 50 x 60 pixels, 1 channel"),
        ((7, 7, 3), (3, 7, 7), "7 x 7 x 3 bytes read as numbers, too small for convolutions"),
        ((8, 8, 12), (12, 8, 8), "8 x 8 x 12 bytes read as numbers, too small for convolutions"),
        ((4, 4), (1, 4, 4), "4 x 4 bytes read as numbers, too small for convolutions"),
    ],
)
def test_the_layout_of_images_is_found_and_told(shape, target, note):
    """A pixel's place tells where its row, column and channel are; a policy takes what comes out."""
    picture = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    env, _ = lone(spaces.Box(0, 255, shape, np.uint8), picture)
    seen = env.reset(seed=0)[0]["policy"]
    assert seen.shape[1:] == env.single_observation_space["policy"].shape == target
    channels_last = np.moveaxis(picture, -1, 0) if "last" in note or "x 12" in note or "x 3 b" in note else picture
    np.testing.assert_array_equal(seen[0].numpy(), channels_last.reshape(target))
    assert env.notes == [f"observation 'policy': {note}"]
    encoder = Encoder(env.single_observation_space, ["policy"], normalize=True)
    encoder.update({"policy": seen})
    assert encoder({"policy": seen}).shape == (1, encoder.dim) and encoder.dim in (512, np.prod(shape))


def test_observations_that_are_not_for_the_policy_are_told():
    box = spaces.Box(-1, 1, (2,))
    space = spaces.Dict(dict.fromkeys(("policy", "goal", "critic", "action_mask"), box))
    env, _ = lone(space, {name: np.zeros(2, np.float32) for name in space}, action=box)
    assert env.notes == [
        "observation 'action_mask' is left out: the actions are no choices",
        "observation 'critic' is for the critic alone",
        "the policy reads observation 'policy' alone, not goal",
    ]
    actor = ActorCritic(env.single_observation_space, env.single_action_space, ActorCriticConfig())
    assert (actor.actor_encoder.keys, actor.critic_encoder.keys) == (["policy"], ["critic"])
    plain, _ = lone(spaces.Dict({"goal": box, "camera": box}), {"goal": np.zeros(2), "camera": np.zeros(2)})
    assert plain.notes == []


# ---- masks -----------------------------------------------------------------------------------------------------------

PAIR = spaces.MultiDiscrete([3, 2])


@pytest.mark.parametrize(
    ("action", "mask", "flags"),
    [
        (spaces.Discrete(3), [True, False, True], [1, 0, 1]),
        (spaces.Discrete(3), np.array([1.0, 0.0, 1.0]), [1, 0, 1]),
        (spaces.Discrete(3), np.array([[0, 1, 1]], np.int8), [0, 1, 1]),
        (PAIR, np.array([1, 1, 0, 0, 1], np.int8), [1, 1, 0, 0, 1]),
        (PAIR, np.array([[1, 1, 0], [1, 0, 0]], np.int8), [1, 1, 0, 1, 0]),
        (PAIR, [[1, 1, 0], [1, 0, 0]], [1, 1, 0, 1, 0]),
        (PAIR, (np.array([1, 1, 0]), np.array([0, 1])), [1, 1, 0, 0, 1]),
        (PAIR, [[True, True, False], [True, True]], [1, 1, 0, 1, 1]),
    ],
    ids=str,
)
def test_a_mask_in_any_usual_form_is_flags(action, mask, flags):
    env, _ = lone(spaces.Discrete(3), 1, action=action, info={"action_mask": mask})
    assert env.single_observation_space["action_mask"] == spaces.MultiBinary((len(flags),))
    expected = [[bool(flag) for flag in flags]]
    assert env.reset(seed=0)[0]["action_mask"].tolist() == expected
    assert env.step(torch.zeros(env.action_space.shape, dtype=torch.int64))[0]["action_mask"].tolist() == expected


@pytest.mark.parametrize(
    ("action", "mask", "message"),
    [
        (spaces.Discrete(3), np.array([1, 1]), r"shape \(2,\), it must have \(3,\)"),
        (spaces.Discrete(3), [True, False], r"shape \(2,\), it must have \(3,\)"),
        (PAIR, np.ones((3, 3)), r"shape \(3, 3\), it must have \(5,\), or \(2, 3\)"),
        (PAIR, [[1, 1], [1, 1, 1]], r"parts of \[2, 3\] flags, they must be \[3, 2\]"),
        (spaces.Discrete(3), np.array([0.0, -np.inf, 0.0]), "value .*-inf"),
        (spaces.Discrete(3), np.array([2, 1, 1]), "value .*2"),
    ],
    ids=str,
)
def test_a_mask_that_is_none_is_named_with_what_it_must_be(action, mask, message):
    env, _ = lone(spaces.Discrete(3), 1, action=action, info={"action_mask": mask})
    with pytest.raises(BrokenEnvironmentError, match=f"action_mask has .*{message}"):
        env.reset(seed=0)


def test_a_mask_in_the_observation_has_the_same_forms():
    space = spaces.Dict({"o": spaces.Discrete(3), "action_mask": spaces.MultiBinary((2, 3))})
    first = {"o": 1, "action_mask": np.array([[1, 0, 1], [0, 1, 1]], np.int8)}
    env, _ = lone(space, first, action=PAIR)
    assert env.reset(seed=0)[0]["action_mask"].tolist() == [[True, False, True, False, True]]
    with pytest.raises(BrokenEnvironmentError, match=r"action_mask has shape \(2, 3\), it must have \(4,\)"):
        lone(space, first, action=spaces.Discrete(4))


def test_a_mask_that_comes_late_is_not_ignored():
    env, inner = lone(spaces.Discrete(3), 1)
    env.reset(seed=0)
    inner.info = {"action_mask": np.array([0, 1], np.int8)}
    with pytest.raises(BrokenEnvironmentError, match=r"first reset.*action_masks\(\).*step 1"):
        env.step(torch.zeros(1, dtype=torch.int64))


# ---- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "given_action", "received"),
    [
        (spaces.Discrete(3, start=-1), torch.tensor([0]), -1),
        (spaces.MultiDiscrete([2, 3]), torch.tensor([[1, 2]]), [1, 2]),
        (spaces.Box(-1.0, 2.0, (), np.float64), torch.tensor([7.0]), 2.0),
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
