"""LEAPP packages of Isaac Lab 3.0's own exporter."""

from __future__ import annotations

import numpy as np
import pytest
from gaitway_isaaclab.registration import env_id
from kitless import STOCK_FLAT, STOCK_ROUGH

pytest.importorskip("safetensors")
leapp = pytest.importorskip("leapp")
STEPS = 20
OURS = "velocity-{}-anymal-c"


def isaaclab_package(env, task_id, folder):
    """Package as ``isaaclab leapp export`` makes it, with an actor as its runner makes it."""
    import gymnasium as gym
    from isaaclab.utils.leapp import patch_env_for_export
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper, create_rsl_rl_runner, handle_deprecated_rsl_rl_cfg
    from isaaclab_tasks.utils import load_cfg_from_registry

    class Wrapped:  # the exporter expects Gymnasium's outermost wrapper
        pass

    from importlib import metadata

    env.spec = gym.spec(task_id)
    wrapped = Wrapped()
    wrapped.env, wrapped.unwrapped = env, env
    agent = load_cfg_from_registry(task_id, "rsl_rl_cfg_entry_point")
    agent = handle_deprecated_rsl_rl_cfg(agent, metadata.version("rsl-rl-lib"))
    agent.device = "cpu"
    patch_env_for_export(wrapped, export_method="onnx-dynamo", required_obs_groups={"policy"})
    vec_env = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
    policy = create_rsl_rl_runner(vec_env, agent).get_inference_policy(device="cpu")
    leapp.start(task_id, save_path=str(folder), max_cached_io=3)
    observation = reset(vec_env)
    for _ in range(3):
        observation = step(vec_env, policy, observation)
    leapp.stop()
    assert leapp.compile_graph(visualize=False)
    return vec_env, policy, folder / task_id


def reset(vec_env):
    import torch

    with torch.inference_mode():
        return vec_env.reset()[0]


def step(vec_env, policy, observation):
    import torch

    with torch.inference_mode():
        return vec_env.step(policy(observation))[0]


def signals(env, contract):
    """The bundle's inputs from the environment's state; joints in the contract's order."""
    data = env.scene["robot"].data
    order = [data.joint_names.index(name) for name in contract.joint_names]
    feed = {
        "joint_pos": data.joint_pos.torch[:, order],
        "joint_vel": data.joint_vel.torch[:, order],
        "imu_quat_wxyz": data.root_quat_w.torch[:, [3, 0, 1, 2]],
        "gyro": data.root_ang_vel_b.torch,
        "command": env.command_manager.get_command("base_velocity"),
        "base_lin_vel": data.root_lin_vel_b.torch,
    }
    if "height_scan" in contract.estimated:
        sensor = env.scene.sensors["height_scanner"]
        # Under the exporter, observations read the buffers as they are; only sensor.data casts the rays again.
        buffers = sensor._data
        feed["height_scan"] = buffers.pos_w.torch[:, 2:3] - buffers.ray_hits_w.torch[..., 2]
        feed["height_scan"] = feed["height_scan"].clone()
        assert sensor.data is buffers
    return {name: value.numpy().astype(np.float32).copy() for name, value in feed.items()}


@pytest.mark.parametrize(
    "task_id", [STOCK_FLAT, STOCK_ROUGH, env_id(OURS.format("flat")), env_id(OURS.format("rough"))]
)
def test_a_policy_exported_by_isaac_lab_computes_its_own_targets_as_a_bundle(
    lab, make, physics, tmp_path, monkeypatch, task_id
):
    import torch
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.bundle.export import open_session
    from gaitway_sim2real.imports.leapp.bundle import bundle_of_package

    torch.jit._state.disable()  # as the exporter asks for
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    cfg = lab.env_cfg if task_id.startswith("Gaitway") else lab.stock_cfg
    env = make(cfg(task_id, 1, physics))
    vec_env, policy, package = isaaclab_package(env, task_id, tmp_path)
    bundle = bundle_of_package(package, say=lambda text: None)
    contract, session = Contract.load(bundle), open_session(bundle / "policy.onnx")
    assert set(contract.joint_names) == set(env.scene["robot"].joint_names)
    assert contract.robot == "anymal-c"
    assert contract.action.scale == (0.5,) * 12

    observation = reset(vec_env)
    state, worst = np.zeros((1, contract.state_dim), np.float32), 0.0
    order = [env.scene["robot"].joint_names.index(name) for name in contract.joint_names]
    for _ in range(STEPS):
        feed = signals(env, contract)
        target, _, state = session.run(["joint_pos_target", "action", "next_state"], {**feed, "state": state})
        observation = step(vec_env, policy, observation)
        theirs = env.scene["robot"].data.joint_pos_target.torch[:, order].numpy()
        worst = max(worst, float(np.abs(target - theirs).max()))
    assert worst < 1e-5
