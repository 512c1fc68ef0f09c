"""``gaitway doctor``: check what is installed and what works here.

Check this machine on one screen: what is installed and works, what is missing, whether the processor computes in
bfloat16, and whether videos can be rendered. --all lists every package, agent and command with the line that installs
what is missing.

--report FILE writes a text file for a bug report: all of this, and with --run the settings, record and last rows of a
run. Names of folders, users, hosts and servers are left out; read the file before you publish it.

The exit code is 0 if what is installed works, 1 if some of it is broken.

examples:
  gaitway doctor
  gaitway doctor --all
  gaitway doctor --report report.txt --run runs/walk
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from .. import options
from ..catalogue import AGENTS, COMMANDS, CORE, EXTRAS, OPENGL, WORLDS, Entry, install_line
from ..outcome import opengl_that_is_asked_for
from ..runs import provenance
from ..tables import make_table, show_table
from ..version import installed_extras, version_line

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


def add_options(parser: options.Parser) -> None:
    parser.switch("--all", "list every package, world, agent and command")
    parser.option("--report FILE", "write a text file for a bug report", Path)
    parser.option("--run RUN", "run to include in the report", Path, dest="about")


def run(args: argparse.Namespace) -> int:
    from ..terminal import console as make_console

    console = make_console(markup=True)
    if args.report is not None:
        return _report(args.report, args.about)
    if args.about is not None:
        raise UserError(f"--run {args.about}: only a report is about a run; add --report FILE")
    broken = _broken()
    if args.all:
        for table in (_machine(), _packages(), _abilities()):
            show_table(console, table)
    else:
        show_table(console, _summary())
    for name, why in broken.items():
        print(f"broken: {name}: {why}")
    if not args.all:
        print("gaitway doctor --all has every package, agent and command")
    return 1 if broken else 0


def _broken() -> dict[str, str]:
    """Packages that are installed and cannot be used, and the reason."""
    found = {}
    for name in (*CORE, "torch", "mujoco", "gymnasium"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name in CORE or error.name != name:
                found[name] = f"{error}; {install_line(())}" if name in CORE else str(error)
        except Exception as error:  # whatever a library does when it is imported
            found[name] = opengl_that_is_asked_for(error) or f"{type(error).__name__}: {error}".partition("\n")[0]
    return found


def _summary() -> Table:
    """The machine, and of packages, worlds, agents and commands what works and what does not."""
    table = _machine()
    table.box, table.show_header = None, False
    extras = installed_extras()
    table.add_row("extras", f"{', '.join(extras) or 'none'}{_but([name for name in EXTRAS if name not in extras])}")
    every = {name: (entry,) for name, entry in WORLDS.items()}
    for what, entries in (
        ("worlds", every),
        ("agents", {name: (entry,) for name, entry in AGENTS.items()}),
        ("commands", COMMANDS),
    ):
        no = [name for name, parts in entries.items() if any(part.trouble() for part in parts)]
        yes = [name for name in entries if name not in no]
        working = (", ".join(yes) or "none") if what == "worlds" else f"{len(yes)} of {len(entries)} work"
        table.add_row(what, f"{working}{_but(no)}")
    return table


def _but(names: list[str], most: int = 6) -> str:
    """Missing parts, in a few words."""
    names = [name for name in names if name not in ("core", "isaaclab")]
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"; not {shown}" if names else ""


def _report(path: Path, about: Path | None) -> int:
    """Write all tables and what a run says of itself, without private names."""
    from ..runs.files import write_text_atomically
    from ..runs.private import private
    from ..runs.report import run_text
    from ..terminal import console as make_console

    console = make_console(markup=True, width=200, record=True, file=io.StringIO())
    for table in (_machine(), _packages(), _abilities()):
        show_table(console, table)
    broken = "".join(f"broken: {name}: {why}\n" for name, why in _broken().items())
    text = console.export_text() + broken + ("" if about is None else run_text(about))
    write_text_atomically(path, private(text))
    print(f"report: {path}; read it before you publish it")
    return 0


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
    return f"no OpenGL: install libegl1, libopengl0 and a Mesa driver (Debian: {OPENGL})"
