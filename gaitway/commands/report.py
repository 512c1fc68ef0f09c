"""``gaitway report``: put language runs on one page.

Put runs of a language task on one page: their evaluation scores with intervals, their training curves, and their
answers to the same problems. Give the runs in reading order: the starting point, the trained runs, the controls.
Evaluate them first with gaitway evaluate, on the same problems.

examples:
  gaitway report runs/reason/sft runs/reason/grpo --html runs/reason/report.html
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from .. import options
from ..catalogue import COMPARE
from . import common

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("runs RUN", "run folders", Path, nargs="+")
    parser.option("--html FILE", "page to write; it loads nothing from the network", Path, required=True)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    common.require("report", COMPARE)
    from ..domains.texts.report import language_report, read_runs
    from ..runs.files import make_folder, write_text_atomically
    from ..runs.private import typed

    report = read_runs(args.runs)
    make_folder(args.html.absolute().parent)
    page = language_report(report, shlex.join(["gaitway", *typed()]))
    write_text_atomically(args.html, page.html())
    for line in report.headlines():
        print(line)
    print(f"report: {args.html}")
    return 0
