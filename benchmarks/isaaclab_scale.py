"""Training speed of a Gaitway task in Isaac Lab at many sizes, waits of the host, and the time until a PASS.

    .venv-isaaclab3/bin/python benchmarks/isaaclab_scale.py [--physics physx newton] [--num-envs 1024 2048 4096 8192]
    .venv-isaaclab3/bin/python benchmarks/isaaclab_scale.py --until-pass --num-envs 4096

Each row is a run of `gaitway train` of its own, whose first iterations, in which kernels are compiled, are not counted.
"waits" are operations in a control step, learning left out, for which the host must wait for a GPU: numbers that it
reads, and shapes that depend on data. They are counted by PyTorch's dispatcher, on any device. Isaac Lab's own
kernels are no operations of PyTorch. --until-pass trains with --until good, then validates the run; it needs a newer
MuJoCo than Newton brings, see docs/isaaclab.md. On a machine without a GPU, add --device cpu.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("", "tasks", "agents", "sim2real", "extensions", "tests", "tests/helpers")
SKIPPED = 2  # iterations
WARM_UP, COUNTED = 3, 10  # control steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="velocity-flat-anymal-c-blind")
    parser.add_argument("--preset", help="of gaitway train")
    parser.add_argument("--physics", nargs="+", choices=("physx", "newton"), default=["physx", "newton"])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--iterations", type=int, default=20, help="counted, of each run")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--asset", choices=("auto", "nucleus", "mjcf"), default="auto", help="source of the robot")
    parser.add_argument("--until-pass", action="store_true", help="train until it is good, then validate")
    parser.add_argument("--total-steps", type=int, help="at most, with --until-pass")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count-waits", action="store_true", help=argparse.SUPPRESS)  # in a process of its own
    args = parser.parse_args()
    if importlib.util.find_spec("isaaclab") is None:
        print("not run: Isaac Lab is not installed here; see docs/isaaclab.md")
        return
    if args.count_waits:
        print(json.dumps(waits(args)))
        return
    print(device_of(args.device))
    if args.until_pass:
        print("engine    envs  trained         steps   minutes  verdict")
    else:
        print("engine    envs    steps/s  environment  learning  waits a step")
    for physics in args.physics:
        for count in args.num_envs:
            print(f"{physics:8s} {count:5d}  {row(args, physics, count)}", flush=True)


def row(args: argparse.Namespace, physics: str, count: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        if args.until_pass:
            return until_pass(args, physics, count, run)
        settings = ["agent.num_steps=24", f"total_steps={24 * count * (SKIPPED + args.iterations)}"]
        gaitway(*train(args, physics, count, run), *settings)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    first, last = rows[SKIPPED - 1], rows[-1]
    speed = (last["steps"] - first["steps"]) / (last["wall_s"] - first["wall_s"])
    total, environment, learning = (
        sum(row[f"time/{part}"] for row in rows[SKIPPED:]) for part in ("total", "environment", "learning")
    )
    child = [sys.executable, __file__, "--count-waits", "--task", args.task, "--device", args.device]
    child += ["--physics", physics, "--num-envs", str(count), "--asset", args.asset, "--seed", str(args.seed)]
    found = json.loads(done(child).splitlines()[-1])
    shares = f"{environment / total:11.0%}  {learning / total:8.0%}"
    return f"{speed:9,.0f}  {shares}  {found['waits']:12.2f}"


def until_pass(args: argparse.Namespace, physics: str, count: int, run: Path) -> str:
    limit = [] if args.total_steps is None else [f"total_steps={args.total_steps}"]
    gaitway(*train(args, physics, count, run), *limit, "--until", "good")
    record = json.loads((run / "run.json").read_text())
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    good = "good" if record.get("reason") == "good" else "to the end"
    verdict = "PASS" if gaitway("validate", str(run), codes=(0, 1)) == 0 else "FAIL"
    return f"{good:10s} {last['steps']:11,d} {last['wall_s'] / 60:9.1f}  {verdict}"


def train(args: argparse.Namespace, physics: str, count: int, run: Path) -> list[str]:
    preset = [] if args.preset is None else ["--preset", args.preset]
    words = ["train", args.task, *preset, "--world", "isaaclab", "--physics", physics, "--seed", str(args.seed)]
    settings = [f"device={args.device}", f"num_envs={count}", f"simulator.asset={args.asset}"]
    return [*words, *settings, "--out", str(run), "--quiet"]


def waits(args: argparse.Namespace) -> dict[str, float]:
    """Operations of a control step that make the host wait, in the mean."""
    sys.path[:0] = [str(ROOT / folder) for folder in FOLDERS]
    import gaitway_isaaclab
    import torch
    from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
    from gaitway_tasks.registry import get_task
    from gpu_work import GpuWork
    from isaaclab.app import launch_simulation
    from isaaclab.envs import ManagerBasedRLEnv

    (physics,), (count,) = args.physics, args.num_envs
    cfg = gaitway_isaaclab.env_cfg(get_task(args.task), count, args.device, args.seed, physics, asset=args.asset)
    with launch_simulation(cfg, {"device": args.device}):
        env = IsaacLabVectorEnv(ManagerBasedRLEnv(cfg))
        env.reset(seed=args.seed)
        actions = torch.zeros(env.action_space.shape, device=env.device)
        for _ in range(WARM_UP):
            env.step(actions)
        with GpuWork() as work:
            for _ in range(COUNTED):
                env.step(actions)
        env.close()
    return {"waits": len(work.waits) / COUNTED}


def device_of(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else f"{os.cpu_count()} CPU cores"


def gaitway(*words: str, codes: tuple[int, ...] = (0,)) -> int:
    command = [sys.executable, "-m", "gaitway", *words]
    finished = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if finished.returncode not in codes:
        sys.exit(f"{' '.join(command)}\n{finished.stdout[-3000:]}{finished.stderr[-3000:]}")
    return finished.returncode


def done(command: list[str]) -> str:
    finished = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if finished.returncode:
        sys.exit(f"{' '.join(command)}\n{finished.stdout[-3000:]}{finished.stderr[-3000:]}")
    return finished.stdout


def environment() -> dict[str, str]:
    path = os.pathsep.join([*(str(ROOT / folder) for folder in FOLDERS), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path}


if __name__ == "__main__":
    main()
