"""Joint motions that tell the drives of a hung robot apart: slow waves, fast waves and steps. numpy only.

Slow waves show gravity and dry friction, fast ones inertia and damping, steps the delay. In the manner of Swevers et
al., "Optimal robot excitation and identification" (1997): each joint follows a periodic multisine of its own, and of a
few random ones it takes that under which its parameters are least alike (largest determinant of the information).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import MEASURED, OUTPUTS, Action, Signal
from gaitway_onboard.bundle.policy import match_joints
from gaitway_onboard.interface import Array, Signals
from gaitway_tasks.robots import Robot
from numpy.typing import NDArray

from ..bundle.robot_fields import robot_fields

CONTROL_DT = 0.01  # [s]
SLOW, FAST = (0.1, 0.8), (0.6, 6.0)  # bands of the waves [Hz]
SHARES = (0.35, 0.35, 0.3)  # of the time: slow waves, fast waves, steps
STEP_TIME = (0.15, 0.5)  # between two steps [s]
TOP_SPEED = 4.0  # of a target on a wave [rad/s]
TORQUE_SHARE = 0.4  # of the effort limit that a step may ask for
CANDIDATES = 12
FADE = 1.0  # [s]
NATURAL_FREQUENCY = 20.0  # [rad/s] of a joint on its gains, for the choice among candidates only
SHORTEST = 10.0  # [s]


class ExcitationError(UserError):
    """An excitation that would tell nothing, or go where the robot cannot."""


class Excitation:
    """Takes the place of :class:`gaitway_onboard.bundle.policy.OnboardPolicy`; the robot hangs, feet in the air.

    Targets stay within ``reach`` [rad] of the default pose and within the soft joint limits. The same ``seed`` gives
    the same motion.
    """

    def __init__(
        self,
        robot: Robot,
        joint_names: Sequence[str] | None = None,
        *,
        seconds: float = 60.0,
        seed: int = 0,
        reach: float = 0.4,
    ):
        """``joint_names`` is the robot's own order; without it, the canonical one."""
        if not robot.quadruped:
            raise ExcitationError(
                f"{robot.name} has {len(robot.foot_names)} feet: the motion moves all joints at once, and is known to "
                "keep limbs apart on four-legged robots only"
            )
        if not seconds >= SHORTEST:
            raise ExcitationError(f"{seconds:g} s of excitation tell too little: give it at least {SHORTEST:g} s")
        if not 0.0 < reach <= 1.0:
            raise ExcitationError(f"reach {reach:g} rad: expected more than 0 and at most 1")
        self.contract = excitation_contract(robot)
        self.seconds = seconds
        self._to_canonical = match_joints(robot.joint_names, joint_names or robot.joint_names)
        self._default = np.array(robot.default_joint_pos)
        self._targets = self._default + _trajectory(self.contract, seconds, seed, reach)
        self._index = 0

    def reset(self) -> None:
        """Begin anew."""
        self._index = 0

    @property
    def action(self) -> NDArray[np.float32]:
        """Distance of the newest targets from the default pose [rad], canonical joint order, (J,)."""
        return (self._now() - self._default).astype(np.float32)

    @property
    def state(self) -> NDArray[np.float32]:
        """Steps done, (1,)."""
        return np.array([self._index], np.float32)

    @property
    def estimates(self) -> dict[str, NDArray[np.float32]]:
        """No estimates."""
        return {}

    def step(self, signals: Signals, command: Sequence[float] | Array) -> NDArray[np.float32]:
        """Joint position targets [rad], the robot's joint order, (J,); the default pose after the end."""
        self._index += 1
        return self._now().astype(np.float32)[self._to_canonical]

    def _now(self) -> Array:
        at = self._index - 1
        return self._targets[at] if 0 <= at < len(self._targets) else self._default


def excitation_contract(robot: Robot) -> Contract:
    """Contract with which a controller excites ``robot``: joints, gains and limits, as in a bundle."""
    widths = dict.fromkeys(("joint_pos", "joint_vel", "joint_pos_target", "action"), robot.num_joints)
    widths |= {"imu_quat_wxyz": 4, "gyro": 3, "command": 3, "state": 1, "next_state": 1}
    still = (0.0, 0.0)
    return Contract(
        task="excitation",
        **robot_fields(robot),
        action=Action(kind="joint_position", scale=(1.0,) * robot.num_joints, offset=robot.default_joint_pos),
        control_dt=CONTROL_DT,
        physics_dt=CONTROL_DT,
        commands={"base_velocity": dict.fromkeys(("lin_vel_x", "lin_vel_y", "ang_vel_z"), still)},
        conventions={"quaternion": "w, x, y, z"},
        inputs=tuple(Signal(name=name, shape=("N", widths[name]), unit="SI") for name in (*MEASURED, "state")),
        outputs=tuple(Signal(name=name, shape=("N", widths[name]), unit="SI") for name in OUTPUTS),
        state_dim=1,
        observation=(),
        software={},
        checkpoint_sha256="",
        files={},
    )


def _trajectory(contract: Contract, seconds: float, seed: int, reach: float) -> Array:
    """Distance of the targets from the default pose [rad], (steps, J)."""
    default = np.array(contract.default_joint_pos)
    low, high = np.array(contract.soft_joint_pos_limits()).T
    # The default pose of a finger may lie beyond its soft limit: it moves inwards only.
    low, high = np.clip(low - default, -reach, 0.0), np.clip(high - default, 0.0, reach)
    stiffness = np.array(contract.per_joint("stiffness"))
    step = np.minimum((high - low) / 2, TORQUE_SHARE * np.array(contract.per_joint("effort_limit")) / stiffness / 2)
    generator = np.random.default_rng(seed)
    # Each joint is alone in this, so that of all candidates each joint can take its own best.
    candidates = np.stack([_candidate(generator, seconds, high - low, step) for _ in range(CANDIDATES)])
    candidates += (high + low) / 2
    time = CONTROL_DT * np.arange(candidates.shape[1])
    fade = np.clip(np.minimum(time, time[-1] - time) / FADE, 0.0, 1.0)
    candidates *= (fade * fade * (3.0 - 2.0 * fade))[None, :, None]
    damping = np.array(contract.per_joint("damping"))
    best = _information(candidates, stiffness, damping).argmax(0)
    return candidates[best, :, np.arange(len(default))].T


def _candidate(generator: np.random.Generator, seconds: float, span: Array, step: Array) -> Array:
    """One random motion about 0, of peak-to-peak size ``span`` (J,) on waves and ``2 step`` (J,) on steps."""
    counts = [round(share * seconds / CONTROL_DT) for share in SHARES]
    slow, fast = (_multisine(generator, n, band, span) for n, band in zip(counts, (SLOW, FAST), strict=False))
    return np.concatenate([slow, fast, _steps(generator, counts[2], step)])


def _multisine(generator: np.random.Generator, count: int, band: tuple[float, float], span: Array) -> Array:
    """Waves of equal speed and random phase in ``band`` [Hz], (count, J), from rest to rest."""
    time = CONTROL_DT * np.arange(count)
    frequencies = np.arange(band[0], band[1], max(1.0 / (count * CONTROL_DT), (band[1] - band[0]) / 25))
    phases = generator.uniform(0.0, 2.0 * math.pi, (len(frequencies), len(span)))
    angle = 2.0 * math.pi * frequencies[:, None, None] * time[:, None] + phases[:, None]
    wave = (np.sin(angle) / frequencies[:, None, None]).sum(0)
    wave -= (wave.max(0) + wave.min(0)) / 2
    size = span / np.ptp(wave, axis=0)
    wave *= np.minimum(size, TOP_SPEED / (np.abs(np.diff(wave, axis=0)).max(0) / CONTROL_DT))
    fade = np.clip(np.minimum(time, time[-1] - time) / FADE, 0.0, 1.0)
    return wave * (fade * fade * (3.0 - 2.0 * fade))[:, None]


def _steps(generator: np.random.Generator, count: int, size: Array) -> Array:
    """Levels in [-size, size] that change at random times, (count, J)."""
    levels = np.zeros((count, len(size)))
    for joint, most in enumerate(size):
        at = 0
        while at < count:
            length = max(1, round(generator.uniform(*STEP_TIME) / CONTROL_DT))
            levels[at : at + length, joint] = generator.uniform(-most, most)
            at += length
    return levels


def _information(targets: Array, stiffness: Array, damping: Array) -> Array:
    """Logarithm of the determinant of what each motion says of its joint's parameters, (candidates, J).

    Of a linear joint with a plausible inertia: torque balance in acceleration, position error, velocity and its sign,
    each column at the scale of the motion.
    """
    inertia = np.maximum(stiffness, 1e-9) / NATURAL_FREQUENCY**2
    pos, vel = targets[:, 0].copy(), np.zeros_like(targets[:, 0])
    rows = []
    for target in np.moveaxis(targets, 1, 0):
        error = target - pos
        acceleration = (stiffness * error - damping * vel) / inertia
        vel = (vel + CONTROL_DT * stiffness * error / inertia) / (1.0 + CONTROL_DT * damping / inertia)
        pos = pos + CONTROL_DT * vel
        rows.append(
            np.stack([acceleration / NATURAL_FREQUENCY**2, error, vel / NATURAL_FREQUENCY, 0.1 * np.tanh(10.0 * vel)])
        )
    regressor = np.moveaxis(np.array(rows), 0, 2)  # (columns, candidates, time, J)
    normal = np.einsum("acti,bcti->ciab", regressor, regressor) / regressor.shape[2]
    result: Array = np.linalg.slogdet(normal + 1e-12 * np.eye(4))[1]
    return result
