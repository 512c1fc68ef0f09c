"""What is decided before a simulator starts."""

from __future__ import annotations

import sys

import pytest
import torch
from gaitway_isaaclab import launch
from gaitway_isaaclab.launch import IsaacLabOptions, make_env, resolve_device
from gaitway_isaaclab.preflight import IsaacLabError
from gaitway_tasks.registry import get_task

isaaclab_is_missing = pytest.mark.skipif(launch.find().versions["isaaclab"] is not None, reason="Isaac Lab is here")


@pytest.mark.parametrize(
    ("field", "value"), [("physics", "bullet"), ("asset", "urdf"), ("actuators", "lstm")], ids=lambda x: str(x)
)
def test_unknown_options_are_refused(field, value):
    with pytest.raises(ValueError, match=rf"isaaclab\.{field} '{value}': use one of \w+"):
        IsaacLabOptions(**{field: value})


@isaaclab_is_missing
def test_without_isaac_lab_nothing_starts():
    with pytest.raises(IsaacLabError, match="Isaac Lab is not installed here"):
        make_env(get_task("velocity-flat-anymal-c"), 2, device="cpu")
    assert not {"isaaclab", "isaacsim", "omni"} & set(sys.modules)


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == resolve_device("cpu") == "cpu"
    with pytest.raises(ValueError, match="device=cuda:0: torch finds no GPU here; use device=cpu"):
        resolve_device("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert resolve_device("auto") == "cuda:0"
    monkeypatch.setenv("LOCAL_RANK", "3")  # each of torchrun's processes has a GPU of its own
    assert resolve_device("auto") == "cuda:3" and resolve_device("cuda:1") == "cuda:1"


def test_the_simulator_sees_no_arguments_of_ours(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gaitway", "train", "--world", "isaaclab"])
    with launch._no_arguments():
        assert sys.argv == ["gaitway"]
        sys.argv.append("--/plugins/of/its/own")
    assert sys.argv == ["gaitway", "train", "--world", "isaaclab"]
