"""An engine's server on whatever node of a Ray cluster has room: a process beside an actor, reached by HTTP.

Ray has no authentication and HTTP no encryption: cluster and training belong into one closed network. The actor ends
with this process, and its server with the actor.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from gaitway_files.ray_cluster import join_cluster

from ..sync import EngineLostError
from .own_server import PATIENCE, TORCHRUN, Here, Order

ROOM_S = 120.0
"""Longest wait for a node with room, and for its actor."""
NOTICE_S = 180.0
"""Longest time in which a cluster places actors on a node that it has lost."""
ANSWER_S = 10.0
"""Longest wait for an actor that has nothing to do."""


class Beside:
    """The actor beside a server, on whatever node Ray chose."""

    def __init__(self, order: Order, gpus: int):
        import ray

        self.node = str(ray.util.get_node_ip_address())
        environment = {name: value for name, value in os.environ.items() if not TORCHRUN.fullmatch(name)}
        environment |= {"OMP_NUM_THREADS": "1"} | ({} if gpus else {"CUDA_VISIBLE_DEVICES": ""})
        self.here = Here(order, environment, host=self.node, logged=True)

    def where(self) -> str:
        """Address of the node."""
        return self.node

    def start(self) -> str:
        """Address of the server; :class:`EngineLostError` if it ends before it answers."""
        address = self.here.start()
        self.here.tidy()  # this process may be killed
        return address

    def silence(self, said: str) -> str:
        """What it means that the server did not answer."""
        return self.here.silence(said)

    def close(self) -> None:
        """End the server and remove its files."""
        self.here.close()


class OnNode:
    """A node of the cluster at ``address``, HOST:PORT, with a CPU and ``gpus``; another one for each start.

    Raises :class:`gaitway_files.errors.UserError` if the cluster cannot be joined.
    """

    def __init__(self, address: str, order: Order, *, gpus: int):
        self.option = f"--server ray:{address}"
        self.gpus = gpus
        self.ray = join_cluster(address, self.option)
        actor = self.ray.remote(Beside).options(num_cpus=1, num_gpus=gpus, max_restarts=0)
        self._make = lambda: actor.remote(order, gpus)
        self._actor: Any = None
        self.node = "the cluster"

    def start(self) -> str:
        until = time.monotonic() + NOTICE_S
        errors = self.ray.exceptions
        while True:
            self._leave()
            self._actor = self._make()
            try:
                self.node = f"node {self.ray.get(self._actor.where.remote(), timeout=ROOM_S)}"
                return str(self.ray.get(self._actor.start.remote(), timeout=PATIENCE + ANSWER_S))
            except errors.GetTimeoutError:
                raise EngineLostError(
                    f"{self.option}: no node has had 1 CPU and {self.gpus} GPUs free for {ROOM_S:.0f} s, or its "
                    "engine does not start: 'ray status' shows what is taken"
                ) from None
            except errors.RayTaskError as error:
                said = error.cause if isinstance(error.cause, EngineLostError) else str(error).splitlines()[-1]
                raise EngineLostError(f"{self.option}, {self.node}: {said}") from None
            except errors.RayError as error:
                if time.monotonic() > until or "creation task" in str(error):
                    lines = str(error).strip().splitlines()
                    raise EngineLostError(f"{self.option}: no node starts an engine: {lines[0]} {lines[-1]}") from None
                time.sleep(1.0)

    def silence(self, said: str) -> str:
        try:
            found = self.ray.get(self._actor.silence.remote(said), timeout=ANSWER_S)
        except self.ray.exceptions.RayError:
            return f"{self.option}: {self.node} is lost with its engine ({said})"
        return f"{self.option}, {self.node}: {found}"

    def close(self) -> None:
        self._leave()
        self.ray.shutdown()

    def _leave(self) -> None:
        """End the actor, and its server with it."""
        if self._actor is None or not self.ray.is_initialized():  # outside of a cluster, Ray would start one
            return
        actor, self._actor = self._actor, None
        with contextlib.suppress(self.ray.exceptions.RayError):  # it may be lost
            self.ray.get(actor.close.remote(), timeout=ANSWER_S)
        with contextlib.suppress(self.ray.exceptions.RayError):
            self.ray.kill(actor)
