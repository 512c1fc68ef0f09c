"""A run's part of a fault report, without private names."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
from pathlib import Path

from ..config.overrides import CONFIG_FILE
from .folder import EVALUATIONS, METRICS, RECORD, RunFolder

ROWS = 3
"""Last rows of each file."""


def run_text(run: Path) -> str:
    """Record, settings and last rows of a run. Raises :class:`gaitway.errors.RunError` for a folder that is none."""
    folder = RunFolder.open(run)
    record = {name: value for name, value in folder.record.items() if name != "config"}  # config.yaml says it again
    parts = [f"---- {RECORD}", json.dumps(record, indent=2, ensure_ascii=False)]
    for name in (CONFIG_FILE, METRICS, EVALUATIONS):
        path = folder.path / name
        if path.exists():
            lines = path.read_text(errors="replace").splitlines()
            parts += [f"---- {name}", *(lines if name == CONFIG_FILE else lines[-ROWS:])]
    names = ", ".join(path.name for path in folder.checkpoints())
    return "\n".join([*parts, f"---- checkpoints: {names or 'none'}", ""])


def private(text: str) -> str:
    """``text`` without folders of absolute paths, servers of addresses, and the names of this user and host.

    >>> private("/home/ann/runs/walk/config.yaml of http://ann.example/x")
    '.../config.yaml of http://.../x'
    """
    text = re.sub(r"\b(\w+)://[^\s/'\"<>]+", r"\1://...", text)
    text = re.sub(r"(?<![\w.~/:])(?:~\w*|[A-Za-z]:)?[/\\](?:[^\s/\\'\",:;][^\n/\\'\",:;]*[/\\])+", ".../", text)
    for name in (socket.gethostname(), _user(), os.path.basename(os.path.expanduser("~"))):
        if len(name) > 2 and name != "root":
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "...", text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # of a container without users
        return ""
