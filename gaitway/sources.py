"""What commands and functions are given: runs, bundles and foreign policies, and the bundles of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from .catalogue import EXPORT, require

if TYPE_CHECKING:
    from gaitway_sim2real.imports.families import Imported

    from .runs.choice import Which


def settled(source: Path, which: Which) -> Which:
    """The checkpoint of --checkpoint, by its steps or "last"; None for a source that is no run.

    Says which one it is, if the user did not name it and it is not the newest.
    """
    refuse_checkpoint(source, which)
    if not is_run(source):
        return None
    from .runs.choice import LAST, note, settle
    from .runs.folder import RunFolder

    run = RunFolder.open(source)
    steps = settle(run, which)
    if line := note(run, which, steps):
        print(line)
    return LAST if steps is None else steps


def refuse_checkpoint(source: Path, which: Which) -> None:
    """Refuse a checkpoint of anything but a run."""
    if which is not None and not is_run(source):
        raise UserError(f"--checkpoint {which}: {source} is no run, and only a run has checkpoints: leave it out")


def is_run(path: Path) -> bool:
    from .runs.folder import is_run

    return is_run(path)


def is_bundle(path: Path) -> bool:
    from gaitway_onboard.bundle.contract import is_bundle

    return is_bundle(path)


def run_or_bundle(path: Path) -> str:
    """Kind of ``path``: "run" or "bundle"."""
    if is_run(path):
        return "run"
    if is_bundle(path):
        return "bundle"
    if not path.exists():
        raise UserError(f"no run folder or bundle at {path}")
    raise UserError(f"{path} is neither a run folder (it has no run.json) nor a bundle (it has no contract.yaml)")


def import_policy(policy: Imported, out: Path) -> Path:
    """Write the bundle of ``policy``, and print the read and the guessed values."""
    from rich.markup import escape

    from .terminal import console

    shown = console(soft_wrap=True)
    for name, text in policy.show():
        shown.print(f"{name:14}{escape(text)}")
    bundle = policy.export(out)
    print(f"bundle: {bundle}")
    return bundle


def export_run(
    run_path: Path,
    out: Path,
    estimated: Mapping[str, str | None] | None = MappingProxyType({}),
    which: Which = None,
) -> Path:
    """Write a checkpoint of a run as a bundle.

    ``estimated`` has the estimator of each input that no sensor gives, "robot" for the robot's own software and None
    for the usual one; without a mapping, the policy gets all its inputs and the bundle names no estimator.
    """
    from gaitway_onboard.estimation.estimators import USUAL
    from gaitway_sim2real.bundle.contracts import ESTIMATES
    from gaitway_sim2real.bundle.export import export_bundle

    from .runs.folder import RunFolder
    from .training.load import load_actor

    config, actor, checkpoint = load_actor(RunFolder.open(run_path), which)
    sha256 = digest(checkpoint)
    signals = tuple(ESTIMATES[name] for name in (ESTIMATES if estimated is None else estimated))
    task = config.robot_task.replace(estimators=tuple(dict.fromkeys((*config.robot_task.estimators, *signals))))
    named = {signal: by or USUAL.get(signal, "robot") for signal, by in (estimated or {}).items()}
    ours = {signal: name for signal, name in named.items() if name != "robot"}
    return export_bundle(task, actor, out, checkpoint_sha256=sha256, estimators=ours)


def digest(checkpoint: Path) -> str:
    """Hash by which a bundle names its checkpoint."""
    import hashlib

    from gaitway_files.checkpoints import CHECKPOINT_BYTES
    from gaitway_files.reading import read_bytes

    return hashlib.sha256(read_bytes(checkpoint, CHECKPOINT_BYTES)).hexdigest()


def bundle_of(path: Path, robot: str | None = None, which: Which = None) -> Path:
    """``path`` itself if it is a bundle; of a run, its ``bundle/``, written anew if it is outdated.

    A run's bundle is outdated if it has another checkpoint than ``which``.

    A policy that ``gaitway import`` reads becomes ``bundle/`` in its folder, or ``NAME-bundle/`` beside its file.
    ``robot`` is the robot of a policy that does not say which it is for.
    A policy that reads what no sensor measures gets a bundle all the same: simulations know it, and a robot that does
    not estimate it is refused by the bundle itself.
    """
    refuse_checkpoint(path, which)
    if path.exists() and not is_run(path) and not is_bundle(path):
        if trouble := EXPORT.trouble():
            raise UserError(
                f"{path} is neither a run folder nor a bundle; to read policies of other programs: {trouble}"
            )
        from gaitway_sim2real.imports.families import Options, holds_policy, load

        if holds_policy(path):
            out = path / "bundle" if path.is_dir() else path.with_name(f"{path.stem}-bundle")
            return import_policy(load(path, Options(robot=robot)), out)
    kind = run_or_bundle(path)
    if robot is not None:
        raise UserError(f"--robot {robot}: {path} is a {kind}, which knows its robot; leave --robot out")
    if kind == "bundle":
        return path
    return bundle_in(path / "bundle", path, which)


def bundle_in(bundle: Path, run: Path, which: Which = None) -> Path:
    """``bundle`` of a checkpoint of ``run``, written anew if it is outdated. The policy gets all its inputs."""
    from gaitway_onboard.bundle.contract import Contract

    from .runs.choice import LAST, settle
    from .runs.folder import RunFolder

    folder = RunFolder.open(run)
    steps, kept = settle(folder, which), folder.kept()
    wanted = kept.get(max(kept, default=0) if steps is None else steps)
    if is_bundle(bundle) and wanted is not None and Contract.load(bundle).checkpoint_sha256 == digest(wanted):
        return bundle
    require("export", EXPORT)
    return export_run(run, bundle, None, LAST if steps is None else steps)
