"""Recorded commands in MuJoCo: from recorded states, where would the joints have gone?

Each window starts in a recorded state and is driven by the recorded frames, targets and gains as they were sent. What
its joints then do is compared with the recorded states, one control period and a fifth of a second later. Windows are
short, since a legged robot forgets its start within a step: this is a test of drives, friction and inertia.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.rotation import projected_gravity
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

from ..mujoco.body import Body
from ..mujoco.model import GRAVITY
from .motion import Motion
from .summary import ReplayError

ONE_STEP, ROLL_OUT = 0.02, 0.2  # [s]
WINDOWS = 120
DEPTHS = np.linspace(0.0, 0.01, 11)
"""Depths of the lowest foot in the ground at the start of a window, tried in turn [m]."""
GAP = 0.05
"""A window with no state for longer than this is left out [s]."""


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """W windows, J joints in the flight's order, two horizons: one step and a roll-out."""

    horizons: tuple[float, float]
    """[s]"""
    start: np.ndarray
    """Start of each window, robot's clock [s], (W,)."""
    pos_rmse: np.ndarray
    """[rad], (2, J)"""
    vel_rmse: np.ndarray
    """[rad/s], (2, J)"""
    vel_moved: np.ndarray
    """RMS of how much velocities really changed meanwhile [rad/s], (2, J): errors are to be seen against this."""
    parameters: bool
    """True if identified parameters were used."""

    def text(self) -> str:
        """One line for a terminal."""
        rows = [
            f"after {1e3 * self.horizons[h]:.0f} ms {np.sqrt((self.pos_rmse[h] ** 2).mean()):.4f} rad and "
            f"{np.sqrt((self.vel_rmse[h] ** 2).mean()):.3f} rad/s"
            for h in range(2)
        ]
        what = ", identified parameters" if self.parameters else ""
        return f"recorded frames through MuJoCo, {len(self.start)} windows{what}: joints are off by {', '.join(rows)}"


class RecordedDrives:
    """The recorded frames as the robot's drives obey them, with identified parameters if there are any."""

    def __init__(self, flight: Flight, body: Body, parameters: RobotParameters | None):
        self._frame = frame = flight.frame
        joints = flight.joint_names
        found = [parameters.joints.get(name, JointParameters()) if parameters else JointParameters() for name in joints]
        strength = np.array([joint.strength for joint in found])
        self.time = frame.time + (parameters.delay if parameters else 0.0)
        self.targets = np.nan_to_num(frame.targets.astype(float))
        self._kp = strength * [joint.stiffness_scale for joint in found]
        self._kd = strength * [joint.damping_scale for joint in found]
        limits = {
            name: law.effort_limit for name, law in zip(body.robot.joint_names, body.robot.joint_actuators, strict=True)
        }
        if body.robot.hardware is not None:
            limits |= body.robot.hardware.effort_limit
        self.effort = strength * [limits[name] for name in joints]
        self.restart()

    def restart(self) -> None:
        """Forget which frame the body has: it is at another time now."""
        self._now = -2

    def drive(self, body: Body, now: float) -> None:
        """Hand the frame in force at ``now`` to the body; before the first, nothing is driven."""
        k = int(np.searchsorted(self.time, now, side="right")) - 1
        if k == self._now:
            return
        self._now = k
        if k < 0:
            body.set_drives(*(np.zeros(len(self.effort)),) * 3, -self.effort, self.effort)
            return
        self.set(body, self.targets[k], self._frame.stiffness[k], self._frame.damping[k])

    def set(self, body: Body, targets: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Hand over a command as it was sent; what the drives make of it depends on the parameters."""
        kp, kd = self._kp * stiffness, self._kd * damping
        body.set_drives(kp * targets, kp, kd, -self.effort, self.effort)


def play(flight: Flight, body: Body, motion: Motion, *, hung: bool, parameters: RobotParameters | None) -> OpenLoop:
    """Predict windows spread evenly over the flight; ``motion`` is of ``body``'s robot."""
    nothing = ReplayError(f"{flight.path} has no {ROLL_OUT:g} s of states and frames together: nothing can be compared")
    if not len(flight.frame):
        raise nothing
    frames, state = RecordedDrives(flight, body, parameters), flight.state
    last = float(state.time[-1]) - ROLL_OUT
    chosen = np.flatnonzero((motion.time >= frames.time[0]) & (motion.time < last))
    if not len(chosen):
        raise nothing
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, WINDOWS).astype(int))]
    ends = np.array([[_nearest(state.time, motion.time[k] + h) for h in (ONE_STEP, ROLL_OUT)] for k in chosen])
    whole = [
        row
        for row, k in enumerate(chosen)
        if np.diff(state.time[motion.index[k] : ends[row, 1] + 1]).max(initial=0.0) < GAP
    ]
    if not whole:
        raise ReplayError(f"{flight.path}: there is no {ROLL_OUT:g} s without a gap in its states")
    chosen, ends = chosen[whole], ends[whole]
    felt = _specific_force(flight)
    pos, vel = (np.zeros((2, len(chosen), len(flight.joint_names))) for _ in range(2))
    for row, k in enumerate(chosen):
        now = float(motion.time[k])
        body.put(motion.qpos[k], motion.qvel[k], hung=hung)
        frames.restart()
        if not hung:
            frames.drive(body, now)
            _stand(body, motion.qpos[k, body.plant.base_qpos + 2], felt[motion.index[k]])
        for h in range(2):
            while now < state.time[ends[row, h]] - 0.5 * body.model.opt.timestep:
                frames.drive(body, now)
                body.step()
                now += body.model.opt.timestep
            pos[h, row] = body.joint_pos
            vel[h, row] = body.joint_vel
    begin = motion.index[chosen]
    true_pos, true_vel = state.joint_pos[ends].swapaxes(0, 1), state.joint_vel[ends].swapaxes(0, 1)
    return OpenLoop(
        horizons=(ONE_STEP, ROLL_OUT),
        start=motion.time[chosen],
        pos_rmse=_rms(pos - true_pos),
        vel_rmse=_rms(vel - true_vel),
        vel_moved=_rms(true_vel - state.joint_vel[begin]),
        parameters=parameters is not None,
    )


def _stand(body: Body, height: float, felt: np.ndarray) -> None:
    """Sink the feet into the ground as far as makes the simulated accelerometer read what the robot's did.

    No sensor tells how hard each foot stands; feet that merely touch would let the robot fall first.
    """
    errors = []
    for depth in DEPTHS:
        body.data.qpos[body.plant.base_qpos + 2] = height - depth
        mujoco.mj_forward(body.model, body.data)
        errors.append(float(np.abs(body.imu()[2] - felt).sum()))
    body.data.qpos[body.plant.base_qpos + 2] = height - DEPTHS[int(np.argmin(errors))]
    mujoco.mj_forward(body.model, body.data)


def _specific_force(flight: Flight) -> np.ndarray:
    """At every state, base frame [m/s^2], (N, 3): as measured, else that of a robot at rest."""
    rest = -GRAVITY * projected_gravity(flight.state.imu_quat_wxyz.astype(float))
    if "accelerometer" not in flight.state:
        return rest
    result: np.ndarray = np.where(flight.has("accelerometer")[:, None], flight.state.accelerometer, rest)
    return result


def _nearest(times: np.ndarray, when: float) -> int:
    k = int(np.searchsorted(times, when))
    return k if k == 0 or (k < len(times) and times[k] - when < when - times[k - 1]) else k - 1


def _rms(error: np.ndarray) -> np.ndarray:
    """Root mean square over windows: (2, W, J) -> (2, J)."""
    result: np.ndarray = np.sqrt((error.astype(float) ** 2).mean(1))
    return result
