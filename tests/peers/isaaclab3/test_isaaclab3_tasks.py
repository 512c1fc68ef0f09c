"""Every registered task steps, and Isaac Lab's own training script trains one with rsl_rl."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium
import pytest
import torch
from gaitway_isaaclab.registration import env_id, names
from gaitway_isaaclab.world import world_of
from gaitway_sim2real.imports.isaaclab.importer import read_run
from gaitway_tasks.recording import Recording
from gaitway_tasks.registry import get_task

ROOT = Path(__file__).parents[3]
NUM_ENVS = 4
ENTRY_POINTS = "[isaaclab.tasks]\ngaitway = gaitway_isaaclab\n"


@pytest.mark.parametrize("task_name", names("2.3"))
def test_the_registered_task_steps_with_zero_and_random_actions(lab, make, physics, monkeypatch, task_name):
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    task = get_task(task_name)
    env = make(lab.env_cfg(env_id(task_name), NUM_ENVS, physics))
    observations, _ = env.reset()
    generator, shape = torch.Generator().manual_seed(0), (NUM_ENVS, task.robot.num_joints)
    for step in range(20):
        actions = torch.zeros(shape) if step < 10 else torch.randn(shape, generator=generator)
        observations, rewards, terminated, truncated, _ = env.step(actions)
        assert rewards.isfinite().all() and rewards.any()
        assert terminated.shape == truncated.shape == (NUM_ENVS,)
        assert set(observations) == set(task.observations)
        for group in observations.values():
            assert group.shape[0] == NUM_ENVS and group.isfinite().all()
        if step == 9:  # it has landed, and no action has thrown it up again
            forces = world_of(env).robot.contact_force_w.norm(dim=-1)
            feet = forces[:, [task.robot.body_names.index(name) for name in task.robot.foot_names]]
            assert (feet.sum(1) > 0.1 * 9.81 * env.scene["robot"].data.body_mass.torch.sum(1)).all()
    assert torch.equal(env.action_manager.action, actions)
    assert env.action_manager.get_term("joint_pos").processed_actions.shape == shape


def isaaclab(*arguments, folder):
    """Isaac Lab's own command, which finds Gaitway's tasks by the entry point of an installed Gaitway."""
    folders = ["", "tasks", "agents", "extensions", "sim2real"]
    plugin = folder / "plugin" / "gaitway-0.dist-info"
    plugin.mkdir(parents=True, exist_ok=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: gaitway\nVersion: 0\n")
    (plugin / "entry_points.txt").write_text(ENTRY_POINTS)
    done = subprocess.run(
        [sys.executable, "-m", "isaaclab", *arguments],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(plugin.parent), *(str(ROOT / name) for name in folders), *sys.path]),
            "GAITWAY_ISAACLAB_ASSET": "mjcf",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.quick
def test_isaac_labs_own_command_trains_and_exports_our_task(lab, physics, tmp_path):
    common = ["--rl_library", "rsl_rl", "--task", "Gaitway-Velocity-Flat-Anymal-C", "--num_envs", "16"]
    common += ["--device", "cpu", "agent.device=cpu", f"physics={lab.PRESETS[physics]}"]
    shown = isaaclab("train", *common, "--max_iterations", "2", folder=tmp_path)
    (checkpoint,) = tmp_path.glob("logs/rsl_rl/gaitway_velocity_flat_anymal_c/*/model_1.pt")
    weights = torch.load(checkpoint, weights_only=False)
    assert weights["iter"] == 1
    assert "Learning iteration 1/2" in shown
    common.remove("--num_envs")
    common.remove("16")
    isaaclab("leapp", "export", *common, "--checkpoint", str(checkpoint), folder=tmp_path)
    assert list(tmp_path.rglob("Gaitway-Velocity-Flat-Anymal-C.onnx"))


@pytest.mark.newton
def test_isaac_labs_own_command_trains_our_task_by_warp(lab, tmp_path):
    common = ["--rl_library", "rsl_rl", "--task", "Gaitway-Velocity-Flat-Anymal-C", "--num_envs", "4"]
    common += ["--device", "cpu", "agent.device=cpu", "physics=newton_mjwarp", "--frontend", "warp"]
    shown = isaaclab("train", *common, "--max_iterations", "2", folder=tmp_path)
    assert "Learning iteration 1/2" in shown and "ManagerCallSwitch" in shown


@pytest.mark.parametrize("agent", ["rsl_rl_with_symmetry", "rsl_rl_recurrent"])
def test_isaac_labs_own_command_trains_with_our_other_settings(lab, physics, tmp_path, agent):
    common = ["--rl_library", "rsl_rl", "--task", "Gaitway-Velocity-Flat-Go2-Blind", "--num_envs", "16"]
    common += ["--device", "cpu", "agent.device=cpu", f"physics={lab.PRESETS[physics]}", "--max_iterations", "2"]
    shown = isaaclab("train", *common, "--agent", f"{agent}_cfg_entry_point", folder=tmp_path)
    assert "Learning iteration 1/2" in shown and ("LSTM" in shown) == ("recurrent" in agent)


@pytest.mark.slow
def test_isaac_labs_own_command_distils_a_teacher_that_saw_more(lab, physics, tmp_path):
    common = ["--rl_library", "rsl_rl", "--num_envs", "8", "--max_iterations", "1"]
    common += ["--device", "cpu", "agent.device=cpu", f"physics={lab.PRESETS[physics]}"]
    isaaclab("train", *common, "--task", "Gaitway-Velocity-Flat-Go2", folder=tmp_path)
    (teacher,) = tmp_path.glob("logs/rsl_rl/*/*/model_0.pt")
    common += ["--task", "Gaitway-Velocity-Flat-Go2-Blind", "--agent", "rsl_rl_distillation_cfg_entry_point"]
    isaaclab("train", *common, "--checkpoint", str(teacher), folder=tmp_path)
    (student,) = tmp_path.glob("logs/rsl_rl/*blind*/*/model_0.pt")
    saved, taught = (torch.load(file, weights_only=False) for file in (student, teacher))
    for name, value in taught["actor_state_dict"].items():
        assert name.startswith("distribution") or torch.equal(saved["teacher_state_dict"][name], value)
    run = read_run(student.parent)  # the student alone, which reads what a robot measures
    weights = saved["student_state_dict"]
    assert weights["mlp.0.weight"].shape[1] == 8 * 45 == len(run.observation.columns)
    found = [tensor for name, tensor in run.actor.state_dict().items() if name.endswith(("weight", "bias"))]
    assert all(any(torch.equal(one, value) for one in found) for name, value in weights.items() if "mlp" in name)


def test_isaac_labs_own_play_records_a_rollout(lab, physics, tmp_path):
    common = ["--rl_library", "rsl_rl", "--task", "Gaitway-Velocity-Flat-Go2-Blind", "--num_envs", "16"]
    common += ["--device", "cpu", "agent.device=cpu", f"physics={lab.PRESETS[physics]}"]
    isaaclab("train", *common, "--max_iterations", "1", folder=tmp_path)
    (checkpoint,) = tmp_path.glob("logs/rsl_rl/*/*/model_0.pt")
    common += ["--checkpoint", str(checkpoint), "--external_callback", "gaitway_isaaclab.recorder.attach"]
    shown = isaaclab("play", *common, "--record", "rollout.npz", "--record_steps", "60", folder=tmp_path)
    found = Recording.load(tmp_path / "rollout.npz")
    assert (found.steps, found.num_envs) == (60, 16) and "recorded 60 steps of 16 environments" in shown
    assert not found.observation_noise and found.action.any()


@pytest.mark.quick
@pytest.mark.parametrize("task_name", ["velocity-flat-anymal-c-blind", "velocity-rough-anymal-c"])
def test_isaac_labs_play_shows_a_task_without_noise_and_pushes(lab, monkeypatch, task_name):
    from isaaclab_tasks.utils import load_cfg_from_registry

    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    cfg = load_cfg_from_registry(env_id(task_name), "env_cfg_entry_point")
    cfg.play_mode()  # what ``isaaclab play`` calls
    assert cfg.scene.num_envs == 50 and cfg.events.push_robot is None
    assert not any(group.enable_corruption for group in vars(cfg.observations).values())
    if cfg.scene.terrain.terrain_generator is not None:
        assert cfg.scene.terrain.max_init_terrain_level is None and not cfg.scene.terrain.terrain_generator.curriculum


@pytest.mark.quick
def test_the_extension_file_has_all_that_isaac_lab_s_template_has():
    import isaaclab

    kind = "tools/template/templates/extension/config/extension.toml"
    template = tomllib.loads((Path(isaaclab.__file__).parent / kind).read_text())
    ours = tomllib.loads((ROOT / "extensions/gaitway_isaaclab/config/extension.toml").read_text())
    assert template["package"].keys() - ours["package"].keys() == {"repository"}  # there is no address yet
    assert template["dependencies"].keys() - ours["dependencies"].keys() == {"isaaclab_mimic"}  # no imitation here
    assert template.keys() == ours.keys() and ours["package"]["category"] == template["package"]["category"]


@pytest.mark.quick
@pytest.mark.parametrize("name", names("3.0"))
def test_every_setting_of_a_registered_task_loads(lab, name):
    """Check of the test that Isaac Lab's template makes for a project, and that every named setting loads."""
    from isaaclab_tasks.utils import load_cfg_from_registry

    spec = gymnasium.spec(env_id(name))
    assert spec.entry_point == "isaaclab.envs:ManagerBasedRLEnv" and spec.kwargs["default_agent"] == "rsl_rl"
    for key in spec.kwargs:
        if key.endswith("_entry_point") and key != "env_cfg_entry_point":
            assert load_cfg_from_registry(env_id(name), key)


@pytest.mark.slow
@pytest.mark.quick
def test_configurations_import_nothing_that_a_simulator_must_load_first(lab):
    """NVIDIA's own test of its tasks, over ours: USD, Isaac Sim and SciPy stay out until the simulator is chosen."""
    forbidden = ("pxr", "omni", "carb", "isaacsim", "scipy")
    code = (
        "import sys, gaitway_isaaclab\n"
        "from gaitway_isaaclab.registration import env_id, names\n"
        "from gaitway_tasks.registry import get_task\n"
        "gaitway_isaaclab.env_cfg(get_task('velocity-flat-go2'))\n"
        "from isaaclab_tasks.utils import load_cfg_from_registry\n"
        f"forbidden = {forbidden}\n"
        "for task in names('2.3'):\n"
        "    load_cfg_from_registry(env_id(task), 'env_cfg_entry_point')\n"
        "    load_cfg_from_registry(env_id(task), 'rsl_rl_cfg_entry_point')\n"
        "    print(task, sorted({name.partition('.')[0] for name in sys.modules} & set(forbidden)))\n"
    )
    folders = ["", "tasks", "agents", "extensions", "sim2real"]
    path = os.pathsep.join([*(str(ROOT / name) for name in folders), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path, "GAITWAY_ISAACLAB_ASSET": "mjcf"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = [line for line in done.stdout.splitlines() if line.startswith("velocity-")]
    assert len(shown) == len(names("2.3"))
    assert [line for line in shown if not line.endswith("[]")] == []
