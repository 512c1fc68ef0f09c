"""What of Isaac Lab is installed and whether it can run, found out without importing any of it.

Starting a simulator takes a minute and fails late; this takes milliseconds. Versions come from package metadata and,
for a source tree on the path, from its ``config/extension.toml``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

RELEASES = {(0, 54): "2.3", (6, 1): "3.0"}
"""Isaac Lab's packages number themselves: these are the first two numbers of ``isaaclab.__version__``."""
WHEELS = {(2, 3): "2.3", (3, 0): "3.0"}
"""Wheels from a package index carry the release's number instead."""
PACKAGES = ("isaaclab", "isaacsim", "newton", "numpy", "torch", "gymnasium", "rsl-rl-lib")
PHYSICS = ("physx", "newton")
NVIDIA = "--extra-index-url https://pypi.nvidia.com"
INSTALL = {
    "2.3": f"pip install 'isaaclab[isaacsim,all]==2.3.2.post1' {NVIDIA}    (Python 3.11)",
    "3.0": f"pip install --pre 'isaaclab[isaacsim,all]==3.0.*' {NVIDIA}    (Python 3.12)",
    "kit-less": "git clone --branch v3.0.0 https://github.com/isaac-sim/IsaacLab && cd IsaacLab && "
    "./isaaclab.sh --install    (Python 3.12; Newton needs no Isaac Sim)",
}
SIM = {"2.3": "5.1.0.*", "3.0": "6.0.1.*"}
PYTHON = {"2.3": (3, 11), "3.0": (3, 12)}
"""The Python that the release's Isaac Sim is built for."""


class IsaacLabError(ValueError):
    """Isaac Lab is of a version, or in a state, that Gaitway's tasks cannot run on; the message names the fix."""


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Versions by package, None where it is missing, of what Python finds here."""

    versions: dict[str, str | None]
    python: tuple[int, int]

    @property
    def release(self) -> str | None:
        """``"2.3"`` or ``"3.0"``; None without Isaac Lab. Raises :class:`IsaacLabError` for another one."""
        version = self.versions["isaaclab"]
        return None if version is None else release_of(version)

    @property
    def physics(self) -> str:
        """The engine to take where none is asked for: PhysX where there is Isaac Sim, which 2.3 cannot do without."""
        return "newton" if self.release == "3.0" and self.versions["isaacsim"] is None else "physx"

    def __str__(self) -> str:
        found = [f"{name} {version or 'missing'}" for name, version in self.versions.items()]
        return f"found: {', '.join(found)}, Python {self.python[0]}.{self.python[1]}"


def release_of(version: str) -> str:
    """The Isaac Lab release, ``"2.3"`` or ``"3.0"``, that has this ``isaaclab.__version__`` or wheel version."""
    numbers = version.split(".")[:2]
    key = tuple(int(n) for n in numbers) if all(n.isdigit() for n in numbers) else ()
    release = (RELEASES | WHEELS).get(key)  # type: ignore[arg-type]
    if release is None:
        known = ", ".join(f"{major}.{minor}.x (Isaac Lab {name})" for (major, minor), name in RELEASES.items())
        raise IsaacLabError(f"isaaclab {version} is unknown to Gaitway, which knows {known}: install one of these")
    return release


def find() -> Installation:
    """What is installed."""
    versions = {name: _version(name) for name in PACKAGES}
    versions["isaaclab"] = versions["isaaclab"] or _version_of_tree("isaaclab")
    if versions["isaacsim"] is None:
        # Isaac Sim unpacked from an archive is no package: its launcher puts it on the path.
        versions["isaacsim"] = _version("isaacsim-kernel") or ("unpacked" if _findable("isaacsim") else None)
    return Installation(versions=versions, python=(sys.version_info.major, sys.version_info.minor))


def check(physics: str | None = None, installation: Installation | None = None) -> str:
    """The physics engine that will run: ``physics``, ``"physx"`` or ``"newton"``, or the installation's own choice.

    Raises :class:`IsaacLabError` if it cannot run here: all that is wrong, what was found and how to mend it.
    """
    here = installation or find()
    if physics is not None and physics not in PHYSICS:
        raise IsaacLabError(f"physics {physics!r}: use one of {', '.join(PHYSICS)}")
    if here.versions["isaaclab"] is None:
        lines = "\n".join(f"  {name}: {line}" for name, line in INSTALL.items())
        raise IsaacLabError(f"Isaac Lab is not installed here; {here}. One of these installs it:\n{lines}")
    release = here.release
    assert release is not None
    chosen = physics or here.physics
    if problems := list(_problems(here, release, chosen)):
        raise IsaacLabError(f"Isaac Lab {release} cannot run here: {'; '.join(problems)}. {here}")
    return chosen


def _problems(here: Installation, release: str, physics: str) -> list[str]:
    versions, found = here.versions, []
    if release == "2.3" and physics == "newton":
        found.append(f"it has PhysX only, Newton came with 3.0: leave out --physics, or install 3.0: {INSTALL['3.0']}")
    elif physics == "physx" and versions["isaacsim"] is None:
        line = f"pip install 'isaacsim[all,extscache]=={SIM[release]}' {NVIDIA}"
        instead = ", or use --physics newton, which does without" if release == "3.0" else ""
        found.append(f"PhysX needs Isaac Sim: {line}{instead}")
    elif physics == "newton" and versions["newton"] is None:
        found.append("Newton is missing: ./isaaclab.sh --install in Isaac Lab's source tree")
    if physics == "physx" and here.python != PYTHON[release]:
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


def _version_of_tree(module: str) -> str | None:
    """The version of an Isaac Lab source tree that is on the path without being installed."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:
        return None
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parents[1] / "config" / "extension.toml"
    return str(tomllib.loads(file.read_text("utf-8"))["package"]["version"]) if file.is_file() else "unknown"
