"""Rollout files: the observations and actions of a policy in a simulator, and the named states. numpy only.

Written by the recorders of the worlds, read by ``gaitway diagnose``. One ``.npz``; T control steps, N environments,
J joints, D observation columns, A actions. Row t is one moment: the state, the observation made of it, and the action
(and joint targets) given then, which act until row t + 1. ``done[t]`` says that the episode ended before row t + 1.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.archives import read_npz
from gaitway_files.errors import UserError
from gaitway_files.reading import FileError, MissingFile
from gaitway_files.writing import write_file

from .spec import MAX_CONTROL_DT, PHYSICS_DT

FORMAT = "gaitway_recording"
VERSION = 1
MIN_STEPS = 20
QUAT_ORDERS = ("wxyz", "xyzw")
VELOCITY_FRAMES = ("base", "world")

SHAPES: dict[str, tuple[str | int, ...]] = {
    "observation": ("T", "N", "D"),
    "action": ("T", "N", "A"),
    "joint_names": ("J",),
    "joint_pos": ("T", "N", "J"),
    "joint_vel": ("T", "N", "J"),
    "root_pos_w": ("T", "N", 3),
    "root_quat": ("T", "N", 4),
    "root_lin_vel": ("T", "N", 3),
    "root_ang_vel": ("T", "N", 3),
    "command": ("T", "N", 3),
    "done": ("T", "N"),
    "joint_pos_target": ("T", "N", "J"),
    "applied_torque": ("T", "N", "J"),
    "root_com_lin_vel": ("T", "N", 3),
    "height_scan": ("T", "N", "P"),
}


SCALARS: dict[str, tuple[str, type, str]] = {
    "bool": ("b", bool, "true or false"),
    "float": ("fiu", float, "a finite number"),
    "str": ("U", str, "text"),
}
"""Numpy kinds allowed for a field with one value, its Python type, and the type's name in messages."""


class RecordingError(UserError):
    """A recording that cannot be used, with the fix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """The arrays of :data:`SHAPES` and how to read them; arrays that may be missing are ``None``."""

    observation: np.ndarray
    """The policy's whole input, noise and history included."""
    action: np.ndarray
    """The policy's raw output, before any clip or scale of the simulator, in the policy's own order."""
    joint_names: tuple[str, ...]
    """Order of the J columns of this file; any order."""
    joint_pos: np.ndarray
    """[rad]"""
    joint_vel: np.ndarray
    """[rad/s]"""
    root_pos_w: np.ndarray
    """Origin of the base link, ground at z = 0 [m]."""
    root_quat: np.ndarray
    """Rotates the base frame into the world frame; components in the order ``quat_order``."""
    quat_order: str
    root_lin_vel: np.ndarray
    """Velocity of the base link's origin [m/s] in ``velocity_frame``."""
    root_ang_vel: np.ndarray
    """[rad/s] in ``velocity_frame``."""
    velocity_frame: str
    command: np.ndarray
    """vx, vy [m/s], yaw rate [rad/s]."""
    done: np.ndarray
    control_dt: float
    physics_dt: float
    simulator: str
    """Name and version of the simulator."""
    starts_at_reset: bool
    """Row 0 is the first of its episodes."""
    observation_noise: bool
    """The observation carries noise on purpose."""
    flat_ground: bool
    torques_held: bool | None = None
    """The drives' torques were computed once per physics step and held, as by Isaac Lab's explicit actuators; None: not
    known."""
    joint_pos_target: np.ndarray | None = None
    """Joint targets sent to the actuators at row t [rad]."""
    applied_torque: np.ndarray | None = None
    """Torque of the last physics step before row t [N m]."""
    root_com_lin_vel: np.ndarray | None = None
    """Velocity of the base link's centre of mass [m/s] in ``velocity_frame``."""
    height_scan: np.ndarray | None = None
    """Base height above each scan point [m], x fastest."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def steps(self) -> int:
        return len(self.action)

    @property
    def num_envs(self) -> int:
        return self.action.shape[1]

    def save(self, path: str | Path) -> Path:
        """Write the file atomically; the suffix becomes ``.npz``."""
        path = Path(path).with_suffix(".npz")
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values |= {"format": FORMAT, "version": VERSION}
        arrays: dict[str, Any] = {name: np.asarray(value) for name, value in values.items() if value is not None}
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_file(path, lambda file: np.savez_compressed(file, **arrays))

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read and check a file; raises :class:`RecordingError` naming the array at fault."""
        path = Path(path)
        values = _read(path)
        if str(values.pop("format", "")) != FORMAT:
            raise RecordingError(f"{path} is no recording (it has no format {FORMAT!r}): make one with gaitway record")
        if (version := values.pop("version", None)) is None or version.tolist() != VERSION:
            raise RecordingError(f"{path} has recording version {version}, this Gaitway reads {VERSION}: record again")
        fields = {field.name: field for field in dataclasses.fields(cls)}
        if unknown := sorted(values.keys() - fields.keys()):
            close = difflib.get_close_matches(unknown[0], list(fields), n=1)
            raise RecordingError(
                f"{path} holds {', '.join(unknown)}, unknown in a recording"
                + (f": do you mean {close[0]!r}?" if close else "")
            )
        required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
        if missing := [name for name in required if name not in values]:
            raise RecordingError(f"{path} lacks {', '.join(missing)}: record again with the recorder of this version")
        try:
            return cls(**{name: _value(fields[name], array) for name, array in values.items()})
        except RecordingError as error:
            raise RecordingError(f"{path}: {error}") from None
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise RecordingError(f"{path}: its values make no sense ({' '.join(str(error).split())[:200]})") from None


class RolloutBuffer:
    """Rows as a recorder collects them: one call of :meth:`add` per moment, one of :meth:`recording` at the end."""

    def __init__(self, **about: Any) -> None:
        """``about`` are the fields of :class:`Recording` that do not change in time."""
        self.about = about
        self.rows: list[dict[str, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, row: Mapping[str, np.ndarray]) -> None:
        """Copy one moment: arrays of N rows, float32 (``done``: bool)."""
        self.rows.append(
            {name: np.array(value, dtype=bool if name == "done" else np.float32) for name, value in row.items()}
        )

    def recording(self) -> Recording:
        if not self.rows:
            raise RecordingError("nothing has been recorded: step the environment first")
        arrays: dict[str, Any] = {name: np.stack([row[name] for row in self.rows]) for name in self.rows[0]}
        return Recording(**self.about, **arrays)


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(path)
    except MissingFile:
        raise RecordingError(f"no recording at {path}: make one with gaitway record") from None
    except FileError as error:
        raise RecordingError(f"{path} is no .npz archive of plain arrays: {error.reason}") from None


def _value(field: dataclasses.Field[Any], array: np.ndarray) -> Any:
    """Arrays unchanged; scalars and names as Python values of the field's type."""
    name = field.name
    if name == "joint_names":
        return tuple(str(item) for item in array.ravel())
    if name in SHAPES:
        return array
    if array.ndim:
        raise RecordingError(f"{name} has shape {array.shape}, expected one value")
    kinds, convert, told = SCALARS[str(field.type).removesuffix(" | None")]
    if array.dtype.kind not in kinds or not (convert is str or np.isfinite(array)):
        raise RecordingError(f"{name} is {array.item()!r}, expected {told}")
    return convert(array.item())


def _check(recording: Recording) -> None:
    """Raise :class:`RecordingError` on the first fault."""
    sizes: dict[str, int] = {}
    for name, shape in SHAPES.items():
        value = getattr(recording, name)
        if value is None:
            continue
        found = np.shape(value)
        expected = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in shape)
        if len(found) != len(shape) or any(
            isinstance(e, int) and f != e for f, e in zip(found, expected, strict=False)
        ):
            listed = ", ".join(str(size) for size in expected)
            raise RecordingError(f"{name} has shape {found}, expected ({listed}) as {', '.join(map(str, shape))}")
        sizes |= {size: f for size, f in zip(shape, found, strict=True) if isinstance(size, str)}
        if name in ("joint_names",):
            continue
        _check_numbers(name, np.asarray(value))
    if sizes["T"] < MIN_STEPS or sizes["N"] < 1:
        raise RecordingError(f"{sizes['T']} steps of {sizes['N']} environments: at least {MIN_STEPS} steps are needed")
    if twice := sorted({n for n in recording.joint_names if list(recording.joint_names).count(n) > 1}):
        raise RecordingError(f"joint_names lists {', '.join(twice)} twice")
    for name, allowed in (("quat_order", QUAT_ORDERS), ("velocity_frame", VELOCITY_FRAMES)):
        if (given := getattr(recording, name)) not in allowed:
            raise RecordingError(f"{name} is {given!r}: use {' or '.join(map(repr, allowed))}")
    if recording.done[:-1].all():
        raise RecordingError(
            "done is true at every step: no two rows follow each other, so there is nothing to compare"
        )
    norms = np.linalg.norm(recording.root_quat, axis=-1)
    if np.abs(norms - 1.0).max() > 1e-2:
        t, n = np.unravel_index(np.abs(norms - 1.0).argmax(), norms.shape)
        raise RecordingError(
            f"root_quat at step {t}, environment {n} is {recording.root_quat[t, n].tolist()}: no unit quaternion"
        )
    if not (PHYSICS_DT[0] <= recording.physics_dt <= PHYSICS_DT[1] and 0.0 < recording.control_dt <= MAX_CONTROL_DT):
        raise RecordingError(
            f"control_dt {recording.control_dt} s with physics_dt {recording.physics_dt} s: at most "
            f"{MAX_CONTROL_DT:g}, and {PHYSICS_DT[0]:g} to {PHYSICS_DT[1]:g}"
        )
    ratio = recording.control_dt / recording.physics_dt
    if ratio < 1 - 1e-6 or abs(ratio - round(ratio)) > 1e-3:
        raise RecordingError(
            f"control_dt {recording.control_dt} is not a multiple of physics_dt {recording.physics_dt} (seconds)"
        )


def _check_numbers(name: str, value: np.ndarray) -> None:
    if name == "done":
        if value.dtype != bool:
            raise RecordingError(f"done has type {value.dtype}: use bool, true where the episode ended in that step")
    elif value.dtype.kind != "f":
        raise RecordingError(f"{name} has type {value.dtype}: use float32")
    elif not np.isfinite(value).all():
        t, n, column = np.argwhere(~np.isfinite(value))[0]
        raise RecordingError(
            f"{name} is {value[t, n, column]} at step {t}, environment {n}, column {column}: end the recording before "
            "the simulation diverges"
        )
