"""Atari: names, protocols, lives, clipped rewards, whole-game scores, and frames and memory that are the console's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ale_py import ALEInterface, LoggerMode, roms
from gaitway_ale import AtariTask, games, make_env, task_named
from gaitway_ale.vector_env import AtariGames
from gaitway_files.errors import UserError


def play(env: AtariGames, steps: int, seed: int = 0) -> list[tuple]:
    rng = np.random.default_rng(seed)
    choices = int(env.single_action_space.n)
    return [env.step(rng.integers(choices, size=env.num_envs)) for _ in range(steps)]


def made(name: str, num_envs: int = 2, render_mode: str | None = None, **changes) -> AtariGames:
    task = replace(task_named(name), **changes)
    env = make_env(task, num_envs, seed=1, num_threads=1, render_mode=render_mode)
    assert isinstance(env, AtariGames)
    env.reset()
    return env


# ---- names -----------------------------------------------------------------------------------------------------------


def test_every_rom_is_a_game_of_its_own_name():
    assert len(games()) > 100 and {"breakout", "pong", "space_invaders", "ms_pacman"} <= set(games())
    for game in games():
        assert task_named(game).game == task_named(game.replace("_", "-")).game == game
        assert roms.get_rom_path(game).is_file(), "nothing is downloaded"


@pytest.mark.parametrize("name", ["space-invaders", "space_invaders", "SpaceInvaders", "spaceinvaders"])
def test_a_name_may_be_spelt_in_several_ways(name):
    assert task_named(name) == AtariTask(name="space-invaders", game="space_invaders")


def test_memory_is_asked_for_by_name():
    task = task_named("space-invaders-ram")
    assert (task.name, task.game, task.observation, task.stack) == ("space-invaders-ram", "space_invaders", "ram", 1)


def test_bad_names_and_values_are_refused():
    with pytest.raises(ValueError, match=r"'breakuot'.*did you mean 'breakout'"):
        task_named("breakuot")
    with pytest.raises(ValueError, match=r"protocol 'dopamine': use 'standard' or 'machado'"):
        AtariTask(name="pong", game="pong", protocol="dopamine")
    with pytest.raises(ValueError, match="frame_skip 0"):
        AtariTask(name="pong", game="pong", frame_skip=0)
    with pytest.raises(ValueError, match=r"sticky 1\.5"):
        AtariTask(name="pong", game="pong", sticky=1.5)


@pytest.mark.parametrize("observation", ["image", "ram"])
def test_a_game_without_its_rom_is_refused(observation, monkeypatch, tmp_path):
    with pytest.raises(UserError, match="'no_game': ale-py ships no such ROM"):
        make_env(AtariTask(name="x", game="no_game", observation=observation), 1)
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    pong = AtariTask(name="pong", game="pong", observation=observation)
    with pytest.raises(UserError, match=r"'pong': none in ALE_ROMS_DIR .*: put pong\.bin there"):
        make_env(pong, 1)
    (tmp_path / "pong.bin").write_bytes(b"another game")
    with pytest.raises(UserError, match=r"hash of pong\.bin does not match"):
        make_env(pong, 1)


# ---- lives and scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["breakout", "breakout-ram"])
def test_lives_end_episodes_but_not_games(name):
    env = made(name)
    lives, lost, over, scores, invalid = env._lives.copy(), 0, 0, np.zeros(2), 0
    lengths, before = np.zeros(2, int), None
    rng = np.random.default_rng(0)
    for _ in range(420):
        observation, reward, terminated, truncated, info = env.step(rng.integers(4, size=2))
        if before is not None and before.any():
            assert np.array_equal(info["valid"], ~before), "the step that serves is no transition"
            invalid += int(before.sum())
        else:
            assert "valid" not in info
        scores, lengths = scores + reward, lengths + 1  # in Breakout's lower rows a brick is worth 1, as clipped
        ended = info["_episode"]
        assert not truncated.any() and (terminated | ~ended).all()
        assert np.array_equal(terminated & ~ended, (env._lives < lives) & ~ended)
        assert np.array_equal(info["episode"]["l"], lengths)
        before = terminated & ~ended
        if terminated.any():
            assert np.array_equal(info["_final_obs"], terminated)
            same = (info["final_obs"] == observation).reshape(2, -1).all(1)
            assert same[before].all(), "a game that goes on is seen as it was"
            assert not same[ended].any()
            assert (env._lives[ended] == 5).all()
        lost, over = lost + int(before.sum()), over + int(ended.sum())
        assert (info["episode"]["r"] >= scores).all()
        scores, lengths, lives = scores * ~ended, lengths * ~ended, env._lives.copy()
    assert over >= 2 and lost >= 4 * over and lost - 2 <= invalid <= lost


def test_without_fire_the_ball_stays_away():
    """Breakout waits for FIRE: no life is ever lost if nobody presses it, and with fire_reset somebody does."""
    still = np.zeros(2, np.int64)
    waiting, served = made("breakout-ram", fire_reset=False), made("breakout-ram")
    lost = {name: sum(int(env.step(still)[2].sum()) for _ in range(150)) for name, env in
            (("waiting", waiting), ("served", served))}  # fmt: skip
    assert lost["waiting"] == 0 and lost["served"] >= 5


def test_scores_are_those_before_clipping():
    raw, clipped = (made("space-invaders-ram", 1, reward_clip=clip) for clip in (False, True))
    score = signs = 0.0
    seen = 0
    for one, other in zip(play(raw, 500), play(clipped, 500), strict=True):
        score, signs = score + one[1][0], signs + other[1][0]
        assert other[1][0] == np.sign(one[1][0])
        assert one[4]["episode"]["r"][0] == other[4]["episode"]["r"][0] == score
        if one[4]["_episode"][0]:
            seen, score = seen + 1, 0.0
    assert seen >= 1 and signs > 0


def test_negative_scores():
    env = made("pong-ram", 1)
    score = sum(env.step(np.array([0]))[1][0] for _ in range(150))  # an opponent that nobody answers
    assert score < 0 and env._score[0] == score


# ---- protocols -------------------------------------------------------------------------------------------------------


def test_protocols():
    task = task_named("pong")
    standard, machado = task.resolved(), replace(task, protocol="machado").resolved()
    assert (standard.sticky, standard.episodic_life, standard.noop_max, standard.fire_reset) == (0.0, True, 30, True)
    assert (machado.sticky, machado.episodic_life, machado.noop_max, machado.fire_reset) == (0.25, False, 0, False)
    assert replace(task, protocol="machado", sticky=0.5).resolved().sticky == 0.5
    for name in ("pong", "pong-ram"):
        assert made(name, 1).single_action_space.n == 6
        assert made(name, 1, protocol="machado").single_action_space.n == 18


def test_whole_games_under_machado():
    env = made("breakout-ram", 1, protocol="machado", sticky=0.0)
    ends = [(result[2][0], result[4]["_episode"][0]) for result in play(env, 900)]
    assert all(terminated == over for terminated, over in ends) and any(over for _, over in ends)


@pytest.mark.parametrize("name", ["breakout", "breakout-ram"])
def test_sticky_actions_are_random_and_seeded(name):
    def trace(env: AtariGames, seed: int) -> np.ndarray:
        env.reset(seed=seed)
        return np.stack([result[0] for result in play(env, 40)])

    certain, sticky = (made(name, 1, sticky=share, noop_max=0) for share in (0.0, 0.25))
    assert np.array_equal(trace(certain, 1), trace(certain, 2)), "without chance a game is determined by its actions"
    first = trace(sticky, 1)
    assert np.array_equal(trace(sticky, 1), first) and not np.array_equal(trace(sticky, 2), first)


@pytest.mark.parametrize("name", ["pong", "pong-ram"])
def test_games_are_truncated_after_max_frames(name):
    env = made(name, 2, max_frames=10, frame_skip=4)
    ends = [(result[2].any(), result[3].all(), result[4]["episode"]["l"][0]) for result in play(env, 6)]
    assert ends == [(False, False, 1), (False, False, 2), (False, True, 3)] * 2


# ---- what is seen ----------------------------------------------------------------------------------------------------


def console(game: str, seed: int) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", seed)
    ale.loadROM(roms.get_rom_path(game))
    ale.reset_game()
    return ale


def test_memory_is_the_consoles():
    env = made("pong-ram", 1, noop_max=0, fire_reset=False, stack=2)
    ale = console("pong", 1)
    buttons = ale.getMinimalActionSet()
    last = ale.getRAM()
    for action in [0, 2, 3, 3, 2, 0] * 3:
        observation = env.step(np.array([action]))[0][0]
        for _ in range(4):
            ale.act(buttons[action])
        now = ale.getRAM()
        np.testing.assert_array_equal(np.round(observation * 255.0), np.concatenate((last, now)))
        assert observation.min() >= 0.0 and observation.max() <= 1.0
        last = now


def shares(size: int) -> np.ndarray:
    """Weight of each of ``size`` pixels in each of 84, by the length they have in common (84, size)."""
    edges, width = np.arange(size), size / 84
    left = np.arange(84)[:, None] * width
    return np.clip(np.minimum(edges + 1, left + width) - np.maximum(edges, left), 0, None) / width


def test_images_are_the_consoles():
    """84 x 84 grey, the larger of the last two frames in every pixel, the newest of four last."""
    env = made("breakout", 1, noop_max=0, fire_reset=False)
    ale = console("breakout", 1)
    buttons = ale.getMinimalActionSet()
    assert env.single_observation_space.shape == (4, 84, 84)
    for action in [1, 2, 2, 0, 3, 3, 3, 2]:
        observation = env.step(np.array([action]))[0][0]
        frames = []
        for _ in range(4):
            ale.act(buttons[action])
            frames.append(ale.getScreenGrayscale())
        seen = shares(210) @ np.maximum(frames[-1], frames[-2]) @ shares(160).T
        assert np.abs(observation[-1] - seen).max() <= 1.0


LUMINANCE = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in grey, by ITU-R BT.601."""


@pytest.mark.parametrize("protocol", ["standard", "machado"])
def test_screens_are_those_of_the_observed_games(protocol):
    env = made("breakout", 2, "rgb_array", protocol=protocol)
    ended, rng = 0, np.random.default_rng(0)
    for step in range(400):
        observation, _, _, _, info = env.step(rng.integers(env.single_action_space.n, size=2))
        ended += info["_episode"].sum()
        if step % 20:
            continue
        for images, screen in zip(observation, env.render(), strict=True):
            assert screen.shape == (210, 160, 3) and screen.dtype == np.uint8
            grey = shares(210) @ (screen @ LUMINANCE) @ shares(160).T
            assert np.abs(images[-1] - grey).max() <= 4.0
    assert ended >= 2, "games ended and began again"


def test_screens_of_games_that_are_seen_through_their_memory():
    env = made("breakout-ram", 1, "rgb_array", noop_max=0, fire_reset=False)
    ale = console("breakout", 1)
    env.step(np.array([2]))
    for _ in range(4):
        ale.act(ale.getMinimalActionSet()[2])
    (screen,) = env.render()
    np.testing.assert_array_equal(screen, ale.getScreenRGB())


def test_games_are_drawn_only_if_asked():
    assert made("pong", 1).render() is None
    with pytest.raises(UserError, match="render_mode 'human': games can be drawn as 'rgb_array'"):
        made("pong", 1, "human")
