"""Weights from the learner to a server's process through a process group of their own, and not through HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from gaitway_files.errors import UserError
from torch import Tensor

Layout = Sequence[tuple[str, Sequence[int]]]
"""Name and shape of each tensor, in the order in which they are sent."""


class WeightGroup:
    """Two processes, the learner (rank 0) and the server (rank 1), beside whatever groups they are already in.

    ``backend`` is "nccl", between two GPUs, or "gloo". Making one waits for the other side, ``timeout`` [s] at most.
    The learner leaves ``port`` at 0 and tells the server which one it got.
    """

    def __init__(self, backend: str, rank: int, host: str, port: int = 0, *, timeout: float = 300.0):
        if backend not in ("nccl", "gloo"):
            raise UserError(f"weights through {backend!r}: use 'nccl' or 'gloo'")
        if backend == "nccl" and not torch.cuda.is_available():
            raise UserError("weights through 'nccl', but there is no GPU here: use transport 'gloo' or 'http'")
        self.device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")
        self.backend, self.rank, self._wait = backend, rank, timedelta(seconds=timeout)
        self._store = dist.TCPStore(host, port, 2, rank == 0, self._wait, wait_for_workers=False)
        self.port: int = self._store.port
        self._here = host if rank == 0 else own_address(host, port)
        self._group: Any = None

    def join(self) -> None:
        """Meet the other side; both have to call this."""
        if self.backend == "gloo":
            kind: Any = dist.ProcessGroupGloo
            gloo = kind._Options()
            # By itself it takes the address of this machine's name, which the other side may not reach.
            gloo._devices = [kind.create_device(hostname=self._here)]
            gloo._timeout = self._wait
            self._group = kind(self._store, self.rank, 2, gloo)
            return
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._wait
        self._group = dist.ProcessGroupNCCL(self._store, self.rank, 2, options)

    def send(self, tensors: Iterable[Tensor], dtype: torch.dtype) -> None:
        for tensor in tensors:
            self._broadcast(tensor.detach().to(self.device, dtype).contiguous())

    def receive(self, layout: Layout, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
        """The tensors that the other side sends, one at a time; all of them have to be taken."""
        for name, shape in layout:
            tensor = torch.empty(tuple(shape), dtype=dtype, device=self.device)
            self._broadcast(tensor)
            yield name, tensor

    def _broadcast(self, tensor: Tensor) -> None:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._group.broadcast([tensor.reshape(-1).view(torch.uint8)], options).wait()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def own_address(host: str, port: int) -> str:
    """This machine's address as ``host`` sees it."""
    with socket.create_connection((host, port), timeout=10.0) as connection:
        found: str = connection.getsockname()[0]
        return found
