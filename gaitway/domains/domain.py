"""Interface of a kind of task. The command line uses a domain and never the type of a task.

A domain imports what it needs when it is used: listing tasks loads no simulator, and a robot's task no language model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gaitway_agents.registry import Algorithm

from ..errors import ConfigError
from .request import Request

if TYPE_CHECKING:
    import numpy as np
    import torch
    from gaitway_agents.trainer import Learner, Trainer
    from gaitway_sim2real.trial.candidate import Trial
    from gaitway_sim2real.trial.examination import Examination
    from gaitway_sim2real.trial.schedule import Progress
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray
    from torch import nn

    Frame = NDArray[np.uint8]
    """A picture, shape (height, width, 3)."""


Config = Any
"""A :class:`gaitway.train_config.TrainConfig`, which knows this module."""


class Plays(ABC):
    """Role of a domain whose tasks are environments, in which agents learn and are evaluated."""

    evaluation_envs: ClassVar[int] = 16
    """Most environments that an evaluation plays in."""
    unlimited: ClassVar[str] = "the environment has no time limit: set task.max_episode_steps"
    """What to do about episodes that do not end."""

    @abstractmethod
    def make_env(self, config: Config, num_envs: int, seed: int) -> VectorEnv:
        """``num_envs`` environments of the configuration's task, in the shape that agents know."""

    def evaluated(self, config: Config) -> Config:
        """``config`` for the environments of an evaluation, in which nothing grows with skill."""
        return config

    @abstractmethod
    def trainer(self, config: Config, num_envs: int | None = None) -> Trainer:
        """The learner in its environments; ``num_envs`` asks for one small group instead of all."""

    @abstractmethod
    def trainer_in(self, env: VectorEnv, config: Config, seed: int) -> Trainer:
        """The learner of a configuration in an environment that is there; refuses those that it cannot handle."""

    def pictured(self, task: Any, seed: int) -> tuple[Any, Callable[[Any], Frame], float]:
        """An environment that can be looked at, its picture for an observation, and pictures a second."""
        raise ConfigError(f"{task.name} draws no pictures")

    def restored(self, config: Config, state: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        """Policy and deterministic actor of a trainer's ``state``, without environments."""
        raise ConfigError(f"{config.task.name}: its policies are not exported")

    def measures(self, env: Any) -> Any:
        """Measures of an evaluation besides returns; None without any."""
        return None

    def time_limit(self, task: Any) -> int | None:
        """Steps after which every episode of a task ends; None where nothing says so."""
        return None


class Domain(ABC):
    """One kind of task."""

    kind: ClassVar[str]
    """Name of its tasks in messages: "an environment", "a language task"."""
    unfit: ClassVar[str]
    """Message about an agent that cannot learn such tasks."""
    has_presets: ClassVar[bool] = False
    usual_agent: ClassVar[str] = "ppo"
    settings: ClassVar[tuple[str, ...]] = ()
    """Fields of :class:`gaitway.train_config.TrainConfig` that its tasks need and most others must not have."""
    formats: ClassVar[tuple[str, ...]] = ("bundle", "rsl-rl")
    """Formats in which ``gaitway export`` can write its runs, the usual one first."""
    watched: ClassVar[str] = "film"
    """Way to watch its runs: "walk" in a viewer, "film" only, or "chat"."""
    reward_parts: ClassVar[tuple[str, str]] = ("rollout/", "reward per second")
    """Prefix of the metrics that are parts of the reward, and their label on reports."""
    teachers: ClassVar[str] = ""
    """What ``--teacher`` may name; empty if none of its agents has a teacher."""
    shows_parts: ClassVar[bool] = False
    """True if the parts of the reward are more informative than the learner's metrics."""

    # ---- tasks -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Names of its tasks, for messages about a name that is unknown."""

    @abstractmethod
    def find(self, name: str, preset: str | None = None) -> Any | None:
        """The task called ``name``; None if the domain has none. Raises ValueError for a task that cannot be built."""

    @abstractmethod
    def facts(self) -> Iterable[tuple[str, Sequence[str], str]]:
        """Name, presets and summary of each task, for ``gaitway list tasks``."""

    def usual_preset(self, name: str, world: str) -> str | None:
        """The preset of the task called ``name`` in ``world`` where none is asked for."""
        return None

    def load_code(self, task: Any) -> None:  # noqa: B027
        """Import the modules that a task names, if the user trusts them."""

    # ---- configuration ---------------------------------------------------------------------------------------------

    @abstractmethod
    def agents(self) -> Mapping[str, Algorithm]:
        """The agents that learn such tasks, by name."""

    @abstractmethod
    def defaults(self, task: Any, request: Request) -> dict[str, Any]:
        """Fields of ``TrainConfig`` unless settings say otherwise; may have a changed ``task``."""

    def check(self, config: Config) -> None:
        """Raise :class:`ConfigError` for settings that make no sense for such a task."""
        if config.algorithm not in self.agents():
            raise self.wrong_agent(config.algorithm, config.task)
        own, found = self.agents()[config.algorithm].config_path(), type(config.agent)
        if f"{found.__module__}:{found.__name__}" != own:
            raise ConfigError(
                f"agent.kind={found.__name__!r}: the settings of agent {config.algorithm!r} are "
                f"{own.rpartition(':')[2]}; choose another agent with --agent"
            )
        self.check_teacher(config.algorithm, self.teacher_of(config))

    def check_teacher(self, agent: str, teacher: str) -> None:
        """Raise :class:`ConfigError` unless ``teacher`` is named, or empty, as the agent needs it."""
        agents = self.agents()
        if agents[agent].taught and not self.teachers:
            raise ConfigError(f"agent {agent!r} learns from a robot's teacher, not in {self.kind}: use another agent")
        if bool(teacher) != agents[agent].taught:
            taught = " and ".join(repr(name) for name, row in agents.items() if row.taught)
            raise ConfigError(
                f"agent {agent!r} with --teacher {teacher!r}: {taught} learns from one, {self.teachers}; "
                "other agents do not"
            )

    def teacher_of(self, config: Config) -> str:
        """What ``--teacher`` named; empty without one."""
        return str(getattr(config.agent, "teacher", ""))

    def wrong_agent(self, agent: str, task: Any) -> ConfigError:
        able = ", ".join(self.agents())
        return ConfigError(f"agent {agent!r} {self.unfit}, and {task.name} is {self.kind}: use one of {able}")

    def needs(self, world: str) -> Collection[str]:
        """Names of the :attr:`settings` that a task needs in ``world``."""
        return self.settings

    def learns_on_gpu(self, world: str) -> bool:
        """True if the agent learns on a GPU in ``world``, where there is one."""
        return False

    def device(self, world: str, device: str) -> torch.device:
        """The kind of device that an agent learns on if the configuration says ``device``."""
        import torch

        gpu = self.learns_on_gpu(world) and device != "cpu" and torch.cuda.is_available()
        return torch.device("cuda" if gpu else "cpu")

    def parameters(self, config: Config) -> dict[str, int]:
        """Parameters at least, by the setting that asks for them, that the agent's own settings do not tell of."""
        return {}

    def environment_bytes(self, config: Config) -> int:
        """Bytes of this machine's memory that an environment takes at least; an Atari game's are 3 million."""
        return 1_000

    # ---- training --------------------------------------------------------------------------------------------------

    @abstractmethod
    def preflight(self, config: Config) -> Config:
        """Check the configuration before the training starts; raises a ValueError that names the problem.

        Returns the configuration to train with, which may have been fitted to the machine.
        """

    @abstractmethod
    def prepare(self, config: Config) -> None:
        """Set torch up for a training or an evaluation, before it computes: its threads, and its use of a GPU."""

    @abstractmethod
    def build(self, config: Config, run: Any) -> tuple[Learner, Any]:
        """Learner and its :class:`gaitway.training.evaluator.Evaluator`, for a run's folder."""

    def learner_along(self, config: Config, run: Any) -> Learner:
        """Learner of every process but the first; ``run`` is None where a new folder is on the first one's machine."""
        raise NotImplementedError

    def check_examination(self, config: Config) -> None:
        """Raise :class:`ConfigError` if no policy of this training can be examined."""
        raise ConfigError(
            f"until={config.until}: {config.task.name} is {self.kind} without an examination, which velocity tasks of "
            "robots on flat ground have; leave --until out"
        )

    def examiner(self, config: Config) -> Callable[[Learner], Examination]:
        """Examiner of a learner's policy, for configurations that pass :meth:`check_examination`."""
        raise NotImplementedError

    def judge(self, config: Config) -> Callable[[Learner, int, Sequence[str], Progress], Trial]:
        """The whole suite on a learner's policy: its ``n``-th trial, from 0 on, the scenarios to run first, and a
        watcher, whose exceptions end it."""
        raise NotImplementedError

    def check_together(self, config: Config, asked: str, remedy: str) -> None:
        """Raise :class:`gaitway.errors.ConfigError` where the processes that ``asked`` asks for cannot learn as one."""
        raise ConfigError(f"{asked}: {config.task.name} is {self.kind}, learnt in one process; {remedy}")

    def check_size(self, config: Config, count: int) -> None:  # noqa: B027
        """Raise :class:`gaitway.errors.ConfigError` if the settings are for another number of processes of torchrun
        than ``count``; 1 is this one alone."""

    def start(self, config: Config) -> None:  # noqa: B027
        """Start a simulator that has to be the first thing that runs; raise for a cluster that is not there."""

    def notes(self, config: Config, *, continued: bool) -> Iterable[str]:
        """Notes for the user when a training begins or continues."""
        return ()

    def check_continued(self, config: Config, options: Mapping[str, Any], path: Path) -> Sequence[str]:
        """Raise :class:`RunError` if options of the command line are not those that the run in ``path`` began with.

        Returns the ``key=value`` of options that may change when a run is continued.
        """
        return ()

    def as_begun(self, config: Config, record: Mapping[str, Any]) -> Config:
        """``config`` with the choices in a run's record, made when it began."""
        return config

    def environments(self, task: Any) -> Plays:
        """Factory of a task's environments; raises :class:`ConfigError` for kinds of tasks without environments."""
        raise ConfigError(f"{task.name} is {self.kind}, which has no environments")
