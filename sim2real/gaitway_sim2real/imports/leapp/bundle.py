"""Turn a LEAPP package into a bundle, which the validation suite, the twin and the on-board half run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from gaitway_files.graphs import open_graph
from gaitway_files.reading import FileError, read_bytes
from gaitway_files.writing import whole_folder
from gaitway_onboard.bundle.contract import BundleError, Contract, is_bundle, sha256
from gaitway_onboard.bundle.parts import MEASURED, OUTPUTS, Action, Signal, TermLayout
from numpy.typing import NDArray

from ...bundle.contracts import UNITS
from ...bundle.golden import Signals, plausible_signals, record_golden
from .connect import Connections
from .graph import ActionMap, bundle_graph, last_action, same_graphs, state_dim
from .guess import Guess, guess
from .package import LeappError, LeappPackage

FINGERPRINT = "leapp package"
"""The key of ``software`` in the contract that says which package the bundle was made of."""
GOLDEN_STEPS = 96
FIT_TOLERANCE = 1e-4  # [rad]


def bundle_of_package(
    path: str | Path, out: str | Path | None = None, *, robot: str | None = None, say: Callable[[str], None] = print
) -> Path:
    """Write the package at ``path`` (folder or YAML) as a bundle to ``out``, by default ``bundle/`` in its folder.

    Inputs are matched by their semantics, and what the package does not say is taken from the robot called ``robot``,
    by default the one with its joints; ``say`` is told of each such assumption. A bundle already made of this package
    is returned as it is. Raises :class:`LeappError`.
    """
    package = LeappPackage.load(path)
    out = (Path(out) if out is not None else package.path / "bundle").absolute()
    if is_bundle(out) and _is_of(out, package, robot):
        return out
    if out.exists() and not is_bundle(out) and (not out.is_dir() or any(out.iterdir())):
        raise LeappError(f"{out} exists and is not a bundle: move it away")
    try:
        with whole_folder(out) as partial:
            _write(package, guess(package, robot, say), partial)
    except OSError as error:
        raise LeappError(f"cannot write the bundle of {path} to {out}: {error.strerror or error}") from error
    return out


def _is_of(bundle: Path, package: LeappPackage, robot: str | None) -> bool:
    try:
        contract = Contract.load(bundle)
    except BundleError:
        return False
    return contract.software.get(FINGERPRINT) == package.fingerprint and robot in (None, contract.robot)


def _write(package: LeappPackage, guessed: Guess, folder: Path) -> None:
    """The bundle of a package that says what its tensors are and no more."""
    connections, robot = guessed.connections, guessed.task.robot
    widths = dict(zip(MEASURED, (robot.num_joints, robot.num_joints, 4, 3, 3), strict=True)) | guessed.estimated
    _check_inputs(package, connections, widths)
    signals = plausible_signals(
        np.array(robot.default_joint_pos),
        np.array(list(guessed.command_ranges.values())),
        steps=GOLDEN_STEPS,
        batch=1,
        step_dt=guessed.control_dt,
        seed=0,
        estimated=guessed.estimated,
    )
    action_map: ActionMap | None = ActionMap(offset=robot.default_joint_pos, scale=(1.0,) * robot.num_joints)
    if last_action(package, robot.num_joints) is not None:
        _save_graph(package, connections, widths, None, folder)
        fitted = _fit(_record(folder, signals, state_dim(package)))
        action_map, used = (action_map, action_map) if fitted is None else (None, fitted)
    else:
        used = action_map
    assert used is not None
    _save_graph(package, connections, widths, action_map, folder)
    _record(folder, signals, state_dim(package))
    guessed.write_files(folder, package, used.scale, used.offset)
    rows = {**widths, "state": state_dim(package)}
    outputs = dict(zip(OUTPUTS, (robot.num_joints, robot.num_joints, state_dim(package)), strict=True))
    contract = guessed.contract(
        package,
        action=Action(kind="joint_position", scale=used.scale, offset=used.offset),
        inputs=_signals(rows),
        outputs=_signals(outputs),
        state_dim=state_dim(package),
        observation=tuple(
            TermLayout(
                term=tensor.name,
                dim=tensor.width,
                history=1,
                scale=1.0,
                clip=None,
                signals=(connections.sources[tensor.name].signal,),
            )
            for tensor in package.inputs
        ),
    )
    _save(contract, package, folder)


def _save_graph(
    package: LeappPackage, connections: Connections, widths: dict[str, int], action: ActionMap | None, folder: Path
) -> None:
    """Save the graph for all robots at once where that equals robot by robot, which is several times slower."""
    by_robot = bundle_graph(package, connections, widths, action)
    at_once = bundle_graph(package, connections, widths, action, at_once=True)
    onnx.save(at_once if same_graphs(by_robot, at_once) else by_robot, folder / "policy.onnx")


def _signals(widths: dict[str, int]) -> tuple[Signal, ...]:
    return tuple(Signal(name=name, shape=("N", width), unit=UNITS[name]) for name, width in widths.items())


def _check_inputs(package: LeappPackage, connections: Connections, widths: dict[str, int]) -> None:
    if unknown := sorted(connections.signals - widths.keys()):
        raise LeappError(f"the graph of {package.path} reads {', '.join(unknown)}, which its contract does not have")
    if "height_scan" in connections.signals:
        _check_height_scan(package, connections)


def _check_height_scan(package: LeappPackage, connections: Connections) -> None:
    """Refuse a graph that uses more of sensor and ray hits than heights above each hit, all that a bundle has."""
    rng = np.random.default_rng(0)
    tensors = (*package.inputs, *(pair[0] for pair in package.feedback))
    feed = {tensor.name: rng.standard_normal(tensor.shape) for tensor in tensors}
    moved = dict(feed)
    for name, source in connections.sources.items():
        if source.signal == "height_scan":
            moved[name] = feed[name] + rng.standard_normal(feed[name].shape)
            moved[name][..., 2] = feed[name][..., 2] + 1.0
    after = package.run(moved)
    for name, before in package.run(feed).items():
        if not np.allclose(before, after[name], rtol=1e-4, atol=1e-4):
            raise LeappError(
                f"the graph of {package.path} uses more of its height scanner than the height above each hit: a bundle "
                f"carries only that"
            )


def _record(folder: Path, signals: Signals, state: int) -> Signals:
    """Run the graph on ``signals``, (T, 1, d), and keep the recording."""
    try:
        session = open_graph(read_bytes(folder / "policy.onnx"), "the package's graph")
    except FileError as error:
        raise LeappError(str(error)) from None
    golden = record_golden(session, signals, state)
    if not all(np.isfinite(values).all() for values in golden.values()):
        raise LeappError("the package's outputs are not finite on plausible signals: its weights are broken")
    np.savez_compressed(folder / "golden.npz", allow_pickle=False, **golden)
    return golden


def _fit(golden: Signals) -> ActionMap | None:
    """Scale and offset between action and target, to the six digits of float32; None unless they explain all of it."""
    action: NDArray[np.float64] = golden["action"].astype(np.float64)
    target: NDArray[np.float64] = golden["joint_pos_target"].astype(np.float64)
    spread = action.std(0)
    if not (spread > 1e-6).all():
        return None
    scale = ((action - action.mean(0)) * (target - target.mean(0))).mean(0) / spread**2
    offset = target.mean(0) - scale * action.mean(0)
    if np.abs(offset + scale * action - target).max() > FIT_TOLERANCE:
        return None
    return ActionMap(scale=tuple(scale.round(6).tolist()), offset=tuple((offset.round(6) + 0.0).tolist()))


def _save(contract: Contract, package: LeappPackage, folder: Path) -> None:
    """The contract, with the hashes of the files in ``folder``."""
    dataclasses.replace(
        contract,
        software={**contract.software, FINGERPRINT: package.fingerprint},
        files={path.name: sha256(path.read_bytes()) for path in sorted(folder.iterdir())},
    ).save(folder)
