"""Evaluate a task's terms over a world. Shared by every simulator that has no managers of its own.

The order within a control step is Isaac Lab's: physics, terminations, rewards, resets, commands, interval events,
observations.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from gaitway_files.blame import place_of
from gaitway_files.errors import UserError
from gaitway_files.trust import is_own
from torch import Tensor

from .layout import history_order
from .math import all_finite
from .passes import COMPUTED
from .spec import ObservationGroup, ObservationTerm, Task
from .stateful import StatefulTerm, bound
from .waits import logged, on_host, rows_of
from .world import EditableWorld, World


class TermError(UserError):
    """A term of the user's own that failed; the message has its name, its file and line, and the reason."""


def value_of(kind: str, name: str, term: Any, world: World, *args: Tensor, ndim: int = 0) -> Any:
    """Value of a term, with ``ndim`` dimensions of which the first is environments; 0 for events.

    What goes wrong in a term of ours is a fault of ours; in any other it is a :class:`TermError`.
    """
    module = getattr(term.func, "__module__", "")
    if is_own(module):
        return term.func(world, *args, **term.params)
    where = f"{kind} {name!r} ({module}:{getattr(term.func, '__name__', 'callable')})"
    code = getattr(inspect.unwrap(term.func), "__code__", None)
    try:
        value = term.func(world, *args, **term.params)
    except Exception as error:
        place = place_of(error, None if code is None else code.co_filename)
        raise TermError(f"{where} failed: {type(error).__name__}: {error}{place}") from error
    if ndim and not (isinstance(value, Tensor) and value.ndim == ndim and len(value) == world.num_envs):
        found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        place = "" if code is None else f", in {code.co_filename}, line {code.co_firstlineno}"
        wanted = f"a tensor of shape ({world.num_envs}{',' if ndim == 1 else ', d'})"
        raise TermError(f"{where} returned {found}{place}: return {wanted}")
    return value


def _not_finite(kind: str, terms: Iterable[tuple[str, Any, Tensor]], world: World) -> TermError:
    """The first of ``terms``, each a name, a term and its values (N, ...), that has a number which is not finite."""
    found = next((each for each in terms if not each[2].isfinite().all()), None)
    if found is None:
        return TermError(f"{kind}s are too large for a float32 once they are scaled or weighted")
    name, term, values = found
    place = (~values.isfinite()).nonzero()[0].tolist()
    where = f"{getattr(term.func, '__module__', '')}:{getattr(term.func, '__name__', 'callable')}"
    entry = f", column {place[1]}" if place[1:] else ""
    return TermError(
        f"{kind} {name!r} ({where}) is {float(values[tuple(place)])} in environment {place[0]}{entry}, in step "
        f"{int(world.episode_step[place[0]])} of its episode: it must be finite"
    )


class ObservationManager:
    """Compute one group: terms, noise, clip, scale, history, concatenation."""

    def __init__(self, group: ObservationGroup, world: World, generator: torch.Generator):
        self.group, self.world, self.generator = group, world, generator
        self.dims = {name: part.shape[1] for name, part in zip(group.terms, self._parts(), strict=True)}
        self.frame_dim, n, device = sum(self.dims.values()), world.num_envs, world.device
        self.dim = self.frame_dim * group.history_length
        self.order = history_order(list(self.dims.values()), group.history_length).to(device)
        self.frame_major = self.order.argsort()
        self.blocks = _blocks(list(self.dims.values()), group.history_length)
        columns = torch.arange(self.frame_dim).repeat(group.history_length).to(device)
        self.repeated = columns[self.order]
        self.last = torch.zeros(n, self.dim, device=device)
        """The last observation, which is the history."""
        self.broken = torch.zeros((), dtype=torch.bool, device=device)
        """True once a frame had a number that is not finite, where that was not waited for."""
        self.noise_low, self.noise_span = torch.zeros(2, self.frame_dim, device=device)
        self.scale = torch.ones(self.frame_dim, device=device)
        start = 0
        for term, dim in zip(group.terms.values(), self.dims.values(), strict=True):
            if term.noise and group.enable_corruption:
                self.noise_low[start : start + dim] = term.noise.low
                self.noise_span[start : start + dim] = term.noise.high - term.noise.low
            self.scale[start : start + dim] = torch.as_tensor(term.scale, device=device)
            start += dim
        self.noisy = bool((self.noise_span != 0).any() or (self.noise_low != 0).any())
        self.scaled = bool((self.scale != 1).any())
        self.clips = {name: term.clip for name, term in group.terms.items() if term.clip is not None}

    @property
    def history(self) -> Tensor:
        """The last H frames, oldest first, (N, H, frame_dim); a copy."""
        frames = self.last.index_select(1, self.frame_major)
        return frames.unflatten(1, (self.group.history_length, self.frame_dim))

    @history.setter
    def history(self, frames: Tensor) -> None:
        self.last = frames.flatten(1).index_select(1, self.order)

    def _parts(self) -> list[Tensor]:
        return [self._part(name, term) for name, term in self.group.terms.items()]

    def _part(self, name: str, term: ObservationTerm) -> Tensor:
        """Value of a term. Groups share those of our own terms, which read the world and do nothing else."""
        computed: dict[Any, Tensor] | None = getattr(self.world, COMPUTED, None)
        if computed is None or not is_own(getattr(term.func, "__module__", "")):
            return value_of("observation", name, term, self.world, ndim=2)
        key = term.func, id(term.params)
        if key not in computed:
            computed[key] = value_of("observation", name, term, self.world, ndim=2)
        return computed[key]

    def frame(self, rows: Tensor | None = None) -> Tensor:
        """The current values of all terms, with noise, clip and scale, (N, frame_dim), or only some rows of it."""
        frame = torch.cat(self._parts(), 1)
        noise = torch.rand(frame.shape, generator=self.generator, device=frame.device) if self.noisy else frame
        if rows is not None:
            frame, noise = frame.index_select(0, rows), noise.index_select(0, rows)
        if self.noisy:
            frame += noise.mul_(self.noise_span).add_(self.noise_low)
        if self.clips:
            named = zip(self.dims, frame.split(list(self.dims.values()), 1), strict=True)
            frame = torch.cat([p.clamp(*self.clips[k]) if k in self.clips else p for k, p in named], 1)
        return frame * self.scale if self.scaled else frame

    def finite_frame(self, rows: Tensor | None = None) -> Tensor:
        """As :meth:`frame`; raises :class:`TermError` for a number that is not finite.

        Where the host would have to wait for the device, the next step does: :meth:`check` of :attr:`broken`.
        """
        frame = self.frame(rows)
        if not on_host(frame):
            self.broken |= ~frame.sum().isfinite()
        elif not all_finite(frame):
            self.check()
        return frame

    def check(self) -> None:
        """Raise :class:`TermError` for the first term with a number that is not finite."""
        valued = zip(self.group.terms.items(), self._parts(), strict=True)
        raise _not_finite("observation", ((name, term, part) for (name, term), part in valued), self.world)

    def append(self, frame: Tensor, first: Tensor | None = None) -> Tensor:
        """Push ``frame`` into the history and return the observation (N, dim).

        Rows listed in ``first`` (env ids) have just been reset: their whole history becomes the frame. Whoever gets
        the observation must not write to it: it is also the history.
        """
        if self.group.history_length == 1:
            return frame
        self.last = self._pushed(self.last, frame)
        if first is not None and len(first):
            self.last[first] = frame[first].index_select(1, self.repeated)
        return self.last

    def peek(self, frame: Tensor, env_ids: Tensor) -> Tensor:
        """The observation that ``frame`` (n, frame_dim) of ``env_ids`` would give, without storing it."""
        if self.group.history_length == 1:
            return frame
        return self._pushed(self.last[env_ids], frame)

    def _pushed(self, last: Tensor, frame: Tensor) -> Tensor:
        """Observations (n, dim) after ``last`` (n, dim) with ``frame`` (n, frame_dim) as the newest."""
        pushed = torch.empty_like(last)
        new, old, newest = _array(pushed), _array(last), _array(frame)
        for block, columns in self.blocks:
            kept = block.stop - (columns.stop - columns.start)
            new[:, block.start : kept] = old[:, block.start + block.stop - kept : block.stop]
            new[:, kept : block.stop] = newest[:, columns]
        return pushed


def _blocks(dims: Sequence[int], history_length: int) -> list[tuple[slice, slice]]:
    """Columns of each term in an observation with its history, and in one frame."""
    ends = [0, *accumulate(dims)]
    return [(slice(start * history_length, end * history_length), slice(start, end)) for start, end in pairwise(ends)]


def _array(tensor: Tensor) -> Any:
    """``tensor`` as what is quicker to assign slices of: numpy on a CPU."""
    return tensor.numpy() if on_host(tensor) else tensor


class RewardManager:
    """Weighted sum of the reward terms times the control period, and per-episode means for the log."""

    def __init__(self, task: Task, world: World):
        self.world = world
        self.terms = bound({name: term for name, term in task.rewards.items() if term.weight != 0.0}, world)
        self.names = list(self.terms)
        self.weights = torch.tensor([[t.weight * world.step_dt] for t in self.terms.values()], device=world.device)
        world.reward_weights = {name: self.weights[row, 0] for row, name in enumerate(self.names)}
        self.episode_sums = torch.zeros(len(self.terms), world.num_envs, device=world.device)

    def compute(self) -> Tensor:
        if not self.terms:
            return torch.zeros(self.world.num_envs, device=self.world.device)
        rows = torch.stack([value_of("reward", k, t, self.world, ndim=1) for k, t in self.terms.items()])
        total = rows.mul_(self.weights).sum(0)
        self.rows = rows
        if on_host(total) and not all_finite(total):
            self.check()
        self.episode_sums += rows
        return total

    def check(self) -> None:
        """Raise :class:`TermError` for the first term that was not finite."""
        terms = zip(self.terms.items(), self.rows, strict=True)
        raise _not_finite("reward", ((name, term, row) for (name, term), row in terms), self.world)

    def reset(self, env_ids: Tensor, episode_length_s: float) -> dict[str, Any]:
        """Mean reward per second of each term over the episodes that just ended; then forget them."""
        means = self.episode_sums[:, env_ids].mean(1) / episode_length_s
        self.episode_sums[:, env_ids] = 0.0
        return dict(zip(self.names, logged(means), strict=True))


class TerminationManager:
    """``terminated`` and ``truncated``, never merged."""

    def __init__(self, task: Task, world: World):
        self.terms, self.world = bound(task.terminations, world), world
        self.none = torch.zeros(world.num_envs, dtype=torch.bool, device=world.device)

    def compute(self) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        values = {k: value_of("termination", k, t, self.world, ndim=1) for k, t in self.terms.items()}
        terminated = self._any(values, time_out=False)
        return terminated, self._any(values, time_out=True) & ~terminated, values

    def _any(self, values: dict[str, Tensor], time_out: bool) -> Tensor:
        chosen = (value for name, value in values.items() if self.terms[name].time_out == time_out)
        return functools.reduce(operator.or_, chosen, self.none)


class EventManager:
    """Startup, reset and interval events; interval timers are drawn per environment."""

    def __init__(self, task: Task, world: EditableWorld):
        self.world = world
        self.events = bound(task.events, world)
        self.timers = {
            name: self._draw(event.interval_range_s, world.num_envs)
            for name, event in task.events.items()
            if event.interval_range_s is not None
        }

    def apply(self, mode: str, env_ids: Tensor) -> None:
        for name, event in self.events.items():
            if event.mode == mode:
                value_of("event", name, event, self.world, env_ids)

    def due(self, dt: float) -> list[Tensor]:
        """Mask (N,) of each interval event: where it fires within ``dt`` [s]."""
        return [timer - dt < 1e-6 for timer in self.timers.values()]  # not 0: rounding must not make one a step late

    def step(self, dt: float, due: Sequence[Tensor] | None = None) -> None:
        """Advance the timers by ``dt``, and fire each interval event in its environments ``due``, those of :meth:`due`
        unless they are given."""
        found = rows_of(self.due(dt)) if due is None and self.timers else due or ()
        for (name, timer), env_ids in zip(self.timers.items(), found, strict=True):
            timer -= dt
            if len(env_ids):
                event = self.events[name]
                timer[env_ids] = self._draw(event.interval_range_s, len(env_ids))
                value_of("event", name, event, self.world, env_ids)

    def reset(self, env_ids: Tensor) -> None:
        for name, timer in self.timers.items():
            timer[env_ids] = self._draw(self.events[name].interval_range_s, len(env_ids))

    def _draw(self, limits: tuple[float, float] | None, n: int) -> Tensor:
        assert limits is not None
        r = torch.rand(n, generator=self.world.generator, device=self.world.device)
        return limits[0] + (limits[1] - limits[0]) * r


class Managers:
    """All managers of one task over one world, and the state that a checkpoint needs."""

    def __init__(self, task: Task, world: EditableWorld, generator: torch.Generator):
        self.task, self.world = task, world
        self.commands = {name: command.sampler(world, generator) for name, command in task.commands.items()}
        self.rewards = RewardManager(task, world)
        self.terminations = TerminationManager(task, world)
        self.events = EventManager(task, world)
        self.curriculum = bound(task.curriculum, world)
        self.stateful = {
            f"{kind}/{name}": term.func
            for kind, terms in (
                ("reward", self.rewards.terms),
                ("termination", self.terminations.terms),
                ("event", self.events.events),
                ("curriculum", self.curriculum),
            )
            for name, term in terms.items()
            if isinstance(term.func, StatefulTerm)
        }
        """Terms with memory."""
        self.observations: dict[str, ObservationManager] = {}
        self.generator = generator

    def build_observations(self) -> None:
        """Build the observation managers. Sizing the groups evaluates their terms, which needs a complete world."""
        self.observations = {
            name: ObservationManager(group, self.world, self.generator)
            for name, group in self.task.observations.items()
        }

    def due(self, dt: float) -> list[Tensor]:
        """Masks (N,) of the commands and of the interval events whose time is over within ``dt`` [s]."""
        return [command.due(dt) for command in self.commands.values()] + self.events.due(dt)

    def step(self, dt: float, due: Sequence[Tensor]) -> None:
        """Draw the commands and fire the interval events ``due``: environments (n,), in the order of :meth:`due`."""
        for command, env_ids in zip(self.commands.values(), due, strict=False):
            command.step(dt, env_ids)
        self.events.step(dt, due[len(self.commands) :])

    def broken(self, reward: Tensor) -> list[Tensor]:
        """Masks (N,) that are false if this step's ``reward`` (N,) and the observations before it were finite."""
        groups = [group.broken.expand(len(reward)) for group in self.observations.values()]
        return [~reward.isfinite(), *groups]

    def forget(self, env_ids: Tensor) -> None:
        """Tell the terms with memory that the episodes of ``env_ids`` (K,) have ended."""
        for term in self.stateful.values():
            term.reset(env_ids)

    def state_dict(self) -> dict[str, Any]:
        return {
            "commands": {name: command.state_dict() for name, command in self.commands.items()},
            "terms": {name: term.state_dict() for name, term in self.stateful.items()},
            "episode_sums": self.rewards.episode_sums.clone(),
            "timers": {name: timer.clone() for name, timer in self.events.timers.items()},
            "history": {name: group.history.clone() for name, group in self.observations.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, values in state["commands"].items():
            self.commands[name].load_state_dict(values)
        for name, values in state.get("terms", {}).items():
            self.stateful[name].load_state_dict(values)
        self.rewards.episode_sums.copy_(state["episode_sums"])
        for name, timer in state["timers"].items():
            self.events.timers[name].copy_(timer)
        for name, history in state["history"].items():
            self.observations[name].history = history.to(self.world.device, copy=True)
