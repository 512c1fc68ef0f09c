"""Atari 2600 games as tasks, by the names of ale-py's own ROMs."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, NonNegativeInt, PositiveInt, ShareBelowOne, one_of
from gaitway_tasks.registry import UnknownNameError

PROTOCOLS: dict[str, dict[str, Any]] = {
    "standard": {"noop_max": 30, "sticky": 0.0, "episodic_life": True, "fire_reset": True, "full_actions": False},
    "machado": {"noop_max": 0, "sticky": 0.25, "episodic_life": False, "fire_reset": False, "full_actions": True},
}
"""Protocols: Mnih et al. (2015) as in the Baselines wrappers, and Machado et al. (2018)."""


@dataclass(frozen=True, kw_only=True)
class AtariTask(Checked):
    """A game and its settings. None means the protocol's value."""

    name: str
    game: str
    """ROM id, one of :func:`games`."""
    protocol: Annotated[str, one_of(*PROTOCOLS)] = "standard"
    """"standard" (random no-ops at the start, a life is an episode, the game's own actions) or "machado" (sticky
    actions, whole games, all 18 actions)."""
    observation: Annotated[str, one_of("image", "ram")] = "image"
    """"image": grey bytes (stack, 84, 84), the two last frames' maximum; "ram": the console's 128 bytes / 255."""
    frame_skip: PositiveInt = 4
    """Frames (60 Hz) that an action lasts."""
    stack: PositiveInt = 4
    """Number of stacked observations."""
    max_frames: PositiveInt = 108_000
    """Frames after which a game is truncated: 30 minutes."""
    reward_clip: bool = True
    """True clips rewards to their signs; ``info["episode"]`` always has the unclipped score."""
    noop_max: NonNegativeInt | None = None
    """A game starts after fewer than this many random no-op frames."""
    sticky: ShareBelowOne | None = None
    """Probability that a frame repeats the action of the one before."""
    episodic_life: bool | None = None
    """True makes a lost life a termination; the game goes on."""
    fire_reset: bool | None = None
    """True presses FIRE at the start of a game or life, as many games wait for it."""
    full_actions: bool | None = None

    def resolved(self) -> AtariTask:
        """Copy with the protocol's values filled in."""
        values = PROTOCOLS[self.protocol]
        return replace(self, **{name: value for name, value in values.items() if getattr(self, name) is None})


@functools.cache
def games() -> tuple[str, ...]:
    """ROM ids that ale-py ships, in the alphabet's order. Raises ImportError with the package to install."""
    try:
        from ale_py import roms
    except ImportError as error:
        raise ImportError('Atari games need ale-py: pip install "gaitway[atari]"') from error
    return tuple(sorted(roms.get_all_rom_ids()))


def rom_of(game: str) -> Path:
    """The file of a game's ROM: ale-py's own, or that in the folder ``ALE_ROMS_DIR`` of the environment.

    Raises UserError if there is none, or another one.
    """
    from ale_py import roms

    if game not in games():
        raise UserError(f"game {game!r}: ale-py ships no such ROM; gaitway_ale.games() lists those it does")
    try:
        path = roms.get_rom_path(game)
    except OSError as error:
        folder = os.environ.get("ALE_ROMS_DIR")
        where = (
            "ale-py's own is missing or damaged: install ale-py again"
            if folder is None
            else (f"none in ALE_ROMS_DIR {folder}: put {game}.bin there, or unset it for ale-py's own ROMs")
        )
        raise UserError(f"game {game!r}: {where} ({' '.join(str(error).split())})") from None
    assert path is not None
    return path


def task_named(name: str) -> AtariTask:
    """The task of a game, spelt as ``space-invaders``, ``space_invaders`` or ``SpaceInvaders``.

    ``-ram`` at the end asks for the console's memory instead of the screen. Raises ValueError naming the nearest game.
    """
    known = {_letters(game): game for game in games()}
    stem = name[:-4] if name[-4:] in ("-ram", "_ram") else name
    game = known.get(_letters(stem))
    if game is None:
        raise UnknownNameError("Atari game", name, [game.replace("_", "-") for game in games()])
    short = game.replace("_", "-")
    if stem != name:
        return AtariTask(name=f"{short}-ram", game=game, observation="ram", stack=1)
    return AtariTask(name=short, game=game)


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
