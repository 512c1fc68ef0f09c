"""Start the simulator that a task needs, and the task in it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .preflight import PHYSICS, check, find

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

    from .vector_env import IsaacLabVectorEnv


@dataclass(frozen=True, kw_only=True)
class IsaacLabOptions:
    """How Isaac Lab simulates a task."""

    physics: str | None = None
    """"physx" or, on Isaac Lab 3.0, "newton"; None takes PhysX where there is Isaac Sim, else Newton."""
    asset: str = "auto"
    """The robot: "nucleus" (Isaac Lab's own), "mjcf" (made from Gaitway's) or "auto", Isaac Lab's if within reach."""
    actuators: str = "task"
    """"task" for the task's drives, "isaaclab" for those of Isaac Lab's robot, such as ANYmal's LSTM network."""

    def __post_init__(self) -> None:
        for name, known in (
            ("physics", (None, *PHYSICS)),
            ("asset", ("auto", "nucleus", "mjcf")),
            ("actuators", ("task", "isaaclab")),
        ):
            if getattr(self, name) not in known:
                words = ", ".join(str(word) for word in known if word is not None)
                raise ValueError(f"isaaclab.{name} {getattr(self, name)!r}: use one of {words}")


_simulator = contextlib.ExitStack()
_kit: list[Any] = []
"""Isaac Sim's application, of which a process can have one."""


def make_env(
    task: Task, num_envs: int, *, device: str = "auto", seed: int = 0, options: IsaacLabOptions | None = None
) -> IsaacLabVectorEnv:
    """``num_envs`` environments of ``task``, for agents; starts the simulator if it does not run yet.

    ``device`` is ``"cuda:0"``, ``"cpu"`` or ``"auto"``: this process's GPU, or the CPU where there is none. Raises
    :class:`gaitway_isaaclab.preflight.IsaacLabError` before anything starts if Isaac Lab cannot run here.
    """
    options = options or IsaacLabOptions()
    physics, where = check(options.physics), resolve_device(device)
    kit_first = find().release == "2.3"
    if kit_first:  # nothing of Isaac Lab 2.3 can be imported before Isaac Sim runs
        _start_kit(where)
    from . import env_cfg

    cfg = env_cfg(task, num_envs, where, seed, physics, asset=options.asset, actuators=options.actuators)
    if where == "cpu" and physics == "newton":
        cfg.sim.physics.use_cuda_graph = False
    if not kit_first:
        _simulator.enter_context(_launched(cfg, where))

    from isaaclab.envs import ManagerBasedRLEnv

    from .vector_env import IsaacLabVectorEnv

    env = IsaacLabVectorEnv(ManagerBasedRLEnv(cfg), task=task, seed=seed)
    _simulator.callback(env.close)
    return env


def shut_down() -> None:
    """Close the environments and stop the simulator. Isaac Sim ends the process with it: call this last."""
    sys.stdout.flush()
    sys.stderr.flush()
    _simulator.close()
    if _kit:
        _kit.pop().close()


def resolve_device(device: str) -> str:
    """``device``, or for ``"auto"`` this process's GPU, ``"cpu"`` where there is none."""
    if device == "auto":
        return f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"device={device}: torch finds no GPU here; use device=cpu, or install torch's CUDA build")
    return device


def _start_kit(device: str) -> None:
    if _kit:
        return
    from isaaclab.app import AppLauncher

    with _no_arguments():
        settings = {"headless": True, "device": device, "distributed": "LOCAL_RANK" in os.environ and device != "cpu"}
        _kit.append(AppLauncher(settings).app)


@contextlib.contextmanager
def _launched(cfg: Any, device: str) -> Iterator[None]:
    """Isaac Lab 3.0's own launcher, which starts Isaac Sim for PhysX and nothing for Newton."""
    from isaaclab_tasks.utils import launch_simulation

    with _no_arguments():
        context = launch_simulation(cfg, {"headless": True, "device": device})
        context.__enter__()
    try:
        yield
    finally:
        context.__exit__(None, None, None)


@contextlib.contextmanager
def _no_arguments() -> Iterator[None]:
    """Isaac Sim reads the command line of the process for arguments of its own; ours are none."""
    arguments = sys.argv
    sys.argv = arguments[:1]
    try:
        yield
    finally:
        sys.argv = arguments
