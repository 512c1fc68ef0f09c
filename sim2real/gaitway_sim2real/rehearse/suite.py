"""A whole rehearsal: nominal, faults, and processes on a wire; verdict and page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gaitway_files.children import worker_pool
from gaitway_files.errors import UserError
from gaitway_files.hardware import Hardware
from gaitway_files.writing import write_text
from gaitway_onboard.bundle.contract import CONTRACT_FILE, Contract, sha256
from gaitway_onboard.bundle.verdict import REHEARSAL_FILE
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.safety.preflight import check_bundle
from gaitway_tasks.ground import LEVEL, Ground

from ..digital_twin.quirks import SENSORS, Quirks
from ..pages.verdict import software, write_verdict
from .faults import TROUBLES, Trouble, possible, rehearse_fault
from .nominal import rehearse_nominal
from .processes import ENDINGS
from .report import report
from .stage import hangs
from .trace import Trace
from .verdict import FAULTS, NOMINAL, Rehearsal, Trial

SCANNED = (
    "The heights that the policy reads were the simulation's, {delay:g} s late and with {noise:g} m of noise; the "
    "robot needs depth cameras and a map of its own, which were not tried."
)
QUICK_TROUBLES = ("silence", "replay", "imu-nan", "fall", "joint-speed", "second-deploy", "stop")

Progress = Callable[[int, int, Trial], None]
"""Called with trials done, trials in all, and the newest."""
Wire = Callable[[], Iterator[Trial]]
"""Trials with processes of their own; called when everything else is done."""


class RehearsalError(UserError):
    """A rehearsal that cannot start or go on, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    minutes: float = 10.0
    """Length of the nominal walk; typically 10 to 30 before a first deployment."""
    loss: float = 0.01
    """Share of the messages that get lost, each way, of 1; typically 0.001 to 0.05."""
    jitter: float = 0.005
    """Largest delay of a message, each way [s]; typically 0.001 to 0.01."""
    seed: int = 0
    quick: bool = False
    """True runs one minute and some of the faults: for a first look, not for a robot."""
    ground: Ground = LEVEL
    """Ground on which the robot starts and walks."""
    jobs: int = 0
    """Processes at the same time; 0 is one per core. Results do not depend on it."""

    def __post_init__(self) -> None:
        if not 0.1 <= self.minutes < float("inf"):
            raise RehearsalError(f"minutes = {self.minutes}: a rehearsal needs at least 0.1")
        if not 0.0 <= self.loss < 1.0:
            raise RehearsalError(f"loss = {self.loss}: a share of at least 0 and below 1")
        if not 0.0 <= self.jitter < 1.0:
            raise RehearsalError(f"jitter = {self.jitter}: seconds, at least 0 and below 1")
        if self.jobs < 0:
            raise RehearsalError(f"jobs = {self.jobs}: a number of processes, or 0 for one per core")

    @property
    def quirks(self) -> Quirks:
        return replace(SENSORS, loss=self.loss, jitter=self.jitter, command_loss=self.loss, command_jitter=self.jitter)

    @property
    def seconds(self) -> float:
        return 60.0 * min(self.minutes, 1.0 if self.quick else self.minutes)

    @property
    def troubles(self) -> Sequence[Trouble]:
        return [trouble for trouble in TROUBLES if not self.quick or trouble.name in QUICK_TROUBLES]

    def words(self) -> Mapping[str, Any]:
        return {
            "minutes": self.seconds / 60.0,
            "loss": self.loss,
            "jitter [s]": self.jitter,
            "seed": self.seed,
            "extent": "quick" if self.quick else "full",
        } | ({} if self.ground == LEVEL else {"ground": self.ground.title})


def rehearse_bundle(
    bundle: Path,
    hardware: Hardware,
    settings: Settings,
    *,
    model: Path | None = None,
    wire: Wire | None = None,
    progress: Progress | None = None,
    groups: Sequence[str] = (NOMINAL, FAULTS),
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Rehearsal, Trace]:
    """Everything there is in ``groups``, in simulated time; then ``wire``, if it is given. ``say`` tells of waits.

    Raises a ``ValueError`` before anything starts if the bundle does not fit the robot. A missing or failed validation
    is only noted: the robot here is not a real one.
    """
    bundle = Path(bundle)
    contract = Contract.load(bundle)
    contract.check_velocity("rehearsals give")
    scans = () if contract.height_scan is None else ("height_scan",)
    if scans and wire is not None:
        raise RehearsalError(
            f"{bundle} reads height_scan, which is not on the wire of {hardware.name}, so that processes on a wire "
            "cannot be tried: rehearse with --no-dds, where a simulated depth map gives it"
        )
    notes = check_bundle(bundle, hardware, provided=(*(contract.estimators or {}), *scans), i_know=True)
    if scans:
        notes += (SCANNED.format(delay=settings.quirks.scan_delay, noise=settings.quirks.scan_noise),)
    if hangs(hardware):
        notes += ("In the trials of faults the robot hung on its stand: its fall was not tried.",)
    calls = [call for group in groups for call in _calls(group, settings, hardware, contract)]
    done: dict[int, Trial] = {}
    trace = Trace()
    say(
        f"waiting for {len(calls)} trials in simulated time; the nominal walk takes {settings.seconds / 60:g} min of it"
    )
    given = {"quirks": settings.quirks, "seed": settings.seed, "model": model, "ground": settings.ground}
    for number, found in _run(settings.jobs, [(call, (bundle, hardware), {**keys, **given}) for call, keys in calls]):
        done[number], trace = found if isinstance(found, tuple) else (found, trace)
        if progress is not None:
            progress(len(done), len(calls), done[number])
    trials = [done[number] for number in range(len(calls))]
    if wire is None:
        notes += ("Processes on a real wire were left out.",)
    else:
        say(f"waiting for {len(ENDINGS)} trials of a twin and a deployment as processes, up to a minute each")
        for trial in wire():
            trials.append(trial)
            if progress is not None:
                progress(len(trials), len(trials), trial)
    rehearsal = Rehearsal(
        robot=hardware.name,
        task=contract.task,
        policy_sha256=contract.files["policy.onnx"],
        contract_sha256=sha256((bundle / CONTRACT_FILE).read_bytes()),
        settings=settings.words(),
        trials=tuple(trials),
        software=software(contract),
        notes=notes,
    )
    return rehearsal, trace


def _calls(
    group: str, settings: Settings, hardware: Hardware, contract: Contract
) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Functions that make the trials of a group, with what is their own of the arguments."""
    if group == NOMINAL:
        return [(rehearse_nominal, {"seconds": settings.seconds})]
    return [
        (_fault, {"trouble": trouble.name, "mode": mode})
        for trouble in settings.troubles
        for mode in trouble.modes
        if possible(trouble, hardware, contract, mode)
    ]


def _fault(bundle: Path, hardware: Hardware, *, trouble: str, mode: Mode, **rest: Any) -> Trial:
    """Rehearse a fault by its name, since functions do not travel between processes."""
    return rehearse_fault(bundle, hardware, next(each for each in TROUBLES if each.name == trouble), mode, **rest)


def _run(
    jobs: int, calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
) -> Iterator[tuple[int, Any]]:
    """Numbers of ``calls`` and their results, as they are done."""
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(calls))
    if jobs == 1:
        for number, (call, args, keys) in enumerate(calls):
            yield number, call(*args, **keys)
        return
    with worker_pool(jobs) as pool:
        futures = {pool.submit(call, *args, **keys): number for number, (call, args, keys) in enumerate(calls)}
        for future in as_completed(futures):
            try:
                found = future.result()
            except BrokenProcessPool:
                raise RehearsalError(
                    f"one of the {jobs} processes of the rehearsal was killed, as a rule for want of memory: use "
                    "fewer, with --jobs"
                ) from None
            yield futures[future], found


def save(rehearsal: Rehearsal, path: Path) -> Path:
    """Write JSON with the seal of the verdict, atomically."""
    return write_verdict(path, rehearsal.to_dict())


def write_report(rehearsal: Rehearsal, trace: Trace, folder: Path, command: str) -> Path:
    """``rehearsal.json`` and ``rehearsal.html`` in ``folder``; ``command`` is what repeats it. Returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    save(rehearsal, folder / REHEARSAL_FILE)
    return write_text(folder / "rehearsal.html", report(rehearsal, trace, command).html())
