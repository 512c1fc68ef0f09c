"""Robot assets for Isaac Lab: its own asset if that can be reached, else a USD made from the MJCF."""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.children import ending_with_us
from gaitway_files.mjcf_files import MODEL_BYTES, names_files
from gaitway_files.reading import read_bytes
from gaitway_files.writing import whole_file, write_text
from gaitway_tasks.robots import DESCRIPTIONS, Robot
from gaitway_tasks.spec import Task

from . import compat, usd
from .cache import cache_folder
from .compat import IsaacLabError

ASSET_VARIABLE = "GAITWAY_ISAACLAB_ASSET"
ASSETS = ("auto", "nucleus", "mjcf")
ACTUATORS = ("task", "isaaclab")
MASS_TOLERANCE = 0.01


def choose_asset(robot: Robot, asset: str | None) -> str:
    """``"nucleus"`` or ``"mjcf"``, from ``asset`` or the environment variable; ``"auto"`` takes the available one.

    Raises :class:`IsaacLabError` for another value, and for a robot without an asset in Isaac Lab.
    """
    asset = asset or os.environ.get(ASSET_VARIABLE) or "auto"
    if asset not in ASSETS:
        raise IsaacLabError(f"asset {asset!r} ({ASSET_VARIABLE}): use one of {', '.join(ASSETS)}")
    if asset == "nucleus" and not _cfg_name(robot):
        raise IsaacLabError(f"Isaac Lab has no asset of {robot.name!r}: use asset 'mjcf', which is made from its MJCF")
    if asset == "auto":
        return "nucleus" if _cfg_name(robot) and reachable(_isaac_cfg(robot).spawn.usd_path) else "mjcf"
    return asset


@functools.cache
def reachable(path: str, timeout: float = 5.0) -> bool:
    """True if the file exists: a local path, or one on an asset server that must respond within ``timeout`` [s]."""
    if path.startswith(("http://", "https://")):
        try:
            with urllib.request.urlopen(urllib.request.Request(path, method="HEAD"), timeout=timeout):
                return True
        except (OSError, urllib.error.URLError):
            return False
    if "://" in path:
        return _on_omniverse(path, timeout)
    return Path(path).exists()


def _on_omniverse(path: str, timeout: float) -> bool:
    """True if an Omniverse server has the file. Its client must not be imported before Isaac Sim starts."""
    if _kit_runs():
        import omni.client

        return bool(omni.client.stat(path)[0] == omni.client.Result.OK)
    ask = "import sys, omni.client as c; sys.exit(c.stat(sys.argv[1])[0] != c.Result.OK)"
    try:
        return _child("-c", ask, path, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def robot_cfg(task: Task, asset: str, actuators: str) -> Any:
    """``ArticulationCfg`` of the task's robot: spawned from ``asset``, with the task's default pose and actuators.

    ``actuators="isaaclab"`` takes those of Isaac Lab's own configuration instead, which for ANYmal C is the LSTM
    network of its drives; the network's file must be reachable.
    """
    robot = task.robot
    if robot.fixed_base:
        raise IsaacLabError(f"the base of {robot.name} is fixed, and here it is free: use --world mujoco")
    cfg = copy.deepcopy(_isaac_cfg(robot)) if asset == "nucleus" else _converted(robot)
    cfg.prim_path = "{ENV_REGEX_NS}/Robot"
    cfg.init_state.pos = (0.0, 0.0, robot.init_height)
    cfg.init_state.rot = compat.identity_quat()
    cfg.init_state.joint_pos = dict(zip(robot.joint_names, robot.default_joint_pos, strict=True))
    cfg.soft_joint_pos_limit_factor = robot.soft_joint_pos_limit_factor
    if actuators == "task":
        from .actuators import actuator_cfgs

        stock, cfg.actuators = cfg.actuators, actuator_cfgs(task)
        for drive in cfg.actuators.values():
            if drive.friction is None:
                drive.friction = _friction(stock, drive, robot)  # of the asset's joints, not the task's matter
    elif actuators == "isaaclab":
        if robot.parameters is not None:
            raise IsaacLabError("identified parameters need the task's own actuators: use actuators 'task'")
        cfg.actuators = _isaac_actuators(task)
    else:
        raise IsaacLabError(f"actuators {actuators!r}: use one of {', '.join(ACTUATORS)}")
    return cfg


def _friction(stock: dict[str, Any], drive: Any, robot: Robot) -> Any:
    """Friction in ``stock``, the asset's own drives, of the joints of ``drive``."""
    from isaaclab.utils.string import resolve_matching_names

    def joints(cfg: Any) -> list[str]:
        return list(resolve_matching_names(cfg.joint_names_expr, list(robot.joint_names))[1])

    mine = joints(drive)[0]
    return next((each.friction for each in stock.values() if mine in joints(each)), None)


def check_masses(robot: Robot, articulation: Any) -> None:
    """Raise unless every body of the converted ``articulation`` has the mass that the MJCF gives it, within 1 %.

    Importers of USD files have been seen to drop masses and to guess them from shapes instead.
    """
    model = usd.compile_file(robot.mjcf)
    expected = {model.body(i).name: inertial.mass for i, inertial in enumerate(usd.body_inertials(model)) if i > 0}
    loaded = dict(zip(articulation.body_names, compat.body_masses(articulation.data)[0].cpu().tolist(), strict=True))
    wrong = [
        f"{name}: {loaded.get(name, 0.0):.4g} kg instead of {mass:.4g} kg"
        for name, mass in expected.items()
        if not np.isclose(loaded.get(name, 0.0), mass, rtol=MASS_TOLERANCE, atol=0.0)
    ]
    if wrong:
        raise IsaacLabError(
            f"the simulator loaded {robot.name} with other masses than its MJCF has: {'; '.join(wrong)}"
        )


def _cfg_name(robot: Robot) -> str:
    """Isaac Lab's configuration of the robot as ``module:name``; empty without one."""
    described = DESCRIPTIONS.get(robot.name)
    return "" if described is None else described.isaaclab.asset or ""


def _isaac_cfg(robot: Robot) -> Any:
    module, name = _cfg_name(robot).split(":")
    return getattr(importlib.import_module(module), name)


def _isaac_actuators(task: Task) -> Any:
    robot = task.robot
    if not _cfg_name(robot):
        raise IsaacLabError(f"Isaac Lab has no actuators for {robot.name!r}: use actuators 'task'")
    cfgs = copy.deepcopy(_isaac_cfg(robot).actuators)
    for name, cfg in cfgs.items():
        network = getattr(cfg, "network_file", None)
        if network is not None and not reachable(network):
            raise IsaacLabError(
                f"the network file of actuator {name!r}, {network}, cannot be reached: use actuators 'task'"
            )
    return cfgs


def _converted(robot: Robot) -> Any:
    import isaaclab.sim as sim_utils
    from isaaclab.assets import ArticulationCfg

    return ArticulationCfg(
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(_usd_of(robot)),
            activate_contact_sensors=True,
            rigid_props=sim_utils.RigidBodyPropertiesCfg(
                disable_gravity=False,
                retain_accelerations=False,
                linear_damping=0.0,
                angular_damping=0.0,
                max_linear_velocity=1000.0,
                max_angular_velocity=1000.0,
                max_depenetration_velocity=1.0,
            ),
            articulation_props=sim_utils.ArticulationRootPropertiesCfg(  # self-collisions are as the USD says
                solver_position_iteration_count=4, solver_velocity_iteration_count=0
            ),
        ),
        actuators={},
    )


def _usd_of(robot: Robot) -> Path:
    """Converted USD in the user's cache, keyed by its inputs.

    The file is named like Isaac Lab's own, so that the robot of a run can be identified later. A model that refers
    to other files is converted every time.
    """
    model, description = read_bytes(robot.mjcf, MODEL_BYTES), json.dumps(usd.described(robot))
    made_from = hashlib.sha256(model + description.encode() + Path(usd.__file__).read_bytes())
    path = cache_folder() / made_from.hexdigest()[:16] / (Path(robot.usd).name if robot.usd else f"{robot.name}.usd")
    if not path.exists() or names_files(model):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            if "pxr" in sys.modules or _kit_runs():
                usd.write_usd(robot, partial)
            else:
                _write_in_child(write_text(partial.with_name("robot.json"), description), partial)
    return path


def _write_in_child(description: Path, path: Path) -> None:
    """As :func:`gaitway_isaaclab.usd.write_usd`: Isaac Sim has a ``pxr`` of its own and must be the first to import it.

    Raises :class:`gaitway_isaaclab.usd.UsdError`.
    """
    done = _child(usd.__file__, str(description), str(path))
    if done.returncode:
        said = done.stdout.strip() or f"it ended with exit code {done.returncode}: {done.stderr[-2000:].strip()}"
        raise usd.UsdError(said)


def _child(*arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a Python process that finds the same packages and ends with this one."""
    return subprocess.run(
        ending_with_us([sys.executable, "-P", *arguments]),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def _kit_runs() -> bool:
    """True if Isaac Sim's application has been started in this process."""
    return "omni.kit.app" in sys.modules
