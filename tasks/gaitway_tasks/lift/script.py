"""A scripted grasp: over the object, down, close, lift, to the goal. It has no memory: a step follows from a state.

The hand moves by steps in space, which damped inverse kinematics turns into joint targets beyond where the joints are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..math import quat_apply, quat_from_euler_xyz
from ..mdp.objects import DOWN, TIP
from ..reach.poses import _error, _step
from ..robots.arms import Link

AT, BESIDE = 0.01, 0.03
"""Distances of the fingertips from the object's middle at which they close, and at which they stay closed [m]."""
HIGH, STEEP = 0.08, 4.0
"""Height above the object at which the hand comes, and how much of the way sideways it is at most [m]."""
STRIDE, TURN = 0.1, 0.5
"""Longest steps [m] and [rad]; a drive of 400 N m/rad and 80 N m s/rad goes five of them in a second."""
GRASPED = 0.0035
"""A finger farther than this from half of the object's edge has not closed on it [m]."""
PULL = 0.05
"""Share of the way to the arm's rest that free motion of the joints takes in each step."""


@dataclass(frozen=True)
class Script:
    """The grasp of one arm and object."""

    links: list[Link]
    """From the base to the hand."""
    rest: Tensor
    """Angles near which the arm stays [rad], (J,)."""
    half: float
    """Half of the object's edge between the fingers [m]."""

    def __call__(self, angles: Tensor, fingers: Tensor, object_pos: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        """Joint targets (S, J) [rad] and whether the hand closes (S,) at joint positions (S, J).

        ``fingers`` are the mean position of both [m], (S,); ``object_pos`` and ``goal`` are in the base's frame [m],
        (S, 3) each. All in double precision; columns of joints that do not move the hand return as they are.
        """
        tip, turn, jacobian, moving = self._hand(angles)
        way = object_pos - tip
        near, low = way[:, :2].norm(dim=1), way[:, 2].abs()
        closing = fingers < 0.039 - GRASPED
        closed = (near < AT) & (low < AT) | closing & (near < BESIDE) & (low < BESIDE)
        held = closed & (fingers < self.half + GRASPED)
        over = (STEEP * (near - AT)).clamp(0.0, HIGH) * ~closed
        approach = way + torch.stack((torch.zeros_like(over), torch.zeros_like(over), over), 1)
        step = torch.where(held[:, None], goal - object_pos, approach)
        twist = torch.cat((_shorter(step, STRIDE), _shorter(turn, TURN)), 1)
        pull = PULL * (self.rest - angles)[:, moving]
        change = _step(jacobian, twist, pull / 0.1)
        targets = angles.index_copy(1, torch.tensor(moving), angles[:, moving] + change)
        return targets, closed

    def tip(self, angles: Tensor) -> Tensor:
        """Middle between the fingertips at joint positions ``angles`` (S, J) [m], (S, 3)."""
        return self._hand(angles)[0]

    def _hand(self, angles: Tensor) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """Middle between the fingertips (S, 3), turn to :data:`.DOWN` (S, 3), Jacobian (S, 6, K), and K joints."""
        moving = sorted({link.joint for link in self.links if any(link.axis)})
        down = torch.tensor(DOWN, dtype=angles.dtype).expand(len(angles), 3)
        error, jacobian = _error(self.links, angles, torch.cat((torch.zeros_like(down), down), 1), moving)
        place, turn = -error[:, :3], error[:, 3:]
        ahead = quat_apply(quat_from_euler_xyz(*down.unbind(1)), torch.tensor([0.0, 0.0, TIP]).to(down).expand_as(down))
        return place + ahead - torch.linalg.cross(turn, ahead), turn, jacobian, moving


def _shorter(vector: Tensor, most: float) -> Tensor:
    return vector * (most / vector.norm(dim=1, keepdim=True).clamp(min=most))
