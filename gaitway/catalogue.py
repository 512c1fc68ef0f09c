"""Catalogue of worlds, agents and commands, with required modules and their extras. Imports nothing heavy."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from gaitway_agents import registry


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A part of Gaitway: one line about it, the modules it imports, and the extras that install them."""

    summary: str
    modules: tuple[str, ...]
    extras: tuple[str, ...]

    def missing(self) -> list[str]:
        return [name for name in self.modules if importlib.util.find_spec(name) is None]

    def trouble(self) -> str | None:
        """The reason why it cannot work here, and the command that fixes it; None if it works."""
        missing = self.missing()
        return f"{', '.join(missing)} missing: {install_line(self.extras)}" if missing else None


class IsaacLab(Entry):
    """Isaac Lab, which has its own installer and can be partly installed."""

    def trouble(self) -> str | None:
        if found := super().trouble():
            return found
        from gaitway_isaaclab import preflight

        try:
            preflight.check()
        except ValueError as error:
            return str(error)
        return None


WORLDS = {
    "mujoco": Entry(
        summary="MuJoCo on the CPU: batched physics on all cores",
        modules=("torch", "gymnasium", "mujoco"),
        extras=("train", "mujoco"),
    ),
    "isaaclab": IsaacLab(
        summary="Isaac Lab 2.3 (PhysX, on a GPU) and 3.0 (PhysX, Newton); robots only",
        modules=("torch", "gymnasium", "tensorboard"),
        extras=("isaaclab",),
    ),
    "gymnasium": Entry(
        summary="any Gymnasium id; EnvPool, where it has the id, is several times faster",
        modules=("torch", "gymnasium"),
        extras=("train", "gyms"),
    ),
    "ale": Entry(summary="Atari 2600 games", modules=("torch", "gymnasium", "ale_py"), extras=("train", "atari")),
    "language": Entry(
        summary="prompts and answers: models of transformers, verifiers, tools",
        modules=("torch", "gymnasium", "transformers", "peft", "math_verify", "jinja2"),
        extras=("train", "language"),
    ),
}

AGENTS = {
    name: Entry(summary=row.summary, modules=row.modules, extras=row.extras)
    for name, row in registry.algorithms().items()
}

EXPORT = Entry(
    summary="writing a bundle", modules=("torch", "onnx", "onnxscript", "mujoco"), extras=("train", "mujoco")
)
LEAPP = Entry(
    summary="LEAPP packages, the form in which Isaac Lab 3.0 exports policies",
    modules=(*EXPORT.modules, "safetensors"),
    extras=(*EXPORT.extras, "leapp"),
)
EXPORT_FORMATS = {"bundle": EXPORT, "rsl-rl": WORLDS["mujoco"], "huggingface": WORLDS["language"]}
"""What writing each format needs."""
VALIDATE = Entry(summary="the validation suite", modules=("mujoco",), extras=("mujoco",))
TWIN = Entry(summary="MuJoCo behind a robot's interface", modules=("mujoco",), extras=("mujoco",))
WIRE_TWIN = Entry(summary="MuJoCo on a robot's wire", modules=("mujoco", "cyclonedds"), extras=("mujoco", "robot"))
DEPLOY = Entry(summary="driving a robot over DDS", modules=("cyclonedds", "mcap"), extras=("robot",))
SIGNING = Entry(summary="signatures of bundles", modules=("cryptography",), extras=("robot",))
FLIGHT = Entry(summary="recorded flights", modules=("mcap",), extras=("robot",))
IDENTIFY = Entry(summary="system identification", modules=("mujoco", "cma", "mcap"), extras=("mujoco", "robot"))
IDENTIFY_NETWORK = Entry(
    summary="actuator networks", modules=(*IDENTIFY.modules, "torch"), extras=("mujoco", "robot", "train")
)
VLLM = Entry(
    summary="rollouts by vLLM", modules=(*WORLDS["language"].modules, "vllm"), extras=("train", "language", "vllm")
)
REHEARSE = Entry(summary="rehearsals against the digital twin", modules=("mujoco",), extras=("mujoco",))
REHEARSE_DDS = Entry(
    summary="rehearsals with processes on a wire", modules=("mujoco", "cyclonedds", "mcap"), extras=("mujoco", "robot")
)
COMPARE = Entry(summary="curves and the HTML page", modules=("matplotlib",), extras=("train",))
PLAY = Entry(summary="viewer and films", modules=("mujoco", "viser", "imageio_ffmpeg"), extras=("mujoco",))

COMMANDS: dict[str, tuple[Entry, ...]] = {
    "train": (WORLDS["mujoco"], AGENTS["ppo"]),
    "compare": (COMPARE,),
    "demo": (PLAY,),
    "play": (PLAY,),
    "export": (EXPORT,),
    "import-isaaclab": (EXPORT,),
    "validate LEAPP": (LEAPP,),
    "validate": (VALIDATE,),
    "validate --sign": (SIGNING,),
    "record": (TWIN,),
    "diagnose": (TWIN,),
    "run --sim": (TWIN,),
    "deploy": (DEPLOY,),
    "deploy --trust": (SIGNING,),
    "twin": (WIRE_TWIN,),
    "rehearse": (REHEARSE,),
    "replay": (FLIGHT, TWIN),
    "identify": (IDENTIFY,),
    "identify --network": (IDENTIFY_NETWORK,),
    "evaluate": (WORLDS["language"],),
    "chat": (WORLDS["language"],),
    "report": (COMPARE,),
    "train --rollout vllm": (VLLM,),
}
"""Requirements of each command of ``gaitway``."""


CORE = ("numpy", "omegaconf", "onnxruntime", "yaml", "rich")
"""Modules that ``pip install gaitway`` installs."""


def entry_with(module: str) -> Entry | None:
    """The smallest part of Gaitway that needs ``module``."""
    entries = (*WORLDS.values(), *AGENTS.values(), *(entry for entries in COMMANDS.values() for entry in entries))
    return min(
        (entry for entry in entries if module in entry.modules), key=lambda entry: len(entry.extras), default=None
    )


def install_line(extras: tuple[str, ...]) -> str:
    return f"pip install 'gaitway[{','.join(extras)}]'"
