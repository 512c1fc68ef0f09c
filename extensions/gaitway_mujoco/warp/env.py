"""Gymnasium's vector API over MuJoCo Warp."""

from __future__ import annotations

import torch
from gaitway_tasks.spec import Task

from ..env import ModelVectorEnv, check_count
from ..options import WarpOptions
from .world import WarpWorld


class WarpVectorEnv(ModelVectorEnv):
    """``num_envs`` copies of a task on one device."""

    def __init__(self, task: Task, num_envs: int, *, device: str, seed: int, options: WarpOptions):
        check_count(num_envs)
        generator = torch.Generator(device).manual_seed(seed)
        super().__init__(WarpWorld(task, num_envs, generator, options, torch.device(device)))
