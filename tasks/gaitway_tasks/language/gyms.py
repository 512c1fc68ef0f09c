"""Gymnasium environments in words: a model reads where it is, names an action, and reads where that led."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError
from gaitway_files.ranges import NonNegativeFloat, PositiveInt, Share

from .answers import ANSWER, END_THINK, tagged
from .env import Played, Turn
from .rows import Row
from .watched import LIMIT, Workers, watched

if TYPE_CHECKING:
    import gymnasium

PREFIX = "text:"
"""Of names of tasks, before an environment's."""
IDS = {
    "frozen-lake": "FrozenLake-v1",
    "frozen-lake-8x8": "FrozenLake8x8-v1",
    "cliff-walking": "CliffWalking-v1",
    "taxi": "Taxi-v4",
    "blackjack": "Blackjack-v1",
}
"""Short names and ids of the environments that are told in words of their own."""
_HIGHLIGHT = re.compile(r"\x1b\[[\d;]+m(.*?)\x1b\[0m", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class GymnasiumSource(Played):
    """A Gymnasium environment with discrete actions, played in words; row ``seed`` is the seed of its ``reset``.

    Rows also have ``completion`` and ``messages``: the walk of a player who knows nothing of what is worth doing. It
    shows the form of answers, and that they depend on the place: in each the player has a whim, an action it prefers.
    """

    env_id: str
    """Id in Gymnasium's registry."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, such as ``{"is_slippery": False}``."""
    actions: tuple[str, ...] = ()
    """Names of the actions in their order; none are those of :data:`WORDS`, else their numbers."""
    penalty: NonNegativeFloat = 1.0
    """Cost of an answer that does not name one action; the environment then stands still. With less than a step
    costs, a model learns to say nothing."""
    whim: Share = 0.5
    """Share of moves in which the player of demonstrations follows its whim; otherwise it draws an action. With 0 a
    small model learns that places do not matter, and rewards hardly teach it otherwise."""
    walk: PositiveInt = 16
    """Most answers of a demonstration."""
    test: PositiveInt = 200
    train: PositiveInt = 1000

    def new(self) -> GymnasiumText:
        return GymnasiumText(self)

    def make(self) -> gymnasium.Env[Any, Any]:
        """The environment itself; ``ValueError`` if there is none, or none whose actions can be named."""
        try:
            import gymnasium
        except ImportError as error:
            raise UserError(f"{self.env_id} needs gymnasium: pip install 'gaitway[train]'") from error
        try:
            spec = gymnasium.spec(self.env_id)
            ansi: dict[str, Any] = (
                {"render_mode": "ansi"} if self.env_id not in IDS.values() and _has_ansi(spec) else {}
            )
            env = gymnasium.make(spec, disable_env_checker=True, **ansi, **self.kwargs)
        except (gymnasium.error.Error, TypeError, ValueError, KeyError, ImportError, AttributeError) as error:
            raise UserError(
                f"environment {self.env_id!r} with {dict(self.kwargs)} cannot be made: {error}. Its id must be "
                "in gymnasium.registry, and task.source.kwargs its arguments"
            ) from error
        if not isinstance(env.action_space, gymnasium.spaces.Discrete):
            raise UserError(
                f"environment {self.env_id!r} has actions {env.action_space}: only Discrete ones can be named in an "
                "answer; gaitway train learns it without words as gym:" + self.env_id
            )
        return env

    def vocabulary(self) -> list[str]:
        """Every word that can be replied, of environments with words of their own."""
        env = self.make()
        found = [_unclear(self.names_for(env)), *self.names_for(env)]
        told = _told(env)
        return found if told is None else found + told.words(env.unwrapped)

    def names_for(self, env: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
        """Names of the actions of ``env``."""
        told, space = _told(env), _discrete(env)
        numbers = tuple(map(str, range(int(space.start), int(space.start + space.n))))
        names = self.actions or (numbers if told is None else told.actions)
        if len(names) != space.n or len({name.lower() for name in names}) != space.n or not all(names):
            raise UserError(f"actions {', '.join(names)}: {self.env_id} has {space.n}, each with a name of its own")
        return names

    def _row(self, seed: int) -> Row:
        with Workers(LIMIT) as workers:
            row: Row = watched(workers, {0: lambda: self._walk(seed)}, lambda _: f"{self.env_id} with the seed {seed}")[
                0
            ]
        return row

    def _walk(self, seed: int) -> Row:
        env = self.new()
        messages = [{"role": "user", "content": env.reset({"seed": seed})}]
        random, place = Random(f"gaitway walk/{seed}"), env.place
        for number in range(self.walk):
            whim = Random(f"gaitway whim/{place}").choice(env.names)
            action = whim if random.random() < self.whim else random.choice(env.names)
            messages.append({"role": "assistant", "content": action})
            reply, place = env.step(action).reply, env.place
            if reply is None or number + 1 == self.walk:
                break
            messages.append({"role": "user", "content": reply})
        first = messages[1]["content"]
        return {"prompt": messages[0]["content"], "seed": seed, "completion": first, "messages": messages}


class GymnasiumText:
    """A Gymnasium environment as a :class:`~gaitway_tasks.language.env.TextEnv`.

    An answer's action is the one name between its last answer tags, or without tags the one name after its thoughts.
    The dialogue ends where the environment terminates or truncates, at its own time limit.
    """

    def __init__(self, source: GymnasiumSource):
        self.source = source
        self.env: gymnasium.Env[Any, Any] | None = None
        self.names: tuple[str, ...] = ()
        self.place = ""
        """Its state, in words."""

    def reset(self, row: Row) -> str:
        if self.env is None:
            self.env = self.source.make()
            self.names = self.source.names_for(self.env)
        observation, _ = self.env.reset(seed=row["seed"])
        told = _told(self.env)
        goal = told.goal(self.env.unwrapped) if told else f"You play {self.source.env_id}."
        self.place = self._told(observation)
        return f"{goal} {self.place}. Say {_listed(self.names)}."

    def step(self, answer: str) -> Turn:
        assert self.env is not None, "reset comes first"
        action = action_named(answer, self.names)
        if action is None:
            return Turn(_unclear(self.names), reward=-self.source.penalty)
        observation, reward, terminated, truncated, _ = self.env.step(action + int(_discrete(self.env).start))
        self.place = self._told(observation)
        return Turn(None if terminated or truncated else self.place, reward=float(reward))

    def _told(self, observation: Any) -> str:
        assert self.env is not None
        if (told := _told(self.env)) is not None:
            return told.place(self.env.unwrapped, observation)
        if self.env.render_mode == "ansi":
            return _HIGHLIGHT.sub(r"[\1]", str(self.env.render())).strip("\n")
        return f"You observe {_numbers(observation)}"


def action_named(answer: str, names: Sequence[str]) -> int | None:
    """Index of the one name that an answer says, as a word and in any case; None without one or with several."""
    said = tagged(answer) if ANSWER in answer else answer.rpartition(END_THINK)[2]
    found = {i for i, name in enumerate(names) if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said, re.IGNORECASE)}
    return found.pop() if len(found) == 1 else None


def _unclear(names: Sequence[str]) -> str:
    return f"Nothing happens. Say {_listed(names)}."


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def _has_ansi(spec: Any) -> bool:
    from gymnasium.envs.registration import load_env_creator

    made = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return "ansi" in getattr(made, "metadata", {}).get("render_modes", ())


def _numbers(observation: Any) -> str:
    """An observation of numbers, three digits each."""
    values = getattr(observation, "tolist", lambda: observation)()
    if isinstance(values, list | tuple):
        return " ".join(map(_numbers, values))
    return f"{values:.3g}" if isinstance(values, float) else str(values)


# ---- words of toy-text environments ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """Descriptions of an environment in words, each from the bare environment."""

    actions: tuple[str, ...]
    goal: Callable[[Any], str]
    place: Callable[[Any, Any], str]
    """Of it and an observation."""
    words: Callable[[Any], list[str]]
    """Every place, or pieces of all of them."""


def _square(env: Any, state: int, columns: int) -> str:
    row, column = divmod(int(state), columns)
    return f"row {row} column {column}"


def _squares(rows: int, columns: int) -> list[str]:
    return [f"row {row} column {column}" for row, column in product(range(rows), range(columns))]


def _lake(env: Any) -> str:
    rows = " / ".join(" ".join(cell.decode() for cell in row) for row in env.desc)
    return f"Cross the ice from S to G and keep out of the holes H: {rows}. You are at"


def _street(env: Any) -> str:
    return " / ".join(row.tobytes().decode() for row in env.desc)


_STANDS = ("R", "G", "Y", "B", "in taxi")


def _ride(env: Any, state: int) -> str:
    row, column, passenger, destination = env.decode(int(state))
    return f"row {row} column {column}, passenger {_STANDS[passenger]}, destination {_STANDS[destination]}"


WORDS = {
    "FrozenLakeEnv": Words(
        ("left", "down", "right", "up"),
        _lake,
        lambda env, state: _square(env, state, env.ncol),
        lambda env: _squares(env.nrow, env.ncol),
    ),
    "CliffWalkingEnv": Words(
        ("up", "right", "down", "left"),
        lambda env: (
            f"Walk from row {env.shape[0] - 1} column 0 to row {env.shape[0] - 1} column {env.shape[1] - 1}; between "
            "them is a cliff. You are at"
        ),
        lambda env, state: _square(env, state, env.shape[1]),
        lambda env: _squares(*env.shape),
    ),
    "TaxiEnv": Words(
        ("south", "north", "east", "west", "pickup", "dropoff"),
        lambda env: f"Drive a taxi: take the passenger to the destination. The map: {_street(env)}. The taxi is at",
        _ride,
        lambda env: [*_squares(5, 5), f", passenger {' '.join(_STANDS)}, destination"],
    ),
    "BlackjackEnv": Words(
        ("stick", "hit"),
        lambda env: "Get a higher sum than the dealer, 21 at most.",
        lambda env, seen: f"You have {seen[0]}{' with a usable ace' if seen[2] else ''}, the dealer shows {seen[1]}",
        lambda env: [" ".join(map(str, range(33))), "You have with a usable ace, the dealer shows"],
    ),
}
"""By the class of the bare environment."""


def _discrete(env: gymnasium.Env[Any, Any]) -> gymnasium.spaces.Discrete:
    space: Any = env.action_space
    return space


def _told(env: gymnasium.Env[Any, Any]) -> Words | None:
    return WORDS.get(type(env.unwrapped).__name__)
