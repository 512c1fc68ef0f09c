"""Models of a training: the start found, built or loaded, and the result written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_agents.language.reward_model import RewardModelConfig
from gaitway_agents.language.weights import load_trainable_state
from gaitway_agents.models.reward_model import RewardModel
from gaitway_files.writing import whole_folder
from gaitway_language.model import load_model, load_reward_model
from gaitway_language.options import LanguageOptions
from gaitway_language.saving import save_model, save_reward_model
from gaitway_language.tokenizer import build_tokenizer, load_tokenizer
from gaitway_tasks.language.spec import LanguageTask

from ...errors import RunError
from ...runs.choice import Which
from ...runs.files import disk_error
from ...runs.folder import RunFolder, fitting, is_run
from ...training.load import load_state
from .devices import find_device, usual_dtype

if TYPE_CHECKING:
    from torch import nn

    from ...train_config import TrainConfig

START = "start"
"""Folder of a run with the model that it began with, where that is no folder or hub id of the user's."""


@dataclass
class Loaded:
    """A model that is there to answer, or to judge answers."""

    model: nn.Module
    """A causal LM, or a :class:`RewardModel`."""
    tokenizer: Any
    config: TrainConfig | None
    """Configuration of the run that made it."""
    steps: int = 0

    @property
    def task(self) -> LanguageTask | None:
        return None if self.config is None else self.config.task


def quiet() -> None:
    """Context without transformers' own progress bars."""
    from transformers.utils import logging

    logging.disable_progress_bar()


# ---- the beginning of a training -------------------------------------------------------------------------------------


def tokenizer_of(config: TrainConfig) -> Any:
    """The tokeniser of the model that a training begins with; of "tiny", one of the task's own words."""
    options = config.language
    if options.tiny is not None:
        return build_tokenizer(_texts(config.task))
    if is_run(Path(options.model)):
        run = language_run(Path(options.model))
        start = run.path / START
        return load_tokenizer(str(start)) if start.exists() else tokenizer_of(run.config())
    return load_tokenizer(options.model, options.pad_token)


def make_start(config: TrainConfig, run: RunFolder) -> None:
    """Write the model that a training begins with into its run, if it is built for it or comes from another run.

    So a run needs nothing of the one before it, which may go on or be removed.
    """
    options, folder = config.language, run.path / START
    quiet()
    if folder.exists() or (options.tiny is None and not is_run(Path(options.model))):
        return
    if options.tiny is not None:
        tokenizer = tokenizer_of(config)
        loaded = Loaded(load_model(replace(options, lora=None), tokenizer, seed=config.seed), tokenizer, None)
    else:
        loaded = load_run(language_run(Path(options.model)))
    _write_whole(loaded, folder)


def open_start(config: TrainConfig, run: RunFolder | None, *, learning: bool = True) -> tuple[nn.Module, Any]:
    """The model that learns, as it begins, and its tokeniser; a :class:`RewardModel` where that is learnt.

    ``learning=False`` leaves adapters out: a copy that takes merged weights.
    """
    quiet()
    options = config.language
    if run is not None and (run.path / START).exists():
        options = replace(options, model=str(run.path / START), tiny=None, pad_token="")
    tokenizer = tokenizer_of(replace(config, language=options))
    options = options if learning else replace(options, lora=None)
    device = find_device(config.device)
    if not isinstance(config.agent, RewardModelConfig):
        return load_model(options, tokenizer, seed=config.seed, device=device, learning=learning), tokenizer
    model, mean, std = load_reward_model(options, tokenizer, seed=config.seed, device=device)
    scorer = RewardModel(model)
    scorer.mean.fill_(mean)
    scorer.std.fill_(std)
    return scorer, tokenizer


def _texts(task: LanguageTask) -> list[str]:
    """Everything that can be said in a task, as far as its rows and its source tell."""
    fields = ("prompt", "completion", "chosen", "rejected", "answer")
    rows = [row for split in ("train", "test") for row in task.source.rows(split)]
    texts = [text for row in rows for name in fields if isinstance(text := row.get(name), str)]
    texts += [m["content"] for row in rows if not isinstance(row["prompt"], str) for m in row["prompt"]]
    words = task.source.vocabulary() if hasattr(task.source, "vocabulary") else []
    # Words stand behind a space nearly everywhere; where they begin a text is seen in the rows.
    return [task.system_prompt, *texts, " ".join(["", *words])]


# ---- what a training has made ----------------------------------------------------------------------------------------


def language_run(path: Path) -> RunFolder:
    """The run at ``path``, which must be a language model's."""
    run = RunFolder.open(path)
    if run.record["world"] != "language":
        raise RunError(f"{path} is a run of {run.record['task']}, not of a language model")
    return run


def load_run(run: RunFolder, which: Which = None) -> Loaded:
    """The model of a run's checkpoint, adapters included."""
    config = run.config()
    if config.language is not None and config.language.attention == "flash_attention_2":
        # It needs bfloat16, which only the forward passes of a training are sure to be in.
        config = replace(config, language=replace(config.language, attention="sdpa"))
    state, path = load_state(run, which)
    model, tokenizer = open_start(config, run)
    with fitting(path, run.path):
        weights = state["trainer"]["policy"]
        # What the trainer's policy has beside the model, such as a critic, is no part of it.
        load_trainable_state(model, {k.removeprefix("model."): v for k, v in weights.items() if k.startswith("model.")})
    return Loaded(model, tokenizer, config, state["steps"])


def load_writer(source: str, device: str = "auto", which: Which = None) -> Loaded:
    """The causal LM of a run's checkpoint, of a folder in Hugging Face's form or of the hub."""
    quiet()
    if not is_run(Path(source)):
        tokenizer = load_tokenizer(source)
        place = find_device(device)
        options = LanguageOptions(model=source, dtype=usual_dtype(place))
        return Loaded(load_model(options, tokenizer, device=place, learning=False), tokenizer, None)
    loaded = load_run(language_run(Path(source)), which)
    if isinstance(loaded.model, RewardModel):
        raise RunError(f"{source} is a reward model, which judges answers and gives none")
    return loaded


def export_run(path: Path, out: Path, which: Which = None) -> None:
    """Write the model of a run's checkpoint to ``out``, which must be new or empty; it appears whole or not at all."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} exists and is not an empty folder: choose another --out")
    loaded = load_run(language_run(path), which)
    _write_whole(loaded, out)


def _write_whole(loaded: Loaded, folder: Path) -> None:
    try:
        with whole_folder(folder) as partial:
            write(loaded, partial)
    except OSError as error:
        raise disk_error(folder, error) from None


def write(loaded: Loaded, folder: Path) -> None:
    """A plain folder in Hugging Face's form: config, safetensors with adapters merged, tokeniser and template."""
    if isinstance(loaded.model, RewardModel):
        scorer = loaded.model
        save_reward_model(scorer.model, scorer.mean, scorer.std, loaded.tokenizer, folder)
    else:
        save_model(loaded.model, loaded.tokenizer, folder)
