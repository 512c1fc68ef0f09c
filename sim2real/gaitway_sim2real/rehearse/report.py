"""One HTML page about a rehearsal: what the robot was put through, what came of it, what was not tried."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from ..pages.document import document
from . import plots
from .trace import Trace
from .verdict import FAULTS, GROUPS, NOMINAL, POLICIES, WIRE, Rehearsal, Trial, TrialCheck, quantity

MODES = ("ramp", "hold", "policy")

NOT_SHOWN = (
    "A real robot: firmware, cables and radio may do what the twin does not know of.",
    "Ground other than flat, and hands, cables or stands that touch the robot.",
    "Whether the policy is any good beyond its command script: that is what the validation suite measures.",
)


def render_page(rehearsal: Rehearsal, trace: Trace | None, command: str) -> str:
    """The whole page; ``trace`` is of the nominal trial, ``command`` repeats the rehearsal."""
    style = (files(__package__) / "report.css").read_text("utf-8")
    sections = [
        _head(rehearsal),
        _nominal(rehearsal.of(NOMINAL), trace),
        _matrix(rehearsal.of(FAULTS)),
        _policies(rehearsal.of(POLICIES)),
        _wire(rehearsal.of(WIRE)),
        _scope(rehearsal),
        _provenance(rehearsal, command),
    ]
    return document(f"{rehearsal.robot}: rehearsal {rehearsal.word}", sections, style)


def _head(rehearsal: Rehearsal) -> str:
    counts = "; ".join(
        f"{title.lower()} {sum(trial.passed for trial in trials)} of {len(trials)}"
        for group, title in GROUPS.items()
        if (trials := rehearsal.of(group))
    )
    lines = [
        f"<li>{escape(line)} <small>({escape(trial.outcome)})</small></li>"
        for trial in rehearsal.trials
        for line in trial.failures()
    ]
    failed = f'<ul class="failures">{"".join(lines)}</ul>' if lines else ""
    settings = ", ".join(f"{key} {value}" for key, value in rehearsal.settings.items())
    passed, total = sum(trial.passed for trial in rehearsal.trials), len(rehearsal.trials)
    return f"""<header class="{rehearsal.word.lower()}">
<p class="kicker">Rehearsal against a digital twin: {escape(settings)}</p>
<h1>{escape(rehearsal.robot)} <span>{escape(rehearsal.task)}</span></h1>
<div class="verdict"><span class="badge">{rehearsal.word}</span>
<p><b>{passed} of {total}</b> trials passed: {escape(counts)}.</p></div>
{failed}</header>"""


def _nominal(trials: Sequence[Trial], trace: Trace | None) -> str:
    if not trials:
        return ""
    parts = [f"<h2>{escape(GROUPS[NOMINAL])}</h2>"]
    for trial in trials:
        parts.append(f"<p>{escape(trial.about)} It ended with: {escape(trial.outcome)}.</p>{_checks(trial)}")
    if trace is not None and len(trace.time):
        parts.append(
            "<h3>Commanded and measured velocity</h3>"
            '<p class="legend"><span class="key command"></span>commanded '
            '<span class="key measured"></span>measured by the twin, base frame</p>'
            f"<figure>{plots.velocity(trace)}</figure>"
            f"<h3>Height, tilt and torque over the whole time</h3><figure>{plots.whole(trace)}</figure>"
            '<p class="caption">Extremes of each second. Torque is the largest of all joints, as a share of its limit, '
            "that a frame asked for at the state it answered.</p>"
        )
    return f"<section>{''.join(parts)}</section>"


def _checks(trial: Trial) -> str:
    rows = "".join(_check_row(check) for check in trial.checks)
    facts = "".join(
        f'<tr><td></td><td>{escape(title)}</td><td class="num">{escape(quantity(value, ""))}</td><td></td></tr>'
        for title, value in trial.facts.items()
    )
    return (
        '<div class="scroll"><table class="numbers"><thead><tr><th></th><th></th><th class="num">measured</th>'
        f'<th class="num">allowed</th></tr></thead><tbody>{rows}{facts}</tbody></table></div>'
    )


def _check_row(check: TrialCheck) -> str:
    css, mark = ("good", "✓") if check.passed else ("bad", "✗")
    sign = "≥" if check.at_least else "≤"
    return (
        f'<tr><td class="mark {css}">{mark}</td><td>{escape(check.title)}</td>'
        f'<td class="num {"" if check.passed else css}">{escape(check.measured)}</td>'
        f'<td class="num">{sign} {escape(quantity(check.limit, check.unit))}</td></tr>'
    )


def _matrix(trials: Sequence[Trial]) -> str:
    if not trials:
        return ""
    rows = []
    for name in dict.fromkeys(trial.name for trial in trials):
        chosen = {trial.mode: trial for trial in trials if trial.name == name}
        about = next(iter(chosen.values())).about
        cells = "".join(_cell(chosen.get(mode)) for mode in MODES)
        rows.append(f"<tr><td><b>{escape(name)}</b><small>{escape(about)}</small></td>{cells}</tr>")
    head = "".join(f"<th>in {mode.upper()}</th>" for mode in MODES)
    return (
        f"<section><h2>{escape(GROUPS[FAULTS])}</h2>"
        "<p>Each fault was put on the wire in each mode. A cell passes when the reason is named, damping is sent "
        "within two policy periods of the detection and nothing but damping after it, and no frame asked for more "
        "than the torque limit; that of a second deployment when it is refused and the first goes on.</p>"
        f'<div class="scroll"><table class="matrix"><thead><tr><th>Fault</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return '<td class="muted">cannot happen here</td>'
    facts = ", ".join(f"{title} {quantity(value, '')}" for title, value in trial.facts.items())
    failed = "".join(f"<small><b>{escape(check.sentence())}</b></small>" for check in trial.checks if not check.passed)
    css = "cell-good" if trial.passed else "cell-bad"
    return f'<td><span class="{css}">{escape(trial.outcome)}</span><small>{escape(facts)}</small>{failed}</td>'


def _policies(trials: Sequence[Trial]) -> str:
    return _table(
        GROUPS[POLICIES],
        "The policy's output was replaced behind its own checks, so that only the controller stood between it and the "
        "motors. Every frame on the wire was compared with the state that it answered.",
        trials,
    )


def _wire(trials: Sequence[Trial]) -> str:
    return _table(
        GROUPS[WIRE],
        "The twin and the deployment as processes of their own, in real time, over DDS on the loopback interface. A "
        "third process heard every frame. Times depend on what else this machine was doing.",
        trials,
    )


def _table(title: str, about: str, trials: Sequence[Trial]) -> str:
    if not trials:
        return ""
    rows = []
    for trial in trials:
        css, mark = ("good", "✓") if trial.passed else ("bad", "✗")
        checks = "".join(
            f"<small>{'<b>' if not check.passed else ''}{escape(check.title)}: {escape(check.measured)}"
            f"{'</b>' if not check.passed else ''}</small>"
            for check in trial.checks
        )
        facts = "".join(
            f"<small>{escape(key)}: {escape(quantity(value, ''))}</small>" for key, value in trial.facts.items()
        )
        rows.append(
            f'<tr class="first"><td class="mark {css}">{mark}</td><td><b>{escape(trial.title)}</b>'
            f"<small>{escape(trial.about)}</small></td><td>{escape(trial.outcome)}</td><td>{checks}{facts}</td></tr>"
        )
    return (
        f"<section><h2>{escape(title)}</h2><p>{escape(about)}</p>"
        '<div class="scroll"><table><thead><tr><th></th><th>Trial</th><th>How it ended</th><th>Measured</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _scope(rehearsal: Rehearsal) -> str:
    items = "".join(f"<li>{escape(item)}</li>" for item in (*rehearsal.notes, *NOT_SHOWN))
    return f"<section><h2>What this does not show</h2><ul>{items}</ul></section>"


def _provenance(rehearsal: Rehearsal, command: str) -> str:
    hashes = "".join(
        f"<dt>{name}</dt><dd><code>{escape(value)}</code></dd>"
        for name, value in (("policy.onnx", rehearsal.policy_sha256), ("contract.yaml", rehearsal.contract_sha256))
    )
    versions = ", ".join(f"{escape(name)} {escape(value)}" for name, value in rehearsal.software.items())
    return f"""<section><h2>To repeat this</h2>
<pre>{escape(command)}</pre>
<p class="caption">Same bundle, settings, seed and software give the same numbers, but for processes on the wire.</p>
<dl class="hashes">{hashes}</dl><p class="muted">{versions}</p></section>"""
