"""Forward kinematics of all feet at once, in numpy: a dozen small matrix products and no allocation that matters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .legs import Leg, LegError, cross_matrix

Array = NDArray[np.float64]

FLAT = 0.005
"""Points of a sole this much higher than its lowest carry no load any more [m]."""


class FootKinematics:
    """F feet at the ends of chains of up to K hinges; shorter chains begin with hinges that do not turn.

    Everything is in the base's frame. :meth:`update` fills the arrays, which are overwritten by the next call.
    """

    def __init__(self, legs: Sequence[Leg], joint_names: Sequence[str]):
        """``joint_names`` is the order of the joint arrays; it may hold joints that no leg has."""
        names = list(joint_names)
        if missing := [hinge.name for leg in legs for hinge in leg.hinges if hinge.name not in names]:
            raise LegError(f"the robot reports no joint {', '.join(missing)}, which moves a foot")
        feet, depth = len(legs), max(len(leg.hinges) for leg in legs)
        self.joints = np.zeros((depth, feet), dtype=np.intp)
        """Index in ``joint_names`` of each hinge, (K, F); 0 where a chain is shorter."""
        self._fixed, self._cosine, self._sine = np.zeros((3, depth, feet, 4, 4))
        self._fixed[:] = np.eye(4)
        self._axis = np.zeros((depth, feet, 3, 1))
        self._foot = np.tile(np.eye(4), (feet, 1, 1))
        points = max(len(leg.sole) for leg in legs)
        self._sole = np.zeros((feet, points, 3))
        self._radius = np.zeros((feet, points))
        for column, leg in enumerate(legs):
            for row, hinge in enumerate(leg.hinges, depth - len(leg.hinges)):
                self.joints[row, column] = names.index(hinge.name)
                along = np.outer(hinge.axis, hinge.axis)
                self._fixed[row, column, :3, :3] = hinge.turn @ along
                self._fixed[row, column, :3, 3] = hinge.offset
                self._cosine[row, column, :3, :3] = hinge.turn @ (np.eye(3) - along)
                self._sine[row, column, :3, :3] = hinge.turn @ cross_matrix(hinge.axis)
                self._axis[row, column, :, 0] = hinge.axis
            self._foot[column, :3, :3], self._foot[column, :3, 3] = leg.turn, leg.offset
            last = len(leg.sole) - 1  # shorter soles repeat their last point
            for point in range(points):
                self._sole[column, point] = leg.sole[min(point, last)]
                self._radius[column, point] = leg.radius[min(point, last)]
        self._frames = np.zeros((depth, feet, 4, 4))
        self._feet = np.zeros((feet, 4, 4))
        self._axes = np.zeros((depth, feet, 3, 1))
        self._single = points == 1
        self.position = self._feet[:, :3, 3]
        """Origin of each foot's body [m], (F, 3)"""
        self.turn = self._feet[:, :3, :3]
        """Orientation of each foot, (F, 3, 3)"""
        self.contact = np.zeros((feet, 3))
        """Where each foot touches level ground, or would first [m], (F, 3)"""
        self.jacobian = np.zeros((feet, 3, depth))
        """Velocity of the foot's matter at that point for each hinge's [m/rad], (F, 3, K)"""

    def update(self, joint_pos: Array, up: Array) -> None:
        """``joint_pos`` [rad], (J,); ``up`` is the unit vector against gravity in the base's frame, (3,)."""
        angle = joint_pos[self.joints][:, :, None, None]
        steps = self._fixed + np.cos(angle) * self._cosine + np.sin(angle) * self._sine
        frames = self._frames
        frames[0] = steps[0]
        for row in range(1, len(frames)):
            np.matmul(frames[row - 1], steps[row], out=frames[row])
        np.matmul(frames[-1], self._foot, out=self._feet)
        self._touch(up)
        np.matmul(frames[:, :, :3, :3], self._axis, out=self._axes)
        ax, ay, az = self._axes[..., 0].transpose(2, 0, 1)
        rx, ry, rz = (self.contact - frames[:, :, :3, 3]).transpose(2, 0, 1)
        jacobian = self.jacobian.transpose(1, 2, 0)
        jacobian[0] = ay * rz - az * ry
        jacobian[1] = az * rx - ax * rz
        jacobian[2] = ax * ry - ay * rx

    def _touch(self, up: Array) -> None:
        """Points of the soles weighed by how near each is to the lowest: a flat foot's is its middle."""
        if self._single:
            np.matmul(self.turn, self._sole[:, 0, :, None], out=self.contact[:, :, None])
            self.contact += self.position
            self.contact -= self._radius * up
            return
        points = np.matmul(self._sole, self.turn.transpose(0, 2, 1))
        height = points @ up - self._radius
        weight = np.maximum(0.0, 1.0 - (height - height.min(1, keepdims=True)) / FLAT)
        weight /= weight.sum(1, keepdims=True)
        self.contact[:] = (weight[:, :, None] * points).sum(1) + self.position
        self.contact -= (weight * self._radius).sum(1, keepdims=True) * up

    def velocity(self, joint_vel: Array) -> Array:
        """Velocity of each foot's matter at its point of contact against the base [m/s], (F, 3)."""
        return (self.jacobian @ joint_vel[self.joints].T[:, :, None])[:, :, 0]
