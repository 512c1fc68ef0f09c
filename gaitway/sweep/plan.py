"""What a sweep searches, resolved and checked as ``gaitway train`` does it, before anything begins."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..catalogue import AGENTS, WORLDS, require
from ..config.tree import to_tree
from ..errors import ConfigError
from ..jobs import Job
from ..start import Order, admit_world, configuration
from .metric import EVALUATED, EXAMINATION, Metric, metric_of
from .space import Dimension, present_values, read_space

if TYPE_CHECKING:
    from ..train_config import TrainConfig

RUNGS = 10
"""Points of a trial at which it is compared with others."""
GRACE = 3
"""First of these points at which a trial may be ended: after 30 % of its steps."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A search: the task, what is fixed, what varies, and by which number."""

    task: str
    agent: str
    options: tuple[str, ...]
    """Further options of ``gaitway train``."""
    settings: tuple[str, ...]
    """Fixed ``key=value``."""
    threads: tuple[str, ...]
    """Threads of a trial as a setting, which may differ when a sweep is continued; empty if you set them."""
    space: tuple[Dimension, ...]
    metric: Metric
    seed: int
    prune: str
    total_steps: int
    begun: Mapping[str, Any]
    """The values for Optuna of the settings as they are; empty if they do not lie in the space."""

    def record(self) -> dict[str, Any]:
        """All that decides about trials, as plain data: a continued sweep must have the same."""
        return {
            "task": self.task,
            "agent": self.agent,
            "options": list(self.options),
            "settings": list(self.settings),
            "space": {each.key: str(each) for each in self.space},
            "metric": self.metric.name,
            "less is better": self.metric.lower,
            "seed": self.seed,
            "prune": self.prune,
            "total_steps": self.total_steps,
        }

    def chosen(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """``key=value`` of a trial."""
        return tuple(f"{each.key}={each.text(params[each.key])}" for each in self.space)

    def job(self, params: Mapping[str, Any], folder: Path, *, seed: int | None = None, name: str = "") -> Job:
        """The training of a trial, with the sweep's seed unless another is given."""
        return Job(
            self.task,
            self.agent,
            self.seed if seed is None else seed,
            folder,
            (*self.settings, *self.threads, *self.chosen(params)),
            self.options,
            name,
        )

    def command(self, params: Mapping[str, Any], out: Path) -> str:
        """The command that trains a trial's settings anew."""
        job = self.job(params, out)
        return shlex.join(["gaitway", *(word for word in job.command() if word not in ("--resume", "--quiet"))])


def make_plan(
    task: str,
    space: Sequence[str],
    settings: Sequence[str],
    *,
    agent: str | None,
    world: str | None = None,
    preset: str | None,
    config_file: Path | None,
    metric: str | None,
    minimize: bool,
    seed: int,
    prune: str,
    threads: int | None,
    trusted: Sequence[str] = (),
) -> tuple[Plan, TrainConfig]:
    """The search that is asked for, and the configuration that it varies. Raises :class:`ConfigError`.

    ``threads`` are those of a training that has none of its own; None leaves them. Trainings trust the modules
    ``trusted`` too.
    """
    if any(word.partition("=")[0].strip() == "seed" for word in settings):
        raise ConfigError("seed=...: a sweep takes its seed by --seed")
    admit_world(world)
    order = Order(task=task, settings=settings, agent=agent, world=world, preset=preset, config=config_file, seed=seed)
    config = configuration(order)
    require(f"training with {config.algorithm}", AGENTS[config.algorithm])
    require(f"training in {config.world}", WORLDS[config.world])
    values = present_values(to_tree(config))
    dimensions = read_space(space, values)
    fixed = {word.partition("=")[0].strip() for word in settings}
    for each in dimensions:
        if each.key in fixed:
            raise ConfigError(f"--space {each.key}: it has a fixed value among the settings too; leave one out")
        _probe(order, each)
    config = config.domain.preflight(config)
    options = [*(["--preset", preset] if preset else []), *(["--config", str(config_file)] if config_file else [])]
    options += ["--world", world] if world else []
    options += [word for module in trusted for word in ("--trust", module)]
    plan = Plan(
        task=task,
        agent=config.algorithm,
        options=tuple(options),
        settings=tuple(settings),
        threads=_threads(config, fixed | {each.key for each in dimensions}, threads),
        space=tuple(dimensions),
        metric=metric_of(metric, minimize=minimize, config=config, keys=[each.key for each in dimensions]),
        seed=seed,
        prune=prune,
        total_steps=config.total_steps,
        begun=_begun(dimensions, values),
    )
    return plan, config


def not_pruned(plan: Plan, config: TrainConfig) -> str:
    """The reason why no trial can be pruned although it is asked for; empty if they can be."""
    evaluated = plan.metric.name in EVALUATED or plan.metric.name.startswith("error/")
    if plan.prune == "none":
        return ""
    if evaluated and not config.evaluation_interval:
        return "evaluation_interval=0: trials are evaluated at their end only, so none can be pruned"
    if plan.metric.name == EXAMINATION and config.examination_interval >= config.total_steps:
        return f"examination_interval={config.examination_interval:,}: no trial is examined early enough to be pruned"
    return ""


def _probe(order: Order, dimension: Dimension) -> None:
    """Raise :class:`ConfigError` unless the configuration takes the ends of a range, or every choice."""
    for value in dimension.probes():
        setting = f"{dimension.key}={dimension.text(value)}"
        try:
            configuration(replace(order, settings=[*order.settings, setting]))
        except ValueError as error:
            raise ConfigError(f"--space {dimension.key}={dimension}: {error}") from None


def _threads(config: TrainConfig, said: set[str], threads: int | None) -> tuple[str, ...]:
    """The ``threads`` of a training as a setting, where neither user nor preset says how many it has."""
    return () if threads is None or config.num_threads or "num_threads" in said else (f"num_threads={threads}",)


def _begun(space: Sequence[Dimension], values: Mapping[str, Any]) -> dict[str, Any]:
    found = {each.key: each.value_of(values.get(each.key)) for each in space}
    return {} if None in found.values() else found
