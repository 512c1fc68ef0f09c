"""A policy comes from configuration and checkpoint alone."""

from dataclasses import replace

import pytest
import torch
from gaitway_agents.registry import ENVIRONMENTS
from gaitway_agents.rsl_rl.config import RslRlConfig
from gaitway_mujoco.world import MujocoWorld
from gaitway_tasks.layout import newest_columns

from gaitway.errors import RunError
from gaitway.runs.folder import RunFolder
from gaitway.train_config import TrainConfig, resolve
from gaitway.training.load import Acting, load_actor

BLIND, SMALL = "velocity-flat-anymal-c-blind", ["num_envs=8", "num_threads=1", "agent.model.actor_hidden=[16]"]
ESTIMATOR = "agent.model.estimator={signals: [base_lin_vel], hidden: [8]}"


def run_of(config: TrainConfig, path) -> tuple[RunFolder, torch.nn.Module]:
    trainer = config.domain.trainer(config, num_envs=2)
    with torch.no_grad():
        for buffer in trainer.policy.buffers():
            if buffer.is_floating_point():
                buffer += 0.25
    run = RunFolder.create(path, config)
    run.save_checkpoint({"steps": 0, "iteration": 0, "trainer": trainer.state_dict()}, keep=1)
    return run, trainer.actor()


def same_without_a_world(run, actor, monkeypatch) -> None:
    monkeypatch.setattr(MujocoWorld, "__init__", lambda *_, **__: pytest.fail("an environment is built"))
    _, again, _ = load_actor(run)
    weights, wanted = again.state_dict(), actor.state_dict()
    assert list(weights) == list(wanted) and all(torch.equal(weights[name], x) for name, x in wanted.items())
    task = run.config().task
    columns = newest_columns(task, task.observations["policy"])
    x = torch.randn(5, max(part.stop for part in columns.values()))
    first, second = (Acting(each, 5).act(x) for each in (actor, again))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        (None, ()),
        ("cpu", ()),
        ("cpu", ("agent.average_steps=100",)),
        (None, ("agent.model.normalize_observations=true", ESTIMATOR)),
        (None, ("agent.model.normalize_observations=false", ESTIMATOR)),
        (None, ("agent.model.recurrent=gru", "agent.model.memory_size=8")),
    ],
)
def test_an_actor_needs_no_environment(preset, settings, tmp_path, monkeypatch):
    config = resolve(BLIND, preset=preset, overrides=[*SMALL, *settings])
    same_without_a_world(*run_of(config, tmp_path / "run"), monkeypatch)


def test_nor_does_one_of_rsl_rl(tmp_path, monkeypatch):
    pytest.importorskip("rsl_rl")
    config = resolve(BLIND, agent="rsl_rl", overrides=["num_envs=8", "num_threads=1"])
    assert isinstance(config.agent, RslRlConfig)
    same_without_a_world(*run_of(config, tmp_path / "run"), monkeypatch)


def test_an_agent_without_an_actor_is_refused(tmp_path):
    config = resolve(BLIND, agent="dqn", overrides=["num_envs=8", "num_threads=1"])
    with pytest.raises(RunError, match=r"dqn.*\bppo\b"):
        load_actor(RunFolder.create(tmp_path / "run", config))


class Mean(torch.nn.Module):
    def forward(self, x):
        return x[:, :12]


def restored(state, config, **shapes):
    assert state == {"mine": 1} and shapes["num_actions"] == 12 and "policy" in shapes["groups"]
    return Mean(), Mean()


def test_an_agent_of_another_package_brings_its_own(tmp_path, monkeypatch):
    config = resolve(BLIND, overrides=SMALL)
    run = RunFolder.create(tmp_path / "run", config)
    run.save_checkpoint({"steps": 0, "iteration": 0, "trainer": {"mine": 1}}, keep=1)
    monkeypatch.setitem(ENVIRONMENTS, "ppo", replace(ENVIRONMENTS["ppo"], restored=f"{__name__}:restored"))
    assert load_actor(run)[1](torch.ones(1, 45)).shape == (1, 12)
