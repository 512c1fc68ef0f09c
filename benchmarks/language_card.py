"""Memory and speed of language training on one GPU, beside the memory that Gaitway expects.

    python benchmarks/language_card.py [--sizes 0.5B,1.5B,3B,7B] [--minutes 5] [--out FILE]

Models have the shapes of Qwen2.5 and random weights, written in Hugging Face's form to a temporary folder, so nothing
is downloaded. Each size is trained by SFT and by GRPO with our own trainers and the transformers engine, on prompts of
128 tokens and completions of 256: answers of random models do not end early, so this is the longest that such a batch
takes. 7B learns adapters, the others all of their weights. Forward passes, and where Adam's moments are, are those that
``gaitway train`` would choose for the free memory. The first update of each row is left out of its times.

A row is printed, and FILE rewritten, as soon as it is measured; no row begins after ``--minutes``. Peaks are of
``torch.cuda.max_memory_allocated``; on a CPU, of the process's resident memory less that before the row.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.language.presets import GRPO
from gaitway_agents.language.sft import SFTConfig, SFTTrainer
from gaitway_agents.presets import has_bfloat16
from gaitway_language.conversation import Conversation
from gaitway_language.data import demonstrations
from gaitway_language.engines.make import make_engine
from gaitway_language.memory import Saving, affordable, available_memory, estimate_memory
from gaitway_language.model import load_model
from gaitway_language.options import LanguageOptions, LoraOptions
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.score import score
from gaitway_tasks.language.spec import LanguageTask, TextReward

from gaitway.domains.texts.devices import find_device, let_memory_grow, usual_dtype
from gaitway.domains.texts.settings import LORA_RATE

GIB = 2.0**30


@dataclass(frozen=True)
class Shape:
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    vocab_size: int = 151_936
    tie_word_embeddings: bool = True


SHAPES = {
    "tiny": Shape(64, 2, 4, 2, 128, 512),
    "0.5B": Shape(896, 24, 14, 2, 4864),
    "1.5B": Shape(1536, 28, 12, 2, 8960),
    "3B": Shape(2048, 36, 16, 2, 11008),
    "7B": Shape(3584, 28, 28, 4, 18944, 152_064, tie_word_embeddings=False),
}
"""Those of Qwen2.5, as its config.json files have them."""
ADAPTERS = ("7B",)
COLUMNS = (
    "model", "agent", "learns", "forward passes", "expected GiB", "peak GiB loading", "peak GiB updating", "s/update",
    "of it sampling", "sampled tokens/s", "learnt tokens/s", "updates timed",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help=f"some of {', '.join(SHAPES)}; by default all but tiny, which is a CPU's")
    parser.add_argument("--agents", default="sft,grpo")
    parser.add_argument("--lora", action="store_true", help="adapters for every size")
    parser.add_argument("--checkpointing", action="store_true", help="compute activations anew in the backward pass")
    parser.add_argument("--offload", action="store_true", help="keep Adam's moments in the machine's memory")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=5.0, help="no row begins after these")
    parser.add_argument("--updates", type=int, default=2, help="updates of each row that are timed")
    parser.add_argument("--prompts", type=int, default=16, help="prompts of a GRPO update")
    parser.add_argument("--group", type=int, default=16, help="answers to each prompt")
    parser.add_argument("--batch", type=int, default=64, help="examples of an SFT update")
    parser.add_argument("--tokens", type=int, default=OptimizerConfig.chunk_size, help="of a forward pass")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--answer-tokens", type=int, default=256)
    parser.add_argument("--out", type=Path, help="file for the table")
    options = parser.parse_args()
    let_memory_grow("transformers")
    device = find_device(options.device)
    usual = "0.5B,1.5B,3B,7B" if device.type == "cuda" else "tiny"
    sizes, agents = (options.sizes or usual).split(","), options.agents.split(",")
    if unknown := [*(set(sizes) - set(SHAPES)), *(set(agents) - {"sft", "grpo"})]:
        parser.error(f"unknown: {', '.join(unknown)}")
    if options.prompt_tokens < 3:
        parser.error(f"--prompt-tokens {options.prompt_tokens}: the chat template alone takes 2; use at least 3")
    end = time.perf_counter() + 60.0 * options.minutes
    say = Table(options, device)
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder, start = Path(name), time.perf_counter()
            if start < end:
                write_model(SHAPES[size], folder, device)
                print(f"{size}: written in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
            for agent in agents:
                if time.perf_counter() < end:
                    say.row([size, agent, *measured(options, size, agent, folder, device, end)])
                else:
                    say.row([size, agent, "not measured: no time left"])


class Table:
    """Markdown on the screen, and the same in a file after every row."""

    def __init__(self, options: Any, device: torch.device):
        named = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        free = f", {torch.cuda.mem_get_info(device)[1] / GIB:.1f} GiB" if device.type == "cuda" else ""
        self.file: Path | None = options.out
        self.lines: list[str] = []
        self._say(
            f"{named}{free}, torch {torch.__version__}; prompts of {options.prompt_tokens} tokens, completions of "
            f"{options.answer_tokens}; GRPO {options.prompts} x {options.group} answers, SFT {options.batch} examples "
            "an update\n"
        )
        self.row(COLUMNS)
        self.row(["---"] * len(COLUMNS))

    def row(self, cells: Any) -> None:
        self._say(f"| {' | '.join([*cells, *[''] * (len(COLUMNS) - len(cells))])} |")

    def _say(self, line: str) -> None:
        self.lines.append(line)
        print(line, flush=True)
        if self.file is not None:
            self.file.write_text("\n".join(self.lines) + "\n")


class Peak:
    """Most memory [GiB] since it was last asked for, beyond what was there at first."""

    def __init__(self, device: torch.device):
        self.device, self.before = device, 0.0
        self()
        self.before = self._now()

    def __call__(self) -> float:
        found = self._now() - self.before
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew
        return found

    def _now(self) -> float:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / GIB
        status = Path("/proc/self/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024 / GIB


def measured(options: Any, size: str, agent: str, folder: Path, device: torch.device, end: float) -> list[str]:
    """Cells of a row, from the third on."""
    lora = LoraOptions() if options.lora or size in ADAPTERS else None
    language = LanguageOptions(model=str(folder), dtype=usual_dtype(device), lora=lora)
    precision = "bfloat16" if has_bfloat16(device) else "float32"
    learns = "all weights" if lora is None else f"adapters of rank {lora.rank}"
    sequence, on_gpu = options.prompt_tokens + options.answer_tokens, device.type == "cuda"

    def needed(saving: Saving) -> dict[str, int]:
        return estimate_memory(
            replace(language, gradient_checkpointing=saving.gradient_checkpointing),
            sequence=sequence,
            chunk_size=saving.chunk_size,
            precision=precision,
            offload=saving.offload,
            reference=agent == "grpo",
            samples=agent == "grpo",
            on_gpu=on_gpu,
        )

    clear()
    asked = Saving(options.tokens, options.checkpointing, options.offload)
    saving = affordable(needed, asked, available_memory(device), sequence=sequence, on_gpu=on_gpu)
    expected = sum(needed(saving).values())
    language = replace(language, gradient_checkpointing=saving.gradient_checkpointing)
    peak, loading, found, failed = Peak(device), 0.0, list[dict[str, float]](), ""
    try:
        trainer = make(options, agent, language, saving, precision, device, SHAPES[size].vocab_size)
        loading = peak()
        while len(found) <= options.updates and (not found or time.perf_counter() < end):
            found.append(trainer.iterate())
            if device.type == "cuda":
                torch.cuda.synchronize(device)
    except torch.OutOfMemoryError:
        failed = "out of memory"
    updating = peak()
    trainer = None
    clear()
    passes = f"{saving.chunk_size} tokens{', computed anew' if saving.gradient_checkpointing else ''}"
    cells = [
        learns,
        passes + (", moments offloaded" if saving.offload else ""),
        f"{expected / GIB:.1f}",
        f"{loading:.1f}",
        f"{updating:.1f}",
    ]
    if failed:
        return [*cells, failed]
    timed = found[1:] or found

    def middle(name: str) -> float | None:
        values = [metrics[name] for metrics in timed if name in metrics]
        return statistics.median(values) if values else None

    numbers = (
        ("time/total", "{:.2f}"), ("time/sampling", "{:.2f}"), ("rollout/tokens_per_s", "{:,.0f}"),
        ("learn/tokens_per_s", "{:,.0f}"),
    )  # fmt: skip
    cells += ["-" if (value := middle(name)) is None else form.format(value) for name, form in numbers]
    return [*cells, str(len(found) - 1) if len(found) > 1 else "the first"]


def make(
    options: Any,
    agent: str,
    language: LanguageOptions,
    saving: Saving,
    precision: str,
    device: torch.device,
    vocabulary: int,
) -> Any:
    """The trainer as ``gaitway train`` builds it."""
    tokenizer, words = spoken(vocabulary)
    model = load_model(language, tokenizer, device=device)
    conversation = Conversation(tokenizer)
    source: Any = Prompts(words, options.prompt_tokens - 2, options.answer_tokens - 1)  # less template, and the end
    task = LanguageTask(
        name="words",
        source=source,
        rewards={"worth": TextReward(func=worth)},
        max_prompt_tokens=options.prompt_tokens,
        max_completion_tokens=options.answer_tokens,
    )
    rate = 1.0 if language.lora is None else LORA_RATE

    def computed(optimizer: OptimizerConfig) -> OptimizerConfig:
        chosen = {"precision": precision, "chunk_size": saving.chunk_size, "offload": saving.offload}
        return replace(optimizer, learning_rate=rate * optimizer.learning_rate, **chosen)

    if agent == "sft":
        rows: Any = list(itertools.islice(source.stream("train", 0), 2 * options.batch))
        examples = demonstrations(rows, task, conversation)
        usual = SFTConfig()
        config = replace(usual, batch_size=options.batch, updates=1, optimizer=computed(usual.optimizer))
        steps = options.batch * (1 + options.updates)
        return SFTTrainer(model, examples, config, seed=0, total_steps=steps)
    probe = [conversation.prompt(row["prompt"]) for row in itertools.islice(source.stream("test", 0), 4)]
    longest = options.prompt_tokens + options.answer_tokens
    engine = make_engine(language, model, probe, longest=longest, precision=precision)
    sampling = Sampling(max_tokens=options.answer_tokens, stop_tokens=conversation.stops)
    world = TextWorld(task, conversation, engine, sampling, functools.partial(score, task), seed=0)
    settings = replace(
        GRPO, prompts_per_step=options.prompts, group_size=options.group, optimizer=computed(GRPO.optimizer)
    )
    return PolicyGradientTrainer(model, world, settings, seed=0)


class Prompts:
    """Random words without end, of as many tokens as were asked for, and as random answers."""

    def __init__(self, words: list[str], prompt: int, answer: int):
        self.words, self.prompt, self.answer = words, prompt, answer

    def stream(self, split: str, seed: int) -> Iterator[dict[str, str]]:
        rng = random.Random(f"{split}/{seed}")
        while True:
            prompt, answer = (" ".join(rng.choices(self.words, k=count)) for count in (self.prompt, self.answer))
            yield {"prompt": prompt, "completion": answer}


def worth(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
    """A reward that differs from answer to answer."""
    return [float(sum(map(ord, text)) % 7) for text in completions]


@functools.cache
def spoken(vocabulary: int) -> tuple[Any, list[str]]:
    """A tokeniser of about as many words as the model has tokens, and the words."""
    letters = itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=4)
    words = ["".join(word) for word in itertools.islice(letters, vocabulary - 40)]  # beside signs and roles
    return build_tokenizer([" ".join(words)]), words


def write_model(shape: Shape, folder: Path, device: torch.device) -> None:
    """A model with random weights in bfloat16, drawn on ``device``, where a billion of them take a second."""
    from transformers import AutoModelForCausalLM, Qwen2Config
    from transformers.utils import logging

    logging.disable_progress_bar()

    sizes = {field.name: getattr(shape, field.name) for field in fields(shape)}
    config = Qwen2Config(**sizes, max_position_embeddings=32_768, rms_norm_eps=1e-6)
    torch.manual_seed(0)
    with torch.device(device):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)


def clear() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
