"""Made-up experience in which every observation is unlike all others, and a slow buffer that keeps it in lists."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gaitway_agents.off_policy.replay import ReplayBuffer
from torch import Tensor


@dataclass
class Step:
    observation: Tensor
    action: int
    reward: float
    terminated: bool
    truncated: bool
    following: Tensor
    valid: bool


class Diary:
    """Feeds a buffer and keeps everything, environment by environment."""

    def __init__(self, buffer: ReplayBuffer, seed: int, *, ends: float = 0.2, invalid: float = 0.0, stack: int = 0):
        self.buffer, self.ends, self.invalid, self.stack = buffer, ends, invalid, stack
        self.generator = torch.Generator().manual_seed(seed)
        self.count = 0
        self.history: list[list[Step]] = [[] for _ in range(buffer.num_envs)]
        self.current = torch.stack([self.first() for _ in range(buffer.num_envs)])

    def frame(self) -> Tensor:
        """A number that was never seen before, or a small image of noise."""
        self.count += 1
        if self.stack:
            return torch.randint(256, (5, 3), generator=self.generator, dtype=torch.uint8)
        return torch.tensor([float(self.count)])

    def first(self) -> Tensor:
        """An observation with which an episode begins."""
        if not self.stack:
            return self.frame()
        blank = torch.zeros(self.stack - 1, 5, 3, dtype=torch.uint8)
        return torch.cat((blank, self.frame()[None]))

    def second(self, observation: Tensor) -> Tensor:
        """Observation that follows one within its episode."""
        return torch.cat((observation[1:], self.frame()[None])) if self.stack else self.frame()

    def flip(self, chance: float) -> Tensor:
        return torch.rand(self.buffer.num_envs, generator=self.generator) < chance

    def live(self, steps: int) -> None:
        for _ in range(steps):
            n = self.buffer.num_envs
            actions = torch.randint(5, (n,), generator=self.generator)
            rewards = torch.randn(n, generator=self.generator)
            terminated, truncated = self.flip(self.ends / 2), self.flip(self.ends / 2)
            valid = ~self.flip(self.invalid)
            following = torch.stack([self.second(x) for x in self.current])
            self.buffer.add(
                {"policy": self.current},
                actions,
                rewards,
                terminated,
                truncated,
                {"policy": following},
                valid if self.invalid else None,
            )
            for e in range(n):
                self.history[e].append(
                    Step(
                        self.current[e],
                        int(actions[e]),
                        float(rewards[e]),
                        bool(terminated[e]),
                        bool(truncated[e]),
                        following[e],
                        bool(valid[e]),
                    )
                )
            ended = terminated | truncated | ~valid
            self.current = torch.stack([self.first() if ended[e] else following[e] for e in range(n)])

    def step_at(self, row: int) -> tuple[int, int]:
        """Environment and time of the transition that the buffer keeps in ``row``."""
        slot, e = divmod(row, self.buffer.num_envs)
        now = len(self.history[e])
        age = (self.buffer.cursor - 1 - slot) % self.buffer.slots
        return e, now - 1 - age

    def n_step(self, row: int) -> tuple[Step, float, float, Tensor]:
        """The transition in ``row``, its n-step return, discount and last observation, step by step."""
        e, t = self.step_at(row)
        total, discount, following = 0.0, 1.0, self.history[e][t].following
        for step in self.history[e][t : t + self.buffer.n_step]:
            if not step.valid:
                break
            following = step.following
            total += discount * step.reward
            discount *= self.buffer.gamma
            if step.terminated:
                discount = 0.0
            if step.terminated or step.truncated:
                break
        return self.history[e][t], total, discount, following
