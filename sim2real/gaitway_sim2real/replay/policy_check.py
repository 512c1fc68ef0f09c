"""Check that a bundle's policy computes the recorded outputs from the recorded signals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.contract import CONTRACT_FILE, BundleError
from gaitway_onboard.bundle.policy import GOLDEN_TOLERANCE, OnboardPolicy, SignalError
from gaitway_onboard.flight.reading import Flight

from .summary import ReplayError

TOLERANCE = GOLDEN_TOLERANCE
"""Tolerance of actions and targets: absolute below 1, relative above."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheck:
    """P recorded policy steps, J joints in the flight's order."""

    same_bundle: bool
    """True if this is the bundle that flew, by the hash of its contract."""
    own_memory: bool
    """True if every step was given the recorded memory; if not, the policy carried its own from the first step on."""
    steps: int
    error: np.ndarray
    """Largest difference of an action in each step, relative above 1, (P,); NaN for steps that were not recomputed."""
    targets: np.ndarray
    """Joint position targets of the bundle's policy [rad], (P, J)."""
    target_rmse: np.ndarray
    """Error of the targets against the recorded [rad], (J,)."""
    diverges: int | None
    """First step whose action is not the recorded one; None if all are."""

    @property
    def same(self) -> bool:
        return self.diverges is None

    def text(self, flight: Flight) -> str:
        """One or two lines for a terminal."""
        who = "the bundle that flew" if self.same_bundle else "another bundle than the one that flew"
        memory = "" if self.own_memory else ", carrying its own memory since that of the flight has another shape"
        head = f"policy re-run on {self.steps} recorded steps ({who}{memory})"
        largest = float(np.nanmax(self.error)) if np.isfinite(self.error).any() else float("nan")
        if self.diverges is None:
            return f"{head}: actions as recorded, largest difference {largest:.1e} (limit {TOLERANCE:g})"
        when = float(flight.policy.time[self.diverges]) - flight.start
        return (
            f"{head}: actions differ from step {self.diverges} on, after {when:.2f} s, by up to {largest:.3g}; targets "
            f"by {self.target_rmse.max():.3f} rad RMS at worst, {flight.joint_names[int(self.target_rmse.argmax())]}"
        )


def load_policy(flight: Flight, bundle: str | Path) -> OnboardPolicy:
    """The bundle's policy for the flight's joints; refuses a bundle for another robot."""
    try:
        policy = OnboardPolicy(bundle, flight.joint_names)
    except BundleError as error:
        if "joints are not the contract's" not in str(error):
            raise
        raise ReplayError(f"{bundle} is for another robot than {flight.path}: {error}") from None
    if flight.robot and policy.contract.robot != flight.robot:
        raise ReplayError(
            f"{flight.path} is a flight of {flight.robot}, and {bundle} is for {policy.contract.robot}: give a bundle "
            f"for {flight.robot}"
        )
    return policy


def rerun(flight: Flight, bundle: str | Path) -> PolicyCheck:
    """Run the policy of ``bundle`` on the states that the recorded steps were computed from."""
    policy = load_policy(flight, bundle)
    steps = flight.policy
    if not len(steps):
        raise ReplayError(f"{flight.path} has no policy step: the policy was never in charge")
    if steps.action.shape[1] != policy.contract.num_joints:
        raise ReplayError(
            f"{flight.path}: recorded actions have {steps.action.shape[1]} numbers, not one for each joint"
        )
    states = np.searchsorted(flight.state.time, steps.time, side="right") - 1
    own = steps.memory.shape[1] == len(policy.state)
    error, targets = np.full(len(steps), np.nan), np.full(steps.targets.shape, np.nan)
    policy.reset()
    for k, state in enumerate(states):
        if state < 0 or not np.isfinite(steps.action[k]).all():
            continue
        if own:
            policy.state = steps.memory[k]
        try:
            targets[k] = policy.step(flight.signals(int(state)), steps.command[k])
        except SignalError as refused:
            if "is missing" in str(refused):
                raise ReplayError(f"{bundle}: {refused}, and {flight.path} has none") from None
            continue
        recorded = steps.action[k]
        error[k] = float((np.abs(policy.action - recorded) / np.maximum(1.0, np.abs(recorded))).max())
    differing = np.flatnonzero(error > TOLERANCE)
    flown = flight.contract_yaml
    return PolicyCheck(
        same_bundle=flown is not None and flown == (Path(bundle) / CONTRACT_FILE).read_bytes(),
        own_memory=own,
        steps=int(np.isfinite(error).sum()),
        error=error,
        targets=targets,
        target_rmse=np.sqrt(np.nanmean((targets - steps.targets) ** 2, 0)),
        diverges=int(differing[0]) if len(differing) else None,
    )
