"""Run a bundle's policy: one robot, one thread, no allocation in the graph's inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from gaitway_files.archives import parse_npz
from gaitway_files.errors import UserError
from gaitway_files.graphs import open_graph
from gaitway_files.reading import FileError
from numpy.typing import NDArray

from ..interface import Array, Signals
from .contract import FILE_BYTES, WHAT_TO_DO, BundleError, Contract, verify_files
from .parts import IMU

GOLDEN_TOLERANCE = 1e-5  # absolute below 1, relative above
QUATERNION_TOLERANCE = 0.1
HUGE = 1e9  # no signal, action or target is that large; float32 still has room to square it


class SignalError(UserError):
    """Signals that must not reach the policy, or outputs that must not reach the motors."""


class OnboardPolicy:
    """Signals in the robot's joint order to joint targets in the robot's joint order.

    Construction verifies every file of the bundle and replays its recording, so an instance that exists is one that
    computes here what it computed where it was exported.
    """

    def __init__(self, bundle: str | Path, joint_names: Sequence[str] | None = None):
        """``joint_names`` is the robot's own order; without it, the contract's."""
        bundle = Path(bundle)
        files = verify_files(bundle)
        self.contract = Contract.load(bundle)
        self._to_canonical = match_joints(self.contract.joint_names, joint_names or self.contract.joint_names)
        self._session = _open(files["policy.onnx"], bundle, self.contract)
        self._allocate()
        self._replay(files["golden.npz"], bundle)
        self.reset()

    def _allocate(self) -> None:
        """Input and output buffers shared with the graph; two states, each the other's successor, take turns."""
        widths = {signal.name: int(signal.shape[1]) for signal in self.contract.inputs + self.contract.outputs}
        measured = self.contract.input_names[:-1]
        self._measured = np.zeros(sum(widths[name] for name in measured), np.float32)
        starts = np.cumsum([0, *(widths[name] for name in measured)])
        self._inputs = {
            name: self._measured[start : start + widths[name]] for name, start in zip(measured, starts, strict=False)
        }
        self._others = [name for name in measured if name not in ("joint_pos", "joint_vel", "command")]
        self._outputs = {name: np.zeros(widths[name], np.float32) for name in self.contract.output_names[:-1]}
        self._states = [np.zeros(widths["state"], np.float32) for _ in range(2)]
        self._turn = 0
        self._bindings = []
        for turn in range(2):
            binding = self._session.io_binding()
            for name, array in {**self._inputs, "state": self._states[turn]}.items():
                binding.bind_ortvalue_input(name, _share(array))
            for name, array in {**self._outputs, "next_state": self._states[1 - turn]}.items():
                binding.bind_ortvalue_output(name, _share(array))
            self._bindings.append(binding)

    def reset(self) -> None:
        """Forget the past: the next step fills the history with its own signals."""
        self._states[self._turn][:] = 0.0

    @property
    def action(self) -> NDArray[np.float32]:
        """Raw output of the last step, canonical joint order, (J,)."""
        return self._outputs["action"].copy()

    @property
    def estimates(self) -> dict[str, NDArray[np.float32]]:
        """Estimates of the policy in the last step, by the name of the output."""
        return {name: self._outputs[name].copy() for name in self.contract.estimates}

    @property
    def state(self) -> NDArray[np.float32]:
        """Memory after the last step: [started, last action, history of frames, oldest first, ...], (S,)."""
        return self._states[self._turn].copy()

    @state.setter
    def state(self, memory: Array) -> None:
        """Go on from another memory, such as a recorded one."""
        self._states[self._turn][:] = memory

    def step(self, signals: Signals, command: Sequence[float] | Array) -> NDArray[np.float32]:
        """Joint position targets [rad], (J,), for a ``command`` of the contract's numbers, (D,).

        Raises :class:`SignalError` on a wrong shape, a number that is not finite, or a quaternion without unit norm,
        in either direction; the state is then as before the call.
        """
        inputs, outputs = self._inputs, self._outputs
        joints = inputs["joint_pos"].shape
        if (
            np.shape(signals.joint_pos) != joints
            or np.shape(signals.joint_vel) != joints
            or np.shape(command) != inputs["command"].shape
            or any(np.shape(getattr(signals, name)) != inputs[name].shape for name in self._others)
        ):
            raise SignalError(self._wrong_shape(signals, command))
        inputs["joint_pos"][self._to_canonical] = signals.joint_pos
        inputs["joint_vel"][self._to_canonical] = signals.joint_vel
        inputs["command"][:] = command
        for name in self._others:
            inputs[name][:] = getattr(signals, name)
        if not np.abs(self._measured).max() < HUGE:  # also true of NaN
            raise SignalError("the policy got " + self._not_finite(inputs))
        quat = inputs.get("imu_quat_wxyz")
        if quat is not None and abs(math.sqrt(quat @ quat) - 1.0) > QUATERNION_TOLERANCE:
            raise SignalError(f"imu_quat_wxyz is {quat.tolist()}, which is not a unit quaternion")
        self._session.run_with_iobinding(self._bindings[self._turn])
        target, action = outputs["joint_pos_target"], outputs["action"]
        if not (np.abs(target).max() < HUGE and np.abs(action).max() < HUGE):
            raise SignalError("the policy put out " + self._not_finite(outputs))
        self._turn = 1 - self._turn
        return target[self._to_canonical]

    def _wrong_shape(self, signals: Signals, command: Any) -> str:
        given = {name: command if name == "command" else getattr(signals, name) for name in self._inputs}
        wrong = [
            f"{name} has shape {np.shape(value)}, expected {self._inputs[name].shape}"
            if value is not None
            else f"{name} is missing: this policy needs {'it' if name in IMU else 'an estimate of it'}, "
            f"{self._inputs[name].shape}"
            for name, value in given.items()
            if np.shape(value) != self._inputs[name].shape
        ]
        return "; ".join(wrong)

    def _not_finite(self, arrays: dict[str, NDArray[np.float32]]) -> str:
        """The first number that is NaN, infinite or absurd, with its joint."""
        for name, array in arrays.items():
            for index in np.flatnonzero(~(np.abs(array) < HUGE)):
                joint = f" ({self.contract.joint_names[index]})" if len(array) == self.contract.num_joints else ""
                return f"{name}[{index}]{joint} = {array[index]:g}"
        raise AssertionError("called without a fault")

    def _replay(self, content: bytes, bundle: Path) -> None:
        """Run the recorded inputs through the graph as it is bound here, and compare every output of every step."""
        golden = _read_golden(content, bundle / "golden.npz", self.contract)
        buffers = self._inputs | self._outputs
        for step in range(len(golden["state"])):
            for name in self._inputs:
                self._inputs[name][:] = golden[name][step]
            self._states[0][:] = golden["state"][step]
            self._session.run_with_iobinding(self._bindings[0])
            for name in self.contract.output_names:
                found = self._states[1] if name == "next_state" else buffers[name]
                expected = golden[name][step]
                error = float((np.abs(found - expected) / np.maximum(1.0, np.abs(expected))).max())
                if not error <= GOLDEN_TOLERANCE:  # also true of NaN
                    raise BundleError(
                        f"{bundle / 'policy.onnx'} does not reproduce golden.npz on this machine: {name} differs by "
                        f"{error:.3g} at step {step} (limit {GOLDEN_TOLERANCE:g}): do not run it; {WHAT_TO_DO}, or use "
                        f"the onnxruntime of the contract ({self.contract.software.get('onnxruntime', 'unknown')}; "
                        f"here {ort.__version__})"
                    )


def match_joints(canonical: Sequence[str], robot: Sequence[str]) -> NDArray[np.intp]:
    """Canonical index of each of the robot's joints; raises unless both name the same joints."""
    faults = []
    if missing := [name for name in canonical if name not in robot]:
        faults.append(f"the robot lacks {', '.join(missing)}")
    if unknown := [name for name in robot if name not in canonical]:
        faults.append(f"the contract does not know {', '.join(unknown)}")
    if twice := sorted({name for name in robot if list(robot).count(name) > 1}):
        faults.append(f"the robot names {', '.join(twice)} twice")
    if faults:
        raise BundleError(f"the robot's joints are not the contract's: {'; '.join(faults)}")
    return np.array([list(canonical).index(name) for name in robot], dtype=np.intp)


def _share(array: NDArray[np.float32]) -> ort.OrtValue:
    """A batch of one over the memory of ``array``; on the CPU, onnxruntime does not copy."""
    return ort.OrtValue.ortvalue_from_numpy(array[None])


def _open(content: bytes, bundle: Path, contract: Contract) -> ort.InferenceSession:
    try:
        session = open_graph(content, bundle / "policy.onnx")
    except FileError as error:
        raise BundleError(f"{error}: {WHAT_TO_DO}") from None
    found = tuple(item.name for item in session.get_inputs()), tuple(item.name for item in session.get_outputs())
    if found != (contract.input_names, contract.output_names):
        expected = contract.input_names, contract.output_names
        raise BundleError(f"{bundle / 'policy.onnx'} has inputs and outputs {found}; expected {expected}")
    return session


def _read_golden(content: bytes, path: Path, contract: Contract) -> dict[str, NDArray[np.float32]]:
    widths = {signal.name: signal.shape[1] for signal in contract.inputs + contract.outputs}
    try:
        golden = parse_npz(content, path, limit=FILE_BYTES)
    except FileError as error:
        raise BundleError(f"{error}: {WHAT_TO_DO}") from None
    if missing := [name for name in widths if name not in golden]:
        raise BundleError(f"{path} is not a recording of this policy: it has no {missing[0]}: {WHAT_TO_DO}")
    golden = {name: golden[name] for name in widths}
    steps = len(golden["state"]) if golden["state"].ndim else 0
    for name, values in golden.items():
        if values.shape != (steps, widths[name]) or not steps or values.dtype.kind != "f":
            raise BundleError(
                f"{path}: {name} has shape {values.shape} of {values.dtype}, expected (steps, {widths[name]}) of "
                f"float32: {WHAT_TO_DO}"
            )
    return golden
