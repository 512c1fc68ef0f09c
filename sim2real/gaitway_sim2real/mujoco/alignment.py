"""Alignment of the contract's base frame with a given model, from the joints that both have."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np
from gaitway_onboard.rotation import quat_apply, quat_apply_inverse, quat_conjugate, quat_mul
from gaitway_tasks.robots.mjcf import ModelError, load_spec

SNAP_ANGLE = np.radians(3.0)  # a rotation this close to a multiple of 90 degrees is meant to be that multiple
SNAP_DISTANCE = 0.02  # [m], a shift below this is a difference between legs, not of frames
MAX_AXIS_ANGLE = np.radians(30.0)


@dataclass(frozen=True, kw_only=True)
class BaseFrame:
    """The contract's base frame seen from the model's: ``v_contract = rotation @ v_model``.

    Its methods turn states of the model's base into those of the contract's; arrays may have leading dimensions.
    """

    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    """(3, 3)"""
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """Origin of the contract's base in the model's base frame [m], (3,)."""

    @functools.cached_property
    def is_identity(self) -> bool:
        return bool(np.array_equal(self.rotation, np.eye(3)) and not self.origin.any())

    @functools.cached_property
    def quat_wxyz(self) -> np.ndarray:
        """Rotation of the contract's frame in the model's: ``q_contract = q_model * quat_wxyz``, (4,)."""
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, self.rotation.T.flatten())
        return quat

    def orientation(self, quat: np.ndarray) -> np.ndarray:
        """Orientation in the world, (..., 4)."""
        return quat if self.is_identity else quat_mul(quat, self.quat_wxyz)

    def model_orientation(self, quat: np.ndarray) -> np.ndarray:
        """Orientation of the model's base when the contract's has ``quat``, (..., 4)."""
        return quat if self.is_identity else quat_mul(quat, quat_conjugate(self.quat_wxyz))

    def position(self, pos: np.ndarray, quat: np.ndarray) -> np.ndarray:
        """Position of the origin in the world [m], (..., 3)."""
        return pos if self.is_identity else pos + quat_apply(quat, self.origin)

    def ang_vel(self, ang_vel: np.ndarray) -> np.ndarray:
        """Angular velocity in the contract's frame [rad/s], (..., 3); ``ang_vel`` is in the model's."""
        return ang_vel if self.is_identity else ang_vel @ self.rotation.T

    def lin_vel(self, quat: np.ndarray, lin_vel_w: np.ndarray, ang_vel: np.ndarray) -> np.ndarray:
        """Velocity of the origin in the contract's frame [m/s], (..., 3), from orientation and velocities of the model.

        ``lin_vel_w`` is in the world, ``ang_vel`` in the model's frame, as in MuJoCo's ``qvel``.
        """
        found = quat_apply_inverse(self.orientation(quat), lin_vel_w)
        if not self.is_identity:
            found = found + np.cross(self.ang_vel(ang_vel), self.rotation @ self.origin)
        return found


def joint_frames(model: mujoco.MjModel, base: str, joint_names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Anchors [m] and unit axes of the joints in the base frame at zero joint angles, (J, 3) each."""
    data = mujoco.MjData(model)
    for name in joint_names:
        data.qpos[model.joint(name).qposadr] = 0.0
    mujoco.mj_kinematics(model, data)
    base_id = model.body(base).id
    turn = data.xmat[base_id].reshape(3, 3)
    ids = [model.joint(name).id for name in joint_names]
    return (data.xanchor[ids] - data.xpos[base_id]) @ turn, data.xaxis[ids] @ turn


def align_base(
    model: mujoco.MjModel, base: str, path: Path, reference: Path, own_base: str, joint_names: tuple[str, ...]
) -> BaseFrame:
    """Match the joints of ``model`` with those of the robot's own file; refuses joints that turn another way."""
    if path.resolve() == reference.resolve():
        return BaseFrame()
    own = load_spec(reference).compile()
    own_anchors, own_axes = joint_frames(own, own_base, joint_names)
    anchors, axes = joint_frames(model, base, joint_names)
    rotation = _fit_rotation(
        np.vstack([anchors - anchors.mean(0), axes]), np.vstack([own_anchors - own_anchors.mean(0), own_axes])
    )
    cosines = np.sum((axes @ rotation.T) * own_axes, axis=1)
    if (bad := np.flatnonzero(cosines < np.cos(MAX_AXIS_ANGLE))).size:
        faults = [f"{joint_names[i]} by {np.degrees(np.arccos(np.clip(cosines[i], -1, 1))):.0f} deg" for i in bad]
        raise ModelError(
            f"{path}: joint axes differ from those of the bundle's robot ({', '.join(faults)}): "
            "give each joint the axis and sign that the contract's robot.xml gives it"
        )
    shift = (own_anchors - anchors @ rotation.T).mean(0)
    if np.linalg.norm(shift) < SNAP_DISTANCE:
        shift = np.zeros(3)
    return BaseFrame(rotation=rotation, origin=-rotation.T @ shift)


def _fit_rotation(points: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The proper rotation R that best maps ``points`` onto ``targets`` (rows), snapped to multiples of 90 degrees."""
    u, _, vt = np.linalg.svd(targets.T @ points)
    best = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt
    for turn in _quarter_turns():
        if np.arccos(np.clip((np.trace(best @ turn.T) - 1) / 2, -1, 1)) < SNAP_ANGLE:
            return turn
    return best


def _quarter_turns() -> list[np.ndarray]:
    """The 24 rotations that map the axes onto each other."""
    turns = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            turn = np.zeros((3, 3))
            turn[range(3), order] = signs
            if np.linalg.det(turn) > 0:
                turns.append(turn)
    return turns
