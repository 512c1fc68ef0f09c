"""Runners of robots: their policy objects are made and called as their control loops do."""

from __future__ import annotations

import importlib
import runpy
import sys
import types
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from gaitway_files.graphs import open_graph
from gaitway_sim2real.bundle.golden import Signals
from gaitway_sim2real.imports.description import Description

from .stands import UNITREE, Anything, Array, Case, Steps, matrix, modules, packages, sensors, state_row


def booster_gym(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``deploy/utils/policy.py``: Policy.inference."""
    import yaml

    config = yaml.safe_load((checkout / "deploy/configs/T1.yaml").read_text())
    config["policy"]["policy_path"] = str(checkout / case.policy)
    policy = runpy.run_path(str(checkout / "deploy/utils/policy.py"))["Policy"](config)
    motors = [j.get("name") for j in ET.parse(checkout / str(case.model)).getroot().iter("joint") if j.get("name")]
    place = [joints.index(str(name)) for name in motors]
    steps: Steps = []
    for k in range(len(signals["gyro"])):
        q, qd, quat, gyro, command = sensors(signals, k)
        gravity = matrix(quat).T @ [0.0, 0.0, -1.0]
        time = k * policy.get_policy_interval()
        targets = policy.inference(time, q[place], qd[place], gyro, gravity, *command)
        steps.append((policy.obs.copy(), dict(zip(map(str, motors), targets.tolist(), strict=True))))
    return steps


def holosoma(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``LocomotionPolicy`` of holosoma_inference: update_phase_time and policy_action, as its run calls them."""
    inference = checkout / "src/holosoma_inference/holosoma_inference"
    now: dict[str, Any] = {}

    class Interface:
        backend, kp_level = "none", 1.0

        def __init__(self, *_: Any) -> None: ...

        def get_low_state(self) -> Array:
            return now["state"]

        def send_low_command(self, q: Array, *_: Any, **__: Any) -> None:
            now["target"] = q.copy()

    quiet = types.SimpleNamespace(**dict.fromkeys(("info", "warning", "error", "debug"), lambda *_, **__: None))
    parts = ("", "__policies", "__config", "__config__config_values", "__config__config_types", "__sdk", "__utils")
    found = packages(inference, *(f"holosoma_inference{part}" for part in parts))
    steps: Steps = []
    with modules(
        **found, netifaces={}, sshkeyboard={"listen_keyboard": None}, termcolor={"colored": lambda text, _: text},
        loguru={"logger": quiet}, holosoma_inference__sdk__interface_wrapper={"InterfaceWrapper": Interface},
        holosoma_inference__utils__wandb={"load_checkpoint": None},
        holosoma_inference__utils__rate={"RateLimiter": lambda _: None},
    ):  # fmt: skip
        types_, values = "holosoma_inference.config.config_types", "holosoma_inference.config.config_values"
        for part in ("observation", "robot", "task", "inference"):
            importlib.import_module(f"{types_}.{part}")
        kinds = {p: importlib.import_module(f"{values}.{p}") for p in ("observation", "robot", "task")}
        kind = sys.modules[f"{types_}.inference"].InferenceConfig
        robot = replace(getattr(kinds["robot"], case.name), sdk_type="unitree")
        task = replace(kinds["task"].locomotion, model_path=str(checkout / case.policy))
        config = kind(robot=robot, observation=getattr(kinds["observation"], f"loco_{case.name}"), task=task)
        policy = importlib.import_module("holosoma_inference.policies.locomotion").LocomotionPolicy(config)
        policy.use_policy_action = True
        order = [joints.index(name) for name in policy.dof_names]
        for k in range(len(signals["gyro"])):
            command = sensors(signals, k)[-1]
            now["state"] = state_row(signals, k, order)
            policy.lin_vel_command, policy.ang_vel_command = command[None, :2].copy(), command[None, 2:].copy()
            policy.update_phase_time()
            policy.policy_action()
            targets = dict(zip(policy.dof_names, now["target"].tolist(), strict=True))
            steps.append((policy.obs_buf_dict["actor_obs"][0].copy(), targets))
    return steps


def falcon(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``sim2real/rl_policy/dec_loco/dec_loco.py``: policy_action, walking unless the command is zero."""
    import yaml

    now: dict[str, Any] = {"time": 0.0}
    sender = types.SimpleNamespace(send_command=lambda q, *_: now.update(target=q.copy()))
    state = types.SimpleNamespace(robot_state_data=None)
    root = checkout / "sim2real"
    found = packages(root, "sim2real", "sim2real__rl_policy", "sim2real__rl_policy__dec_loco", "sim2real__utils")
    comm = {"create_state_processor": lambda _: state, "create_command_sender": lambda _: sender}
    steps: Steps = []
    with modules(
        **found, **UNITREE, sim2real__utils__comm=comm, loguru={"logger": Anything()},
        loop_rate_limiters={"RateLimiter": Anything}, sshkeyboard={"listen_keyboard": Anything()},
        termcolor={"colored": lambda text, _: text},
    ):  # fmt: skip
        config = yaml.safe_load((root / "config/g1/g1_29dof.yaml").read_text())
        module = importlib.import_module("sim2real.rl_policy.dec_loco.dec_loco")
        policy = module.DecLocomotionPolicy(config, str(checkout / case.policy))
        policy.use_policy_action = True
        order = [joints.index(name) for name in d.joints]
        with mock.patch("time.perf_counter", lambda: now["time"]):
            for k in range(len(signals["gyro"])):
                now["time"] = k * d.control_dt
                command = sensors(signals, k)[-1]
                state.robot_state_data = state_row(signals, k, order)
                policy.lin_vel_command, policy.ang_vel_command = command[None, :2].copy(), command[None, 2:].copy()
                policy.stand_command = np.array([[int(command.any())]])
                policy.policy_action()
                targets = dict(zip(d.joints, now["target"].tolist(), strict=True))
                steps.append((policy.obs_buf_dict["actor_obs"][0].copy(), targets))
    return steps


def asap(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``sim2real/rl_policy/deepmimic_dec_loco_height.py``: rl_inference, with the arms at the default pose."""
    import yaml

    now: dict[str, Any] = {"time": 0}
    root = checkout / "sim2real"
    clock = types.SimpleNamespace(now=lambda: types.SimpleNamespace(nanoseconds=now["time"]))
    node = types.SimpleNamespace(get_clock=lambda: clock, create_rate=lambda _: None, get_logger=Anything())
    state = types.SimpleNamespace(_prepare_low_state=lambda: now["state"])
    sender = types.SimpleNamespace(send_command=lambda q, *_: now.update(target=q.copy()))
    found = packages(root, "sim2real", "sim2real__utils")
    steps: Steps = []
    with modules(
        **found, **UNITREE, rclpy={}, rclpy__node={"Node": Anything}, pygame={}, std_msgs={}, nav_msgs={},
        std_msgs__msg={"Float64MultiArray": Anything}, nav_msgs__msg={"Odometry": Anything},
        scipy={}, scipy__spatial={}, scipy__spatial__transform={"Rotation": Anything}, loguru={"logger": Anything()},
        sshkeyboard={"listen_keyboard": Anything()}, termcolor={"colored": lambda text, _: text},
        sim2real__utils__key_cmd={"KeyboardPolicy": Anything},
        sim2real__utils__state_processor={"StateProcessor": lambda _: state},
        sim2real__utils__command_sender={"CommandSender": lambda _: sender},
    ), mock.patch.object(sys, "path", [str(root / "rl_policy"), *sys.path]):  # fmt: skip
        config = yaml.safe_load((root / "config/g1_29dof_hist.yaml").read_text())
        for name in ("base_policy", "deepmimic_dec_loco", "deepmimic_dec_loco_height"):
            sys.modules.pop(name, None)
        kind = importlib.import_module("deepmimic_dec_loco_height").MotionTrackingDecLocoHeightPolicy
        with mock.patch.object(kind, "setup_mimic_policies", lambda _: None):
            policy = kind(config, node, str(checkout / case.policy), None, False)
        policy.use_policy_action = True
        policy.ref_upper_dof_pos[:] = 0.0
        network, order = policy.policy_locomotion, [joints.index(name) for name in d.joints]
        policy.policy_locomotion = lambda seen: network(now.setdefault("seen", seen))
        for k in range(len(signals["gyro"])):
            now["time"] = round(k * d.control_dt * 1e9)
            command = sensors(signals, k)[-1]
            now["state"] = state_row(signals, k, order)
            policy.lin_vel_command, policy.ang_vel_command = command[None, :2].copy(), command[None, 2:].copy()
            policy.stand_command = np.array([[int(command.any())]])
            now.pop("seen", None)
            policy.rl_inference()
            steps.append((now["seen"][0].copy(), dict(zip(d.joints, now["target"].tolist(), strict=True))))
    return steps


def openhomie(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``g1_gym_deploy/envs``: LCMAgent in its HistoryWrapper, on the CPU."""
    root = checkout / "HomieDeploy/g1_gym_deploy"
    now: dict[str, Any] = {}
    named = [joint if joint in joints else None for joint in d.joints]
    order = [joints.index(str(joint)) for joint in named]
    lc = types.SimpleNamespace(publish=lambda *_: None)
    message = {"pd_tau_targets_lcmt": Anything, "arm_action_lcmt": Anything, "body_record_lcmt": Anything}
    stands = {
        "lcm": {"LCM": lambda _: lc},
        "utils": {}, "utils__cheetah_state_estimator": {"StateEstimator": Anything},
        "utils__command_profile": {"RCControllerProfile": Anything},
        "lcm_types": {}, "lcm_types__pd_tau_targets_lcmt": message, "lcm_types__arm_action_lcmt": message,
        "lcm_types__body_record_lcmt": message,
    }  # fmt: skip
    estimator = types.SimpleNamespace(
        joint_idxs=[],
        get_gravity_vector=lambda: matrix(now["quat"]).T @ [0.0, 0.0, -1.0],
        get_dof_pos=lambda: now["q"][order],
        get_dof_vel=lambda: now["qd"][order],
        get_body_angular_vel=lambda: now["gyro"],
    )
    profile = types.SimpleNamespace(get_command=lambda _: np.append(now["command"], 0.74))
    steps: Steps = []
    with modules(**stands), mock.patch.object(np, "float", float, create=True):
        space: dict[str, Any] = {"__name__": "envs", "print": lambda *_: None}
        for file in ("lcm_agent.py", "history_wrapper.py"):
            text = (root / "envs" / file).read_text().replace("cuda:0", "cpu")
            exec(compile(text, file, "exec"), space)
        env = space["HistoryWrapper"](space["LCMAgent"](estimator, profile))
        agent = env.env
        session = open_graph((checkout / case.policy).read_bytes(), checkout / case.policy, own=True)
        for k in range(len(signals["gyro"])):
            now.update(zip(("q", "qd", "quat", "gyro", "command"), sensors(signals, k), strict=True))
            seen = env.get_obs()["obs_history"].numpy()
            action = session.run(None, {session.get_inputs()[0].name: seen})[0]
            agent.actions = torch.clip(torch.from_numpy(action), -100.0, 100.0)
            agent.publish_action(agent.actions)
            targets = dict(zip(d.action.joints, agent.joint_pos_target[:12].tolist(), strict=True))
            steps.append((seen[0].copy(), targets))
    return steps


def openwbt(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``deploy/helpers``: LocoLowLevelPolicy and its gait planner, as Controller_loco calls them."""
    steps: Steps = []
    order = [joints.index(name) for name in d.joints]
    with modules(**packages(checkout / "deploy", "deploy", "deploy__helpers"), **UNITREE):
        config = importlib.import_module("deploy.config").Config(str(checkout / "deploy/configs/g1_loco.yaml"))
        config.policy_path = str(checkout / case.policy)
        policy = importlib.import_module("deploy.helpers.policy_unified").LocoLowLevelPolicy(config)
        for k in range(len(signals["gyro"])):
            q, qd, quat, gyro, command = sensors(signals, k)
            gravity = matrix(quat).T @ [0.0, 0.0, -1.0]
            policy.gait_planner.update_gait_phase(not command.any())
            seen, _, targets = policy.inference(command, gravity, gyro, q[order], qd[order])
            steps.append((seen[0].copy(), dict(zip(d.joints, targets.tolist(), strict=True))))
    return steps
