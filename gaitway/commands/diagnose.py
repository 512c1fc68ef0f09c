"""``gaitway diagnose``: name the cause of a mismatch between simulators.

Compare a bundle with a recording of its policy in the simulator it comes from, and name the cause of a mismatch.

Three checks: the bundle builds the recorded observation from the recorded states; its graph computes the recorded
actions and joint targets; MuJoCo moves each recorded state to the recorded next one. Possible causes are joint order,
sign, scale, offset, frames, quaternion order, history layout, clips, delay, another policy, gains, armature and torque
limit. Each comes with its evidence and the fix.

The exit code is 0 if no mismatch is found, 1 if one is named, 2 for bad input.

examples:
  gaitway diagnose bundles/go2 --recording rollout.npz
  gaitway diagnose runs/walk/bundle --recording rollout.npz --json diagnosis.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import options, sources
from ..catalogue import MUJOCO
from . import common

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|BUNDLE", "run (exported first) or bundle", Path)
    common.add_checkpoint(parser)
    parser.option("--recording FILE.npz", "recording by 'gaitway record' or Isaac Lab's recorder", Path, required=True)
    parser.option("--json FILE", "also write the findings as JSON", Path)


def run(args: argparse.Namespace) -> int:
    common.require("diagnose", MUJOCO)
    from gaitway_sim2real.diagnose import diagnose_bundle
    from gaitway_tasks.recording import Recording

    from ..runs.files import make_folder, write_text_atomically

    Recording.load(args.recording)
    which = sources.settled(args.source, args.checkpoint)
    bundle = sources.bundle_of(args.source, which=which)
    if args.json is not None:
        make_folder(args.json.absolute().parent)
    diagnosis = diagnose_bundle(bundle, args.recording)
    if args.json is not None:
        write_text_atomically(args.json, diagnosis.to_json())
    print(diagnosis.summary())
    return 1 if diagnosis.findings else 0
