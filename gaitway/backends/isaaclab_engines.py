"""PhysX and Newton, as Isaac Lab 3.0 runs them on a CPU, in a process of the Python that has it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .in_isaaclab import ERROR, LIMIT

if TYPE_CHECKING:
    import numpy as np
    from gaitway_sim2real.trial.engines import Walk

TITLES = {"physx": "PhysX", "newton": "Newton"}
PACKAGES = {"physx": ("isaaclab", "ovphysx"), "newton": ("isaaclab", "newton", "warp-lang")}
"""Packages whose versions a verdict names."""
FIND_S = 120.0
STALL_S = 1200.0
"""Longest time without a step [s]. Newton's kernels take minutes to compile for a CPU the first time."""
LINES = 15
"""Last lines of the simulator's own output that an error shows."""


def engines(names: Sequence[str], python: Path | None = None) -> list[IsaacLabEngine]:
    """The engines of these names, each once, in this order; ``python`` is that which has Isaac Lab, if not this one.

    Raises :class:`UserError` before anything runs where one of them cannot run.
    """
    if python is not None and not names:
        raise UserError("--isaaclab-python is for --engine: add --engine physx")
    return [IsaacLabEngine(name, python) for name in dict.fromkeys(names)]


class IsaacLabEngine:
    """Implements :class:`gaitway_sim2real.trial.engines.Engine`; raises :class:`UserError` if it cannot run."""

    def __init__(self, name: str, python: Path | None = None):
        self.name, self.title = name, TITLES[name]
        self._python = str(python or sys.executable)
        found = self._find(python)
        self.software: Mapping[str, str] = {
            package: found["versions"][package] for package in PACKAGES[name] if package in found["versions"]
        }

    def _find(self, python: Path | None) -> dict[str, Any]:
        what = f"--engine {self.name}: {self._python}"
        try:
            done = subprocess.run(
                self._command("find", self.name), env=_environment(), capture_output=True, text=True, timeout=FIND_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"{what} does not run: {getattr(error, 'strerror', None) or error}") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UserError(
                f"{what} has no working Gaitway ({lines[-1] if lines else f'exit code {done.returncode}'}): "
                f"{self._python} -m pip install 'gaitway[isaaclab]'"
            )
        from gaitway_files.json_files import parse_json

        from .. import __version__

        found: dict[str, Any] = parse_json(done.stdout.splitlines()[-1], self._python)

        if found["gaitway"] != __version__:
            raise UserError(f"{what} has Gaitway {found['gaitway']}, this is {__version__}: install the same one there")
        if found["problem"]:
            other = "" if python else "\nWhere another Python has Isaac Lab, name it: --isaaclab-python PATH"
            raise UserError(f"{what}: {found['problem']}{other}")
        return found

    def record(self, walk: Walk) -> dict[str, np.ndarray]:
        """Let the robots walk there, and show how far they are; Ctrl-C ends the process too."""
        import numpy as np
        from gaitway_files.archives import read_npz
        from gaitway_files.writing import whole_file, write_text

        told = {
            "engine": self.name,
            "bundle": str(walk.bundle.absolute()),
            **{key: getattr(walk, key) for key in ("physics_dt", "decimation", "friction", "body_names", "feet")},
            "fall_bodies": walk.fall_bodies,
        }
        arrays = {**walk.start, "command": walk.command}
        with tempfile.TemporaryDirectory(prefix="gaitway-") as name:
            folder = Path(name)
            write_text(folder / "walk.json", json.dumps(told))
            with whole_file(folder / "walk.npz") as path:
                np.savez(path, allow_pickle=False, **arrays)
            self._walk(folder, len(walk.command))
            return read_npz(folder / "recorded.npz", limit=LIMIT)

    def _walk(self, folder: Path, steps: int) -> None:
        from gaitway_files.children import ending_with_us
        from gaitway_files.writing import open_to_append

        from ..training.progress import Counter

        print(f"{self.title}: starting; the first time, compiling its kernels takes minutes", flush=True)
        reader, writer = os.pipe()
        with open_to_append(folder / "log") as log:
            child = subprocess.Popen(
                ending_with_us(self._command("walk", str(folder), str(writer))),
                env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, pass_fds=(writer,),
            )  # fmt: skip
        os.close(writer)
        stalled = False
        try:
            stepping, stalled = _next(reader)
            if stepping:  # the time before the first step says nothing about the others
                for _ in Counter(self.title, "steps").each(range(steps)):
                    stepping, stalled = _next(reader)
                    if not stepping:
                        break
            if not stalled:
                child.wait(STALL_S)
        finally:
            child.kill()
            child.wait()
            os.close(reader)
        if child.returncode:
            raise UserError(f"--engine {self.name}: {self._reason(folder / 'log', child.returncode, stalled)}")

    def _reason(self, log: Path, code: int, stalled: bool) -> str:
        from gaitway_files.reading import read_bytes

        lines = read_bytes(log, LIMIT).decode("utf-8", "replace").strip().splitlines()
        if not stalled and lines and lines[-1].startswith(ERROR):
            return lines[-1].removeprefix(ERROR)
        why = f"made no step for {STALL_S / 60:.0f} minutes" if stalled else f"ended with exit code {code}"
        return "\n".join([f"{self.title} {why}. Its last lines:", *lines[-LINES:]])

    def _command(self, *arguments: str) -> list[str]:
        return [self._python, "-P", "-m", "gaitway.backends.in_isaaclab", *arguments]


def _next(reader: int) -> tuple[bool, bool]:
    """Pair of flags: another step begins; no step began for too long. Both are False at the end of the process."""
    if not select.select([reader], [], [], STALL_S)[0]:
        return False, True
    return bool(os.read(reader, 1)), False


def _environment() -> dict[str, str]:
    """Environment of this process; a source tree of Gaitway is put on the path, so that the other Python has it too."""
    import gaitway_files
    import gaitway_isaaclab
    import gaitway_onboard

    import gaitway

    modules = (gaitway, gaitway_files, gaitway_isaaclab, gaitway_onboard)
    roots = {str(Path(str(module.__file__)).parents[1]): None for module in modules}
    if any("site-packages" in root or "dist-packages" in root for root in roots):
        return dict(os.environ)
    paths = [*roots, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
