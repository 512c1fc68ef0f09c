"""Texts without the names of people and hosts."""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys


def typed() -> list[str]:
    """The words of this command after the program's name, made :func:`private`."""
    return [private(word) for word in sys.argv[1:]]


def private(text: str) -> str:
    """``text`` without folders of absolute paths, servers of addresses, and the names of this user and host.

    >>> private("/home/ann/runs/walk/config.yaml of http://ann.example/x")
    '.../config.yaml of http://.../x'
    >>> private("task.robot=file:/home/ann/robots.py:DOG")
    'task.robot=file:.../robots.py:DOG'
    """
    text = re.sub(r"\b(\w+)://[^\s/'\"<>]+", r"\1://...", text)
    text = re.sub(r"(?<![\w.~/])(?:~\w*|[A-Za-z]:)?[/\\](?:[^\s/\\'\",:;][^\n/\\'\",:;]*[/\\])+", ".../", text)
    for name in (socket.gethostname(), _user(), os.path.basename(os.path.expanduser("~"))):
        if len(name) > 2 and name != "root":
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "...", text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # of a container without users
        return ""
