"""The worlds and agents there are, what each needs, and the extra that brings it. Imports nothing heavy."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A world or an agent: one line about it, the modules it imports, and the extras that install them."""

    summary: str
    modules: tuple[str, ...]
    extras: tuple[str, ...]

    def missing(self) -> list[str]:
        return [name for name in self.modules if importlib.util.find_spec(name) is None]


WORLDS = {
    "mujoco": Entry(
        summary="MuJoCo on the CPU: batched physics on all cores",
        modules=("torch", "gymnasium", "mujoco"),
        extras=("train", "mujoco"),
    ),
}

AGENTS = {
    "ppo": Entry(
        summary="proximal policy optimisation with an adaptive-KL learning rate",
        modules=("torch", "gymnasium", "tensorboard"),
        extras=("train",),
    ),
}


def install_line(extras: tuple[str, ...]) -> str:
    return f"pip install 'gaitway[{','.join(extras)}]'"
