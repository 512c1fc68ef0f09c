"""Lookout of processes that train as one: for those that do not fit, that end, and that keep the others waiting.

A thread of each process says every second, in the store of the rendezvous, how far it is. A process that waits longer
than the patience asks those that it waits for where they are, says so, and the training ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_agents.core import distributed
from gaitway_agents.core.together import LostProcess
from gaitway_files.errors import NotDone, UserError

BEAT_S = 1.0
"""Time between two looks."""
GRACE_S = 5.0
"""Time in which a process ends by itself, or answers, once another has failed or asks."""
POLL_S = 0.05
"""Time between two looks for something that is waited for."""
SAME_S = 2.0
"""Time that a message waits for the same one of the first process."""


@dataclass(frozen=True)
class Member:
    """One of the processes."""

    rank: int
    host: str
    pid: int
    versions: dict[str, str]
    order: str
    """What it was told to train."""

    @property
    def name(self) -> str:
        return f"process {self.rank} ({self.host}, pid {self.pid})"

    @property
    def has_ended(self) -> bool:
        """True if it ran on this machine and is gone."""
        return self.host == socket.gethostname() and not Path(f"/proc/{self.pid}").exists()


class Lookout:
    """The thread of this process. ``store`` is a connection of its own, for one that waits for a key is blocked."""

    def __init__(self, store: Any, rank: int, size: int, patience: float):
        self.store, self.rank, self.size, self.patience = store, rank, size, patience
        self.members: list[Member] = []
        self.leaving = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
        self._parent = os.getppid()

    # ---- the start -------------------------------------------------------------------------------------------------

    def join(self, versions: dict[str, str], order: str) -> None:
        """Meet the others; raises where one does not come, or is not like the first."""
        me = (self.rank, socket.gethostname(), os.getpid(), versions, order)
        self.store.set(f"member/{self.rank}", json.dumps(me))
        if self.rank == 0:
            try:
                self._await_all()
                self._check_equal()
            except (NotDone, UserError):
                self.store.set("met", "no")
                raise
            self.store.set("met", "yes")
        elif not self._await(["met"], self.patience + GRACE_S) or self.store.get("met") != b"yes":
            time.sleep(GRACE_S)  # the first says why
            raise NotDone("the processes of this training did not come together")
        self.members = self._met()
        self._thread.start()

    def _await_all(self) -> None:
        if self._await([f"member/{rank}" for rank in range(self.size)], self.patience):
            return
        missing = [str(rank) for rank in range(self.size) if not self.store.check([f"member/{rank}"])]
        here = os.environ.get("MASTER_ADDR", "this machine")
        raise NotDone(
            f"of {self.size} processes {', '.join(missing)} did not come in {self.patience:g} s: start the same "
            f"command on every node, which must reach {here}:{os.environ.get('MASTER_PORT')}; --patience waits longer"
        )

    def _check_equal(self) -> None:
        first, *others = self._met()
        for other in others:
            differ = [
                f"{package} {other.versions.get(package, 'not installed')} and not {version}"
                for package, version in first.versions.items()
                if other.versions.get(package, "not installed") != version
            ]
            if differ:
                raise UserError(
                    f"{other.name} has {', '.join(differ)} as {first.name} has: install the same versions on every node"
                )
            if other.order != first.order:
                raise UserError(
                    f"{other.name} was started with {other.order}, and {first.name} with {first.order}: start the same "
                    "training on every node"
                )

    def _met(self) -> list[Member]:
        return [Member(*json.loads(self.store.get(f"member/{rank}"))) for rank in range(self.size)]

    def _await(self, keys: Sequence[str], seconds: float) -> bool:
        """True if all ``keys`` came within ``seconds``. The store's own wait prints a warning where they do not."""
        until = time.monotonic() + seconds
        while not self.store.check(list(keys)):
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True

    # ---- the end ---------------------------------------------------------------------------------------------------

    def failed(self, error: BaseException) -> None:
        """Tell the others that this process fails, and let the one speak that has the reason."""
        if isinstance(error, LostProcess):
            time.sleep(GRACE_S)  # torchrun ends this process; the other says why
            return
        said = f"{type(error).__name__}: {error}"
        try:
            self.store.set(f"failed/{self.rank}", said)
            same = self.rank > 0 and self._await(["failed/0"], SAME_S) and self.store.get("failed/0").decode() == said
            self.store.set("over", "yes")
        except RuntimeError:
            return
        if same:
            raise SystemExit(2 if isinstance(error, UserError) else 1) from None

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(GRACE_S)

    # ---- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        over_since: float | None = None
        while not self._stopped.wait(BEAT_S):
            if os.getppid() != self._parent:  # torchrun was killed
                os._exit(1)
            try:
                over = self._look()
            except RuntimeError:
                if self.leaving:
                    return
                over = True  # the store went with its process
            if not over:
                over_since = None
                continue
            over_since = over_since or time.monotonic()
            if time.monotonic() - over_since > GRACE_S:
                os._exit(1)

    def _look(self) -> bool:
        """Say how far this process is, and look after the others; True if the training is over."""
        pulse = distributed.pulse
        self.store.set(f"pulse/{self.rank}", json.dumps([pulse.number, pulse.waits, pulse.alone]))
        if self.store.check([f"asked/{self.rank}"]) and not self.store.check([f"answer/{self.rank}"]):
            self.store.set(f"answer/{self.rank}", _place())
        if self.store.check(["over"]):
            return True
        if not self.leaving and any(member.has_ended for member in self.members):
            return True
        if pulse.idle() > self.patience and not pulse.alone:
            self._accuse()
        return False

    def _accuse(self) -> None:
        """End the training with the names of those that the others wait for, unless one of them works alone."""
        keys = [f"pulse/{rank}" for rank in range(self.size)]
        pulses = [json.loads(self.store.get(key)) if self.store.check([key]) else [0, False, False] for key in keys]
        if any(alone for _, _, alone in pulses):
            return
        if self.store.add("accusers", 1) > 1:  # another process has been the first
            return
        last = max(number for number, _, _ in pulses)
        late = [rank for rank, (number, waits, _) in enumerate(pulses) if number < last or not waits]
        asked = late or list(range(self.size))
        for rank in asked:
            self.store.set(f"asked/{rank}", "yes")
        if self.rank in asked:
            self.store.set(f"answer/{self.rank}", _place())
        lines = []
        until = time.monotonic() + GRACE_S
        for rank in asked:
            came = self._await([f"answer/{rank}"], max(0.1, until - time.monotonic()))
            where = self.store.get(f"answer/{rank}").decode() if came else "it does not answer"
            lines.append(f"  {self.members[rank].name}: {where}")
        what = "keeps the others waiting" if late else "waits, and no message arrives"
        print(
            "\n".join([f"gaitway: no step of the training in {self.patience:g} s; this {what}:", *lines]),
            "\n  continue with --resume, and raise --patience if it was only slow",
            file=sys.stderr,
            flush=True,
        )
        self.store.set("over", "yes")
        os._exit(1)


def _place() -> str:
    """What the main thread does: its innermost calls, in this program's files by preference."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    calls = traceback.extract_stack(frame)
    return " < ".join(f"{call.name} ({Path(call.filename).name}:{call.lineno})" for call in reversed(calls[-4:]))
