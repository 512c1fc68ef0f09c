"""``gaitway diagnose``: why does this policy behave differently in another simulator?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import TWIN
from . import common

DESCRIPTION = """\
Compare a bundle with a recording of its policy in the simulator it comes from, and name the cause of a mismatch.

Three checks: the bundle builds the recorded observation from the recorded states; its graph computes the recorded
actions and joint targets; MuJoCo moves each recorded state to the recorded next one. Causes that can be named: joint
order, sign, scale, offset, frames, quaternion order, history layout, clips, delay, another policy, gains, armature and
torque limit, each with its evidence and the fix.

The exit code is 0 if no mismatch is found, 1 if one is named, 2 for bad input.

examples:
  gaitway diagnose bundles/go2 --recording rollout.npz
  gaitway diagnose runs/walk/bundle --recording rollout.npz --json diagnosis.json
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "diagnose", "name the cause of a mismatch between simulators", DESCRIPTION)
    parser.add_argument("source", type=Path, metavar="RUN|BUNDLE", help="run (exported first) or bundle")
    parser.add_argument(
        "--recording",
        type=Path,
        required=True,
        metavar="FILE.npz",
        help="recording by 'gaitway record' or Isaac Lab's recorder",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the findings as JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    common.require("diagnose", TWIN)
    from gaitway_sim2real.diagnose import diagnose_bundle
    from gaitway_tasks.recording import Recording

    from ..runs.files import make_folder, write_text_atomically

    Recording.load(args.recording)
    bundle = common.bundle_of(args.source)
    if args.json is not None:
        make_folder(args.json.absolute().parent)
    diagnosis = diagnose_bundle(bundle, args.recording)
    if args.json is not None:
        write_text_atomically(args.json, diagnosis.to_json())
    print(diagnosis.summary())
    return 1 if diagnosis.findings else 0
