"""``gaitway play``: watch and steer a policy in a browser.

Watch a policy and steer it from a web browser: sliders for the command, pushes, a restart.

A bundle runs in simulation as it would on the robot, on the page of 'gaitway demo': change the floor and the payload,
and watch the forces on the feet. A run plays its newest checkpoint in the world it trains in, also
during training; a run of Isaac Lab is played in MuJoCo, on flat ground. --terrain sets the ground of either. --video
writes a film of a tour of the commands instead and needs no display. Runs of games and classic tasks can only be
filmed.

--world isaaclab plays it in Isaac Lab, without noise and pushes, and prints the velocity errors of each robot. A run
walks on the physics engine it was trained with. A bundle walks on flat ground, its graph on simulated sensors. --viz
opens one of Isaac Lab's visualizers, --livestream a stream from Isaac Sim, both until Ctrl-C, and --video writes a
film; without any of them nothing is drawn.

examples:
  gaitway play runs/walk
  gaitway play runs/walk/bundle --port 9000
  gaitway play runs/walk --video walk.mp4
  gaitway play runs/walk/bundle --terrain stairs-up:0.10
  gaitway play runs/walk --world isaaclab --seconds 10
  gaitway play runs/walk --world isaaclab --physics newton --viz viser
  gaitway play runs/walk/bundle --world isaaclab --seconds 10
  gaitway play runs/cartpole/2026-01-31_12-00-00-seed0 --video cartpole.mp4 --seconds 10
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from ..backends.table import BACKENDS, backend, with_options
from ..catalogue import PLAY, WORLDS
from . import common

if TYPE_CHECKING:
    from ..view.walkers import Walker


def add_options(parser: common.Parser) -> None:
    parser.option("source RUN|BUNDLE", "run folder or bundle", Path)
    parser.option("--video FILE.mp4", "write a film instead of serving a page", Path)
    parser.option("--seconds", "length (default: 20 for films, until Ctrl-C in a viewer)", common.seconds)
    common.add_page(parser)
    parser.option("--model robot.xml", "bundles only: another MJCF of the same robot", Path)
    common.add_terrain(parser)
    parser.option(
        "--world", "play it in Isaac Lab (default: in MuJoCo, or its own game)", choices=tuple(with_options())
    )
    for simulator in with_options().values():
        simulator.add_options(parser)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    kind = common.run_or_bundle(args.source)
    if args.world is not None:
        return _elsewhere(args, kind)
    for world, simulator in with_options().items():
        if given := [name for name in simulator.own_options if getattr(args, name) is not None]:
            raise UserError(f"--{given[0]} is for {BACKENDS[world].title}: add --world {world}")
    common.require("play", PLAY)
    if kind == "run":
        common.require("playing a run", WORLDS["mujoco"])
        if args.model is not None:
            raise UserError("--model is for bundles: export the run first, then play the bundle")
    if kind == "run" and _is_filmed(args.source):
        if args.terrain is not None:
            raise UserError(f"{args.source} is a run of a game or classic task: leave out --terrain")
        return _film_game(args)
    if args.video is not None:
        return _film(_walker(args, kind), args.video, args.seconds or 20.0)

    from ..view.scene import check_port
    from ..view.steering import view

    check_port(args.host, args.port)
    view(_walker(args, kind), args.host, args.port, args.seconds)
    return 0


def _elsewhere(args: argparse.Namespace, kind: str) -> int:
    """Play in the simulator that is asked for."""
    title = BACKENDS[args.world].title
    if args.terrain is not None:
        raise UserError(f"--terrain is for MuJoCo: leave out --world {args.world}")
    common.require(f"playing in {title}", WORLDS[args.world])
    if kind == "run" and _is_filmed(args.source):
        raise UserError(f"{args.source} is a run of a game or classic task: leave out --world {args.world}")
    return backend(args.world).play(args)


def _is_filmed(run: Path) -> bool:
    """True if a run can only be filmed; raises if it cannot be watched."""
    from ..domains.table import domain_in
    from ..runs.folder import RunFolder

    watched = domain_in(RunFolder.open(run).record["world"]).watched
    if watched == "chat":
        raise UserError(f"{run} is a run of a language model: use gaitway chat {run}")
    return watched == "film"


def _film_game(args: argparse.Namespace) -> int:
    from gaitway_sim2real.mujoco.film import check_video_path

    from ..view.film import film_game

    if args.video is None:
        raise UserError(
            f"{args.source} is a run of a game or classic task, which can only be filmed: add --video FILE.mp4"
        )
    check_video_path(args.video)
    told = film_game(args.source, args.video, args.seconds or 20.0)
    print(f"video: {args.video}; {told}")
    return 0


def _walker(args: argparse.Namespace, kind: str) -> Walker:
    from ..view.walkers import BundleWalker, WorldWalker

    if kind == "bundle":
        return BundleWalker(args.source, args.model, common.ground_of(args))
    return WorldWalker(args.source, args.terrain)


def _film(walker: Walker, out: Path, seconds: float) -> int:
    import numpy as np
    from gaitway_onboard.control.commands import scripted, tour
    from gaitway_sim2real.mujoco.film import check_video_path, film

    from ..runs.files import make_folder
    from ..training.progress import Counter

    check_video_path(out)
    make_folder(out.absolute().parent)
    source = scripted(tour(walker.command_ranges, seconds))
    qpos, commands, velocities = [], [], []
    for step in Counter("walk", "steps").each(range(round(seconds / walker.control_dt))):
        command = np.array(source(step * walker.control_dt))
        walker.step(command)
        qpos.append(walker.qpos.copy())
        commands.append(command)
        velocities.append(walker.velocity())
    labels = [walker.caption] * len(qpos)
    film(
        walker.stage,
        np.array(qpos),
        np.array(commands),
        np.array(velocities),
        labels,
        out,
        control_dt=walker.control_dt,
        frames=Counter("film", "frames").each,
    )
    print(f"video: {out}")
    return 0
