"""``gaitway export``: from a run to a bundle, a LEAPP package or a Hugging Face folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import EXPORT, LEAPP, WORLDS
from ..errors import UserError
from . import common

DESCRIPTION = """\
Write the bundle of a run: a folder that runs the policy on a robot without Gaitway's training half.

It holds policy.onnx (sensor signals in, joint targets out), contract.yaml (joint order, gains, limits, rates, frames),
io_descriptors.yaml, golden.npz (recorded inputs and outputs that every runtime replays first) and robot.xml. The graph
is compared with the training policy before anything is written.

--format leapp writes a LEAPP package instead, through NVIDIA's library: the graph, a YAML that describes its inputs and
outputs as Isaac Lab 3.0 describes those of its own policies, and the values that its feedback starts from.

A run of a language model becomes a plain folder in Hugging Face's form: config, safetensors with adapters merged,
tokeniser and chat template. transformers and vLLM load it; a reward model is one for sequence classification.

A policy that reads what no sensor measures, such as its base velocity, is refused: train the '-blind' task, or name
with --estimate what will be estimated. The bundle then demands it as an input. Gaitway estimates base_lin_vel on the
robot, from legs and inertial unit, and the bundle names that estimator; 'base_lin_vel=robot' leaves it to the robot's
own software, as height_scan always is.

examples:
  gaitway export runs/walk --out runs/walk/bundle
  gaitway export runs/sighted --out bundle --estimate base_lin_vel
  gaitway export runs/sighted --out bundle --estimate base_lin_vel=robot
  gaitway export runs/walk --out runs/walk/walk.leapp --format leapp
  gaitway export runs/reason/grpo --out reasoner
"""

FORMATS = {"bundle": EXPORT, "leapp": LEAPP, "huggingface": WORLDS["language"]}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "export", "write a run's policy or model for use elsewhere", DESCRIPTION)
    parser.add_argument("source", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder to write")
    parser.add_argument(
        "--format", choices=FORMATS, help="what to write (default bundle; of a language model, huggingface)"
    )
    parser.add_argument(
        "--estimate",
        action="append",
        default=[],
        type=_estimate,
        metavar="INPUT[=ESTIMATOR]",
        help="base_lin_vel or height_scan: an input that is estimated, and by what; may be given twice",
    )
    common.add_trust(parser)
    return parser


def _estimate(text: str) -> tuple[str, str | None]:
    """Input and estimator; None for the usual one."""
    name, separator, by = text.partition("=")
    known = {"base_lin_vel": ("leg-inertial", "robot"), "height_scan": ("robot",)}
    if name not in known:
        raise argparse.ArgumentTypeError(f"{name!r} is not estimated: use {' or '.join(known)}")
    if separator and by not in known[name]:
        raise argparse.ArgumentTypeError(f"{name} is not estimated by {by!r}: use {' or '.join(known[name])}")
    return name, by or None


def run(args: argparse.Namespace) -> int:
    from ..runs import RunFolder

    writes = RunFolder.open(args.source).record["world"] == "language"
    form = args.format or ("huggingface" if writes else "bundle")
    if writes != (form == "huggingface"):
        what, right = ("a language model", "huggingface") if writes else ("a robot or game", "bundle")
        raise UserError(f"--format {form}: {args.source} is a run of {what}; use --format {right}")
    if writes and args.estimate:
        raise UserError("--estimate is for robots; leave it out")
    common.require(f"export --format {form}", FORMATS[form])
    if writes:
        from ..language.models import export_run

        export_run(args.source, args.out)
    else:
        common.export_run(args.source, args.out, dict(args.estimate), form)
    print(f"{form}: {args.out}")
    return 0
