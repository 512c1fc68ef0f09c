"""GRPO's cost beside TRL's: the same model, prompts, batch, lengths and reward, in processes that take turns.

    python benchmarks/language_speed.py [--repeats 3]

A model of 1.1 million parameters (hidden size 128, four layers) with random weights continues 16 prompts of 15 words
eight times each, by 32 tokens at most, and takes one step of AdamW: what a step costs is measured, not what it teaches.
Ours is the whole trainer with its world, engine and check after every update; theirs is TRL's ``GRPOTrainer`` with
generation by transformers, the only one it has on a CPU that works at this size. CPU seconds are of the process, the
median over steps but the first two; memory is the peak of the whole process, imports included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

PROMPTS, GROUP, LONGEST, STEPS, WARM = 16, 8, 32, 10, 2
WORDS = ["".join(random.Random(i).choices("abcdefghijklmnopqrstuvwxyz", k=6)) for i in range(300)]
VARIANTS = ("trl", "trl bfloat16", "gaitway", "gaitway bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        return one(options.only)
    from gaitway.runs.provenance import machine

    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    for _ in range(options.repeats):
        for variant in VARIANTS:
            environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
            command = [sys.executable, __file__, "--only", variant]
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            found[variant].append(json.loads(done.stdout.splitlines()[-1]))
    theirs = middle(found["trl"], "seconds"), middle(found["trl"], "memory")
    for variant, runs in found.items():
        seconds, memory = middle(runs, "seconds"), middle(runs, "memory")
        times = ", ".join(f"{run['seconds']:.2f}" for run in runs)
        print(
            f"{variant:18} {PROMPTS * GROUP / seconds:6.1f} sequences per CPU second, {theirs[0] / seconds:.2f} x TRL; "
            f"peak {memory:.0f} MB, {memory / theirs[1]:.2f} x TRL; steps {times} s"
        )


def middle(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def one(variant: str) -> None:
    import torch

    torch.set_num_threads(1)
    precision = "bfloat16" if variant.endswith("bfloat16") else "float32"
    steps = (trl if variant.startswith("trl") else ours)(precision)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": statistics.median(steps[WARM:]), "memory": memory}))


def worth(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
    return [float(sum(map(ord, text)) % 7) for text in completions]


class Prompts:
    """Rows of random words without end."""

    def stream(self, split: str, seed: int) -> Iterator[dict[str, str]]:
        rng = random.Random(f"{split}/{seed}")
        while True:
            yield {"prompt": " ".join(rng.choices(WORDS, k=15))}


def parts() -> tuple[Any, Any]:
    """Model and tokeniser, equal for both."""
    from gaitway_language.model import build_model
    from gaitway_language.options import TinyModel
    from gaitway_language.tokenizer import build_tokenizer

    tokenizer = build_tokenizer([" ".join(WORDS)])
    tokenizer.chat_template = None
    sizes = TinyModel(hidden_size=128, layers=4, heads=4, intermediate_size=512, max_positions=256)
    return build_model(sizes, tokenizer, 0, attention="eager"), tokenizer


def ours(precision: str) -> list[float]:
    import functools
    from dataclasses import replace

    import torch
    from gaitway_agents.interfaces import Sampling
    from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
    from gaitway_agents.language.presets import GRPO
    from gaitway_language.conversation import Conversation
    from gaitway_language.engines.make import make_engine
    from gaitway_language.options import LanguageOptions
    from gaitway_language.world import TextWorld
    from gaitway_tasks.language.score import score
    from gaitway_tasks.language.spec import LanguageTask, TextReward

    model, tokenizer = parts()
    source: Any = Prompts()
    task = LanguageTask(name="words", source=source, rewards={"worth": TextReward(func=worth)})
    conversation = Conversation(tokenizer)
    probe = [conversation.prompt(row["prompt"]) for row in islice(source.stream("test", 0), 4)]
    engine = make_engine(LanguageOptions(model="words", dtype=precision), model, probe)
    world = TextWorld(
        task, conversation, engine, Sampling(max_tokens=LONGEST, stop_tokens=conversation.stops),
        functools.partial(score, task), seed=0,
    )  # fmt: skip
    optimizer = replace(
        GRPO.optimizer, learning_rate=1e-4, reference_kl=None, precision=precision, chunk_size=1536, weight_decay=0.0
    )
    config = replace(GRPO, prompts_per_step=PROMPTS, group_size=GROUP, optimizer=optimizer)
    trainer = PolicyGradientTrainer(model, world, config, seed=0)
    torch.manual_seed(0)
    found = []
    for _ in range(STEPS):
        start = time.process_time()
        trainer.iterate()
        found.append(time.process_time() - start)
    return found


def trl(precision: str) -> list[float]:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = parts()
    found: list[float] = []

    class Clock(TrainerCallback):
        last: float | None = None

        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            now = time.process_time()
            if self.last is not None:
                found.append(now - self.last)
            self.last = now

    rows = list(islice(Prompts().stream("train", 0), PROMPTS * (STEPS + 1)))
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP,
            max_completion_length=LONGEST, max_steps=STEPS + 1, learning_rate=1e-4, beta=0.0, num_iterations=1,
            use_cpu=True, bf16=precision == "bfloat16", gradient_checkpointing=False, report_to="none",
            save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        GRPOTrainer(
            model=model, reward_funcs=worth, args=settings, train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer, callbacks=[Clock()],
        ).train()  # fmt: skip
    return found


if __name__ == "__main__":
    main()
