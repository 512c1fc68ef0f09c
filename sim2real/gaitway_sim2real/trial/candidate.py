"""A trial: the whole suite on a policy in training, on draws of its own, to choose the policy that a verdict is for."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_tasks.spec import Task
from torch import nn

from ..bundle.export import export_bundle
from ..bundle.in_memory import UNKNOWN
from .judging import validate_bundle
from .schedule import Progress
from .verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Outcome of the suite on one policy."""

    seed: int
    passed: bool
    scenarios: tuple[str, ...]
    """Names of the required scenarios that failed."""
    failed: tuple[str, ...]
    """What failed in each of them, in words."""

    @classmethod
    def of(cls, verdict: Verdict) -> Trial:
        worst: dict[str, str] = {}
        for result, check in verdict.failures():
            worst.setdefault(result.name, f"{result.title}, {check.sentence()}")
        passed, failed = verdict.passed, tuple(worst.values())
        return cls(seed=verdict.seed, passed=passed, scenarios=tuple(worst), failed=failed)

    def words(self) -> str:
        """Outcome in words."""
        return "passed" if self.passed else f"failed: {'; '.join(self.failed)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        lists = {"scenarios": list(self.scenarios), "failed": list(self.failed)}
        return {"passed": self.passed, "seed": self.seed, **lists}


def tried(
    task: Task,
    actor: nn.Module,
    *,
    seed: int,
    first: Sequence[str] = (),
    processes: int = 0,
    progress: Progress | None = None,
) -> Trial:
    """The suite on ``actor`` (observation (N, D) -> action (N, J)), exported as a user would.

    It ends with the first scenario that fails; those named in ``first`` come first. ``processes`` 0 uses all cores.
    An exception of ``progress`` ends it too.
    """
    with tempfile.TemporaryDirectory(prefix="gaitway-trial-") as folder:
        bundle = export_bundle(task, copy.deepcopy(actor), Path(folder) / "bundle", checkpoint_sha256=UNKNOWN)
        return Trial.of(
            validate_bundle(
                bundle, seed=seed, processes=processes, stop_at_failure=True, first=first, progress=progress
            )
        )
