"""Shared parts of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from ..catalogue import require as require
from ..options import GIVEN, Parser, port, terrain

if TYPE_CHECKING:
    from gaitway_tasks.ground import Ground
    from gaitway_tasks.robots import Robot

    from ..on_ray import OnRay
    from ..train_config import TrainConfig


def add_command(commands: Any, module: ModuleType) -> None:
    """Add a command to those of the command line; the docstring of its module is its help.

    The first line is ``gaitway NAME``, as code, and a summary; the rest keeps its line breaks. A module with
    ``WORKS_ON`` true does its work to the end where nobody reads what it prints; others end then.
    """
    name = module.__name__.rpartition(".")[2].rstrip("_")
    title, _, description = (module.__doc__ or "").partition("\n\n")  # none with python -OO
    summary = title.partition("``: ")[2]
    parser = commands.add_parser(name, help=summary.removesuffix("."), description=description)
    module.add_options(parser)
    parser.set_defaults(run=module.run, works_on=getattr(module, "WORKS_ON", False))


def add_page(parser: Parser, page: str = "page") -> None:
    """Add ``--port`` and ``--host``, for every command whose only page is that of a robot."""
    parser.option("--port", f"port of the {page} (default 8080)", port, default=8080)
    where = f"address of the {page} (default: this machine only); 0.0.0.0 for all"
    parser.option("--host", where, default="127.0.0.1")


def add_log_options(parser: Parser) -> None:
    """Add what a log of another program may lack: ``--gains`` and ``--topics``."""
    parser.option("--gains KP,KD|FILE.yaml", "stiffness and damping of a log without them, by joint in the file")
    topics = "states, joint targets and IMU of a rosbag2 (default: /joint_states, and the only others)"
    parser.option("--topics A,B,C", topics, lambda text: tuple(text.split(",")), default=())


def named_robot(name: str) -> Robot:
    """The robot of a hardware's or a robot's name. Raises :class:`UserError`."""
    from gaitway_sim2real.hardware import HARDWARE
    from gaitway_tasks.robots import ROBOTS

    if name in HARDWARE:
        return ROBOTS[HARDWARE[name].robot]
    if name in ROBOTS:
        return ROBOTS[name]
    raise UserError(f"unknown robot {name!r}: known are {', '.join([*HARDWARE, *ROBOTS])}")


def add_terrain(parser: Parser) -> None:
    """Add ``--terrain``, a ground of :func:`gaitway_tasks.terrain.read_ground` or None, for every simulated robot."""
    parser.option("--terrain NAME:NUMBER", "ground, such as stairs-up:0.10 (docs/ground.md; default: level)", terrain)


def ground_of(args: argparse.Namespace) -> Ground:
    """The ground of ``--terrain``."""
    from gaitway_tasks.ground import LEVEL

    return LEVEL if args.terrain is None else args.terrain


def add_trust(parser: Parser) -> None:
    """Add ``--trust``, for every command that reads a run's configuration."""
    parser.option(
        "--trust MODULE",
        "let the run's configuration use functions of this module, which runs with your rights; repeatable",
        many=True,
        dest="trusted_modules",
    )


def add_checkpoint(parser: Parser) -> None:
    """Add ``--checkpoint``, for every command that uses a checkpoint of a run."""
    about = "checkpoint of the run: its steps (2000000 or 2M), best or last (default: last, unless the run chose one)"
    parser.option("--checkpoint WHICH", about, checkpoint)


def checkpoint(text: str) -> int | str:
    """The type of ``--checkpoint``: steps, "best" or "last"."""
    from ..runs.choice import read_which

    try:
        return read_which(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(GIVEN + str(error).removeprefix("--checkpoint ")) from None


def add_ray(parser: Parser) -> None:
    """Add ``--ray``, for every command that trains several runs."""
    about = "train on the nodes of this Ray cluster, HOST:PORT; all share the folder of --out"
    parser.option("--ray ADDRESS", about)


def place_of(address: str | None, out: Path, configs: Sequence[TrainConfig]) -> AbstractContextManager[OnRay | None]:
    """The cluster of ``--ray`` for trainings with ``configs`` into ``out``; None without one."""
    if address is None:
        return nullcontext()
    from ..on_ray import OnRay

    devices = [(config.device, config.domain.device(config.world, config.device)) for config in configs]
    gpus = int(any(asked.startswith("cuda") or learns_on.type == "cuda" for asked, learns_on in devices))
    cpus = max(max(config.num_threads, 1) * config.processes for config in configs)
    return OnRay(address, out, cpus=cpus, gpus=gpus)


def room_of(place: OnRay | None) -> int:
    """Trainings at the same time if ``--jobs`` does not say how many."""
    return 1 if place is None else place.room
