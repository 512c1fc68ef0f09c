"""``gaitway doctor``: check what is installed and what works here.

Check this machine: what is installed, which worlds, agents and commands work, what to install for the others, whether
the processor computes in bfloat16, and whether videos can be rendered.

The exit code is 0 if at least one world can train a robot, else 1.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from ..catalogue import AGENTS, COMMANDS, EXTRAS, WORLDS, Entry, install_line
from ..runs import provenance
from ..tables import make_table, show_table
from ..version import version_line
from . import common

if TYPE_CHECKING:
    from rich.table import Table

GL_PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
renderer = mujoco.Renderer(model, 32, 32)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer.update_scene(data)
renderer.render()
"""


def add_options(parser: common.Parser) -> None:
    """None."""


def run(args: argparse.Namespace) -> int:
    from ..terminal import console as make_console

    console = make_console(markup=True)
    show_table(console, _machine())
    show_table(console, _packages())
    show_table(console, _abilities())
    return 0 if not any(entry.missing() for entry in COMMANDS["train"]) else 1


def _machine() -> Table:
    table = make_table("machine", "")
    info = provenance.machine()
    table.add_row("Gaitway", version_line())
    table.add_row("system", f"{info['system']}, {info['architecture']}")
    table.add_row("processor", f"{info['processor']}, {info['cores']} cores for this process")
    table.add_row("memory", f"{info['memory_gib']} GiB")
    table.add_row("free disk here", f"{shutil.disk_usage('.').free / 2**30:.1f} GiB")
    table.add_row("bfloat16", _bfloat16())
    table.add_row("GPU", _gpu())
    table.add_row("video rendering", _rendering())
    return table


def _packages() -> Table:
    table = make_table("package", "version", "comes with")
    for extra, names in EXTRAS.items():
        for name in names:
            source = "pip install gaitway" if extra == "core" else install_line((extra,))
            try:
                table.add_row(name, importlib.metadata.version(name), "core" if extra == "core" else f"extra {extra}")
            except importlib.metadata.PackageNotFoundError:
                table.add_row(name, "[yellow]missing[/]", source.replace("[", r"\["))
    return table


def _abilities() -> Table:
    table = make_table("what", "works here")
    for name, entry in WORLDS.items():
        table.add_row(f"world {name}", _state((entry,)))
    for name, entry in AGENTS.items():
        table.add_row(f"agent {name}", _state((entry,)))
    for name, entries in COMMANDS.items():
        table.add_row(f"gaitway {name}", _state(entries))
    return table


def _state(entries: tuple[Entry, ...]) -> str:
    from rich.markup import escape

    missing = [module for entry in entries for module in entry.missing()]
    if not missing:
        trouble = next((text for entry in entries if (text := entry.trouble())), None)
        return "[green]yes[/]" if trouble is None else f"[yellow]no[/], {escape(trouble)}"
    extras = tuple(dict.fromkeys(extra for entry in entries if entry.missing() for extra in entry.extras))
    line = install_line(extras).replace("[", r"\[")
    return f"[yellow]no[/], {', '.join(dict.fromkeys(missing))} missing: {line}"


def _bfloat16() -> str:
    if importlib.util.find_spec("torch") is None:
        return "unknown without torch"
    import torch
    from gaitway_agents.presets import has_bfloat16

    native = has_bfloat16(torch.device("cpu"))
    return "native: agent.optimizer.precision=bfloat16 is fast" if native else "not native: use float32"


def _gpu() -> str:
    if importlib.util.find_spec("torch") is None:
        return "unknown without torch"
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none; none is needed"


def _rendering() -> str:
    """Try each OpenGL platform in a process of its own, since a broken driver may take its process down."""
    if importlib.util.find_spec("mujoco") is None:
        return "unknown without mujoco"
    for backend in (os.environ["MUJOCO_GL"],) if "MUJOCO_GL" in os.environ else ("egl", "osmesa", "glfw"):
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", GL_PROBE],
                env={**os.environ, "MUJOCO_GL": backend},
                capture_output=True,
                timeout=60,
            )
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            return f"works, with {backend}"
    return "no OpenGL: install libegl1 and a Mesa driver (Debian: apt install libegl1 libgl1-mesa-dri)"
