"""A run's part of a fault report."""

from __future__ import annotations

import json
from pathlib import Path

from ..config.overrides import CONFIG_FILE
from .folder import EVALUATIONS, METRICS, RECORD, RunFolder

ROWS = 3
"""Last rows of each file."""


def run_text(run: Path) -> str:
    """Record, settings and last rows of a run. Raises :class:`gaitway.errors.RunError` for a folder that is none."""
    folder = RunFolder.open(run)
    record = {name: value for name, value in folder.record.items() if name != "config"}  # config.yaml says it again
    parts = [f"---- {RECORD}", json.dumps(record, indent=2, ensure_ascii=False)]
    for name in (CONFIG_FILE, METRICS, EVALUATIONS):
        path = folder.path / name
        if path.exists():
            lines = path.read_text(errors="replace").splitlines()
            parts += [f"---- {name}", *(lines if name == CONFIG_FILE else lines[-ROWS:])]
    names = ", ".join(path.name for path in folder.checkpoints())
    return "\n".join([*parts, f"---- checkpoints: {names or 'none'}", ""])
