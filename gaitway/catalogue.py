"""Catalogue of worlds, agents and commands, with required modules and their extras. Imports nothing heavy."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from typing import Any

from gaitway_agents import registry
from gaitway_files.errors import UserError
from gaitway_files.trust import object_named

OPENGL = "apt install libegl1 libgl1-mesa-dri libopengl0"
"""Command with which Debian and Ubuntu render videos without a display. PyOpenGL needs libopengl0 beside EGL."""

OLDEST = {"mujoco": (3, 17)}
"""Versions before these cannot do what is asked of them; the Newton of Isaac Lab 3.0 brings MuJoCo 3.12."""

EXTRAS = {
    "core": ("numpy", "omegaconf", "onnxruntime", "rich"),
    "train": ("torch", "gymnasium", "tensorboard", "matplotlib", "onnx", "onnxscript"),
    "mujoco": ("mujoco", "imageio-ffmpeg", "viser"),
    "warp": ("mujoco-warp", "warp-lang"),
    "gyms": ("envpool", "Box2D", "pygame"),
    "atari": ("ale-py",),
    "rsl-rl": ("rsl-rl-lib",),
    "language": ("transformers", "peft", "math-verify", "datasets"),
    "vllm": ("vllm",),
    "isaaclab": ("gymnasium", "tensorboard", "mujoco"),
    "robot": ("cyclonedds", "mcap"),
    "hub": ("huggingface_hub",),
    "loggers": ("wandb", "mlflow-skinny"),
    "sweep": ("optuna",),
    "ray": ("ray",),
}
"""Packages by which each extra is known to be installed; ``core`` is installed without any."""


@dataclass(frozen=True)
class Entry:
    """A part of Gaitway: the modules it imports, the extras that install them, and, if it is listed, a line on it."""

    modules: tuple[str, ...]
    extras: tuple[str, ...]
    summary: str = ""

    def missing(self) -> list[str]:
        """The modules that are not installed, or are too old, which is said."""
        found = {name: _too_old(name) if importlib.util.find_spec(name) else name for name in self.modules}
        return [said for said in found.values() if said]

    def trouble(self) -> str | None:
        """The reason why it cannot work here, and the command that fixes it; None if it works."""
        missing = self.missing()
        return f"{', '.join(missing)} missing: {install_line(self.extras)}" if missing else None


def _too_old(module: str) -> str:
    """Requirement that the installed ``module`` is too old for; empty if it is new enough."""
    if module not in OLDEST:
        return ""
    try:
        installed = importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return ""
    oldest, numbers = OLDEST[module], tuple(int(part) for part in re.findall(r"\d+", installed)[:2])
    return "" if numbers >= oldest else f"{module} {'.'.join(map(str, oldest))} ({installed} is too old)"


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
        ("torch", "gymnasium", "mujoco"), ("train", "mujoco"), "MuJoCo on the CPU: batched physics on all cores"
    ),
    "mujoco-warp": Entry(
        ("torch", "gymnasium", "mujoco", "mujoco_warp", "warp"),
        ("train", "mujoco", "warp"),
        "MuJoCo Warp on an NVIDIA GPU: thousands of robots at once; robots only",
    ),
    "isaaclab": IsaacLab(
        ("torch", "gymnasium", "tensorboard"),
        ("isaaclab",),
        "Isaac Lab 2.3 (PhysX, on a GPU) and 3.0 (PhysX, Newton); robots only",
    ),
    "gymnasium": Entry(
        ("torch", "gymnasium"),
        ("train", "gyms"),
        "any Gymnasium id; EnvPool, where it has the id, is several times faster",
    ),
    "ale": Entry(("torch", "gymnasium", "ale_py"), ("train", "atari"), "Atari 2600 games"),
    "language": Entry(
        ("torch", "gymnasium", "transformers", "peft", "math_verify", "jinja2"),
        ("train", "language"),
        "prompts and answers: models of transformers, verifiers, tools",
    ),
}

AGENTS = {name: Entry(row.modules, row.extras, row.summary) for name, row in registry.algorithms().items()}


def admit_agent(name: Any) -> None:
    """Add the algorithm of another package that the user names ``module:ROW``, for environments; others are there.

    Raises :class:`UserError` unless it is a :class:`gaitway_agents.registry.Algorithm` of a module that the user named.
    """
    if not isinstance(name, str) or ":" not in name or name in AGENTS:
        return
    row = object_named(name)
    if not isinstance(row, registry.Algorithm):
        raise UserError(f"agent {name!r} is a {type(row).__name__}: expected a gaitway_agents.registry.Algorithm")
    registry.ENVIRONMENTS[name] = dataclasses.replace(row, name=name)
    AGENTS[name] = Entry(row.modules, row.extras, row.summary)


EXPORT = Entry(("torch", "onnx", "onnxscript", "mujoco"), ("train", "mujoco"))
LEAPP = Entry((*EXPORT.modules, "safetensors"), (*EXPORT.extras, "leapp"))
EXPORT_FORMATS = {"bundle": EXPORT, "rsl-rl": WORLDS["mujoco"], "huggingface": WORLDS["language"]}
"""Packages that writing each format needs."""
MUJOCO = Entry(("mujoco",), ("mujoco",))
WIRE_TWIN = Entry(("mujoco", "cyclonedds"), ("mujoco", "robot"))
DEPLOY = Entry(("cyclonedds", "mcap"), ("robot",))
SIGNING = Entry(("cryptography",), ("robot",))
HUB = Entry(("huggingface_hub",), ("hub",))
FLIGHT = Entry(("mcap",), ("robot",))
IDENTIFY = Entry(("mujoco", "cma", "mcap"), ("mujoco", "robot"))
FALSIFY = Entry(("mujoco", "cma"), ("mujoco",))
IDENTIFY_NETWORK = Entry((*IDENTIFY.modules, "torch"), ("mujoco", "robot", "train"))
VLLM = Entry((*WORLDS["language"].modules, "vllm"), ("train", "language", "vllm"))
REHEARSE_DDS = Entry(("mujoco", "cyclonedds", "mcap"), ("mujoco", "robot"))
COMPARE = Entry(("matplotlib",), ("train",))
RAY = Entry(("ray",), ("ray",))
SWEEP = Entry(("torch", "gymnasium", "optuna"), ("train", "sweep"))
LOGGERS = {name: Entry((name,), ("loggers",)) for name in ("wandb", "mlflow")}
PLAY = Entry(("mujoco", "viser", "imageio_ffmpeg"), ("mujoco",))

COMMANDS: dict[str, tuple[Entry, ...]] = {
    "adopt": (WORLDS["mujoco"],),
    "train": (WORLDS["mujoco"], AGENTS["ppo"]),
    "sweep": (SWEEP,),
    "sweep --ray": (RAY,),
    "compare": (COMPARE,),
    "demo": (PLAY,),
    "play": (PLAY,),
    "export": (EXPORT,),
    "import": (EXPORT,),
    "validate LEAPP": (LEAPP,),
    "validate": (MUJOCO,),
    "validate --falsify": (FALSIFY,),
    "validate --sign": (SIGNING,),
    "pull hf:": (HUB,),
    "pull --trust": (SIGNING,),
    "push hf:": (HUB,),
    "record": (MUJOCO,),
    "diagnose": (MUJOCO,),
    "run --sim": (MUJOCO,),
    "deploy": (DEPLOY,),
    "deploy --trust": (SIGNING,),
    "twin": (WIRE_TWIN,),
    "rehearse": (MUJOCO,),
    "replay": (FLIGHT, MUJOCO),
    "identify": (IDENTIFY,),
    "identify --network": (IDENTIFY_NETWORK,),
    "evaluate": (WORLDS["language"],),
    "chat": (WORLDS["language"],),
    "serve": (WORLDS["language"],),
    "report": (COMPARE,),
    "train --rollout vllm": (VLLM,),
    "train --logger": tuple(LOGGERS.values()),
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
    return f"pip install 'gaitway[{','.join(extras)}]'" if extras else "pip install gaitway"


def require(what: str, entry: Entry) -> None:
    """Raise unless the modules of ``entry`` are installed; the message has the line that installs them."""
    if missing := entry.missing():
        raise UserError(f"{what} needs {', '.join(missing)}, not installed here: {install_line(entry.extras)}")
