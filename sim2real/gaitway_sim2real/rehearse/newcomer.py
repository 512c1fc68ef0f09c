"""A second program on a bus in simulated time: it runs while the first sleeps, and the first while it does."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.memory import MemoryBus


class Newcomer(MemoryBus):
    """The bus as a program on another computer sees it, which runs in a thread of its own, in turns.

    Attach :meth:`look` to the bus of the first program. Only one of the two ever runs, so every run is the same.
    """

    def __init__(self, bus: MemoryBus, run: Callable[[Newcomer], object]):
        """``run`` begins when time passes next."""
        super().__init__("newcomer", drives=True, _shared=bus._shared)
        self.error: BaseException | None = None
        """What ended it, if it did not end as it meant to."""
        self.ended = False
        self._wakes, self._leaving = self.time, False
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[Newcomer], object]) -> None:
        self._mine.acquire()
        try:
            if not self._leaving:
                run(self)
        except BaseException as error:
            self.error = error
        self.ended = True
        self._theirs.release()

    def claim(self, topic: Topic) -> None:
        """Claims of another computer are not seen from here."""

    def sleep_until(self, deadline: float) -> None:
        self._wakes = deadline
        self._theirs.release()
        self._mine.acquire()
        if self._leaving:
            raise RuntimeError("the stage is closed")

    def look(self, deadline: float) -> None:
        """Let it go on if its time has come."""
        if not self.ended and self.time >= self._wakes - 1e-9:
            self._mine.release()
            self._theirs.acquire()

    def leave(self) -> None:
        """End it, wherever it is."""
        if not self.ended:
            self._leaving, self._wakes = True, self.time
            self.look(self.time)
        self._thread.join()
