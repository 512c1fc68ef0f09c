"""One training in several processes of ``torchrun``: each has environments, the first keeps the records."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gaitway_files.errors import NotDone, UserError
from gaitway_files.trust import trusted

if TYPE_CHECKING:
    from torch.distributed import Store

T = TypeVar("T")
PATIENCE = timedelta(hours=12)
"""Longest wait for another process: the first examines and validates policies while the others wait."""
LEAVE_S = 10.0
"""Time in which a process ends by itself after the training."""
TORCHRUN = "torchrun --nproc_per_node=N --no-python gaitway train TASK --distributed"


def check(distributed: bool) -> None:
    """Raise unless the processes are what ``--distributed`` says: several of torchrun's, or this one alone."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if distributed and "RANK" not in os.environ:
        raise UserError(f"--distributed is for processes that torchrun starts: {TORCHRUN}")
    if not distributed and size > 1:
        raise UserError(f"{size} processes would train the same run, each alone: add --distributed ({TORCHRUN})")


@contextmanager
def group(distributed: bool) -> Iterator[None]:
    """Within the block the processes know each other. Tensors on a GPU travel by NCCL, all else by gloo."""
    if not distributed:
        yield
        return
    import torch
    import torch.distributed as dist

    # Its functions have the group of the moment of their import as a default. Optimizers import it in their first step,
    # and a group that a default keeps ends with the interpreter, which its running threads may abort.
    import torch.distributed.nn.functional

    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def companions(count: int, run: Path | None) -> Iterator[None]:
    """Context in which ``count`` processes train ``run`` as one: this one, and others that it starts.

    They find each other by a file, talk on this machine alone, and end with this process, however it ends.
    """
    if count == 1 or run is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="gaitway-") as folder:
        store = Path(folder) / "store"
        started = [_start(run, rank, count, store) for rank in range(1, count)]
        try:
            with joined(store, 0, count, started):
                yield
        except RuntimeError as error:
            if isinstance(error, NotDone) or not (codes := _ended(started)):
                raise
            raise NotDone(
                f"a process that trained along ended with exit code {codes[0]}, its reason is above: continue with "
                "--resume; if memory was short, lower num_envs"
            ) from error
        finally:
            for process in started:
                try:
                    process.wait(LEAVE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@contextmanager
def joined(path: Path, rank: int, count: int, others: Sequence[subprocess.Popen[bytes]] = ()) -> Iterator[None]:
    """Context in which this process is the ``rank``-th of ``count``, which find each other by the file ``path``.

    The first waits for ``others`` to be ready, so that one that cannot start is noticed.
    """
    import torch.distributed as dist

    import_module("torch.distributed.nn.functional")  # before a group is there, as in :func:`group`
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    store: Store = dist.FileStore(str(path), count)
    if rank:
        store.set(f"ready/{rank}", "")
    while others and not store.check([f"ready/{other}" for other in range(1, count)]):
        if codes := _ended(others, 0.0):
            raise NotDone(f"a process that should train along ended with exit code {codes[0]}: use processes=1")
        time.sleep(0.02)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _start(run: Path, rank: int, count: int, store: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gaitway.training.companion", str(run), str(rank), str(count), str(store)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen([*command, *trusted()], stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path})


def _ended(processes: Sequence[subprocess.Popen[bytes]], wait: float = 2.0) -> list[int]:
    """Exit codes of those that have failed, within ``wait`` seconds."""
    deadline = time.monotonic() + wait
    while not (codes := [code for process in processes if (code := process.poll())]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return codes


def _loopback() -> str:
    """Name of the network interface of this machine with itself."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def of_first(value: T) -> T:
    """Value of ``value`` in the first process."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return value
    box = [value]
    dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]
