"""One HTML page about a rehearsal: what the robot was put through, what came of it, what was not tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..pages.model import NUMBER, Badge, Cell, Head, Report, Section, Table, bold, heading, mark, note, repeat
from . import plots
from .trace import Trace
from .verdict import FAULTS, GROUPS, NOMINAL, WIRE, Rehearsal, Trial, TrialCheck, quantity

MODES = ("ramp", "hold", "policy", "lower")

NOT_SHOWN = (
    "A real robot: firmware, cables and radio may do what the twin does not know of.",
    "Ground other than this, and hands, cables or stands that touch the robot.",
    "Whether the policy is any good beyond its command script: that is what the validation suite measures.",
)
ABOUT = {
    FAULTS: "Each fault was put on the wire in each mode. A cell passes when the reason is named, damping is sent "
    "within two policy periods of the detection and nothing but damping after it, and no frame asked for more "
    "than the torque limit; that of a second deployment when it is refused and the first goes on.",
    WIRE: "The twin and the deployment as processes of their own, in real time, over DDS on the loopback interface. A "
    "third process heard every frame. Times depend on what else this machine was doing.",
}


def report(rehearsal: Rehearsal, trace: Trace | None, command: str) -> Report:
    """The whole page; ``trace`` is of the nominal trial, ``command`` repeats the rehearsal."""
    hashes = {"policy.onnx": rehearsal.policy_sha256, "contract.yaml": rehearsal.contract_sha256}
    text = "Same bundle, settings, seed and software give the same numbers, but for processes on the wire."
    tables = {FAULTS: _matrix, WIRE: _trials}
    return Report(
        f"{rehearsal.robot}: rehearsal {rehearsal.word}",
        _head(rehearsal),
        _nominal(rehearsal.of(NOMINAL), trace),
        *(
            Section(GROUPS[group], ABOUT[group], table(trials))
            for group, table in tables.items()
            if (trials := rehearsal.of(group))
        ),
        Section("What this does not show", (*rehearsal.notes, *NOT_SHOWN)),
        repeat(command, text, hashes, rehearsal.software),
    )


def _head(rehearsal: Rehearsal) -> Head:
    counts = "; ".join(
        f"{title.lower()} {rehearsal.counts(group)}" for group, title in GROUPS.items() if rehearsal.of(group)
    )
    lines = [f"{line} ({trial.outcome})" for trial in rehearsal.trials for line in trial.failures()]
    settings = ", ".join(f"{key} {value}" for key, value in rehearsal.settings.items())
    return Head(
        f"Rehearsal against a digital twin: {settings}",
        rehearsal.robot,
        rehearsal.task,
        Badge(rehearsal.word, f"{bold(rehearsal.counts())} trials passed: {counts}."),
        lines,
        css=rehearsal.word.lower(),
    )


def _nominal(trials: Sequence[Trial], trace: Trace | None) -> Section | None:
    if not trials:
        return None
    parts: list[Any] = []
    for trial in trials:
        parts += [f"{trial.about} It ended with: {trial.outcome}.", _checks(trial)]
    if trace is not None and len(trace.time):
        text = (
            "Extremes of each second. Torque is the largest of all joints, as a share of its limit, that a frame asked "
            "for at the state it answered."
        )
        parts += [heading("Commanded and measured velocity"), plots.velocity(trace)]
        parts += [heading("Height, tilt and torque over the whole time"), plots.whole(trace), note(text)]
    return Section(GROUPS[NOMINAL], *parts)


def _checks(trial: Trial) -> Table:
    rows: list[list[str | Cell]] = [
        [mark(check.passed), check.title, mark(check.passed, text=check.measured), _allowed(check)]
        for check in trial.checks
    ]
    rows += [["", title, quantity(value, ""), ""] for title, value in trial.facts.items()]
    return Table(["", "", "measured", "allowed"], rows, ["mark", "", NUMBER, NUMBER])


def _allowed(check: TrialCheck) -> str:
    return f"{'≥' if check.at_least else '≤'} {quantity(check.limit, check.unit)}"


def _matrix(trials: Sequence[Trial]) -> Table:
    rows = []
    for name in dict.fromkeys(trial.name for trial in trials):
        chosen = {trial.mode: trial for trial in trials if trial.name == name}
        about = next(iter(chosen.values())).about
        rows.append([f"{bold(name)}\n{about}", *(_cell(chosen.get(mode)) for mode in MODES)])
    return Table(["Fault", *(f"in {mode.upper()}" for mode in MODES)], rows, [""] * (1 + len(MODES)), "matrix")


def _cell(trial: Trial | None) -> Cell:
    if trial is None:
        return Cell("cannot happen here", "muted")
    found = ", ".join(f"{title} {quantity(value, '')}" for title, value in trial.facts.items())
    failed = [bold(check.sentence()) for check in trial.checks if not check.passed]
    return Cell("\n".join([trial.outcome, found, *failed]), "cell-good" if trial.passed else "cell-bad")


def _trials(trials: Sequence[Trial]) -> Table:
    rows = []
    for trial in trials:
        found = [f"{check.title}: {check.measured}" for check in trial.checks]
        found = [text if check.passed else bold(text) for text, check in zip(found, trial.checks, strict=True)]
        found += [f"{key}: {quantity(value, '')}" for key, value in trial.facts.items()]
        about = f"{bold(trial.title)}\n{trial.about}"
        rows.append([mark(trial.passed), about, trial.outcome, "\n".join(["", *found])])
    return Table(["", "Trial", "How it ended", "Measured"], rows, ["mark", "", "", ""], "ruled")
