"""The scripted grasp as a policy of the task ``lift-franka`` with its preset, with faults that a test plants."""

from __future__ import annotations

from collections.abc import Callable

import torch
from gaitway_tasks.lift.states import actions_of, script_of
from gaitway_tasks.spec import Task
from torch import Tensor, nn

Fault = Callable[[Tensor, int], Tensor]


class ScriptedLift(nn.Module):
    """Observation (N, 52) -> action (N, 8), changed by ``fault(action, step)``."""

    def __init__(self, task: Task, fault: Fault = lambda action, step: action):
        super().__init__()
        self.task, self.fault, self.steps = task, fault, 0
        self.script = script_of(task)
        self.scale = torch.as_tensor(task.observations["policy"].terms["joint_pos"].scale)

    def forward(self, observation: Tensor) -> Tensor:
        self.steps += 1
        seen = observation.double()
        angles = seen[:, :9] / self.scale + torch.tensor(self.task.robot.default_joint_pos)
        targets, closed = self.script(angles, angles[:, 7:].mean(1), seen[:, 18:21], seen[:, 21:24])
        return self.fault(actions_of(self.task, targets, closed), self.steps)
