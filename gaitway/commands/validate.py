"""``gaitway validate``: check a policy and give a verdict.

Run the suite of the policy's family on a bundle in plain MuJoCo, from the bundle alone, and give a verdict.

Scenarios of walking: command grid, standing, straight, stops, command steps, pushes, gaits, floors, friction, feet,
links, payload, motor strength, sensor noise, delay, slope. They run side by side on all cores. Each reports falls,
tracking errors, gait, cost of transport, torque and joint-limit use against limits. A limit passes if its whole
interval does; a scenario that leaves it open is repeated. Writes report.html (with plots and a video), validation.json,
and a copy of validation.json in the bundle.

A command of another package names its own suite, which runs with --trust.

--rough also walks the robot over ladders of ground, from easy to hard: stairs up and down, slopes, a random grid, rough
ground, kerbs, rubble, gaps and stepping stones. The verdict names a class for each, such as "stairs up: 10 cm".
Classes do not change PASS or FAIL.

--model takes any MJCF with the contract's joints; meshes, inertias, actuators and body names may differ. The controller
is the bundle's.

--engine physx or newton, or both with a comma, also runs the policy in Isaac Lab 3.0 on a CPU, with the same metrics
and limits; the results count in the verdict. --isaaclab-python names the Python that has Isaac Lab, if not this one.

A LEAPP package, as Isaac Lab 3.0 exports it, or any other policy that 'gaitway import' reads is first written as a
bundle, in bundle/ in its folder or NAME-bundle/ beside its file. Read its notes and guesses.

--checkpoint validates another policy of a run than its last. Several of them, or 'all', are compared in a table; each
gets its bundle and its report, without a video, in validated/ in the run, whose own bundle stays as it is.

--baseline OLD says whether the policy is better or worse than another one of the same robot, a run or a bundle. Both go
through the suite and walk the same twins: robots that differ from the model as real ones do. The word is better, worse
or no difference shown, and a table has the differences with 95 % intervals (docs/gate.md). Twins are walked until a
difference of 2 points of survival would be found with 95 % certainty, at most --twins of them.

--junit writes a test case for each required scenario, and one for --baseline, as GitHub and GitLab read them.

--sign KEY signs every file and the verdict of a bundle that passed, for 'gaitway deploy --trust KEY.pub'. KEY is an
Ed25519 key, made by 'ssh-keygen -t ed25519', or a PEM file.

--falsify then searches for the smallest failing case: commands, blows, and differences of body, floor, motors and
sensors, within declared bounds. It takes 10 minutes, or as many as are given; Ctrl-C ends it and keeps what was found.
The verdict stays as it is. The case is a file in falsified/ beside the report, which 'gaitway run --case' repeats.

The exit code is 0 if the verdict is PASS (of several checkpoints: if any passes), 1 if it is FAIL, 2 for a bundle or
model that cannot be used. With --baseline it is 1 if the policy is worse, and 0 otherwise, also after a FAIL.

examples:
  gaitway validate runs/walk
  gaitway validate runs/walk/bundle --model my_robot.xml --json verdict.json
  gaitway validate runs/walk/bundle --seeds 3
  gaitway validate runs/walk --rough
  gaitway validate runs/walk --checkpoint best
  gaitway validate runs/walk --checkpoint all
  gaitway validate runs/walk --baseline released/bundle --junit gate.xml
  gaitway validate runs/walk --engine physx --isaaclab-python ~/isaaclab/bin/python
  gaitway validate runs/walk/bundle --falsify
  gaitway validate runs/walk/bundle --sign ~/.ssh/id_ed25519
  gaitway validate logs/rsl_rl/anymal_c_flat/2026-11-20/IsaacContrib-Velocity-Flat-AnymalC
  gaitway validate unitree_rl_lab/deploy/robots/g1/config/policy/velocity/v0
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .. import options, sources
from ..backends.table import backend, engines
from ..catalogue import MUJOCO, SIGNING
from . import common

if TYPE_CHECKING:
    from gaitway_sim2real.trial import Verdict
    from rich.table import Table

ALL = "all"
WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|BUNDLE|POLICY", "run (exported first), bundle, or foreign policy (imported first)", Path)
    parser.option(
        "--checkpoint WHICH",
        "checkpoint of the run: its steps (2000000 or 2M), best or last (default: last, unless the run chose one); all "
        "for each that was kept; repeatable",
        _checkpoint,
        many=True,
    )
    parser.option("--robot NAME", "robot, if a foreign policy does not name it")
    parser.switch("--rough", "also judge the policy on stairs, slopes and rough ground")
    parser.option("--model robot.xml", "another MJCF of the same robot", Path)
    parser.option("--engine physx|newton", "also test the policy in Isaac Lab 3.0", many=True)
    for world in dict.fromkeys(engines().values()):
        backend(world).add_engine_options(parser)
    parser.option("--json FILE", "also write the verdict as JSON", Path)
    parser.option("--report DIR", "folder for the report (default validation/ beside the bundle)", Path)
    parser.option("--seed", "random seed of the scenarios (default 0)", options.seed, default=0)
    parser.option(
        "--seeds N",
        "run seeds --seed to --seed + N - 1 and judge their robots together (default 1)",
        options.whole(1, 100),
        default=1,
    )
    parser.option("--baseline OLD", "run or bundle to compare with", Path)
    parser.option("--twins N", "most twins for --baseline (default 4000)", options.whole(1, 100_000))
    parser.option("--junit FILE", "also write the result as JUnit XML", Path)
    parser.option(
        "--falsify MINUTES",
        "then search for the smallest failing case (default 10 minutes); give it after the bundle",
        options.number(0.0, 10_000.0, above=True),
        nargs="?",
        const=10.0,
    )
    parser.option("--sign KEY", "sign the bundle with this Ed25519 key if it passes", Path)
    parser.switch("--no-video", "write the report without a video")
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    common.require("validate", MUJOCO)
    key = _signing_key(args)
    others = _engines(args)
    from .. import api
    from ..runs.files import make_folder
    from ..runs.judgements import policies_judged

    if len(args.checkpoint) > 1 or ALL in args.checkpoint:
        return _several(args, others)
    for file in (args.json, args.junit):
        if file is not None:
            make_folder(file.absolute().parent)
    which = sources.settled(args.source, next(iter(args.checkpoint), None))
    if args.baseline is not None:
        return _compared(args, which)
    if args.twins is not None:
        raise UserError(f"--twins {args.twins}: twins are walked with --baseline only: name one, or leave it out")
    bundle = sources.bundle_of(args.source, args.robot, which)

    def told(bundle: Path, judged: Path, verdict: Verdict) -> None:
        if args.json is not None:
            verdict.save(args.json)
        if args.junit is not None:
            from gaitway_sim2real.trial.junit import write_junit

            write_junit(args.junit, verdict)
        print(verdict.summary())
        if args.model is None and (run := api.run_of(bundle)) is not None:
            print(f"  policies of this run that were judged: {policies_judged(run)}")
        if key is not None:
            _sign(bundle, judged, key, verdict.passed)

    verdict = api.validate(
        bundle, model=args.model, seed=args.seed, seeds=args.seeds, rough=args.rough, report=args.report,
        video=not args.no_video, engines=others, falsify=args.falsify, after=told,
    )  # fmt: skip
    print(f"report: {_short((args.report or api.report_folder(bundle)) / 'report.html')}")
    return 0 if verdict.passed else 1


def _compared(args: argparse.Namespace, which: Any) -> int:
    """Compare with a baseline, and print the differences and the word."""
    for name in ("model", "engine", "rough", "falsify", "sign"):
        if getattr(args, name):
            raise UserError(f"--{name} is not for a comparison: leave it out, or validate without --baseline")
    from gaitway_files.writing import write_text
    from gaitway_sim2real.trial.junit import write_junit

    from .. import api

    bundle = sources.bundle_of(args.source, args.robot, which)
    gate = api.gate(
        bundle, args.baseline, twins=args.twins, seed=args.seed, seeds=args.seeds, report=args.report,
        video=not args.no_video,
    )  # fmt: skip
    print(gate.new.summary())
    heads = ("", "new", "baseline", "difference", "95 % interval", "over")
    cells = [
        (
            row.metric.title,
            row.metric.say(row.new),
            row.metric.say(row.old),
            row.said(row.change),
            row.interval,
            row.where,
        )
        for row in gate.rows
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for line in (heads, *cells):
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    print(f"report: {_short((args.report or api.report_folder(bundle)) / 'report.html')}")
    print(gate.power())
    print(f"{gate.word}: {'; '.join(gate.why)}")
    if args.json is not None:
        write_text(args.json, json.dumps(gate.to_dict(), indent=1, allow_nan=False) + "\n")
    if args.junit is not None:
        write_junit(args.junit, gate.new, gate)
    return 0 if gate.passed else 1


def _checkpoint(text: str) -> int | str:
    return ALL if text == ALL else common.checkpoint(text)


def _several(args: argparse.Namespace, others: list[Any]) -> int:
    """Validate several checkpoints of a run, and print a table of their verdicts."""
    alone = ("robot", "json", "report", "sign", "baseline", "twins", "junit", "falsify")
    if given := [name for name in alone if getattr(args, name) is not None]:
        raise UserError(f"--{given[0]} is for one checkpoint: leave it out, or name one")
    sources.refuse_checkpoint(args.source, args.checkpoint[0])
    from .. import api
    from ..runs.choice import VALIDATED
    from ..tables import show_table
    from ..terminal import console

    named = () if ALL in args.checkpoint else args.checkpoint
    verdicts = api.validate_all(
        args.source, named, model=args.model, seed=args.seed, seeds=args.seeds, rough=args.rough, engines=others
    )
    show_table(console(), _table(verdicts))
    print(f"reports: {_short(args.source.absolute() / VALIDATED)}/step_*/validation/report.html")
    return 0 if any(verdict.passed for verdict in verdicts.values()) else 1


def _table(verdicts: dict[int, Verdict]) -> Table:
    """A row for each checkpoint: verdict, errors on the command grid, and what failed by most."""
    from ..tables import make_table

    table = make_table("steps", "verdict", "scenarios", "grid [m/s]", "[rad/s]", "failed by most")
    for steps, verdict in verdicts.items():
        required = [result for result in verdict.scenarios if result.required]
        grid = next((result.metrics for result in required if result.name == "command_grid"), {})
        errors = [f"{grid[name]:.3f}" if name in grid else "" for name in ("lin_vel_error", "yaw_vel_error")]
        passed = f"{sum(result.passed for result in required)} of {len(required)}"
        worst = next((f"{result.title}, {check.sentence()}" for result, check in verdict.failures()), "")
        table.add_row(f"{steps:,}", verdict.word, passed, *errors, worst)
    return table


def _engines(args: argparse.Namespace) -> list[Any]:
    """The engines of --engine, checked before any long work."""
    names = [name.strip() for text in args.engine for name in text.split(",")]
    if names and args.model is not None:
        raise UserError("--engine runs the bundle's own robot: leave out --model, or validate it without --engine")
    if unknown := [name for name in names if name not in engines()]:
        raise UserError(f"--engine {unknown[0]}: use {' or '.join(engines())}; MuJoCo always runs")
    return [
        engine
        for world in dict.fromkeys(engines().values())
        for engine in backend(world).validation_engines([n for n in names if engines()[n] == world], args)
    ]


def _signing_key(args: argparse.Namespace) -> Any:
    """Key of --sign, loaded before any long work."""
    if args.sign is None:
        return None
    if args.model is not None:
        raise UserError("--sign signs a bundle with its verdict, and with --model the bundle gets none: leave one out")
    common.require("signing", SIGNING)
    from getpass import getpass

    from gaitway_onboard.bundle.signature import load_private_key, others_may_read

    key = load_private_key(args.sign, getpass if sys.stdin.isatty() else None)
    if others_may_read(args.sign):
        print(f"gaitway: warning: others may read the key {args.sign}: chmod 600 {args.sign}", file=sys.stderr)
    return key


def _sign(bundle: Path, judged: Path, key: Any, passed: bool) -> None:
    from gaitway_onboard.bundle.signature import sign_bundle

    if not passed:
        print("not signed: the verdict is FAIL")
        return
    path, fingerprint = sign_bundle(bundle, key, judged)
    print(f"signed: {_short(path)}, by {fingerprint}")


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
