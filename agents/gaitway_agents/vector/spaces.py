"""Conversion of NumPy batches of Gymnasium's spaces to the arrays that agents see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.foreign import BrokenEnvironmentError
from gymnasium import spaces

from ..models.encoders import is_image

MASK = "action_mask"
"""Name of the observation that says which discrete choices are allowed."""
Convert = Callable[[np.ndarray], np.ndarray]
"""Batch of one entry as the environment gives it -> new array in the type and layout that agents see."""


Path = tuple[str | int, ...]
"""Keys of dictionaries and places in tuples that lead to a part of an observation."""
READABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
READS = "agents read Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"


def _float32(batch: np.ndarray) -> np.ndarray:
    return batch.astype(np.float32)


def _channels_first(batch: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(batch.transpose(0, 3, 1, 2))


class Masks:
    """Masks of discrete actions: one flag for each choice, side by side where an action is several choices.

    Of several choices they may also be rows, each padded to the widest choice, or a tuple of one array for each.
    """

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete):
        choices = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.flatten()
        self.sizes = [int(size) for size in choices]
        self.space = spaces.MultiBinary((sum(self.sizes),))
        self._rows = (len(self.sizes), max(self.sizes))

    def read(self, value: Any, num_envs: int, given: Any = None) -> np.ndarray:
        """Flags (N, K); all True of environments that are not ``given`` one.

        Raises :class:`BrokenEnvironmentError` where a shape or a value is none of a mask.
        """
        batch = np.asarray(value)
        given = np.ones(num_envs, np.bool_) if given is None else np.asarray(given, np.bool_)
        if batch.dtype == np.object_ or batch.ndim < 2:  # lists, or environments that gave none
            rows = [self._one(row) if has else np.ones(self.space.shape) for row, has in zip(value, given, strict=True)]
            batch = np.stack(rows)
        mask = self._flat(batch)
        mask[~given] = True
        return mask

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise :class:`BrokenEnvironmentError` if no mask has this shape."""
        if shape not in (self.space.shape, self._rows):
            rows = f", or {self._rows} with rows padded to the widest choice" if len(self.sizes) > 1 else ""
            raise BrokenEnvironmentError(f"{MASK} has shape {shape}, it must have {self.space.shape}{rows}")

    def _one(self, mask: Any) -> np.ndarray:
        """The mask of one environment as one array."""
        if isinstance(mask, list | tuple) and [np.size(part) for part in mask] == self.sizes:
            return np.concatenate([np.ravel(part) for part in mask])
        try:
            row = np.asarray(mask)
        except ValueError:  # parts of several lengths
            lengths = [np.size(part) for part in mask]
            raise BrokenEnvironmentError(f"{MASK} has parts of {lengths} flags, they must be {self.sizes}") from None
        self.check(row.shape)
        return self._flat(row[None])[0]

    def _flat(self, batch: np.ndarray) -> np.ndarray:
        """New flags (N, K) of masks (N, K) or (N, choices, widest)."""
        self.check(batch.shape[1:])
        if batch.ndim == 3:
            batch = np.concatenate([batch[:, i, :size] for i, size in enumerate(self.sizes)], 1)
        if batch.dtype != np.bool_ and not ((batch == 0) | (batch == 1)).all():
            bad = batch[(batch != 0) & (batch != 1)][0]
            raise BrokenEnvironmentError(
                f"{MASK} has the value {bad!r}: it must be 1 for allowed choices, 0 for others"
            )
        return batch.astype(np.bool_)


class Entry:
    """One named entry of an observation: its space, and its conversion."""

    def __init__(self, name: str, space: spaces.Space[Any], masks: Masks | None = None):
        self.name, self.source = name, space
        self.joined = isinstance(space, spaces.Tuple)
        if isinstance(space, spaces.Tuple):
            space = _joined(space)
        if name == MASK and masks is not None:
            masks.check(tuple(space.shape or ()))
            self.target: spaces.Space[Any] = masks.space
            self.convert: Convert = lambda batch: masks.read(batch, len(batch))
        else:
            self.target, self.convert = _conversion(space)
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
        if self.joined and isinstance(value, tuple):
            value = np.stack(value, axis=-1)
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

    def note(self) -> str | None:
        """How an image is read, which its shape alone does not say."""
        if not isinstance(self.target, spaces.Box) or self.target.dtype != np.uint8:
            return None
        channels, height, width = self.target.shape
        if not is_image(self.target):
            sizes = " x ".join(str(size) for size in self.shape)
            return f"observation {self.name!r}: {sizes} bytes read as numbers, too small for convolutions"
        layout = "1 channel"
        if len(self.shape) == 3:
            layout = f"{channels} channels ({'last' if _channels_last(self.shape) else 'first'})"
        return f"observation {self.name!r}: images of {height} x {width} pixels, {layout}"


class Entries:
    """All entries of an observation space: a plain one as "policy", those of dictionaries and tuples by their names.

    One inside another is named by both, as "camera.left". Entries that agents cannot read, such as texts, are left out
    if others remain.
    """

    def __init__(self, space: spaces.Space[Any], num_envs: int, masks: Masks | None = None):
        """``masks`` are those of the environment's actions, None where these are no choices."""
        self.num_envs, self.masked = num_envs, masks is not None
        leaves = dict(_leaves(space))
        self.left_out = {_name(path): leaf for path, leaf in leaves.items() if not _readable(leaf)}
        self.paths = [path for path, leaf in leaves.items() if _readable(leaf)]
        if not self.paths:
            raise UserError(
                f"the observation space {space} has no part that agents can read: {READS}. Register the environment "
                "with a gymnasium.ObservationWrapper that gives one, in a module of your own, and train gym:MODULE:ID"
            )
        names = [_name(path) for path in self.paths]
        if len(set(names)) < len(names):
            raise UserError(f"the observation space {space} has two entries of one name: {', '.join(names)}")
        self.entries = [Entry(name, leaves[path], masks) for name, path in zip(names, self.paths, strict=True)]
        self.space = spaces.Dict({entry.name: entry.target for entry in self.entries})
        self.floats = [entry.name for entry in self.entries if entry.target.dtype == np.float32]

    def notes(self) -> list[str]:
        """Lines about what an owner may not expect: parts that are not read, and the layout of images."""
        names = [entry.name for entry in self.entries]
        unread = [
            f"observation {name!r} is left out: agents cannot read a {type(space).__name__}"
            for name, space in self.left_out.items()
        ]
        if MASK in names and not self.masked:
            unread.append(f"observation {MASK!r} is left out: the actions are no choices")
        if "critic" in names and len(names) > 1:
            unread.append("observation 'critic' is for the critic alone")
        if others := [name for name in names if name not in ("critic", MASK, "policy") and "policy" in names]:
            unread.append(f"the policy reads observation 'policy' alone, not {', '.join(others)}")
        return unread + [note for entry in self.entries if (note := entry.note()) is not None]

    def read(self, observation: Any, num_envs: int | None = None) -> dict[str, np.ndarray]:
        """New arrays (N, ...) of a batch of observations."""
        n = self.num_envs if num_envs is None else num_envs
        return {
            entry.name: entry.read(_part(observation, path), n)
            for entry, path in zip(self.entries, self.paths, strict=True)
        }

    def read_list(self, observations: list[Any]) -> dict[str, np.ndarray]:
        """Arrays of single observations, one for each environment."""
        return {
            entry.name: entry.read(np.stack([np.asarray(_part(o, path)) for o in observations]), len(observations))
            for entry, path in zip(self.entries, self.paths, strict=True)
        }

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


def _leaves(space: spaces.Space[Any], path: Path = ()) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    """Paths and spaces of the parts of a space; a tuple of discrete choices is one part."""
    parts: Iterable[tuple[str | int, spaces.Space[Any]]] | None = None
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
    elif isinstance(space, spaces.Tuple) and not _joinable(space):
        parts = enumerate(space.spaces)
    if parts is None:
        yield path, space
        return
    for name, part in parts:
        yield from _leaves(part, (*path, name))


def _name(path: Path) -> str:
    return ".".join(str(part) for part in path) or "policy"


def _part(observation: Any, path: Path) -> Any:
    """The part of an observation at a path."""
    for name in path:
        if isinstance(name, str) and not isinstance(observation, Mapping):
            raise BrokenEnvironmentError(f"observation is a {type(observation).__name__}, its space is a Dict")
        try:
            observation = observation[name]
        except LookupError:
            raise BrokenEnvironmentError(f"observation has no {name!r}, its space promises one") from None
    return observation


def _readable(space: spaces.Space[Any]) -> bool:
    return isinstance(space, READABLE) or _joinable(space)


def _joinable(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space.spaces)


def _joined(space: spaces.Tuple) -> spaces.MultiDiscrete:
    """A tuple of discrete choices as one vector of them."""
    parts = [part for part in space.spaces if isinstance(part, spaces.Discrete)]
    return spaces.MultiDiscrete([int(part.n) for part in parts], start=[int(part.start) for part in parts])


def _conversion(space: spaces.Space[Any]) -> tuple[spaces.Space[Any], Convert]:
    """Space and conversion of an entry, as agents observe it."""
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3:
        if not _channels_last(space.shape):
            return space, np.copy
        shape = (space.shape[2], *space.shape[:2])
        return spaces.Box(0, 255, shape, np.uint8), _channels_first
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 2:
        return spaces.Box(0, 255, (1, *space.shape), np.uint8), lambda batch: batch[:, None].copy()
    if isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):  # a bound beyond float32 is no bound
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        if space.shape == ():  # a number is a vector of one
            return spaces.Box(low[None], high[None], (1,), np.float32), lambda batch: _float32(batch)[:, None]
        return spaces.Box(low, high, space.shape, np.float32), _float32
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        start = space.start
        target: spaces.Space[Any] = (
            spaces.Discrete(int(space.n)) if isinstance(space, spaces.Discrete) else spaces.MultiDiscrete(space.nvec)
        )
        return target, lambda batch: batch.astype(np.int64) - start
    return spaces.Box(0.0, 1.0, space.shape, np.float32), _float32


def _channels_last(shape: tuple[int, ...]) -> bool:
    """True if the channels of an image are its last dimension: the one beside two equal ones, else the smallest."""
    first, middle, last = shape
    if (first == middle) != (middle == last):
        return first == middle
    return last <= first


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
