"""Likely cause of a FAIL and the command that trains on, from the run that a bundle is of."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .config.overrides import changes
from .config.tree import to_tree
from .runs.folder import RunFolder

if TYPE_CHECKING:
    from gaitway_sim2real.trial import Verdict
    from gaitway_sim2real.trial.why import Advice

    from .train_config import TrainConfig

NOT_RECIPES = (
    "seed", "num_threads", "processes", "device", "logger", "checkpoint_interval", "keep_checkpoints", "until",
    "evaluation_episodes", "evaluation_interval", "examination_interval", "against",
)  # fmt: skip
"""Settings that differ between machines and purposes, and are no cause."""
MORE_STEPS = 2
"""Times as many steps as were done, for a training that goes on."""
MOST = 4
"""Settings of its own that the next command keeps."""


def advise(bundle: Path, run: Path, verdict: Verdict) -> Advice:
    """Likely cause and next command for a policy of ``run``; without a recipe for its task, only the command."""
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.trial.causes import likely
    from gaitway_sim2real.trial.suites import suite_of
    from gaitway_sim2real.trial.why import Advice

    folder = RunFolder.open(run)
    config = folder.config()
    command = (
        f"gaitway train {shlex.quote(config.task.name)} --out {shlex.quote(str(short(run)))} --resume --until good"
    )
    command += f" total_steps={max(config.total_steps, MORE_STEPS * int(folder.record['steps']))}"
    recipe = _recipe(config)
    if recipe is None:
        return Advice(command=command)
    differs = {
        key: pair
        for key, pair in changes(to_tree(recipe), to_tree(config)).items()
        if key.partition(".")[0] not in NOT_RECIPES
    }
    suite = suite_of(Contract.load(bundle))
    found = likely(suite.causes, verdict.failures(), suite.themes, differs)
    if found is None:
        keys = ", ".join(list(differs)[:4])
        cause = (
            f"none is known of the settings that differ from the recipe ({keys})"
            if differs
            else (f"the settings are the recipe's, so it may need more than its {folder.record['steps']:,} steps")
        )
        return Advice(cause=cause, command=command)
    if found.key == "total_steps":
        return Advice(cause=found.sentence(), command=command)
    others = [f"{key}={own}" for key, (_, own) in differs.items() if key != found.key and _plain(own)]
    words = ["gaitway", "train", config.task.name, "--preset", recipe.preset or "", "--until", "good"]
    return Advice(cause=found.sentence(), command=shlex.join([*words, *others[:MOST]]))


def _recipe(config: TrainConfig) -> TrainConfig | None:
    """The usual preset of the same task; None for a task without one."""
    from .domains.table import domain_of
    from .train_config import resolve

    try:
        preset = domain_of(config.task).usual_preset(config.task.name, config.world)
        if preset is None:
            return None
        return resolve(config.task.name, agent=config.algorithm, preset=preset, world=config.world)
    except UserError:  # a task of a module, which has no name here
        return None


def _plain(value: Any) -> bool:
    return isinstance(value, int | float | str | bool)


def short(path: Path) -> Path:
    """The path as it is typed from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
