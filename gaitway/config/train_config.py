"""The configuration of a training run: defaults < preset < ``--config`` file < ``key=value``, checked as a whole."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import yaml
from gaitway_agents.presets import PPOConfig
from gaitway_agents.rsl_rl_config import RslRlConfig
from gaitway_files.reading import MIB, FileError, MissingFile, one_line, read_text
from gaitway_files.trust import TrustError, import_trusted, trust
from gaitway_files.yaml_files import dump_yaml, parse_yaml
from gaitway_gymnasium import GymTask
from gaitway_isaaclab.launch import IsaacLabOptions
from gaitway_language.options import LanguageOptions
from gaitway_mujoco.options import PhysicsOptions
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.registry import UnknownNameError
from gaitway_tasks.spec import Task

from ..catalogue import AGENTS, WORLDS
from ..domains.agents import TEXT_KINDS, AgentConfig
from ..domains.presets import AGENT_DEFAULTS, MUJOCO_ALONE, training_settings
from ..domains.texts.settings import TEXT_AGENTS, Choices
from ..domains.worlds import WORLDS_OF, AnyTask, find_task, usual_agent, world_of
from ..errors import MAX_SEED, ConfigError
from .tree import KIND, from_tree, join, to_tree, unknown_key

CONFIG_FILE = "config.yaml"
INTERPOLATION = "${"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything a training run depends on."""

    preset: str | None = None
    world: str
    algorithm: str = "ppo"
    seed: int = 0
    num_envs: int = 4096
    env_groups: int = 1
    """The environments are split into so many groups; physics of one runs while terms of another are computed."""
    total_steps: int = 29_491_200
    """Environment steps, all environments together; of language tasks, sequences sampled or examples read."""
    num_threads: int = 0
    """Threads that step environments, or of a language model's operations; 0 uses every core."""
    evaluation_episodes: int = 0
    """Deterministic episodes to play, or held-out problems to answer, when the training is over; 0 has none."""
    evaluation_interval: int = 0
    """Steps between further evaluations, of a tenth as many episodes, or of as many problems; 0 has none."""
    checkpoint_interval: int = 25
    """Iterations between checkpoints."""
    keep_checkpoints: int = 3
    agent: AgentConfig = field(default_factory=PPOConfig)
    physics: PhysicsOptions | None = None
    """How MuJoCo simulates a robot, where it learns there and where it is played; None for other tasks."""
    isaaclab: IsaacLabOptions | None = None
    """How Isaac Lab simulates a robot; None in other worlds."""
    language: LanguageOptions | None = None
    """Which model answers a language task, and through which engine; None for other tasks."""
    tf32: bool = False
    """Multiply matrices in TensorFloat-32 on GPUs that have it, as Isaac Lab's scripts do: 10 bits of mantissa."""
    device: str = "auto"
    """Where Isaac Lab simulates or a language model is, and the agent learns: "cuda:0", "cpu", or "auto"; other worlds
    are on the CPU."""
    task: AnyTask

    def __post_init__(self) -> None:
        if self.world not in WORLDS:
            raise UnknownNameError("world", self.world, WORLDS)
        if self.algorithm not in AGENTS:
            raise UnknownNameError("agent", self.algorithm, AGENTS)
        if self.world not in (worlds := WORLDS_OF[type(self.task)]):
            raise ConfigError(f"world={self.world!r}: {self.task.name} is a task of {' and '.join(worlds)}")
        if (self.physics is not None) != isinstance(self.task, Task):
            raise ConfigError(
                f"physics: needed for a robot's task and for no other; {self.task.name} is one of {self.world}"
            )
        self._check_isaaclab()
        self._check_language()
        for name, low in (
            ("num_envs", 1),
            ("env_groups", 1),
            ("num_threads", 0),
            ("total_steps", 1),
            ("evaluation_episodes", 0),
            ("evaluation_interval", 0),
            ("checkpoint_interval", 1),
            ("keep_checkpoints", 1),
        ):
            if (value := getattr(self, name)) < low:
                raise ConfigError(f"{name}={value}: must be at least {low}")
        if not 0 <= self.seed <= MAX_SEED:
            raise ConfigError(f"seed={self.seed}: must be from 0 to {MAX_SEED:,}")
        if self.num_envs % self.env_groups:
            raise ConfigError(
                f"num_envs={self.num_envs} cannot be split into env_groups={self.env_groups} equal groups"
            )
        if self.evaluation_interval and not self.evaluation_episodes:
            raise ConfigError("evaluation_interval needs evaluation_episodes: how many episodes to play")
        if isinstance(self.agent, PPOConfig):
            self._check_rollout(self.agent)
        if isinstance(self.agent, RslRlConfig):
            self.agent.check_rows(self.num_envs)
        if isinstance(self.task, Task):
            self._check_robot_task(self.task)

    @property
    def robot_task(self) -> Task:
        """The task, which must be a robot's: others cannot be exported, validated or steered."""
        if not isinstance(self.task, Task):
            raise ConfigError(f"{self.task.name} is no robot's task: it cannot be exported, validated or steered")
        return self.task

    def _check_isaaclab(self) -> None:
        if (self.isaaclab is not None) != (self.world == "isaaclab"):
            raise ConfigError(f"isaaclab: needed with --world isaaclab and with no other; world={self.world}")
        if self.world not in ("isaaclab", "language") and self.device not in ("auto", "cpu"):
            raise ConfigError(f"device={self.device}: {self.world} simulates on the CPU; use device=auto")
        if self.device not in ("auto", "cpu") and not re.fullmatch(r"cuda(:\d+)?", self.device):
            raise ConfigError(f"device={self.device}: use auto, cpu or cuda:0")
        if self.world != "isaaclab":
            return
        if not isinstance(self.agent, PPOConfig):
            raise ConfigError(
                f"agent {self.algorithm!r} does not learn in Isaac Lab: use ppo or one of its kin, or Isaac Lab's own "
                "scripts for rsl_rl"
            )
        if self.agent.decoupled:
            raise ConfigError(
                f"agent {self.algorithm!r} with agent.decoupled=true: a process has one simulation of Isaac Lab on the "
                "GPU that also learns, so nothing can be gathered meanwhile; use --agent ppo with agent.decoupled=false"
            )
        for name, value in (("env_groups", 1), ("evaluation_episodes", 0)):
            if getattr(self, name) != value:
                raise ConfigError(
                    f"{name}={getattr(self, name)}: a process has one simulation of Isaac Lab; use {name}={value}"
                )

    def _check_language(self) -> None:
        of_texts = isinstance(self.task, LanguageTask)
        if (self.language is not None) != of_texts:
            raise ConfigError(
                f"language: needed for a language task and for no other; {self.task.name} is one of {self.world}"
            )
        if (type(self.agent) in TEXT_KINDS) != of_texts:
            what, able = ("a language task", TEXT_AGENTS) if of_texts else ("an environment", AGENT_DEFAULTS)
            raise ConfigError(
                f"agent {self.algorithm!r} cannot learn {self.task.name}, {what}: use one of {', '.join(able)}"
            )
        if self.language is not None and self.language.attention == "flash_attention_2":
            optimizer: Any = getattr(self.agent, "optimizer", None)
            if optimizer.precision != "bfloat16":
                raise ConfigError(
                    f"language.attention='flash_attention_2' with agent.optimizer.precision={optimizer.precision!r}: "
                    "flash attention computes in bfloat16 only; set that, or language.attention=sdpa"
                )
        if of_texts and (self.num_envs, self.env_groups) != (1, 1):
            raise ConfigError(
                f"num_envs={self.num_envs}, env_groups={self.env_groups}: a language task has no environments; "
                "agent.prompts_per_step, agent.group_size and agent.batch_size say how much is done at once"
            )

    def _check_rollout(self, agent: PPOConfig) -> None:
        rollout = self.num_envs * agent.num_steps
        if self.total_steps < rollout:
            raise ConfigError(
                f"total_steps={self.total_steps} is less than one rollout, num_envs={self.num_envs} x "
                f"agent.num_steps={agent.num_steps} = {rollout}: raise total_steps or lower num_envs"
            )
        rows, unit, remedy = rollout, "steps", "num_envs or agent.num_steps"
        if agent.model.recurrent != "none":
            rows, unit, remedy = self.num_envs, "sequences", "num_envs"
        if rows < agent.optimizer.minibatches:
            raise ConfigError(
                f"a rollout of {rows} {unit} cannot be split into "
                f"agent.optimizer.minibatches={agent.optimizer.minibatches}: raise {remedy}"
            )
        if agent.symmetry != "none" and not (isinstance(self.task, Task) and self.task.robot.mirrors):
            raise ConfigError(
                f"agent.symmetry={agent.symmetry!r} needs a robot with mirrors, and {self.task.name} has none: "
                "use agent.symmetry=none"
            )

    @staticmethod
    def _check_robot_task(task: Task) -> None:
        if task.timing.max_episode_length < 1:
            raise ConfigError(
                f"task.timing.episode_length_s={task.timing.episode_length_s} is shorter than one control step "
                f"of {task.timing.step_dt} s"
            )
        if "policy" not in task.observations:
            raise ConfigError("task.observations has no group 'policy', which the actor reads")
        if not any(reward.weight for reward in task.rewards.values()):
            raise ConfigError("every weight in task.rewards is 0: there is nothing to learn from")
        for name, command in task.commands.items():
            for axis in ("lin_vel_x", "lin_vel_y", "ang_vel_z", "heading", "resampling_time_range"):
                low, high = getattr(command, axis)
                if low > high:
                    raise ConfigError(f"task.commands.{name}.{axis}=[{low}, {high}]: the lower end comes first")


def resolve(
    task_name: str,
    *,
    agent: str | None = None,
    preset: str | None = None,
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    choices: Choices | None = None,
    parameters: Path | None = None,
    **given: Any,
) -> TrainConfig:
    """Merge all layers. ``given`` are fields set by options of their own (``seed``, ``world``), None where unset;
    ``choices`` what such options say of language models. ``agent`` None is the task's usual one. ``parameters`` is a
    file of what was identified of one robot, a layer between the preset and ``config_file``."""
    task, choices = find_task(task_name, preset), choices or Choices()
    agent = agent or usual_agent(task)
    if not isinstance(task, LanguageTask) and (options := choices.given()):
        raise ConfigError(
            f"{', '.join(options)}: of language models, and {task.name} is no language task; leave it out"
        )
    world, device = given.get("world") or world_of(task), _asked_device(config_file, overrides)
    if world == "isaaclab" and preset is not None and isinstance(task, Task):
        task = task.replace(events={k: e for k, e in task.events.items() if e.func not in MUJOCO_ALONE})
    settings = training_settings(task, agent, preset, world, choices, device=device)
    settings = settings | {key: value for key, value in given.items() if value is not None}
    base = TrainConfig(**{"task": task, "preset": preset, "algorithm": agent, "world": world_of(task)} | settings)
    if parameters is not None:
        base = _identified(base, parameters)
    config = merge(base, config_file, overrides)
    if config.language is not None and config.language.lora is not None and not choices.lora:
        # Adapters have defaults of their own, however they were asked for.
        return resolve(task_name, agent=agent, preset=preset, config_file=config_file, overrides=overrides,
                       choices=replace(choices, lora=True), parameters=parameters, **given)  # fmt: skip
    if config.language is not None and not config.language.model:
        raise ConfigError(
            f"{task.name} needs a model to begin with: add --model with a run folder, a folder in Hugging Face's form "
            "or an id of its hub, such as Qwen/Qwen2.5-1.5B-Instruct; --model tiny builds a small one from nothing"
        )
    return config


def _identified(config: TrainConfig, path: Path) -> TrainConfig:
    """``config`` on the one robot that the parameter file describes; a network's file goes by its full path."""
    from gaitway_tasks.identified import identified_task
    from gaitway_tasks.robots.parameters_file import load_parameters

    if not isinstance(config.task, Task):
        raise ConfigError(f"--parameters: {config.task.name} is no robot's task; leave it out")
    parameters = load_parameters(path, config.task.robot.name)
    if parameters.actuator_network is not None:
        network = str((path.parent / parameters.actuator_network).resolve())
        parameters = replace(parameters, actuator_network=network)
    return replace(config, task=identified_task(config.task, parameters))


def merge(base: TrainConfig, config_file: Path | None, overrides: Sequence[str]) -> TrainConfig:
    """``base`` changed by a YAML file and by ``key=value`` settings."""
    tree = to_tree(base)
    layers = _layers(config_file, overrides)
    if not layers:
        return base
    trust(*_modules_in(base))
    trust_settings(overrides)
    for layer in layers:
        tree = _apply(tree, layer, "", _keys(tree))
    return config_from_tree(tree)


def _layers(config_file: Path | None, overrides: Sequence[str]) -> list[Any]:
    return ([_read(config_file)] if config_file else []) + [_dotlist(text) for text in overrides]


def _asked_device(config_file: Path | None, overrides: Sequence[str]) -> str:
    """The device that is asked for, which the settings that it is to be changed in depend on."""
    asked = [layer["device"] for layer in _layers(config_file, overrides) if "device" in layer]
    return str(asked[-1]) if asked else "auto"


def trust_settings(overrides: Sequence[str]) -> None:
    """Let configurations use the modules that ``key=value`` settings of the command line name: the user said so."""
    trust(*_modules_of([_dotlist(text) for text in overrides]))


def config_from_tree(tree: Mapping[str, Any]) -> TrainConfig:
    config = from_tree(TrainConfig, tree)
    assert isinstance(config, TrainConfig)
    if isinstance(config.task, GymTask) and (module := config.task.env_id.rpartition(":")[0]):
        try:
            import_trusted(module, "task.env_id")
        except ImportError as error:
            raise ConfigError(f"task.env_id={config.task.env_id!r}: cannot import {module!r}: {error}") from None
    return config


def _modules_of(tree: Any) -> Iterator[str]:
    """Modules of the functions and environments that settings name."""
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        if key in ("func", "env_id") and isinstance(value, str) and ":" in value:
            yield value.rpartition(":")[0]
        yield from _modules_of(value)


def _modules_in(value: Any) -> Iterator[str]:
    """Modules of the functions and the environment that a configuration already has, which are imported."""
    if isinstance(value, GymTask):
        yield from filter(None, [value.env_id.rpartition(":")[0]])
    elif isinstance(value, FunctionType):
        yield value.__module__
    elif dataclasses.is_dataclass(value):
        for part in dataclasses.fields(value):
            yield from _modules_in(getattr(value, part.name))
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _modules_in(item)


def task_to_dict(task: Task) -> dict[str, Any]:
    """Plain data that :func:`task_from_dict` reads back to an equal task."""
    tree = to_tree(task)
    assert isinstance(tree, dict)
    return tree


def task_from_dict(data: Mapping[str, Any]) -> Task:
    task = from_tree(Task, data, "task")
    assert isinstance(task, Task)
    return task


def dump(config: TrainConfig) -> str:
    """The text of ``config.yaml``."""
    text = dump_yaml(to_tree(config))
    return f"# The whole configuration of this run, resolved.\n{text}"


def load(path: Path) -> TrainConfig:
    """Read a ``config.yaml`` that :func:`dump` wrote.

    Raises :class:`gaitway_files.trust.TrustError` if it names functions of a module that the user did not name.
    """
    try:
        return config_from_tree(_read(path))
    except TrustError as error:
        raise TrustError(f"{path}: {error}") from None


def read_tree(path: Path) -> dict[str, Any]:
    """What a ``config.yaml`` says, without the defaults that a later version would add, as JSON gives it back."""
    tree = json.loads(json.dumps(_read(path), default=str))
    assert isinstance(tree, dict)
    return tree


def difference(a: TrainConfig, b: TrainConfig) -> list[str]:
    """Dotted keys in which two configurations differ."""
    return list(changes(to_tree(a), to_tree(b)))


def changes(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two trees of plain data differ, with both values; None where a key is missing."""
    left, right = _flat(before), _flat(after)
    keys = [key for key in {**left, **right} if left.get(key, ...) != right.get(key, ...)]
    return {key: (left.get(key), right.get(key)) for key in keys}


CONFIG_BYTES = 2 * MIB
"""Most of a config.yaml; the largest of ours has 20 kB."""


def _read(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        text = read_text(path, CONFIG_BYTES)
        plain = parse_yaml(text, path)  # first: OmegaConf's reader knows no limits
        if not isinstance(plain, dict | None):
            raise ConfigError(f"{path} must hold a mapping of settings, such as 'num_envs: 512'")
        _check_plain(plain, str(path))
        # OmegaConf's reader, unlike plain YAML 1.1, takes 1e-3 for a number.
        data = OmegaConf.to_container(OmegaConf.create(text))
    except MissingFile:
        raise ConfigError(f"cannot read {path}: No such file or directory") from None
    except ConfigError:
        raise
    except (FileError, yaml.YAMLError, ValueError, RecursionError, OmegaConfBaseException) as error:
        reason = error.reason if isinstance(error, FileError) else one_line(error)
        raise ConfigError(f"{path} is not a valid configuration file: {reason}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a mapping of settings, such as 'num_envs: 512'")
    return {str(key): value for key, value in data.items()}


def _dotlist(text: str) -> Any:
    from omegaconf import OmegaConf

    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"setting {text!r}: write key=value, for example num_envs=512")
    _check_plain({key: value})
    try:
        return OmegaConf.to_container(OmegaConf.from_dotlist([text]))
    except (yaml.YAMLError, ValueError):
        raise ConfigError(f"{key}={value[:120]!r}: the value is not valid YAML; quote it") from None


def _check_plain(tree: Any, file: str = "", path: str = "") -> None:
    """Refuse what OmegaConf would fill in, from the environment for instance, and what is written back resolved."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        where = join(path, key)
        if any(isinstance(part, str) and INTERPOLATION in part for part in (key, value)):
            raise ConfigError(
                (f"{file}: " if file else "")
                + f"{where}={value!r}: {INTERPOLATION}...}} is not filled in; write the value"
            )
        _check_plain(value, file, where)


def _apply(base: Any, changes: Any, path: str, known: list[str]) -> Any:
    """``base`` with ``changes`` merged in. New names need a ``func`` of their own; null removes a named entry."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        _check_kind_of_value(base, changes, path)
        return changes
    if KIND in changes and changes[KIND] != base.get(KIND):
        return changes
    merged = dict(base)
    for key, value in changes.items():
        where = join(path, key)
        if key not in base:
            complete = isinstance(value, dict) and "func" in value
            if not complete and not path.endswith((".params", ".fields")):
                raise unknown_key(where, known)
            merged[key] = value
        elif value is None and isinstance(base[key], dict) and "func" in base[key]:
            del merged[key]
        else:
            merged[key] = _apply(base[key], value, where, known)
    return merged


def _check_kind_of_value(base: Any, value: Any, path: str) -> None:
    """Term parameters have no declared type; their present value says what they are."""
    if ".params." not in path or base is None:
        return
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    expected, found = kinds.get(type(base)), kinds.get(type(value))
    if expected != found:
        raise ConfigError(f"{path}={value!r}: expected {expected}, such as {base!r}")


def _keys(tree: Any, path: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return []
    return [k for key, item in tree.items() for k in (join(path, key), *_keys(item, join(path, key)))]


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict) or not tree:
        return {path: tree}
    return {k: v for key, item in tree.items() for k, v in _flat(item, join(path, key)).items()}
