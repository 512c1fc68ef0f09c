"""``contract.yaml``: all that a runtime must know to run ``policy.onnx`` on a robot, and the check of a bundle's files.

Plain YAML with lossless floats, described by ``contract.schema.json``. It names the SHA-256 of every other file, and
its own last line is the SHA-256 of the lines above it, so any change after export is noticed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import MIB, SENTENCE, FileError, MissingFile, as_text, check_texts, read_bytes
from gaitway_files.writing import write_text
from gaitway_files.yaml_files import dump_yaml, parse_yaml

from .consistency import inconsistencies
from .parts import (
    ESTIMATE,
    ESTIMATED,
    TWIST,
    VELOCITY,
    Action,
    Actuator,
    CommandCalibration,
    HeightScan,
    RigidObject,
    Signal,
    TermLayout,
    built,
)
from .schema import CONTRACT_SCHEMA, problems

CONTRACT_FILE = "contract.yaml"
MOTION_FILE = "motion.npz"
"""Motion that a policy plays, beside the contract of one that does."""
CONTRACT_VERSION = 3
READABLE = (2, 3)
"""Version 2 has velocity commands of robots with a free base alone."""
SEAL = "sha256: "
FILE_BYTES = 256 * MIB
"""Most of a file of a bundle; the graph of a policy of 10 million parameters has 40 MB."""
DEFAULT_ACCELERATION = (2.0, 2.0, 4.0)
"""[m/s^2, m/s^2, rad/s^2]; how fast the controller lets a velocity command change where the graph has no limit."""
WHAT_TO_DO = "export the run again; a bundle is not edited by hand"


class BundleError(UserError):
    """A bundle that must not be run, with the file or key at fault and the fix."""


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
        found = cls(**{key: built(key, value) for key, value in data.items() if key != "sha256"})
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
    faults = list(problems(data, CONTRACT_SCHEMA)) or list(inconsistencies(data))
    if faults:
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise BundleError(f"{where}: {'; '.join(faults[:3])}{more}")


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
