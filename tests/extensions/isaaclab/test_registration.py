"""Gaitway's tasks in Gymnasium's registry, under Isaac Lab's kind of names, without Isaac Lab."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import gaitway_isaaclab
import gymnasium
import pytest
from gaitway_isaaclab import registration
from gaitway_isaaclab.registration import cfg_name, env_id, names, task_of
from gaitway_tasks.registry import UnknownNameError, task_names

import gaitway

WALKING = [name for name in task_names() if name.startswith("velocity-")]
"""Those with the commands and the free base that Isaac Lab's worlds have here."""
FLAT = "velocity-flat-anymal-c"


def test_importing_registers_and_starts_nothing():
    code = (
        "import sys, gaitway_isaaclab, gymnasium\n"
        "assert 'Gaitway-Velocity-Flat-Anymal-C' in gymnasium.registry\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "mujoco", "isaaclab", "isaacsim", "omni", "carb", "warp", "pxr"}
    assert not heavy & set(done.stdout.split())


def test_names_are_isaac_lab_s_with_ours_in_front():
    assert env_id(FLAT) == env_id(FLAT, play=True) == "Gaitway-Velocity-Flat-Anymal-C"
    assert env_id(FLAT, release="2.3") == "Gaitway-Velocity-Flat-Anymal-C-v0"
    assert env_id(FLAT, play=True, release="2.3") == "Gaitway-Velocity-Flat-Anymal-C-Play-v0"
    assert cfg_name("velocity-rough-anymal-c") == "VelocityRoughAnymalC"


def test_the_values_of_3_0_have_names_of_their_own():
    assert [name for name in names("3.0") if name.endswith("-g1-isaaclab3")] == [
        "velocity-flat-g1-isaaclab3", "velocity-rough-g1-isaaclab3"
    ]  # fmt: skip
    assert names("2.3") == WALKING and registration.named("velocity-flat-g1-isaaclab3").name == "velocity-flat-g1"
    assert env_id("velocity-flat-go2-isaaclab3") == "Gaitway-Velocity-Flat-Go2-Isaaclab3"


@pytest.mark.parametrize("name", names("3.0"))
def test_every_task_names_what_there_is(name):
    assert task_of(cfg_name(name)) == task_of(cfg_name(name) + "EnvCfg", "EnvCfg") == name
    spec = gymnasium.spec(env_id(name))
    assert spec.entry_point == "isaaclab.envs:ManagerBasedRLEnv" and spec.disable_env_checker
    assert spec.kwargs["env_cfg_entry_point"] == f"gaitway_isaaclab.env_cfgs:{cfg_name(name)}EnvCfg"
    assert f"{spec.kwargs['default_agent']}_cfg_entry_point" in spec.kwargs
    libraries = ["rsl_rl", "rsl_rl_with_symmetry", "rsl_rl_recurrent", "skrl", "rl_games", "sb3"]
    assert ("rsl_rl_distillation_cfg_entry_point" in spec.kwargs) == ("blind" in name)
    libraries += ["rsl_rl_distillation"] if "blind" in name else []
    for key in ("env_cfg_entry_point", *(f"{library}_cfg_entry_point" for library in libraries)):
        module, _, attribute = spec.kwargs[key].partition(":")
        assert importlib.util.find_spec(module) is not None, key
        if attribute.endswith(".yaml"):
            folder = Path(importlib.import_module(module).__file__).parent
            assert (folder / attribute).is_file()
            assert ("rough" in attribute) == ("rough" in name)


def test_beside_2_3_tasks_have_its_names_and_variants_for_watching(monkeypatch):
    monkeypatch.setattr(registration, "installed_release", lambda: "2.3")
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    gaitway_isaaclab.register()
    assert set(gymnasium.registry) == {env_id(name, play, release="2.3") for name in WALKING for play in (False, True)}
    watch = gymnasium.registry[env_id(FLAT, True, release="2.3")]
    assert watch.kwargs["env_cfg_entry_point"].endswith("VelocityFlatAnymalCEnvCfg_PLAY")


def test_registering_twice_changes_nothing():
    before = gymnasium.spec(env_id(FLAT))
    gaitway_isaaclab.register()
    assert gymnasium.spec(env_id(FLAT)) is before


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="did you mean 'VelocityRoughAnymalC'"):
        task_of("VelocityRoghAnymalC")
    with pytest.raises(UnknownNameError, match="did you mean 'VelocityRoughAnymalCEnvCfg'"):
        task_of("VelocityRoghAnymalCEnvCfg", "EnvCfg")
    with pytest.raises(AttributeError, match="unknown configuration 'Walk'"):
        getattr(importlib.import_module("gaitway_isaaclab.env_cfgs"), "Walk")  # noqa: B009


def test_extension_file():
    folder = Path(gaitway_isaaclab.__file__).parent
    described = tomllib.loads((folder / "config" / "extension.toml").read_text())
    assert described["package"]["version"] == gaitway.__version__
    assert (folder / described["package"]["readme"]).is_file()
    module = described["python"]["module"][0]
    assert (folder / module["path"] / module["name"] / "__init__.py").resolve() == folder / "__init__.py"


@pytest.mark.parametrize("installed", [True, False])
def test_beside_isaac_lab_gymnasium_knows_the_tasks_by_itself(tmp_path, installed):
    """Isaac Lab 2.3's scripts import no tasks but its own, and any script imports Gymnasium."""
    if installed:
        (tmp_path / "isaaclab").mkdir()
        (tmp_path / "isaaclab" / "__init__.py").write_text("raise RuntimeError('the simulator would start')")
    code = (
        "import gymnasium; print(any(name.startswith('Gaitway-Velocity-Flat-Anymal-C') for name in gymnasium.registry))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == str(installed) and not done.stderr
