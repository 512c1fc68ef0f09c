"""``gaitway import-isaaclab``: make a bundle from an Isaac Lab run.

Make a bundle of a policy that Isaac Lab trained with rsl_rl, for validation in MuJoCo and for robots.

RUN is the folder that train.py leaves, such as logs/rsl_rl/anymal_c_flat/2026-01-31_12-00-00, with params/env.yaml,
params/agent.yaml and model_*.pt; Isaac Lab 2.x and 3.0, rsl_rl 3.x to 5.x. Isaac Lab itself is not needed, and nothing
in the folder is executed. Robots of Isaac Lab's velocity tasks and the G1 with 29 or 23 joints are known; others need
--model.

Joints are in the order of the training simulator. It is read from IO_descriptors.yaml if there is one (train.py
--export_io_descriptors), from the run's joint_ordering or from unitree_rl_lab's deploy.yaml, else from the rule of the
physics engine; --joint-order overrides them all.

A policy that reads a signal without a sensor, such as its base velocity, is imported; validate feeds it the true value
of the simulation and says so. If a term has no equivalent here, it is named and nothing is written.

examples:
  gaitway import-isaaclab logs/rsl_rl/unitree_go2_flat/2026-01-31_12-00-00 --out bundles/go2
  gaitway validate bundles/go2
  gaitway import-isaaclab RUN --out bundles/mine --model my_robot.xml --joint-order hip_l,hip_r,knee_l,knee_r
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalogue import EXPORT
from . import common

if TYPE_CHECKING:
    from gaitway_sim2real.isaaclab.importer import ImportedRun


def add_options(parser: common.Parser) -> None:
    parser.option("source RUN", "run folder that Isaac Lab's train.py wrote", Path)
    parser.option("--out BUNDLE", "folder to write", Path, required=True)
    parser.option("--checkpoint FILE", "model_<iteration>.pt (default: the newest in RUN)", Path)
    parser.option("--robot NAME", "one of Gaitway's robots (default: recognised by the run's asset)")
    parser.option("--model robot.xml", "MJCF of the robot, if it is not one of Gaitway's", Path)
    parser.option("--joint-order ORDER", "joint order: physx, newton, or all joint names separated by commas")


def run(args: argparse.Namespace) -> int:
    common.require("import-isaaclab", EXPORT)
    from gaitway_sim2real.isaaclab.importer import read_run

    found = read_run(
        args.source, checkpoint=args.checkpoint, robot=args.robot, model=args.model, joint_order=args.joint_order
    )
    bundle = found.export(args.out)
    _show(found)
    print(f"bundle: {bundle}")
    print(f"next: gaitway validate {bundle}")
    return 0


def _show(run: ImportedRun) -> None:
    """Print the imported terms, and the warnings to read before trusting a verdict."""
    from rich.table import Table

    from ..terminal import console

    shown, task = console(soft_wrap=True), run.task
    trained = f", {run.iteration} iterations" if run.iteration is not None else ""
    for name, value in (
        ("task", f"{task.name}, {1 / task.timing.step_dt:g} Hz"),
        ("checkpoint", f"{run.checkpoint.name}{trained}, rsl_rl {run.rsl_rl}: {run.network}"),
        ("robot", f"{task.robot.name}, {task.robot.num_joints} joints"),
        ("joint order", f"{run.joint_order}: {', '.join(task.robot.joint_names)}"),
    ):
        shown.print(f"{name:12}{value}")
    table = Table(box=None, pad_edge=False)
    for column, justify in (("observation term", "left"), ("numbers", "right"), ("function", "left")):
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name, width in run.observation.widths.items():
        table.add_row(name, str(width), run.observation.functions[name])
    table.add_row("total", str(sum(run.observation.widths.values())), "")
    shown.print(table)
    for note in run.notes:
        shown.print(f"approximated: {note}")
    if run.estimated:
        what = {"root_lin_vel_b": "its base velocity", "height_scan": "the heights around it"}
        shown.print(
            f"not measured: the policy reads {' and '.join(what[name] for name in run.estimated)}, which no robot "
            f"measures; validate feeds the simulation's own, a robot needs an estimator"
        )
