"""``gaitway report``: what language runs learnt, on one page."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from ..catalogue import COMPARE
from . import common

DESCRIPTION = """\
Put runs of a language task on one page: their evaluation scores with intervals, their training curves, and their
answers to the same problems. Give the runs in the order to be read: the starting point, the trained runs, the controls.
Evaluate them first with gaitway evaluate, on the same problems.

examples:
  gaitway report runs/reason/sft runs/reason/grpo --html runs/reason/report.html
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "report", "put language runs on one page", DESCRIPTION)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    parser.add_argument(
        "--html", type=Path, required=True, metavar="FILE", help="page to write; it loads nothing from the network"
    )
    common.add_trust(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    common.require("report", COMPARE)
    from ..domains.texts.report import language_report, read_runs
    from ..runs.files import make_folder, write_text_atomically

    report = read_runs(args.runs)
    make_folder(args.html.absolute().parent)
    page = language_report(report, shlex.join(["gaitway", *sys.argv[1:]]))
    write_text_atomically(args.html, page.html())
    for line in report.headlines():
        print(line)
    print(f"report: {args.html}")
    return 0
