"""Versions of what is installed, for records of how something came about."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def versions(*packages: str) -> dict[str, str]:
    """Python's, and those of ``packages`` as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
