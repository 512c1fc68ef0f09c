"""Provenance of a result: commit, versions, machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from gaitway_files.json_files import parse_json
from gaitway_files.versions import versions as installed

from .. import __version__

PACKAGES = ("torch", "mujoco", "mujoco-warp", "warp-lang", "numpy", "gymnasium", "onnx", "onnxruntime")


def git_state() -> dict[str, Any] | None:
    """Commit of the checkout this package runs from and whether it has changes.

    Outside a checkout it is the commit that pip installed from (``pip install git+URL``); None if there is neither.
    """
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        commit = installed_commit()
        return None if commit is None else {"commit": commit, "dirty": False}

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *args], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def installed_commit() -> str | None:
    """The commit that pip recorded when it installed Gaitway from a repository (PEP 610)."""
    try:
        told = importlib.metadata.distribution("gaitway").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    commit = parse_json((told or "{}").encode(), "direct_url.json").get("vcs_info", {}).get("commit_id")
    return None if commit is None else str(commit)


def versions() -> dict[str, str]:
    return {"gaitway": __version__} | installed(*PACKAGES)


def software() -> dict[str, str]:
    """Versions of what computes a training, Python's and the commit of Gaitway's checkout included."""
    commit = (git_state() or {}).get("commit")
    return {"python": platform.python_version()} | versions() | ({} if commit is None else {"commit": commit[:12]})


def machine() -> dict[str, Any]:
    """Facts of the machine that determine a run's speed. No names of hosts or users."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": processor_name(),
        "cores": available_cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
