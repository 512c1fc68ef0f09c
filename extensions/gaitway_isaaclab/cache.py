"""Cache of files made for Isaac Lab, kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaitway" / "isaaclab"
