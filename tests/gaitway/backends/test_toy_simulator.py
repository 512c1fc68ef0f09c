"""A simulator from outside is a class and a row: robots whose joints go where they are told, and whose base hovers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_tasks.episodes import Episodes
from gymnasium.vector import AutoresetMode, VectorEnv
from toy_world import ToyWorld

from gaitway import catalogue
from gaitway.backends.backend import Backend
from gaitway.backends.table import BACKENDS, Row
from gaitway.cli import main

TASK = "velocity-flat-anymal-c-blind"


def box(dim):
    return gymnasium.spaces.Box(-np.inf, np.inf, (dim,), np.float32)


class ToyEnv(VectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, task, num_envs, seed):
        generator = torch.Generator().manual_seed(seed)
        self.task, self.num_envs, self.device = task, num_envs, torch.device("cpu")
        self.world = ToyWorld(task, num_envs, generator)
        self.episodes = Episodes(task, self.world, generator)
        self.managers = self.episodes.managers
        groups = {name: box(group.dim) for name, group in self.managers.observations.items()}
        self.single_observation_space = gymnasium.spaces.Dict(groups)
        self.single_action_space = box(task.robot.num_joints)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.step, self.state_dict = self.episodes.step, self.episodes.state_dict
        self.load_state_dict = self.episodes.load_state_dict

    def reset(self, *, seed=None, options=None):
        return self.episodes.reset(seed=seed), {}


@dataclass(frozen=True, kw_only=True)
class ToyOptions:
    stiffness: float = 0.1


class Toy(Backend):
    def make_env(self, config, num_envs, seed):
        env = ToyEnv(config.task, num_envs, seed)
        env.world.stiffness = config.simulator.stiffness
        return env

    def record(self, env):
        return {"toy": {"robots": env.num_envs, "stiffness": env.world.stiffness}}


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(BACKENDS, "toy", Row(f"{__name__}:Toy", "Toy", options=TOY_OPTIONS))
    monkeypatch.setitem(catalogue.WORLDS, "toy", catalogue.Entry(summary="hovering", modules=("torch",), extras=()))
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(Toy=Toy, ToyOptions=ToyOptions))


TOY_OPTIONS = f"{__name__}:ToyOptions"
SMALL = ("num_envs=4", "agent.num_steps=4", "agent.model.actor_hidden=[8]", "agent.model.critic_hidden=[8]",
         "agent.optimizer.minibatches=2", "evaluation_episodes=0", "checkpoint_interval=1")  # fmt: skip


def test_a_policy_learns_and_goes_on_in_it(toy, tmp_path, capsys):
    out = ["--world", "toy", *SMALL, "--out", str(tmp_path / "run")]
    assert main(["train", TASK, *out, "total_steps=32", "simulator.stiffness=0.2"]) == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["world"], record["steps"], record["toy"]) == ("toy", 32, {"robots": 4, "stiffness": 0.2})
    assert "simulator:\n  kind: ToyOptions\n  stiffness: 0.2\n" in (tmp_path / "run/config.yaml").read_text()
    assert main(["train", TASK, *out, "total_steps=64", "--resume"]) == 0, capsys.readouterr().err
    rows = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert rows and {row["length"] for row in rows} == {3}
    assert len(os.listdir(tmp_path / "run" / "checkpoints")) > 1


def test_settings_of_another_simulator_are_refused(toy, tmp_path, capsys):
    kind = "simulator={kind: PhysicsOptions}"
    assert main(["train", TASK, "--world", "toy", *SMALL, kind, "--out", str(tmp_path)]) == 2
    assert "the settings of world 'toy' are ToyOptions" in capsys.readouterr().err


def test_it_is_named_among_the_worlds_of_robots(toy, tmp_path, capsys):
    assert main(["train", "cartpole", "--world", "toy", "--out", str(tmp_path)]) == 2
    assert "toy" in capsys.readouterr().err
