"""The configuration of a training run: defaults < preset < ``--config`` file < ``key=value``, checked as a whole."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any

from gaitway_agents.registry import ENVIRONMENTS, TEXTS
from gaitway_files.trust import TrustError, trust
from gaitway_files.yaml_files import dump_yaml
from gaitway_tasks.registry import UnknownNameError
from gaitway_tasks.spec import Task

from .backends.table import BACKENDS
from .catalogue import AGENTS, WORLDS, admit_agent
from .config.overrides import apply_layers, changes, read_layers, read_settings, trust_settings
from .config.tree import Kinds, fields_to_tree, from_tree, named, to_tree
from .domains.request import Request
from .domains.table import TASKS, check_options, domain_of, find_task, worlds_of
from .errors import MAX_SEED, ConfigError

if TYPE_CHECKING:
    from .domains.domain import Domain, Plays

AGENT_KINDS = Kinds(lambda: [row.config_path() for row in (*ENVIRONMENTS.values(), *TEXTS.values())])
"""The classes of agents' settings, of agents from other packages too."""
SIMULATORS = Kinds(lambda: [row.options for row in BACKENDS.values() if row.options], optional=True)
"""The classes of simulators' settings."""
LEAST = {
    "num_envs": 1,
    "processes": 1,
    "num_threads": 0,
    "total_steps": 1,
    "evaluation_episodes": 0,
    "evaluation_interval": 0,
    "least_steps": 0,
    "examination_interval": 1,
    "checkpoint_interval": 1,
    "keep_checkpoints": 1,
}
"""Lower bounds of numbers."""
UNTIL = ("end", "good")
LOGGERS = ("wandb", "mlflow")


def _ppo() -> Any:
    return named("gaitway_agents.presets:PPOConfig")()


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything a training run depends on."""

    preset: str | None = None
    """Name of the preset; None without one."""
    world: str
    """World to train in: a name of 'gaitway list worlds'."""
    algorithm: str = "ppo"
    """Agent to train: a name of 'gaitway list agents'."""
    seed: int = 0
    """Seed of all random numbers."""
    num_envs: int = 4096
    """Environments side by side; typically 256 to 4096 for robots, 1 to 64 for games."""
    total_steps: int = 29_491_200
    """Environment steps of all environments together; of language tasks, sequences sampled or examples read."""
    until: str = "end"
    """End of the training: "end" after ``total_steps``; "good" once a policy passes an examination and then the whole
    suite of validation, or after ``total_steps``."""
    least_steps: int = 0
    """Steps before which an examination does not end the training."""
    examination_interval: int = 500_000
    """Steps between examinations, with ``until`` "good"; typically 0.5 to 5 million."""
    against: tuple[str, ...] = ()
    """Files of failing cases that a policy must survive in its examination."""
    processes: int = 1
    """Processes that train together on this machine, each with an equal part of the environments; typically 1 or 2."""
    num_threads: int = 0
    """Threads that step environments, or run a language model's operations; 0 uses every core."""
    evaluation_episodes: int = 0
    """Deterministic episodes, or held-out problems, of the evaluation after the training; 0 skips it."""
    evaluation_interval: int = 0
    """Steps between evaluations during training, of a tenth as many episodes or as many problems; 0 has none."""
    checkpoint_interval: int = 25
    """Iterations between checkpoints; typically 10 to 100."""
    keep_checkpoints: int = 3
    """Number of the newest checkpoints to keep."""
    logger: tuple[str, ...] = ()
    """Services that get the metrics beside TensorBoard: "wandb", "mlflow"."""
    agent: Annotated[Any, AGENT_KINDS] = field(default_factory=_ppo)
    """Settings of the agent: one of the dataclasses of ``gaitway_agents``."""
    simulator: Annotated[Any, SIMULATORS] = None
    """Settings of a robot's simulator; None for tasks without a robot."""
    language: Annotated[Any, Kinds("gaitway_language.options:LanguageOptions", optional=True)] = None
    """Model of a language task and the engine that runs it; None for other tasks."""
    tf32: bool = False
    """Multiply matrices in TensorFloat-32 on GPUs that have it, as Isaac Lab's scripts do: 10 bits of mantissa."""
    device: str = "auto"
    """Device of the agent and of a simulation for GPUs, or of a language model: "cuda:0", "cpu" or "auto"; other worlds
    are on the CPU."""
    task: Annotated[Any, TASKS]
    """Task: one of the classes of :data:`gaitway.domains.table.DOMAINS`."""

    def __post_init__(self) -> None:
        if self.world not in WORLDS:
            raise UnknownNameError("world", self.world, WORLDS)
        admit_agent(self.algorithm)
        if self.algorithm not in AGENTS:
            raise UnknownNameError("agent", self.algorithm, AGENTS)
        if self.world not in (worlds := worlds_of(self.task)):
            raise ConfigError(f"world={self.world!r}: {self.task.name} is a task of {' and '.join(worlds)}")
        self._check_parts()
        self._check_device()
        for name, low in LEAST.items():
            if (value := getattr(self, name)) < low:
                raise ConfigError(f"{name}={value}: must be at least {low}")
        for name in self.logger:
            if name not in LOGGERS or self.logger.count(name) > 1:
                raise ConfigError(
                    f"logger={','.join(self.logger)}: use {' or '.join(LOGGERS)}, or both; TensorBoard is always there"
                )
        if not 0 <= self.seed <= MAX_SEED:
            raise ConfigError(f"seed={self.seed}: must be from 0 to {MAX_SEED:,}")
        if self.evaluation_interval and not self.evaluation_episodes:
            raise ConfigError("evaluation_interval needs evaluation_episodes: how many episodes to play")
        self.domain.check(self)
        self._check_until()

    @property
    def domain(self) -> Domain:
        """The domain of the task."""
        return domain_of(self.task)

    @property
    def environments(self) -> Plays:
        """Factory of the task's environments; refuses tasks that have none."""
        return self.domain.environments(self.task)

    @property
    def robot_task(self) -> Task:
        """The task, which must be a robot's: others cannot be exported, validated or steered."""
        if not isinstance(self.task, Task):
            raise ConfigError(f"{self.task.name} is no robot's task: it cannot be exported, validated or steered")
        return self.task

    def _check_until(self) -> None:
        if self.until not in UNTIL:
            raise ConfigError(f"until={self.until!r}: use {' or '.join(UNTIL)}")
        if self.until == "end":
            if self.against:
                raise ConfigError("--against is for --until good, whose examination has the cases: add it")
            return
        if self.least_steps > self.total_steps:
            raise ConfigError(
                f"least_steps={self.least_steps} is more than total_steps={self.total_steps}: raise total_steps or "
                "lower least_steps"
            )
        self.domain.check_examination(self)

    def _check_parts(self) -> None:
        """Check that each part is set if, and only if, it is used."""
        needed = self.domain.needs(self.world)
        for name, where in (
            ("simulator", "for a robot's task"),
            ("language", "for a language task"),
        ):
            if (getattr(self, name) is not None) != (name in needed):
                raise ConfigError(f"{name}: needed {where} and nowhere else; {self.task.name} is one of {self.world}")
        if self.simulator is not None:
            own, given = (BACKENDS[self.world].options or "").rpartition(":")[2], type(self.simulator).__name__
            if own != given:
                raise ConfigError(
                    f"simulator.kind={given!r}: the settings of world {self.world!r} are {own}; choose it by --world"
                )

    def _check_device(self) -> None:
        if self.device in ("auto", "cpu"):
            return
        if not self.domain.learns_on_gpu(self.world):
            raise ConfigError(f"device={self.device}: {self.world} simulates on the CPU; use device=auto")
        if not re.fullmatch(r"cuda(:\d+)?", self.device):
            raise ConfigError(f"device={self.device}: use auto, cpu or cuda:0")


def resolve(
    task_name: Any,
    *,
    agent: str | None = None,
    preset: str | None = None,
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    **given: Any,
) -> TrainConfig:
    """Merge all layers over those of a task, which may be given itself.

    ``given`` are fields set by options of their own (``seed``, ``world``), None where unset; ``options`` what the
    command line says that only tasks of this kind have, such as ``model`` or ``parameters``. ``agent`` None is the
    task's usual one.
    """
    task, options = find_task(task_name, preset), options or {}
    check_options(task, options)
    domain = domain_of(task)
    world = worlds_of(task)[0]
    request = Request(
        agent=agent or domain.usual_agent,
        world=given.get("world") or world,
        preset=preset,
        options=options,
        layers=read_layers(config_file, overrides),
    )
    admit_agent(request.agent)
    if request.agent not in AGENTS:
        raise UnknownNameError("agent", request.agent, AGENTS)
    if request.agent not in domain.agents():
        raise domain.wrong_agent(request.agent, task)
    settings = {"task": task, "preset": preset, "algorithm": request.agent, "world": world}
    settings |= domain.defaults(task, request) | {key: value for key, value in given.items() if value is not None}
    if not request.layers:
        return TrainConfig(**settings)
    return _merged(_defaults() | settings, config_file, request.layers, overrides)


def merge(base: TrainConfig, config_file: Path | None, overrides: Sequence[str]) -> TrainConfig:
    """``base`` changed by a YAML file and by ``key=value`` settings."""
    if not (layers := read_layers(config_file, overrides)):
        return base
    return _merged({f.name: getattr(base, f.name) for f in dataclasses.fields(base)}, config_file, layers, overrides)


def _defaults() -> dict[str, Any]:
    """Fields that have a default."""
    fields = dataclasses.fields(TrainConfig)
    made = {f.name: f.default_factory() for f in fields if f.default_factory is not dataclasses.MISSING}
    return made | {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}


def _merged(
    settings: Mapping[str, Any], config_file: Path | None, layers: Sequence[Any], overrides: Sequence[str]
) -> TrainConfig:
    """Configuration of all fields, of which only what ``layers`` leave is checked; the first may be a file's."""
    trust(*_modules_in(settings))
    trust_settings(overrides)
    return config_from_tree(apply_layers(fields_to_tree(TrainConfig, settings), layers, config_file))


def config_from_tree(tree: Mapping[str, Any]) -> TrainConfig:
    admit_agent(tree.get("algorithm"))
    config = from_tree(TrainConfig, tree)
    assert isinstance(config, TrainConfig)
    config.domain.load_code(config.task)
    return config


def _modules_in(value: Any) -> Iterator[str]:
    """Modules of functions, environment and ground that a configuration already has, which are imported."""
    if isinstance(value, FunctionType):
        yield value.__module__
    elif dataclasses.is_dataclass(value):
        yield type(value).__module__
        for part in dataclasses.fields(value):
            item = getattr(value, part.name)
            if part.name == "env_id":
                yield from filter(None, [item.rpartition(":")[0]])
            yield from _modules_in(item)
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _modules_in(item)


def dump(config: TrainConfig) -> str:
    """The text of ``config.yaml``."""
    text = dump_yaml(to_tree(config))
    return f"# The whole configuration of this run, resolved.\n{text}"


def load(path: Path) -> TrainConfig:
    """Read a ``config.yaml`` that :func:`dump` wrote.

    Raises :class:`gaitway_files.trust.TrustError` if it names functions of a module that the user did not name.
    """
    try:
        return config_from_tree(read_settings(path))
    except TrustError as error:
        raise TrustError(f"{path}: {error}") from None


def difference(a: TrainConfig, b: TrainConfig) -> list[str]:
    """Dotted keys in which two configurations differ."""
    return list(changes(to_tree(a), to_tree(b)))
