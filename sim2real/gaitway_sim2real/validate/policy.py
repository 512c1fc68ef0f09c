"""``policy.onnx`` for many robots at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from ..contract import BundleError, Contract


class BatchedPolicy:
    """The bundle's graph with its recurrent state, for N robots. Float32 throughout, as on the robot."""

    def __init__(self, path: Path, contract: Contract, num_envs: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises a family of types without a public base
            raise BundleError(f"{path} is not an ONNX graph that onnxruntime can run: {error}") from None
        self._outputs = [signal.name for signal in contract.outputs]
        for kind, wanted, found in (
            ("input", {signal.name for signal in contract.inputs}, {i.name for i in self._session.get_inputs()}),
            ("output", set(self._outputs), {o.name for o in self._session.get_outputs()}),
        ):
            if wanted != found:
                raise BundleError(f"{path} has {kind}s {sorted(found)}, but the contract says {sorted(wanted)}")
        self.state = np.zeros((num_envs, contract.state_dim), np.float32)
        """What the next step continues from, (N, S)."""

    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Joint position targets [rad] and raw actions, (N, J) each, from the five sensor and command signals."""
        feed = {name: np.ascontiguousarray(value, np.float32) for name, value in signals.items()}
        values = dict(zip(self._outputs, self._session.run(self._outputs, {**feed, "state": self.state}), strict=True))
        self.state = values["next_state"]
        return values["joint_pos_target"], values["action"]
