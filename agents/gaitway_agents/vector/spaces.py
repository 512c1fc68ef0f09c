"""Conversion of NumPy batches of Gymnasium's spaces to the arrays that agents see."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.foreign import BrokenEnvironmentError
from gymnasium import spaces

MASK = "action_mask"
"""Name of the observation that says which discrete choices are allowed."""
Convert = Callable[[np.ndarray], np.ndarray]
"""Batch of one entry as the environment gives it -> new array in the type and layout that agents see."""


def _float32(batch: np.ndarray) -> np.ndarray:
    return batch.astype(np.float32)


def _channels_first(batch: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(batch.transpose(0, 3, 1, 2))


class Entry:
    """One named entry of an observation: its space, and its conversion."""

    def __init__(self, name: str, space: spaces.Space[Any]):
        self.name, self.source = name, space
        self.target, self.convert = _conversion(name, space)
        self.choices: np.ndarray | None = None
        if isinstance(self.target, spaces.Discrete | spaces.MultiDiscrete):
            self.choices = np.asarray(getattr(self.target, "n", getattr(self.target, "nvec", None)))
        self.shape = tuple(space.shape or ())
        self.dtype = np.dtype(space.dtype)

    def read(self, value: Any, num_envs: int) -> np.ndarray:
        """A new array of the target's type.

        Raises :class:`BrokenEnvironmentError` where shape, type or range is not what the space promises. Whether
        numbers are finite is not looked at here.
        """
        batch = value if isinstance(value, np.ndarray) else np.asarray(value)
        if batch.shape != (num_envs, *self.shape):
            raise BrokenEnvironmentError(
                f"observation {self.name!r} has shape {batch.shape}, its space promises {(num_envs, *self.shape)}"
            )
        if batch.dtype != self.dtype and not np.can_cast(batch.dtype, self.dtype, "same_kind"):
            raise BrokenEnvironmentError(
                f"observation {self.name!r} has dtype {batch.dtype}, its space promises {self.dtype}"
            )
        result = self.convert(batch)
        if self.choices is not None and ((result < 0) | (result >= self.choices)).any():
            row = int(np.argwhere((result < 0) | (result >= self.choices))[0, 0])
            raise BrokenEnvironmentError(
                f"observation {self.name!r} of environment {row} is {batch[row]}, outside of {self.source}"
            )
        return result


class Entries:
    """All entries of an observation space: a dictionary's by their names, anything else as "policy"."""

    def __init__(self, space: spaces.Space[Any], num_envs: int):
        self.num_envs = num_envs
        self.by_name = isinstance(space, spaces.Dict)
        self.in_tuple = isinstance(space, spaces.Tuple)
        if isinstance(space, spaces.Tuple):
            space = _joined(space)
        named = space.spaces if isinstance(space, spaces.Dict) else {"policy": space}
        self.entries = [Entry(name, single) for name, single in named.items()]
        self.space = spaces.Dict({entry.name: entry.target for entry in self.entries})
        self.floats = [entry.name for entry in self.entries if entry.target.dtype == np.float32]

    def read(self, observation: Any, num_envs: int | None = None) -> dict[str, np.ndarray]:
        """New arrays (N, ...) of a batch of observations."""
        n = self.num_envs if num_envs is None else num_envs
        if not self.by_name:
            if self.in_tuple and isinstance(observation, tuple):
                observation = np.stack(observation, axis=-1)
            return {"policy": self.entries[0].read(observation, n)}
        if not isinstance(observation, Mapping):
            raise BrokenEnvironmentError(f"observation is a {type(observation).__name__}, its space is a Dict")
        missing = [entry.name for entry in self.entries if entry.name not in observation]
        if missing:
            raise BrokenEnvironmentError(f"observation has no {missing[0]!r}, its space promises one")
        return {entry.name: entry.read(observation[entry.name], n) for entry in self.entries}

    def read_list(self, observations: list[Any]) -> dict[str, np.ndarray]:
        """Arrays of single observations, one for each environment."""
        if self.by_name:
            batch = {entry.name: np.stack([o[entry.name] for o in observations]) for entry in self.entries}
            return self.read(batch, len(observations))
        return self.read(np.stack([np.asarray(o) for o in observations]), len(observations))

    def finite(self, parts: dict[str, np.ndarray]) -> bool:
        """True if a sum of squares is finite; squares of numbers above 1e19 are not either."""
        return all(math.isfinite(np.vdot(parts[name], parts[name])) for name in self.floats)

    def check_finite(
        self,
        parts: dict[str, np.ndarray],
        reward: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        what: str = "observation",
    ) -> None:
        """Raise :class:`BrokenEnvironmentError` for the first number that is not finite.

        ``rows`` are the environments of the rows of ``parts``, all if None.
        """
        if self.finite(parts) and (reward is None or math.isfinite(np.dot(reward, reward))):
            return
        named = {f"{what} {name!r}": parts[name] for name in self.floats}
        if reward is not None:
            named["reward"] = reward
        for name, value in named.items():
            bad = np.argwhere(~np.isfinite(value))
            if len(bad):
                place = tuple(int(i) for i in bad[0])
                row = place[0] if rows is None else int(rows[place[0]])
                entry = f" at index {place[1:]}" if place[1:] else ""
                raise BrokenEnvironmentError(f"{name} of environment {row} is {value[place]}{entry}")


def _conversion(name: str, space: spaces.Space[Any]) -> tuple[spaces.Space[Any], Convert]:
    """Space and conversion of an entry, as agents observe it."""
    if name == MASK:
        return spaces.MultiBinary(space.shape or ()), lambda batch: batch.astype(np.bool_)
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3:
        height_first = space.shape[-1] < space.shape[0]
        if not height_first:
            return space, np.copy
        shape = (space.shape[2], *space.shape[:2])
        return spaces.Box(0, 255, shape, np.uint8), _channels_first
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 2:
        return spaces.Box(0, 255, (1, *space.shape), np.uint8), lambda batch: batch[:, None].copy()
    if isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):  # a bound beyond float32 is no bound
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        return spaces.Box(low, high, space.shape, np.float32), _float32
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        start = space.start
        target: spaces.Space[Any] = (
            spaces.Discrete(int(space.n)) if isinstance(space, spaces.Discrete) else spaces.MultiDiscrete(space.nvec)
        )
        return target, lambda batch: batch.astype(np.int64) - start
    if isinstance(space, spaces.MultiBinary):
        return spaces.Box(0.0, 1.0, space.shape, np.float32), _float32
    raise UserError(
        f"observation {name!r} has the space {space}: agents take Box, Discrete, MultiDiscrete, MultiBinary, a tuple "
        "of Discrete, or a flat Dict of these; wrap the environment in gymnasium.wrappers.FlattenObservation"
    )


def _joined(space: spaces.Tuple) -> spaces.MultiDiscrete:
    """A tuple of discrete choices as one vector of them."""
    parts = [part for part in space.spaces if isinstance(part, spaces.Discrete)]
    if len(parts) < len(space.spaces):
        raise UserError(
            f"the observation space {space} is a tuple of more than discrete choices: wrap the environment in "
            "gymnasium.wrappers.FlattenObservation"
        )
    return spaces.MultiDiscrete([int(part.n) for part in parts], start=[int(part.start) for part in parts])


class ActionReader:
    """Actions of the agent (tensors as NumPy) in the type, bounds and numbering of the environment."""

    def __init__(self, space: spaces.Space[Any], num_envs: int):
        self.space, self.shape = space, (num_envs, *(space.shape or ()))
        self.low: np.ndarray | None = None
        self.start: Any = 0
        if isinstance(space, spaces.Box):
            self.dtype = np.dtype(space.dtype)
            self.low, self.high = space.low, space.high
            self.bounded = bool(np.isfinite(space.low).any() or np.isfinite(space.high).any())
            self.target: spaces.Space[Any] = spaces.Box(
                space.low.astype(np.float32), space.high.astype(np.float32), space.shape, np.float32
            )
        elif isinstance(space, spaces.Discrete):
            self.start, self.target = space.start, spaces.Discrete(int(space.n))
        elif isinstance(space, spaces.MultiDiscrete):
            self.start, self.target = space.start, spaces.MultiDiscrete(space.nvec)
        else:
            raise UserError(f"the action space {space} is not supported: agents act in Box, Discrete, MultiDiscrete")
        self.numbered_from_zero = not np.any(self.start)

    def read(self, actions: np.ndarray) -> np.ndarray:
        """Raises ValueError for a wrong shape, fractions where choices are taken, and values that are not finite."""
        if actions.shape != self.shape:  # NumPy would quietly broadcast one row to all environments
            raise UserError(f"actions have shape {actions.shape}, this environment takes {self.shape}")
        if self.low is None:
            if actions.dtype.kind not in "iu":
                raise UserError(f"actions are {actions.dtype}, this environment takes whole numbers: {self.space}")
            return actions if self.numbered_from_zero else actions + self.start
        if not math.isfinite(np.vdot(actions, actions)) and not np.isfinite(actions).all():
            row = int(np.argwhere(~np.isfinite(actions))[0, 0])
            raise UserError(f"the action for environment {row} is {actions[row]}: the policy is broken")
        if self.bounded:
            actions = np.minimum(np.maximum(actions, self.low), self.high)
        return actions.astype(self.dtype, copy=False)
