"""Our adapter, our learner and our command on real Isaac Lab environments: on both engines."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch
from gpu_work import GpuWork

ENVS, STEPS = 16, 60


def scripted(scale):
    return scale * torch.randn(STEPS, ENVS, 12, generator=torch.Generator().manual_seed(5))


def task_for(*, noise, endless=False, seconds=20.0):
    """The blind task, whose observations have a history, without what happens by chance between resets."""
    from gaitway_tasks.registry import get_task

    task = get_task("velocity-flat-anymal-c-blind")
    return task.replace(
        observations={name: replace(group, enable_corruption=noise) for name, group in task.observations.items()},
        events={name: event for name, event in task.events.items() if event.mode != "interval"},
        terminations={} if endless else task.terminations,
        timing=replace(task.timing, episode_length_s=1e6 if endless else seconds),
    )


@pytest.fixture
def isaac(lab, make, physics):
    def make_isaac(task, seed=3):
        from gaitway_isaaclab import env_cfg

        return make(lab.kitless(env_cfg(task, ENVS, "cpu", seed, physics, asset="mjcf"), ENVS, seed))

    return make_isaac


@pytest.mark.quick
def test_final_observations_are_what_an_environment_sees_that_is_not_reset(isaac):
    from gaitway_isaaclab.vector_env import IsaacLabVectorEnv

    env = IsaacLabVectorEnv(isaac(task_for(noise=False, seconds=1.0)))
    env.reset(seed=3)
    ages = torch.arange(ENVS) % 8 * 6
    env.isaac.episode_length_buf = ages.clone()
    finals, alive, kinds = [], torch.ones(ENVS, dtype=torch.bool), [0, 0]
    for action in scripted(4.0):
        observation, _, terminated, truncated, info = env.step(action)
        done = terminated | truncated
        assert info["ended"].tolist() == done.nonzero().flatten().tolist()
        first = alive & done
        kept = alive & ~done
        finals.append((first, info.get("final_obs"), kept, observation))
        kinds = [kinds[0] + int((alive & terminated).sum()), kinds[1] + int((alive & truncated).sum())]
        alive = kept
    assert not alive.any() and min(kinds) > 0, kinds
    print("terminated, truncated:", kinds)

    twin = IsaacLabVectorEnv(isaac(task_for(noise=False, endless=True)))
    twin.reset(seed=3)
    worst = 0.0
    for action, (first, final, kept, observation) in zip(scripted(4.0), finals, strict=True):
        truth, *_ = twin.step(action)
        for name, value in truth.items():
            if first.any():
                worst = max(worst, float((final[name][first] - value[first]).abs().max()))
                assert not torch.allclose(final[name][first], observation[name][first])
            if kept.any():
                worst = max(worst, float((observation[name][kept] - value[kept]).abs().max()))
    print("largest difference:", worst)
    assert worst <= 1e-5


def test_asking_for_them_leaves_no_trace(isaac):
    """Isaac Lab's own steps, with noise and histories, give bit for bit the same with and without the adapter."""
    from gaitway_isaaclab.vector_env import IsaacLabVectorEnv

    task = task_for(noise=True, seconds=0.3)
    bare = isaac(task)
    expected = [dict(bare.reset(seed=3)[0])]
    for action in scripted(1.0):
        observation, reward, terminated, time_out, _ = bare.step(action)
        expected.append((dict(observation), reward.clone(), terminated.clone(), time_out.clone()))

    env = IsaacLabVectorEnv(isaac(task))
    observation, _ = env.reset(seed=3)
    assert all(torch.equal(value, expected[0][name]) for name, value in observation.items())
    ends = 0
    for action, (theirs, reward, terminated, time_out) in zip(scripted(1.0), expected[1:], strict=True):
        observation, our_reward, our_terminated, truncated, info = env.step(action)
        assert all(torch.equal(value, theirs[name]) for name, value in observation.items())
        assert torch.equal(our_reward, reward) and torch.equal(our_terminated, terminated)
        assert torch.equal(truncated, time_out & ~terminated)
        ends += len(info["ended"])
    assert ends >= ENVS
    with GpuWork() as work:
        env.isaac.command_manager.compute(task.timing.step_dt)
    assert work.waits == []


@pytest.mark.slow
@pytest.mark.quick
def test_the_command_trains_and_resumes(lab, physics, tmp_path, capsys, monkeypatch):
    """With the recipe of the walk: mirrors by the clock, and a base velocity that is estimated."""
    from gaitway import catalogue
    from gaitway.cli import main

    settings = ["device=cpu", "num_envs=8", "simulator.asset=mjcf", "agent.num_steps=8"]
    out = str(tmp_path / "run")
    task, world = (
        ["train", "velocity-flat-anymal-c-blind", "--preset", "cpu"],
        ["--world", "isaaclab", "--physics", physics],
    )
    start = [*task, *world, *settings, "--out", out]
    with monkeypatch.context() as patch:  # Newton's MuJoCo, whichever one is here
        version = catalogue.importlib.metadata.version
        patch.setattr(
            catalogue.importlib.metadata, "version", lambda name: "3.12.0" if name == "mujoco" else version(name)
        )
        assert main([*start, "--until", "good"]) == 2
        assert "mujoco 3.17 (3.12.0 is too old)" in capsys.readouterr().err and not (tmp_path / "run").exists()
    assert main([*start, "total_steps=128"]) == 0
    assert main([*task, "--out", out, "--resume", "total_steps=256"]) == 0
    assert "episodes start anew" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["steps"] for row in rows] == [64, 128, 192, 256]
    assert all(name in rows[-1] for name in ("learn/kl", "rollout/reward", "tracking/base_velocity/linear"))
    assert 0.0 < rows[-1]["learn/estimate_error_base_lin_vel"] < 1.0
    begun = json.loads((tmp_path / "run" / "run.json").read_text())["isaaclab"]
    assert (begun["asset"], begun["physics"]) == ("mjcf", physics) and begun["versions"]["isaaclab"].startswith("3.")

    assert main([*start[:-1], str(tmp_path / "two"), "--seeds", "2", "total_steps=64"]) == 0  # one after the other
    assert (tmp_path / "two" / "seed1" / "run.json").is_file()
    capsys.readouterr()

    assert main(["play", out, "--world", "isaaclab", "--seconds", "0.2", "--envs", "2"]) == 0
    said = capsys.readouterr().out
    assert f"256 steps, in Isaac Lab on {begun['engine']}; robot: mjcf" in said
    assert re.search(r"^robot 2: 0\.2 s, \d\.\d+ m/s and \d\.\d+ rad/s off the commands, falls: 0$", said, re.M)
