"""A policy with random weights that estimates the velocity of its base for itself, and the bundle of it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gaitway_tasks.spec import Task
from once import exported_once
from torch import nn

from gaitway.train_config import resolve


def estimating() -> tuple[Task, nn.Module]:
    """Task and actor, whose commands are not calibrated."""
    config = resolve("velocity-flat-anymal-c-blind", preset="cpu", seed=0)
    commands = {name: replace(command, margin=0.0) for name, command in config.robot_task.commands.items()}
    config = replace(config, task=config.robot_task.replace(commands=commands), num_threads=1)
    env: Any = config.domain.make_env(config, 1, 0)
    with contextlib.closing(env):
        torch.manual_seed(0)
        actor: nn.Module = config.domain.trainer_in(env, config, 0).actor()
    return config.robot_task, actor


def estimating_bundle(factory: pytest.TempPathFactory) -> Path:
    """Read-only."""
    return exported_once(factory, *estimating(), checkpoint_sha256="ef" * 32)
