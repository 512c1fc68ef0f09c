"""``policy.onnx`` for many robots at once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gaitway_files.graphs import GRAPH_BYTES, open_graph
from gaitway_files.reading import FileError, read_bytes
from gaitway_onboard.bundle.contract import BundleError, Contract


class BatchedPolicy:
    """The bundle's graph with its recurrent state, for N robots. Float32 throughout, as on the robot."""

    def __init__(self, path: Path, contract: Contract, num_envs: int) -> None:
        try:
            self._session = open_graph(read_bytes(path, GRAPH_BYTES), path)
        except FileError as error:
            raise BundleError(str(error)) from None
        self._outputs = [signal.name for signal in contract.outputs]
        for kind, wanted, found in (
            ("input", {signal.name for signal in contract.inputs}, {i.name for i in self._session.get_inputs()}),
            ("output", set(self._outputs), {o.name for o in self._session.get_outputs()}),
        ):
            if wanted != found:
                raise BundleError(f"{path} has {kind}s {sorted(found)}, but the contract says {sorted(wanted)}")
        self._estimates, self._state_dim = contract.estimates, contract.state_dim
        self._begin(num_envs)

    def _begin(self, num_envs: int) -> None:
        self.state = np.zeros((num_envs, self._state_dim), np.float32)
        """What the next step continues from, (N, S)."""
        self.estimates: dict[str, np.ndarray] = {}
        """What the policy estimated for itself in the last step, by the name of the output, (N, d) each."""

    def fresh(self, num_envs: int) -> BatchedPolicy:
        """The same graph at its start for other robots; it is not opened again."""
        other = copy.copy(self)
        other._begin(num_envs)
        return other

    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Joint position targets [rad] and raw actions, (N, J) each, from the five sensor and command signals."""
        feed = {name: np.ascontiguousarray(value, np.float32) for name, value in signals.items()}
        values = dict(zip(self._outputs, self._session.run(self._outputs, {**feed, "state": self.state}), strict=True))
        self.state, self.estimates = values["next_state"], {name: values[name] for name in self._estimates}
        return values["joint_pos_target"], values["action"]


class SideBySide:
    """The policies of several batches of robots as one. Each computes its own robots as if they were alone."""

    def __init__(self, policies: Sequence[BatchedPolicy]) -> None:
        self._policies = policies
        ends = np.cumsum([len(policy.state) for policy in policies]).tolist()
        self._rows = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def estimates(self) -> dict[str, np.ndarray]:
        """See :attr:`BatchedPolicy.estimates`."""
        names = self._policies[0].estimates
        return {name: np.concatenate([policy.estimates[name] for policy in self._policies]) for name in names}

    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`BatchedPolicy.__call__`."""
        found = [
            policy({name: value[rows] for name, value in signals.items()})
            for policy, rows in zip(self._policies, self._rows, strict=True)
        ]
        targets, actions = zip(*found, strict=True)
        return np.concatenate(targets), np.concatenate(actions)
