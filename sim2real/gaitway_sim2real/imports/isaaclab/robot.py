"""The robot of a run: model, joint order, default pose and actuators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gaitway_files.patterns import matches
from gaitway_tasks.robots import ROBOTS, ActuatorLaw, Robot
from gaitway_tasks.robots.orders import newton_order, physx_order

from ...mujoco.own_model import OwnModel
from .actuators import Fallback, map_actuators
from .config import Settings, given
from .errors import IsaacLabImportError
from .names import NoMatch, values

ENGINES = {"physx": "physx", "mjwarp": "newton"}
"""The engine whose order each ``joint_ordering`` of Isaac Lab 3.0 names."""


@dataclass
class RunRobot:
    """The robot as trained in the run, and the sources of its data."""

    robot: Robot
    order_source: str
    notes: list[str] = field(default_factory=list)
    own_model: OwnModel | None = None
    """Keeps the file of ``robot.mjcf``, if it is one made for this import."""


def resolve_robot(
    env: Settings,
    asset: str,
    *,
    name: str | None = None,
    model: Path | None = None,
    joint_order: str | None = None,
    descriptors: Settings | None = None,
    deploy: Settings | None = None,
) -> RunRobot:
    """The robot ``asset`` of the scene, with its joints in the order of the policy's vectors.

    The model is that of the known robot ``name``, or the MJCF ``model``, or that of the known robot whose file the
    scene spawns or whose joints the run lists. ``joint_order`` is ``"physx"``, ``"newton"`` or joint names with commas
    between them; without it the order is that of ``descriptors`` (``IO_descriptors.yaml``), of ``joint_ordering`` in
    ``env``, of ``deploy`` (unitree_rl_lab's ``deploy.yaml``), or that of the physics engine in ``env``.
    """
    scene = env.child("scene").child(asset)
    notes: list[str] = []
    own = OwnModel(model) if model is not None else None
    listed = _listed_joints(scene, asset, descriptors, deploy)
    entry, fallback = _entry(scene, name, own, listed[0] if listed else _sdk_names(scene), notes)
    if own is not None and (feet := _feet(env, entry.body_names)):
        entry = entry.replace(foot_names=feet)
    names, source = _joint_order(entry, env, scene, joint_order, listed, own is not None, notes)
    try:
        pose = _default_pose(scene, names, asset, descriptors, notes)
        actuators = map_actuators(scene, names, fallback, notes)
    except NoMatch as error:
        raise IsaacLabImportError(
            f"{error}: is {entry.name} the robot of this run? Another one is given with --robot or --model"
        ) from None
    limits = dict(zip(entry.joint_names, entry.joint_limits, strict=True))
    initial = scene.child("init_state")
    height = initial.get("pos", (tuple, list))
    robot = entry.replace(
        joint_names=names,
        default_joint_pos=tuple(pose[joint] for joint in names),
        joint_limits=tuple(limits[joint] for joint in names),
        soft_joint_pos_limit_factor=float(scene.get("soft_joint_pos_limit_factor", float, 1.0)),
        init_height=float(height[2]) if height else entry.init_height,
        actuators=actuators,
    )
    strength = robot.hardware.effort_limit if robot.hardware is not None else {}
    limit = {joint: law.effort_limit for joint, law in zip(names, robot.joint_actuators, strict=True)}
    if weaker := [joint for joint, most in strength.items() if limit[joint] > most]:
        notes.append(
            f"torque limits of env.yaml are above the real robot's for {len(weaker)} joints ({weaker[0]}: "
            f"{limit[weaker[0]]:g} N m, its motor {strength[weaker[0]]:g}); validation is with those of env.yaml"
        )
    return RunRobot(robot, source, notes, own)


def _listed_joints(
    scene: Settings, asset: str, descriptors: Settings | None, deploy: Settings | None
) -> tuple[list[str], str] | None:
    """All joints in the order of the policy's vectors and the file that lists them, if one does."""
    if descriptors is not None:
        return descriptors.child("articulations").child(asset).require("joint_names", list), "IO_descriptors.yaml"
    if isinstance(ordering := scene.get("joint_ordering", (str, list, tuple)), (list, tuple)):
        return list(ordering), "joint_ordering of env.yaml"
    if deploy is not None and "joint_sdk_names" in scene:
        slots, ids = scene.require("joint_sdk_names", list), deploy.require("joint_ids_map", list)
        if not all(isinstance(slot, int) and 0 <= slot < len(slots) for slot in ids):
            raise IsaacLabImportError(f"{deploy.where}.joint_ids_map is not one of the {len(slots)} joint_sdk_names")
        return [slots[slot] for slot in ids], "deploy.yaml"
    return None


def _sdk_names(scene: Settings) -> list[str]:
    """unitree_rl_lab's joints by motor; a slot without a motor is empty."""
    return [joint for joint in scene.get("joint_sdk_names", list, []) if joint]


def _entry(
    scene: Settings, name: str | None, own: OwnModel | None, joints: Sequence[str], notes: list[str]
) -> tuple[Robot, Fallback]:
    """The robot before the run's own settings, and its actuators where the run does not define them."""
    spawn = Settings(scene.get("spawn", dict, {}), f"{scene.where}.spawn")
    asset_file = next((str(v) for k in ("usd_path", "asset_path") if given(v := spawn.data.get(k))), "")
    known = _recognised(asset_file, joints)
    if name is not None:
        if name not in ROBOTS:
            raise IsaacLabImportError(f"--robot {name!r} is not known; known robots are {', '.join(ROBOTS)}")
        known = ROBOTS[name]
    if own is not None:
        if known is not None and set(known.joint_names) == set(own.robot.joint_names):
            return own.robot.replace(name=known.name), _laws(known)
        return own.robot, Fallback({}, f"an MJCF, {own.robot.mjcf.name}, does not say either")
    if known is None:
        raise IsaacLabImportError(
            f"the run spawns {asset_file or 'a robot without a file'}, which is none of the robots known here "
            f"({', '.join(ROBOTS)}): give the same robot as an MJCF with --model robot.xml, or say which of the known "
            f"ones it is with --robot NAME"
        )
    if asset_file and _stem(asset_file) != _file_of(known):
        notes.append(f"the run spawned {asset_file.rpartition('/')[2]}; the model is Gaitway's {known.name}")
    return known, _laws(known)


def _feet(env: Settings, bodies: Sequence[str]) -> tuple[str, ...]:
    """The bodies that the task's rewards for feet look at, if the model has them."""
    for name, reward in (env.children("rewards") if "rewards" in env else {}).items():
        if "feet" in name and isinstance(params := reward.data.get("params"), dict):
            patterns = (params.get("sensor_cfg") or {}).get("body_names") or ()
            wanted = [patterns] if isinstance(patterns, str) else list(patterns)
            if found := tuple(body for body in bodies if any(matches(pattern, body) for pattern in wanted)):
                return found
    return ()


def _laws(robot: Robot) -> Fallback:
    laws: dict[str, ActuatorLaw] = dict(zip(robot.joint_names, robot.joint_actuators, strict=True))
    return Fallback(laws, f"Gaitway's {robot.name}")


def _stem(path: str) -> str:
    """The file's name without the suffixes of Isaac Lab (fewer collision shapes) and Unitree (a revision)."""
    return re.sub("(_minimal|_description|_rev_1_0)$", "", path.rpartition("/")[2].rpartition(".")[0].lower())


def _file_of(robot: Robot) -> str:
    return _stem(robot.usd) if robot.usd else robot.name.replace("-", "_")


def _recognised(path: str, joints: Sequence[str]) -> Robot | None:
    """The robot with exactly these ``joints``; with several or no matches, the one whose file has this name."""
    fitting = [robot for robot in ROBOTS.values() if set(robot.joint_names) == set(joints)]
    named = [robot for robot in fitting or ROBOTS.values() if path and _file_of(robot) == _stem(path)]
    found = fitting if len(fitting) == 1 else named
    return found[0] if len(found) == 1 else None


def _joint_order(
    robot: Robot,
    env: Settings,
    scene: Settings,
    wanted: str | None,
    listed: tuple[list[str], str] | None,
    own_model: bool,
    notes: list[str],
) -> tuple[tuple[str, ...], str]:
    if wanted is not None and wanted not in ("physx", "newton"):
        return _same_joints(
            robot, [n.strip() for n in wanted.split(",") if n.strip()], "--joint-order"
        ), "--joint-order"
    if wanted is None and listed is not None:
        return _same_joints(robot, *listed), listed[1]
    engine, reason = (wanted, "--joint-order") if wanted else _engine(env, scene)
    if own_model:
        notes.append(
            f"joint order: that of {engine} if the training asset keeps all joints in one place, since their paths "
            f"decide; IO_descriptors.yaml or --joint-order with names would settle it"
        )
    order = newton_order(robot) if engine == "newton" else physx_order(robot)
    return order, f"{engine} ({reason})"


def _engine(env: Settings, scene: Settings) -> tuple[str, str]:
    """``"physx"`` or ``"newton"``, whose order the joints have, and where the run states it."""
    if (ordering := scene.get("joint_ordering", str)) is not None:
        if ordering.lower() not in ENGINES:
            raise IsaacLabImportError(
                f"{scene.where}.joint_ordering is {ordering!r}, an order that only the asset tells: give the joints' "
                f"names with --joint-order"
            )
        return ENGINES[ordering.lower()], "joint_ordering"
    sim = env.child("sim")
    if "physx" in sim:
        return "physx", "sim.physx"
    physics = sim.get("physics", dict)
    if physics is None:
        return "physx", "Isaac Lab's default"
    # PhysxAutoCfg has no class of its own: its fields are the two ways to PhysX.
    kind = Settings(physics, f"{sim.where}.physics").get("class_type", str, " ".join(physics))
    engines = [engine for engine in ("newton", "physx") if engine in kind.lower()]
    if len(engines) == 1:
        return engines[0], "sim.physics"
    raise IsaacLabImportError(
        f"{sim.where}.physics is {kind or physics!r}, neither PhysX nor Newton: give the joint order with --joint-order"
    )


def _same_joints(robot: Robot, names: Sequence[str], source: str) -> tuple[str, ...]:
    missing = [joint for joint in robot.joint_names if joint not in names]
    unknown = [joint for joint in names if joint not in robot.joint_names]
    if missing or unknown or len(names) != robot.num_joints:
        raise IsaacLabImportError(
            f"{source} and {robot.name} do not have the same joints: "
            f"only {robot.name} has {', '.join(missing) or 'none'}, only {source} has {', '.join(unknown) or 'none'}; "
            f"another model of the robot is given with --model robot.xml"
        )
    return tuple(names)


def _default_pose(
    scene: Settings, names: Sequence[str], asset: str, descriptors: Settings | None, notes: list[str]
) -> dict[str, float]:
    """``init_state.joint_pos``, 0 for joints that it does not match; must equal the descriptors' pose, if any."""
    initial = scene.child("init_state")
    found = values(initial.get("joint_pos", dict, {}), names, f"{initial.where}.joint_pos")
    pose = {joint: float(found.get(joint, 0.0)) for joint in names}
    speeds = values(initial.get("joint_vel", dict, {}), names, f"{initial.where}.joint_vel")
    if moving := [joint for joint, speed in speeds.items() if speed != 0.0]:
        raise IsaacLabImportError(
            f"{initial.where}.joint_vel of {moving[0]} is {speeds[moving[0]]}: default joint velocities other than 0 "
            f"cannot be exported"
        )
    if descriptors is not None:
        node = descriptors.child("articulations").child(asset)
        seen = dict(zip(node.require("joint_names", list), node.get("default_joint_pos", list, []), strict=False))
        if off := [joint for joint in names if joint in seen and abs(seen[joint] - pose[joint]) > 1e-4]:
            notes.append(
                f"default pose: IO_descriptors.yaml has {seen[off[0]]:g} for {off[0]}, env.yaml {pose[off[0]]:g}; "
                f"env.yaml's is used"
            )
    return pose
