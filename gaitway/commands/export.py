"""``gaitway export``: from a run to a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import EXPORT
from . import common

DESCRIPTION = """\
Write the bundle of a run: a folder that runs the policy on a robot without Gaitway's training half.

It holds policy.onnx (sensor signals in, joint targets out), contract.yaml (joint order, gains, limits, rates, frames),
io_descriptors.yaml, golden.npz (recorded inputs and outputs that every runtime replays first) and robot.xml. The graph
is compared with the training policy before anything is written.

A policy that reads what no robot measures, such as its base velocity, is refused; train the '-blind' task instead.

example:
  gaitway export runs/walk --out runs/walk/bundle
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "export", "write a run's policy as a bundle for robots", DESCRIPTION)
    parser.add_argument("source", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--out", type=Path, required=True, metavar="BUNDLE", help="folder to write")
    return parser


def run(args: argparse.Namespace) -> int:
    common.require("export", EXPORT)
    from ..runs import RunFolder

    RunFolder.open(args.source)
    bundle = common.export_run(args.source, args.out)
    print(f"bundle: {bundle}")
    return 0
