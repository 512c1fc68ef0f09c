"""Policies that went wrong, at the twin: does anything they want reach a motor?"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.control.commands import scripted, tour
from gaitway_onboard.control.controller import Mode

from ..digital_twin.quirks import Quirks
from .adversary import ADVERSARIES, Adversary
from .stage import Stage
from .verdict import POLICIES, Trial, TrialCheck

SECONDS = 6.0
"""Of a policy that went wrong, unless it is stopped before [s]."""


def rehearse_policy(
    bundle: Path,
    hardware: Hardware,
    *,
    kind: str,
    quirks: Quirks,
    seed: int = 0,
    model: Path | None = None,
    seconds: float = SECONDS,
) -> Trial:
    """``kind`` is a key of :data:`gaitway_sim2real.rehearse.adversary.ADVERSARIES`."""
    stage = Stage(bundle, hardware, quirks=quirks, seed=seed, model=model)
    contract = stage.policy.contract
    stage.policy.twist = Adversary(kind, contract, hardware.joint_names, seed)
    performance = stage.perform(scripted(tour(contract.command_ranges, seconds)), seconds)
    witness, audit = performance.witness, performance.audit
    began, ended = witness.since(Mode.POLICY), witness.since(Mode.DAMP)
    stiff = sum(frame.stiff for frame in audit.since(ended)) if ended is not None else math.nan
    return Trial(
        group=POLICIES,
        name=kind,
        about=f"{ADVERSARIES[kind][0][0].upper()}{ADVERSARIES[kind][0][1:]}.",
        outcome=performance.outcome,
        checks=(
            *audit.checks(),
            TrialCheck(title="policy in control", value=float(began is not None), limit=1, at_least=True),
            TrialCheck(title="frames with stiffness after the end", value=stiff, limit=0),
            TrialCheck(title="exceptions", value=float(performance.report is None), limit=0),
        ),
        facts={
            "command frames": float(len(audit.frames)),
            "largest torque with the twin's true state, of the limit": _true_share(stage),
            "policy lasted [s]": (ended or math.nan) - began if began is not None else math.nan,
        },
    )


def _true_share(stage: Stage) -> float:
    """As the audit's, with the state in which the robot truly was when the frame came: that is some ms later."""
    limit = stage.audit.limit
    shares = [
        float((np.abs(received.command.torque(received.joint_pos, received.joint_vel)) / limit).max())
        for received in stage.twin.commands
    ]
    return max(shares, default=math.nan)
