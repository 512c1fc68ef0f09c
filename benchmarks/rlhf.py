"""Learning from preferences, from nothing: SFT, then pairs of its answers, a reward model, PPO, and DPO beside it.

    python benchmarks/rlhf.py [--seeds 0 1 2] [--out FOLDER]

The task is ``descriptions``: a judge that models never see says which of two answers is better, with mistakes as in the
model of Bradley and Terry. Every training is the ``gaitway train`` command in a process of its own. What is measured:

* the reward model on new pairs of SFT's answers to requests that occur in no training, against the judge without its
  mistakes, pairs that are worth the same left out; and against the judge with them, which no model can do perfectly;
* PPO and DPO by how often an answer of theirs is truly worth more than one of SFT's to the same such request (equal
  ones count half), and by the KL divergence from SFT that they took, in nats of a whole answer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language.sequences import pad
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_language.conversation import Conversation
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_tasks.language.descriptions import DescriptionSource, score

SOURCE = DescriptionSource()
PAIRS, HELD_OUT = 8000, 1000
LIMIT = 32
"""Tokens of an answer."""

SFT = ["agent.batch_size=64", "agent.optimizer.learning_rate=3e-3", "agent.schedule.warmup=0.1", "total_steps=16000"]
REWARD_MODEL = ["agent.batch_size=32", "agent.optimizer.learning_rate=6e-4", "total_steps=16000"]
DPO = ["agent.batch_size=64", "agent.optimizer.learning_rate=5e-4", "agent.schedule.warmup=0.1", "total_steps=12800"]
DPO += ["agent.schedule.shape=linear", "agent.sft_coefficient=0.2"]
"""By itself DPO makes both answers less likely, the rejected one more so, and a small model loses its grammar."""
PPO = ["agent.prompts_per_step=128", "agent.optimizer.learning_rate=3e-4", "total_steps=3840"]
PPO += ["agent.optimizer.epochs=2", "agent.optimizer.minibatches=2"]

TARGETS = {"reward model": 0.9, "win rate": 0.8, "KL": 20.0, "wall": 600.0}

Row = dict[str, str]


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"target: reward model {TARGETS['reward model']}, PPO and DPO win {TARGETS['win rate']} at most "
        f"{TARGETS['KL']:.0f} nats from SFT, {TARGETS['wall']:.0f} s in all"
    )
    with tempfile.TemporaryDirectory() as temporary:
        passed = [one_seed(seed, (options.out or Path(temporary)) / f"seed{seed}") for seed in options.seeds]
    print(f"{sum(passed)} of {len(passed)} seeds reach the target")


def one_seed(seed: int, folder: Path) -> bool:
    """The whole chain; whether every target was reached."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = folder / "pairs.jsonl"
    before, start = _cpu(), time.perf_counter()
    _train(folder / "sft", seed, "descriptions", "--agent", "sft", *SFT)
    sft = Writer(folder / "sft")
    requests = [row["prompt"] for row in islice(SOURCE.stream("train", seed), PAIRS)]
    _write(pairs, sft.preferences(requests, seed))
    learner = ("--model", str(folder / "sft"), "agent.updates=1")  # the first number is of the first step
    _train(folder / "judge", seed, str(pairs), "--agent", "reward-model", *learner, *REWARD_MODEL)
    reward = ("--reward-model", str(folder / "judge"))
    _train(folder / "ppo", seed, "descriptions", "--agent", "ppo", *learner[:2], *reward, *PPO)
    _train(folder / "dpo", seed, str(pairs), "--agent", "dpo", *learner, *DPO)
    wall, cpu = time.perf_counter() - start, _cpu() - before
    print(f"seed {seed}: wall {wall:.0f} s, CPU {cpu:.0f} s")
    return all([wall <= TARGETS["wall"], judged(folder, sft, seed), *compared(folder, sft, seed)])


def judged(folder: Path, sft: Writer, seed: int) -> bool:
    """Print what the reward model knows; whether that is enough."""
    from gaitway.domains.texts.rewards import reward_of_run

    requests = [row["prompt"] for row in islice(SOURCE.stream("test", seed), HELD_OUT)]
    pairs = sft.preferences(requests, 10_000 + seed)
    prompts = [row["prompt"] for row in pairs]
    scores = [
        reward_of_run(prompts, [row[name] for row in pairs], run=str(folder / "judge"))
        for name in ("chosen", "rejected")
    ]
    apart = [chosen - rejected for chosen, rejected in zip(*scores, strict=True)]
    truly = [score(row["prompt"], row["chosen"]) - score(row["prompt"], row["rejected"]) for row in pairs]
    differ = [said * true > 0 for said, true in zip(apart, truly, strict=True) if true]
    accuracy = sum(differ) / len(differ)
    loss = _first(folder / "judge", "learn/loss")
    print(
        f"  reward model: right in {100 * accuracy:.1f} % of {len(differ)} new pairs, in "
        f"{100 * sum(said > 0 for said in apart) / len(apart):.1f} % of {len(apart)} by a judge who errs in "
        f"{100 * sum(true < 0 for true in truly) / len(differ):.1f} %; first loss {loss:.3f}"
    )
    return accuracy >= TARGETS["reward model"]


def compared(folder: Path, sft: Writer, seed: int) -> list[bool]:
    """Print what PPO and DPO have gained over SFT; whether that is enough."""
    requests = [row["prompt"] for row in SOURCE.rows("test")]
    worth = [sft.worth(requests, place) for place in (20_000 + seed, 30_000 + seed)]
    print(f"  SFT: worth {_mean(worth[0]):.2f}, wins {100 * _wins(*worth):.1f} % against itself")
    found = []
    for name in ("ppo", "dpo"):
        writer = Writer(folder / name)
        answers, kl = writer.answers_and_divergence(requests, 40_000 + seed, sft)
        theirs = [score(request, answer) for request, answer in zip(requests, answers, strict=True)]
        wins = _wins(theirs, worth[0])
        error = 1.96 * math.sqrt(wins * (1.0 - wins) / len(requests))
        print(
            f"  {name.upper()}: worth {_mean(theirs):.2f}, wins {100 * wins:.1f} +- {100 * error:.1f} % against SFT, "
            f"KL {kl:.1f} nats; such as {answers[0]!r} to {requests[0]!r}"
        )
        found.append(wins >= TARGETS["win rate"] and kl <= TARGETS["KL"])
    loss = _first(folder / "dpo", "learn/pair_loss")
    print(f"  DPO's first loss {loss:.6f}, ln 2 {math.log(2.0):.6f}")
    return [*found, abs(loss - math.log(2.0)) < 1e-3]


class Writer:
    """The model of a run, and what it answers."""

    def __init__(self, run: Path):
        from gaitway.domains.texts.models import load_writer

        loaded = load_writer(str(run), device="cpu")
        self.model, self.conversation = loaded.model, Conversation(loaded.tokenizer)
        self.engine = TransformersEngine(loaded.model)

    def answers(self, requests: Sequence[str], seed: int) -> list[str]:
        return [self.conversation.decode(answer.tokens) for answer in self._sample(requests, seed)]

    def preferences(self, requests: Sequence[str], seed: int) -> list[Row]:
        """Two answers to each request and what the judge, with mistakes, says; empty and equal ones are left out."""
        rng, rows = random.Random(seed), []
        for request, *two in zip(
            requests, self.answers(requests, 2 * seed), self.answers(requests, 2 * seed + 1), strict=True
        ):
            if all(two) and two[0] != two[1]:
                chosen, rejected = SOURCE.prefer(rng, request, *two)
                rows.append({"prompt": request, "chosen": chosen, "rejected": rejected})
        return rows

    def worth(self, requests: Sequence[str], seed: int) -> list[float]:
        """Judge's true score of an answer to each request."""
        return [score(request, a) for request, a in zip(requests, self.answers(requests, seed), strict=True)]

    @torch.no_grad()
    def answers_and_divergence(self, requests: Sequence[str], seed: int, other: Writer) -> tuple[list[str], float]:
        """Answers, and the mean of log P(answer) - log P(answer) of ``other`` over them."""
        sampled = self._sample(requests, seed)
        sequences = []
        for request, answer in zip(requests, sampled, strict=True):
            prompt = self.conversation.prompt(request)
            tokens = torch.tensor([*prompt, *answer.tokens])
            sequences.append((tokens, (torch.arange(len(tokens)) >= len(prompt)).float()))
        batch = pad(sequences, torch.device("cpu"))
        mine, theirs = (CausalLMPolicy(w.model).log_probs(*batch)[0].sum(1) for w in (self, other))
        return [self.conversation.decode(answer.tokens) for answer in sampled], float((mine - theirs).mean())

    def _sample(self, requests: Sequence[str], seed: int):
        sampling = Sampling(max_tokens=LIMIT, stop_tokens=self.conversation.stops, seed=seed)
        return self.engine.generate([self.conversation.prompt(request) for request in requests], sampling)


def _train(out: Path, seed: int, *arguments: str) -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        "gaitway",
        "train",
        *arguments,
        "--seed",
        str(seed),
        "--out",
        str(out),
        "--quiet",
    ]
    subprocess.run(
        [*command, "num_threads=1", "evaluation_interval=0", "evaluation_episodes=0"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _write(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def _first(run: Path, metric: str) -> float:
    """The value of a metric in the first line of a run's metrics."""
    with (run / "metrics.jsonl").open(encoding="utf-8") as lines:
        return float(json.loads(next(lines))[metric])


def _wins(first: Sequence[float], second: Sequence[float]) -> float:
    return _mean([float(a > b) + 0.5 * float(a == b) for a, b in zip(first, second, strict=True)])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


if __name__ == "__main__":
    main()
