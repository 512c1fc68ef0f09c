"""What several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import EXPORT, Entry, install_line
from ..errors import UserError


def parser(commands: Any, name: str, summary: str, description: str) -> argparse.ArgumentParser:
    """A sub-command whose ``--help`` keeps the line breaks of ``description``."""
    sub: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return sub


def require(what: str, entry: Entry) -> None:
    """Raise unless the modules of ``entry`` are installed; the message has the line that installs them."""
    if missing := entry.missing():
        raise UserError(f"{what} needs {', '.join(missing)}, not installed here: {install_line(entry.extras)}")


def is_bundle(path: Path) -> bool:
    from gaitway_sim2real.onboard.contract import is_bundle

    return is_bundle(path)


def run_or_bundle(path: Path) -> str:
    """ "run" or "bundle", whichever ``path`` is."""
    from ..runs import is_run

    if is_run(path):
        return "run"
    if is_bundle(path):
        return "bundle"
    if not path.exists():
        raise UserError(f"no run folder or bundle at {path}")
    raise UserError(f"{path} is neither a run folder (it has no run.json) nor a bundle (it has no contract.yaml)")


def export_run(run_path: Path, out: Path) -> Path:
    """Write the bundle of a run's newest checkpoint."""
    import hashlib

    from gaitway_sim2real.export import export_bundle

    from ..runs import RunFolder
    from ..train import load_actor

    config, actor, checkpoint = load_actor(RunFolder.open(run_path))
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    return export_bundle(config.robot_task, actor, out, checkpoint_sha256=digest)


def bundle_of(path: Path) -> Path:
    """``path`` itself if it is a bundle; for a run, its ``bundle/``, written anew if a newer checkpoint exists."""
    import hashlib

    if run_or_bundle(path) == "bundle":
        return path
    from gaitway_sim2real.onboard.contract import Contract

    from ..runs import RunFolder

    bundle = path / "bundle"
    checkpoints = RunFolder.open(path).checkpoints()
    if is_bundle(bundle) and checkpoints:
        digest = hashlib.sha256(checkpoints[-1].read_bytes()).hexdigest()
        if Contract.load(bundle).checkpoint_sha256 == digest:
            return bundle
    require("export", EXPORT)
    return export_run(path, bundle)
