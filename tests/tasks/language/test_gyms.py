"""Gymnasium environments in words: what is said of them, and what an answer does."""

import pickle
from collections import Counter
from itertools import islice

import pytest
from gaitway_tasks.language.gyms import IDS, GymnasiumSource, action_named
from gaitway_tasks.language.tasks import get_language_task
from gaitway_tasks.language.watched import EnvironmentFailedError
from gaitway_tasks.registry import find_task

gymnasium = pytest.importorskip("gymnasium")
LAKE = GymnasiumSource(env_id="FrozenLake-v1", kwargs={"is_slippery": False}, test=4, train=40)
NAMES = ("left", "down", "right", "up")


def played(source, *answers, seed=0):
    env = source.new()
    env.reset({"seed": seed})
    return [env.step(answer) for answer in answers]


def test_the_way_over_the_lake_is_worth_one():
    opening = LAKE.new().reset({"seed": 0})
    assert "S F F F / F H F H / F F F H / H F F G" in opening and "row 0 column 0" in opening
    *on, goal = played(LAKE, *["down", "down", "right", "right", "down", "right"])
    assert [turn.reply for turn in on] == [
        "row 1 column 0", "row 2 column 0", "row 2 column 1", "row 2 column 2", "row 3 column 2",
    ]  # fmt: skip
    assert goal.reply is None and goal.reward == 1.0 and not any(turn.reward for turn in on)
    hole = played(LAKE, "right", "down")[-1]
    assert hole.reply is None and hole.reward == 0.0


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("left", 0),
        ("I go RIGHT.", 2),
        ("<think> left or down or up </think> right", 2),
        ("left? <answer> up </answer>", 3),
        ("<answer> up", None),
        ("left or right", None),
        ("leftmost", None),
        ("", None),
        ("up up", 3),
    ],
)
def test_an_answer_names_one_action(answer, action):
    assert action_named(answer, NAMES) == action


def test_an_answer_without_an_action_moves_nothing_and_costs():
    nothing, step = played(LAKE, "hmm", "down")
    assert nothing.reward == -1.0 and "left, down, right or up" in nothing.reply
    assert step.reply == "row 1 column 0"


def test_the_environments_own_time_limit_ends_the_dialogue():
    source = GymnasiumSource(env_id="FrozenLake-v1", kwargs={"is_slippery": False, "max_episode_steps": 3})
    assert [turn.reply is None for turn in played(source, "up", "up", "up")] == [False, False, True]


@pytest.mark.parametrize("env_id", [*IDS.values(), "CartPole-v1"])
def test_what_is_told_is_what_happens(env_id):
    """A walk of the rows, taken again in the bare environment, is paid as there; what is said has known words."""
    source = GymnasiumSource(env_id=env_id, test=3)
    row = source.rows("test")[1]
    assert row == source.rows("test")[1]
    env, text = source.make(), source.new()
    assert text.reset(row) == row["prompt"] == row["messages"][0]["content"]
    env.reset(seed=row["seed"])
    for message in row["messages"][1::2]:
        turn = text.step(message["content"])
        _, reward, terminated, truncated, _ = env.step(text.names.index(message["content"]))
        assert turn.reward == reward and (turn.reply is None) == (terminated or truncated)
    if env_id in IDS.values():
        words = set(" ".join([row["prompt"], *source.vocabulary()]).replace(",", "").replace(".", "").split())
        said = {word.strip(",.") for message in row["messages"] for word in message["content"].split()}
        assert said <= words


def test_any_other_environment_shows_its_picture_of_text(monkeypatch):
    class Bells(gymnasium.Env):
        metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
        action_space, observation_space = gymnasium.spaces.Discrete(2, start=3), gymnasium.spaces.Discrete(2)

        def __init__(self, render_mode=None):
            self.render_mode, self.rung = render_mode, []

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            self.rung.append(int(action))
            return 0, 0.5, False, False, {}

        def render(self):
            return f"bells \x1b[41m{self.rung}\x1b[0m\n"

    monkeypatch.setitem(gymnasium.registry, "Bells-v0", gymnasium.envs.registration.EnvSpec("Bells-v0", Bells))
    source = GymnasiumSource(env_id="Bells-v0")
    assert source.new().reset({"seed": 1}) == "You play Bells-v0. bells [[]]. Say 3 or 4."
    assert [turn.reply for turn in played(source, "4", "3")] == ["bells [[4]]", "bells [[4, 3]]"]
    named = GymnasiumSource(env_id="Bells-v0", actions=("ding", "dong"))
    assert played(named, "dong")[0].reply == "bells [[4]]"
    with pytest.raises(ValueError, match=r"actions ding: Bells-v0 has 2"):
        GymnasiumSource(env_id="Bells-v0", actions=("ding",)).rows("test")


def test_an_environment_that_raises_is_named_with_its_seed(monkeypatch):
    class Cracked(gymnasium.Env):
        action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            raise OSError("the ice is gone")

    monkeypatch.setitem(gymnasium.registry, "Cracked-v0", gymnasium.envs.registration.EnvSpec("Cracked-v0", Cracked))
    with pytest.raises(EnvironmentFailedError, match=r"Cracked-v0 with the seed 0 raised OSError: the ice is gone"):
        GymnasiumSource(env_id="Cracked-v0").rows("test")


def test_rows_are_apart_and_a_source_travels():
    pickle.loads(pickle.dumps(LAKE))
    held = {row["seed"] for row in LAKE.rows("test")}
    assert held == {0, 1, 2, 3}
    assert held.isdisjoint(row["seed"] for row in [*LAKE.rows("train"), *islice(LAKE.stream("train", 0), 20)])


def test_demonstrations_prefer_an_action_in_each_place():
    """By half of what is left of chance, and by nothing that is paid: the whim of a hole's neighbour is any action."""
    said = Counter()
    for row in GymnasiumSource(env_id="FrozenLake-v1", train=300, test=1).rows("train"):
        places = ["row 0 column 0", *(message["content"] for message in row["messages"][2::2])]
        said.update(zip(places, (message["content"] for message in row["messages"][1::2]), strict=True))
    for place in ("row 0 column 0", "row 0 column 1", "row 1 column 0"):
        counts = sorted(said[place, name] for name in NAMES)
        assert counts[-1] / sum(counts) == pytest.approx(0.625, abs=0.06)
        assert counts[0] / sum(counts) == pytest.approx(0.125, abs=0.05)


def test_names_of_tasks():
    assert get_language_task("text:taxi").source.env_id == "Taxi-v4"
    assert find_task("text:taxi") is None  # no robot, and no object of a module "text"
    assert get_language_task("text:CartPole-v1").plays
    with pytest.raises(ValueError, match=r"FrozenLak-v1.*[Dd]id you mean"):
        get_language_task("text:FrozenLak-v1")
    with pytest.raises(ValueError, match=r"only Discrete ones.*gym:Pendulum-v1"):
        get_language_task("text:Pendulum-v1")
    with pytest.raises(ValueError, match=r"is_icy"):
        GymnasiumSource(env_id="FrozenLake-v1", kwargs={"is_icy": True}).rows("test")
