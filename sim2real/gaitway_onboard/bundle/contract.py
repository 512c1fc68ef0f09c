"""``contract.yaml``: all that a runtime must know to run ``policy.onnx`` on a robot, and the check of a bundle's files.

Plain YAML with lossless floats, described by ``contract.schema.json``. It names the SHA-256 of every other file, and
its own last line is the SHA-256 of the lines above it, so any change after export is noticed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import MIB, NAME, SENTENCE, FileError, MissingFile, as_text, check_texts, read_bytes
from gaitway_files.writing import write_text
from gaitway_files.yaml_files import dump_yaml, parse_yaml

from .schema import CONTRACT_SCHEMA, problems

CONTRACT_FILE = "contract.yaml"
MOTION_FILE = "motion.npz"
"""Motion that a policy plays, beside the contract of one that does."""
CONTRACT_VERSION = 3
READABLE = (2, 3)
"""Version 2 has velocity commands of robots with a free base alone."""
SEAL = "sha256: "
MEASURED = ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "command")
IMU = ("imu_quat_wxyz", "gyro")
"""Those of :data:`MEASURED` that a robot with a fixed base does not have."""
VELOCITY, NUMBERS = "velocity", "numbers"
"""Operators: who gives the command. A velocity is steered, other numbers are set."""
TWIST = {"lin_vel_x": "m/s", "lin_vel_y": "m/s", "ang_vel_z": "rad/s"}
"""Numbers of a velocity command, and their units."""
ESTIMATED = ("base_lin_vel", "height_scan", "object_pos")
"""Inputs that no sensor gives: a graph has those of them that its policy reads, between MEASURED and ``state``."""
OUTPUTS = ("joint_pos_target", "action", "next_state")
ESTIMATE = "estimated_"
"""Begins the name of an output that the policy estimates for itself, and that nothing on the robot needs."""
OWN_VELOCITY = f"{ESTIMATE}base_lin_vel"
FILE_BYTES = 256 * MIB
"""Most of a file of a bundle; the graph of a policy of 10 million parameters has 40 MB."""
MAX_DECIMATION, MAX_SCAN_POINTS = 1000, 10_000
"""Bounds far above any robot's; the largest single numbers are in contract.schema.json."""
POSE_SLACK = 0.05
"""Distance of the default pose outside a joint's limits that rounding and calibration explain [rad]."""
DEFAULT_ACCELERATION = (2.0, 2.0, 4.0)
"""[m/s^2, m/s^2, rad/s^2]; how fast the controller lets a velocity command change where the graph has no limit."""
WHAT_TO_DO = "export the run again; a bundle is not edited by hand"


class BundleError(UserError):
    """A bundle that must not be run, with the file or key at fault and the fix."""


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """PD gains and the torque clip of a group of joints: ``dc_motor`` (torque-speed line) or ``implicit_pd``."""

    joints: tuple[str, ...]
    law: str
    stiffness: float
    """[N m/rad]"""
    damping: float
    """[N m s/rad]"""
    effort_limit: float
    """[N m]"""
    saturation_effort: float | None = None
    """Stall torque [N m], ``dc_motor`` only."""
    velocity_limit: float | None = None
    """No-load speed [rad/s], ``dc_motor`` only."""
    armature: float | None = None
    """Inertia that the drive added to its joint in training [kg m^2]; without it, what robot.xml says."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """``joint_pos_target = clamp(offset + scale * clamp(action, +-raw_clip), clip)``.

    The graph does it, this is for the reader. One value per joint.
    """

    kind: str
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    clip: tuple[tuple[float, float], ...] | None = None
    """[rad]"""
    raw_clip: float | None = None


@dataclass(frozen=True, kw_only=True)
class HeightScan:
    """Points of the ``height_scan`` input: a yaw-aligned grid under the base, x fastest, from -size/2 to size/2 [m]."""

    resolution: float
    size: tuple[float, float]

    def points(self) -> tuple[tuple[float, float], ...]:
        """Position of each point in the base's yaw frame [m], (P, 2)."""
        xs, ys = ([-length / 2 + k * self.resolution for k in range(self._count(length))] for length in self.size)
        return tuple((x, y) for y in ys for x in xs)

    @property
    def num_points(self) -> int:
        """Number of points P."""
        return math.prod(self._count(length) for length in self.size)

    def _count(self, length: float) -> int:
        return int(length / self.resolution + 1e-6) + 1


@dataclass(frozen=True, kw_only=True)
class RigidObject:
    """A cuboid beside the robot in training, whose place the policy reads as ``object_pos``."""

    size: tuple[float, float, float]
    """Edge lengths [m]."""
    mass: float
    """[kg]"""
    friction: float
    """Sliding friction of all its contacts."""
    pos: tuple[float, float, float]
    """Place of its middle at the start [m]; the robot's base is above the origin."""
    spread: tuple[tuple[float, float], ...]
    """Range of what is added to ``pos`` at the start of an episode [m], (3, 2)."""


@dataclass(frozen=True, kw_only=True)
class CommandCalibration:
    """Corrections measured in simulation, with which the robot does what it is told.

    With u the command as shares of ``ends``, the policy sees u + clamp(``factors`` f(u), +-0.25), at most ``most``. The
    features f are ``gaitway_sim2real.bundle.calibration.features``. The graph does it, this is for the reader.
    """

    ends: tuple[float, float, float]
    most: float
    factors: tuple[tuple[float, ...], ...]
    """(3, 51)"""


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One input or output of the graph, float32; the first dimension is the batch, ``N``."""

    name: str
    shape: tuple[str | int, ...]
    unit: str


@dataclass(frozen=True, kw_only=True)
class TermLayout:
    """One term of the actor's observation, in order: ``history`` frames of ``dim`` numbers, oldest first."""

    term: str
    dim: int
    history: int
    scale: float | tuple[float, ...]
    clip: tuple[float, float] | None
    signals: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The keys of ``contract.yaml``. Per-joint lists are in the order of ``joint_names``; radians, metres, seconds."""

    gaitway_contract: int = CONTRACT_VERSION
    task: str
    robot: str
    joint_names: tuple[str, ...]
    default_joint_pos: tuple[float, ...]
    joint_pos_limits: tuple[tuple[float, float], ...]
    soft_joint_pos_limit_factor: float
    actuators: tuple[Actuator, ...]
    """Every joint is in exactly one group."""
    action: Action
    control_dt: float
    physics_dt: float
    base_body: str
    foot_bodies: tuple[str, ...]
    init_height: float
    commands: Mapping[str, Mapping[str, tuple[float, float]]]
    """Range of each number of the one command: ``commands["base_velocity"]["lin_vel_x"]``."""
    conventions: Mapping[str, str]
    inputs: tuple[Signal, ...]
    outputs: tuple[Signal, ...]
    state_dim: int
    observation: tuple[TermLayout, ...]
    software: Mapping[str, str]
    checkpoint_sha256: str
    files: Mapping[str, str]
    height_scan: HeightScan | None = None
    """Present exactly if ``height_scan`` is an input."""
    objects: Mapping[str, RigidObject] | None = None
    """Objects beside the robot by name; exactly one if ``object_pos`` is an input."""
    gravity_compensation: bool | None = None
    """True if the robot's controller adds the torques that hold its links up."""
    operator: str = VELOCITY
    """Kind of command: :data:`VELOCITY` or :data:`NUMBERS`."""
    fixed_base: bool | None = None
    """True if the base is fixed to the world: there is no IMU, and there may be no feet."""
    command_acceleration: tuple[float, ...] | None = None
    """Largest change of each number that the graph allows per second; None does not limit it."""
    command_rest: tuple[float, ...] | None = None
    """Numbers with which the graph starts, and which an operator who says nothing means; None is all zero."""
    command_settle: float | None = None
    """Time for which the policy still steps after its limited command is one of rest [s]; None is 0."""
    suite: str | None = None
    """Suite that judges the policy, as ``module:OBJECT``; None is that of its kind of command."""
    command_calibration: CommandCalibration | None = None
    """Correction of that command before the policy observes it; None leaves it as it is."""
    estimators: Mapping[str, str] | None = None
    """Gaitway's estimator for each input that no sensor gives; the robot's own software gives the rest."""
    origin: Mapping[str, str] | None = None
    """Origin of an imported policy: ``family``, ``source``, ``licence`` and the file that held it."""
    motion: bytes | None = field(default=None, compare=False, repr=False, metadata={"beside": True})
    """Content of :data:`MOTION_FILE` beside the contract, the motion that the policy plays; None without one."""

    @property
    def num_joints(self) -> int:
        """Number of joints J."""
        return len(self.joint_names)

    @property
    def joint_actuators(self) -> tuple[Actuator, ...]:
        """The group of each joint."""
        group = {joint: actuator for actuator in self.actuators for joint in actuator.joints}
        return tuple(group[name] for name in self.joint_names)

    def per_joint(self, name: str) -> tuple[float, ...]:
        """One number of the actuators, such as ``"stiffness"``, for each joint."""
        return tuple(getattr(actuator, name) for actuator in self.joint_actuators)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of the graph."""
        return tuple(signal.name for signal in self.inputs)

    @property
    def estimated(self) -> tuple[str, ...]:
        """Inputs that no sensor gives; they must be estimated where the policy runs."""
        return tuple(name for name in self.input_names if name in ESTIMATED)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in the order of the graph."""
        return tuple(signal.name for signal in self.outputs)

    @property
    def estimates(self) -> tuple[str, ...]:
        """Outputs that tell what the policy estimates, ``estimated_base_lin_vel`` for example."""
        return tuple(name for name in self.output_names if name.startswith(ESTIMATE))

    @property
    def decimation(self) -> int:
        """Physics steps per control step."""
        return round(self.control_dt / self.physics_dt)

    @property
    def follows_velocity(self) -> bool:
        """True if the command is a velocity: vx, vy [m/s] and yaw rate [rad/s]."""
        return self.operator == VELOCITY

    @property
    def command_names(self) -> tuple[str, ...]:
        """Names of the command's numbers, in the order of the ``command`` input."""
        (numbers,) = self.commands.values()
        return tuple(TWIST if self.follows_velocity else numbers)

    @property
    def command_ranges(self) -> tuple[tuple[float, float], ...]:
        """Range of each number; those of a velocity are vx, vy [m/s] and yaw rate [rad/s]."""
        (numbers,) = self.commands.values()
        return tuple(numbers[name] for name in self.command_names)

    @property
    def command_units(self) -> tuple[str, ...]:
        """Unit of each number."""
        unit = next(signal.unit for signal in self.inputs if signal.name == "command")
        return tuple(unit.split(", "))

    @property
    def still(self) -> tuple[float, ...]:
        """Command of an operator who says nothing: zero velocity, for example."""
        return self.command_rest or (0.0,) * len(self.command_names)

    def time_to_rest(self, command: Sequence[float]) -> float:
        """Time from ``command`` until the graph, told to rest, has come to it and no longer steps [s]."""
        ways = [abs(told - rest) for told, rest in zip(command, self.still, strict=True)]
        if self.command_acceleration is None or not any(ways):
            return 0.0
        slowest = max(way / limit for way, limit in zip(ways, self.command_acceleration, strict=True))
        return slowest + (self.command_settle or 0.0)

    def check_velocity(self, doing: str) -> None:
        """Raise :class:`BundleError` unless the command is a velocity; ``doing`` is what needs one, as a sentence's
        beginning."""
        if not self.follows_velocity:
            raise BundleError(
                f"{doing} velocity commands, and {self.task} follows {', '.join(self.command_names)}: gaitway run, "
                "export and deploy work for it"
            )

    def soft_joint_pos_limits(self) -> tuple[tuple[float, float], ...]:
        """Limits shrunk about their middle by ``soft_joint_pos_limit_factor`` [rad]."""
        factor = self.soft_joint_pos_limit_factor
        return tuple(
            ((lo + hi) / 2 - (hi - lo) / 2 * factor, (lo + hi) / 2 + (hi - lo) / 2 * factor)
            for lo, hi in self.joint_pos_limits
        )

    def save(self, bundle: str | Path) -> Path:
        """Write ``contract.yaml`` into the folder ``bundle``, atomically; refuses what :meth:`load` would refuse."""
        data = _plain(self)
        text = dump_yaml(data)
        seal = hashlib.sha256(text.encode()).hexdigest()
        _check({**data, "sha256": seal}, CONTRACT_FILE)
        return write_text(Path(bundle) / CONTRACT_FILE, f"{text}{SEAL}{seal}\n")

    @classmethod
    def load(cls, bundle: str | Path) -> Contract:
        """Read and check ``contract.yaml`` of the folder ``bundle``; :func:`verify_files` checks the other files."""
        bundle = check_folder(bundle)
        path = bundle / CONTRACT_FILE
        try:
            text = as_text(_read(path), path)
            data = parse_yaml(text, path)
        except FileError as error:
            raise BundleError(f"{error}: {WHAT_TO_DO}") from None
        body, seal, stated = text.rpartition(f"\n{SEAL}")
        body += "\n"
        if isinstance(data, dict) and data.get("gaitway_contract", CONTRACT_VERSION) not in READABLE:
            raise BundleError(
                f"{path}: gaitway_contract is {data['gaitway_contract']!r} and this Gaitway reads versions "
                f"{' and '.join(map(str, READABLE))}: use the Gaitway that wrote it, or export the run again"
            )
        if not seal:
            raise BundleError(f"{path} is truncated or no contract: its last line must be '{SEAL}...': {WHAT_TO_DO}")
        if hashlib.sha256(body.encode()).hexdigest() != stated.strip():
            raise BundleError(f"{path} has been edited since export (its sha256 does not match): {WHAT_TO_DO}")
        _check(data, path)
        found = cls(**{key: _built(key, value) for key, value in data.items() if key != "sha256"})
        if MOTION_FILE not in found.files:
            return found
        return dataclasses.replace(found, motion=_verified(bundle, MOTION_FILE, found.files[MOTION_FILE]))


def check_folder(bundle: str | Path) -> Path:
    """Raise :class:`BundleError` unless there is a folder."""
    bundle = Path(bundle)
    if not bundle.is_dir():
        raise BundleError(f"no bundle at {bundle}: " + ("it is a file" if bundle.exists() else "no such folder"))
    return bundle


def verify_files(bundle: str | Path) -> dict[str, bytes]:
    """Check that each file named in the contract is there, whole and unedited; return their contents by name."""
    bundle = Path(bundle)
    return {name: _verified(bundle, name, expected) for name, expected in Contract.load(bundle).files.items()}


def _verified(bundle: Path, name: str, expected: str) -> bytes:
    """Content of a file of the bundle, whose SHA-256 the contract says."""
    content = _read(bundle / name)
    if not content:
        raise BundleError(f"{bundle / name} is empty: {WHAT_TO_DO}")
    if sha256(content) != expected:
        raise BundleError(
            f"{bundle / name} is truncated or edited: its sha256 is {sha256(content)[:12]}..., "
            f"{CONTRACT_FILE} says {expected[:12]}...: {WHAT_TO_DO}"
        )
    return content


def is_bundle(path: str | Path) -> bool:
    """True if the folder claims to be a bundle; :meth:`Contract.load` checks it."""
    return (Path(path) / CONTRACT_FILE).is_file()


def sha256(content: bytes) -> str:
    """SHA-256 of ``content`` in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, FILE_BYTES)
    except MissingFile:
        raise BundleError(f"{path.parent} is not a complete bundle: {path.name} is missing: {WHAT_TO_DO}") from None
    except FileError as error:
        raise BundleError(str(error)) from None


def _check(data: Any, where: str | Path) -> None:
    """Raise :class:`BundleError` with the first few faults of a contract's content."""
    try:
        check_texts(data, where, SENTENCE)
    except FileError as error:
        raise BundleError(str(error)) from None
    faults = list(problems(data, CONTRACT_SCHEMA)) or list(_inconsistencies(data))
    if faults:
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise BundleError(f"{where}: {'; '.join(faults[:3])}{more}")


def _inconsistencies(data: dict[str, Any]) -> list[str]:
    """Faults that need two keys to be seen."""
    names, faults = data["joint_names"], []
    if len(data["commands"]) != 1 or not all(data["commands"].values()):
        told = ", ".join(map(str, data["commands"])) or "nothing"
        return [f"commands has {told}, and a bundle has one command with numbers"]
    if wrong := [name for name in next(iter(data["commands"].values())) if not isinstance(name, str)]:
        return [f"commands has a number named {wrong[0]!r}: a name is text"]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"joint_names lists {', '.join(twice)} twice")
    faults += [
        f"{key} has {len(data[key])} characters, {NAME} at most" for key in ("task", "robot") if len(data[key]) > NAME
    ]
    faults += [
        f"{key} has {len(data[key])} entries for {len(names)} joint_names"
        for key in ("default_joint_pos", "joint_pos_limits")
        if len(data[key]) != len(names)
    ]
    numbers = next(iter(data["commands"].values()))
    faults += _of_command(data, numbers)
    if not data["foot_bodies"] and not data.get("fixed_base"):
        faults.append("foot_bodies is empty, which only a robot with fixed_base may have")
    ranges = [*zip(names, data["joint_pos_limits"], strict=False), *numbers.items()]
    faults += [f"the range of {name} is empty: [{low}, {high}]" for name, (low, high) in ranges if low > high]
    for name, pose, (low, high) in zip(names, data["default_joint_pos"], data["joint_pos_limits"], strict=False):
        if not low - POSE_SLACK <= pose <= high + POSE_SLACK:
            turned = math.radians(pose)
            hint = f" (in degrees? then it is {turned:.4g} rad)" if low <= turned <= high else ""
            faults.append(f"default_joint_pos of {name} is {pose}, outside its joint_pos_limits [{low}, {high}]{hint}")
    motor = {"saturation_effort", "velocity_limit"}
    grouped: Counter[str] = Counter()
    for number, actuator in enumerate(data["actuators"]):
        grouped.update(actuator["joints"])
        if actuator["law"] == "dc_motor" and (lacking := sorted(motor - actuator.keys())):
            faults.append(f"actuators[{number}].law dc_motor needs {' and '.join(lacking)}")
    if wrong := [name for name in dict.fromkeys((*names, *grouped)) if grouped[name] != 1 or name not in names]:
        faults.append(f"actuators must list each of joint_names once, and do not: {', '.join(wrong)}")
    for key in ("scale", "offset", "clip"):
        if len(values := data["action"].get(key) or names) != len(names):
            faults.append(f"action.{key} has {len(values)} entries for {len(names)} joint_names")
    ratio = data["control_dt"] / data["physics_dt"]
    if not 1 <= round(ratio) <= MAX_DECIMATION or abs(ratio - round(ratio)) > 1e-6:
        faults.append(
            f"control_dt {data['control_dt']} is not a multiple of physics_dt {data['physics_dt']}, "
            f"from 1 to {MAX_DECIMATION}"
        )
    scan = data.get("height_scan")
    dims = {"joint_pos": len(names), "joint_vel": len(names), "imu_quat_wxyz": 4, "gyro": 3, "command": len(numbers),
            "base_lin_vel": 3, "object_pos": 3, "height_scan": HeightScan(**_frozen(scan)).num_points if scan else 0,
            "state": data["state_dim"], "joint_pos_target": len(names), "action": len(names),
            "next_state": data["state_dim"]}  # fmt: skip
    if dims["height_scan"] > MAX_SCAN_POINTS:
        faults.append(f"height_scan has {dims['height_scan']} points, and {MAX_SCAN_POINTS} at most")
    inputs = [signal["name"] for signal in data["inputs"]]
    if ("height_scan" in inputs) != (scan is not None):
        faults.append("height_scan must describe the input of that name, and be absent without one")
    if len(objects := data.get("objects") or {}) != 1 and ("object_pos" in inputs or objects):
        faults.append(f"objects has {len(objects)}, and a policy that reads object_pos has one")
    measured = (name for name in MEASURED if not (data.get("fixed_base") and name in IMU))
    read = (*measured, *(name for name in ESTIMATED if name in inputs), "state")
    if unread := [name for name in data.get("estimators", {}) if name not in inputs or name not in ESTIMATED]:
        faults.append(f"estimators names {', '.join(unread)}, which the policy does not read")
    estimates = (signal["name"] for signal in data["outputs"] if signal["name"].startswith(ESTIMATE))
    for key, expected in (("inputs", read), ("outputs", (*OUTPUTS[:-1], *estimates, OUTPUTS[-1]))):
        if (found := tuple(signal["name"] for signal in data[key])) != expected:
            faults.append(f"{key} are {', '.join(found)}; expected {', '.join(expected)}")
        faults += [
            f"{signal['name']} has shape {signal['shape']}, expected ['N', {dims[signal['name']]}]"
            for signal in data[key]
            if signal["name"] in dims and signal["shape"] != ["N", dims[signal["name"]]]
        ]
    faults += [f"files: {name!r} is not a plain file name" for name in data["files"] if Path(name).name != name]
    return faults


def _of_command(data: dict[str, Any], numbers: Mapping[str, Any]) -> list[str]:
    """Faults of the command."""
    faults = []
    operator = data.get("operator", VELOCITY)
    if operator == VELOCITY and set(numbers) != set(TWIST):
        twist = ", ".join(TWIST)
        faults.append(f"commands has {', '.join(numbers)}; a velocity has {twist}, others have operator: {NUMBERS}")
    for key in ("command_acceleration", "command_rest"):
        if len(data.get(key) or numbers) != len(numbers):
            faults.append(f"{key} has {len(data[key])} entries for {len(numbers)} numbers of the command")
    if operator != VELOCITY and "command_acceleration" not in data:
        faults.append(f"command_acceleration is missing, and nothing else limits how fast {', '.join(numbers)} change")
    for (name, (low, high)), value in zip(numbers.items(), data.get("command_rest") or (), strict=False):
        if not low <= value <= high:
            faults.append(f"command_rest of {name} is {value}, outside its range [{low}, {high}]")
    units = next((signal["unit"] for signal in data["inputs"] if signal["name"] == "command"), "")
    if operator != VELOCITY and len(units.split(", ")) != len(numbers):
        faults.append(f"the unit of command is {units!r}; expected one, and a comma, for each of {', '.join(numbers)}")
    if operator != VELOCITY and "command_calibration" in data:
        faults.append("command_calibration is for velocities")
    if "suite" in data and (operator == VELOCITY or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", data["suite"])):
        faults.append(f"suite is {data['suite']!r}; expected module:OBJECT, of a command that is no velocity")
    return faults


def _plain(value: Any) -> Any:
    """Dataclasses, mappings and tuples as YAML's dicts and lists; optional keys that are unset stay out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        optional = {field.name for field in dataclasses.fields(value) if field.default is None}
        written = [field.name for field in dataclasses.fields(value) if not field.metadata.get("beside")]
        items = {name: getattr(value, name) for name in written}
        return {key: _plain(item) for key, item in items.items() if item is not None or key not in optional}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


_PARTS: dict[str, Any] = {
    "actuators": Actuator, "action": Action, "height_scan": HeightScan, "inputs": Signal, "outputs": Signal,
    "observation": TermLayout, "command_calibration": CommandCalibration,
}  # fmt: skip
"""Keys whose mappings, alone or in a list, become dataclasses."""


def _built(key: str, value: Any) -> Any:
    if key == "objects":
        return {name: RigidObject(**_frozen(each)) for name, each in value.items()}
    if (kind := _PARTS.get(key)) is None:
        return _frozen(value)
    if isinstance(value, list):
        return tuple(kind(**_frozen(row)) for row in value)
    return kind(**_frozen(value))
