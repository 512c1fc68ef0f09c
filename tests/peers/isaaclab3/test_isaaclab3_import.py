"""A run of Isaac Lab 3.0 and rsl_rl 5.0, trained on Newton and written by their own code, imported as it lies there."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
import torch

STEPS, CLIP = 20, 1.5


def train(env, task_id: str, folder: Path, recurrent: bool):
    """What train.py does: the runner's own learning and checkpoint, the configurations dumped; the policy to run."""
    from isaaclab.utils.io import dump_yaml
    from isaaclab_rl.rsl_rl import RslRlRNNModelCfg, RslRlVecEnvWrapper, handle_deprecated_rsl_rl_cfg
    from isaaclab_tasks.utils import load_cfg_from_registry
    from rsl_rl.runners import OnPolicyRunner

    agent = load_cfg_from_registry(task_id, "rsl_rl_cfg_entry_point")
    agent = handle_deprecated_rsl_rl_cfg(agent, metadata.version("rsl-rl-lib"))
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
    runner = OnPolicyRunner(vec_env, settings_of(agent), log_dir=None, device="cpu")
    runner.learn(2)
    dump_yaml(str(folder / "params" / "env.yaml"), env.cfg)
    dump_yaml(str(folder / "params" / "agent.yaml"), agent)
    runner.save(str(folder / "model_2.pt"))
    return runner.get_inference_policy(device="cpu")


def settings_of(agent) -> dict:
    """The runner's settings without those of Isaac Lab's that no value was ever given, which rsl_rl refuses."""
    settings = agent.to_dict()
    for model in ("actor", "critic"):
        for name in ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std"):
            settings[model].pop(name, None)
    return settings


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


@pytest.mark.parametrize(("which", "recurrent"), [("STOCK_FLAT", False), ("STOCK_ROUGH", True)])
def test_an_imported_run_gives_the_targets_of_the_environment(lab, make, tmp_path, which, recurrent):
    from gaitway_sim2real.isaaclab.importer import read_run
    from gaitway_sim2real.signal_policy import SignalPolicy
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper

    task_id = getattr(lab, which)

    def configured():
        cfg = lab.stock_cfg(task_id, 4)
        cfg.observations.policy.enable_corruption = False
        cfg.observations.policy.history_length = 2
        cfg.terminations.base_contact = None  # the comparison is of one episode
        return cfg

    policy = train(make(configured()), task_id, tmp_path, recurrent)
    # Anew, since 3.0.0's first observation after a reset holds the gravity vector of before it: here both are level.
    env = make(configured())
    vec_env = RslRlVecEnvWrapper(env, clip_actions=CLIP)
    assert read_run(tmp_path).joint_order == "newton (sim.physics)"
    guessed = read_run(tmp_path).task.robot.joint_names
    env.export_IO_descriptors(str(tmp_path / "io_descriptors"))
    run = read_run(tmp_path)
    assert run.joint_order == "IO_descriptors.yaml" and run.rsl_rl == "5.x"
    robot = env.scene["robot"]
    assert run.task.robot.joint_names == guessed == tuple(robot.joint_names)
    [law] = run.task.robot.actuators.values()
    assert law.stiffness == 40.0 and law.armature == pytest.approx(0.01)

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
