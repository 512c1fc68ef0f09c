"""Policies that went wrong: what a robot must survive whatever a network puts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import Array

Output = Callable[["Adversary", Array], Array]
"""Targets in place of those of the policy, (J,), in the robot's order."""

FLOAT32_MAX = float(np.finfo(np.float32).max)


class Adversary:
    """Replaces a policy's output, behind the policy's own checks: only the controller's are left."""

    def __init__(self, kind: str, contract: Contract, joint_names: Sequence[str], seed: int = 0):
        """``kind`` is a key of :data:`ADVERSARIES`; ``joint_names`` is the order of the robot's joints."""
        order = [contract.joint_names.index(name) for name in joint_names]
        self.default = np.array(contract.default_joint_pos)[order]
        self.low, self.high = np.array(contract.joint_pos_limits)[order].T
        self.random, self.steps = np.random.default_rng(seed), 0
        self._output = ADVERSARIES[kind][1]

    def __call__(self, targets: Array) -> Array:
        """What is sent in place of ``targets`` [rad], (J,)."""
        found = self._output(self, targets)
        self.steps += 1
        return found


def _far(policy: Adversary, targets: Array) -> Array:
    return np.where(np.arange(len(targets)) % 2, policy.low, policy.high)


def _one_nan(policy: Adversary, targets: Array) -> Array:
    return np.where(np.arange(len(targets)) == policy.steps % len(targets), np.nan, targets)


ADVERSARIES: dict[str, tuple[str, Output]] = {
    "constant": ("every joint at an end of its range, at once and for good", _far),
    "zero": ("every target zero, as from an exporter that lost its offset", lambda policy, targets: 0.0 * targets),
    "random": (
        "independent Gaussian targets, 3 rad wide, anew each period",
        lambda policy, targets: policy.default + 3.0 * policy.random.standard_normal(len(targets)),
    ),
    "alternating": (
        "from one end of every range to the other, each period",
        lambda policy, targets: policy.low if policy.steps % 2 else policy.high,
    ),
    "sign-flipped": (
        "the policy's own output with its sign turned, three times as large",
        lambda policy, targets: policy.default - 3.0 * (targets - policy.default),
    ),
    "reversed": ("the policy's own output with the joints in reverse order", lambda policy, targets: targets[::-1]),
    "huge": (
        "targets of 1e6 rad, of changing sign",
        lambda policy, targets: 1e6 * policy.random.choice([-1.0, 1.0], len(targets)),
    ),
    "largest float": ("the largest number a float32 holds", lambda policy, targets: np.full(len(targets), FLOAT32_MAX)),
    "beyond float": ("1e300, which no float32 holds", lambda policy, targets: np.full(len(targets), 1e300)),
    "infinite": (
        "plus and minus infinity",
        lambda policy, targets: np.where(np.arange(len(targets)) % 2, np.inf, -np.inf),
    ),
    "NaN": ("not a number, everywhere", lambda policy, targets: np.full(len(targets), np.nan)),
    "one NaN": ("the policy's own output, but one joint after the other not a number", _one_nan),
}
"""What each does, in words and in numbers."""
