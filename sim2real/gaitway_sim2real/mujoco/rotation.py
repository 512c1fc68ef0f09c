"""Quaternions (w, x, y, z) in numpy, batched over leading dimensions."""

from __future__ import annotations

import numpy as np


def quat_mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product, (..., 4)."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        -1,
    )


def quat_conjugate(quat: np.ndarray) -> np.ndarray:
    """The inverse of unit quaternions, (..., 4)."""
    return quat * np.array([1.0, -1.0, -1.0, -1.0])


def quat_apply(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotate ``vector`` (..., 3) by ``quat`` (..., 4)."""
    u = quat[..., 1:]
    t = 2 * np.cross(u, vector)
    return vector + quat[..., :1] * t + np.cross(u, t)


def quat_apply_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotate ``vector`` (..., 3) by the inverse of the unit quaternion ``quat`` (..., 4)."""
    return quat_apply(quat_conjugate(quat), vector)


def quat_from_axis(axis: int, angle: np.ndarray) -> np.ndarray:
    """Rotation by ``angle`` (...) [rad] about coordinate axis 0, 1 or 2, (..., 4)."""
    angle = np.asarray(angle, dtype=float)
    quat = np.zeros((*angle.shape, 4))
    quat[..., 0], quat[..., 1 + axis] = np.cos(angle / 2), np.sin(angle / 2)
    return quat


def quat_from_rotvec(rotvec: np.ndarray) -> np.ndarray:
    """Rotation vectors (..., 3) [rad] as quaternions, (..., 4)."""
    half = np.linalg.norm(rotvec, axis=-1, keepdims=True) / 2
    return np.concatenate([np.cos(half), rotvec * np.sinc(half / np.pi) / 2], -1)
