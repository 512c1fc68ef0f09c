"""Default training settings of language tasks, and the command line's options for models and rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.distillation import DistillationConfig
from gaitway_agents.language.online_dpo import OnlineDPOConfig
from gaitway_agents.presets import has_bfloat16
from gaitway_agents.registry import TEXTS
from gaitway_language.options import LanguageOptions, LoraOptions, TinyModel
from gaitway_tasks.language.remote import load_reward
from gaitway_tasks.language.sources import FileSource
from gaitway_tasks.language.spec import LanguageTask, TextReward
from gaitway_tasks.language.tasks import file_task

from ...errors import ConfigError
from ...runs.folder import RunFolder, is_run
from ..request import Request
from .devices import usual_dtype
from .recipes import RECIPES, SMALL, SMOLLM2

OWN_MODEL = dict.fromkeys(("arithmetic", "arrows", "descriptions", "digit-sums", "text:frozen-lake"), "tiny")
OWN_MODEL |= dict.fromkeys(("instructions", "records"), SMOLLM2)
"""Models that tasks begin with unless told otherwise, and that their recipes are for."""
TINY_RATE, TINY_SEQUENCES, TINY_GROUP, TINY_WARMUP = 1e-3, 512, 16, 0.1
"""Settings of tiny models: learning rate, half as much from rewards, whose first steps must be short; sequences of an
update, and answers to a prompt."""
LORA_RATE = 10.0
"""Times the rate of all weights: the best one for adapters, whatever the model and the data (Schulman and Thinking
Machines Lab 2025, "LoRA without regret"; TRL's documentation says the same)."""
SAMPLING = PolicyGradientConfig | OnlineDPOConfig | DistillationConfig
"""Settings of agents that learn from answers of their own."""
UPDATES = 200
"""Updates of agents that sample, by default."""
EXAMPLES = 20_000
"""Examples or pairs that the others read, by default."""


def language_settings(task: LanguageTask, request: Request, device: torch.device) -> dict[str, Any]:
    """Fields of ``TrainConfig``, the task among them, for whatever the command line says."""
    precision = "bfloat16" if has_bfloat16(device) else "float32"  # what the device is fast in
    options, agent = request.options, request.agent
    task = _with_fields(task, request.asked("task.source.fields"))
    model = options.get("model")
    if model is None and not request.asked("language.model"):
        model = OWN_MODEL.get(task.name)
    first = None if model is None else first_model(model)
    tiny = first == "tiny"
    # Adapters have defaults of their own, however they were asked for.
    lora = "lora" in options or request.asked("language.lora") is not None
    settings: dict[str, Any] = {
        "task": task,
        "num_envs": 1,
        "num_threads": 1 if tiny else 0,
        "evaluation_episodes": 200,
        "agent": _fitted(_precise(TEXTS[agent].defaults(), precision), task, tiny, lora),
        "language": LanguageOptions(model="", tiny=None, dtype=usual_dtype(device)),
        "checkpoint_interval": 10,
    }
    config: Any = settings["agent"]
    if isinstance(config, SAMPLING):
        sequences = config.prompts_per_step * config.group_size
        settings |= {"total_steps": UPDATES * sequences, "evaluation_interval": UPDATES // 10 * sequences}
    else:
        settings |= {"total_steps": EXAMPLES, "evaluation_interval": EXAMPLES // 4}
    if tiny:
        settings["language"] = LanguageOptions(tiny=TinyModel(), attention="eager", dtype=precision)
    elif first == SMOLLM2:
        settings["language"] = replace(SMALL, dtype=precision)
    if first == OWN_MODEL.get(task.name) and (recipe := RECIPES.get((task.name, agent))) is not None:
        settings |= recipe
        settings["agent"] = _precise(recipe["agent"], settings["language"].dtype)
        if lora and not tiny:
            settings["agent"] = _adapted(settings["agent"])
    try:
        chosen = chosen_options({"model": model, **options} if model is not None else options, lora=lora)
        settings["language"] = replace(settings["language"], **chosen)
    except ValueError as error:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise ConfigError(f"{given}: {error}") from None
    if not (settings["language"].model or request.asked("language.model")):
        raise ConfigError(
            f"{task.name} needs a model to begin with: add --model with a run folder, a folder in Hugging Face's form "
            "or an id of its hub, such as Qwen/Qwen2.5-1.5B-Instruct; --model tiny builds a small one from nothing"
        )
    if (reward_model := options.get("reward_model")) is not None:
        settings["task"] = with_reward_model(settings["task"], reward_model)
    return settings


def _with_fields(task: LanguageTask, fields: Any) -> LanguageTask:
    """The task of a file as its renamed fields make it: an answer by another name is rewarded too."""
    if not isinstance(task.source, FileSource) or not isinstance(fields, Mapping) or task.rewards:
        return task
    return file_task(task.source.train, {str(ours): str(theirs) for ours, theirs in fields.items()})


def chosen_options(options: Mapping[str, Any], *, lora: bool) -> dict[str, Any]:
    """Fields of :class:`LanguageOptions` that options of the command line say."""
    chosen = {name: options[name] for name in ("model", "teacher", "rollout", "server") if name in options}
    if "model" in chosen:
        chosen["tiny"] = TinyModel() if chosen["model"] == "tiny" else None
    return chosen | ({"lora": LoraOptions()} if lora else {})


def _fitted(config: Any, task: LanguageTask, tiny: bool, lora: bool) -> Any:
    """An agent's published settings with the lengths of the task's answers; the rates of adapters and tiny models."""
    longest = task.max_completion_tokens
    optimizer = config.optimizer
    if optimizer.aggregation == "constant":
        optimizer = replace(optimizer, horizon=longest)
    if tiny:
        optimizer = replace(optimizer, learning_rate=TINY_RATE)
    config = replace(config, optimizer=optimizer)
    if lora and not tiny:
        config = _adapted(config)
    if not isinstance(config, SAMPLING):
        return config
    if isinstance(config, PolicyGradientConfig) and config.overlong_end is not None:
        config = replace(config, overlong_start=longest * 4 // 5, overlong_end=longest)
    if not tiny:
        return config
    group = min(config.group_size, TINY_GROUP)
    return replace(
        config,
        prompts_per_step=TINY_SEQUENCES // group,
        group_size=group,
        schedule=replace(config.schedule, warmup=TINY_WARMUP),
        optimizer=replace(optimizer, learning_rate=TINY_RATE / 2, minibatches=min(optimizer.minibatches, 4)),
    )


def _adapted(config: Any) -> Any:
    """The settings of all weights with the rate of adapters."""
    rate = LORA_RATE * config.optimizer.learning_rate
    return replace(config, optimizer=replace(config.optimizer, learning_rate=rate))


def _precise(config: Any, precision: str) -> Any:
    return replace(config, optimizer=replace(config.optimizer, precision=precision))


def is_tiny(model: str) -> bool:
    """True if ``model`` is "tiny", or a run that began with it."""
    return first_model(model) == "tiny"


def first_model(model: str) -> str:
    """Name of the model that a chain of runs began with; any other name as it is."""
    while is_run(Path(model)):
        options = RunFolder.open(Path(model)).config().language
        if options is None:
            break
        model = options.model
    return model


def with_reward_model(task: LanguageTask, source: str) -> LanguageTask:
    """The task with a reward from a reward model's run, an address, or ``module:function``.

    Its own rewards are still measured, with weight 0: they tell whether the reward model can be trusted.
    """
    if is_run(Path(source)):
        from .rewards import reward_of_run

        reward = TextReward(func=reward_of_run, params={"run": source})
    elif ":" in source:
        try:
            reward = load_reward(source)
        except ValueError as error:
            raise ConfigError(f"--reward-model: {error}") from None
    else:
        raise ConfigError(
            f"--reward-model {source}: there is no run folder; give one, an address such as http://127.0.0.1:8000, or "
            "a function as module:function"
        )
    measured = {name: replace(part, weight=0.0) for name, part in task.rewards.items()}
    return task.replace(rewards={**measured, "reward_model": reward})
