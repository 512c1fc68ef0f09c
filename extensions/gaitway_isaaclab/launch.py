"""Start the simulator for a task, and the task in it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from gaitway_files.errors import UserError

from . import application
from .options import IsaacLabOptions
from .preflight import check, find

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

    from .vector_env import IsaacLabVectorEnv
    from .viewer import Viewer


_simulator = contextlib.ExitStack()


def make_env(
    task: Task,
    num_envs: int,
    *,
    device: str = "auto",
    seed: int = 0,
    options: IsaacLabOptions | None = None,
    viewer: Viewer | None = None,
    around: Callable[[Any], Any] = lambda env: env,
) -> IsaacLabVectorEnv:
    """``num_envs`` environments of ``task``, for agents; starts the simulator if it does not run yet.

    ``device`` is ``"cuda:0"``, ``"cpu"`` or ``"auto"``: this process's GPU, or the CPU where there is none. With a
    ``viewer`` the task is the variant for watching: no noise, no pushes. ``around`` wraps Isaac Lab's own
    environment, as :class:`gaitway_isaaclab.recorder.RolloutRecorder` does. Raises
    :class:`gaitway_isaaclab.preflight.IsaacLabError` before anything starts if Isaac Lab cannot run here.
    """
    options = options or IsaacLabOptions()
    physics, where = check(options.physics), resolve_device(device)
    told = application.settings(where, **({} if viewer is None else viewer.settings(find())))
    if viewer is not None:
        viewer.check(find(), physics)
    if is_older():  # its modules cannot be imported before Isaac Sim runs
        application.start(told)
    from . import env_cfg

    cfg = env_cfg(task, num_envs, where, seed, physics, asset=options.asset, actuators=options.actuators)
    if viewer is not None:
        from .build import for_play

        for_play(cfg).scene.num_envs = num_envs
        viewer.prepare(cfg, find(), physics)
    if not is_older():
        _launch(cfg, told)
    if cfg.sim.device.startswith("cuda"):
        torch.cuda.set_device(cfg.sim.device)  # not earlier: the simulator chooses its GPU when it starts

    from isaaclab.envs import ManagerBasedRLEnv

    from .vector_env import IsaacLabVectorEnv

    if viewer is None:
        isaac = ManagerBasedRLEnv(cfg)
    else:
        isaac = viewer.wrapped(ManagerBasedRLEnv(cfg, **viewer.render_mode(find())), find())
    env = IsaacLabVectorEnv(around(isaac), task=task, seed=seed)
    _simulator.callback(env.close)
    return env


def is_older() -> bool:
    """True for Isaac Lab 2.3, whose Isaac Sim must start before anything else is loaded."""
    return find().release == "2.3"


def start_first(device: str, viewer: Viewer | None = None) -> None:
    """Restart the process with Isaac Sim as its first step, if this version of Isaac Lab requires it."""
    if is_older() and not application.is_running():
        more = {} if viewer is None else viewer.settings(find())
        application.restart(application.settings(resolve_device(device), **more))


def close(code: int = 0) -> None:
    """Close the environments, so that others can be made. ``code`` is the command's exit code, if it ends here."""
    sys.stdout.flush()
    sys.stderr.flush()
    ending = SystemExit(code)
    with contextlib.suppress(SystemExit):
        _simulator.__exit__(*((SystemExit, ending, None) if code else (None, None, None)))


def shut_down(code: int = 0) -> None:
    """Close the environments and stop the simulator, whether or not one was started.

    ``code`` is the exit code of the process, which Isaac Sim ends as it stops: call this last.
    """
    close(code)
    application.stop(code)


def resolve_device(device: str) -> str:
    """``device``, or for ``"auto"`` this process's GPU, ``"cpu"`` where there is none.

    Processes on one machine share its visible GPUs, possibly a single one.
    """
    if device == "auto":
        if not torch.cuda.is_available():
            return "cpu"
        return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
    if device != "cpu" and not torch.cuda.is_available():
        raise UserError(f"device={device}: torch finds no GPU here; use device=cpu, or install torch's CUDA build")
    return device


def _launch(cfg: Any, told: dict[str, Any]) -> None:
    """Isaac Lab 3.0's own launcher, which starts Isaac Sim only if ``cfg`` needs it."""
    from isaaclab.app import launch_simulation

    with application.no_arguments():
        _simulator.enter_context(launch_simulation(cfg, told))
