"""``gaitway sweep``: search settings with Optuna, each trial an ordinary run.

Search the settings of a training: --space names those that vary, and Optuna's TPE proposes their values. Every trial is
a run folder of 'gaitway train', OUT/trial-0000 and so on, in a process of its own.

A dimension is KEY=LOW..HIGH, KEY=LOW..HIGH:log, or choices KEY=A,B,C; whole numbers stay whole. A YAML FILE has the
same texts, lists of choices, or mappings with low, high and log. All are checked before the first trial begins.

A trial that is far behind the others at the same step is pruned. The same command continues a sweep that was stopped
or killed: unfinished trials continue from their checkpoints, and more --trials extend it. A failed trial is named and
counts as one.

--confirm K trains the K best trials, and the settings as they were, with --seeds further seeds: the best of many
trials with one seed each is lucky too. The report is OUT/sweep.html.

examples:
  gaitway sweep cartpole total_steps=20000 --space agent.gamma=0.9..0.999 --trials 8 --jobs 2
  gaitway sweep hopper --space agent.optimizer.learning_rate=1e-4..1e-2:log agent.optimizer.epochs=2,4,8 --confirm 3
  gaitway sweep velocity-flat-go2-blind --metric error/linear --space task.rewards.action_rate_l2.weight=-0.1..-0.001
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import SWEEP
from . import common

WORKS_ON = True
PRUNERS = ("median", "halving", "none")


def add_options(parser: options.Parser) -> None:
    parser.option("task", "task to train; 'gaitway list tasks' shows them")
    parser.option("settings key=value", "settings for every trial", nargs="*")
    parser.option(
        "--space KEY=RANGE|FILE",
        "settings that vary: KEY=LOW..HIGH, KEY=LOW..HIGH:log, KEY=A,B,C, or a YAML file of them; several, repeatable",
        nargs="+",
        action="extend",
        required=True,
    )
    parser.option("--trials N", "trials in all, also failed and pruned ones (default 20)", options.count, default=20)
    parser.option("--jobs N", "trials at the same time (default 1; with --ray one for each CPU)", options.count)
    parser.option("--agent", "agent to train (default: the task's usual one)")
    parser.option("--world", "simulator to train in (default: the task's usual one)")
    parser.option("--preset", "named settings, as for 'gaitway train'")
    parser.option("--config FILE", "YAML file of settings for every trial", Path)
    parser.option(
        "--metric",
        "number to search for: evaluation, evaluation-max, return, length, falls, error/linear or another measure of "
        "the evaluations, examination, or a key of metrics.jsonl (default evaluation, or return without evaluations)",
    )
    parser.switch("--minimize", "less of the metric is better (known for falls, errors and examination)")
    about = "end trials early that are behind: median, halving or none (default median)"
    parser.option("--prune", about, choices=PRUNERS, default="median")
    parser.option("--seed", "seed of all trials and of the proposals (default 0)", options.seed, default=0)
    about = "train the K best trials again with other seeds (default 0)"
    parser.option("--confirm K", about, options.whole(0, 1000), default=0)
    parser.option("--seeds N", "seeds of each with --confirm (default 3)", options.count)
    common.add_ray(parser)
    parser.option("--out DIR", "folder of the sweep (default runs/sweep/TASK, or runs/sweep/TASK-AGENT)", Path)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    if args.seeds and not args.confirm:
        raise UserError(f"--seeds {args.seeds}: these are the seeds of --confirm; add --confirm K, or leave it out")
    common.require("gaitway sweep", SWEEP)
    from ..runs.folder import family
    from ..runs.private import typed
    from ..runs.provenance import available_cores
    from ..sweep.loop import run_sweep
    from ..sweep.plan import make_plan, not_pruned

    threads = 1 if args.ray else None if (args.jobs or 1) < 2 else max(1, available_cores() // args.jobs)
    plan, config = make_plan(
        args.task,
        args.space,
        args.settings,
        agent=args.agent,
        world=args.world,
        preset=args.preset,
        config_file=args.config,
        metric=args.metric,
        minimize=args.minimize,
        seed=args.seed,
        prune=args.prune,
        threads=threads,
        trusted=args.trusted_modules,
    )
    if reason := not_pruned(plan, config):
        print(f"no pruning: {reason}")
    out = args.out or Path("runs/sweep") / family(config.task.name, config.algorithm)
    with common.place_of(args.ray, out, [config]) as place:
        return run_sweep(
            plan,
            out,
            trials=args.trials,
            workers=args.jobs or common.room_of(place),
            confirm=args.confirm,
            seeds=args.seeds or 3,
            command=shlex.join(["gaitway", *typed()]),
            place=place,
        )
