"""The processes of ``gaitway train --gpus`` and ``--cpus``, which torch.distributed.run starts on each node."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import NotDone, UserError

from .options import Parser, count, whole

if TYPE_CHECKING:
    from .train_config import TrainConfig

ALL = "all"
SAID = (1, 2, 70, 129, 130, 138, 143)
"""Exit codes of processes that have said why they end."""
PATIENCE_S = 600.0
"""Time in which each process is expected to come a step further, unless it is told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Processes of a training: how many on each of how many machines."""

    gpus: str | None
    """Number of GPUs of each node, or "all"; None for processes on CPUs."""
    cpus: int | None
    nodes: int
    node_rank: int | None
    endpoint: str | None

    @property
    def option(self) -> str:
        return f"--cpus {self.cpus}" if self.gpus is None else f"--gpus {self.gpus}"

    def check(self) -> None:
        """Raise for nodes that could not find each other."""
        if self.node_rank is not None and self.node_rank >= self.nodes:
            raise UserError(f"--node-rank {self.node_rank}: the nodes are numbered from 0 to {self.nodes - 1}")
        if self.nodes == 1:
            return
        if self.endpoint is None or self.node_rank is None:
            missing = "--endpoint HOST:PORT" if self.endpoint is None else "--node-rank I"
            raise UserError(
                f"--nodes {self.nodes} needs {missing}: each node has its number from 0 to {self.nodes - 1}, and all "
                "name the address of node 0 and a free port of it"
            )
        host, _, port = self.endpoint.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UserError(
                f"--endpoint {self.endpoint}: expected HOST:PORT with a port from 1 to 65535, such as node0:29500"
            )


def add_options(parser: Parser) -> None:
    """Add the options of the processes, which those processes themselves are started without."""
    several = parser.add_argument_group("several GPUs and machines")
    parser.option("--gpus N|all", "train on N GPUs of each node, with a process each", _gpus, within=several)
    parser.option("--cpus N", "the same with N processes on the CPU of each node", count, within=several)
    parser.option("--nodes N", "machines (default 1); run the command on each", count, within=several)
    parser.option("--node-rank I", "number of this machine; 0 keeps the records", whole(0), within=several)
    parser.option("--endpoint HOST:PORT", "address of machine 0, and a free port there", within=several)
    parser.switch("--dry-run", "check GPUs and settings, print torchrun's command, and train nothing", within=several)


def check_options(args: argparse.Namespace) -> None:
    """Raise for options that do not go together."""
    several = [f"--{name}" for name in ("cpus", "gpus", "distributed") if getattr(args, name)]
    if len(several) > 1:
        raise UserError(f"{several[0]} with {several[1]}: give one of them")
    if several and args.seeds is not None:
        raise UserError(f"--seeds with {several[0]}: start one run for each seed")
    if args.gpus is None and args.cpus is None:
        for name in ("nodes", "node_rank", "endpoint", "dry_run"):
            given = getattr(args, name)
            if given is not None and given is not False:
                raise UserError(f"--{name.replace('_', '-')} is for several processes: add --gpus N or --cpus N")
    elif args.nodes is None:
        for name in ("node_rank", "endpoint"):
            if (given := getattr(args, name)) is not None:
                option = f"--{name.replace('_', '-')}"
                raise UserError(f"{option} {given} is for several machines: add --nodes N, which says how many")


def _gpus(text: str) -> str:
    return text if text == ALL else str(count(text))


def launch(nodes: Nodes, config: TrainConfig, argv: Sequence[str], *, patience: float, dry_run: bool) -> int:
    """Run ``gaitway train`` with the arguments ``argv`` in all processes of this node; returns the exit code.

    Raises before they start for GPUs that cannot be used, and a :class:`NotDone` where the nodes do not come together.
    ``nodes`` and ``config`` are checked.
    """
    _check_device(nodes, config)
    each = nodes.cpus or visible_gpus(nodes.gpus or ALL)
    config.domain.check_size(config, each * nodes.nodes)
    program = [sys.executable, "-m", "gaitway", "train", *_without_options(argv), "--distributed"]
    command = [*torchrun(nodes, each, patience), *program]
    if dry_run:
        print(shlex.join([sys.executable, "-m", "torch.distributed.run", *command]))
        return 0
    sys.stdout.flush()
    return _run(command)


def _check_device(nodes: Nodes, config: TrainConfig) -> None:
    from .domains.table import worlds_of

    has_gpu = config.domain.learns_on_gpu(config.world)
    if nodes.gpus is None:
        if has_gpu and config.device != "cpu":
            raise UserError(f"{nodes.option}: {config.world} learns on a GPU where there is one; add device=cpu")
    elif not has_gpu:
        able = [f"--world {world}" for world in worlds_of(config.task) if config.domain.learns_on_gpu(world)]
        raise UserError(f"{nodes.option}: {config.world} simulates on the CPU; use {' or '.join(['--cpus N', *able])}")
    elif config.device != "auto":
        raise UserError(f"{nodes.option} with device={config.device}: each process has a GPU of its own; leave it out")


def torchrun(nodes: Nodes, each: int, patience: float) -> list[str]:
    """Arguments of torch.distributed.run for ``each`` processes on this node, before the program."""
    where = ["--standalone"]
    if nodes.nodes > 1:
        assert nodes.endpoint is not None
        host, _, port = nodes.endpoint.rpartition(":")
        where = [f"--node-rank={nodes.node_rank}", f"--master-addr={host}", f"--master-port={port}"]
        where += [f"--rdzv-conf=timeout={round(patience)}"]
    return [f"--nnodes={nodes.nodes}", f"--nproc-per-node={each}", *where, "--no-python"]


def visible_gpus(wanted: str) -> int:
    """Number of GPUs that ``wanted`` asks for, a number or "all". Raises where so many cannot be used."""
    import torch
    import torch.distributed as dist

    if torch.version.cuda is None and torch.version.hip is None:
        raise UserError(f"--gpus {wanted}: torch {torch.__version__} is built without CUDA; install torch's CUDA build")
    try:
        torch.cuda.init()
        found = torch.cuda.device_count()
    except (RuntimeError, AssertionError) as error:  # no driver, or one older than this CUDA
        why = " ".join(str(error).split())
        raise UserError(f"--gpus {wanted}: CUDA {torch.version.cuda} does not start: {why}") from error
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    told = "" if mask is None else f" (CUDA_VISIBLE_DEVICES={mask})"
    if not found:
        raise UserError(f"--gpus {wanted}: no GPU is visible{told}; nvidia-smi lists those of the machine")
    if wanted != ALL and int(wanted) > found:
        raise UserError(f"--gpus {wanted}: {found} visible{told}: use --gpus {found}, or make more visible")
    if not dist.is_nccl_available():
        raise UserError(f"--gpus {wanted}: torch {torch.__version__} is built without NCCL, by which GPUs exchange")
    return found if wanted == ALL else int(wanted)


def _without_options(argv: Sequence[str]) -> list[str]:
    parser = Parser(add_help=False)
    add_options(parser)
    return parser.parse_known_args(list(argv))[1]


def _run(command: Sequence[str]) -> int:
    import torch.distributed.run as torchrun_module
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    with _warned(), _quiet_torchrun():
        try:
            torchrun_module.run(torchrun_module.parse_args(list(command)))
        except SignalException as error:
            return 128 + error.sigval
        except ChildFailedError as error:
            return _judged(error)
        except RuntimeError as error:
            if type(error).__module__.startswith("torch"):
                raise NotDone(
                    f"the nodes did not come together: {' '.join(str(error).split())[:300]}; start the same command on "
                    "every node, each with its own --node-rank"
                ) from error
            raise
    return 0


@contextmanager
def _quiet_torchrun() -> Iterator[None]:
    """Context without torchrun's log of failures, which its loggers take no level for: they are told once, by us."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _judged(error: Any) -> int:
    """Exit code of the process that failed first, with a message where it had none."""
    rank, failure = error.get_first_failure()
    code, who = int(failure.exitcode), f"process {rank} (pid {failure.pid})"
    if code in SAID:
        return code
    ended = f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
    memory = "; if memory was short, lower num_envs" if -code == signal.SIGKILL else ""
    print(f"gaitway: {who} {ended}, and the others with it; continue with --resume{memory}", file=sys.stderr)
    return max(code, 1)


@contextmanager
def environment() -> Iterator[None]:
    """Environment of the processes: modules are found as here, a core is not shared by many threads, and torch leaves
    the reasons of failures to us."""
    given = {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _warned() -> Iterator[None]:
    """Context in which SIGUSR1 goes on to the processes, as torchrun passes on the other signals; then what was."""
    known = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in known}

    def pass_on(number: int, frame: FrameType | None) -> None:
        for child in _children():
            os.kill(child, number)

    signal.signal(signal.SIGUSR1, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _children() -> list[int]:
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found += [int(word) for word in file.read().split()]
    return found
