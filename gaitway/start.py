"""Begin or continue a training: what ``gaitway train`` and :func:`gaitway.train` have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError
from gaitway_files.trust import trust
from gaitway_tasks.registry import UnknownNameError

from .backends.table import BACKENDS, backend, engines
from .catalogue import AGENTS, LOGGERS, MUJOCO, WORLDS, admit_agent, require
from .errors import RunError
from .terminal import hushed, say
from .training import processes

if TYPE_CHECKING:
    from .callback import Callback
    from .runs.folder import RunFolder
    from .train_config import TrainConfig


RESUMABLE = (
    "total_steps", "num_threads", "checkpoint_interval", "keep_checkpoints", "logger", "evaluation_episodes",
    "evaluation_interval", "until", "least_steps", "examination_interval",
    "device", "language.server", "language.gpu_memory", "language.gradient_checkpointing",
    "agent.optimizer.offload",
)  # fmt: skip
"""Settings that may change when a run is continued; any other would make it a different run."""
NO_PRESET = "none"
"""Name of no preset, where the task has a usual one."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A training that is asked for; None where nothing is said. The fields are the options of ``gaitway train``."""

    task: Any
    """Name of a task, or a task itself."""
    settings: Sequence[str] = ()
    """``key=value``, the highest layer of settings."""
    agent: str | None = None
    world: str | None = None
    physics: str | None = None
    preset: str | None = None
    config: Path | None = None
    seed: int | None = None
    out: Path | None = None
    resume: bool = False
    quiet: bool = False
    distributed: bool = False
    callbacks: Sequence[Callback] = ()
    """Callbacks from Python; no option gives them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that only one kind of task has, such as ``model`` or ``parameters``."""


def begin(order: Order) -> tuple[Path | None, int]:
    """Train as ordered; returns the run's folder, None where another process writes it, and the exit code.

    Raises a :class:`UserError` for what is wrong with the order before anything is written, and a
    :class:`gaitway_files.errors.NotDone` for a training that failed.
    """
    with hushed(order.quiet or (order.distributed and not _keeps_records())):
        return _begin(order)


def _begin(order: Order) -> tuple[Path | None, int]:
    task, agent, world, path = _admitted(order)
    from gaitway_agents.core import distributed

    from .domains.table import domain_of
    from .runs import folder as runs

    domain = domain_of(task)
    continued = order.resume and path is not None and runs.is_run(path)
    path, continued = processes.of_first((path, continued))
    if continued and path is not None:
        return path, _resume(order, path)
    require(f"training in {world}", WORLDS[world])
    config, preset = configuration(order), preset_of(order)
    if order.distributed:
        check_together(config, "--distributed")
    domain.check_size(config, distributed.size())
    _check_installed(config)
    config = domain.preflight(config)
    domain.start(config)
    folder = None
    if _keeps_records():
        folder = runs.RunFolder.create(path or runs.default_folder(task.name, agent, config.seed), config)
    shared = processes.of_first(None if folder is None else folder.path)
    if folder is None:
        assert shared is not None
        return None, _train(config, runs.RunFolder.open(shared) if runs.is_run(shared) else None, order)
    say(f"training {task.name} with {agent} in {world}, seed {config.seed}, run folder {folder.path}")
    if preset is not None and order.preset is None:
        say(f"preset {preset}, since {world} simulates on the CPU; --preset {NO_PRESET} has Isaac Lab's own numbers")
    _print_notes(config, continued=False)
    return folder.path, _train(config, folder, order)


def _admitted(order: Order) -> tuple[Any, str, str, Path | None]:
    """Task, agent, world and named or newest folder of an order, whose names are known and needs are installed."""
    trust_named(order.task)
    trust_named(order.agent)
    admit_agent(order.agent)
    if order.agent is not None and order.agent not in AGENTS:
        raise UnknownNameError("agent", order.agent, AGENTS)
    agent, needed = order.agent or "ppo", order.world or ""
    complete = needed in BACKENDS and backend(needed).brings_torch
    require(f"training with {agent}", WORLDS[needed] if complete else AGENTS[agent])

    from .domains.table import domain_of, find_task, worlds_of
    from .runs import folder as runs

    task = find_task(order.task, _named_preset(order))
    agent, world = order.agent or domain_of(task).usual_agent, order.world or worlds_of(task)[0]
    if world not in WORLDS:
        raise UnknownNameError("world", world, WORLDS)
    return task, agent, world, order.out or (runs.newest_run(task.name, agent) if order.resume else None)


def admit_world(world: str | None) -> None:
    """Raise for a world that there is not, or whose packages are missing; None is the task's usual one."""
    if world is not None:
        if world not in WORLDS:
            raise UnknownNameError("world", world, WORLDS)
        require(f"training in {world}", WORLDS[world])


def planned(order: Order) -> TrainConfig:
    """The configuration that :func:`begin` will train with in each of several processes, before they start."""
    *_, world, path = _admitted(order)
    from .runs import folder as runs

    if order.resume and path is not None and runs.is_run(path):
        return _changed(order, runs.RunFolder.open(path).config(), path)
    require(f"training in {world}", WORLDS[world])
    return configuration(replace(order, settings=["processes=1", *order.settings]))  # a preset would choose two


def check_together(config: TrainConfig, asked: str) -> None:
    """Raise where several processes, which the option ``asked`` is for, cannot learn as one."""
    config.domain.check_together(config, asked, f"leave {asked.split()[0]} out")
    if config.processes > 1:
        raise UserError(f"{asked} with processes={config.processes}: both say how many; leave processes out")


def told(order: Order) -> str:
    """An order in words that are the same in all processes that may train as one."""
    names = ("agent", "world", "physics", "preset", "config", "seed", "resume")
    more = {name: value for name in names if (value := getattr(order, name))} | dict(order.options)
    return " ".join([str(order.task), *order.settings, *(f"--{name} {value}" for name, value in more.items())])


def configuration(order: Order) -> TrainConfig:
    """The configuration of a new training."""
    from .domains.table import find_task, worlds_of
    from .train_config import resolve

    trust_named(order.task)
    trust_named(order.agent)
    world = order.world or worlds_of(find_task(order.task, _named_preset(order)))[0]
    return resolve(
        order.task,
        agent=order.agent,
        preset=preset_of(order),
        config_file=order.config,
        overrides=settings_of(order, world),
        options=order.options,
        seed=order.seed,
        world=order.world,
    )


def trust_named(name: Any) -> None:
    """Trust the module of a task or agent that the user calls ``module:object``."""
    if isinstance(name, str) and ":" in name and not name.startswith(("gym:", "verifiers:")):
        trust(name)


def _named_preset(order: Order) -> str | None:
    return None if order.preset == NO_PRESET else order.preset


def preset_of(order: Order) -> str | None:
    """The preset of a new run: the task's usual one unless one is named. A file of settings is taken as it is."""
    from .domains.table import domain_of, find_task, worlds_of

    if order.preset is not None or order.config is not None:
        return _named_preset(order)
    if not isinstance(order.task, str):
        return None
    task = find_task(order.task)
    return domain_of(task).usual_preset(order.task, order.world or worlds_of(task)[0])


def settings_of(order: Order, world: str) -> list[str]:
    """The settings of an order, and what its physics stands for."""
    settings = list(order.settings)
    if order.physics is None:
        return settings
    owner = engines()[order.physics]
    if world != owner:
        raise UserError(f"--physics {order.physics} is an engine of {BACKENDS[owner].title}: add --world {owner}")
    return settings + backend(world).chosen(order.physics)


def _keeps_records() -> bool:
    from gaitway_agents.core import distributed

    return distributed.rank() == 0


def _print_notes(config: TrainConfig, *, continued: bool) -> None:
    for line in config.domain.notes(config, continued=continued):
        say(line)


def _train(config: TrainConfig, folder: RunFolder | None, order: Order) -> int:
    """Train in the simulator that the world needs; without records where ``folder`` is another process's."""
    from .training.loop import train, train_along

    if not _keeps_records():
        return train_along(config, folder)
    if order.callbacks and config.processes > 1:
        say(
            f"callbacks run in the first of the {config.processes} processes only; steps and losses are those of all, "
            "episodes those of its environments"
        )
    assert folder is not None
    with processes.companions(config.processes, folder.path):
        return train(config, folder, quiet=order.quiet, callbacks=order.callbacks)


def _resume(order: Order, path: Path) -> int:
    from .runs.folder import RunFolder

    if not _keeps_records():
        return _continue(order, path, RunFolder.open(path))
    lock = RunFolder.open(path).lock
    with lock:
        folder = RunFolder.open(path)  # as the process that held it before has left it
        folder.lock = lock
        return _continue(order, path, folder)


def _continue(order: Order, path: Path, folder: RunFolder) -> int:
    from gaitway_agents.core import distributed

    from .config.overrides import trust_settings
    from .domains.table import find_task
    from .runs.files import refuse_links
    from .train_config import difference

    refuse_links(*path.iterdir())
    trust_settings(order.settings)
    stored = folder.config()
    _check_edits(folder)
    if stored.task.name != (asked_task := find_task(order.task, _named_preset(order)).name):
        raise RunError(f"{path} is a run of {stored.task.name}, not of {asked_task}: choose another --out")
    for name, key in (("seed", "seed"), ("preset", "preset"), ("world", "world"), ("agent", "algorithm")):
        asked, had = getattr(order, name), getattr(stored, key)
        if asked is not None and asked != had and (name, asked, had) != ("preset", NO_PRESET, None):
            raise RunError(f"{path} was started with --{name} {had}, not {asked}: choose another --out")
    require(f"training in {stored.world}", WORLDS[stored.world])
    config = _changed(order, stored, path)
    if changed := [key for key in difference(stored, config) if key not in RESUMABLE]:
        raise UserError(
            f"{changed[0]} cannot change when a run is continued (only {', '.join(RESUMABLE)} can): "
            "start a new run with another --out"
        )
    steps = folder.record["steps"]
    if config.total_steps < steps and config.total_steps != stored.total_steps:
        raise UserError(
            f"total_steps={config.total_steps:,}: {path} has done {steps:,} steps already; give a greater number or "
            "leave it out"
        )
    if folder.record["status"] == "finished":
        if steps >= config.total_steps:
            print(f"{path} is finished: {steps:,} steps; raise total_steps to train on")
            return 0
        if _stays_good(folder, stored, config):
            print(f"{path} is finished: good after {steps:,} steps; raise least_steps or total_steps to train on")
            return 0
    if order.distributed:
        check_together(config, "--distributed")
    config.domain.check_size(config, distributed.size())
    _check_installed(config)
    config.domain.start(config.domain.as_begun(config, folder.record))
    if not _keeps_records():
        return _train(config, folder, order)
    say(f"continuing {path} after {folder.record['steps']:,} of {config.total_steps:,} steps")
    _print_notes(config, continued=True)
    folder.set_config(config)
    return _train(config, folder, order)


def _changed(order: Order, stored: TrainConfig, path: Path) -> TrainConfig:
    """The configuration of the run in ``path``, with what an order to continue it changes."""
    from .domains.table import check_options
    from .train_config import merge

    check_options(stored.task, order.options)
    chosen = stored.domain.check_continued(stored, order.options, path)
    return merge(stored, order.config, [*chosen, *settings_of(order, stored.world)])


def _check_installed(config: TrainConfig) -> None:
    """Refuse, before a simulator starts, to examine where MuJoCo is missing or too old, or to log where nothing can."""
    if config.until == "good":
        require("--until good examines in MuJoCo, which", MUJOCO)
    for name in config.logger:
        require(f"--logger {name}", LOGGERS[name])


def _stays_good(folder: RunFolder, stored: TrainConfig, config: TrainConfig) -> bool:
    """True if a finished run has passed its examination and no more steps are asked for."""
    from .training.examinations import GOOD

    asked = config.until == "good" and config.total_steps == stored.total_steps
    return folder.record.get("reason") == GOOD and asked and folder.record["steps"] >= config.least_steps


def _check_edits(folder: RunFolder) -> None:
    """Refuse a configuration that differs from the run's in settings that must not change."""
    edited = {key: pair for key, pair in folder.edited().items() if key not in RESUMABLE}
    if not edited:
        return
    key, (then, now) = next(iter(edited.items()))
    more = f" (and {len(edited) - 1} more: {', '.join(list(edited)[1:6])})" if len(edited) > 1 else ""
    raise RunError(
        f"{folder.path}/config.yaml is not what the run was trained with: {key} was {then!r} and is {now!r}{more}. "
        "Put it back to continue the run, or start a new one with another --out"
    )
