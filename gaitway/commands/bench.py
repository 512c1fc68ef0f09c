"""``gaitway bench``: train a matrix of tasks, agents and seeds.

Train every task with every agent and seed, several at a time, each run in its own process.

Runs go to OUT/<task>-<agent>/seed<k>. Finished runs are left alone and interrupted ones continue, so the same
command can be repeated. A process that is killed is restarted and continues from its checkpoint. All combinations are
checked before the first run starts. Exit code 1 if a run failed.

examples:
  gaitway bench cartpole,acrobot --agent ppo,dqn --seeds 5 --jobs 2
  gaitway bench hopper,walker2d --agent ppo,trpo --seeds 3 --out runs/bench --dry-run
  gaitway bench cartpole --seeds 3 total_steps=50000 agent.gamma=0.99
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import NotDone, UserError

from .. import options
from ..errors import ConfigError
from . import common

if TYPE_CHECKING:
    from ..train_config import TrainConfig

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("tasks", "tasks to train, separated by commas")
    parser.option("settings key=value", "settings for every run", nargs="*")
    parser.option("--agent", "agents to train, separated by commas (default ppo)", default="ppo")
    parser.option("--world", "simulator to train in (default: each task's usual one)")
    parser.option("--seeds N", "seeds 0 to N-1 (default 3)", options.count, default=3)
    parser.option("--jobs N", "runs at the same time (default 1; with --ray one for each CPU)", options.count)
    common.add_ray(parser)
    parser.option("--out DIR", "folder for the runs (default runs/bench)", Path, default=Path("runs/bench"))
    parser.switch("--dry-run", "print the commands and do nothing")


def run(args: argparse.Namespace) -> int:
    from ..bench import check_begun, matrix, run_matrix
    from ..runs.files import make_folder

    tasks, agents = _names(args.tasks, "tasks"), _names(args.agent, "--agent")
    configs = _check(tasks, agents, args.world, args.settings)
    options = ["--world", args.world] if args.world else []
    jobs = matrix(tasks, agents, range(args.seeds), args.out, args.settings, options)
    if args.dry_run:
        for job in jobs:
            print(shlex.join(["gaitway", *job.command()]))
        return 0
    check_begun(jobs)
    with common.place_of(args.ray, args.out, configs) as place:
        make_folder(args.out)
        return run_matrix(jobs, args.jobs or common.room_of(place), place)


def _names(text: str, what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError(f"{what} {text!r}: name at least one")
    if len(set(names)) < len(names):
        raise UserError(f"{what} {text!r}: every name only once")
    return names


def _check(tasks: list[str], agents: list[str], world: str | None, settings: list[str]) -> list[TrainConfig]:
    """All configurations; refuses the whole matrix if one cannot run, before any time is spent on the others."""
    from ..config.tree import to_tree
    from ..start import admit_world
    from ..train_config import resolve

    if given := [word for word in settings if word.partition("=")[0].strip() == "seed"]:
        raise ConfigError(f"{given[0]}: every run would have this seed; leave it out, and say how many by --seeds N")
    admit_world(world)
    objections, configs = [], []
    for task in tasks:
        for agent in agents:
            try:
                config = resolve(task, agent=agent, world=world, overrides=settings)
                to_tree(config)  # refuses functions that no config.yaml can name
                configs.append(config.domain.preflight(config))
            except (ValueError, NotDone) as error:
                objections.append(f"{task} with {agent}: {error}")
    if objections:
        raise ConfigError("\n  ".join(["the matrix cannot run:", *objections]) if objections[1:] else objections[0])
    return configs
