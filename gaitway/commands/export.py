"""``gaitway export``: export a run's policy or model.

Write the bundle of a run: a folder that runs the policy on a robot without Gaitway's training half. Without --out it
is bundle/ in the run, where validate, run and play look for it.

The bundle holds policy.onnx (sensor signals in, joint targets out), contract.yaml (joint order, gains, limits, rates,
frames), io_descriptors.yaml, golden.npz (recorded inputs and outputs that every runtime replays first) and robot.xml.
The graph is compared with the training policy before anything is written.

--format rsl-rl writes model_N.pt instead, which rsl_rl 3, 4 and 5 and Isaac Lab's play and train scripts load. The
settings that describe its networks are printed.

A language model becomes a Hugging Face folder: config, safetensors with adapters merged, tokeniser and chat template.
transformers and vLLM load it; a reward model becomes a sequence classifier.

--checkpoint exports another policy than the run's last: that of a number of steps, or 'best', the best by the
examinations of a training with --until good.

A policy that reads a signal without a sensor, such as its base velocity, is refused: train the '-blind' task, or name
the signal with --estimate. The bundle then requires it as an input. Gaitway estimates base_lin_vel on the robot from
legs and IMU, and the bundle names that estimator; 'base_lin_vel=robot' leaves it to the robot's own software, which
always provides height_scan.

examples:
  gaitway export runs/walk                        # writes runs/walk/bundle
  gaitway export runs/sighted --out bundle --estimate base_lin_vel
  gaitway export runs/sighted --out bundle --estimate base_lin_vel=robot
  gaitway export runs/walk --out bundle --checkpoint best
  gaitway export runs/walk --out checkpoints --format rsl-rl
  gaitway export runs/reason/grpo --out reasoner
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from .. import options, sources
from ..catalogue import EXPORT_FORMATS
from . import common

if TYPE_CHECKING:
    from ..runs.choice import Which


WORKS_ON = True
OWN_FOLDERS = {"bundle": "bundle", "rsl-rl": "rsl-rl", "huggingface": "model"}
"""Folders in a run, by format, that are written without --out."""


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN", "run folder", Path)
    parser.option("--out FOLDER", "folder to write (default: bundle/, rsl-rl/ or model/ in the run)", Path)
    parser.option(
        "--format",
        "format to write (default: bundle for robots, huggingface for language models)",
        choices=EXPORT_FORMATS,
    )
    parser.option(
        "--estimate INPUT[=ESTIMATOR]",
        "input that the robot estimates (base_lin_vel or height_scan), and its estimator; repeatable",
        estimated,
        many=True,
    )
    common.add_checkpoint(parser)
    common.add_trust(parser)


def estimated(text: str) -> tuple[str, str | None]:
    """Input and estimator; None for the usual one."""
    name, separator, by = text.partition("=")
    known = {"base_lin_vel": ("leg-inertial", "robot"), "height_scan": ("robot",)}
    if name not in known:
        raise argparse.ArgumentTypeError(f"{name!r} is not estimated: use {' or '.join(known)}")
    if separator and by not in known[name]:
        raise argparse.ArgumentTypeError(f"{name} is not estimated by {by!r}: use {' or '.join(known[name])}")
    return name, by or None


def run(args: argparse.Namespace) -> int:
    from ..domains.table import domain_in
    from ..runs.files import refuse_links
    from ..runs.folder import RunFolder

    record = RunFolder.open(args.source).record
    formats = domain_in(record["world"]).formats
    form = args.format or formats[0]
    if form not in formats:
        raise UserError(f"--format {form}: {args.source} is a run of {record['task']}; use --format {formats[0]}")
    if args.estimate and form != "bundle":
        raise UserError(f"--estimate is for bundles: leave it out with --format {form}")
    common.require(f"export --format {form}", EXPORT_FORMATS[form])
    which = sources.settled(args.source, args.checkpoint)
    out = args.out or args.source / OWN_FOLDERS[form]
    if args.out is None:
        refuse_links(out)
    if form == "huggingface":
        from ..domains.texts.models import export_run

        export_run(args.source, out, which)
    elif form == "rsl-rl":
        return _write_rsl_rl(args.source, out, which)
    else:
        sources.export_run(args.source, out, dict(args.estimate), which)
    print(f"{form}: {out}")
    return 0


def _write_rsl_rl(run: Path, out: Path, which: Which) -> int:
    """Write a policy as ``model_<iteration>.pt``, and print the network settings for rsl_rl."""
    from gaitway_agents.presets import PPOConfig
    from gaitway_agents.rsl_rl import checkpoint as rsl_rl_checkpoint
    from gaitway_agents.rsl_rl.config import RslRlConfig

    from ..runs.files import make_folder, write_tensors_atomically
    from ..runs.folder import RunFolder, read_checkpoint
    from ..training.load import load_policy

    config, policy, _, path = load_policy(RunFolder.open(run), which)
    agent = config.agent
    if not isinstance(agent, PPOConfig | RslRlConfig):
        raise UserError(f"{run} was trained with {config.algorithm}: rsl_rl only loads PPO's models")
    if isinstance(agent, PPOConfig) and agent.symmetry == "canonical":
        raise UserError(
            f"{run} has agent.symmetry=canonical: its policy mirrors its observations, which rsl_rl's models cannot; "
            "train with agent.symmetry=augment or none"
        )
    try:
        networks = rsl_rl_checkpoint.networks_of(policy)
    except ValueError as error:
        raise UserError(f"{run} cannot be written for rsl_rl: {error}") from error
    state = read_checkpoint(path)
    if isinstance(agent, PPOConfig):
        actor = critic = agent.model.activation
        rate = state["trainer"]["optimizer"].get("learning_rate", agent.optimizer.learning_rate)
    else:
        actor, critic = agent.actor.activation, agent.critic.activation
        rate = state["trainer"]["optimizer"]["param_groups"][0]["lr"]
    make_folder(out)
    file = out / f"model_{state['iteration']}.pt"
    checkpoint = rsl_rl_checkpoint.checkpoint(networks, iteration=state["iteration"], learning_rate=rate)
    write_tensors_atomically(file, checkpoint)
    print(f"rsl-rl: {file}")
    for release, settings in rsl_rl_checkpoint.settings_of(networks, actor=actor, critic=critic).items():
        print(f"Isaac Lab {release} loads it with {' '.join(settings)}")
    return 0
