"""What reinforcement learning adds to demonstrations, on word problems and a tiny model, from nothing.

    python benchmarks/language.py [--seeds 0 1 2] [--tiers main long] [--out FOLDER]

Main tier, the task ``arithmetic``: demonstrations whose writer gets a step wrong now and then, and GRPO on new problems
with nothing but their answers. Long tier, ``arithmetic-long``: problems with more steps than any demonstration has.
Beside every GRPO run stand its controls, which get the CPU time that it took:

* the same SFT checkpoint with more of the same demonstrations;
* clean demonstrations of the same problems, from nothing, for the time of SFT and GRPO together.

Every training is the ``gaitway train`` command in a process of its own, whose CPU seconds, start and evaluations
included, are what is compared. Accuracy is that of ``gaitway evaluate`` on all held-out problems, of the likeliest
answer and of one sampled at temperature 1; both are shown, for sampling alone would flatter whatever sharpens.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIERS = ("main", "long")
BUDGET = {"main": 5.0, "long": 20.0}
"""CPU minutes from nothing to the end of GRPO."""


@dataclass(frozen=True)
class Run:
    """A finished training and the CPU seconds that it took."""

    path: Path
    cpu: float
    steps: int


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=list(TIERS))
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    options = parser.parse_args()
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as temporary:
        for seed in options.seeds:
            folder = (options.out or Path(temporary)) / f"seed{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            print(f"seed {seed}: demonstrations without a slip {flawless():.1%}")
            sft = train(folder / "sft", seed, "arithmetic", "sft")
            grpo = train(folder / "grpo", seed, "arithmetic", "grpo", "--model", str(sft.path))
            if "main" in options.tiers:
                main_tier(folder, seed, sft, grpo)
            if "long" in options.tiers:
                long_tier(folder, seed, sft, grpo)


def main_tier(folder: Path, seed: int, sft: Run, grpo: Run) -> None:
    more = train(
        folder / "more", seed, "arithmetic", "sft", "--model", str(sft.path), steps=sft.steps * grpo.cpu / sft.cpu
    )
    clean = train(
        folder / "clean", seed, "arithmetic", "sft", "task.source.slips=0",
        steps=sft.steps * (sft.cpu + grpo.cpu) / sft.cpu,
    )  # fmt: skip
    for name, run in (("SFT", sft), ("SFT, then GRPO", grpo), ("SFT, then more SFT", more), ("clean SFT", clean)):
        print(f"  {name:20} {said(evaluate(run, 'arithmetic'))}, CPU {run.cpu:.0f} s")
    shares = [row["rollout/reward/correctness"] for row in rows(grpo) if row["steps"] > grpo.steps * 2 / 3]
    print(f"  while learning, last third: right {min(shares):.1%} to {max(shares):.1%} of an update's samples")
    print(f"  SFT and GRPO: {(sft.cpu + grpo.cpu) / 60:.1f} CPU minutes, {BUDGET['main']:.0f} allowed")


def long_tier(folder: Path, seed: int, sft: Run, grpo: Run) -> None:
    longer = train(folder / "long", seed, "arithmetic-long", "grpo", "--model", str(grpo.path))
    time = grpo.cpu + longer.cpu
    more = train(
        folder / "more-long", seed, "arithmetic", "sft", "--model", str(sft.path), steps=sft.steps * time / sft.cpu
    )
    clean = train(
        folder / "clean-long", seed, "arithmetic", "sft", "task.source.slips=0",
        steps=sft.steps * (sft.cpu + time) / sft.cpu,
    )  # fmt: skip
    print("  problems of four and five steps, demonstrations of three at most:")
    for name, run in (
        ("SFT", sft),
        ("SFT, then GRPO", grpo),
        ("and GRPO on longer", longer),
        ("SFT, then more SFT", more),
        ("clean SFT", clean),
    ):
        print(f"  {name:20} {said(evaluate(run, 'arithmetic-long'))}, CPU {run.cpu:.0f} s")
    print(f"  all of it: {(sft.cpu + time) / 60:.1f} CPU minutes, {BUDGET['long']:.0f} allowed")


def flawless() -> float:
    """Share of the demonstrations that are correct and complete."""
    from gaitway_tasks.language.tasks import get_language_task

    written = get_language_task("arithmetic").source.rows("train")
    return sum(row["flawless"] for row in written) / len(written)


def train(out: Path, seed: int, task: str, agent: str, *arguments: str, steps: float | None = None) -> Run:
    length = [] if steps is None else [f"total_steps={round(steps)}"]
    before = cpu()
    gaitway("train", task, "--agent", agent, "--seed", str(seed), "--out", str(out), "--quiet", *arguments, *length)
    spent = cpu() - before
    return Run(out, spent, json.loads((out / "run.json").read_text("utf-8"))["steps"])


def evaluate(run: Run, task: str) -> dict[str, Any]:
    """The measures of ``gaitway evaluate`` on every held-out problem, by name."""
    gaitway("evaluate", str(run.path), "--task", task, "--samples", "1")
    found: dict[str, Any] = json.loads((run.path / "evaluations" / f"{task}.json").read_text("utf-8"))
    return found["measures"]


def said(measures: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {100 * measures[name]['value']:.1f} % [{100 * measures[name]['low']:.1f}, "
        f"{100 * measures[name]['high']:.1f}]"
        for name in ("greedy accuracy", "sampled accuracy", "sampled format")
    )


def rows(run: Run) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text("utf-8").splitlines()]


def gaitway(*arguments: str) -> None:
    subprocess.run([sys.executable, "-P", "-m", "gaitway", *arguments], check=True, stdout=subprocess.DEVNULL)


def cpu() -> float:
    """CPU seconds of the processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
