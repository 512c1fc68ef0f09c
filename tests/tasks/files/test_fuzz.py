"""A thousand damaged files of each kind: every one is read, or refused with the error of its kind, soon and in little.

All of a kind are read in one child process with limits, so that a crash or a hang is told with the file that did it.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gaitway_files.archives import parse_npz
from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.contained import contained
from gaitway_files.errors import UserError
from gaitway_files.graphs import check_graph, open_graph
from gaitway_files.mjcf_files import check_mjcf
from gaitway_files.reading import MIB, FileError
from gaitway_files.trust import TrustError
from gaitway_onboard.bundle.contract import CONTRACT_FILE, BundleError, Contract
from gaitway_onboard.bundle.verdict import VerdictError, seal
from gaitway_onboard.estimation.legs import LegError, read_legs
from gaitway_onboard.flight.messages import FlightError
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import read_flight
from gaitway_sim2real.imports.isaaclab.config import read_yaml
from gaitway_sim2real.imports.isaaclab.errors import IsaacLabImportError
from gaitway_sim2real.imports.leapp.package import LeappError, LeappPackage
from gaitway_sim2real.imports.networks import network_of
from gaitway_sim2real.imports.torchscript import read_torchscript
from gaitway_sim2real.trial.verdict import Verdict
from gaitway_tasks.recording import Recording, RecordingError
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.robots.mjcf import ModelError, load_spec
from sim2real.imports.scripted import D, EmpiricalNormalization, EncoderExporter, PolicyExporter, saved
from sim2real.onboard.flight.flights import JOINTS, fly
from stand_bundle import make_stand_bundle

import gaitway.demo
from gaitway.runs.folder import RunFolder
from gaitway.train_config import dump, load, resolve

from .mutations import Steps, damaged, inside_zip, random_steps

pytestmark = pytest.mark.hostile("untrusted files")
DEMO = Path(gaitway.demo.__file__).parent / "bundles" / "anymal-c"
EXAMPLES = 1000
SECONDS = 2.0
"""Of processor time, the most that one small file may take."""
MEMORY = 512 * MIB
"""Beyond what this process has, for all of a kind."""


@dataclass(frozen=True)
class Kind:
    """A kind of file: a good one, what reads it, and the errors that may say it is none."""

    good: bytes
    read: Callable[[bytes], object]
    refused: type[Exception] | tuple[type[Exception], ...]
    change: Callable[[bytes, Any], bytes] = damaged
    examples: int = EXAMPLES


def in_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def write_and_read(content: bytes) -> object:
        path.write_bytes(content)
        return read(path)

    return write_and_read


def either(content: bytes, changes: Any) -> bytes:
    """The archive damaged as a whole, or inside of it."""
    return (inside_zip if changes[0][2] % 2 else damaged)(content, changes)


def contract(tmp: Path) -> Kind:
    """With a seal that is right."""
    bundle = make_stand_bundle(tmp / "bundle")
    path = bundle / CONTRACT_FILE
    body = path.read_bytes().rpartition(b"sha256: ")[0]

    def read(content: bytes) -> object:
        path.write_bytes(content + b"sha256: " + hashlib.sha256(content).hexdigest().encode() + b"\n")
        return Contract.load(bundle)

    return Kind(body, read, BundleError)


def verdict(tmp: Path) -> Kind:
    """With a seal that is right, where there is still one to be made."""
    body = json.loads((DEMO / "validation.json").read_text("utf-8"))
    del body["seal"], body["sensitivity"], body["remarks"]
    body["scenarios"] = body["scenarios"][::20]

    def read(content: bytes) -> object:
        try:
            found = json.loads(content)
            content = json.dumps({**found, "seal": seal(found)}).encode() if isinstance(found, dict) else content
        except (ValueError, RecursionError):
            pass
        (tmp / "validation.json").write_bytes(content)
        return Verdict.load(tmp / "validation.json")

    return Kind(json.dumps(body, indent=1).encode(), read, VerdictError)


def golden(tmp: Path) -> Kind:
    out = io.BytesIO()
    rows = {"joint_pos": np.zeros((4, 12), np.float32), "name": np.array("walk"), "count": np.arange(3)}
    np.savez_compressed(out, allow_pickle=False, **rows)
    return Kind(out.getvalue(), lambda content: parse_npz(content, "golden.npz", limit=MIB), FileError, either)


def recording(tmp: Path) -> Kind:
    """As a stranger's simulator would have recorded it, given to ``gaitway diagnose``."""
    rng = np.random.default_rng(0)
    shape = (20, 1)
    names = ["root_pos_w", "root_lin_vel", "root_ang_vel", "command", "observation", "action", "joint_pos", "joint_vel"]
    values = {name: rng.normal(size=(*shape, 3)).astype(np.float32) for name in names}
    quat = np.tile(np.float32([1, 0, 0, 0]), (*shape, 1))
    path = Recording(
        **values, root_quat=quat, joint_names=("a", "b", "c"), quat_order="wxyz", velocity_frame="base",
        done=np.zeros(shape, bool), control_dt=0.02, physics_dt=0.005, simulator="x", starts_at_reset=True,
        observation_noise=False, flat_ground=True,
    ).save(tmp / "recording.npz")  # fmt: skip
    return Kind(path.read_bytes(), in_file(path, Recording.load), RecordingError, either, examples=500)


def graph(tmp: Path) -> Kind:
    content = (make_stand_bundle(tmp / "graph") / "policy.onnx").read_bytes()
    return Kind(content, lambda content: check_graph(content, "policy.onnx"), FileError)


def graph_tried(tmp: Path) -> Kind:
    content = (make_stand_bundle(tmp / "graph2") / "policy.onnx").read_bytes()
    return Kind(content, lambda content: open_graph(content, "policy.onnx"), FileError, examples=30)


def model(tmp: Path) -> Kind:
    return Kind(ANYMAL_C.mjcf.read_bytes(), in_file(tmp / "robot.xml", check_mjcf), FileError)


def legs(tmp: Path) -> Kind:
    path = tmp / "legs.xml"
    read = in_file(path, lambda path: read_legs(path, ANYMAL_C.base_name, ANYMAL_C.foot_names))
    return Kind(ANYMAL_C.mjcf.read_bytes(), read, LegError)


def model_tried(tmp: Path) -> Kind:
    return Kind(ANYMAL_C.mjcf.read_bytes(), in_file(tmp / "robot2.xml", load_spec), ModelError, examples=30)


def flight(tmp: Path) -> Kind:
    log = open_flight(tmp / "a.mcap", JOINTS, {"robot": "x"}, realtime=False)
    fly(log, 20)
    log.close()
    return Kind((tmp / "a.mcap").read_bytes(), in_file(tmp / "a.mcap", read_flight), FlightError)


def checkpoint(tmp: Path) -> Kind:
    path = tmp / "step_1.pt"
    torch.save({"gaitway_run": 3, "steps": 1, "net": torch.nn.Linear(3, 4).state_dict()}, path)
    return Kind(path.read_bytes(), in_file(path, load_checkpoint), FileError, either)


def torchscript(tmp: Path) -> Kind:
    good = saved(PolicyExporter(EncoderExporter(), EmpiricalNormalization(3 * D, 1e-2)))
    return Kind(good, lambda content: network_of(read_torchscript(content, "policy.pt")), FileError, either)


def config(tmp: Path) -> Kind:
    good = dump(resolve("cartpole", agent="a2c")).encode()
    return Kind(good, in_file(tmp / "config.yaml", load), (UserError, TrustError), examples=500)


def record(tmp: Path) -> Kind:
    (tmp / "run").mkdir()
    good = {"gaitway_run": 3, "task": "walk", "steps": 10, "versions": {"gaitway": "0.1"}, "time_s": {}, "status": "x"}
    good |= {"wall_time_s": 1.5, "algorithm": "ppo", "world": "gym", "seed": 1}
    read = in_file(tmp / "run" / "run.json", lambda path: RunFolder.open(path.parent))
    return Kind(json.dumps(good, indent=2).encode(), read, UserError)


ENV = """\
sim: {dt: 0.005, device: 'cuda:0', gravity: !!python/tuple [0.0, 0.0, -9.81]}
decimation: 4
scene:
  robot: &r
    joint_pos: {.*HAA: 0.0, .*HFE: 0.4}
    spawn: !!python/object/apply:pathlib.PosixPath [data, robot.usd]
    keys: !!python/object/apply:builtins.slice [null, 4, 2]
  again: *r
  func: !!python/name:isaaclab.envs.mdp.base_lin_vel ''
  other: !!python/object:some.module.Class {a: 1}
"""


def env(tmp: Path) -> Kind:
    return Kind(ENV.encode(), in_file(tmp / "env.yaml", read_yaml), IsaacLabImportError)


LEAPP = """\
models:
  node:
    inputs:
    - {name: joint_pos, shape: [12], dtype: float32, kind: state/joint/position, element_names: [[a, b, c]]}
    - {name: memory, shape: [4], dtype: float32}
    outputs:
    - {name: target, shape: [12], dtype: float32, kind: target/joint/position}
    - {name: next_memory, shape: [4], dtype: float32}
    parameters: {backend: onnx, model_path: policy.onnx, sha256sum: SUM}
pipeline:
  feedback_flow: {node/next_memory: [node/memory]}
  configs: {frequency: 50.0}
"""


def leapp(tmp: Path) -> Kind:
    bundle = make_stand_bundle(tmp / "package")
    good = LEAPP.replace("SUM", hashlib.sha256((bundle / "policy.onnx").read_bytes()).hexdigest()).encode()
    return Kind(good, in_file(bundle / "graph.yaml", LeappPackage.load), LeappError, examples=500)


KINDS = (
    contract, verdict, golden, recording, graph, graph_tried, model, model_tried, legs, flight, checkpoint,
    torchscript, config, record, env, leapp,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_damaged_files_are_read_or_refused(make, tmp_path, record_property):
    kind = make(tmp_path)
    kind.read(kind.good)
    last, counts = tmp_path / "last", {"read": 0, "refused": 0}

    def one(changes: Steps) -> None:
        content = kind.change(kind.good, changes)
        last.write_bytes(content)
        begin = time.process_time()
        try:
            kind.read(content)
            counts["read"] += 1
        except kind.refused as error:
            assert "\n" not in str(error), f"more than one line of {changes}: {error}"
            counts["refused"] += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} of {changes}: {error}") from error
        assert time.process_time() - begin < SECONDS, f"too slow: {changes}"

    def all_of_them() -> None:
        for changes in random_steps(make.__name__, kind.examples):
            one(changes)
        assert counts["refused"] > kind.examples / 20, counts

    try:
        contained(all_of_them, make.__name__, "reading them", seconds=120.0, memory=MEMORY)
    except FileError as error:
        pytest.fail(f"{error}; the last file is {last}")
    record_property("attacks", kind.examples)
