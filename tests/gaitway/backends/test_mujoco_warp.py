"""MuJoCo Warp as far as it goes without its package and without a GPU; tests/peers/warp has the world itself."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from gaitway_mujoco.options import PhysicsOptions, WarpOptions

from gaitway import catalogue
from gaitway.cli import main
from gaitway.domains.robots import in_mujoco
from gaitway.errors import ConfigError
from gaitway.train_config import resolve

FLAT = "velocity-flat-anymal-c"


@pytest.fixture
def installed(monkeypatch):
    """MuJoCo Warp's packages seem to be there."""
    monkeypatch.setattr(catalogue.Entry, "missing", lambda self: [])


def test_without_its_extra_the_command_names_the_line_that_installs_it(tmp_path, capsys, monkeypatch):
    there = importlib.util.find_spec
    absent = ("mujoco_warp", "warp")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else there(name))
    assert main(["train", FLAT, "--world", "mujoco-warp", "--out", str(tmp_path / "run")]) == 2
    assert "mujoco_warp, warp" in (told := capsys.readouterr().err)
    assert "pip install 'gaitway[train,mujoco,warp]'" in told and not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["auto", "cuda:0"])
def test_without_a_gpu_it_is_refused_before_anything_starts(device, installed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    command = ["train", FLAT, "--world", "mujoco-warp", f"device={device}", "--out", str(tmp_path / "run")]
    assert main(command) == 2
    assert f"device={device}: torch finds no GPU" in (told := capsys.readouterr().err) and "--world mujoco" in told
    assert not (tmp_path / "run").exists()


def test_it_has_settings_of_its_own_for_a_gpu():
    config = resolve(FLAT, world="mujoco-warp", overrides=["simulator.njmax=200", "device=cuda:1"])
    assert config.simulator == WarpOptions(njmax=200) and (config.num_envs, config.tf32) == (4096, True)
    assert config.agent.optimizer.workers == 1
    elsewhere = in_mujoco(config)
    assert (elsewhere.world, elsewhere.device, type(elsewhere.simulator)) == ("mujoco", "auto", PhysicsOptions)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent": "sac"}, "agent 'sac' does not learn in MuJoCo Warp"),
        ({"overrides": ["processes=2"]}, "processes=2: .*add --gpus 2"),
        ({"overrides": ["agent.decoupled=true"]}, "agent.decoupled=false"),
        ({"overrides": ["simulator.solver=pgs"]}, "solver 'pgs': use 'newton' or 'cg'"),
        ({"overrides": ["simulator.njmax=-1"]}, "njmax -1: must not be negative"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        resolve(FLAT, world="mujoco-warp", **settings)
