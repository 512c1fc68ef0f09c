"""Everything about a language training that can be found wrong before a model is loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gaitway_agents.core import distributed
from gaitway_agents.language.reward_model import RewardModelConfig
from gaitway_agents.registry import TEXTS
from gaitway_language.conversation import Conversation
from gaitway_language.memory import (
    TURNS,
    Saving,
    affordable,
    available_memory,
    check_memory,
    estimate_host_memory,
    estimate_memory,
    estimate_teacher,
)
from gaitway_language.model import max_positions
from gaitway_language.options import LanguageOptions
from gaitway_language.world import check_ahead, prompt_tokens
from gaitway_tasks.language.score import score
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.language.tasks import check_task

from ...catalogue import VLLM, install_line
from ...errors import ConfigError, RunError
from ...runs.folder import is_run
from ...terminal import say
from ...training.processes import of_first
from .data import Fitting, check_curriculum, check_fields, check_lengths, fitting, learnt_fields, make_conversation
from .devices import find_device, let_memory_grow, usual_dtype
from .models import START, language_run, tokenizer_of

if TYPE_CHECKING:
    from ...train_config import TrainConfig

LOOK = 256
"""Rows of an endless source that are looked at."""
HOST = torch.device("cpu")
FEW = 4
"""Answers that rewards are asked about."""


def preflight(config: TrainConfig) -> TrainConfig:
    """Read all rows, put them into tokens, ask for a reward, and look for model, device and engine.

    Says how many rows there are; returns the configuration with what saves memory where that is needed. Raises a
    ``ValueError`` that names what is wrong, with its row or setting.
    """
    options, task = config.language, config.task
    let_memory_grow(options.rollout)
    find_device(config.device)
    if options.rollout == "vllm" and not options.cluster and (missing := VLLM.missing()):
        raise ConfigError(f"--rollout vllm needs {', '.join(missing)}, not installed here: {install_line(VLLM.extras)}")
    check_fields(task, config.algorithm, config.agent)
    check_curriculum(task, config.algorithm)
    check_ahead(options.ahead, task)
    counts = check_task(task)
    if is_run(Path(options.model)):
        _check_run(Path(options.model), config)
    conversation = make_conversation(task, tokenizer_of(config))
    first = _first(options)
    most = max_positions(first.model) if first.tiny is None else first.tiny.max_positions
    # Only a model that writes answers needs room for the longest that a task allows.
    given = first.tiny is None and not TEXTS[config.algorithm].samples
    too_long, longest = _check_rows(
        task, conversation, learnt_fields(task, config.algorithm, config.agent), most if given else None
    )
    skipped = counts["skipped"] + too_long
    room = longest + task.max_completion_tokens
    if given and most is not None:
        room = min(room, most)
    elif most is not None and room > most:
        raise ConfigError(_no_room(task, longest, most, first))
    _ask_rewards(task)
    config = _fitted(config, room)
    say(_computing(config))
    told = f"{counts['train']:,} rows to learn from, {counts['test']:,} held out"
    if skipped:  # a warning, which --quiet does not leave out
        print(f"{task.name}: {told}, {skipped:,} skipped", flush=True)
    else:
        say(f"{task.name}: {told}")
    return config


def _computing(config: TrainConfig) -> str:
    """Precision of weights, forward passes and engine, as text."""
    options, agent = config.language, config.agent
    learning = "weights in float32" if options.lora is None else f"adapters in float32 on weights in {options.dtype}"
    passes = agent.optimizer.precision
    return f"{options.model}: {learning}, forward passes in {passes}, engine in {options.dtype}"


def _check_run(path: Path, config: TrainConfig) -> None:
    run = language_run(path)
    if not run.checkpoints():
        raise RunError(f"--model {path}: this run has no checkpoint yet; train it first")
    judges = isinstance(run.config().agent, RewardModelConfig)
    if judges and not isinstance(config.agent, RewardModelConfig):
        raise RunError(f"--model {path}: this run made a reward model, which writes nothing; pass it to --reward-model")


def _first(options: LanguageOptions) -> LanguageOptions:
    """Options with the folder or hub id of the model that a run began with, in place of the run."""
    while is_run(Path(options.model)):
        start = Path(options.model) / START
        if start.exists():
            options = replace(options, model=str(start))
        else:
            options = replace(options, model=language_run(Path(options.model)).config().language.model)
    return options


def _no_room(task: LanguageTask, longest: int, most: int, options: LanguageOptions) -> str:
    prompt = "task.max_prompt_tokens" if longest == task.max_prompt_tokens else f"the longest prompt, {longest} tokens,"
    what = f"the {most} that {options.model} sees: lower those"
    if options.tiny is not None:
        what = f"language.tiny.max_positions={most}: raise that, or lower those"
    return f"{prompt} + task.max_completion_tokens = {longest + task.max_completion_tokens} is more than {what}"


def _fitted(config: TrainConfig, sequence: int) -> TrainConfig:
    """``config``, computing activations anew, and with Adam's moments off the GPU, if it does not fit without.

    Raises ``ModelError`` if the device has too little memory for that.
    """
    agent, options, device = config.agent, _first(config.language), find_device(config.device)
    teacher = _teacher(config.language.teacher, device)
    if options.tiny is not None:
        if teacher is not None:  # beside which a tiny model is nothing
            tokens, low = max(agent.optimizer.chunk_size, sequence), agent.optimizer.precision == "bfloat16"
            weights, activations = estimate_teacher(teacher, tokens, sequence, low)
            needs = {"teacher": weights, "teacher's activations": activations}
            check_memory(needs, available_memory(device), str(device))
        return config
    on_gpu = device.type == "cuda"
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    divided: dict[str, Any] = {"store": agent.optimizer.store, "processes": distributed.size()}
    available = free = available_memory(device) // (1 if on_gpu else beside)
    if options.rollout == "vllm" and on_gpu and not (options.sleep or options.cluster):
        available = int((1.0 - options.gpu_memory) * available)

    def needed(saving: Saving) -> dict[str, int]:
        return estimate_memory(
            replace(options, gradient_checkpointing=saving.gradient_checkpointing),
            sequence=sequence,
            chunk_size=saving.chunk_size,
            precision=agent.optimizer.precision,
            offload=saving.offload,
            **divided,
            reference=getattr(agent, "needs_reference", False),
            moving=getattr(agent, "reference_interval", None) is not None,
            critic=getattr(agent, "advantage", "") == "gae",
            samples=TEXTS[config.algorithm].samples,
            on_gpu=on_gpu,
            teacher=teacher,
        )

    asked = Saving(agent.optimizer.chunk_size, options.gradient_checkpointing, agent.optimizer.offload)
    chosen = of_first(affordable(needed, asked, available, sequence=sequence, on_gpu=on_gpu))
    check_memory(needed(chosen), available, str(device))
    if on_gpu and options.sleep:  # beside vLLM, awake, is what learning keeps
        kept = {name: size for name, size in needed(chosen).items() if name not in TURNS}
        check_memory(kept, int((1.0 - options.gpu_memory) * free), f"{device} beside vLLM's language.gpu_memory")
    if on_gpu:
        host = estimate_host_memory(options, offload=chosen.offload, **divided, beside=beside)
        check_memory(host, available_memory(HOST), "this machine")
    if chosen != asked:
        wanted = sum(needed(asked).values()) / 2**30
        say(
            f"agent.optimizer.chunk_size={chosen.chunk_size}, "
            f"language.gradient_checkpointing={str(chosen.gradient_checkpointing).lower()}, "
            f"agent.optimizer.offload={str(chosen.offload).lower()}: the training would need about {wanted:.1f} GiB "
            f"otherwise, and {device} has {available / 2**30:.1f} GiB free"
        )
    optimizer = replace(agent.optimizer, chunk_size=chosen.chunk_size, offload=chosen.offload)
    language = replace(config.language, gradient_checkpointing=chosen.gradient_checkpointing)
    return replace(config, language=language, agent=replace(agent, optimizer=optimizer))


def _teacher(source: str, device: torch.device) -> LanguageOptions | None:
    """Model and dtype of a teacher as it will be loaded; None without one, or for a tiny one."""
    if not source:
        return None
    options = LanguageOptions(model=source, dtype=usual_dtype(device))
    if is_run(Path(source)):
        made = language_run(Path(source)).config().language
        options = replace(made, dtype=made.dtype if made.lora is not None else "float32")
    first = _first(options)
    return None if first.tiny is not None else replace(first, dtype=options.dtype)


def _check_rows(
    task: LanguageTask, conversation: Conversation, learnt: Sequence[str], most: int | None
) -> tuple[int, int]:
    """Number of skipped rows, where skipping was asked for, and the tokens of the longest possible prompt.

    Raises ``RowError`` for the first row that is too long.
    """
    kept = fitting(task, conversation, learnt).source
    if isinstance(kept, Fitting):
        rows = [row for split in ("train", "test") for row in kept.rows(split)]
        return kept.too_long, max(len(prompt_tokens(row, task, conversation)) for row in rows)
    longest = 0
    for split in ("train", "test"):
        for number, row in enumerate(task.source.rows(split)):
            longest = max(longest, check_lengths(number, row, task, conversation, learnt, most))
    for row in islice(task.source.stream("train", 0), LOOK):  # of a generator, these are others
        check_lengths(0, row, task, conversation, learnt, most)
    return 0, longest if hasattr(task.source, "skip_bad_rows") else task.max_prompt_tokens


def _ask_rewards(task: LanguageTask) -> None:
    """Let every reward judge a few answers, so that one that fails does so now."""
    rows: list[Any] = list(islice(task.source.stream("train", 0), FEW))
    answers = [str(row.get("completion", "")) for row in rows]
    score(task, [row["prompt"] for row in rows], answers, rows)
