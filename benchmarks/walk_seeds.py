"""The verdicts of ``make walk`` with several seeds: how often does a training end with PASS, and after what effort?

    python benchmarks/walk_seeds.py [--task velocity-flat-anymal-c-blind ...] [--seeds 0 1 2 3 4 5 6 7 8 9]
        [--out runs/walk_seeds] [--again N] [key=value ...]

Every seed is a walk of its own (``python -m gaitway.walk``), in OUT/seed<k>, or of several tasks in OUT/TASK/seed<k>.
The table is written to seeds.md beside them after each seed. Of several tasks, the first seed of each comes first.
Started again, the script goes on where it stopped: a seed with a verdict is done. "B" is the CPU time of the training,
trials included, in units of ``walk_cost.py``, measured just before each training. "Judged" are policies with a
published verdict, and "first" is the first of these. "Errors" and "falls" are those on the command grid. With ``--again
N``, each final policy gets verdicts on N other draws (seeds 1 to N), and "again" is how many say PASS: of a policy that
was chosen by luck few would.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from walk_cost import Bare

GRID = ("lin_vel_error", "yaw_vel_error", "lin_vel_bias", "yaw_vel_bias", "falls")
STAGES = ("train", "export", "validate", "run")
HEAD = (
    "| seed | steps [M] | ended by | examined, tried, judged | first | verdict | again | CPU [B] | "
    "wall of train, export, validate, film [s] | linear, yaw error | linear, yaw bias | falls | failed |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    from gaitway.runs.provenance import machine
    from gaitway.walk import TASK

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=[TASK])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--out", type=Path, default=Path("runs/walk_seeds"), help="folder of the run folders")
    parser.add_argument("--again", type=int, default=0, help="verdicts of each final policy on other draws")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the training")
    options = parser.parse_args()
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    outs = {task: options.out / task if len(options.task) > 1 else options.out for task in options.task}
    for seed in options.seeds:
        for task, out in outs.items():
            out.mkdir(parents=True, exist_ok=True)
            folder = out / f"seed{seed}"
            if not is_done(folder):
                note_unit(out / f"seed{seed}.json")
                walk = [sys.executable, "-m", "gaitway.walk", "--task", task]
                if code := subprocess.run([*walk, "--out", folder, "--seed", str(seed), *options.settings]).returncode:
                    raise SystemExit(code)
            judge_again(folder, options.again)
            print(f"\n{task}\n{written(out, options.seeds)}\n\nin {out / 'seeds.md'}", flush=True)


def is_done(folder: Path) -> bool:
    """True if a walk is complete: it has a verdict, and the film that is made last."""
    return (folder / "bundle/validation.json").exists() and (folder / "videos/walk.mp4").exists()


def judge_again(folder: Path, count: int) -> None:
    """Verdicts of a walk's policy on draws of other seeds, where they are not there yet."""
    for seed in range(1, count + 1):
        if not (found := folder / f"again-{seed}.json").exists():
            with tempfile.TemporaryDirectory() as report:
                bundle = shutil.copytree(folder / "bundle", Path(report) / "bundle")
                asked = ["validate", str(bundle), "--seed", str(seed), "--no-video", "--json", str(found)]
                subprocess.run([sys.executable, "-m", "gaitway", *asked], check=False)


def note_unit(path: Path) -> None:
    """Write what one B takes now, unless the walk was begun before."""
    if not path.exists():
        path.write_text(json.dumps({"unit": float(Bare().steps(200)[1])}))


def written(out: Path, seeds: list[int]) -> str:
    """The table of the seeds that are done, which is also written into ``out``."""
    done = [seed for seed in seeds if is_done(out / f"seed{seed}")]
    verdicts = [json.loads((out / f"seed{seed}/bundle/validation.json").read_text()) for seed in done]
    rows = [row(out, seed, verdict) for seed, verdict in zip(done, verdicts, strict=True)]
    passed = sum(verdict["verdict"] == "PASS" for verdict in verdicts)
    suites = " and ".join(sorted({verdict["suite_version"] for verdict in verdicts}))
    table = "\n".join(
        [HEAD, *rows, "", f"{passed} of {len(done)} PASS; suite {suites}; errors and biases in m/s, rad/s"]
    )
    (out / "seeds.md").write_text(table + "\n")
    return table


def row(out: Path, seed: int, verdict: dict[str, Any]) -> str:
    folder = out / f"seed{seed}"
    record = json.loads((folder / "run.json").read_text())
    unit = json.loads((out / f"seed{seed}.json").read_text())["unit"]
    examined, judged, stages = (lines(folder / f"{name}.jsonl") for name in ("examinations", "verdicts", "stages"))
    tried = sum("suite" in row for row in examined)
    walls = ", ".join(f"{sum(row['wall_s'] for row in stages if row['stage'] == name):.0f}" for name in STAGES)
    again = [json.loads(path.read_text())["verdict"] for path in sorted(folder.glob("again-*.json"))]
    scenarios = verdict["scenarios"]
    grid = next((scenario["metrics"] for scenario in scenarios if scenario["name"] == "command_grid"), {})
    linear, yaw, linear_bias, yaw_bias, falls = (number(grid.get(name)) for name in GRID)
    failed = [scenario["title"] for scenario in scenarios if scenario["required"] and not scenario["passed"]]
    required = sum(scenario["required"] for scenario in scenarios)
    return (
        f"| {seed} | {record.get('chosen', record['steps']) / 1e6:.2f} | {record['reason']} "
        f"| {len(examined)}, {tried}, {len(judged)} | {judged[0]['verdict']} "
        f"| {verdict['verdict']} {required - len(failed)}/{required} | {again.count('PASS')} of {len(again)} "
        f"| {record['cpu_time_s'] / unit:.1f} | {walls} | {linear}, {yaw} | {linear_bias}, {yaw_bias} "
        f"| {falls} | {'; '.join(failed)} |"
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main()
