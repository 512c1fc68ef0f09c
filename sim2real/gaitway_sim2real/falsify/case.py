"""A case: commands over time, blows and a twin under which a policy falls; as a file, and run again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.json_files import read_json
from gaitway_files.reading import MIB, SENTENCE, check_texts, one_line
from gaitway_files.writing import write_text
from gaitway_onboard.bundle.contract import Contract, verify_files

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.plant import Plant
from ..mujoco.robots import Policy
from ..population.population import FEET, IMU_TILT, PAYLOAD_AT, RANGES
from ..population.twin import Kind, Twin
from ..population.walk import Blow, Walk, walk

VERSION = 1
"""Of the file's format."""
COPIES = 8
"""Robots of one run of a case; they differ in noise, jitter and start."""
FAILS = 0.75
"""Least share of the copies that fall in a case that fails; the policy survives a case if at most one less this do."""
STREAM = 2
"""Of a case's random numbers, which are not those of the search."""
BOUNDS: dict[str, tuple[tuple[float, float], ...]] = {
    **{name: (ends,) for name, ends in RANGES.items()},
    "payload_at": tuple((-end, end) for end in PAYLOAD_AT),
    "imu_tilt": ((-IMU_TILT, IMU_TILT),) * 2,
    "foot_size": ((FEET[0], FEET[-1]),),
}
"""Bounds of the numbers of each field of :class:`.Twin` in which a case may differ from the model."""
MOST_SECONDS, MOST_BLOWS, HARDEST = 60.0, 20, 20.0
"""Of a file: length [s], number of blows, and change of velocity along an axis [m/s]."""


class CaseError(UserError):
    """A file that is no case, or a case of another robot."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is done to the robot, and what became of it when the case was found."""

    task: str
    robot: str
    joint_names: tuple[str, ...]
    policy_sha256: str
    """Of the policy that fell; others can be run on the case too."""
    contract_sha256: str
    seconds: float
    seed: int
    command: tuple[tuple[float, ...], ...]
    """Rows of a start [s] and the command from then on."""
    blows: tuple[Blow, ...]
    twin: Twin
    size: float
    """Euclidean norm of ``shares``."""
    shares: Mapping[str, float]
    """Each disturbance as a share of its bound: 0 is the model, 1 the bound."""
    says: str
    """The case in words."""
    cause: str
    """Most frequent cause of the falls."""
    falls_after: float
    """Median time of the falls [s]."""
    falls: int
    copies: int = COPIES

    def told(self, control_dt: float) -> np.ndarray:
        """Commands of each control step, (T, D)."""
        times = np.arange(round(self.seconds / control_dt)) * control_dt
        starts = np.array([row[0] for row in self.command])
        rows = np.searchsorted(starts, times + 1e-9, side="right") - 1
        return np.array([row[1:] for row in self.command])[np.maximum(rows, 0)]

    def save(self, path: Path) -> Path:
        """Write the file, in which a twin has only the fields in which it differs from the model."""
        nominal, data = asdict(Twin()), asdict(self)
        data["twin"] = {name: value for name, value in data["twin"].items() if value != nominal[name]}
        return write_text(path, json.dumps({"gaitway_case": VERSION, **data}, indent=1, allow_nan=False) + "\n")

    def check(self, contract: Contract, name: object) -> None:
        """Raise :class:`CaseError`, with the file's ``name``, for a contract that the case cannot be run with."""
        if contract.fixed_base or not contract.follows_velocity:
            why = "its base is fixed" if contract.fixed_base else f"it follows {', '.join(contract.command_names)}"
            raise CaseError(f"{name}: {contract.task} cannot run a case, since {why}: use a bundle that walks")
        if (self.robot, self.joint_names) != (contract.robot, contract.joint_names):
            raise CaseError(
                f"{name} is a case of {self.robot} with {len(self.joint_names)} joints, and {contract.task} is of "
                f"{contract.robot} with {contract.num_joints}: cases are for their own robot"
            )
        for start, *numbers in self.command:
            if len(numbers) != len(contract.command_ranges):
                raise CaseError(
                    f"{name}: the command from {start:g} s has {len(numbers)} numbers, and the contract's has "
                    f"{len(contract.command_ranges)}: search for cases of this bundle"
                )
            for value, key, (low, high) in zip(numbers, contract.command_names, contract.command_ranges, strict=True):
                if not low - 1e-9 <= value <= high + 1e-9:
                    raise CaseError(
                        f"{name}: {key} is {value:g} from {start:g} s on, and the contract allows {low:g} to {high:g}: "
                        "change it, or use a bundle with wider ranges"
                    )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of the copies of a case."""

    walk: Walk
    plant: Plant

    @property
    def falls(self) -> int:
        return int(self.walk.fell.sum())

    @property
    def copies(self) -> int:
        return len(self.walk.fell)

    @property
    def failed(self) -> bool:
        """True if at least three quarters of the copies fell."""
        return self.falls >= FAILS * self.copies

    @property
    def survived(self) -> bool:
        """True if at most a quarter of the copies fell."""
        return self.falls <= (1.0 - FAILS) * self.copies

    @property
    def cause(self) -> str:
        """Most frequent cause of the falls; empty without one."""
        causes = Counter(filter(None, self.walk.fall_cause))
        return causes.most_common(1)[0][0] if causes else ""

    @property
    def shown(self) -> int:
        """Copy with the middle of the falls' times, the first without a fall."""
        order = np.argsort(self.walk.fall_time, kind="stable")
        return int(order[max(self.falls - 1, 0) // 2]) if self.falls else 0

    @property
    def falls_after(self) -> float:
        """Time of that copy's fall [s], infinite without one."""
        return float(self.walk.fall_time[self.shown])

    @property
    def last_fall(self) -> float:
        """Time of the last fall [s], 0 without one."""
        return float(self.walk.fall_time[self.walk.fell].max(initial=0.0))

    def words(self) -> str:
        """Outcome in words."""
        if not self.falls:
            return f"none of {self.copies} robots fell"
        return f"{self.falls} of {self.copies} robots fell, after {self.falls_after:.1f} s ({self.cause})"

    @cached_property
    def heading(self) -> np.ndarray:
        """Yaw of the shown copy's base after each control step [rad], (T,)."""
        assert self.walk.qpos is not None
        w, x, y, z = self.plant.frame.orientation(self.plant.base_pose(self.walk.qpos[:, self.shown])[:, 3:]).T
        return np.asarray(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))


def load_case(path: str | Path) -> Case:
    """Read a case. Raises :class:`UserError` for a file that is none, is damaged, or has a number beyond its bounds."""
    data = check_texts(read_json(path, limit=MIB), path, 2 * SENTENCE)
    if not isinstance(data, dict) or data.pop("gaitway_case", None) != VERSION:
        raise CaseError(f"{path} is no case of version {VERSION}: search again with gaitway validate --falsify")
    try:
        return _case(data, path)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CaseError(
            f"{path} is damaged ({one_line(error)}): search again with gaitway validate --falsify"
        ) from None


def _case(data: dict[str, Any], path: str | Path) -> Case:
    def number(name: str, value: Any, low: float, high: float) -> float:
        if type(value) not in (int, float):
            raise TypeError(f"{name} is no number")
        if not low <= value <= high:
            raise CaseError(f"{path}: {name} is {value:g}: allowed are {low:g} to {high:g}")
        return float(value)

    def field(name: str, value: Any) -> float | tuple[float, ...]:
        if name not in BOUNDS:
            raise CaseError(f"{path}: twin has {name!r}: use fields of {', '.join(BOUNDS)}")
        ends = BOUNDS[name]
        if len(ends) == 1:
            return number(name, value, *ends[0])
        return tuple(number(name, value[i], *limits) for i, limits in enumerate(ends))

    def blow(row: Mapping[str, Any]) -> Blow:
        x, y = (number("impulse", row["impulse"][i], -HARDEST, HARDEST) for i in (0, 1))
        at, lasts = number("at", row["at"], 0.0, length), number("seconds", row["seconds"], 0.001, length)
        return Blow(at=at, impulse=(x, y), seconds=lasts, above=number("above", row["above"], -1.0, 1.0))

    length = number("seconds", data["seconds"], 0.1, MOST_SECONDS)
    command = tuple(tuple(number("command", value, -1e3, 1e3) for value in row) for row in data["command"])
    starts = [row[0] for row in command]
    if starts[0] != 0.0 or starts != sorted(starts):
        raise CaseError(f"{path}: the command's times are {starts}: they must begin at 0 and grow")
    texts = {key: data[key] for key in ("task", "robot", "policy_sha256", "contract_sha256", "says", "cause")}
    joints = tuple(data["joint_names"])
    if not all(isinstance(text, str) for text in (*texts.values(), *joints)):
        raise TypeError("a name is no text")
    parts: dict[str, Any] = {name: int(number(name, data[name], 0, 2**31)) for name in ("seed", "falls", "copies")}
    twin: dict[str, Any] = {name: field(name, value) for name, value in data["twin"].items()}
    return Case(
        **texts,
        **parts,
        joint_names=joints,
        seconds=length,
        command=command,
        blows=tuple(blow(row) for row in data["blows"][:MOST_BLOWS]),
        twin=Twin(**twin),
        shares={name: number(f"share of {name}", value, -1.0, 1.0) for name, value in data["shares"].items()},
        size=number("size", data["size"], 0.0, 1e3),
        falls_after=number("falls_after", data["falls_after"], 0.0, MOST_SECONDS),
    )


def load_cases(path: Path, contract: Contract) -> list[tuple[Path, Case]]:
    """A case, or all of a folder, checked against a contract. Raises :class:`CaseError` for a folder without any."""
    paths = sorted(path.glob("case-*.json")) if path.is_dir() else [path]
    if not paths:
        raise CaseError(f"{path} has no case-*.json: name a case, or the folder that --falsify wrote")
    found = [(each, load_case(each)) for each in paths]
    for each, case in found:
        case.check(contract, each)
    return found


def run_case(case: Case, bundle: str | Path, *, threads: int = 0) -> Outcome:
    """Run a case on a bundle of its robot. Raises :class:`UserError` for a bundle of another or a damaged one.

    >>> assert run_case(load_case("case-1.json"), "runs/walk/bundle").survived
    """
    verify_files(bundle)
    contract = Contract.load(bundle)
    case.check(contract, "the case")
    policy = BatchedPolicy(Path(bundle) / "policy.onnx", contract, COPIES)
    return play(case, Kind(Path(bundle), contract), policy, threads=threads)


def play(case: Case, kind: Kind, policy: Policy, *, threads: int = 0) -> Outcome:
    """Run :data:`COPIES` robots of a case under ``policy``, which must be fresh and for as many."""
    command = np.repeat(case.told(kind.contract.control_dt)[:, None], COPIES, 1)
    result = walk(
        kind, policy, [case.twin] * COPIES, command, [case.blows] * COPIES, (case.seed, STREAM),
        yaw=np.zeros(COPIES), threads=threads, keep_qpos=True,
    )  # fmt: skip
    return Outcome(walk=result, plant=kind.plant)
