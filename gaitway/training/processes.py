"""One training in several processes of ``torchrun``: each has environments, the first keeps the records."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from socket import socket
from typing import Any, TypeVar

from gaitway_files.errors import NotDone, UserError
from gaitway_files.trust import trusted

from ..launch import PATIENCE_S

T = TypeVar("T")
_met = False
"""This process was in a group."""
LONGEST = timedelta(days=30)
"""Longest wait of an exchange: the first examines and validates policies while the others wait, and the lookout ends
what hangs."""
LEAVE_S = 10.0
"""Time in which a process ends by itself after the training."""
TORCHRUN = "torchrun --nproc_per_node=N --no-python gaitway train TASK --distributed"


def check(distributed: bool) -> None:
    """Raise unless the processes are what ``--distributed`` says: several of torchrun's, or this one alone."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if distributed and "RANK" not in os.environ:
        raise UserError(f"--distributed is for processes that torchrun starts ({TORCHRUN}): use --gpus N or --cpus N")
    if not distributed and size > 1:
        raise UserError(f"{size} processes would train the same run, each alone: add --distributed ({TORCHRUN})")


@contextmanager
def group(distributed: bool, *, patience: float = PATIENCE_S, told: str = "") -> Iterator[None]:
    """Context in which the processes of torchrun know each other. Tensors on a GPU travel by NCCL, all else by gloo, or
    through memory that the processes of a single machine share.

    They must have the same versions and be ``told`` the same; where one ends, or is not a step further in ``patience``
    seconds, all end, with its name.
    """
    if not distributed:
        yield
        return
    import torch
    import torch.distributed as dist

    # Its functions have the group of the moment of their import as a default. Optimizers import it in their first step,
    # and a group that a default keeps ends with the interpreter, which its running threads may abort.
    import torch.distributed.nn.functional
    from gaitway_agents.core.distributed import any_of, joined
    from gaitway_agents.core.together import met

    from ..runs.provenance import software
    from .lookout import Lookout

    store, rank, size = next(dist.rendezvous("env://", timeout=timedelta(seconds=patience)))
    global _met
    _met = True
    lookout = Lookout(_another(store), rank, size, patience)
    lookout.join(software(), told)
    on_gpus = torch.cuda.is_available()
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpus else "gloo",
            store=dist.PrefixStore("exchanges", store),
            rank=rank,
            world_size=size,
            timeout=LONGEST,
        )
        shared = not on_gpus and os.environ.get("LOCAL_WORLD_SIZE") == str(size) and hasattr(os, "memfd_create")
        with joined(met(store, rank, size)) if shared else nullcontext():
            yield
            lookout.leaving = True
            any_of(False, torch.device("cpu"))  # torchrun ends them all once one has left with an exit code
    except BaseException as error:
        lookout.failed(error)
        if dist.is_initialized() and not on_gpus:  # NCCL would wait for processes that are gone
            dist.destroy_process_group()
        raise
    else:
        dist.destroy_process_group()
    finally:
        lookout.stop()


def leave(code: int) -> None:
    """End a process that was in a group with ``code``, and without the interpreter's own end.

    Meshes of torch.distributed, which caches keep, have groups of their own, whose running threads may abort that.
    """
    if not _met:
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _another(store: Any) -> Any:
    """A second connection to the processes' ``store``, for another thread: one that waits for a key is blocked."""
    import torch.distributed as dist

    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    second = dist.TCPStore(store.host, store.port, is_master=False)
    return dist.PrefixStore(f"lookout/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", second)


@contextmanager
def companions(count: int, run: Path | None) -> Iterator[None]:
    """Context in which ``count`` processes train ``run`` as one: this one, and others that it starts.

    They share memory, and end with this process, however it ends.
    """
    if count == 1 or run is None:
        yield
        return
    from gaitway_agents.core.distributed import joined
    from gaitway_agents.core.together import LostProcess, Together, connected

    memory, (own, *rows) = connected(count)
    started = [_start(run, rank, memory, sockets) for rank, sockets in enumerate(rows, 1)]
    for sockets in rows:
        for each in sockets:
            each.close()
    try:
        with joined(Together(0, memory, own)):
            yield
    except LostProcess as error:
        (process, *_) = started
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_S)
        raise NotDone(
            f"a process that trained along ended with exit code {process.poll()}, and its reason is above: continue "
            "with --resume; if memory was short, lower num_envs"
        ) from error
    finally:
        os.close(memory)
        for process in started:
            try:
                process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(run: Path, rank: int, memory: int, sockets: Sequence[socket]) -> subprocess.Popen[bytes]:
    shared = [memory, *(each.fileno() for each in sockets)]
    command = [sys.executable, "-m", "gaitway.training.companion", str(run), str(rank), ",".join(map(str, shared))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return subprocess.Popen([*command, *trusted()], stdout=subprocess.DEVNULL, env=env, pass_fds=shared)


def of_first(value: T) -> T:
    """Value of ``value`` in the first process."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return value
    box = [value]
    dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]
