"""``gaitway compare``: compare runs, with what chance alone explains, curves and a gate.

Compare runs: falls, tracking errors and verdicts of robots, tables of scores, evaluations and speed, aggregates (IQM,
median, mean, optimality gap), learning curves by steps and by wall time, and the settings, versions and machines in
which the runs differ. The protocol is printed with each number. Two groups are ranked only if chance alone gives so
clear a result in at most 5 % of cases; 95 % intervals need ten runs of each. Returns of different rewards are not
compared.

Folders are searched for runs, and for logs of other programs: monitor.csv of Stable-Baselines3 and event files of
TensorBoard. Failed and damaged runs are named and left out, and so are stopped ones without --unfinished, which cuts
all runs to the steps that they share. With several tasks, scores are normalised per task before they are averaged.

--baseline with --min-prob-improvement makes a gate: the exit code is 1 if, on any task, the probability that a new run
is better than a baseline run (ties count half) is below the bound. A failed new run counts as the worst.

The exit code is 0 if runs were compared and the gate, if given, was passed; 1 if not; 2 for bad input.

examples:
  gaitway compare runs/cartpole
  gaitway compare runs --where task=hopper --group agent --html hopper.html
  gaitway compare runs/sweep --group agent.optimizer.learning_rate --out report
  gaitway compare runs/go2 runs/straight --group task.rewards.straight --unfinished
  gaitway compare runs/pong --published "DreamerV3's PPO=1e6:-6.8,2.5e6:12.9" --html pong.html
  gaitway compare runs/new --baseline runs/old --min-prob-improvement 0.05
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import COMPARE
from . import common

if TYPE_CHECKING:
    from ..compare.comparison import Comparison
    from ..compare.gate import Gate


WIDTH = 200  # of tables in a file or pipe, which have no width of their own
DEFAULTS = {"group": "agent", "metric": "return", "reps": 2000}


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("folders RUN|FOLDER", "runs, or folders of runs", Path, nargs="+")
    parser.option(
        "--group KEY[,KEY]",
        "group runs by agent, preset, seed, world, or a setting or term of config.yaml (default agent)",
        default=DEFAULTS["group"],
    )
    parser.option("--where KEY=VALUE", "keep only runs with this value; repeatable", many=True)
    parser.option("--label OLD=NEW", "rename a group; repeatable", many=True)
    parser.option(
        "--metric",
        "return (training, default), length, evaluation, evaluation-max, or a key of metrics.jsonl",
        default=DEFAULTS["metric"],
    )
    parser.option(
        "--normalize HOW",
        "none, minmax, atari-human, or a YAML file of 'task: [low, high]' (default minmax for several tasks)",
    )
    parser.option(
        "--published [TASK=]NAME=SCORE",
        "draw and list a published score, or points STEPS:SCORE,STEPS:SCORE of a curve; repeatable",
        many=True,
    )
    parser.switch("--unfinished", "compare stopped runs too, at the number of steps that all share")
    parser.option("--reps", "resamples (default 2000)", options.count, default=DEFAULTS["reps"])
    parser.option("--html FILE", "write one self-contained page", Path)
    parser.option("--out DIR", "write compare.md, compare.csv, compare.html, and figures as PNG and SVG", Path)
    parser.option("--baseline DIR", "baseline runs to compare with", Path)
    parser.option(
        "--min-prob-improvement P",
        "fail if the probability of improvement is lower, from 0 to 1, for example 0.05",
        options.number(0.0, 1.0),
    )


def run(args: argparse.Namespace) -> int:
    _check(args)
    if args.html or args.out:
        common.require("writing figures", COMPARE)
    from ..compare.gate import judge
    from ..compare.text import show
    from ..terminal import console

    comparison = _comparison(args)
    gate = judge(comparison, args.min_prob_improvement) if args.min_prob_improvement is not None else None
    show(comparison, console() if sys.stdout.isatty() else console(width=WIDTH))
    for text in comparison.warnings:
        print(f"gaitway: warning: {text}", file=sys.stderr)
    if args.html or args.out:
        _write(args, comparison, gate)
    if gate is None:
        return 0
    print(gate.line())
    return 0 if gate.passed else 1


def _check(args: argparse.Namespace) -> None:
    bound = args.min_prob_improvement
    if bound is not None and args.baseline is None:
        raise UserError("--min-prob-improvement compares with a baseline: add --baseline DIR")
    if bound is not None and args.unfinished:
        raise UserError("--min-prob-improvement judges finished runs: leave out --unfinished")
    if args.html is not None and args.html.is_dir():
        raise UserError(f"--html {args.html} is a folder: name a file such as {args.html / 'compare.html'}")


def _comparison(args: argparse.Namespace) -> Comparison:
    from ..compare import gather
    from ..compare.comparison import compare
    from ..compare.unfinished import cut

    new = gather.find_runs(args.folders)
    old = gather.find_runs([args.baseline]) if args.baseline else []
    both = {path.resolve() for path in new} & {path.resolve() for path in old}
    if both and len(both) < len(new):
        raise UserError(f"{args.baseline} lies among the new runs: name only folders of new runs")
    headers, left_out = gather.read_headers(new)
    base, base_left_out = gather.read_headers(old, baseline=True)
    chosen = gather.choose([*headers, *base], args.where)
    headers = gather.put_into_groups(chosen, args.group, args.label)
    runs, unusable = gather.read_runs(headers, args.metric, unfinished=args.unfinished)
    left_out = [*left_out, *base_left_out, *unusable]
    said: list[str] = []
    if args.unfinished:
        runs, short, said = cut(runs, args.metric)
        left_out += short
    return compare(
        runs,
        left_out,
        grouped_by=args.group,
        normalise=args.normalize,
        reps=args.reps,
        cut=said,
        published=args.published,
    )


def _write(args: argparse.Namespace, comparison: Comparison, gate: Gate | None) -> None:
    from ..compare.figures import draw
    from ..compare.page import report
    from ..compare.text import comma_separated
    from ..runs.files import make_folder, write_atomically, write_text_atomically

    for folder in filter(None, (args.out, args.html and args.html.absolute().parent)):
        make_folder(folder)
    drawings = draw(comparison)
    page = report(comparison, drawings, gate, shlex.join(_typed(args)))
    if args.html is not None:
        write_text_atomically(args.html, page.html())
        print(f"page: {args.html}")
    if args.out is not None:
        write_text_atomically(args.out / "compare.html", page.html())
        write_text_atomically(args.out / "compare.md", page.markdown())
        write_text_atomically(args.out / "compare.csv", comma_separated(comparison))
        for drawing in drawings:
            write_text_atomically(args.out / f"{drawing.name}.svg", drawing.svg)
            png = drawing.png()
            write_atomically(args.out / f"{drawing.name}.png", lambda file, png=png: file.write(png))  # type: ignore[misc]
        print(f"report: {args.out}")


def _typed(args: argparse.Namespace) -> list[str]:
    """The command that gives the same numbers: what was typed, less the places to write to."""
    from ..runs.private import private

    words = ["gaitway", "compare", *map(str, args.folders)]
    for name in (
        "group",
        "where",
        "label",
        "metric",
        "normalize",
        "published",
        "reps",
        "baseline",
        "min_prob_improvement",
    ):
        value = getattr(args, name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one != DEFAULTS.get(name):
                words += [f"--{name.replace('_', '-')}", str(one)]
    words += ["--unfinished"] if args.unfinished else []
    return [private(word) for word in words]
