"""Commands as the policy must be told them, so that the robot does what it was told.

A policy that is rewarded for following a command settles a little beside it, since effort, noise and the rhythm of its
steps pull at it. How far depends on the command alone, so that a robot in simulation can measure it: the exported graph
corrects commands by what it found.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from gaitway_onboard.bundle.parts import CommandCalibration as Calibration
from gaitway_tasks.commands import Command
from gaitway_tasks.robots import Mirror
from gaitway_tasks.symmetry import SIGNS
from torch import Tensor, nn

PAIRS = list(itertools.combinations_with_replacement(range(3), 2))
NUM_FEATURES = 51
LARGEST = 0.25
"""Largest correction, as a share of the end of an axis's range."""
RIDGE = 1e-3
LEAST_ROBOTS = 40
"""Fewer robots that stay up say too little about a policy."""
ROBOTS = 96


class CommandCalibration(nn.Module):
    """Command (N, 3) to what the policy is told (N, 3): u + W f(u) with u as shares of the ends of the ranges.

    ``table`` is W (3, :data:`NUM_FEATURES`). Standing stays standing: f(0) = 0.
    """

    table: Tensor
    ends: Tensor

    def __init__(self, table: Tensor, ends: Tensor, most: float):
        """``ends`` (3,) of the ranges [m/s, m/s, rad/s]; commands are told up to ``most`` of them."""
        super().__init__()
        self.most = most
        self.register_buffer("table", table.float())
        self.register_buffer("ends", ends.float())

    def forward(self, command: Tensor) -> Tensor:
        shares = command / self.ends
        told = shares + (features(shares) @ self.table.T).clamp(-LARGEST, LARGEST)
        # A command beyond the ranges stays what it is.
        most = shares.abs().clamp(min=self.most)
        return torch.maximum(torch.minimum(told, most), -most) * self.ends

    def described(self) -> Calibration:
        """Calibration in the form of a contract."""
        return Calibration(
            ends=tuple(self.ends.tolist()), most=self.most, factors=tuple(tuple(row) for row in self.table.tolist())
        )

    @classmethod
    def of(cls, described: Calibration) -> CommandCalibration:
        return cls(torch.tensor(described.factors), torch.tensor(described.ends), described.most)

    def inverse(self, told: Tensor) -> Tensor:
        """The command that the policy is told as ``told``, by fixed-point iteration."""
        command = told
        for _ in range(30):
            command = command + (told - self(command))
        return command


def ends_of(command: Command) -> Tensor:
    """The larger end of each range, (3,); 1 for an axis that is not commanded."""
    ranges = torch.tensor(list(command.ranges().values()))
    ends = ranges.abs().amax(1)
    return torch.where(ends > 0.0, ends, 1.0)


def features(shares: Tensor) -> Tensor:
    """Terms of first to third order of (N, 3), odd and even ones, (N, :data:`NUM_FEATURES`)."""
    sizes = shares.abs()
    squares = torch.stack([sizes[:, a] * sizes[:, b] for a, b in PAIRS], 1)
    products = torch.stack([shares[:, a] * shares[:, b] for a, b in PAIRS if a != b], 1)
    grown = [torch.cat((x, x * sizes[:, :1], x * sizes[:, 1:2], x * sizes[:, 2:]), 1) for x in (shares, products)]
    cubic = [shares * squares[:, i : i + 1] for i in range(len(PAIRS))]
    return torch.cat((sizes, squares, *grown, *cubic), 1)


def allowed(mirrors: Sequence[Mirror]) -> Tensor:
    """Features that each axis may depend on if left and right, or front and back, are alike, (3, F) bool."""
    probe = torch.tensor([[0.3, 0.5, 0.7]])
    kept = torch.ones(3, NUM_FEATURES, dtype=torch.bool)
    for mirror in mirrors:
        signs = torch.tensor(SIGNS["planar_twist"][mirror.axis])
        turned = torch.sign(features(probe * signs) / features(probe))[0]
        kept &= turned[None] == signs[:, None]
    return kept


def grid(command: Command, seed: int = 0) -> np.ndarray:
    """Commands of the robots that are measured, (:data:`ROBOTS`, 3), over the ranges that the policy has learnt."""
    ranges = np.array(list(command.ranges().values())) * (1.0 + command.margin)
    alone = [axis * share for axis in np.eye(3) for share in (-1.0, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0)]
    corners = list(itertools.product((-1.0, 1.0), repeat=3))
    shares = np.array([*alone, *corners])
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (ROBOTS - len(shares), 3))
    shares = np.concatenate([shares, drawn])
    return np.where(shares > 0.0, shares * ranges[:, 1], -shares * ranges[:, 0])


def fit(told: np.ndarray, found: np.ndarray, command: Command, mirrors: Sequence[Mirror]) -> CommandCalibration | None:
    """The calibration of a policy that moves its robot at ``found`` (N, 3) where it was ``told`` (N, 3).

    None if too few robots stayed up to tell.
    """
    up = np.isfinite(found).all(1)
    if up.sum() < LEAST_ROBOTS:
        return None
    ends = ends_of(command)
    u, v = (torch.from_numpy(values[up]).double() / ends for values in (told, found))
    inputs, wanted, kept = features(v), u - v, allowed(mirrors)
    table = torch.zeros(3, NUM_FEATURES, dtype=torch.float64)
    for axis in range(3):
        x = inputs[:, kept[axis]]
        ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
        table[axis, kept[axis]] = torch.linalg.solve(x.T @ x + ridge, x.T @ wanted[:, axis])
    return CommandCalibration(table, ends, 1.0 + command.margin)
