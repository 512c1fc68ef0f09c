"""One HTML page about a rehearsal: what the robot was put through, what came of it, what was not tried."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..pages.document import document
from ..pages.parts import figure, head, items, legend, mark, repeat, section, table
from . import plots
from .trace import Trace
from .verdict import FAULTS, GROUPS, NOMINAL, POLICIES, WIRE, Rehearsal, Trial, TrialCheck, quantity

MODES = ("ramp", "hold", "policy", "lower")

NOT_SHOWN = (
    "A real robot: firmware, cables and radio may do what the twin does not know of.",
    "Ground other than flat, and hands, cables or stands that touch the robot.",
    "Whether the policy is any good beyond its command script: that is what the validation suite measures.",
)


def render_page(rehearsal: Rehearsal, trace: Trace | None, command: str) -> str:
    """The whole page; ``trace`` is of the nominal trial, ``command`` repeats the rehearsal."""
    sections = [
        _head(rehearsal),
        _nominal(rehearsal.of(NOMINAL), trace),
        _matrix(rehearsal.of(FAULTS)),
        _policies(rehearsal.of(POLICIES)),
        _wire(rehearsal.of(WIRE)),
        _scope(rehearsal),
        _provenance(rehearsal, command),
    ]
    return document(f"{rehearsal.robot}: rehearsal {rehearsal.word}", sections)


def _head(rehearsal: Rehearsal) -> str:
    counts = "; ".join(
        f"{title.lower()} {sum(trial.passed for trial in trials)} of {len(trials)}"
        for group, title in GROUPS.items()
        if (trials := rehearsal.of(group))
    )
    lines = [
        f"{escape(line)} <small>({escape(trial.outcome)})</small>"
        for trial in rehearsal.trials
        for line in trial.failures()
    ]
    settings = ", ".join(f"{key} {value}" for key, value in rehearsal.settings.items())
    passed, total = sum(trial.passed for trial in rehearsal.trials), len(rehearsal.trials)
    kicker, text = (
        f"Rehearsal against a digital twin: {settings}",
        f"<b>{passed} of {total}</b> trials passed: {counts}.",
    )
    word = rehearsal.word
    return head(word.lower(), kicker, rehearsal.robot, rehearsal.task, word=word, text=text, failures=lines)


def _nominal(trials: Sequence[Trial], trace: Trace | None) -> str:
    if not trials:
        return ""
    parts = [f"<h2>{escape(GROUPS[NOMINAL])}</h2>"]
    for trial in trials:
        parts.append(f"<p>{escape(trial.about)} It ended with: {escape(trial.outcome)}.</p>{_checks(trial)}")
    if trace is not None and len(trace.time):
        parts.append(
            "<h3>Commanded and measured velocity</h3>"
            + legend(("command", "commanded"), ("measured", "measured by the twin, base frame"))
            + figure(plots.velocity(trace))
            + f"<h3>Height, tilt and torque over the whole time</h3><figure>{plots.whole(trace)}</figure>"
            '<p class="caption">Extremes of each second. Torque is the largest of all joints, as a share of its limit, '
            "that a frame asked for at the state it answered.</p>"
        )
    return f"<section>{''.join(parts)}</section>"


def _checks(trial: Trial) -> str:
    rows = [_check_row(check) for check in trial.checks]
    rows += [["", escape(title), escape(quantity(value, "")), ""] for title, value in trial.facts.items()]
    return table(["", "", "measured", "allowed"], rows, kinds=["mark", "", "num", "num"])


def _check_row(check: TrialCheck) -> list[str]:
    css, sign = mark(check.passed)
    measured = escape(check.measured)
    return [
        f'<span class="{css}">{sign}</span>',
        escape(check.title),
        measured if check.passed else f'<span class="{css}">{measured}</span>',
        f"{'≥' if check.at_least else '≤'} {escape(quantity(check.limit, check.unit))}",
    ]


def _matrix(trials: Sequence[Trial]) -> str:
    if not trials:
        return ""
    rows = []
    for name in dict.fromkeys(trial.name for trial in trials):
        chosen = {trial.mode: trial for trial in trials if trial.name == name}
        about = next(iter(chosen.values())).about
        cells = [_cell(chosen.get(mode)) for mode in MODES]
        rows.append([f"<b>{escape(name)}</b><small>{escape(about)}</small>", *cells])
    return section(
        GROUPS[FAULTS],
        "<p>Each fault was put on the wire in each mode. A cell passes when the reason is named, damping is sent "
        "within two policy periods of the detection and nothing but damping after it, and no frame asked for more "
        "than the torque limit; that of a second deployment when it is refused and the first goes on.</p>",
        table(["Fault", *(f"in {mode.upper()}" for mode in MODES)], rows, css="matrix", kinds=[""] * (1 + len(MODES))),
    )


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return '<span class="muted">cannot happen here</span>'
    found = ", ".join(f"{title} {quantity(value, '')}" for title, value in trial.facts.items())
    failed = "".join(f"<small><b>{escape(check.sentence())}</b></small>" for check in trial.checks if not check.passed)
    css = "cell-good" if trial.passed else "cell-bad"
    return f'<span class="{css}">{escape(trial.outcome)}</span><small>{escape(found)}</small>{failed}'


def _policies(trials: Sequence[Trial]) -> str:
    return _trials(
        GROUPS[POLICIES],
        "The policy's output was replaced behind its own checks, so that only the controller stood between it and the "
        "motors. Every frame on the wire was compared with the state that it answered.",
        trials,
    )


def _wire(trials: Sequence[Trial]) -> str:
    return _trials(
        GROUPS[WIRE],
        "The twin and the deployment as processes of their own, in real time, over DDS on the loopback interface. A "
        "third process heard every frame. Times depend on what else this machine was doing.",
        trials,
    )


def _trials(title: str, about: str, trials: Sequence[Trial]) -> str:
    if not trials:
        return ""
    rows = []
    for trial in trials:
        css, sign = mark(trial.passed)
        checks = "".join(
            f"<small>{'<b>' if not check.passed else ''}{escape(check.title)}: {escape(check.measured)}"
            f"{'</b>' if not check.passed else ''}</small>"
            for check in trial.checks
        )
        found = "".join(
            f"<small>{escape(key)}: {escape(quantity(value, ''))}</small>" for key, value in trial.facts.items()
        )
        name = f"<b>{escape(trial.title)}</b><small>{escape(trial.about)}</small>"
        rows.append([f'<span class="{css}">{sign}</span>', name, escape(trial.outcome), checks + found])
    heads = ["", "Trial", "How it ended", "Measured"]
    return section(title, f"<p>{escape(about)}</p>", table(heads, rows, css="ruled", kinds=["mark", "", "", ""]))


def _scope(rehearsal: Rehearsal) -> str:
    return section("What this does not show", items((*rehearsal.notes, *NOT_SHOWN)))


def _provenance(rehearsal: Rehearsal, command: str) -> str:
    hashes = {"policy.onnx": rehearsal.policy_sha256, "contract.yaml": rehearsal.contract_sha256}
    text = "Same bundle, settings, seed and software give the same numbers, but for processes on the wire."
    return repeat(command, text, hashes, rehearsal.software)
