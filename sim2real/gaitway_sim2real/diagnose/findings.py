"""Results of a diagnosis: findings in words and numbers, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

CAUSES = {
    **{
        name: name.replace("_", " ")
        for name in (
            "joint_order", "sign", "scale", "offset", "frame", "quaternion_order", "history_layout",
            "observation_size", "observation_clip", "action_clip", "delay", "gains", "armature", "torque_limit",
        )
    },
    **{
        name: name.replace("_", " ")
        for name in (
            "payload", "ground_friction", "joint_friction", "motor_strength", "encoder_offset", "clock",
            "dead_motor", "stuck_motor", "noise", "lost_states",
        )
    },
    "imu_mounting": "IMU mounting",
    "gyro_bias": "gyroscope's zero",
    "policy": "another policy",
    "unexplained": "unexplained difference",
}  # fmt: skip
"""Causes in words."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One cause, a key of :data:`CAUSES`. ``key`` tells apart findings of one cause; equal ones are merged."""

    cause: str
    where: tuple[str, ...]
    what: str
    evidence: str
    fix: str
    numbers: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    level: str = ""
    """Level of the evidence, of findings in a flight: "read", "behaves" or "matched by counterfactual"."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Mismatches between a bundle and a recording of its policy elsewhere."""

    bundle: str
    recording: str
    findings: tuple[Finding, ...]
    checks: tuple[str, ...]
    """One line per check that was made or could not be made."""

    @property
    def nothing(self) -> str:
        """Headline of a diagnosis without findings."""
        return "NO MISMATCH FOUND"

    @property
    def exit_code(self) -> int:
        """Of ``gaitway diagnose``: 1 if a cause is named."""
        return int(bool(self.findings))

    @property
    def causes(self) -> tuple[str, ...]:
        """Causes of the findings, each once."""
        return tuple(dict.fromkeys(finding.cause for finding in self.findings))

    def summary(self) -> str:
        """Findings and checks for people, in lines."""
        lines = [f"bundle     {self.bundle}", f"recording  {self.recording}", ""]
        if not self.findings:
            lines.append(self.nothing)
        for number, finding in enumerate(self.findings, 1):
            lines += [
                f"MISMATCH {number}: {CAUSES[finding.cause].upper()}",
                f"  where     {', '.join(finding.where)}",
                f"  what      {finding.what}",
                f"  evidence  {f'{finding.level}: ' * bool(finding.level)}{finding.evidence}",
                f"  fix       {finding.fix}",
            ]
        return "\n".join([*lines, "", "checks", *(f"  {line}" for line in self.checks)])

    def to_json(self) -> str:
        """The same for programs."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self) | {"mismatch": bool(self.findings)}


def merge(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """One finding for the same cause with the same key in several places."""
    merged: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.cause, finding.key or repr(finding.where)
        if key not in merged:
            merged[key] = finding
            continue
        first = merged[key]
        both = f"{first.evidence}; {finding.evidence}"
        merged[key] = replace(first, where=first.where + finding.where, evidence=both)
    return tuple(merged.values())
