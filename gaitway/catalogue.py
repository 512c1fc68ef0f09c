"""The worlds, agents and commands there are, what each needs and the extras that bring it. Imports nothing heavy."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A part of Gaitway: one line about it, the modules it imports, and the extras that install them."""

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

EXPORT = Entry(
    summary="writing a bundle", modules=("torch", "onnx", "onnxscript", "mujoco"), extras=("train", "mujoco")
)
VALIDATE = Entry(summary="the validation suite", modules=("mujoco", "matplotlib"), extras=("mujoco",))
TWIN = Entry(summary="MuJoCo behind a robot's interface", modules=("mujoco",), extras=("mujoco",))
PLAY = Entry(summary="viewer and films", modules=("mujoco", "viser", "imageio_ffmpeg"), extras=("mujoco",))

COMMANDS: dict[str, tuple[Entry, ...]] = {
    "train": (WORLDS["mujoco"], AGENTS["ppo"]),
    "play": (PLAY,),
    "export": (EXPORT,),
    "validate": (VALIDATE,),
    "run --world twin": (TWIN,),
}
"""What each command of ``gaitway`` needs."""


def install_line(extras: tuple[str, ...]) -> str:
    return f"pip install 'gaitway[{','.join(extras)}]'"
