"""Policies that went wrong, on the rehearsals' stage: whatever they put out, no frame exceeds a motor's limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import scripted, tour
from gaitway_onboard.control.controller import ControllerConfig, Mode
from gaitway_onboard.interface import Array
from gaitway_onboard.safety.clamp import Clamp, Command
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.hardware import HARDWARE
from gaitway_sim2real.rehearse.stage import Performance, Stage

GO2 = HARDWARE["unitree-go2"]
WORN = Quirks(loss=0.01, jitter=0.005, command_loss=0.01, command_jitter=0.005)
TORQUE = "largest torque asked for, of the limit"

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
        """Targets to send in place of ``targets`` [rad], (J,)."""
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
"""Adversaries: a description and an output of each."""


def perform(bundle: Path, kind: str, quirks: Quirks, seconds: float) -> Performance:
    """A deployment whose policy goes wrong from its first period on."""
    stage = Stage(bundle, GO2, quirks=quirks)
    contract = stage.policy.contract
    stage.policy.twist = Adversary(kind, contract, GO2.joint_names)
    config = ControllerConfig(ramp=0.3, ramp_speed=5.0, hold=0.1, settle=0.1, lower=0.3, damp=0.2)
    return stage.perform(scripted(tour(contract.command_ranges, seconds)), seconds, config=config)


def largest_torque(performance: Performance) -> float:
    return next(check.value for check in performance.audit.checks() if check.title == TORQUE)


@pytest.mark.usefixtures("lies_already")
@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("kind", sorted(ADVERSARIES))
def test_no_policy_gets_past_the_torque_limit(go2_bundle, kind):
    """The robot may fall; the commands to its motors are what is judged, and damping must end them."""
    performance = perform(go2_bundle, kind, WORN, 0.6)
    witness, audit = performance.witness, performance.audit
    assert performance.report is not None, performance.error
    assert [check.sentence() for check in audit.checks() if not check.passed] == []
    assert largest_torque(performance) <= 1.0
    assert witness.since(Mode.POLICY) is not None, "it was in control"
    ended = witness.since(Mode.DAMP)
    assert ended is not None and not any(frame.stiff for frame in audit.since(ended))
    if kind in ("alternating", "constant"):  # which are clamped, not refused: something must have been held back
        assert largest_torque(performance) > 0.9


@pytest.mark.usefixtures("lies_already")
def test_without_the_clamp_policies_do_get_past(go2_bundle, monkeypatch):
    """The audit sees what the clamp prevents."""

    def unclamped(self, targets, pos, vel, stiffness, damping):
        return Command(*(np.asarray(x, np.float32) for x in (targets, stiffness, damping)), False)

    monkeypatch.setattr(Clamp, "command", unclamped)
    assert largest_torque(perform(go2_bundle, "alternating", Quirks(), 0.5)) > 1.0


@pytest.mark.parametrize("kind", sorted(ADVERSARIES))
def test_adversaries_are_what_they_say(go2_bundle, kind):
    contract, names = Contract.load(go2_bundle), GO2.joint_names
    first, second = Adversary(kind, contract, names, seed=4), Adversary(kind, contract, names, seed=4)
    sane = first.default + 0.1 * np.arange(12)
    outputs = np.array([first(sane) for _ in range(3)])
    np.testing.assert_array_equal(outputs, np.array([second(sane) for _ in range(3)]))
    assert outputs.shape == (3, 12)
    assert not np.array_equal(outputs[0], sane)
    if kind not in ("reversed", "sign-flipped", "zero", "one NaN"):
        assert not np.allclose(outputs[0], sane, atol=0.2)
