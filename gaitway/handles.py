"""What `import gaitway` gives for things on disk: runs, their policies, bundles and films."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gaitway_files.errors import UserError
from numpy.typing import NDArray

from .runs.folder import RunFolder

if TYPE_CHECKING:
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_onboard.bundle.policy import OnboardPolicy

    from .runs.choice import Which
    from .train_config import TrainConfig

Array = NDArray[Any]


@dataclass(frozen=True)
class Run:
    """Run folder of a training, on disk; everything is read when it is asked for, also while the run trains.

    >>> run = gaitway.load_run("runs/walk")
    >>> run.status, run.steps
    ('finished', 4500000)
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """Contents of ``run.json``: task, seed, versions, machine, times."""
        return RunFolder.open(self.path).record

    @property
    def status(self) -> str:
        """State: "running", "finished", "interrupted" or "failed"."""
        return str(self.record["status"])

    @property
    def steps(self) -> int:
        """Environment steps done, all environments together."""
        return int(self.record["steps"])

    @cached_property
    def config(self) -> TrainConfig:
        """Resolved configuration of the training."""
        return RunFolder.open(self.path).config()

    @property
    def checkpoint(self) -> Path | None:
        """Newest checkpoint; None before the first."""
        return next(reversed(RunFolder.open(self.path).checkpoints()), None)

    @property
    def checkpoints(self) -> list[int]:
        """Steps of the checkpoints that were kept, oldest first: each may be the ``checkpoint`` of other functions.

        >>> policy = run.policy(checkpoint=run.checkpoints[0])
        """
        return list(RunFolder.open(self.path).kept())

    def rows(self, name: Literal["metrics", "episodes", "evaluations", "examinations"] = "metrics") -> list[Any]:
        """Rows of ``<name>.jsonl`` as dictionaries, oldest first (``docs/runs.md`` has their keys); [] without any.

        >>> pandas.DataFrame(run.rows())
        """
        from .runs.rows import read_rows

        path = self.path / f"{name}.jsonl"
        return read_rows(path) if path.exists() else []

    def series(self, key: str) -> tuple[Array, Array]:
        """Steps (K,), int64, and values (K,), float64, of one metric: a learning curve.

        Raises :class:`gaitway.UserError` for a metric that no row has.

        >>> steps, returns = run.series("episodes/return")
        """
        rows = self.rows()
        found = [(row["steps"], row[key]) for row in rows if key in row]
        if not found:
            known = ", ".join(sorted({name for row in rows for name in row})) or "none"
            raise UserError(f"{key!r}: {self.path} has no such metric; it has {known}")
        steps, values = zip(*found, strict=True)
        return np.array(steps, np.int64), np.array(values, np.float64)

    def policy(self, checkpoint: Which = None) -> Policy:
        """Deterministic policy of a checkpoint: its steps, "best" or "last"; by default the one the run chose, or last.

        Raises :class:`gaitway.UserError` if there is no such checkpoint.

        >>> action = run.policy()(observation)
        """
        return Policy(self, checkpoint)


class Policy:
    """Deterministic policy of a run: a function from observations to actions, with a memory if the network has one.

    >>> policy = run.policy()
    >>> policy(np.zeros((64, 48))).shape      # 64 ANYmals
    (64, 12)
    """

    def __init__(self, run: Run, checkpoint: Which = None):
        from .training.load import trainer_of

        config = playable(run.config)
        env = config.environments.make_env(config, 1, config.seed)
        try:
            self._trainer = trainer_of(RunFolder.open(run.path), env, checkpoint)
            groups: Any = env.single_observation_space
            self._seen, self._bounds = groups["policy"], env.single_action_space
        finally:
            env.close()
        self._memory: dict[str, Any] = {}
        self._rows = 0

    def __call__(self, observation: Any) -> Array:
        """Actions (N, A) for observations (N, D), or (A,) for one of shape (D,); of choices, (N,) or one number.

        ``observation`` is an array or tensor of the group "policy", or a dictionary that has it, as
        :func:`gaitway.make_vec` gives them. Raises :class:`gaitway.UserError` for another shape.
        """
        import torch
        from gymnasium.spaces import Box

        groups = dict(observation) if isinstance(observation, Mapping) else {"policy": observation}
        shape = self._seen.shape
        dtype = torch.float32 if self._seen.dtype == np.float64 else getattr(torch, str(self._seen.dtype))
        groups = {name: torch.as_tensor(np.asarray(value)) for name, value in groups.items()}
        groups["policy"] = groups["policy"].to(dtype)
        one = groups["policy"].shape == shape
        if one:
            groups = {name: value[None] for name, value in groups.items()}
        if groups["policy"].shape[1:] != shape:
            raise UserError(f"observation of shape {tuple(groups['policy'].shape)}: this policy reads {('N', *shape)}")
        if self._rows != (rows := len(groups["policy"])):
            self._memory, self._rows = self._trainer.initial_memory(rows), rows
        with torch.inference_mode():
            action, self._memory = self._trainer.predict(groups | self._memory)
        found = action.numpy().copy()
        if isinstance(self._bounds, Box):
            found = np.clip(found, self._bounds.low, self._bounds.high)
        return found[0] if one else found

    def forget(self, ended: Array | None = None) -> None:
        """Clear the memory of episodes that ended, (N,) of bool; of all without an argument."""
        import torch

        if ended is None:
            self._rows = 0
        goes_on = ~torch.as_tensor(np.asarray(ended if ended is not None else True))
        self._memory = {name: value * goes_on[..., None] for name, value in self._memory.items()}


@dataclass(frozen=True)
class Bundle:
    """Exported policy: a folder that runs on a robot without the training half.

    >>> bundle = gaitway.export(run, "bundles/walk")
    >>> bundle.contract.joint_names
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    @cached_property
    def contract(self) -> Contract:
        """Joint order, gains, limits, rates and frames: ``contract.yaml``."""
        from gaitway_onboard.bundle.contract import Contract

        return Contract.load(self.path)

    def policy(self) -> OnboardPolicy:
        """Policy as on the robot: ``step(signals, command)`` gives joint targets [rad], (J,)."""
        from gaitway_onboard.bundle.policy import OnboardPolicy

        return OnboardPolicy(self.path)


@dataclass(frozen=True)
class Film:
    """Film of a policy, an ``.mp4``; as the result of a notebook's cell it is shown below the cell.

    >>> gaitway.play(run, video="walk.mp4").path
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        data = b64encode(self.path.read_bytes()).decode()
        return f'<video src="data:video/mp4;base64,{data}" width="640" controls autoplay muted loop></video>'


def playable(config: TrainConfig) -> TrainConfig:
    """The configuration in a world of this process: a run of Isaac Lab is played in MuJoCo."""
    from gaitway_tasks.spec import Task

    from .domains.robots import in_mujoco

    return in_mujoco(config) if isinstance(config.task, Task) else config
