"""Cost of a Gaitway task over Isaac Lab's own, per environment step, in the same Isaac Lab 3.0 on the same machine.

    .venv-isaaclab3/bin/python benchmarks/isaaclab_overhead.py [--physics newton] [--num-envs 64] [--rough]

The stock task and Gaitway's take turns in one process: same robot, drives, seed, actions, noise, resets and commands,
and without what randomises robots or pushes them, in which the two may differ. On the CPU, without Isaac Sim; make
test-isaaclab3 makes the environment. Every turn repeats the same steps from the same states, which is checked, so each
step counts with the fastest of its turns, in CPU time of this process: other load on the machine then changes less. On
PhysX the states are the same with --joint-ordering only: resets draw for the joints in the simulator's order. The first
steps, in which kernels are compiled, are not counted. "Managers" is the step without the physics engine, whose work is
the same in both.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
WARM_UP, KEPT_EVENTS = 20, ("reset_base", "reset_robot_joints")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--physics", choices=("physx", "newton"), default="physx")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100, help="per turn")
    parser.add_argument("--turns", type=int, default=3, help="of each task")
    parser.add_argument("--rough", action="store_true")
    parser.add_argument(
        "--joint-ordering", action="store_true", help="Isaac Lab puts the joints of both in the robot's order"
    )
    args = parser.parse_args()
    if importlib.util.find_spec("isaaclab") is None:
        print("not run: Isaac Lab 3.0 is not installed here; make test-isaaclab3 makes an environment with it")
        return
    sys.path[:0] = [str(ROOT / folder) for folder in ("tests/peers/isaaclab3", "extensions", "tasks", "agents")]
    import kitless

    kitless.use_local_assets(Path(tempfile.mkdtemp()))
    names = ("stock", "gaitway")
    turns: dict[str, list[np.ndarray]] = {name: [] for name in names}
    ends: list[np.ndarray] = []
    for turn in range(args.turns):
        for name in names if turn % 2 == 0 else names[::-1]:
            times, end = measure(configuration(name, args), args.steps)
            ends.append(end)
            turns[name].append(times)
            step, managers = 1e3 * times.mean(axis=1)
            print(f"turn {turn + 1} {name:8s} {step:8.2f} ms a step, managers {managers:6.2f} ms", flush=True)
    ground = "rough" if args.rough else "flat"
    print(f"\n{ground} ANYmal C, {args.num_envs} environments, {args.physics} on the CPU, CPU time")
    best = {name: np.min(turns[name], axis=0).mean(axis=1) for name in names}
    for row, label in enumerate(("step", "managers")):
        stock, ours = 1e3 * best["stock"][row], 1e3 * best["gaitway"][row]
        print(f"{label:8s}  stock {stock:8.2f} ms  gaitway {ours:8.2f} ms  ratio {ours / stock:.3f}")
    print(f"largest difference of a joint angle at the end of any two turns: {np.ptp(ends, axis=0).max():.1e} rad")
    physics = 1e3 * (best["stock"][0] - best["stock"][1])
    share = (best["gaitway"][1] - best["stock"][1]) / best["stock"][0]
    print(f"with the same {physics:.2f} ms of physics in both: {100 * share:+.2f} % per step")


def configuration(name: str, args: argparse.Namespace) -> Any:
    import gaitway_isaaclab
    import kitless
    from gaitway_tasks.registry import get_task

    task, count = get_task(f"velocity-{'rough' if args.rough else 'flat'}-anymal-c"), args.num_envs
    if name == "stock":
        cfg = kitless.stock_cfg(kitless.STOCK_ROUGH if args.rough else kitless.STOCK_FLAT, count, args.physics)
    else:
        cfg = kitless.kitless(gaitway_isaaclab.env_cfg(task, count, "cpu", 0, args.physics, asset="nucleus"), count)
        cfg.events.reset_base.params["pose_range"]["yaw"] = (-3.14, 3.14)  # Isaac Lab's pi
    if args.joint_ordering:
        cfg.scene.robot.joint_ordering = list(task.robot.joint_names)
    for event in vars(cfg.events):
        if event not in KEPT_EVENTS:
            setattr(cfg.events, event, None)
    return cfg


def measure(cfg: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """CPU time [s] of each step and of its part outside the physics, shape (2, steps); the last joint angles [rad]."""
    import kitless
    import torch

    env = kitless.make_env(cfg)
    env.reset()
    physics, inside = env.sim.step, 0.0

    def timed_physics(*args: Any, **kwargs: Any) -> None:
        nonlocal inside
        start = time.process_time()
        physics(*args, **kwargs)
        inside += time.process_time() - start

    env.sim.step = timed_physics
    generator = torch.Generator().manual_seed(0)
    times = np.zeros((2, steps))
    gc.disable()
    for step in range(-WARM_UP, steps):
        actions = 0.5 * torch.randn(env.num_envs, 12, generator=generator)
        inside, start = 0.0, time.process_time()
        env.step(actions)
        whole = time.process_time() - start
        if step >= 0:
            times[:, step] = whole, whole - inside
    gc.enable()
    end = env.scene["robot"].data.joint_pos.torch.numpy().copy()
    env.close()
    return times, end


if __name__ == "__main__":
    main()
