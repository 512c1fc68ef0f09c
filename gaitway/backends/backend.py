"""Interface of a simulator of robots. The command line and the domain of robots ask it and never its name."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from gaitway_sim2real.validate.engines import Engine
    from gaitway_tasks.recording import Recording
    from gaitway_tasks.spec import Task
    from gymnasium.vector import VectorEnv


Config = Any
"""A :class:`gaitway.config.train_config.TrainConfig`, which knows this module."""
Parser = Any
"""A :class:`gaitway.commands.common.Parser`, whose module knows this one."""


class Backend(ABC):
    """One simulator. What a class leaves out is as in a simulator on the CPU that any process may start at any time."""

    settings: ClassVar[tuple[str, ...]] = ("physics",)
    """Fields of :class:`gaitway.config.train_config.TrainConfig` that its tasks need; ``physics`` is MuJoCo's."""
    gpu: ClassVar[bool] = False
    """Whether it simulates on a GPU where there is one, on which the agent then learns."""
    portable: ClassVar[bool] = True
    """Whether its tasks can be played in every simulator of this machine; else their ground is flattened first."""
    brings_torch: ClassVar[bool] = False
    """Whether its installation has what agents need, so that nothing else must be asked for."""
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
        """``gaitway record --world`` of it: what a run or bundle does here."""
        raise NotImplementedError

    def convert(self, source: Path, out: Path, engine: str | None) -> Iterable[str]:
        """``gaitway convert`` of a robot's file, compared with what ``engine`` loads if one is named; lines on it."""
        raise NotImplementedError

    def add_engine_options(self, parser: Parser) -> None:  # noqa: B027
        """Add options of ``gaitway validate`` that its engines have."""

    def validation_engines(self, names: Sequence[str], args: argparse.Namespace) -> Sequence[Engine]:
        """Those of its physics engines that are named, for bundles to be validated in beside MuJoCo."""
        return ()

    def make_way(self) -> None:  # noqa: B027
        """Prepare the process, before numpy and torch are loaded."""

    def start_first(self, device: str) -> None:  # noqa: B027
        """Start what has to be the first thing that runs, before processes know each other."""

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
        """Find what cannot work; returns whether an environment may be built now, to be tried."""
        return True

    def start(self, config: Config) -> None:  # noqa: B027
        """Say what may stop it, and start it where it has to be the first thing that runs."""

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
        """``config`` with what :meth:`record` told when the run began."""
        return config
