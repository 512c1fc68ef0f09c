"""Rotations in torch. Quaternions are w, x, y, z and need not be contiguous."""

import math

import torch
from torch import Tensor


def quat_apply(quat_wxyz: Tensor, vec: Tensor) -> Tensor:
    """Rotate ``vec`` (..., 3) from the body frame into the reference frame of the quaternion (..., 4)."""
    w, xyz = quat_wxyz[..., :1], quat_wxyz[..., 1:]
    t = 2.0 * torch.linalg.cross(xyz, vec)
    return vec + w * t + torch.linalg.cross(xyz, t)


def quat_apply_inverse(quat_wxyz: Tensor, vec: Tensor) -> Tensor:
    """Rotate ``vec`` (..., 3) into the body frame of the quaternion (..., 4)."""
    w, xyz = quat_wxyz[..., :1], quat_wxyz[..., 1:]
    t = 2.0 * torch.linalg.cross(xyz, vec)
    return vec - w * t + torch.linalg.cross(xyz, t)


def projected_gravity(quat_wxyz: Tensor) -> Tensor:
    """Direction of gravity in the body frame, (..., 3): the closed form of rotating (0, 0, -1)."""
    w, x, y, z = quat_wxyz.unbind(-1)
    return torch.stack((2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0), -1)


def yaw_of(quat_wxyz: Tensor) -> Tensor:
    """Heading [rad], (...,)."""
    w, x, y, z = quat_wxyz.unbind(-1)
    return torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def quat_from_yaw(yaw: Tensor) -> Tensor:
    """Rotation about the world's z axis, (..., 4)."""
    zero = torch.zeros_like(yaw)
    return torch.stack(((yaw / 2).cos(), zero, zero, (yaw / 2).sin()), -1)


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Rotation about x, then y, then z of the reference frame [rad], (..., 4)."""
    (cr, cp, cy), (sr, sp, sy) = (tuple(f(0.5 * angle) for angle in (roll, pitch, yaw)) for f in (torch.cos, torch.sin))
    w, x = cy * cr * cp + sy * sr * sp, cy * sr * cp - sy * cr * sp
    y, z = cy * cr * sp + sy * sr * cp, sy * cr * cp - cy * sr * sp
    return torch.stack((w, x, y, z), -1)


def quat_conjugate(quat_wxyz: Tensor) -> Tensor:
    """Inverse of a unit quaternion, (..., 4)."""
    return torch.cat((quat_wxyz[..., :1], -quat_wxyz[..., 1:]), -1)


def quat_error_magnitude(a: Tensor, b: Tensor) -> Tensor:
    """Angle of the shortest rotation between two unit quaternions (..., 4) [rad], (...,)."""
    between = quat_mul(a, quat_conjugate(b))
    return 2.0 * torch.atan2(torch.linalg.vector_norm(between[..., 1:], dim=-1), between[..., 0].abs())


def quat_mul(a: Tensor, b: Tensor) -> Tensor:
    """Hamilton product a * b, (..., 4)."""
    aw, av, bw, bv = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    w = aw * bw - (av * bv).sum(-1, keepdim=True)
    return torch.cat((w, aw * bv + bw * av + torch.linalg.cross(av, bv)), -1)


def wrap_to_pi(angle: Tensor) -> Tensor:
    """Wrap [rad] to [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi


def all_finite(values: Tensor) -> bool:
    """True if all numbers are finite; their sum says so at a fraction of the time, unless it overflows."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())
