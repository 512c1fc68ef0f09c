"""A log of another program, its checks, and the flight that it becomes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from gaitway_files.reading import FileError
from gaitway_onboard.flight.encoder import Encoder
from gaitway_onboard.flight.file import FlightFile, check_path, plain
from gaitway_onboard.flight.reading import FLIGHT_BYTES, Flight, read_flight
from gaitway_onboard.interface import Array, Signals

STATE, COMMAND = ("joint_pos", "joint_vel", "joint_torque"), ("targets", "stiffness", "damping")
PERIOD = (5e-5, 0.5)
"""Shortest and longest median time between two states [s]."""
LARGEST = 4.0 * np.pi
"""Largest angle of a joint [rad]; more are degrees."""
RATE = (0.5, 2.0)
"""Smallest and largest ratio of the joint velocities to the rate of the joint angles."""
MOVING = 0.05
"""Joint speed from which on the ratio is taken [rad/s]."""
MODE = "log"


@dataclass(kw_only=True)
class Log:
    """N states and M commands as a program wrote them; J joints. Times in seconds."""

    path: Path
    joints: tuple[str, ...]
    time: Array
    """(N,)"""
    states: dict[str, Array]
    """``joint_pos`` [rad], ``joint_vel`` [rad/s] and perhaps ``joint_torque`` [N m], (N, J);
    ``imu_quat_wxyz`` (N, 4), ``gyro`` [rad/s] (N, 3), ``accelerometer`` [m/s^2] (N, 3) if there is an IMU."""
    command_time: Array
    """(M,)"""
    commands: dict[str, Array]
    """``targets`` [rad], ``stiffness`` [N m/rad] and ``damping`` [N m s/rad], (M, J); empty without commands."""
    notes: list[str] = field(default_factory=list)
    """What was assumed, and what was not read."""

    def of_robot(self, name: str, joints: Sequence[str]) -> Log:
        """The robot's joints of the log, by their names. Raises :class:`FileError` if one is missing."""
        if missing := [joint for joint in joints if joint not in self.joints]:
            raise FileError(
                self.path, f"has no joint {', '.join(missing)} of {name}; its joints are {', '.join(self.joints)}"
            )
        if others := [joint for joint in self.joints if joint not in joints]:
            self.notes.append(f"joints not of {name}, left out: {', '.join(others)}")
        order = [self.joints.index(joint) for joint in joints]
        picked = {name: value[:, order] for name, value in self.states.items() if name in STATE}
        commands = {name: value[:, order] for name, value in self.commands.items()}
        return dataclasses.replace(self, joints=tuple(joints), states=self.states | picked, commands=commands)

    def check(self) -> None:
        """Drop rows without numbers, and refuse other units. Raises :class:`FileError` with the number at fault."""
        known = np.isfinite(self.states["joint_pos"]).all(1) & np.isfinite(self.states["joint_vel"]).all(1)
        known &= np.isfinite(self.time)
        self._keep(known & np.concatenate([[True], np.diff(np.maximum.accumulate(np.nan_to_num(self.time))) > 0.0]))
        if len(self.time) < 3:
            raise FileError(self.path, "has fewer than 3 rows with all of time, joint_pos and joint_vel")
        if (period := float(np.median(np.diff(self.time)))) < PERIOD[0] or period > PERIOD[1]:
            raise FileError(self.path, f"has a state every {period:.4g} by its time (median): give time in seconds")
        pos, vel = self.states["joint_pos"], self.states["joint_vel"]
        row, joint = np.unravel_index(int(np.abs(pos).argmax()), pos.shape)
        if abs(pos[row, joint]) > LARGEST:
            raise FileError(self.path, f"has {self.joints[joint]} at {pos[row, joint]:g}: give angles in rad")
        rate = np.gradient(pos, self.time, axis=0)
        moving = np.abs(vel) > MOVING
        ratio = float((vel * rate)[moving].sum() / (rate**2)[moving].sum()) if rate[moving].any() else 1.0
        if moving.sum() > 100 and not RATE[0] <= ratio <= RATE[1]:
            raise FileError(
                self.path, f"has joint velocities of {ratio:.3g} times the rate of the joint angles: give rad/s and rad"
            )
        if self.commands:
            rows = np.isfinite(np.concatenate([self.command_time[:, None], *self.commands.values()], 1)).all(1)
            rows &= np.concatenate([[True], np.diff(np.maximum.accumulate(np.nan_to_num(self.command_time))) > 0.0])
            self.command_time = self.command_time[rows]
            self.commands = {name: value[rows] for name, value in self.commands.items()}

    def _keep(self, rows: np.ndarray) -> None:
        if left := len(rows) - int(rows.sum()):
            self.notes.append(f"{left} of {len(rows)} rows left out: without all numbers, or not later than before")
        self.time = self.time[rows]
        self.states = {name: value[rows] for name, value in self.states.items()}

    def with_gains(self, gains: Mapping[str, Array]) -> Log:
        """The log with ``stiffness`` and ``damping`` (J,) for all of its commands."""
        if not self.commands:
            raise FileError(self.path, "has no joint targets, so gains are of no use")
        if both := [name for name in gains if name in self.commands]:
            raise FileError(self.path, f"has {' and '.join(both)} itself: leave out --gains")
        rows = {name: np.tile(value, (len(self.command_time), 1)) for name, value in gains.items()}
        return dataclasses.replace(self, commands=self.commands | rows)

    def flight(self, robot: str, out: Path | None = None) -> Flight:
        """The flight of this log; with ``out``, also as the file ``out``. Raises :class:`FileError`."""
        self.check()
        if missing := [name for name in COMMAND[1:] if self.commands and name not in self.commands]:
            raise FileError(
                self.path, f"has joint targets and no {' or '.join(missing)}: give them with --gains KP,KD or a file"
            )
        if out is not None:
            check_path(out)
            self._write(robot, out)
            return dataclasses.replace(read_flight(out), path=self.path)
        with TemporaryDirectory() as folder:
            self._write(robot, path := Path(folder) / "log.mcap")
            return dataclasses.replace(read_flight(path), path=self.path)

    def _write(self, robot: str, path: Path) -> None:
        written = os.stat(self.path).st_mtime_ns
        metadata = {"robot": robot, "hardware": "", "task": f"log {self.path.name}", "joint_names": list(self.joints)}
        log = Encoder(FlightFile(path, plain(metadata), {}, FLIGHT_BYTES, written), self.joints)
        start, level, still = float(self.time[0]), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
        notes = list(self.notes)
        if lacking := [name for name in ("imu_quat_wxyz", "gyro") if name not in self.states]:
            notes.append(f"no {' and no '.join(lacking)}: the base is taken to be level and still")
        for note in notes:
            log.event(0.0, "note", note)
        for k, now in enumerate(self.time):
            row = {name: value[k] for name, value in self.states.items()}
            log.state(Signals(**{"imu_quat_wxyz": level, "gyro": still, **row}, stamp=float(now) - start))
        for k, now in enumerate(self.command_time if self.commands else ()):
            targets, stiffness, damping = (self.commands[name][k] for name in COMMAND)
            log.frame(float(now) - start, MODE, targets, stiffness, damping, targets)
        log.close()
