"""What ``gaitway evaluate`` does: a model, whatever it comes from, before the held-out problems of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_language.engines.make import make_engine
from gaitway_language.world import prompt_tokens

from ..config import merge, resolve
from ..errors import ConfigError, UserError
from ..files import make_folder
from ..runs import is_run
from .build import text_world
from .data import converse, fitting
from .evaluate import EVALUATIONS, Evaluation, examine
from .models import language_run, language_task, load_writer, options_of
from .pages import write_page
from .settings import Choices

if TYPE_CHECKING:
    from ..config import TrainConfig


def hold_exam(
    source: str,
    *,
    task: str | None,
    settings: Sequence[str],
    samples: int,
    problems: int | None,
    rollout: str,
    seed: int,
    out: Path | None,
) -> tuple[Path, Evaluation]:
    """Examine the model of ``source``; returns the path of page and numbers, less its suffix, and the numbers."""
    config = exam_config(source, task, settings, rollout)
    loaded = load_writer(source, config.device)
    asked = language_task(config)
    conversation = converse(asked, loaded.tokenizer)
    asked = fitting(asked, conversation)
    if not asked.rewards:
        raise ConfigError(
            f"{asked.name} has no rewards, so nothing says what an answer is worth: give its rows a field 'answer', or "
            "set one, as in 'task.rewards.mine={func: module:function}'"
        )
    rows = asked.source.rows("test")[:problems]
    engine = make_engine(
        options_of(config),
        loaded.model,
        loaded.tokenizer,
        [prompt_tokens(row, asked, conversation) for row in rows[:1]],
    )
    try:
        world = text_world(config, asked, conversation, engine)
        evaluation = examine(world, rows, model=source, steps=loaded.steps, samples=samples, seed=seed)
    finally:
        engine.close()
    folder = out or (Path(source) / EVALUATIONS if is_run(Path(source)) else Path("runs/evaluations") / _plain(source))
    make_folder(folder)
    path = folder / _plain(asked.name)
    evaluation.save(path.with_suffix(".json"))
    write_page(evaluation, path.with_suffix(".html"))
    return path, evaluation


def exam_config(source: str, task: str | None, settings: Sequence[str], rollout: str) -> TrainConfig:
    """The configuration in which a model is asked: its run's own, or the usual one of ``task``."""
    if is_run(Path(source)):
        stored = language_run(Path(source)).config()
        if task is None or task == stored.task.name:
            return merge(replace(stored, language=_engine(options_of(stored), rollout)), None, settings)
    elif task is None:
        raise UserError(
            f"--task is missing: {source} is no run, which would know its task; 'gaitway list tasks' has some"
        )
    return resolve(str(task), agent="grpo", overrides=settings, choices=Choices(model=source, rollout=rollout))


def _engine(options: Any, rollout: str) -> Any:
    """The same model through another engine."""
    return replace(options, rollout=rollout, server="", staleness=0)


def _plain(name: str) -> str:
    return name.strip("/").replace("/", "-").replace(":", "-")
