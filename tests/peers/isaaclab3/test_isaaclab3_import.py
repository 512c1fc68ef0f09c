"""A run of Isaac Lab 3.0 and rsl_rl 5.5, trained and written by their own code, imported as it lies there."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
import yaml

STEPS, CLIP = 20, 1.5


def train(env, task_id: str, folder: Path, recurrent: bool):
    """Train as ``isaaclab train`` does: the runner's own learning and checkpoint, the configurations; the policy to
    run."""
    from isaaclab_rl.entrypoints.common import dump_train_configs
    from isaaclab_rl.rsl_rl import (
        RslRlRNNModelCfg,
        RslRlVecEnvWrapper,
        create_rsl_rl_runner,
        handle_deprecated_rsl_rl_cfg,
    )
    from isaaclab_tasks.utils import load_cfg_from_registry

    agent = load_cfg_from_registry(task_id, "rsl_rl_cfg_entry_point")
    agent.device, agent.num_steps_per_env, agent.clip_actions = "cpu", 12, CLIP
    agent.actor.obs_normalization = True
    if recurrent:
        shape = {"rnn_type": "lstm", "rnn_hidden_dim": 24, "rnn_num_layers": 2}
        agent.actor, agent.critic = (
            RslRlRNNModelCfg(
                hidden_dims=[32], activation="elu", obs_normalization=True, distribution_cfg=model.distribution_cfg,
                **shape,
            )
            for model in (agent.actor, agent.critic)
        )  # fmt: skip
    vec_env = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
    agent = handle_deprecated_rsl_rl_cfg(agent, metadata.version("rsl-rl-lib"))
    runner = create_rsl_rl_runner(vec_env, agent)
    dump_train_configs(str(folder), env.cfg, agent)
    runner.learn(2)
    runner.save(str(folder / "model_2.pt"))
    return runner.get_inference_policy(device="cpu")


def signals(env, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """A bundle's inputs from the environment's state, quaternions reordered from x, y, z, w."""
    data = env.scene["robot"].data
    order = [data.joint_names.index(name) for name in names]
    feed = {
        "joint_pos": data.joint_pos.torch[:, order],
        "joint_vel": data.joint_vel.torch[:, order],
        "imu_quat_wxyz": data.root_quat_w.torch[:, [3, 0, 1, 2]],
        "gyro": data.root_ang_vel_b.torch,
        "command": env.command_manager.get_command("base_velocity"),
        "base_lin_vel": data.root_lin_vel_b.torch,
    }
    if "height_scanner" in env.scene.sensors:
        scan = env.scene.sensors["height_scanner"].data
        feed["height_scan"] = scan.pos_w.torch[:, 2:3] - scan.ray_hits_w.torch[..., 2]
    return {name: value.clone() for name, value in feed.items()}


OTHER = {"physx": ("mjwarp", "newton"), "newton": ("physx", "physx")}
"""The joint order of the engine that a run does not use, by Isaac Lab's name and by ours."""


@pytest.mark.parametrize(
    ("which", "recurrent", "history", "reordered"),
    [("STOCK_FLAT", False, "time", True), ("STOCK_ROUGH", True, "term", False)],
)
def test_an_imported_run_gives_the_targets_of_the_environment(
    lab, make, physics, tmp_path, which, recurrent, history, reordered
):
    from gaitway_sim2real.bundle.signal_policy import SignalPolicy
    from gaitway_sim2real.imports.isaaclab.importer import read_run
    from isaaclab.actuators import DCMotor
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper

    task_id = getattr(lab, which)
    ordering, engine = OTHER[physics] if reordered else (None, physics)

    def configured():
        cfg = lab.stock_cfg(task_id, 4, physics)
        cfg.observations.policy.enable_corruption = False
        cfg.observations.policy.history_length, cfg.observations.policy.history_order = 2, history
        cfg.scene.robot.joint_ordering = ordering
        cfg.scene.robot.actuators["legs"].actuator_effort_limit = 71.0  # Gaitway's own are 80 N m and 7.5 rad/s
        cfg.scene.robot.actuators["legs"].actuator_velocity_limit = {".*HAA": 7.1, ".*HFE": 7.2, ".*KFE": 7.3}
        cfg.terminations.base_contact = None  # the comparison is of one episode
        return cfg

    policy = train(make(configured()), task_id, tmp_path, recurrent)
    # Anew, since 3.0.0's first observation after a reset holds the gravity vector of before it: here both are level.
    env = make(configured())
    vec_env = RslRlVecEnvWrapper(env, clip_actions=CLIP)
    guessed = read_run(tmp_path)
    assert guessed.joint_order == f"{engine} ({'joint_ordering' if reordered else 'sim.physics'})"
    env.export_IO_descriptors(str(tmp_path / "io_descriptors"))
    run = read_run(tmp_path)
    assert run.joint_order == "IO_descriptors.yaml" and run.learner == "rsl_rl 5.x"
    robot = env.scene["robot"]
    assert run.task.robot.joint_names == guessed.task.robot.joint_names == tuple(robot.joint_names)
    assert not any("env.yaml does not say" in note for note in run.notes)
    legs = DCMotor(env.cfg.scene.robot.actuators["legs"], robot.joint_names, slice(None), 1, "cpu", 0.0, 0.0)
    for column, law in enumerate(run.task.robot.joint_actuators):
        assert law.effort_limit == float(legs.actuator_effort_limit[0, column]) == 71.0
        assert law.velocity_limit == pytest.approx(float(legs.actuator_velocity_limit[0, column]))
        assert (law.stiffness, law.armature) == (40.0, None)

    imported = SignalPolicy(run.task, run.actor).eval()
    state = torch.zeros(4, imported.state_dim)
    worst, spread = 0.0, 0.0
    with torch.inference_mode():
        observation = vec_env.reset()[0]
        policy.reset()
        for _ in range(STEPS):
            feed = {**signals(env, run.task.robot.joint_names), "state": state}
            target, _, state = imported(*(feed[name] for name in imported.input_widths))
            observation, _, dones, _ = vec_env.step(policy(observation))
            assert not dones.any()
            theirs = robot.data.joint_pos_target.torch
            worst = max(worst, float((target - theirs).abs().max()))
            spread = max(spread, float(theirs.std(0).max()))
    assert spread > 0.01
    assert worst < 1e-5


def test_what_isaac_lab_s_own_command_leaves_is_read(lab, tmp_path):
    """``isaaclab train`` on NVIDIA's own task; the callback does what a machine without GPU and internet needs."""
    from gaitway_sim2real.imports.isaaclab.importer import read_run
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    (tmp_path / "offline.py").write_text(
        "def prepare():\n"
        "    import warp\n"
        "    from isaaclab_assets.robots import anymal\n"
        "    cpu = warp.get_device('cpu')\n"
        "    cpu.pinned_allocator = cpu.default_allocator\n"
        "    anymal.ANYMAL_C_CFG.actuators = {'legs': anymal.ANYDRIVE_3_SIMPLE_ACTUATOR_CFG}\n"
    )
    done = subprocess.run(
        [*(sys.executable, "-m", "isaaclab", "train", "--rl_library", "rsl_rl", "--task", lab.STOCK_FLAT),
         *("--external_callback", "offline.prepare", "--num_envs", "4", "--max_iterations", "2", "--device", "cpu"),
         *("physics=physx", "agent.device=cpu", "agent.num_steps_per_env=4", "agent.actor.obs_normalization=true"),
         *("env.scene.terrain.visual_material=null", "env.scene.sky_light.spawn.texture_file=null"),
         *("env.commands.base_velocity.debug_vis=false", "env.observations.policy.joint_vel.scale=0.05")],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [folder] = (tmp_path / "logs" / "rsl_rl" / "anymal_c_flat").iterdir()
    run = read_run(folder)
    assert (run.iteration, run.learner, run.joint_order) == (1, "rsl_rl 5.x", "physx (sim.physics)")
    assert run.task.observations["policy"].terms["joint_vel"].scale == 0.05

    actor = yaml.unsafe_load((folder / "params" / "agent.yaml").read_text())["actor"]
    seen = TensorDict({"policy": torch.randn(8, 48)}, batch_size=[8])
    model = MLPModel(seen, {"actor": ["policy"]}, "actor", 12, **{k: v for k, v in actor.items() if k != "class_name"})
    model.load_state_dict(torch.load(folder / "model_1.pt", weights_only=True)["actor_state_dict"])
    with torch.inference_mode():
        torch.testing.assert_close(run.actor(seen["policy"]), model.eval()(seen), rtol=0.0, atol=1e-5)
