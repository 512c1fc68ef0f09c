"""Implementation of ``gaitway evaluate``: a model from any source on the held-out problems of a task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_agents.core.batch import Batch
from gaitway_agents.language.reward_model import RewardModelConfig
from gaitway_agents.models.reward_model import RewardModel
from gaitway_files.errors import UserError
from gaitway_files.reading import read_text
from gaitway_language.data import preferences
from gaitway_tasks.language.spec import LanguageTask, Row
from torch import Tensor

from ...config.overrides import trust_settings
from ...errors import ConfigError
from ...runs.choice import Which
from ...runs.files import make_folder, refuse_links, write_text_atomically
from ...runs.folder import is_run
from ...train_config import merge, resolve
from ..table import find_task
from .build import checked_engine, text_world
from .data import fitting, make_conversation
from .evaluate import EVALUATIONS, Evaluation, Problem, evaluate, surprise
from .models import language_run, load_run, load_writer
from .pages import write_page
from .ranking import rank
from .statistics import Measure

if TYPE_CHECKING:
    from ...train_config import TrainConfig


def evaluate_source(
    source: str,
    *,
    task: str | None,
    settings: Sequence[str],
    samples: int,
    problems: int | None,
    rollout: str,
    seed: int,
    out: Path | None,
    name: str | None = None,
    prefill: str = "",
    right: Path | None = None,
    pairs: Path | None = None,
    plain: Path | None = None,
    which: Which = None,
) -> tuple[Path, Evaluation]:
    """Examine the model of ``source``; returns the path of page and numbers, less its suffix, and the numbers.

    ``which`` is the checkpoint of a run.
    ``plain`` is a text file whose perplexity is measured too.
    ``right`` is a file for right samples, ``pairs`` one for pairs of a right and a wrong sample; either is of new
    training problems in place of the held-out ones.
    """
    training = right is not None or pairs is not None
    if training and (not samples or problems is None):
        raise UserError(
            f"--{'right' if pairs is None else 'pairs'} keeps samples of training problems, which never end: add "
            "--samples and --problems"
        )
    text = None if plain is None else read_text(plain)
    config = evaluation_config(source, task, settings, rollout)
    config.domain.prepare(config)
    loaded = load_writer(source, config.device, which)
    asked = config.task
    conversation = make_conversation(asked, loaded.tokenizer, loaded.model, prefill)
    asked = fitting(asked, conversation)
    if not asked.rewards and not asked.plays:
        raise ConfigError(
            f"{asked.name} has no rewards, so nothing says what an answer is worth: give its rows a field 'answer', or "
            "set one, as in 'task.rewards.mine={func: module:function}'"
        )
    if not training:
        rows = asked.source.rows("test")[:problems]
    else:
        rows = list(islice(asked.source.stream("train", seed), problems))
    engine = checked_engine(config, loaded.model, asked, conversation, rows[:1])
    try:
        world = text_world(config, asked, conversation, engine)
        evaluation = evaluate(world, rows, model=source, steps=loaded.steps, samples=samples, seed=seed)
        if text is not None:
            tokens = loaded.tokenizer.encode(text, add_special_tokens=False)
            evaluation = replace(evaluation, surprise=surprise(engine, tokens))
    finally:
        engine.close()
    folder = out or (Path(source) / EVALUATIONS if is_run(Path(source)) else Path("runs/evaluations") / _plain(source))
    if out is None:
        refuse_links(folder)
    make_folder(folder)
    usual = asked.name if not training else f"{asked.name}-training"
    usual += f"-{loaded.steps}" if isinstance(which, int) else ""  # one checkpoint does not replace another
    path = folder / _plain(name or usual)
    evaluation.save(path.with_suffix(".json"))
    write_page(evaluation, path.with_suffix(".html"))
    if right is not None:
        keep_right(evaluation, rows, right)
    if pairs is not None:
        keep_pairs(evaluation, rows, pairs)
    return path, evaluation


def keep_right(evaluation: Evaluation, rows: Sequence[Row], path: Path) -> None:
    """Write each distinct right sample as a demonstration, ``prompt`` and ``completion``: a task of a file."""
    kept = [
        {"prompt": row["prompt"], "completion": text}
        for row, problem in zip(rows, evaluation.problems, strict=True)
        for text in _distinct(problem, right=True)
    ]
    _keep(kept, path, "--right", "none of the samples is right")


def keep_pairs(evaluation: Evaluation, rows: Sequence[Row], path: Path) -> None:
    """Write each right sample with a wrong one to the same problem, ``prompt``, ``chosen`` and ``rejected``."""
    kept = [
        {"prompt": row["prompt"], "chosen": chosen, "rejected": rejected}
        for row, problem in zip(rows, evaluation.problems, strict=True)
        for chosen, rejected in zip(_distinct(problem, right=True), _distinct(problem, right=False), strict=False)
    ]
    _keep(kept, path, "--pairs", "no problem has a right and a wrong sample")


def _distinct(problem: Problem, *, right: bool) -> list[str]:
    return list(dict.fromkeys(a.last_turn or a.text for a in problem.samples if a.is_right is right))


def _keep(rows: Sequence[Row], path: Path, option: str, otherwise: str) -> None:
    if not rows:
        raise UserError(f"{option} {path}: {otherwise}, so nothing was written")
    make_folder(path.absolute().parent)
    write_text_atomically(path, "".join(f"{json.dumps(row)}\n" for row in rows))


def is_reward_model(source: str) -> bool:
    """True if ``source`` is a run of a reward model."""
    path = Path(source)
    return is_run(path) and isinstance(language_run(path).config().agent, RewardModelConfig)


def evaluate_reward_model(
    source: str, *, task: str | None, settings: Sequence[str], problems: int | None, which: Which = None
) -> Measure:
    """Share of held-out pairs of which a run's reward model prefers the chosen answer."""
    run = language_run(Path(source))
    config = merge(run.config(), None, settings)
    config.domain.prepare(config)
    loaded, asked = load_run(run, which), config.task
    assert isinstance(loaded.model, RewardModel)
    if task is not None and task != asked.name:
        asked = find_language_task(task)
    rows = asked.source.rows("test")[:problems]
    pairs = preferences(rows, asked, make_conversation(asked, loaded.tokenizer))
    model = loaded.model

    def scores(batch: Batch) -> Tensor:
        lengths = batch.observations["lengths"]
        return model.score(batch.actions.flatten(0, 1), lengths.flatten()).view(lengths.shape)

    return rank(pairs, scores, next(model.parameters()).device)


def find_language_task(name: str) -> LanguageTask:
    found = find_task(name)
    if not isinstance(found, LanguageTask):
        raise ConfigError(f"--task {name}: is no language task; 'gaitway list tasks' shows them")
    return found


def evaluation_config(source: str, task: str | None, settings: Sequence[str], rollout: str) -> TrainConfig:
    """The configuration in which a model is asked: its run's own, or the usual one of ``task``."""
    trust_settings(settings)
    if is_run(Path(source)):
        stored = language_run(Path(source)).config()
        if task is None or task == stored.task.name:
            return merge(replace(stored, language=_engine(stored.language, rollout)), None, settings)
    elif task is None:
        raise UserError(
            f"--task is missing: {source} is no run, which would know its task; 'gaitway list tasks' has some"
        )
    find_language_task(str(task))
    return resolve(str(task), agent="grpo", overrides=settings, options={"model": source, "rollout": rollout})


def _engine(options: Any, rollout: str) -> Any:
    """The same model through another engine."""
    return replace(options, rollout=rollout, server="", transport="http", staleness=0, max_staleness=None)


def _plain(name: str) -> str:
    return name.strip("/").replace("/", "-").replace(":", "-")
