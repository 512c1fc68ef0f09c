"""Decisions before a simulator starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from gaitway_isaaclab import application, launch
from gaitway_isaaclab.launch import make_env, resolve_device
from gaitway_isaaclab.options import IsaacLabOptions
from gaitway_isaaclab.preflight import IsaacLabError
from gaitway_tasks.registry import get_task
from tree import ROOT

isaaclab_is_missing = pytest.mark.skipif(launch.find().versions["isaaclab"] is not None, reason="Isaac Lab is here")


@pytest.mark.parametrize(
    ("field", "value"), [("physics", "bullet"), ("asset", "urdf"), ("actuators", "lstm")], ids=lambda x: str(x)
)
def test_unknown_options_are_refused(field, value):
    with pytest.raises(ValueError, match=rf"{field} '{value}': use (one of )?'\w+'"):
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
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert resolve_device("auto") == "cuda:0"
    monkeypatch.setenv("LOCAL_RANK", "3")  # each of torchrun's processes has a GPU of its own
    assert resolve_device("auto") == "cuda:3" and resolve_device("cuda:1") == "cuda:1"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # Slurm shows each process its own
    assert resolve_device("auto") == "cuda:0"


def test_the_simulator_sees_no_arguments_of_ours(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gaitway", "train", "--world", "isaaclab"])
    with application.no_arguments():
        assert sys.argv == ["gaitway"]
        sys.argv.append("--/plugins/of/its/own")
    assert sys.argv == ["gaitway", "train", "--world", "isaaclab"]


PRETEND_ISAAC_LAB = """
import json, sys
class AppLauncher:
    def __init__(self, settings):
        loaded = sorted({"numpy", "torch"} & set(sys.modules))
        print("starts", json.dumps(settings, sort_keys=True), loaded, sys.argv[1:], flush=True)
        self.app = self
    def close(self):
        print("closes", flush=True)
        sys.exit(0)
"""


@pytest.fixture
def isaac_lab_23(tmp_path):
    """A process's environment in which Isaac Lab 2.3 with Isaac Sim is installed, as far as starting it goes."""
    for name, version in {"isaaclab": "2.3.2", "isaacsim": "5.1.0", "numpy": "1.26.4", "torch": "2.7.0"}.items():
        (tmp_path / f"{name}-{version}.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (tmp_path / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
    (tmp_path / "isaaclab").mkdir()
    (tmp_path / "isaaclab" / "__init__.py").touch()
    (tmp_path / "isaaclab" / "app.py").write_text(PRETEND_ISAAC_LAB)
    folders = [tmp_path, ROOT, *(ROOT / name for name in ("tasks", "agents", "extensions", "sim2real"))]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "OMNI_KIT_ACCEPT_EULA": "YES",
        "CUDA_VISIBLE_DEVICES": "",
    }


def train(environment, *arguments):
    command = [sys.executable, "-m", "gaitway", "train", "velocity-flat-anymal-c", "--world", "isaaclab", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Isaac Lab 2.3 is for Python 3.11")
def test_isaac_sim_starts_before_numpy_and_torch_once_the_settings_are_good(isaac_lab_23, tmp_path):
    wrong = train(isaac_lab_23, "agent.gama=1")
    assert wrong.returncode == 2 and "gama" in wrong.stderr and not wrong.stdout
    right = train(isaac_lab_23, "--out", str(tmp_path / "run"))
    assert right.stdout.splitlines()[0] == ('starts {"device": "cpu", "distributed": false, "headless": true} [] []'), (
        right.stderr
    )
    # What comes after the application is Isaac Lab itself, of which there is nothing here.
    assert right.returncode == 70 and "No module named 'isaaclab." in right.stderr


def test_the_process_ends_with_the_code_of_the_command_whatever_isaac_sim_does():
    code = (
        "import sys; from gaitway_isaaclab import application, launch\n"
        "class App:\n"
        "    def close(self):\n"
        "        print('closed')\n"
        "application._running.append(App())\n"
        "launch._simulator.callback(print, 'environments closed')\n"
        "launch.shut_down(int(sys.argv[1]))\n"
        "print('not reached')\n"
    )
    for wanted, shown in ((0, ["environments closed", "closed"]), (130, ["environments closed"])):
        done = subprocess.run([sys.executable, "-c", code, str(wanted)], capture_output=True, text=True)
        assert (done.returncode, done.stdout.splitlines()) == (wanted, shown), done.stderr


@pytest.mark.slow
def test_openblas_gets_one_thread_before_numpy_is_loaded():
    code = (
        "import os, sys; from gaitway.cli import main\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy':\n"
        "            print(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "main(['train', 'velocity-flat-anymal-c', *sys.argv[1:]])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for world, threads in (("isaaclab", "1"), ("elsewhere", "None")):
        command = [sys.executable, "-c", code, "--world", world]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout.split()[0] == threads
