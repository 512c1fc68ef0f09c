"""Trainings on the nodes of a Ray cluster, which share the folder of the runs; and what engines there need.

A training is a process beside an actor of Ray, and its numbers are read from its run folder, as everywhere. Ray has no
authentication: its ports belong into closed networks.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gaitway_files.errors import NotDone, UserError
from gaitway_files.ray_cluster import join_cluster

from .catalogue import RAY, require
from .jobs import POLL_S, Here, Job, Place
from .runs.files import make_folder, write_text_atomically
from .version import version_line

ANSWER_S = 120.0
"""Longest wait for the answers of the nodes."""
NOTICE_S = 60.0
"""Longest time in which a cluster starts trainings on a node that it has lost."""


@dataclass(frozen=True)
class Node:
    """What a node said of itself."""

    name: str
    version: str
    """Gaitway's version and commit, and Python's; what is missing, if it cannot be imported."""
    sees: bool = True
    """Whether it has the folder of the runs, if it was asked."""


class Worker:
    """The actor beside a training, on whatever node Ray chose."""

    def __init__(self, here: Place, job: Job, folder: str):
        if os.path.isdir(folder):  # files that settings name are relative to where the command was typed
            os.chdir(folder)
        self.process = here.start(job)

    def poll(self) -> int | None:
        """Exit code of the training; None while it runs."""
        return self.process.poll()

    def terminate(self) -> None:
        """Ask the training to write a checkpoint and end."""
        self.process.terminate()


class Elsewhere:
    """A training on some node, with the methods of :class:`gaitway.jobs.Process`. A lost node is like SIGKILL.

    ``make`` makes the actor that trains. One that dies before it answers is made again for a while: the cluster takes
    seconds to notice that a node is lost, and chooses it until then.
    """

    def __init__(self, ray: Any, make: Callable[[], Any]):
        self.ray, self.make = ray, make
        self.begun = False
        self.code: int | None = None
        self._until = time.monotonic() + NOTICE_S
        self._start()

    def _start(self) -> None:
        self.actor = self.make()
        self.answer = self.actor.poll.remote()

    def poll(self) -> int | None:
        if self.code is not None or not self.ray.wait([self.answer], timeout=0)[0]:
            return self.code
        try:
            self.code = self.ray.get(self.answer)
            self.begun = True
        except self.ray.exceptions.RayError as error:
            if not self.begun and time.monotonic() < self._until and "creation task" not in str(error):
                self._start()
                return None
            self.code = -signal.SIGKILL
        if self.code is None:
            self.answer = self.actor.poll.remote()
        else:
            self._release()
        return self.code

    def terminate(self) -> None:
        if self.code is not None:
            return
        if not self.begun and self.poll() is None and not self.begun:  # no node had room for it yet
            self._release()
            return
        with contextlib.suppress(self.ray.exceptions.RayError):
            self.actor.terminate.remote()

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(POLL_S)
        return code

    def _release(self) -> None:
        with contextlib.suppress(self.ray.exceptions.RayError):
            self.ray.kill(self.actor)


class OnRay:
    """The nodes of a cluster as a :class:`gaitway.jobs.Place`. As a context, it leaves the cluster at the end."""

    def __init__(self, address: str, folder: Path, *, cpus: int = 1, gpus: int = 0):
        """Join the cluster at ``address``, HOST:PORT; a training gets ``cpus`` and ``gpus`` of a node.

        Raises :class:`UserError` if it cannot be reached, has other versions, or does not share ``folder``.
        """
        require("--ray", RAY)
        self.cpus, self.gpus = cpus, gpus
        self.here: Place = Here()
        """How a node starts a training."""
        self.ray = join_cluster(address, f"--ray {address}")
        try:
            with _token(folder) as token:
                wrong = disagreements(_ask(self.ray, "--ray", token), version_line())
            if wrong:
                raise UserError(f"--ray {address}: {'; '.join(wrong)}")
            self.room = int(self.ray.cluster_resources().get("CPU", 0)) // cpus
            if self.room < 1 or (gpus and self.ray.cluster_resources().get("GPU", 0) < gpus):
                raise UserError(f"--ray {address}: no node has {cpus} CPUs and {gpus} GPUs, which a training needs")
        except BaseException:
            self.ray.shutdown()
            raise

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, *error: object) -> None:
        self.ray.shutdown()

    def start(self, job: Job) -> Elsewhere:
        """Start the process of ``job`` where there is room, or once there is."""
        worker = self.ray.remote(Worker).options(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)
        there = replace(job, folder=job.folder.absolute())
        return Elsewhere(self.ray, lambda: worker.remote(self.here, there, os.getcwd()))


def disagreements(nodes: Sequence[Node], version: str) -> list[str]:
    """What hinders trainings on ``nodes``, where this machine has ``version``."""
    found = [
        f"node {node.name} has Gaitway {node.version}, and this machine {version}: install the same on all"
        for node in nodes
        if node.version != version
    ]
    blind = [node.name for node in nodes if not node.sees]
    if blind:
        found.append(
            f"node {blind[0]} does not have the folder of --out: put it on a file system that all nodes share, under "
            "the same path"
        )
    return found


def check_engines(address: str, *, gpus: int, count: int) -> None:
    """Raise :class:`UserError` unless the cluster at ``address`` has room for ``count`` engines of a CPU and ``gpus``.

    So it is too where the cluster cannot be reached or has other versions.
    """
    option = f"--server ray:{address}"
    require(option, RAY)
    ray = join_cluster(address, option)
    try:
        if wrong := disagreements(_ask(ray, option), version_line()):
            raise UserError(f"{option}: {'; '.join(wrong)}")
        have = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(int(min(each.get("CPU", 0), each.get("GPU", 0) // gpus if gpus else count)) for each in have)
        if room < count:
            raise UserError(
                f"{option}: its nodes have room for {room} engines of 1 CPU and {gpus} GPUs, and {count} are needed, "
                "one for each process that trains; an engine lies on one node"
            )
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _token(folder: Path) -> Iterator[Path]:
    """A file in ``folder`` for the time of a block, by which nodes see whether they have the folder."""
    there = folder.exists()
    make_folder(folder)
    token = folder.absolute() / f".ray-{secrets.token_hex(8)}"
    write_text_atomically(token, platform.node())
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)
        if not there:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _ask(ray: Any, option: str, token: Path | None = None) -> list[Node]:
    """The answers of all nodes with CPUs. Raises :class:`NotDone` if one does not answer."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def about(token: str | None) -> tuple[str, bool]:  # within: sent by its code, to nodes that may lack Gaitway
        import os as system

        sees = token is None or system.path.exists(token)
        try:
            from gaitway.version import version_line as line

            return line(), sees
        except ImportError as error:
            return f"not at all ({error})", sees

    def alive() -> dict[str, Any]:
        return {node["NodeID"]: node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}

    task = ray.remote(num_cpus=0, max_retries=0)(about)
    while nodes := alive():
        try:
            answers = {
                f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}": task.options(
                    scheduling_strategy=NodeAffinitySchedulingStrategy(number, soft=False)
                ).remote(None if token is None else str(token))
                for number, node in nodes.items()
            }
            return [Node(name, *ray.get(answer, timeout=ANSWER_S)) for name, answer in answers.items()]
        except ray.exceptions.RayError as error:
            if not nodes.keys() - alive().keys():  # else one of them was lost meanwhile, and the others are asked
                raise NotDone(f"{option}: a node does not answer: {str(error).splitlines()[0]}") from None
    return []
