"""Policies trained on rough ground, judged on courses: how far up each ladder, by task and seed.

    python benchmarks/rough_ground.py [--tasks velocity-rough-anymal-c velocity-rough-go2-blind] [--seeds 0 1 2]
        [--out runs/rough_ground] [key=value ...]

Every training is a run of its own in OUT/TASK/seed<k>: trained, exported, validated with --rough. The table is written
to OUT/rough_ground.md after each. Started again, the script goes on where it stopped. Beside it stand the same policies
on stairs whose risers are ramps of 0.1 m, as the tiles of a training have them: how much these flatter; both are drawn
in OUT/rough_ground.png. Last comes what an environment step costs on rough ground and on a plane, in CPU time,
interleaved.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

TASKS = ("velocity-rough-anymal-c", "velocity-rough-anymal-c-blind", "velocity-rough-go2-blind")
RAMPS = (0.05, 0.075, 0.10, 0.125, 0.15, 0.18, 0.20)
ENVS, STEPS, ROUNDS = 256, 30, 6


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/rough_ground"), help="folder of the run folders")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the training")
    options = parser.parse_args()
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    for task in options.tasks:
        for seed in options.seeds:
            judged(task, seed, options.out / task / f"seed{seed}", options.settings)
            written(options.out, options.tasks, options.seeds)
    print(written(options.out, options.tasks, options.seeds))
    print(speed(options.tasks[0]))


def judged(task: str, seed: int, run: Path, settings: list[str]) -> None:
    """Train, export and validate, as far as that is not done."""
    bundle = run / "bundle"
    if not (bundle / "validation.json").exists():
        gaitway("train", task, "--preset", "cpu", "--seed", str(seed), "--out", run, *settings)
        if not bundle.exists():
            estimates = [] if task.endswith("-blind") else ["base_lin_vel=robot", "height_scan"]
            gaitway("export", run, "--out", bundle, *(word for name in estimates for word in ("--estimate", name)))
        gaitway("validate", bundle, "--rough", "--report", run / "report", codes=(0, 1))
    if not (run / "ramps.json").exists():
        (run / "ramps.json").write_text(json.dumps(ramps(bundle)))


def gaitway(*arguments: Any, codes: tuple[int, ...] = (0,)) -> None:
    code = subprocess.run([sys.executable, "-m", "gaitway", *map(str, arguments)]).returncode
    if code not in codes:
        raise SystemExit(code)


def ramps(bundle: Path) -> dict[str, float]:
    """Share of the robots that cross stairs with ramps for risers, by the title of the rung."""
    from gaitway_sim2real.trial import validate_bundle
    from gaitway_velocity.rough import ladder

    rungs = [rung for name in ("stairs-up", "stairs-down") for rung in ladder(name, RAMPS) if rung.number is not None]
    with_ramps = [replace(rung, ground=replace(rung.ground, ramps=True)) for rung in rungs]
    verdict = validate_bundle(bundle, scenarios=with_ramps, processes=0, video=False)
    return {result.title: float(result.metrics["crossed"]) for result in verdict.scenarios}


def written(out: Path, tasks: list[str], seeds: list[int]) -> str:
    """The tables of what is done, which are also written into ``out``."""
    runs = [(task, seed, out / task / f"seed{seed}") for task in tasks for seed in seeds]
    runs = [(task, seed, run) for task, seed, run in runs if (run / "ramps.json").exists()]
    verdicts = [json.loads((run / "bundle/validation.json").read_text()) for _, _, run in runs]
    ladders = list(dict.fromkeys(row["ladder"] for verdict in verdicts for row in verdict["ground"]))
    lines = [
        _line("task", "seed", "steps [M]", "CPU [min]", "flat suite", *ladders),
        _line(*["---"] * (5 + len(ladders))),
    ]
    for (task, seed, run), verdict in zip(runs, verdicts, strict=True):
        record = json.loads((run / "run.json").read_text())
        required = [row for row in verdict["scenarios"] if row["required"]]
        passed = sum(row["passed"] for row in required)
        level = {row["ladder"]: row["level"] or "none" for row in verdict["ground"]}
        flat = f"{verdict['verdict']} {passed}/{len(required)}"
        minutes = f"{record['cpu_time_s'] / 60:.0f}"
        lines.append(_line(task, seed, f"{record['steps'] / 1e6:.1f}", minutes, flat, *map(level.get, ladders)))
    lines += ["", "Share of the robots that crossed, by task, course and seed:", "", *_shares(runs, verdicts)]
    text = "\n".join(lines) + "\n"
    (out / "rough_ground.md").write_text(text)
    if runs:
        drawn(runs, verdicts, out / "rough_ground.png")
    return text


def drawn(runs: list[tuple[str, int, Path]], verdicts: list[dict[str, Any]], path: Path) -> None:
    """Share that crossed over the height of stairs, with risers and with ramps: a line for each seed."""
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(task for task, *_ in runs))
    figure, axes = plt.subplots(len(tasks), 2, figsize=(8.0, 2.6 * len(tasks)), sharey=True, squeeze=False)
    for (task, _, run), verdict in zip(runs, verdicts, strict=True):
        ramps = json.loads((run / "ramps.json").read_text())
        for axis, name in zip(axes[tasks.index(task)], ("stairs-up", "stairs-down"), strict=True):
            rungs = [row for row in verdict["scenarios"] if row["ladder"] == name and row["number"] is not None]
            for style, found in (
                ("o-", [(row["number"], row["metrics"]["crossed"]) for row in rungs]),
                ("s--", [(row["number"], ramps[row["title"]]) for row in rungs if row["title"] in ramps]),
            ):
                axis.plot(*zip(*found, strict=True), style, color="#1f5fa8" if style == "o-" else "#c46a12", ms=4)
            axis.axhline(0.9, color="0.7", lw=0.8)
            axis.set_title(f"{task.removeprefix('velocity-rough-')}, {name.replace('-', ' ')}", fontsize=9)
    axes[0][0].plot([], [], "o-", color="#1f5fa8", label="vertical risers")
    axes[0][0].plot([], [], "s--", color="#c46a12", label="ramps of 0.1 m")
    axes[0][0].legend(fontsize=8, frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("height of a step [cm]")
    for row in axes:
        row[0].set_ylabel("crossed")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _shares(runs: list[tuple[str, int, Path]], verdicts: list[dict[str, Any]]) -> Iterator[str]:
    yield _line("task", "course", "seeds", "with ramps")
    yield _line(*["---"] * 4)
    for task in dict.fromkeys(task for task, *_ in runs):
        mine = [(run, verdict) for (name, _, run), verdict in zip(runs, verdicts, strict=True) if name == task]
        flat = [json.loads((run / "ramps.json").read_text()) for run, _ in mine]
        rungs = dict.fromkeys(row["title"] for _, verdict in mine for row in verdict["scenarios"] if row["ladder"])
        for title in rungs:
            found = [
                next((row["metrics"]["crossed"] for row in verdict["scenarios"] if row["title"] == title), None)
                for _, verdict in mine
            ]
            ramps = [each[title] for each in flat if title in each]
            yield _line(task, title, *(", ".join(map(_percent, part)) for part in (found, ramps)))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _line(*cells: Any) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def speed(task: str) -> str:
    """Environment steps a second of CPU time on tiles, scan included, over those on a plane."""
    from gaitway_mujoco import make_env
    from gaitway_tasks.registry import get_task

    names = (task, task.replace("-rough-", "-flat-"))
    envs = [make_env(get_task(name, "cpu"), ENVS, num_threads=1) for name in names]
    for env in envs:
        env.reset()
    taken: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for env, times in zip(envs, taken, strict=True):
            start = time.process_time()
            for _ in range(STEPS):
                env.step(0.3 * torch.randn(env.action_space.shape))
            times.append(time.process_time() - start)
    rough, flat = (float(np.median(times)) for times in taken)
    return f"{names[0]}: {flat / rough:.2f} of the steps of {names[1]} in the same CPU time"


if __name__ == "__main__":
    main()
