"""A policy in training as its bundle would have it, without writing one."""

from __future__ import annotations

import copy

import numpy as np
import torch
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import ESTIMATE
from gaitway_tasks.commands import steering
from gaitway_tasks.spec import Task
from torch import nn

from .calibration import fit, grid
from .contracts import contract_of, exportable
from .signal_policy import SignalPolicy

UNKNOWN = "0" * 64
"""Hash of a checkpoint that is not written."""


def in_memory(task: Task, actor: nn.Module) -> tuple[Contract, SignalPolicy]:
    """Contract and policy of ``actor`` (observation (N, D) -> action (N, J)), a copy of it on the CPU.

    Raises :class:`.export.ExportError` for a policy that cannot be exported.
    """
    task = exportable(task)
    policy = calibrated(task, copy.deepcopy(actor).cpu())
    return contract_of(task, policy, {}, UNKNOWN, {}), policy


def contract_before_training(task: Task) -> Contract:
    """The contract of a policy to come: all but its memory, what it estimates and its calibration."""
    task = exportable(task)
    return contract_of(task, SignalPolicy(task, nn.Identity()), {}, UNKNOWN, {})


def calibrated(task: Task, actor: nn.Module) -> SignalPolicy:
    """The policy of an :func:`exportable` task, whose command is calibrated if the actor knows more than its ranges."""
    policy, (_, command) = SignalPolicy(task, actor).eval(), steering(task)
    if not command.margin:
        return policy
    # A simulator's own Python may have another MuJoCo, and reads policies without calibrating any.
    from ..mujoco.plant import build_plant
    from .measured import mean_velocities

    contract, model, told = contract_of(task, policy, {}, UNKNOWN, {}), task.robot.mjcf, grid(command)
    plant = build_plant(contract, model, model)
    found = mean_velocities(plant, contract, InMemoryPolicy(policy, len(told)), told)
    policy.calibration = fit(told, found, command, list(task.robot.mirrors.values()))
    return policy


class InMemoryPolicy:
    """A :class:`SignalPolicy` with its recurrent state for N robots, called as :class:`.BatchedPolicy` is."""

    def __init__(self, policy: SignalPolicy, num_envs: int) -> None:
        self._policy, self._state = policy, torch.zeros(num_envs, policy.state_dim)
        self.estimates: dict[str, np.ndarray] = {}
        """As :attr:`.BatchedPolicy.estimates`."""

    @torch.inference_mode()
    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Joint position targets [rad] and raw actions, (N, J) each, from the sensor and command signals."""
        feed = [
            self._state if name == "state" else torch.from_numpy(np.ascontiguousarray(signals[name], np.float32))
            for name in self._policy.input_widths
        ]
        values = dict(zip(self._policy.output_widths, self._policy(*feed), strict=True))
        self._state = values.pop("next_state")
        found = {name: value.numpy() for name, value in values.items()}
        self.estimates = {name: value for name, value in found.items() if name.startswith(ESTIMATE)}
        return found["joint_pos_target"], found["action"]
