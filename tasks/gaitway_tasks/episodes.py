"""Episodes of a task over a world that is stepped from outside, shared by every simulator that does not step itself.

Environments restart within the step that ends them, after the final observations of their episodes were computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from .managers import Managers, value_of
from .passes import one_pass
from .spec import Curriculum, Task
from .waits import logged, on_host, rows_of
from .world import EditableWorld, RobotState

Observation = dict[str, Tensor]


class SteppedRobot(RobotState, Protocol):
    def update(self, dt: float) -> None:
        """Compute what terms read of the robot, ``dt`` seconds after the last time."""


class SteppedWorld(EditableWorld, Protocol):
    """A simulator that moves when it is told to."""

    commands: dict[str, Any]
    diverged: Tensor  # (N,), bool: the state was no longer finite, and the simulation was restarted

    @property
    def robot(self) -> SteppedRobot: ...

    def apply_action(self, action: Tensor) -> None:
        """Take the policy's raw output (N, A) for the next control step."""

    def step_physics(self) -> None:
        """Simulate one control step."""

    def reset_physics(self, env_ids: Tensor) -> None:
        """Put environments into their default state; reset events change it afterwards."""

    def finish_events(self) -> None:
        """Make what events have written true."""

    def broken(self) -> Tensor:
        """Mask (N,) that is false unless :meth:`check` has an error to raise; asked for off the host alone."""

    def check(self) -> None:
        """Raise what :meth:`broken` told of."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Accounts:
    """Return and length of the episode that runs in each environment."""

    def __init__(self, num_envs: int, device: torch.device):
        self.returns = torch.zeros(num_envs, device=device)
        self.lengths = torch.zeros(num_envs, dtype=torch.int64, device=device)

    def add(self, reward: Tensor) -> None:
        """Count one step with its ``reward`` (N,)."""
        self.returns += reward
        self.lengths += 1

    def settle(self, env_ids: Tensor, done: Tensor) -> dict[str, Any]:
        """Entries of a step's ``info`` about the episodes of ``env_ids`` (K,), the rows of ``done`` (N,), which end."""
        told = {"episode": {"r": self.returns.clone(), "l": self.lengths.clone()}, "_episode": done}
        self.returns.index_fill_(0, env_ids, 0.0)
        self.lengths.index_fill_(0, env_ids, 0)
        return told

    def clear(self) -> None:
        self.returns.zero_()
        self.lengths.zero_()


class Episodes:
    """``task`` in every environment of ``world``; ``generator`` draws all that is random."""

    def __init__(self, task: Task, world: SteppedWorld, generator: torch.Generator):
        self.task, self.world, self.generator = task, world, generator
        self.managers = Managers(task, world, generator)
        world.commands = dict(self.managers.commands)
        self.managers.build_observations()
        self.accounts = Accounts(world.num_envs, world.device)
        self.started = False
        self._all = torch.arange(world.num_envs, device=world.device)

    def reset(self, *, seed: int | None = None, random_ages: bool = False) -> Observation:
        """Restart every environment; with ``random_ages`` each episode at a random step of its time."""
        world, managers = self.world, self.managers
        if seed is not None:
            self.generator.manual_seed(seed)
            self.started = False  # start-up events depend on the seed too
        first = not self.started
        if first:
            world.ground.begin()
            managers.events.apply("startup", self._all)
            self.started = True
        managers.rewards.reset(self._all, 1.0)  # discard the sums of abandoned episodes
        self._restart(self._all, {} if first else self.managers.curriculum)
        self.accounts.clear()
        if random_ages:
            longest, size = world.max_episode_length, (world.num_envs,)
            world.episode_step = torch.randint(0, longest, size, generator=self.generator, device=world.device)
        for command in managers.commands.values():
            command.follow()
        return self._observe(self._all)

    def step(self, actions: Tensor) -> tuple[Observation, Tensor, Tensor, Tensor, dict[str, Any]]:
        """One control step with raw policy outputs (N, A): observation, reward, terminated, truncated, info."""
        world, managers = self.world, self.managers
        world.apply_action(actions)
        world.step_physics()
        world.robot.update(world.step_dt)
        world.episode_step += 1
        with one_pass(world):
            terminated, truncated, reasons = managers.terminations.compute()
            # The state of a simulation that was restarted is finite, and its episode is over.
            terminated, truncated = terminated | world.diverged, truncated & ~world.diverged
            world.terminated = terminated
            reward = managers.rewards.compute()
        self.accounts.add(reward)

        done = terminated | truncated
        env_ids, *due = self._rows(done, reward)
        info: dict[str, Any] = {"ended": env_ids}
        if len(env_ids):
            for command in managers.commands.values():
                command.end(world.step_dt, env_ids)
            info["final_obs"], info["_final_obs"] = self._final_observation(env_ids), done
            info["log"] = managers.rewards.reset(env_ids, world.max_episode_length * world.step_dt)
            info["log"] |= _counts(reasons, env_ids)
            info |= self.accounts.settle(env_ids, done)
            info["log"] |= self._restart(env_ids, managers.curriculum)
        managers.step(world.step_dt, due)
        world.finish_events()
        return self._observe(env_ids), reward, terminated, truncated, info

    def _rows(self, done: Tensor, reward: Tensor) -> list[Tensor]:
        """Environments in which an episode ends, a command or an interval event is due: the one wait of a step."""
        world, managers = self.world, self.managers
        # What an episode that ends draws anew is not due before the next step.
        masks = [done, *(due & ~done for due in managers.due(world.step_dt))]
        if on_host(reward):
            return rows_of(masks)
        rows = rows_of([*masks, world.broken(), *managers.broken(reward)])
        checks = [world.check, managers.rewards.check, *(group.check for group in managers.observations.values())]
        for found, check in zip(rows[len(masks) :], checks, strict=True):
            if len(found):
                check()
        return rows[: len(masks)]

    def _restart(self, env_ids: Tensor, curriculum: Mapping[str, Curriculum]) -> dict[str, Any]:
        """Begin new episodes of ``env_ids`` (K,); what ``curriculum`` makes of those that end."""
        world, managers = self.world, self.managers
        told = {
            f"curriculum/{name}": _number(value_of("curriculum", name, term, world, env_ids))
            for name, term in curriculum.items()
        }
        managers.forget(env_ids)
        world.reset_physics(env_ids)
        managers.events.apply("reset", env_ids)
        managers.events.reset(env_ids)
        world.finish_events()
        for command in managers.commands.values():
            command.resample(env_ids)
        world.episode_step.index_fill_(0, env_ids, 0)
        return told

    def _observe(self, first: Tensor) -> Observation:
        with one_pass(self.world):
            return {
                name: group.append(group.finite_frame(), first) for name, group in self.managers.observations.items()
            }

    def _final_observation(self, env_ids: Tensor) -> Observation:
        final = {}
        with one_pass(self.world):
            for name, group in self.managers.observations.items():
                seen = group.peek(group.finite_frame(env_ids), env_ids)
                final[name] = seen.new_zeros(self.world.num_envs, group.dim).index_copy_(0, env_ids, seen)
        return final

    def state_dict(self) -> dict[str, Any]:
        """Complete state of the environments, for a checkpoint."""
        return {
            "world": self.world.state_dict(),
            "managers": self.managers.state_dict(),
            "generator": self.generator.get_state(),
            "started": self.started,
            "returns": self.accounts.returns.clone(),
            "lengths": self.accounts.lengths.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.world.load_state_dict(state["world"])
        self.managers.load_state_dict(state["managers"])
        self.generator.set_state(state["generator"])
        self.started = state["started"]
        self.accounts.clear()  # checkpoints of earlier versions do not have them
        for name in ("returns", "lengths"):
            if name in state:
                getattr(self.accounts, name).copy_(state[name])


def _number(value: float | Tensor) -> Any:
    return value if isinstance(value, Tensor) and not on_host(value) else float(value)


def _counts(reasons: dict[str, Tensor], env_ids: Tensor) -> dict[str, Any]:
    """Number of ``env_ids`` (K,) that each of ``reasons`` (N,) ended, for the log."""
    if not reasons:
        return {}
    counts = logged(torch.stack(list(reasons.values()))[:, env_ids].sum(1).float())
    return {f"termination/{name}": count for name, count in zip(reasons, counts, strict=True)}
