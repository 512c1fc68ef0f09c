"""Returns of a random player and of a human on 57 Atari games, for human-normalised scores.

The table of DeepMind's DQN Zoo: each player's mean over at least three games that start with up to 30 random no-ops and
last at most 30 minutes.
"""

from __future__ import annotations

import re
from importlib.resources import files

_LINES = (files(__package__) / "atari_scores.csv").read_text("utf-8").splitlines()[1:]
RANDOM_AND_HUMAN = {name: (float(low), float(high)) for name, low, high in (line.split(",") for line in _LINES)}


def game_of(task: str) -> str:
    """The bare name of a game: "gym:ALE/SpaceInvaders-v5", "space-invaders" and "SpaceInvadersNoFrameskip-v4" agree."""
    name = re.sub(r"-v\d+$", "", task.rpartition("/")[2].rpartition(":")[2])
    return re.sub(r"noframeskip|[^a-z]", "", name.lower())
