"""Library of pulled bundles: its folder, and a search in it."""

from __future__ import annotations

import os
from pathlib import Path

from gaitway_files.errors import UserError


def library() -> Path:
    """``$GAITWAY_HOME/bundles``, else ``gaitway/bundles`` in ``$XDG_DATA_HOME`` or ``~/.local/share``."""
    if home := os.environ.get("GAITWAY_HOME"):
        return Path(home).absolute() / "bundles"
    data = os.environ.get("XDG_DATA_HOME", "")  # which must be absolute, says its specification
    return Path(data if os.path.isabs(data) else Path.home() / ".local/share") / "gaitway" / "bundles"


def pulled() -> dict[str, Path]:
    """Folders of the library by the name ``OWNER/NAME``."""
    from gaitway_onboard.bundle.contract import is_bundle

    groups = sorted(path for path in _folders(library()) if not path.name.startswith("."))
    return {
        f"{group.name}/{path.name}": path
        for group in groups
        for path in sorted(_folders(group))
        if not path.name.startswith(".") and is_bundle(path)
    }


def find(name: str) -> Path | None:
    """The pulled bundle ``OWNER/NAME``, or ``NAME`` if one owner has it; None if there is none."""
    known = pulled()
    chosen = [full for full in known if name in (full, full.partition("/")[2])]
    if len(chosen) > 1:
        raise UserError(f"several pulled bundles are called {name!r}: choose {' or '.join(chosen)}")
    return known[chosen[0]] if chosen else None


def _folders(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []
