"""Gaitway tasks on MuJoCo Warp: the same model on a GPU, or for tests on a CPU, behind the same vector API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

    from ..options import WarpOptions
    from .env import WarpVectorEnv


def make_env(
    task: Task, num_envs: int, *, device: str = "auto", seed: int = 0, options: WarpOptions | None = None
) -> WarpVectorEnv:
    """``num_envs`` environments of ``task`` on ``device``: "auto" (the GPU), "cuda:0" or "cpu"."""
    from ..options import WarpOptions
    from .env import WarpVectorEnv

    return WarpVectorEnv(task, num_envs, device=device_of(device), seed=seed, options=options or WarpOptions())


def device_of(device: str) -> str:
    """``device``, or for "auto" this process's GPU; refuses a GPU that torch or Warp cannot use.

    A CPU must be asked for: it takes MuJoCo Warp an hour to simulate what MuJoCo simulates there in minutes.
    """
    import os

    import torch

    if device == "cpu":
        return device
    if not torch.cuda.is_available():
        raise UserError(
            f"device={device}: torch finds no GPU here, for which MuJoCo Warp is made: use --world mujoco, which is "
            "for CPUs, or install torch's CUDA build; device=cpu runs it all the same, many times slower"
        )
    import warp as wp

    if (version := wp.get_cuda_driver_version()) is None or version < DRIVER:
        told = "none" if version is None else ".".join(map(str, version))
        raise UserError(
            f"device={device}: Warp needs an NVIDIA driver for CUDA {'.'.join(map(str, DRIVER))} or newer, and finds "
            f"{told}: update the driver, or use --world mujoco"
        )
    if device == "auto":
        return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
    return device


DRIVER = (12, 4)
"""Oldest CUDA version of a driver whose graphs may have conditions, which the solver's loop is."""
