"""``gaitway train``: learn a task."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from ..catalogue import AGENTS, WORLDS
from ..errors import RunError, UserError
from . import common

RESUMABLE = ("total_steps", "num_threads", "checkpoint_interval", "keep_checkpoints")
"""Settings that may change when a run is continued; any other would make it a different run."""

DESCRIPTION = """\
Learn a task, from nothing or from where a run stopped.

Settings come from, in rising order: the defaults, --preset, --config FILE, key=value. Any field of the resolved
configuration can be set, of the learner (agent.*), the simulator (physics.*) or the task itself (task.*); unknown keys
and wrong types are refused before anything starts. The whole is written to config.yaml in the run folder.

The run folder also gets run.json, metrics.jsonl, tensorboard/ and checkpoints/. Ctrl-C or SIGTERM finishes the
iteration and writes a checkpoint; --resume goes on from there, bit for bit as if nothing had happened.

examples:
  gaitway train velocity-flat-anymal-c-blind --preset cpu --out runs/walk
  gaitway train velocity-flat-anymal-c-blind --out runs/walk --resume
  gaitway train velocity-flat-anymal-c --seed 1 num_envs=512 agent.optimizer.learning_rate=3e-4
  gaitway train velocity-flat-anymal-c task.rewards.action_rate_l2.weight=-0.02 task.timing.decimation=2
  gaitway train velocity-flat-anymal-c task.events.push_robot=null        # null removes a term
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "train", "learn a task", DESCRIPTION)
    parser.add_argument("task", help="name of the task; 'gaitway list tasks' shows them")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="change a setting, e.g. num_envs=512")
    parser.add_argument("--world", help="simulator to train in (default mujoco)")
    parser.add_argument("--preset", help="named settings for a kind of machine, e.g. cpu")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file of settings")
    parser.add_argument("--seed", type=int, help="seed of everything random (default 0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder (default runs/TASK/TIME-seedK)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the run in --out, or the newest run of the task; starts one if there is none",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, only the last line")
    return parser


def run(args: argparse.Namespace) -> int:
    from gaitway_tasks.registry import UnknownNameError, presets, task_names

    if args.task not in task_names():
        raise UnknownNameError("task", args.task, task_names())
    if args.preset is not None and args.preset not in presets(args.task):
        raise UnknownNameError(f"preset of {args.task}", args.preset, presets(args.task))
    world = args.world or "mujoco"
    if world not in WORLDS:
        raise UnknownNameError("world", world, WORLDS)
    common.require(f"training in {world}", WORLDS[world])
    common.require("training with ppo", AGENTS["ppo"])

    from .. import runs
    from ..config import resolve
    from ..train import rehearse, train

    path = args.out or (runs.newest_run(args.task) if args.resume else None)
    if args.resume and path is not None and runs.is_run(path):
        return _resume(args, path)
    config = resolve(
        args.task,
        preset=args.preset,
        config_file=args.config,
        overrides=args.settings,
        seed=args.seed,
        world=args.world,
    )
    rehearse(config)
    folder = runs.RunFolder.create(path or runs.default_folder(args.task, config.seed), config)
    print(f"training {config.task.name} in {config.world}, seed {config.seed}, run folder {folder.path}", flush=True)
    if config.preset is None:
        print("these are Isaac Lab's settings, meant for a GPU; --preset cpu learns to walk in minutes on two cores")
    return train(config, folder, quiet=args.quiet)


def _resume(args: argparse.Namespace, path: Path) -> int:
    from ..config import difference, merge
    from ..runs import RunFolder
    from ..train import train

    folder = RunFolder.open(path)
    stored = folder.config()
    if stored.task.name != args.task:
        raise RunError(f"{path} is a run of {stored.task.name}, not of {args.task}: choose another --out")
    for name in ("seed", "preset", "world"):
        asked, had = getattr(args, name), getattr(stored, name)
        if asked is not None and asked != had:
            raise RunError(f"{path} was started with --{name} {had}, not {asked}: choose another --out")
    config = merge(stored, args.config, args.settings)
    if changed := [key for key in difference(stored, config) if key not in RESUMABLE]:
        raise UserError(
            f"{changed[0]} cannot change when a run is continued (only {', '.join(RESUMABLE)} can): "
            "start a new run with another --out"
        )
    if folder.record["status"] == "finished" and folder.record["steps"] >= config.total_steps:
        print(f"{path} is finished: {folder.record['steps']:,} steps; raise total_steps to train on")
        return 0
    print(f"continuing {path} after {folder.record['steps']:,} of {config.total_steps:,} steps", flush=True)
    folder.set_config(config)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    return train(config, folder, quiet=args.quiet)


def _show_warning(message: Warning | str, *where: object) -> None:
    """A line for the user, without the line of code that a programmer would want."""
    print(f"gaitway: warning: {message}", file=sys.stderr)
