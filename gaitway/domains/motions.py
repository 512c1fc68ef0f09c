"""Motions that additions of robots imitate: the observation that they need, and the motions in its form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from gaitway_agents.imitation import ImitationConfig
from gaitway_files.errors import UserError
from torch import Tensor

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..train_config import TrainConfig


def imitating(config: TrainConfig) -> dict[str, ImitationConfig]:
    """Settings of the additions that imitate motions, by name."""
    additions: Mapping[str, Any] = getattr(config.agent, "additions", {})
    return {name: each for name, each in additions.items() if isinstance(each, ImitationConfig)}


def with_motions(config: TrainConfig) -> TrainConfig:
    """``config`` whose task also observes what its additions compare, and begins episodes in their motions."""
    from gaitway_tasks.spec import Event
    from gaitway_tracking.demonstrations import amp_group
    from gaitway_tracking.mdp import reset_in_clips

    task = config.robot_task
    for name, each in imitating(config).items():
        if each.observation not in task.observations:
            task = task.replace(observations={**task.observations, each.observation: amp_group(task)})
        if each.state_init and (event := f"reset_in_{name}") not in task.events:
            params = {"clips": list(each.motions), "share": each.state_init}
            task = task.replace(events={**task.events, event: Event(func=reset_in_clips, mode="reset", params=params)})
    return config if task is config.robot_task else dataclasses.replace(config, task=task)


def demonstrations(config: TrainConfig) -> dict[str, Tensor]:
    """Observations (P, D) of each imitating addition's motions."""
    from gaitway_tracking.demonstrations import transitions

    task, found = config.robot_task, {}
    for name, each in imitating(config).items():
        if not each.motions:
            raise ConfigError(
                f"agent.additions.{name} has no motions: name some, such as motions: [trot, backwards, turn], or files "
                "of 'gaitway motion'"
            )
        try:
            found[name] = transitions(task, task.observations[each.observation], each.motions, torch.device("cpu"))
        except UserError as error:
            raise ConfigError(f"agent.additions.{name}: {error}") from None
    return found
