"""Diagnosis of a policy that behaves differently in another simulator, from a recording made there and the bundle.

Three checks. The observation: is the recorded one what the bundle would have built from the recorded states? The
actions: does the graph give the recorded actions, and do these give the recorded joint targets? The dynamics: does
MuJoCo, put into each recorded state, arrive at the next one?
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_tasks.recording import Recording
from gaitway_tasks.robots.orders import newton_order, physx_order

from .actions import check_policy, check_targets, targets_of
from .findings import Diagnosis, Finding, merge
from .history import contract_layout, find_layout
from .observation import check_term
from .terms import expected_terms
from .view import View, view_of

__all__ = ["Diagnosis", "Finding", "diagnose_bundle"]


def diagnose_bundle(bundle: str | Path, recording: str | Path) -> Diagnosis:
    """Run all checks. Raises :class:`BundleError` or :class:`gaitway_tasks.recording.RecordingError` on bad input."""
    bundle, path = Path(bundle), Path(recording)
    verify_files(bundle)
    rollout = Recording.load(path)
    view = view_of(rollout, Contract.load(bundle))
    checks, findings = _check(view, bundle)
    about = f"{path}: {rollout.steps} steps of {rollout.num_envs} environments in {rollout.simulator}"
    return Diagnosis(
        bundle=f"{bundle}: {view.contract.task}", recording=about, findings=merge(findings), checks=tuple(checks)
    )


def _check(view: View, bundle: Path) -> tuple[list[str], list[Finding]]:
    from .dynamics import check_dynamics  # MuJoCo's, which recording elsewhere does without
    from .one_step import OneStep

    names = _OrderNames(view.contract, bundle)
    terms, dims = expected_terms(view, bundle), [term.dim for term in view.contract.observation]
    layout, findings = find_layout(view)
    checks = []
    if layout is None:
        checks.append("observation: terms not checked, the layout of the columns is unknown")
    else:
        frames = view.observation[..., layout.columns(dims, 0)]
        for term in terms:
            note, more = check_term(view, term, frames, names)
            checks.append(f"observation {note}")
            findings += more
    if layout is not None and layout.length == contract_layout(view.contract).length:
        note, more = check_policy(view, terms, bundle)
        checks.append(note)
        findings += more
    else:
        checks.append("policy: not checked, the recorded observation does not fit its input")
    note, more = check_targets(view, names)
    checks.append(note)
    findings += more
    targets = targets_of(view.contract, view.action) if view.target is None else view.target
    note, more = check_dynamics(view, OneStep(view, bundle, targets), names)
    return [*checks, note], findings + more


class _OrderNames:
    """Recognises the joint orders of known simulators in a permutation of the contract's joints."""

    def __init__(self, contract: Contract, bundle: Path) -> None:
        self.joint_names = contract.joint_names
        robot: Any = SimpleNamespace(name=contract.robot, joint_names=contract.joint_names, mjcf=bundle / "robot.xml")
        self.orders = {
            "PhysX (breadth-first)": physx_order(robot),
            "Newton and MuJoCo (depth-first)": newton_order(robot),
            "alphabetical": tuple(sorted(contract.joint_names)),
        }

    def __call__(self, source: np.ndarray) -> str:
        order = tuple(self.joint_names[i] for i in source)
        return next((name for name, known in self.orders.items() if known == order), "")
