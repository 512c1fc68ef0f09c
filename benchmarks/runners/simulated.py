"""Runners that step a simulator: each is run as it is, and its calls of the simulator give and take the signals."""

from __future__ import annotations

import importlib
import runpy
import sys
import types
import xml.etree.ElementTree as ET
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_sim2real.bundle.golden import Signals
from gaitway_sim2real.imports.description import Description

from .stands import Array, Case, Done, Steps, matrix, modules, packages, run_script, sensors, simulator, underscores


def playground(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``play_ROBOT_joystick.py``: its load_callback makes the controller, whose get_control is called."""
    package = checkout / "mujoco_playground"
    folder = (checkout / str(case.model)).parent
    files = [ET.parse(path).getroot() for path in sorted(folder.glob("*.xml"))]
    keys = {key.get("name"): np.fromstring(key.get("qpos", ""), sep=" ") for f in files for key in f.iter("key")}
    sites = {site.get("name"): site for f in files for site in f.iter("site")}
    site = "imu_in_pelvis" if "imu_in_pelvis" in sites else "imu"
    arm = np.fromstring(sites[site].get("pos", "0 0 0"), sep=" ")
    if any(term.at is not None for term in d.observation) and case.name == "apollo":
        arm = np.array(next(term.at for term in d.observation if term.at is not None))
    now: dict[str, Any] = {}
    model = types.SimpleNamespace(
        opt=types.SimpleNamespace(timestep=0.0),
        keyframe=lambda name: types.SimpleNamespace(qpos=keys[name]),
        site=lambda name: types.SimpleNamespace(id=0),
    )
    data = types.SimpleNamespace(
        sensor=lambda name: types.SimpleNamespace(data=now["linvel" if "linvel" in name else "gyro"]),
        ctrl=np.zeros(len(joints)),
    )
    simulator = {
        "MjModel": types.SimpleNamespace(from_xml_path=lambda *_, **__: model),
        "MjData": lambda _: data,
        "mj_resetDataKeyframe": lambda *_: None,
        "set_mjcb_control": lambda control: now.update(control=control),
    }
    anything = types.SimpleNamespace(as_posix=lambda: "")
    constants = {f"FEET_ONLY_{ground}_TERRAIN_XML": anything for ground in ("FLAT", "ROUGH")}

    class Gamepad:
        def __init__(self, **_: Any) -> None: ...

        def get_command(self) -> Array:
            return now["command"]

    robot = folder.parent.name
    root = f"mujoco_playground___src__locomotion__{robot}"
    named = {"apollo": "constants"}.get(robot, f"{robot}_constants")
    stands: dict[str, Any] = {
        "mujoco": simulator | {"Any": Any},
        "mujoco__viewer": {},
        "etils": {"epath": types.SimpleNamespace(Path=Path)},
        "mujoco_playground": {},
        "mujoco_playground___src": {},
        "mujoco_playground___src__locomotion": {},
        root: {named: types.SimpleNamespace(**constants)},
        f"{root}__base": {"get_assets": dict},
        "mujoco_playground__experimental": {},
        "mujoco_playground__experimental__sim2sim": {},
        "mujoco_playground__experimental__sim2sim__gamepad_reader": {"Gamepad": Gamepad},
    }
    steps: Steps = []
    with underscores(stands):
        script = package / f"experimental/sim2sim/play_{case.name}_joystick.py"
        text = "from __future__ import annotations\n" + script.read_text().split('"""Deploy', 1)[1].split('"""', 1)[1]
        space: dict[str, Any] = {"__file__": str(script), "__name__": "play"}
        exec(compile(text, str(script), "exec"), space)
        space["load_callback"]()
        controller = now["control"].__self__
        original = controller.get_obs
        controller.get_obs = lambda m, dt: now.setdefault("seen", original(m, dt))
        for k in range(len(signals["gyro"])):
            q, qd, quat, gyro, command = sensors(signals, k)
            now.update(command=command, gyro=gyro, linvel=signals["base_lin_vel"][k, 0] + np.cross(gyro, arm))
            data.qpos, data.qvel = np.concatenate((np.zeros(7), q)), np.concatenate((np.zeros(6), qd))
            data.site_xmat = matrix(quat).reshape(1, 9)
            now.pop("seen", None)
            for _ in range(controller._n_substeps):
                now["control"](model, data)
            steps.append((now["seen"], dict(zip(joints, data.ctrl.copy(), strict=True))))
    return steps


def humanoid_gym(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``humanoid/scripts/sim2sim.py``: run_mujoco, whose variables are read at its calls of mj_step."""
    data = types.SimpleNamespace(qpos=np.zeros(19), qvel=np.zeros(18), ctrl=None)
    now: dict[str, Any] = {}
    data.sensor = lambda name: types.SimpleNamespace(data=now["quat" if name == "orientation" else "gyro"])
    steps: Steps = []
    calls = 0

    def mj_step(*_: Any) -> None:
        nonlocal calls
        calls += 1
        caller = sys._getframe(1)
        every = caller.f_locals["cfg"].sim_config.decimation
        if calls > 1 and (calls - 2) % every == 0:
            targets = dict(zip(d.joints, caller.f_locals["target_q"].tolist(), strict=True))
            steps.append((caller.f_locals["policy_input"][0].copy(), targets))
            if len(steps) == len(signals["gyro"]):
                raise Done
        if (calls - 1) % every == 0:
            q, qd, quat, gyro, command = sensors(signals, (calls - 1) // every)
            order = [joints.index(name) for name in d.joints]
            data.qpos[7:], data.qvel[6:], now["quat"], now["gyro"] = q[order], qd[order], quat, gyro
            told = caller.f_globals["cmd"]
            told.vx, told.vy, told.dyaw = command

    viewer = types.SimpleNamespace(render=lambda: None, close=lambda: None)
    found = packages(
        checkout / "humanoid", "humanoid", "humanoid__envs", "humanoid__envs__base", "humanoid__envs__custom"
    )
    found["humanoid"]["LEGGED_GYM_ROOT_DIR"] = str(checkout)
    with modules(mujoco=simulator(data, mj_step), mujoco_viewer={"MujocoViewer": lambda *_: viewer}, **found):
        config = importlib.import_module("humanoid.envs.custom.humanoid_config")
        sys.modules["humanoid.envs"].XBotLCfg = config.XBotLCfg
        now["quat"], now["gyro"] = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
        run_script(checkout / "humanoid/scripts/sim2sim.py", "--load_model", str(checkout / case.policy))
    return steps


def unitree_rl_gym(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``deploy/deploy_mujoco/deploy_mujoco.py``: its variables are read at its calls of mj_step."""
    size = len(d.joints)
    data = types.SimpleNamespace(qpos=np.zeros(7 + size), qvel=np.zeros(6 + size), ctrl=np.zeros(size))
    order = [joints.index(name) for name in d.joints]
    steps: Steps = []
    calls = 0

    def mj_step(*_: Any) -> None:
        nonlocal calls
        calls += 1
        their = sys._getframe(1).f_globals
        every = their["control_decimation"]
        if calls > every and (calls - 1) % every == 0:
            steps.append((their["obs"].copy(), dict(zip(d.joints, their["target_dof_pos"].tolist(), strict=True))))
            if len(steps) == len(signals["gyro"]):
                raise Done
        if calls % every == 0:
            q, qd, quat, gyro, command = sensors(signals, calls // every - 1)
            data.qpos[3:7], data.qpos[7:], data.qvel[3:6], data.qvel[6:] = quat, q[order], gyro, qd[order]
            their["cmd"][:] = command

    view = types.SimpleNamespace(is_running=lambda: True, sync=lambda: None)
    clock = {"time": lambda: 0.0, "sleep": lambda _: None}
    gym = {"LEGGED_GYM_ROOT_DIR": str(checkout)}
    viewer = {"launch_passive": lambda *_: nullcontext(view)}
    with modules(mujoco=simulator(data, mj_step), mujoco__viewer=viewer, time=clock, legged_gym=gym):
        run_script(checkout / "deploy/deploy_mujoco/deploy_mujoco.py", Path(case.policy).name)
    return steps


def legged_rl_lab(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``g1_python/sim2sim_walk.py``: run of its controller, whose calls of mj_step take the states."""
    root = checkout / "deploy/g1_deploy"
    now: dict[str, Any] = {}
    steps: Steps = []
    names: list[str] = []
    calls = 0

    def mj_step(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1 and (calls - 1) % 4 == 0:
            q, qd, quat, gyro, command = sensors(signals, len(steps))
            order = [joints.index(name) for name in names]
            data.qpos[3:7], data.qpos[7:], data.qvel[3:6], data.qvel[6:] = quat, q[order], gyro, qd[order]
            now["command"] = command

    def named(name: str) -> Any:
        if name.endswith("_joint") and name not in names:
            names.append(name)
        return types.SimpleNamespace(id=names.index(name.removesuffix("_joint") + "_joint"))

    size = len(d.joints)
    data = types.SimpleNamespace(
        qpos=np.zeros(7 + size), qvel=np.zeros(6 + size), ctrl=np.zeros(size), xfrc_applied=np.zeros((1, 6)), time=0.0
    )
    model = types.SimpleNamespace(
        joint=named, actuator=named, jnt_qposadr=range(7, 7 + size), jnt_dofadr=range(6, 6 + size),
        opt=types.SimpleNamespace(timestep=0.0),
    )  # fmt: skip

    def sync() -> None:
        if seen := now.pop("seen", None):
            steps.append((seen[0], dict(zip(names, controller.target_qpos_mj.tolist(), strict=True))))
            if len(steps) == len(signals["gyro"]):
                raise Done

    camera = types.SimpleNamespace(lookat=np.zeros(3))
    view = types.SimpleNamespace(is_running=lambda: True, sync=sync, cam=camera, perturb=None)
    pad = types.SimpleNamespace(exit_requested=False, active_policy=0, get_velocity=lambda: now["command"])
    clock = {"time": lambda: 0.0, "sleep": lambda _: None}
    with modules(
        mujoco=simulator(data, mj_step, model) | {"mjv_applyPerturbForce": lambda *_: None}, time=clock,
        mujoco__viewer={"launch_passive": lambda *_: nullcontext(view)}, joystick={"create_gamepad_controller": None},
    ):  # fmt: skip
        space = runpy.run_path(str(root / "g1_python/sim2sim_walk.py"))
        controller = space["Sim2SimController"](str(root / "config/g1_walk.yaml"), Path(case.policy).name)
        session = controller.ort_session
        controller.ort_session = types.SimpleNamespace(
            run=lambda outputs, feed: (now.update(seen=[v[0] for v in feed.values()]), session.run(outputs, feed))[1]
        )
        with suppress(Done):
            controller.run(pad)
    return steps
