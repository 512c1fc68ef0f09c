"""Parts of a language training: model, tokeniser, engine, world and trainer, built from a configuration."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gaitway_agents.core import distributed
from gaitway_agents.core.policy import computing
from gaitway_agents.interfaces import Engine, Sampling, TokenWorld
from gaitway_agents.language.asynchronous import AsynchronousWorld
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.distillation import DistillationConfig
from gaitway_agents.language.preference import PreferenceConfig
from gaitway_agents.language.reward_model import RewardModelConfig
from gaitway_agents.language.sequences import DrawnOrder, pad
from gaitway_agents.language.sft import SFTConfig
from gaitway_agents.models.reward_model import RewardModel
from gaitway_agents.models.token_critic import TokenCritic
from gaitway_agents.registry import TEXTS, load
from gaitway_language.conversation import Conversation
from gaitway_language.data import demonstrations
from gaitway_language.engines.make import make_engine
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.model import ModelError
from gaitway_language.sync import VerifiedEngine
from gaitway_language.world import TextWorld, prompt_tokens
from gaitway_tasks.language.rows import mixed
from gaitway_tasks.language.score import score
from gaitway_tasks.language.sources import MIXED_FROM, MixedSource
from gaitway_tasks.language.spec import LanguageTask, Row
from torch import nn

from ...runs.folder import RunFolder
from .data import fitting, learnt_fields, make_conversation, preferences
from .devices import find_device
from .models import load_writer, make_start, open_start
from .rewards import reward_model, reward_of_run

if TYPE_CHECKING:
    from gaitway_agents.trainer import Learner

    from ...train_config import TrainConfig

PROBES = 4
"""Prompts on which an engine is compared with the model."""


@dataclass
class TextTraining:
    """The parts of one training."""

    task: LanguageTask
    """Task, without the rows that are skipped."""
    model: nn.Module
    """The causal LM that learns, or the reward model."""
    conversation: Conversation
    trainer: Learner

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


def build_training(config: TrainConfig, run: RunFolder) -> TextTraining:
    """Everything that a training needs."""
    if distributed.rank() == 0:
        make_start(config, run)
    distributed.any_of(False, torch.device("cpu"))  # all begin with what the first has written
    model, tokenizer = open_start(config, run)
    agent = config.agent
    task, conversation = _texts(config, tokenizer, model)
    given: dict[str, Any] = {"seed": config.seed, "total_steps": config.total_steps}
    data: Any
    if isinstance(agent, SFTConfig):
        rows = task.source.rows("train")
        data = demonstrations(rows, task, conversation, last_only=agent.last_answer_only)
    elif isinstance(agent, RewardModelConfig | PreferenceConfig):
        single = isinstance(agent, PreferenceConfig) and agent.loss == "kto"
        data = preferences(task, conversation, "train", single=single)
    else:
        data = _world(config, run, model, task, conversation)
    if isinstance(agent, DistillationConfig):
        given["teacher"] = _teacher(config, tokenizer)
        if agent.answered < agent.prompts_per_step:
            given["demonstrations"] = demonstrations(task.source.rows("train"), task, conversation)
    if isinstance(agent, PolicyGradientConfig) and agent.advantage == "gae":
        given["critic"] = _critic(task, model)
    trainer = load(TEXTS[config.algorithm].trainer)(model, data, agent, **given)
    if isinstance(config.task.source, MixedSource) and getattr(trainer, "order", None) is not None:
        trainer.order = _mixed_order(config.task.source, task.source.rows("train"), trainer.order.length, config.seed)
    if config.agent.optimizer.store == "fsdp":
        data.engine.score_with = functools.partial(_scores, trainer)
    return TextTraining(task, model, conversation, trainer)


def _scores(trainer: Any, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
    """Log-probabilities at temperature 1 of every token but the first, by a policy that lies in parts in several
    processes, all of which ask."""
    policy, device = trainer.policy, trainer.device
    tokens, lengths, mask = pad([(torch.tensor(s), torch.arange(len(s)) > 0) for s in sequences], device)
    usual, policy.temperature = policy.temperature, 1.0
    try:
        with torch.no_grad(), computing(device, trainer.optimizer.config.precision):
            found = policy.log_probs(tokens, lengths, mask)[0]
    finally:
        policy.temperature = usual
    return [row[1:length].tolist() for row, length in zip(found, lengths.tolist(), strict=True)]


def _mixed_order(source: MixedSource, rows: Sequence[Row], length: int, seed: int) -> DrawnOrder:
    """The order in which ``length`` examples made of ``rows``, as many of each, are read by the weights of files."""
    each = length // len(rows)  # a pair may be two single answers
    numbers: dict[str, list[int]] = {name: [] for name in source.files}
    for number, row in enumerate(rows):
        numbers[row[MIXED_FROM]] += range(each * number, each * (number + 1))
    return DrawnOrder(lambda: mixed(dict(sorted(numbers.items())), source.weights, seed), length)


def world_for_answers(config: TrainConfig, training: TextTraining) -> TextWorld:
    """A world that answers with the weights as they are now: the agent's own, or one made for the purpose."""
    world = getattr(training.trainer, "world", None)
    if isinstance(world, TextWorld):
        return world
    options = config.language
    copied = options.lora is None or not options.lora.four_bits  # which a copy would take four times the memory of
    dtype: torch.dtype | None = getattr(torch, options.dtype) if copied and training.device.type == "cuda" else None
    engine = TransformersEngine(training.model, dtype=dtype, batch_size=options.batch_size, copied=copied)
    return text_world(config, training.task, training.conversation, engine)


def text_world(
    config: TrainConfig, task: LanguageTask, conversation: Conversation, engine: Engine, *, ahead: int = 0
) -> TextWorld:
    """Prompts of ``task``, answered by ``engine`` as the configuration says and judged by the task's rewards."""
    options = config.language
    sampling = Sampling(
        max_tokens=task.max_completion_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        stop_tokens=conversation.stops,
    )

    def judge(
        prompts: Sequence[str], completions: Sequence[str], rows: Sequence[Row]
    ) -> tuple[Sequence[float], Mapping[str, Sequence[float]]]:
        # Rewards get prompts as the rows have them, text or messages, as TRL's do.
        return score(task, [row["prompt"] for row in rows], completions, rows)

    share = (distributed.rank(), distributed.size())
    return TextWorld(task, conversation, engine, sampling, judge, seed=config.seed, ahead=ahead, share=share)


def _texts(config: TrainConfig, tokenizer: Any, model: nn.Module) -> tuple[LanguageTask, Conversation]:
    """The task as it is learnt, and how its texts become tokens."""
    task = config.task
    conversation = make_conversation(task, tokenizer, model)
    return fitting(task, conversation, learnt_fields(task, config.algorithm, config.agent)), conversation


def _world(
    config: TrainConfig, run: RunFolder, model: nn.Module, task: LanguageTask, conversation: Conversation
) -> TokenWorld:
    options = config.language
    if options.staleness:
        return AsynchronousWorld(
            functools.partial(_world_elsewhere, config, run.path),
            staleness=options.staleness,
            threads=config.num_threads or 1,
        )
    engine = checked_engine(config, model, task, conversation, _probes(task))
    return text_world(config, task, conversation, engine, ahead=options.ahead)


def _probes(task: LanguageTask) -> Iterable[Row]:
    return islice(task.source.stream("train", 0), PROBES)


def checked_engine(
    config: TrainConfig,
    model: nn.Module,
    task: LanguageTask,
    conversation: Conversation,
    rows: Iterable[Row],
    *,
    learning: bool = True,
) -> VerifiedEngine:
    """The engine that ``config`` asks for, with room for what ``task`` allows, compared with ``model`` on ``rows``."""
    agent: Any = config.agent
    return make_engine(
        config.language.of_process(distributed.rank()),
        model,
        [prompt_tokens(row, task, conversation) for row in rows],
        longest=task.max_prompt_tokens + task.max_completion_tokens,
        precision=agent.optimizer.precision,
        learning=learning,
    )


def _world_elsewhere(config: TrainConfig, path: Path) -> TextWorld:
    """The world of a process that only samples, with weights of its own."""
    model, tokenizer = open_start(config, RunFolder.open(path), learning=False)
    task, conversation = _texts(config, tokenizer, model)
    engine = checked_engine(config, model, task, conversation, _probes(task), learning=False)
    return text_world(config, task, conversation, engine, ahead=config.language.ahead)


def _teacher(config: TrainConfig, tokenizer: Any) -> nn.Module:
    """The model to learn from; it must have the tokens of the one that learns."""
    loaded = load_writer(config.language.teacher, config.device)
    if loaded.tokenizer.get_vocab() != tokenizer.get_vocab():
        raise ModelError(
            f"--teacher {config.language.teacher} has other tokens than {config.language.model}: its distributions can "
            "be learnt only by a model with the same tokeniser, of the same family as a rule"
        )
    return loaded.model.to(find_device(config.device))


def _critic(task: LanguageTask, model: nn.Module) -> TokenCritic:
    """One that begins as the reward model, where a run of such says what answers are worth."""
    params = next((reward.params for reward in task.rewards.values() if reward.func is reward_of_run), None)
    if params is None:
        return TokenCritic(model)
    scorer = reward_model(params["run"]).model
    assert isinstance(scorer, RewardModel)
    critic = TokenCritic.of(scorer)
    return critic.to(next(model.parameters()).device)
