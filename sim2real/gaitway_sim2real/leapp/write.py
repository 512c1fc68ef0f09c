"""Write a policy as a LEAPP package, through NVIDIA's ``leapp``, described as Isaac Lab 3.0 describes its own."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from gaitway_files.writing import whole_folder
from gaitway_onboard.bundle.contract import CONTRACT_FILE, MEASURED, Contract
from gaitway_tasks.spec import Task
from torch import Tensor, nn

from ..bundle.calibration import CommandCalibration
from ..bundle.contracts import ExportError, exportable
from ..bundle.export import export_bundle, quiet_exporter, strip_origin
from ..bundle.signal_policy import SignalPolicy
from . import semantics
from .package import SIDE_FOLDER

TRACED_STEPS = 3  # leapp replays every step but the first to check its own graph
SIDE_FILES = (CONTRACT_FILE, "golden.npz", "io_descriptors.yaml", "robot.xml")


def export_leapp(
    task: Task,
    actor: nn.Module,
    out: str | Path,
    *,
    checkpoint_sha256: str,
    software: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Path:
    """Write ``actor`` (observation (N, D) -> action (N, J)) as a LEAPP package to the folder ``out``; returns its path.

    What the policy estimates for itself stays inside: a package's outputs are what is written to a robot. The package
    has the graph's YAML, the ONNX file, the initial values of the feedback tensors, and in ``gaitway/``
    the bundle's contract, recording, descriptors and robot model, from which it can be validated and run on its own.
    Raises :class:`gaitway_sim2real.bundle.export.ExportError` for what a bundle refuses too.
    """
    from .bundle import bundle_of_package

    out = Path(out)
    ours = (out / SIDE_FOLDER / CONTRACT_FILE).is_file()
    if out.exists() and not ours and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} exists and is not a LEAPP package of Gaitway's: choose another --out")
    try:
        with whole_folder(out) as partial, tempfile.TemporaryDirectory() as folder:
            bundle = export_bundle(
                task, actor, Path(folder, "bundle"), checkpoint_sha256=checkpoint_sha256, software=software, seed=seed
            )
            contract = Contract.load(bundle)
            described = contract.command_calibration
            calibration = None if described is None else CommandCalibration.of(described)
            package = _trace(SignalPolicy(exportable(task), actor, calibration).eval(), contract, Path(folder))
            (package / SIDE_FOLDER).mkdir()
            for name in SIDE_FILES:
                shutil.copyfile(bundle / name, package / SIDE_FOLDER / name)
            bundle_of_package(package, Path(folder, "check"))  # replays the bundle's recording on the package's graph
            shutil.copytree(package, partial, dirs_exist_ok=True)
    except OSError as error:
        raise ExportError(f"cannot write the LEAPP package {out}: {error.strerror or error}") from error
    return out


def _trace(policy: SignalPolicy, contract: Contract, folder: Path) -> Path:
    """Run ``policy`` a few steps under leapp, from which it builds graph and description; the package's folder."""
    import leapp
    from leapp.utils.tensor_description import GraphConfigs

    name = contract.task.replace("/", "-")
    with quiet_exporter():
        leapp.start(name, save_path=str(folder), max_cached_io=TRACED_STEPS)
        started = True
        _silence()
        try:
            with torch.inference_mode():
                for step in range(TRACED_STEPS):
                    _step(policy, contract, name, step)
            started = False
            leapp.stop()
            leapp.compile_graph(visualize=False, graph_configs=GraphConfigs(frequency=1.0 / contract.control_dt))
        except Exception as error:  # leapp raises bare Exceptions
            reason = " ".join(str(error).split())
            raise ExportError(f"leapp cannot write the policy of {contract.task}: {reason}") from error
        finally:
            if started:
                with contextlib.suppress(Exception):
                    leapp.stop()
            _close_log()
    package = folder / name
    (package / "log.txt").unlink(missing_ok=True)  # full of this machine's paths
    for values in package.glob("*.safetensors"):
        values.chmod(0o644)  # written for its owner alone
    _anonymise(package, name)
    return package


def _step(policy: SignalPolicy, contract: Contract, node: str, step: int) -> None:
    """One control step on plausible signals, annotated as Isaac Lab annotates its environments."""
    from leapp import annotate
    from leapp.utils.tensor_description import TensorSemantics

    def described(
        name: str, value: Tensor, kind: str, elements: Sequence[str] | None, connection: str
    ) -> TensorSemantics:
        names = None if elements is None else list(elements)
        extra = {semantics.CONNECTION: connection}
        return TensorSemantics(name=name, ref=value, kind=kind, element_names=names, extra=extra)

    joints = contract.joint_names
    raw = _example(policy, contract, step)
    rows = []
    for signal in policy.input_widths:
        for row in semantics.INPUTS.get(signal, ()):
            elements = joints if row.elements == semantics.PER_JOINT else row.elements
            rows.append(described(row.name, raw[row.name], row.kind, elements, row.connection))
    traced = dict(zip((row.name for row in rows), annotate.input_tensors(node, rows), strict=True))
    parts = _state_parts(policy)
    state = annotate.state_tensors(node, {name: torch.zeros(1, width) for name, width in parts.items()})
    target, _, *_, following = policy(*_signals(policy, traced), torch.cat(tuple(state), 1))
    annotate.update_state(node, dict(zip(parts, following.split(list(parts.values()), 1), strict=True)))
    gains = [
        described(
            f"{semantics.TARGET_NAME}_{kind}_gains", torch.tensor([contract.per_joint(what)]), kind, joints, connection
        )
        for what, (kind, connection) in semantics.GAINS.items()
    ]
    output = described(semantics.TARGET_NAME, target, semantics.TARGET_KIND, joints, semantics.WRITE_TARGET)
    annotate.output_tensors(node, [output], static_outputs=gains, export_with="onnx-dynamo")


def _state_parts(policy: SignalPolicy) -> dict[str, int]:
    """Width of each feedback tensor, in the order of the policy's ``state``; see :class:`SignalPolicy`."""
    started_and_action = 1 + policy.num_joints
    history = policy.state_dim - started_and_action - policy.memory_size
    parts = {"started": 1, "last_action": policy.num_joints, "history": history, "memory": policy.memory_size}
    return {name: width for name, width in parts.items() if width}


def _signals(policy: SignalPolicy, traced: Mapping[str, Tensor]) -> list[Tensor]:
    """The policy's inputs but ``state`` from the package's, which have Isaac Lab's frames and orders."""
    signals = []
    for signal in policy.input_widths:
        if signal == "imu_quat_wxyz":
            signals.append(traced["robot_root_quat_w"][:, [3, 0, 1, 2]])
        elif signal == "height_scan":
            signals.append(traced["height_scanner_pos_w"][:, 2:3] - traced["height_scanner_ray_hits_w"][..., 2])
        elif signal != "state":
            signals.append(traced[semantics.INPUTS[signal][0].name])
    return signals


def _example(policy: SignalPolicy, contract: Contract, step: int) -> dict[str, Tensor]:
    """Inputs of one step, batch 1; only their shapes end up in the package."""
    rng = np.random.default_rng(step)
    widths = policy.input_widths
    raw = {}
    for signal in (*MEASURED, *policy.estimated):
        for row in semantics.INPUTS[signal]:
            raw[row.name] = torch.tensor(0.1 * rng.standard_normal((1, widths[signal])), dtype=torch.float32)
    raw["robot_root_quat_w"] = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    if "height_scan" in policy.estimated:
        raw["height_scanner_pos_w"] = torch.tensor([[0.0, 0.0, contract.init_height]])
        raw["height_scanner_ray_hits_w"] = torch.zeros(1, widths["height_scan"], 3)
    return raw


def _anonymise(package: Path, name: str) -> None:
    """Drop the exporter's notes on source lines of this machine from the graph, and restate its hashes."""
    path, description = package / f"{name}.onnx", package / f"{name}.yaml"
    before = path.read_bytes()
    proto = onnx.load_from_string(before)
    strip_origin(proto)
    after = proto.SerializeToString()
    path.write_bytes(after)
    text = description.read_text("utf-8")
    for digest in (hashlib.md5, hashlib.sha256):
        text = text.replace(digest(before).hexdigest(), digest(after).hexdigest())
    description.write_text(text, "utf-8")


def _silence() -> None:
    """Keep leapp's log out of the terminal; its errors are raised."""
    logger = logging.getLogger("leapp")
    for handler in [handler for handler in logger.handlers if not isinstance(handler, logging.FileHandler)]:
        logger.removeHandler(handler)


def _close_log() -> None:
    logger = logging.getLogger("leapp")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
