"""The verdicts of ``make walk`` with several seeds: how often does a training end with PASS, and after what effort?

    python benchmarks/walk_seeds.py [--task velocity-flat-anymal-c-blind] [--seeds 0 1 2 3 4 5 6 7 8 9]
        [--out runs/walk_seeds] [key=value ...]

Every seed is a walk of its own (``python -m gaitway.walk``), in OUT/seed<k>. The table is written to OUT/seeds.md after
each seed. Started again, the script goes on where it stopped: a seed with a verdict is done. "B" is the CPU time of the
training in units of ``walk_cost.py``, measured just before each training. "Falls" are those on the command grid.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from walk_cost import Bare

GRID = ("lin_vel_error", "yaw_vel_error", "lin_vel_bias", "yaw_vel_bias", "falls")
HEAD = (
    "| seed | steps [M] | ended by | CPU [s] | CPU [B] | verdict | linear, yaw error | linear, yaw bias | falls "
    "| failed |\n|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    from gaitway.runs.provenance import machine
    from gaitway.walk import TASK

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default=TASK)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--out", type=Path, default=Path("runs/walk_seeds"), help="folder of the run folders")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the training")
    options = parser.parse_args()
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        folder = options.out / f"seed{seed}"
        if not is_done(folder):
            note_unit(options.out / f"seed{seed}.json")
            walk = [sys.executable, "-m", "gaitway.walk", "--task", options.task]
            if code := subprocess.run([*walk, "--out", folder, "--seed", str(seed), *options.settings]).returncode:
                raise SystemExit(code)
        table = written(options.out, options.seeds)
    print(f"\n{table}\n\nin {options.out / 'seeds.md'}")


def is_done(folder: Path) -> bool:
    """True if a walk is complete: it has a verdict, and the film that is made last."""
    return (folder / "bundle/validation.json").exists() and (folder / "videos/walk.mp4").exists()


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
    record = json.loads((out / f"seed{seed}/run.json").read_text())
    cpu, unit = record["cpu_time_s"], json.loads((out / f"seed{seed}.json").read_text())["unit"]
    scenarios = verdict["scenarios"]
    grid = next((scenario["metrics"] for scenario in scenarios if scenario["name"] == "command_grid"), {})
    linear, yaw, linear_bias, yaw_bias, falls = (number(grid.get(name)) for name in GRID)
    failed = [scenario["title"] for scenario in scenarios if scenario["required"] and not scenario["passed"]]
    required = sum(scenario["required"] for scenario in scenarios)
    return (
        f"| {seed} | {record['steps'] / 1e6:.2f} | {record['reason']} | {cpu:.0f} | {cpu / unit:.1f} "
        f"| {verdict['verdict']} {required - len(failed)}/{required} | {linear}, {yaw} | {linear_bias}, {yaw_bias} "
        f"| {falls} | {'; '.join(failed)} |"
    )


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main()
