"""The twin and the deployment as processes of their own, on a real wire, and what is left of them when one dies."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_files.children import ending_with_us
from gaitway_files.hardware import Hardware
from gaitway_onboard.wire.bus import Bus

from .audit import Audit, Frame
from .verdict import WIRE, Trial, TrialCheck

DAMPING = 0.5
"""Damping must be heard for this long after everything [s]."""
REACTION = 0.5
"""And must have begun by then [s]: a guardian on a busy machine has to be scheduled first."""
START = 40.0
"""Longest time until both processes are there and the policy runs [s]."""
SECONDS = 3.0
"""Length of the policy's part, where nothing ends it before [s]."""
LISTEN = 0.01
TELLING = re.compile(r"ENDED|TRIPPED|guardian:|policy: \d|loop:")
"""Beginnings of the lines of a deployment that report its outcome."""
PATIENT = ("max_state_age=0.3", "max_stall=0.5", "max_overruns=2000", "max_policy_overruns=50", "max_silence=0.25")
"""Limits of time that a busy desktop keeps too: what is tried here is endings, and a late loop is not the bundle's."""


@dataclass(frozen=True)
class Ending:
    """Way to end a deployment once its policy runs."""

    name: str
    about: str
    signal: int | None
    """None lets it come to its end."""
    exit_codes: tuple[int, ...]
    """Right exit codes; a process that was killed has the signal's, negative."""
    newcomer: bool = False
    """True if a second deployment is tried before the signal; it must exit with 2, and the first not notice."""


ASKED = (0, 143)
ENDINGS = (
    Ending("end of the script", "Nothing happens; the robot is lowered when the time is up.", None, (0,)),
    Ending(
        "second deployment", "A second deployment is refused while the first goes on, until SIGTERM.",
        signal.SIGTERM, ASKED, newcomer=True,
    ),
    Ending("SIGTERM", "The deployment is asked to end, as at a shutdown.", signal.SIGTERM, ASKED),
    Ending("SIGKILL", "kill -9: only the guardian is left to damp the robot.", signal.SIGKILL, (-signal.SIGKILL,)),
    Ending(
        "SIGSTOP", "The deployment is frozen, then continued: the guardian damps, and the robot is not taken back.",
        signal.SIGSTOP, (1,),
    ),
)  # fmt: skip


def free_domain() -> int:
    """A DDS domain that other rehearsals on this computer are unlikely to be on."""
    return 2 + os.getpid() % 98  # ports of domains beyond 100 may be taken for outgoing connections


def rehearse_processes(
    bundle: Path,
    hardware: Hardware,
    bus: Bus,
    launcher: Sequence[str],
    *,
    domain: int,
    seed: int = 0,
    terrain: str | None = None,
    endings: Sequence[Ending] = ENDINGS,
) -> Iterator[Trial]:
    """One trial for each ending, as it is done. ``bus`` is this process's ear on the loopback interface and ``domain``.

    ``launcher`` starts the command line, such as (python, "-m", "gaitway"); ``terrain`` is the twin's. No process is
    left behind.
    """
    audit = Audit(bus, hardware)
    for ending in endings:
        with tempfile.TemporaryDirectory() as folder:
            wire = ("--interface", "lo", "--domain", str(domain))
            ground = () if terrain is None else ("--terrain", terrain)
            twin = [*launcher, "twin", hardware.name, *wire, "--seed", str(seed), *ground]
            deploy = [*launcher, "deploy", str(bundle), "--robot", hardware.name, *wire, "--auto", "--yes", "--i-know"]
            length = SECONDS if ending.signal is None else 10.0 * START
            deploy += ["--seconds", str(length), *(word for limit in PATIENT for word in ("--limit", limit))]
            play = _Play(audit, bus, Path(folder))
            with play.process("twin", twin), play.process("deploy", deploy):
                yield play.perform(ending, play.process("second", deploy) if ending.newcomer else None)


class _Play:
    """One trial on the stage."""

    def __init__(self, audit: Audit, bus: Bus, folder: Path):
        self.audit, self.bus, self.folder = audit, bus, folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        audit.collect()
        audit.clear()

    @contextlib.contextmanager
    def process(self, name: str, command: Sequence[str]) -> Iterator[None]:
        with open(self.folder / f"{name}.txt", "wb") as output:
            process = subprocess.Popen(
                ending_with_us(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running[name] = process
            try:
                yield
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(5.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def perform(self, ending: Ending, newcomer: contextlib.AbstractContextManager[None] | None = None) -> Trial:
        """``newcomer`` starts the second deployment."""
        deploy = self.running["deploy"]
        if not self._listen(START, self._walks):
            return self._trial(ending, "the policy never came to drive the robot: " + self._last_words(), (), {})
        self._listen(1.0)
        refused = () if newcomer is None else self._try(newcomer)
        done = self.bus.clock()
        if ending.signal is None:
            self._listen(START, lambda: deploy.poll() is not None)
        else:
            os.kill(deploy.pid, ending.signal)
            self._listen(REACTION + DAMPING + 1.0)
            if ending.signal == signal.SIGSTOP:
                os.kill(deploy.pid, signal.SIGCONT)
            self._listen(10.0, lambda: deploy.poll() is not None)
        self._listen(0.3)
        return self._judge(ending, done, deploy.poll(), refused)

    def _try(self, newcomer: contextlib.AbstractContextManager[None]) -> tuple[TrialCheck, ...]:
        """Let a second deployment come, and be turned away."""
        with newcomer:
            second = self.running["second"]
            self._listen(START, lambda: second.poll() is not None)
            code = second.poll()
        begun = self.bus.clock()
        self._listen(1.0)
        went_on = sum(frame.stiff for frame in self.audit.frames if frame.time >= begun)
        return (
            TrialCheck.holds("second refused with exit code 2", code == 2),
            TrialCheck("writers of commands", len(self.audit.commanders), 1),
            TrialCheck("frames of the first in the next second", went_on, 100, at_least=True),
        )

    def _walks(self) -> bool:
        """True once frames with stiffness have come for three seconds, or the deployment has ended."""
        stiff = [frame.time for frame in self.audit.frames if frame.stiff]
        return (bool(stiff) and stiff[-1] - stiff[0] > 3.0) or self.running["deploy"].poll() is not None

    def _listen(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Hear the wire for a while; True as soon as ``until`` is."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(LISTEN)
            self.audit.collect()
            if until():
                return True
        return False

    def _judge(self, ending: Ending, done: float, code: int | None, more: tuple[TrialCheck, ...]) -> Trial:
        frames = self.audit.frames
        stiff = [frame.time for frame in frames if frame.stiff]
        last = stiff[-1] if stiff else done
        damping = [frame.time for frame in frames if frame.time > last]
        lasted = damping[-1] - damping[0] if damping else 0.0
        checks = [
            TrialCheck("frames with a wrong checksum or form", sum(bool(frame.faults) for frame in frames), 0),
            TrialCheck("damping heard at the end", lasted, DAMPING, "s", at_least=True),
            TrialCheck("longest silence within the damping", _longest_gap(damping), 0.1, "s"),
            TrialCheck.holds("right exit code", code in ending.exit_codes),
        ]
        if ending.signal is not None:
            begun = (damping[0] if damping else np.inf) - done
            checks.append(TrialCheck("damping after the signal", begun, REACTION, "s"))
        return self._trial(ending, self._last_words(), (*more, *checks), _timing(frames, last))

    def _trial(self, ending: Ending, outcome: str, checks: tuple[TrialCheck, ...], facts: dict[str, float]) -> Trial:
        checks = checks or (TrialCheck.holds("policy in control", False),)
        return Trial(group=WIRE, name=ending.name, about=ending.about, outcome=outcome, checks=checks, facts=facts)

    def _last_words(self) -> str:
        """Last lines of the deployment and its guardian: its end and its timing; or the reason why it did not begin."""
        lines = (self.folder / "deploy.txt").read_text("utf-8", "replace").replace("\r", "\n").strip().splitlines()
        telling = [line.strip() for line in lines if TELLING.match(line.strip())]
        return "; ".join(telling) or (lines[-1].strip() if lines else "it said nothing")


def _longest_gap(times: Sequence[float]) -> float:
    """Longest time between two frames of the first :data:`DAMPING` seconds [s]."""
    first = [time for time in times if time - times[0] <= DAMPING]
    return float(np.diff(first).max()) if len(first) > 1 else np.nan


def _timing(frames: Sequence[Frame], last: float) -> dict[str, float]:
    times = np.array([frame.time for frame in frames if last - 3.0 <= frame.time <= last])
    if len(times) < 2:
        return {}
    p50, p99 = np.percentile(1e3 * np.diff(times), [50, 99]).tolist()
    return {"frames heard": float(len(frames)), "time between two frames, median [ms]": p50, "p99 [ms]": p99}
