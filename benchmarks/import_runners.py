"""Imported policies against their sources' own runners: the largest differences of observation terms and joint targets.

    python benchmarks/import_runners.py --checkouts DIR [--only booster_gym ...] [--steps 240]

DIR holds checkouts by their repositories' names: mujoco_playground, booster_gym, humanoid-gym, unitree_rl_gym,
holosoma, FALCON, ASAP, OpenHomie, OpenWBT, legged_rl_lab. Their runners are executed as they are, with their
simulators, viewers and SDKs replaced by stand-ins that give both sides the same states; they load TorchScript with
torch.jit.load, which runs code of the archive. So point this only at checkouts that you trust. Commands change every
second, and rest in between.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import shutil
import sys
import tempfile
import types
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from gaitway_files.graphs import open_graph
from gaitway_sim2real.bundle.golden import Signals, plausible_signals
from gaitway_sim2real.imports import families
from gaitway_sim2real.imports.described_policy import DescribedPolicy
from gaitway_sim2real.imports.description import Description
from gaitway_sim2real.imports.graph import memory_of, open_network
from gaitway_sim2real.imports.policy import Observer
from numpy.typing import NDArray

LIMIT = 1e-5
"""Of each number. Last actions are taken times the action's scale, in rad: they are the targets of the step before."""
Array = NDArray[np.floating]
Steps = list[tuple[Array, dict[str, float]]]
"""The observation (D,) and the targets by joint of each control step."""


@dataclass(frozen=True)
class Case:
    """A published policy and how its own runner is run."""

    checkout: str
    policy: str
    model: str | None
    run: Callable[[Path, Case, Signals, tuple[str, ...], Description], Steps]
    """(checkout, this, signals (steps, 1, d), joints of the signals, description) -> what the runner did."""
    name: str = ""
    """Name of the case in its runner."""


class Done(Exception):
    """All steps are run."""


@contextmanager
def modules(**stands: Any) -> Iterator[None]:
    """Stand-ins for modules, by their names with two underscores for a dot."""
    made = {}
    for name, content in stands.items():
        module = types.ModuleType(name.replace("__", "."))
        module.__dict__.update(content)
        made[module.__name__] = module
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent in made:
            setattr(made[parent], child, module)
    with mock.patch.dict(sys.modules, made):
        yield


def sensors(signals: Signals, k: int) -> tuple[Array, Array, Array, Array, Array]:
    """Joint positions and velocities, attitude, turn rate and command of step ``k``."""
    names = ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "command")
    return tuple(signals[name][k, 0].astype(np.float64) for name in names)  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------ MuJoCo Playground


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


@contextmanager
def underscores(stands: Mapping[str, Any]) -> Iterator[None]:
    """:func:`modules` for names whose parts begin with an underscore."""
    with modules(**stands):
        for name in stands:
            module = sys.modules.pop(name.replace("__", "."), None)
            right = name.replace("___", "._").replace("__", ".")
            if module is not None:
                sys.modules[right] = module
        for name in [n.replace("___", "._").replace("__", ".") for n in stands]:
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, sys.modules[name])
        yield


def matrix(quat: Array) -> Array:
    """Rotation matrix (3, 3) from body to world."""
    w, x, y, z = quat / np.linalg.norm(quat)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


# ------------------------------------------------------------------------------------------------------ Booster Gym


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


# ----------------------------------------------------------------------------------------------------- humanoid-gym


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

    simulator = {
        "MjModel": types.SimpleNamespace(
            from_xml_path=lambda _: types.SimpleNamespace(opt=types.SimpleNamespace(timestep=0.0))
        ),
        "MjData": lambda _: data,
        "mj_step": mj_step,
    }
    viewer = types.SimpleNamespace(render=lambda: None, close=lambda: None)
    package = {"__path__": [str(checkout / "humanoid")], "LEGGED_GYM_ROOT_DIR": str(checkout)}
    envs = {"__path__": [str(checkout / "humanoid/envs")]}
    base = {"__path__": [str(checkout / "humanoid/envs/base")]}
    custom = {"__path__": [str(checkout / "humanoid/envs/custom")]}
    with modules(
        mujoco=simulator, mujoco_viewer={"MujocoViewer": lambda *_: viewer}, humanoid=package, humanoid__envs=envs,
        humanoid__envs__base=base, humanoid__envs__custom=custom,
    ):  # fmt: skip
        config = importlib.import_module("humanoid.envs.custom.humanoid_config")
        sys.modules["humanoid.envs"].XBotLCfg = config.XBotLCfg  # type: ignore[attr-defined]
        now["quat"], now["gyro"] = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
        run_script(checkout / "humanoid/scripts/sim2sim.py", "--load_model", str(checkout / case.policy))
    return steps


def run_script(path: Path, *arguments: str) -> None:
    """Run a script as from the command line, until :class:`Done`."""
    with mock.patch.object(sys, "argv", [str(path), *arguments]), suppress(Done):
        runpy.run_path(str(path), run_name="__main__")


# --------------------------------------------------------------------------------------------------- unitree_rl_gym


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

    simulator = {
        "MjModel": types.SimpleNamespace(
            from_xml_path=lambda _: types.SimpleNamespace(opt=types.SimpleNamespace(timestep=0.0))
        ),
        "MjData": lambda _: data,
        "mj_step": mj_step,
    }

    @contextmanager
    def launch_passive(*_: Any) -> Iterator[Any]:
        yield types.SimpleNamespace(is_running=lambda: True, sync=lambda: None)

    clock = {"time": lambda: 0.0, "sleep": lambda _: None}
    gym = {"LEGGED_GYM_ROOT_DIR": str(checkout)}
    with modules(mujoco=simulator, mujoco__viewer={"launch_passive": launch_passive}, time=clock, legged_gym=gym):
        run_script(checkout / "deploy/deploy_mujoco/deploy_mujoco.py", Path(case.policy).name)
    return steps


# --------------------------------------------------------------------------------------------------------- holosoma


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
    packages = {
        name: {"__path__": [str(inference.joinpath(*name.split("__")[1:]))]}
        for name in ("holosoma_inference", "holosoma_inference__policies", "holosoma_inference__config",
                     "holosoma_inference__config__config_values", "holosoma_inference__config__config_types",
                     "holosoma_inference__sdk", "holosoma_inference__utils")
    }  # fmt: skip
    steps: Steps = []
    with modules(
        **packages, netifaces={}, sshkeyboard={"listen_keyboard": None}, termcolor={"colored": lambda text, _: text},
        loguru={"logger": quiet}, holosoma_inference__sdk__interface_wrapper={"InterfaceWrapper": Interface},
        holosoma_inference__utils__wandb={"load_checkpoint": None},
        holosoma_inference__utils__rate={"RateLimiter": lambda _: None},
    ):  # fmt: skip
        types_, values = "holosoma_inference.config.config_types", "holosoma_inference.config.config_values"
        for part in ("observation", "robot", "task", "inference"):
            importlib.import_module(f"{types_}.{part}")
        kinds = {p: importlib.import_module(f"{values}.{p}") for p in ("observation", "robot", "task")}
        from dataclasses import replace

        kind = sys.modules[f"{types_}.inference"].InferenceConfig
        robot = replace(getattr(kinds["robot"], case.name), sdk_type="unitree")
        task = replace(kinds["task"].locomotion, model_path=str(checkout / case.policy))
        config = kind(robot=robot, observation=getattr(kinds["observation"], f"loco_{case.name}"), task=task)
        policy = importlib.import_module("holosoma_inference.policies.locomotion").LocomotionPolicy(config)
        policy.use_policy_action = True
        order = [joints.index(name) for name in policy.dof_names]
        for k in range(len(signals["gyro"])):
            q, qd, quat, gyro, command = sensors(signals, k)
            now["state"] = np.concatenate((np.zeros(3), quat, q[order], np.zeros(3), gyro, qd[order]))[None]
            policy.lin_vel_command, policy.ang_vel_command = command[None, :2].copy(), command[None, 2:].copy()
            policy.update_phase_time()
            policy.policy_action()
            targets = dict(zip(policy.dof_names, now["target"].tolist(), strict=True))
            steps.append((policy.obs_buf_dict["actor_obs"][0].copy(), targets))
    return steps


# --------------------------------------------------------------------------------------------------- FALCON and ASAP


class Anything:
    """Stand-in for a device, its driver or a logger: every attribute and every call is one again."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return Anything()


UNITREE = {
    name: {"ChannelFactoryInitialize": Anything(), "ChannelPublisher": Anything, "ChannelSubscriber": Anything,
           "WirelessController_": Anything, "LowState_": Anything, "CRC": Anything}
    for name in ("unitree_sdk2py", "unitree_sdk2py__core", "unitree_sdk2py__core__channel", "unitree_sdk2py__utils",
                 "unitree_sdk2py__utils__crc", "unitree_sdk2py__idl", "unitree_sdk2py__idl__unitree_go",
                 "unitree_sdk2py__idl__unitree_hg", "unitree_sdk2py__idl__unitree_go__msg",
                 "unitree_sdk2py__idl__unitree_hg__msg")
}  # fmt: skip
for _kind in ("go", "hg"):
    UNITREE[f"unitree_sdk2py__idl__unitree_{_kind}__msg__dds_"] = UNITREE["unitree_sdk2py"]


def state_row(signals: Signals, k: int, order: list[int]) -> Array:
    """Position, attitude, joints, velocity, turn rate and joint velocities of step ``k``, as HumanoidVerse has them."""
    q, qd, quat, gyro, _ = sensors(signals, k)
    return np.concatenate((np.zeros(3), quat, q[order], np.zeros(3), gyro, qd[order]))[None]


def falcon(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``sim2real/rl_policy/dec_loco/dec_loco.py``: policy_action, walking unless the command is zero."""
    import yaml

    now: dict[str, Any] = {"time": 0.0}
    sender = types.SimpleNamespace(send_command=lambda q, *_: now.update(target=q.copy()))
    state = types.SimpleNamespace(robot_state_data=None)
    root = checkout / "sim2real"
    packages = {
        name: {"__path__": [str(root.joinpath(*name.split("__")[1:]))]}
        for name in ("sim2real", "sim2real__rl_policy", "sim2real__rl_policy__dec_loco", "sim2real__utils")
    }
    comm = {"create_state_processor": lambda _: state, "create_command_sender": lambda _: sender}
    steps: Steps = []
    with modules(
        **packages, **UNITREE, sim2real__utils__comm=comm, loguru={"logger": Anything()},
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
    packages = {
        name: {"__path__": [str(root.joinpath(*name.split("__")[1:]))]} for name in ("sim2real", "sim2real__utils")
    }
    steps: Steps = []
    with modules(
        **packages, **UNITREE, rclpy={}, rclpy__node={"Node": Anything}, pygame={}, std_msgs={}, nav_msgs={},
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


# -------------------------------------------------------------------------------------------------------- OpenHomie


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


# ---------------------------------------------------------------------------------------------------- legged_rl_lab


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
    simulator = {
        "MjModel": types.SimpleNamespace(from_xml_path=lambda _: model),
        "MjData": lambda _: data,
        "mj_step": mj_step,
        "mjv_applyPerturbForce": lambda *_: None,
    }

    @contextmanager
    def launch_passive(*_: Any) -> Iterator[Any]:
        def sync() -> None:
            if seen := now.pop("seen", None):
                steps.append((seen[0], dict(zip(names, controller.target_qpos_mj.tolist(), strict=True))))
                if len(steps) == len(signals["gyro"]):
                    raise Done

        camera = types.SimpleNamespace(lookat=np.zeros(3))
        yield types.SimpleNamespace(is_running=lambda: True, sync=sync, cam=camera, perturb=None)

    pad = types.SimpleNamespace(exit_requested=False, active_policy=0, get_velocity=lambda: now["command"])
    clock = {"time": lambda: 0.0, "sleep": lambda _: None}
    with modules(
        mujoco=simulator, mujoco__viewer={"launch_passive": launch_passive}, time=clock,
        joystick={"create_gamepad_controller": None},
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


# ---------------------------------------------------------------------------------------------------------- OpenWBT


def openwbt(checkout: Path, case: Case, signals: Signals, joints: tuple[str, ...], d: Description) -> Steps:
    """``deploy/helpers``: LocoLowLevelPolicy and its gait planner, as Controller_loco calls them."""
    packages = {
        name: {"__path__": [str(checkout.joinpath(*name.split("__")))]} for name in ("deploy", "deploy__helpers")
    }
    steps: Steps = []
    order = [joints.index(name) for name in d.joints]
    with modules(**packages, **UNITREE):
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


# ------------------------------------------------------------------------------------------------------- comparison

PLAY = "mujoco_playground/experimental/sim2sim/onnx/{}_policy.onnx"
SCENE = "mujoco_playground/_src/locomotion/{}/xmls/scene_mjx_feetonly_flat_terrain.xml"
ASAP = (
    "sim2real/models/dec_loco/20250109_231507-noDR_rand_history_loco_stand_height_noise-decoupled_locomotion-g1_29dof/"
    "model_6600.onnx"
)
LOCO = "src/holosoma_inference/holosoma_inference/models/loco/{}/{}.onnx"
CASES = (
    *(Case("mujoco_playground", PLAY.format(name), SCENE.format(folder), playground, name)
      for name, folder in (("go1", "go1"), ("g1", "g1"), ("t1", "t1"), ("bh", "berkeley_humanoid"),
                           ("apollo", "apollo"))),
    Case("booster_gym", "deploy/models/T1.pt", "resources/T1/T1_serial.xml", booster_gym),
    Case("humanoid-gym", "logs/XBot_ppo/exported/policies/policy_example.pt", "resources/robots/XBot/mjcf/XBot-L.xml",
         humanoid_gym),
    *(Case("unitree_rl_gym", f"deploy/deploy_mujoco/configs/{name}.yaml", None, unitree_rl_gym)
      for name in ("g1", "h1")),
    *(Case("holosoma", LOCO.format("g1_29dof", f"{kind}_g1_29dof"), None, holosoma, "g1_29dof")
      for kind in ("ppo", "fastsac")),
    Case("FALCON", "sim2real/models/dec_loco/g1_29dof.onnx", None, falcon),
    Case("ASAP", ASAP, None, asap),
    Case("OpenHomie", "HomieDeploy/deploy.onnx", None, openhomie),
    Case("OpenWBT", "ckpts/loco.onnx", None, openwbt),
    Case("legged_rl_lab", "deploy/g1_deploy/exported_policy/g1_flat_1.onnx", None, legged_rl_lab),
)  # fmt: skip


def ours(policy: DescribedPolicy, signals: Signals) -> Steps:
    """Outputs of the bundle's graph on the same signals, and the observations from its first half."""
    d, joints = policy.robot.description, policy.robot.robot.joint_names
    network = open_network(policy.found.graph, d.network)
    observer = Observer(d, joints, memory_of(network)).eval()
    with tempfile.TemporaryDirectory() as folder:
        graph = policy.export(Path(folder) / "bundle") / "policy.onnx"
        session = open_graph(graph.read_bytes(), graph, own=True)
    state = np.zeros((1, sum(observer.widths)), np.float32)
    steps: Steps = []
    for k in range(len(signals["gyro"])):
        feed = {name: signals[name][k] for name in observer.input_widths if name != "state"} | {"state": state}
        with torch.no_grad():
            observation, *_ = observer(*(torch.from_numpy(feed[name]) for name in observer.input_widths))
        targets, state = session.run(["joint_pos_target", "next_state"], feed)
        steps.append((observation[0].numpy(), dict(zip(joints, targets[0].tolist(), strict=True))))
    return steps


def spans(d: Description) -> dict[str, list[int]]:
    """Places of each term in the observation."""
    places: dict[str, list[int]] = {}
    start = 0
    for term in d.observation:
        width, frames = d.width(term), len(d.ages(term))
        if d.history.by == "step":
            at = [f * d.frame_dim + start + i for f in range(frames) for i in range(width)]
            start += width
        else:
            at = [start + i for i in range(width * frames)]
            start += width * frames
        places.setdefault(term.term, []).extend(at)
    return places


def compare(case: Case, checkouts: Path, steps: int) -> bool:
    """Print one case; whether all differences are within the limit."""
    checkout = checkouts / case.checkout
    model = None if case.model is None else checkout / case.model
    family, path = families.find(checkout / case.policy)
    with tempfile.TemporaryDirectory() as folder:
        if model is not None and b"sensornoise" in model.read_bytes():  # an attribute that MuJoCo no longer knows
            copy = shutil.copytree(model.parent.parent, Path(folder) / "robot") / model.parent.name / model.name
            copy.write_bytes(model.read_bytes().replace(b'sensornoise="enable"', b""))
            model = copy
        policy = family.reader().load(path, families.Options(model=model))
    assert isinstance(policy, DescribedPolicy)
    d, robot = policy.robot.description, policy.robot.robot
    ranges = np.array(list(d.command.ranges.values()))
    signals = plausible_signals(
        np.array(robot.default_joint_pos), ranges, steps=steps, batch=1, step_dt=d.control_dt, seed=1,
        estimated={"base_lin_vel": 3},
    )  # fmt: skip
    signals["command"][np.arange(steps) * d.control_dt % 3.3 >= 1.9] = 0.0  # long enough to slow down and rest
    mine = ours(policy, signals)
    theirs = case.run(checkout, case, signals, robot.joint_names, d)
    assert len(mine) == len(theirs) == steps
    seen = [np.stack([step[0] for step in side]) for side in (mine, theirs)]
    gaps = np.abs(seen[0] - seen[1])
    if actions := spans(d).get("last_action"):
        raw = float(gaps[:, actions].max())
        gaps[:, actions] *= np.tile(d.action.scale, len(actions) // len(d.action.scale))
    gap = gaps.max(0)
    shown = {term: float(gap[places].max()) for term, places in spans(d).items()}
    moved = [name for name in d.joints if name in theirs[0][1]]
    targets = [max(abs(a[1][name] - b[1][name]) for name in moved) for a, b in zip(mine, theirs, strict=True)]
    shown["targets"] = max(targets)
    good = max(shown.values()) <= LIMIT
    print(f"{case.checkout} {Path(case.policy).stem}: {'equal' if good else 'DIFFERENT'}, {steps} steps")
    for term, value in shown.items():
        print(f"    {term:20} {value:.1e}" + (f"  (raw {raw:.1e})" if term == "last_action" else ""))
    if not good:
        rows = gaps.max(1)
        print(f"    steps of observations above {LIMIT:g}: {np.flatnonzero(rows > LIMIT)[:20].tolist()}")
        print(f"    steps of targets above {LIMIT:g}: {np.flatnonzero(np.array(targets) > LIMIT)[:20].tolist()}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--steps", type=int, default=240)
    options = parser.parse_args()
    torch.set_num_threads(1)
    good = True
    for case in CASES:
        if not (options.checkouts / case.checkout).is_dir():
            print(f"{case.checkout}: no such checkout, left out")
        elif not options.only or case.checkout in options.only:
            good &= compare(case, options.checkouts, options.steps)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
