"""``gaitway record``: record a policy's observations, actions and states.

Record a policy's observations, actions and named states in a file for gaitway diagnose.

A run is recorded in its task, with all noise, pushes and randomisation. A bundle is recorded on flat ground, in plain
MuJoCo, as gaitway validate steps it; --model is another MJCF of its robot. --world isaaclab records either in Isaac
Lab, on the physics engine that the run was trained with.

examples:
  gaitway record runs/walk --out rollout.npz
  gaitway record runs/walk --out rollout.npz --checkpoint best
  gaitway record runs/walk/bundle --out mujoco.npz --seconds 5 --envs 4
  gaitway record runs/walk --out physx.npz --world isaaclab --physics physx
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from .. import options, sources
from ..backends.table import BACKENDS, backend, engines, with_options
from ..catalogue import MUJOCO, WORLDS
from . import common

if TYPE_CHECKING:
    from gaitway_tasks.recording import Recording


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|BUNDLE", "run folder or bundle", Path)
    parser.option("--out FILE.npz", "file to write", Path, required=True)
    parser.option("--seconds", "length (default 10)", options.number(0.4, 600.0), default=10.0)
    parser.option("--envs", "robots at once (default 8)", options.whole(1, 4096), default=8)
    parser.option("--seed", "seed of commands, resets and noise (default 0)", options.seed, default=0)
    parser.option("--model robot.xml", "bundles in MuJoCo only: another MJCF of the same robot", Path)
    parser.option("--world", "record it in Isaac Lab (default: in MuJoCo)", choices=tuple(with_options()))
    parser.option("--physics", "engine in Isaac Lab (default: that of the training)", choices=tuple(engines()))
    common.add_checkpoint(parser)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    kind = sources.run_or_bundle(args.source)
    if args.out.suffix != ".npz":
        raise UserError(f"--out {args.out}: a recording is an .npz file")
    from ..runs.files import make_folder

    make_folder(args.out.absolute().parent)
    if args.model is not None and (kind == "run" or args.world is not None):
        raise UserError("--model is another robot for a bundle in MuJoCo: leave it out, or record the bundle there")
    args.checkpoint = sources.settled(args.source, args.checkpoint)
    if args.world is not None:
        common.require(f"recording in {BACKENDS[args.world].title}", WORLDS[args.world])
        recording = backend(args.world).record_rollout(args)
    elif args.physics is not None:
        world = engines()[args.physics]
        raise UserError(f"--physics {args.physics} is an engine of {world}: add --world {world}")
    else:
        common.require("recording", MUJOCO if kind == "bundle" else WORLDS["mujoco"])
        recording = _bundle(args) if kind == "bundle" else _run(args)
    recording.save(args.out)
    print(f"recording: {args.out}; {recording.steps} steps of {recording.num_envs} robots in {recording.simulator}")
    print(f"next: gaitway diagnose BUNDLE --recording {args.out}")
    return 0


def _bundle(args: argparse.Namespace) -> Recording:
    from gaitway_sim2real.diagnose.record import record_bundle

    return record_bundle(args.source, seconds=args.seconds, envs=args.envs, seed=args.seed, model=args.model)


def _run(args: argparse.Namespace) -> Recording:
    from gaitway_mujoco.recorder import RolloutRecorder

    from ..runs.folder import RunFolder
    from ..training.load import act_in, load_actor

    folder = RunFolder.open(args.source)
    if (world := folder.record["world"]) != "mujoco":
        how = (
            f"add --world {world}" if world in with_options()
            else "record the bundle that gaitway export makes of it" if world in BACKENDS
            else "only runs of robots can be recorded"
        )  # fmt: skip
        raise UserError(f"{args.source} trains in {world}: {how}")
    config, actor, _ = load_actor(folder, args.checkpoint)
    recorder = RolloutRecorder(config.environments.make_env(config, args.envs, args.seed))
    act_in(recorder, actor.cpu(), range(round(args.seconds / config.robot_task.timing.step_dt)), args.seed)
    return recorder.recording()
