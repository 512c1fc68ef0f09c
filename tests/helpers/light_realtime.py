"""Loops in real time without garbage collection and locked memory, which take seconds in a process as large as ours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from gaitway_onboard import realtime


@pytest.fixture
def light_realtime(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("isenabled", "collect", "freeze", "unfreeze", "enable", "disable")
    monkeypatch.setattr(realtime, "gc", SimpleNamespace(**dict.fromkeys(names, int)))
    monkeypatch.setattr(realtime, "_libc", lambda *call: True)
