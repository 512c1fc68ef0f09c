"""Write the bundle: what a robot's computer needs to run a trained policy, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import mujoco
import numpy as np
import onnx
import onnxruntime as ort
import torch
from gaitway_files.graphs import open_graph
from gaitway_files.writing import whole_folder
from gaitway_files.yaml_files import dump_yaml
from gaitway_onboard.bundle.contract import MOTION_FILE, is_bundle, sha256
from gaitway_onboard.bundle.parts import IMU
from gaitway_onboard.estimation.estimators import open_estimator
from gaitway_tasks.commands import steering
from gaitway_tasks.robots import mjcf
from gaitway_tasks.robots.check import check_robot
from gaitway_tasks.spec import Task
from gaitway_tasks.world import World
from torch import nn

from .contracts import ExportError, contract_of, exportable, versions
from .golden import plausible_signals, record_golden
from .in_memory import calibrated
from .io_descriptors import io_descriptors
from .model_files import copy_model
from .signal_policy import SignalPolicy, estimated_widths

PARITY_TOLERANCE = 1e-5  # absolute below 1, relative above
PARITY_STEPS = 50
GOLDEN_STEPS = 96


def export_bundle(
    task: Task,
    actor: nn.Module,
    out: str | Path,
    *,
    checkpoint_sha256: str,
    software: Mapping[str, str] | None = None,
    estimators: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Path:
    """Write the bundle of ``actor`` (observation (N, D) -> action (N, J)) to the folder ``out``; returns its path.

    ``checkpoint_sha256`` is the hash of the checkpoint the actor was loaded from. ``software`` adds to or replaces the
    versions found here. ``estimators`` names what fills in an input that no sensor gives, as in
    :data:`gaitway_onboard.estimation.estimators.ESTIMATORS`. Where Gaitway drives the real robot, targets are
    clipped to the joints' ranges, as a deployment would clip them. The command of a policy that was trained on wider
    ranges is calibrated (:mod:`.calibration`), which takes a few seconds of simulation. ``out`` appears complete or not
    at all; an existing bundle is replaced, another folder is not.
    """
    out = Path(out)
    _check_destination(out)
    task = exportable(task)
    check_robot(task.robot)
    try:
        with whole_folder(out) as partial:
            _write(task, actor, partial, checkpoint_sha256, software or {}, estimators or {}, seed)
    except OSError as error:
        raise ExportError(f"cannot write the bundle {out}: {error.strerror or error}") from error
    return out


def _check_destination(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not is_bundle(out):
        raise ExportError(f"{out} exists, is not empty and is not a bundle: choose another --out")
    if out.exists() and not out.is_dir():
        raise ExportError(f"{out} is a file: choose another --out, a bundle is a folder")


def _write(
    task: Task,
    actor: nn.Module,
    folder: Path,
    checkpoint_sha256: str,
    software: Mapping[str, str],
    estimators: Mapping[str, str],
    seed: int,
) -> None:
    """Write all files of the bundle, each checked, into an empty folder; the contract comes last."""
    policy = calibrated(task, actor.cpu())
    dims = policy.manager.dims
    _export_graph(policy, folder / "policy.onnx")
    session = open_session(folder / "policy.onnx")
    for batch in (1, 7):
        _check_parity(policy, session, _signals(task, PARITY_STEPS, batch, seed + batch))
    golden = record_golden(session, _signals(task, GOLDEN_STEPS, 1, seed), policy.state_dim)
    if not all(np.isfinite(values).all() for values in golden.values()):
        raise ExportError("the actor's outputs are not finite on plausible signals: its weights are broken")
    np.savez_compressed(folder / "golden.npz", allow_pickle=False, **golden)
    model = _copy_model(task, folder)
    dofs = [int(model.joint(name).dofadr[0]) for name in task.robot.joint_names]
    described = io_descriptors(
        task, dims, armature=model.dof_armature[dofs].tolist(), friction=model.dof_frictionloss[dofs].tolist()
    )
    (folder / "io_descriptors.yaml").write_text(dump_yaml(described), "utf-8")
    if motion := steering(task)[1].motion(cast(World, policy.world)):
        (folder / MOTION_FILE).write_bytes(motion)
    files = {path.name: sha256(path.read_bytes()) for path in sorted(folder.iterdir())}
    contract = contract_of(task, policy, files, checkpoint_sha256, versions() | dict(software))
    named = {signal: name for signal, name in estimators.items() if signal in contract.estimated}
    dataclasses.replace(contract, estimators=named or None).save(folder)
    open_estimator(folder, task.robot.joint_names)  # one that cannot read this robot's legs says so here


def _export_graph(policy: SignalPolicy, path: Path) -> None:
    example = tuple(torch.zeros(2, width) for width in policy.input_widths.values())
    batch = torch.export.Dim("N")
    try:
        with quiet_exporter():
            program = torch.onnx.export(
                policy,
                example,
                dynamo=True,
                dynamic_shapes=(tuple({0: batch} for _ in example),),
                input_names=list(policy.input_widths),
                output_names=list(policy.output_widths),
                verbose=False,
            )
    except Exception as error:
        raise ExportError(f"the actor cannot be written as ONNX: {error}") from error
    assert program is not None
    proto = program.model_proto
    strip_origin(proto)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except onnx.checker.ValidationError as error:
        raise ExportError(f"the exported graph is not valid ONNX: {error}") from error
    path.write_bytes(proto.SerializeToString())


@contextlib.contextmanager
def quiet_exporter() -> Iterator[None]:
    """Context without the ONNX exporter's notes on packages, constants and classes that do not concern these graphs."""
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "onnx_ir")}
    try:
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def strip_origin(proto: onnx.ModelProto) -> None:
    """Drop the exporter's notes on where each node came from: source lines and file paths of this machine."""
    for item in (proto, proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.initializer,
                 *proto.graph.input, *proto.graph.output):  # fmt: skip
        item.ClearField("metadata_props")
        item.ClearField("doc_string")


def open_session(path: Path) -> ort.InferenceSession:
    """A quiet single-threaded session of a graph made in this process."""
    return open_graph(path.read_bytes(), path, own=True)


def _signals(task: Task, steps: int, batch: int, seed: int) -> dict[str, Any]:
    signals = plausible_signals(
        np.array(task.robot.default_joint_pos),
        np.array(list(steering(task)[1].ranges().values())),
        steps=steps,
        batch=batch,
        step_dt=task.timing.step_dt,
        seed=seed,
        estimated=estimated_widths(task),
        joint_pos_limits=np.array(task.robot.joint_limits),
    )
    return {name: value for name, value in signals.items() if not (task.robot.fixed_base and name in IMU)}


def _check_parity(policy: SignalPolicy, session: ort.InferenceSession, signals: dict[str, Any]) -> None:
    """The graph must equal the module at every step of a rolled sequence, reset included."""
    steps, batch = signals["joint_pos"].shape[:2]
    state = np.zeros((batch, policy.state_dim), np.float32)
    for step in range(steps):
        feed = {name: value[step] for name, value in signals.items()} | {"state": state}
        try:
            outputs = session.run(list(policy.output_widths), feed)
        except Exception as failure:  # onnxruntime's exceptions share no base class of their own
            reason = " ".join(str(failure).split())
            raise ExportError(
                f"the exported graph does not run on a batch of {batch}: {reason}. An actor that uses len(x) where it "
                f"means x.shape[0] fixes the batch size"
            ) from None
        with torch.inference_mode():
            expected = policy(*(torch.from_numpy(feed[name]) for name in policy.input_widths))
        for name, ours, torchs in zip(policy.output_widths, outputs, expected, strict=True):
            reference = torchs.numpy()
            error = float((np.abs(ours - reference) / np.maximum(1.0, np.abs(reference))).max())
            if not error <= PARITY_TOLERANCE:
                raise ExportError(
                    f"the exported graph disagrees with the policy: {name} differs by {error:.3g} at step {step}, "
                    f"batch {batch} (limit {PARITY_TOLERANCE:g})"
                )
        state = outputs[-1]


def _copy_model(task: Task, folder: Path) -> mujoco.MjModel:
    """Copy the robot's MJCF and compile the copy."""
    path = copy_model(task.robot.mjcf, folder)
    spec = mjcf.load_spec(path)
    mjcf.check_joints(spec, task.robot.joint_names)
    return mjcf.compile_spec(spec, path)
