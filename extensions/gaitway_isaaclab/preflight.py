"""Find the installed parts of Isaac Lab and check that they can run, without importing them.

Starting a simulator takes a minute and fails late; this takes milliseconds. Versions come from package metadata.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gaitway_files.errors import UserError

RELEASES = {r"2\.3\.2(\.post\d+)?": "2.3", r"0\.54\.\d+": "2.3", r"3\.0\.\d+": "3.0", r"28\.0\.\d+": "3.0"}
"""Supported versions: of wheels, and of source trees, whose packages have their own version numbers."""
OTHERS = {r"2\.3\b.*": "2.3", r"0\.4[78]\..*": "2.3", r"3\.0.*": "3.0", r"6\..*": "3.0"}
"""Unsupported versions with different interfaces, and the release to use instead."""
PACKAGES = ("isaaclab", "isaacsim", "ovphysx", "newton", "warp-lang", "numpy", "torch", "gymnasium", "rsl-rl-lib")
PHYSICS = ("physx", "newton")
NVIDIA = "--extra-index-url https://pypi.nvidia.com"
OVPHYSX = "pip install 'isaaclab[ovphysx]==3.0.0'"
INSTALL = {
    "2.3": f"pip install 'isaaclab[isaacsim,all]==2.3.2.post1' {NVIDIA}    (Python 3.11)",
    "3.0": "pip install 'isaaclab[ovphysx,rsl-rl]==3.0.0'    (Python 3.12; Newton, and PhysX without Isaac Sim)",
    "3.0 with Isaac Sim": f"pip install 'isaaclab[isaacsim,ovphysx,rsl-rl]==3.0.0' {NVIDIA}    (Python 3.12)",
}
SIM = {"2.3": "5.1.0.*", "3.0": "6.2.0.*"}
SHARED = {"libGL.so.1": "libgl1", "libX11.so.6": "libx11-6"}
"""Libraries of the system that ovphysx loads, also without a display, and Debian's packages of them."""
PYTHON = {"2.3": (3, 11), "3.0": (3, 12)}
"""The Python that the release's Isaac Sim is built for."""
EULA = "OMNI_KIT_ACCEPT_EULA"
NO_RAY_TRACING = re.compile(r"\b([PV]100|A(30|100|800)|H(20|100|200|800)|GH200|G?B[123]00)\b")
"""Data-centre GPUs without ray-tracing cores, by name. NVIDIA's requirements for Isaac Sim leave them out."""


class IsaacLabError(UserError):
    """A version or state of Isaac Lab in which Gaitway's tasks cannot run; the message names the fix."""


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Versions of the packages that Python finds; None for a missing package."""

    versions: dict[str, str | None]
    python: tuple[int, int]
    labs: tuple[tuple[str, str], ...] = ()
    """Version and folder of every Isaac Lab that Python finds, that which it imports first."""

    @property
    def two_releases(self) -> str | None:
        """The problem of two releases that Python sees at once; None with one, or two of the same."""
        releases = {_look_up(version, RELEASES) or version for version, _ in self.labs}
        if len(releases) < 2:
            return None
        (version, folder), *others = self.labs
        beside = " and ".join(f"{version} in {folder}" for version, folder in others)
        return (
            f"Python sees {len(self.labs)} Isaac Labs: it imports {version} in {folder}, beside {beside}. Packages of "
            "one would meet settings of the other: take one off PYTHONPATH, pip uninstall it, or give each an "
            "environment"
        )

    @property
    def release(self) -> str | None:
        """``"2.3"`` or ``"3.0"``; None without Isaac Lab. Raises :class:`IsaacLabError` for any other version."""
        version = self.versions["isaaclab"]
        return None if version is None else release_of(version)

    @property
    def physics(self) -> str:
        """Default physics engine: PhysX if it is installed; 2.3 requires it."""
        has_physx = self.versions["isaacsim"] or self.versions["ovphysx"]
        return "newton" if self.release == "3.0" and not has_physx else "physx"

    def starts_isaac_sim(self, physics: str) -> bool:
        """True if ``physics`` needs Isaac Sim."""
        return physics == "physx" and self.versions["isaacsim"] is not None and self.versions["ovphysx"] is None

    def __str__(self) -> str:
        found = [f"{name} {version or 'missing'}" for name, version in self.versions.items()]
        return f"found: {', '.join(found)}, Python {self.python[0]}.{self.python[1]}"


def release_of(version: str) -> str:
    """The Isaac Lab release, ``"2.3"`` or ``"3.0"``, that has this ``isaaclab.__version__`` or wheel version."""
    if release := _look_up(version, RELEASES):
        return release
    near = _look_up(version, OTHERS)
    lines = "; ".join(line for name, line in INSTALL.items() if near is None or name.startswith(near))
    raise IsaacLabError(f"isaaclab {version} is unknown to Gaitway, which knows 2.3.2 and 3.0: {lines}")


def _look_up(version: str, table: dict[str, str]) -> str | None:
    return next((release for pattern, release in table.items() if re.fullmatch(pattern, version)), None)


def find() -> Installation:
    """Installed versions."""
    versions = {name: _version(name) for name in PACKAGES}
    if versions["isaaclab"] is None and _findable("isaaclab"):
        versions["isaaclab"] = "not installed, but on the path"
    if versions["isaacsim"] is None:
        # Isaac Sim unpacked from an archive is no package: its launcher puts it on the path.
        versions["isaacsim"] = _version("isaacsim-kernel") or ("unpacked" if _findable("isaacsim") else None)
    python = (sys.version_info.major, sys.version_info.minor)
    return Installation(versions=versions, python=python, labs=tuple(_labs()))


def check(physics: str | None = None, installation: Installation | None = None) -> str:
    """The physics engine that will run: ``physics``, ``"physx"`` or ``"newton"``, or the installation's own choice.

    Raises :class:`IsaacLabError` if it cannot run here, with all problems, the versions found and the fix.
    """
    here = installation or find()
    if physics is not None and physics not in PHYSICS:
        raise IsaacLabError(f"physics {physics!r}: use one of {', '.join(PHYSICS)}")
    if problem := here.two_releases:
        raise IsaacLabError(f"{problem}. {here}")
    if here.versions["isaaclab"] is None:
        lines = "\n".join(f"  {name}: {line}" for name, line in INSTALL.items())
        raise IsaacLabError(f"Isaac Lab is not installed here; {here}. One of these installs it:\n{lines}")
    release = here.release
    assert release is not None
    chosen = physics or here.physics
    if problems := list(_problems(here, release, chosen)):
        raise IsaacLabError(f"Isaac Lab {release} cannot run here: {'; '.join(problems)}. {here}")
    return chosen


def advice(physics: str, installation: Installation | None = None) -> list[str]:
    """Possible obstacles for Isaac Sim on this machine, one line each; empty if ``physics`` runs without it."""
    here = installation or find()
    if not here.starts_isaac_sim(physics):
        return []
    found = []
    without = f"{OVPHYSX}, or --physics newton, do without" if here.release == "3.0" else "Isaac Lab 3.0 does without"
    if cards := sorted({name for name in gpu_names() if NO_RAY_TRACING.search(name)}):
        found.append(f"Isaac Sim is not supported on {', '.join(cards)}, which cannot trace rays: {without}")
    if not sys.stdin.isatty() and not os.environ.get(EULA):
        found.append(
            f"Isaac Sim asks for agreement to its licence when it first starts, and nothing can answer here: "
            f"{EULA}=YES agrees; {without}"
        )
    return found


def gpu_names() -> list[str]:
    """GPUs that NVIDIA's driver lists; empty without a driver."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        return [line.strip() for line in shown.splitlines() if line.strip()]
    return []


def _problems(here: Installation, release: str, physics: str) -> list[str]:
    versions, found = here.versions, []
    if release == "2.3" and physics == "newton":
        found.append(f"it has PhysX only, Newton came with 3.0: leave out --physics, or install 3.0: {INSTALL['3.0']}")
    elif physics == "physx" and versions["isaacsim"] is None and (release == "2.3" or versions["ovphysx"] is None):
        line = f"pip install 'isaacsim[all,extscache]=={SIM[release]}' {NVIDIA}"
        if release == "2.3":
            found.append(f"PhysX needs Isaac Sim: {line}")
        else:
            found.append(f"PhysX is missing: {OVPHYSX}, or Isaac Sim: {line}; --physics newton does without")
    elif physics == "newton" and versions["newton"] is None:
        found.append(f"Newton is missing: {INSTALL['3.0']}")
    elif physics == "physx" and versions["ovphysx"] and (missing := [name for name in SHARED if not _loads(name)]):
        packages = " ".join(SHARED[name] for name in missing)
        found.append(
            f"PhysX loads {' and '.join(missing)}, which this system lacks: apt install {packages}, or the like; "
            "--physics newton does without"
        )
    if (release == "2.3" or here.starts_isaac_sim(physics)) and here.python != PYTHON[release]:
        wanted = "{}.{}".format(*PYTHON[release])
        found.append(f"its Isaac Sim is built for Python {wanted}: make an environment with python{wanted}")
    found += _wrong_numpy(release, versions["numpy"])
    if versions["torch"] is None:
        found.append(f"torch is missing: {INSTALL[release]}")
    return found


def _wrong_numpy(release: str, numpy: str | None) -> list[str]:
    wanted = "numpy<2" if release == "2.3" else "numpy>=2"
    if numpy is None or (int(numpy.partition(".")[0]) >= 2) != (release == "3.0"):
        return [f"it needs {wanted}: pip install '{wanted}'"]
    return []


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _labs() -> list[tuple[str, str]]:
    """Version and folder of every Isaac Lab in sight, that which is imported first."""
    installed = {
        str(Path(str(found.locate_file(""))).resolve()): found
        for found in reversed(list(importlib.metadata.distributions(name="isaaclab")))
    }
    labs = [(found.version, folder) for folder, found in reversed(installed.items())]
    imported = _folder("isaaclab")
    if imported is None:
        return labs
    at = [lab for lab in labs if imported == Path(lab[1])]
    if at or any("editable" in (found.read_text("direct_url.json") or "") for found in installed.values()):
        return [*at, *(lab for lab in labs if lab not in at)]
    return [(_tree_version(imported), str(imported)), *labs]


def _folder(module: str) -> Path | None:
    """The folder on the path that ``module`` would be imported from."""
    with contextlib.suppress(ValueError):  # a module made by hand, without a specification
        spec = importlib.util.find_spec(module)
        for place in (spec.submodule_search_locations if spec else None) or ():
            return Path(place).resolve().parent
    return None


def _tree_version(folder: Path) -> str:
    """Version of a source tree, whose packages have it in a file beside them."""
    with contextlib.suppress(OSError):
        text = (folder / "config" / "extension.toml").read_text(encoding="utf-8", errors="replace")
        if found := re.search(r'^version\s*=\s*"([^"]*)"', text, re.MULTILINE):
            return found[1]
    return "of unknown version"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _findable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # a module made by hand, without a specification
        return module in sys.modules
