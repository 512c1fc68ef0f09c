"""A simulator that is stepped from outside, made of given tensors."""

from __future__ import annotations

import torch
from tensor_world import TensorWorld


class ToyWorld(TensorWorld):
    """Implements ``SteppedWorld``: joints go where actions say, ``stiffness`` of the way."""

    stiffness = 0.1

    def __init__(self, task, num_envs, generator):
        super().__init__(task.robot, num_envs, step_dt=task.timing.step_dt)
        self.task, self.generator = task, generator
        self.max_episode_length = 3
        self.diverged = torch.zeros(num_envs, dtype=torch.bool)
        self.robot.update = lambda dt: None
        self.ground = task.ground.under(self)

    def command(self, name):
        return self.commands[name].command

    def settling(self, name):
        return self.commands[name].settling

    def apply_action(self, action):
        self.previous_action, self.action = self.action, action

    def step_physics(self):
        self.robot.joint_pos = self.default_joint_pos + self.stiffness * self.action.clamp(-1, 1)

    def reset_physics(self, env_ids):
        self.ground.restart(env_ids)
        self.robot.joint_pos[env_ids] = self.default_joint_pos

    def finish_events(self):
        pass

    def lay_fields(self, heights):
        pass

    def choose_field(self, env_ids, field):
        pass

    def broken(self):
        return torch.zeros(self.num_envs, dtype=torch.bool)

    def check(self):
        raise AssertionError("nothing is broken")

    def state_dict(self):
        return {"joint_pos": self.robot.joint_pos, "episode_step": self.episode_step.clone()}

    def load_state_dict(self, state):
        self.robot.joint_pos, self.episode_step = state["joint_pos"], state["episode_step"]
