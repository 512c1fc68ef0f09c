"""Shared parts of the commands."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from gaitway_files.errors import UserError

from ..catalogue import EXPORT, LEAPP, install_line
from ..catalogue import require as require
from ..errors import MAX_SEED

if TYPE_CHECKING:
    from gaitway_sim2real.imports.families import Imported
    from gaitway_tasks.ground import Ground
    from gaitway_tasks.robots import Robot

    from ..runs.choice import Which

GIVEN = "\0"  # begins a message that names the value, which then stands beside its option


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one sentence. Numbers must be finite, and paths must not be empty."""

    def __init__(self, **kwargs: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs)
        for kind, convert in ((int, whole()), (float, number()), (Path, path)):
            self.register("type", kind, convert)

    def option(
        self, name: str, about: str, type: Any = str, *, many: bool = False, within: Any = None, **more: Any
    ) -> None:
        """Add an argument: its name, a space and its metavar, as in ``"--log FILE"``; ``many`` is a list of them.

        ``within`` is a group of the parser; ``more`` are other settings of ``add_argument``.
        """
        name, _, metavar = name.partition(" ")
        repeated: dict[str, Any] = {"action": "append", "default": []} if many else {}
        (within or self).add_argument(name, metavar=metavar or None, type=type, help=about, **repeated, **more)

    def switch(self, name: str, about: str, **more: Any) -> None:
        """Add an option that is on or off."""
        (more.pop("within", None) or self).add_argument(name, action="store_true", help=about, **more)

    def error(self, message: str) -> NoReturn:
        option, _, rest = message.removeprefix("argument ").partition(": ")
        join = " " if rest.startswith(GIVEN) else ": " if rest else ""
        raise UserError(f"{option}{join}{rest.removeprefix(GIVEN)}; see {self.prog} --help")


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


def whole(low: int = -(2**63), high: int = 2**63 - 1) -> Callable[[str], int]:
    """The type of an option that is a whole number from ``low`` to ``high``."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{_given(text)}: expected a whole number") from None
        if not low <= value <= high:
            bounds = f"at least {low}" if value < low else f"at most {high:,}"
            raise argparse.ArgumentTypeError(f"{_given(text)}: must be {bounds}")
        return value

    return convert


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Callable[[str], float]:
    """The type of an option that is a finite number from ``low`` to ``high``, without ``low`` itself if ``above``."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{_given(text)}: expected a number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{_given(text)}: expected a finite number")
        if value < low or (above and value == low):
            raise argparse.ArgumentTypeError(f"{_given(text)}: must be {'above' if above else 'at least'} {low:g}")
        if value > high:
            raise argparse.ArgumentTypeError(f"{_given(text)}: must be at most {high:,g}")
        return value

    return convert


def path(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected the name of a file or folder, found none")
    return Path(text)


def _given(text: str) -> str:
    return GIVEN + (text if len(text) <= 40 else f"{text[:40]}...")


seed = whole(0, MAX_SEED)
count = whole(1, 10**9)
port = whole(1, 65535)
domain = whole(0, 230)  # DDS domains; higher ones would need ports above UDP's range
seconds = number(0.0, 1e6, above=True)
"""Types of options."""


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


def terrain(text: str) -> Ground:
    """The type of ``--terrain``: a ground whose shape can be made."""
    from gaitway_tasks.terrain import Course, read_ground

    try:
        ground = read_ground(text)
        if isinstance(ground, Course):
            _ = ground.tile
    except ModuleNotFoundError as error:
        raise argparse.ArgumentTypeError(
            f"{_given(text)}: needs {error.name}, not installed here: {install_line(('train',))}"
        ) from None
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return ground


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


def settled(source: Path, which: Which) -> Which:
    """The checkpoint of --checkpoint, by its steps or "last"; None for a source that is no run.

    Says which one it is, if the user did not name it and it is not the newest.
    """
    refuse_checkpoint(source, which)
    if not is_run(source):
        return None
    from ..runs.choice import LAST, note, settle
    from ..runs.folder import RunFolder

    run = RunFolder.open(source)
    steps = settle(run, which)
    if line := note(run, which, steps):
        print(line)
    return LAST if steps is None else steps


def refuse_checkpoint(source: Path, which: Which) -> None:
    """Refuse a checkpoint of anything but a run."""
    if which is not None and not is_run(source):
        raise UserError(f"--checkpoint {which}: {source} is no run, and only a run has checkpoints: leave it out")


def is_run(path: Path) -> bool:
    from ..runs.folder import is_run

    return is_run(path)


def is_bundle(path: Path) -> bool:
    from gaitway_onboard.bundle.contract import is_bundle

    return is_bundle(path)


def run_or_bundle(path: Path) -> str:
    """Kind of ``path``: "run" or "bundle"."""
    if is_run(path):
        return "run"
    if is_bundle(path):
        return "bundle"
    if not path.exists():
        raise UserError(f"no run folder or bundle at {path}")
    raise UserError(f"{path} is neither a run folder (it has no run.json) nor a bundle (it has no contract.yaml)")


def is_leapp(path: Path) -> bool:
    from gaitway_sim2real.leapp.package import is_leapp

    return is_leapp(path)


def is_published(path: Path) -> bool:
    """True if ``gaitway import`` reads ``path``; False for all paths if its packages are not installed."""
    if EXPORT.missing():
        return False
    from gaitway_sim2real.imports.families import holds_policy

    return holds_policy(path)


def import_policy(policy: Imported, out: Path) -> Path:
    """Write the bundle of ``policy``, and print the read and the guessed values."""
    from rich.markup import escape

    from ..terminal import console

    shown = console(soft_wrap=True)
    for name, text in policy.show():
        shown.print(f"{name:14}{escape(text)}")
    bundle = policy.export(out)
    print(f"bundle: {bundle}")
    return bundle


def export_run(
    run_path: Path,
    out: Path,
    estimated: Mapping[str, str | None] | None = MappingProxyType({}),
    which: Which = None,
) -> Path:
    """Write a checkpoint of a run as a bundle.

    ``estimated`` has the estimator of each input that no sensor gives, "robot" for the robot's own software and None
    for the usual one; without a mapping, the policy gets all its inputs and the bundle names no estimator.
    """
    from gaitway_onboard.estimation.estimators import USUAL
    from gaitway_sim2real.bundle.contracts import ESTIMATES
    from gaitway_sim2real.bundle.export import export_bundle

    from ..runs.folder import RunFolder
    from ..training.load import load_actor

    config, actor, checkpoint = load_actor(RunFolder.open(run_path), which)
    sha256 = digest(checkpoint)
    signals = tuple(ESTIMATES[name] for name in (ESTIMATES if estimated is None else estimated))
    task = config.robot_task.replace(estimators=signals)
    named = {signal: by or USUAL.get(signal, "robot") for signal, by in (estimated or {}).items()}
    ours = {signal: name for signal, name in named.items() if name != "robot"}
    return export_bundle(task, actor, out, checkpoint_sha256=sha256, estimators=ours)


def digest(checkpoint: Path) -> str:
    """Hash by which a bundle names its checkpoint."""
    import hashlib

    from gaitway_files.checkpoints import CHECKPOINT_BYTES
    from gaitway_files.reading import read_bytes

    return hashlib.sha256(read_bytes(checkpoint, CHECKPOINT_BYTES)).hexdigest()


def bundle_of(path: Path, robot: str | None = None, which: Which = None) -> Path:
    """``path`` itself if it is a bundle; of a run or a LEAPP package, its ``bundle/``, written anew if it is outdated.

    A run's bundle is outdated if it has another checkpoint than ``which``.

    A policy that ``gaitway import`` reads becomes ``bundle/`` in its folder, or ``NAME-bundle/`` beside its file.
    ``robot`` is the robot of a policy that does not say which it is for.
    A policy that reads what no sensor measures gets a bundle all the same: simulations know it, and a robot that does
    not estimate it is refused by the bundle itself.
    """
    refuse_checkpoint(path, which)
    if is_leapp(path):
        require("reading a LEAPP package", LEAPP)
        from gaitway_sim2real.leapp.bundle import bundle_of_package

        return bundle_of_package(path, robot=robot, say=lambda text: print(f"note: {text}"))
    if path.exists() and not is_run(path) and not is_bundle(path) and is_published(path):
        from gaitway_sim2real.imports.families import Options, load

        return import_policy(
            load(path, Options(robot=robot)),
            path / "bundle" if path.is_dir() else path.with_name(f"{path.stem}-bundle"),
        )
    kind = run_or_bundle(path)
    if robot is not None:
        raise UserError(f"--robot {robot}: {path} is a {kind}, which knows its robot; leave --robot out")
    if kind == "bundle":
        return path
    return bundle_in(path / "bundle", path, which)


def bundle_in(bundle: Path, run: Path, which: Which = None) -> Path:
    """``bundle`` of a checkpoint of ``run``, written anew if it is outdated. The policy gets all its inputs."""
    from gaitway_onboard.bundle.contract import Contract

    from ..runs.choice import LAST, settle
    from ..runs.folder import RunFolder

    folder = RunFolder.open(run)
    steps, kept = settle(folder, which), folder.kept()
    wanted = kept.get(max(kept, default=0) if steps is None else steps)
    if is_bundle(bundle) and wanted is not None and Contract.load(bundle).checkpoint_sha256 == digest(wanted):
        return bundle
    require("export", EXPORT)
    return export_run(run, bundle, None, LAST if steps is None else steps)
