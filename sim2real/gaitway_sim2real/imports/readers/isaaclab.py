"""Runs of Isaac Lab: a folder with ``params/env.yaml`` and ``params/agent.yaml``."""

from __future__ import annotations

from pathlib import Path

from ..families import Options
from ..isaaclab.importer import ImportedRun, read_run


def find(source: Path) -> list[Path]:
    """``source`` itself if it is a run, otherwise the runs that it holds."""
    if (source / "params" / "env.yaml").is_file() or (source / "env.yaml").is_file():
        return [source]
    return sorted(path.parents[1] for path in source.glob("*/params/env.yaml"))


def load(path: Path, options: Options) -> ImportedRun:
    return read_run(
        path, checkpoint=options.checkpoint, robot=options.robot, model=options.model, joint_order=options.joint_order
    )
