"""Interface of a simulator of robots. The command line and the domain of robots ask it and never its name."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from gaitway_sim2real.trial.engines import Engine
    from gaitway_tasks.recording import Recording
    from gaitway_tasks.spec import Task
    from gymnasium.vector import VectorEnv

    from ..options import Parser


Config = Any
"""A :class:`gaitway.train_config.TrainConfig`, which knows this module."""


class Backend(ABC):
    """One simulator. What a class leaves out is as in a simulator on the CPU that any process may start at any time."""

    shares_cores: ClassVar[bool] = False
    """True if presets for a few cores give each of two cores a process."""
    gpu: ClassVar[bool] = False
    """True if it simulates on a GPU where there is one; the agent then learns there too."""
    portable: ClassVar[bool] = True
    """True if any machine can make the environments of a run again; those of others are made in MuJoCo there."""
    steps_model: ClassVar[bool] = False
    """True if it steps a robot's own MJCF, which is then checked before a training."""
    brings_torch: ClassVar[bool] = False
    """True if its installation includes the agents' dependencies, so that nothing else must be installed."""
    own_options: ClassVar[tuple[str, ...]] = ()
    """Options of ``gaitway play`` that it alone has; see :meth:`play`."""

    models: ClassVar[tuple[str, ...]] = ()
    """Endings of files of robots that ``gaitway convert`` writes for it; see :meth:`convert`."""

    # ---- command line ----------------------------------------------------------------------------------------------

    def add_options(self, parser: Parser) -> None:  # noqa: B027
        """Add :attr:`own_options` to those of ``gaitway play``."""

    def chosen(self, physics: str) -> list[str]:
        """Settings that choosing this physics engine stands for."""
        return []

    def play(self, args: argparse.Namespace) -> int:
        """``gaitway play --world`` of it: show a run or bundle here; returns the exit code."""
        raise NotImplementedError

    def record_rollout(self, args: argparse.Namespace) -> Recording:
        """Recording of a run or bundle here, for ``gaitway record --world``."""
        raise NotImplementedError

    def convert(self, source: Path, out: Path, engine: str | None) -> Iterable[str]:
        """Lines of ``gaitway convert`` for a robot's file, compared with the robot in ``engine`` if one is named."""
        raise NotImplementedError

    def add_engine_options(self, parser: Parser) -> None:  # noqa: B027
        """Add options of ``gaitway validate`` that its engines have."""

    def validation_engines(self, names: Sequence[str], args: argparse.Namespace) -> Sequence[Engine]:
        """The named ones of its physics engines, in which bundles are validated beside MuJoCo."""
        return ()

    def make_way(self) -> None:  # noqa: B027
        """Prepare the process, before numpy and torch are loaded."""

    def start_first(self, device: str) -> None:  # noqa: B027
        """Start a simulator that must start first, before the processes connect."""

    def close(self) -> None:  # noqa: B027
        """Close its environments, so that others can be made."""

    def shut_down(self, code: int) -> None:  # noqa: B027
        """End the simulator with the process, whose exit code is ``code``."""

    # ---- training --------------------------------------------------------------------------------------------------

    def defaults(self, settings: dict[str, Any], task: Task, *, preset: bool) -> dict[str, Any]:
        """``settings`` of a robot's training as they suit this simulator; with ``preset`` a preset made them."""
        return settings

    def check(self, config: Config) -> None:  # noqa: B027
        """Raise :class:`gaitway.errors.ConfigError` for settings that make no sense here."""

    def preflight(self, config: Config) -> bool:
        """Find settings that cannot work; returns True if an environment may be built now, to try it."""
        return True

    def start(self, config: Config) -> None:  # noqa: B027
        """Print possible obstacles, and start a simulator that must start first."""

    @abstractmethod
    def make_env(self, config: Config, num_envs: int, seed: int) -> VectorEnv:
        """``num_envs`` environments of the configuration's task, in the shape that agents know."""

    def notes(self, config: Config, *, continued: bool) -> Iterable[str]:
        """Notes for the user when a training begins or continues."""
        return ()

    def record(self, env: Any) -> dict[str, Any]:
        """Fields of ``run.json`` about choices that were made when the environments were built."""
        return {}

    def as_begun(self, config: Config, record: Mapping[str, Any]) -> Config:
        """``config`` with the values of :meth:`record` when the run began."""
        return config
