"""``gaitway play``: watch and steer a policy in a browser.

Watch a policy and steer it from a web browser: sliders for the command, pushes, a restart.

A bundle runs in simulation as on the robot, on the page of 'gaitway demo': change the floor and the payload, and watch
the forces on the feet. A run plays its newest checkpoint in the world it trains in, also during training; --checkpoint
plays another one. A run of Isaac Lab plays in MuJoCo, on flat ground. --terrain sets the ground of either. --video
films a tour of the commands instead and needs no display. Runs of games and classic tasks can only be filmed.

--world isaaclab plays either in Isaac Lab, without noise and pushes, and prints the velocity errors of each robot. A
run walks on its training's physics engine, a bundle on flat ground, where its graph reads simulated sensors. --viz
opens one of Isaac Lab's visualizers and --livestream a stream from Isaac Sim, both until Ctrl-C. --video writes a film.
Without these nothing is drawn.

examples:
  gaitway play runs/walk
  gaitway play runs/walk/bundle --port 9000
  gaitway play runs/walk --video walk.mp4
  gaitway play runs/walk --checkpoint best
  gaitway play runs/walk/bundle --terrain stairs-up:0.10
  gaitway play runs/walk --world isaaclab --seconds 10
  gaitway play runs/walk --world isaaclab --physics newton --viz viser
  gaitway play runs/walk/bundle --world isaaclab --seconds 10
  gaitway play runs/cartpole/2026-01-31_12-00-00-seed0 --video cartpole.mp4 --seconds 10
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options, sources
from ..backends.table import BACKENDS, backend, with_options
from ..catalogue import WORLDS
from . import common


def add_options(parser: options.Parser) -> None:
    parser.option("source RUN|BUNDLE", "run folder or bundle", Path)
    parser.option("--video FILE.mp4", "write a film instead of serving a page", Path)
    parser.option("--seconds", "length (default: 20 for films, until Ctrl-C in a viewer)", options.seconds)
    common.add_page(parser)
    parser.option("--model robot.xml", "bundles only: another MJCF of the same robot", Path)
    common.add_terrain(parser)
    common.add_checkpoint(parser)
    parser.option(
        "--world", "play it in Isaac Lab (default: in MuJoCo, or its own game)", choices=tuple(with_options())
    )
    for simulator in with_options().values():
        simulator.add_options(parser)
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    args.checkpoint = sources.settled(args.source, args.checkpoint)
    if args.world is not None:
        return _elsewhere(args)
    for world, simulator in with_options().items():
        if given := [name for name in simulator.own_options if getattr(args, name) is not None]:
            raise UserError(f"--{given[0]} is for {BACKENDS[world].title}: add --world {world}")
    from ..api import play

    play(
        args.source,
        args.video,
        args.seconds,
        port=args.port,
        host=args.host,
        terrain=args.terrain,
        model=args.model,
        checkpoint=args.checkpoint,
    )
    return 0


def _elsewhere(args: argparse.Namespace) -> int:
    """Play in the simulator that is asked for."""
    from ..view.shows import is_filmed

    kind = sources.run_or_bundle(args.source)
    title = BACKENDS[args.world].title
    if args.terrain is not None:
        raise UserError(f"--terrain is for MuJoCo: leave out --world {args.world}")
    common.require(f"playing in {title}", WORLDS[args.world])
    if kind == "run" and is_filmed(args.source):
        raise UserError(f"{args.source} is a run of a game or classic task: leave out --world {args.world}")
    return backend(args.world).play(args)
