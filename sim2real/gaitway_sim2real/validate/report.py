"""One HTML page for the owner of a robot: what was tried, what came out, what was not tried. Needs no network."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from gaitway_onboard.bundle.contract import Actuator, Contract

from ..mujoco.robots import CONTACT_FORCE, MAX_TILT, MIN_HEIGHT
from ..pages.document import document
from ..pages.parts import caption, facts, figure, head, items, legend, mark, repeat, section, table
from . import gait_plots, plots
from .command_classes import CLASSES
from .engine_section import engine_section
from .evidence import Evidence
from .metrics import GAIT, METRICS
from .scenarios import NOT_TESTED
from .verdict import LimitCheck, ScenarioResult, Verdict, format_value

MOST_FAILURES = 7
TRACKING = (
    "lin_vel_error", "lin_vel_bias", "lin_vel_oscillation", "yaw_vel_error", "yaw_vel_bias", "yaw_vel_oscillation",
)  # fmt: skip
TABLE_METRICS = (
    "falls", *TRACKING, "cost_of_transport", "torque_rms", "torque_peak", "torque_saturation",
    "joint_limit_use", "action_rate", "foot_slip", "air_time",
)  # fmt: skip


def render_page(
    verdict: Verdict,
    evidence: Evidence,
    contract: Contract,
    bundle: Path,
    model: Path,
    clip: Path | None,
    why_no_clip: str,
    strip: Sequence[tuple[str, bytes]] | str = "not asked for",
) -> str:
    """The whole page. ``strip`` are captions and JPEG pictures of one stride, or why there are none."""
    sections = [
        _head(verdict, contract),
        _film(clip, why_no_clip),
        _gait(verdict, evidence, contract, strip),
        _sensitivity(verdict),
        _scenario_table(verdict),
        engine_section(verdict),
        _tracking(evidence, contract, verdict),
        _motion(evidence, contract),
        _falls(verdict),
        _all_numbers(verdict),
        _scope(verdict, contract),
        _provenance(verdict, contract, bundle, model),
    ]
    return document(f"{contract.robot}: validation {verdict.word}", sections)


def _head(verdict: Verdict, contract: Contract) -> str:
    required = [result for result in verdict.scenarios if result.required]
    beyond = [result for result in verdict.scenarios if not result.required]
    robots = sum(result.envs for result in verdict.scenarios)
    passed = sum(result.passed for result in required)
    hours = sum(result.envs * result.seconds for result in verdict.scenarios) / 3600
    failed = verdict.failures()
    lines = [f"<b>{escape(r.title)}</b>: {escape(c.sentence())}" for r, c in failed[1:MOST_FAILURES]]
    if len(failed) > MOST_FAILURES:
        lines.append(f"and {len(failed) - MOST_FAILURES} more limits that do not hold, in the table of scenarios")
    lines += [escape(remark) for remark in verdict.remarks()]
    model = "" if verdict.model == "bundle" else f" on <b>{escape(verdict.model)}</b>"
    extra = f", and {sum(r.passed for r in beyond)} of {len(beyond)} beyond the requirement" if beyond else ""
    text = (
        f"<b>{escape(decisive(verdict))}</b><br>"
        f"The policy passed <b>{passed} of {len(required)}</b> required scenarios{extra}{model}."
        f" {robots} simulated robots, {hours:.1f} hours in all."
    )
    kicker = f"Validation in {', '.join(verdict.engines)}, suite {verdict.suite_version}, seed {verdict.seed}"
    return head(
        verdict.word.lower(), kicker, contract.robot, contract.task, word=verdict.word, text=text, failures=lines
    )


def decisive(verdict: Verdict) -> str:
    """The one sentence that says what decides: the worst failure, or what came closest to its limit."""
    pairs = [(r, c) for r in verdict.scenarios if r.required for c in r.checks]
    if not pairs:
        return "No required scenario was run."
    result, check = (verdict.failures() or [max(pairs, key=lambda pair: pair[1].used)])[0]
    said = f"{result.title}: {check.sentence()}."
    return f"Closest to its limit: {said}" if verdict.passed else said


def _film(clip: Path | None, why: str) -> str:
    if clip is None:
        return section("Video", f'<p class="muted">No video: {escape(why)}.</p>')
    data = base64.b64encode(clip.read_bytes()).decode("ascii")
    return section(
        "What it looks like",
        f'<video controls muted loop playsinline preload="auto" src="data:video/mp4;base64,{data}#t=4"></video>',
        caption(
            "The undisturbed robot follows a fixed sequence of commands. Arrows show commanded and measured velocity."
        ),
    )


def _scenario_table(verdict: Verdict) -> str:
    groups = []
    for required, title in ((True, "Required"), (False, "Beyond the requirement; does not decide the verdict")):
        chosen = [result for result in verdict.scenarios if result.required == required]
        if chosen:
            groups.append(f'<tr class="group"><th colspan="6">{title}</th></tr>')
            groups += [_scenario_rows(result) for result in chosen]
    return f"""<section><h2>Scenarios</h2>
<div class="scroll"><table class="scenarios"><thead>
<tr><th></th><th>Scenario</th><th>Measured</th><th class="num">Result</th>
<th class="num">Limit</th><th>Share of what is allowed</th></tr></thead><tbody>{"".join(groups)}</tbody></table></div>
<p class="caption">The bar is full at the limit, marked by the line; shorter is better; the thin line on
it is the interval, and a limit holds when all of it does. For survival the bar shows the share of allowed losses
used.</p></section>"""


def _scenario_rows(result: ScenarioResult) -> str:
    rows = []
    for k, check in enumerate(result.checks):
        span = len(result.checks)
        first = (
            f'<td class="mark {_mark(result)}" rowspan="{span}">{mark(result.passed)[1]}</td>'
            f'<td rowspan="{span}"><b>{escape(result.title)}</b><small>{escape(result.about)} '
            f"{result.envs} robots, {result.seconds:.0f} s.</small></td>"
            if k == 0
            else ""
        )
        sign = "≥" if check.at_least else "≤"
        rows.append(
            f'<tr{"" if k else " class=first"}>{first}<td class="metric">{escape(METRICS[check.metric].title)}</td>'
            f'<td class="num {"" if check.passed else _mark(result)}">'
            f"{escape(format_value(check.metric, check.value))}</td>"
            f'<td class="num">{sign} {escape(format_value(check.metric, check.limit))}</td>'
            f"<td>{_bar(check, result.required)}</td></tr>"
        )
    return "".join(rows)


def _mark(result: ScenarioResult) -> str:
    return mark(result.passed, result.required)[0]


def _bar(check: LimitCheck, required: bool) -> str:
    """How much of the allowance is used: 1 is the limit, drawn two thirds along."""
    used = check.used
    if not math.isfinite(used):
        return ""
    colour, _ = mark(check.passed, required)
    width = min(used / 1.5, 1.0) * 100
    bar = f'<i class="{colour}" style="width:{width:.1f}%"></i>'
    if math.isfinite(check.low) and math.isfinite(check.high):
        ends = sorted(min(replace(check, value=end).used / 1.5, 1.0) * 100 for end in (check.low, check.high))
        bar += f'<b style="left:{ends[0]:.1f}%;width:{ends[1] - ends[0]:.1f}%"></b>'
    return f'<div class="bar" title="{100 * used:.0f} % of what is allowed">{bar}</div>'


def _tracking(evidence: Evidence, contract: Contract, verdict: Verdict) -> str:
    parts = []
    if evidence.showcase is not None:
        parts.append(
            "<h2>Following commands</h2>"
            + legend(("command", "commanded"), ("measured", "measured, base frame"))
            + figure(plots.velocity_plots(evidence.showcase))
        )
    if evidence.grid_command is not None:
        limits = {c.metric: c.limit for r in verdict.scenarios if r.name == "command_grid" for c in r.checks}
        linear, yaw = limits.get("lin_vel_error", 0.15), limits.get("yaw_vel_error", 0.15)
        parts.append(
            "<h3>Mean error for each command</h3><div class='pair'>"
            f"<figure>{plots.error_map(evidence, 1, contract, linear)}"
            "<figcaption>Linear velocity error [m/s], no turning</figcaption></figure>"
            f"<figure>{plots.error_map(evidence, 2, contract, yaw)}"
            "<figcaption>Yaw rate error [rad/s], vy = 0</figcaption></figure></div>"
            '<p class="caption">Each cell is one robot holding one command of the cell for the whole time, the start '
            f"from rest included. The darkest cells are at {2 * linear:.2f} m/s and {2 * yaw:.2f} rad/s or "
            "more, twice the limit of the mean.</p>"
        )
    return f"<section>{''.join(parts)}</section>" if parts else ""


def _motion(evidence: Evidence, contract: Contract) -> str:
    parts = []
    if evidence.scatter_speed is not None:
        parts.append(
            "<h2>Torque and speed of all joints</h2>"
            f"<figure>{plots.torque_speed(evidence, contract)}</figure>"
            '<p class="caption">A sample of the command grid, extremes included. '
            f"Lines: limits of the drives ({'; '.join(_drive(actuator) for actuator in contract.actuators)}).</p>"
        )
    return f"<section>{''.join(parts)}</section>" if parts else ""


def _drive(actuator: Actuator) -> str:
    speed = f", no-load speed {actuator.velocity_limit:g} rad/s" if actuator.velocity_limit else ""
    return f"{actuator.effort_limit:g} N m{speed}"


def _gait(verdict: Verdict, evidence: Evidence, contract: Contract, strip: Sequence[tuple[str, bytes]] | str) -> str:
    """Film strip, table of the gaits, feet over time and from the side, and the spectrum of the torques."""
    limits = {c.metric: c.limit for r in verdict.scenarios for c in r.checks}
    clearance, slip, rate = (limits.get(name) for name in ("clearance", "slip", "step_rate"))
    parts = ["<h3>One stride, walking forward</h3>", _strip(strip), _gait_table(verdict)]
    show = evidence.showcase
    if show is not None and (windows := show.windows()):
        figures = [
            figure(gait_plots.feet_over_time(show, start, end, clearance=clearance, slip=slip), label)
            for label, start, end in windows
        ]
        sides = [
            figure(gait_plots.side_view(show, start, end, clearance=clearance), label)
            for label, start, end in windows[:2]
        ]
        parts += [
            "<h3>Feet over time</h3>",
            legend(
                ("stance", "on the ground"),
                ("slide", "slips more than is allowed"),
                ("command", "height"),
                ("limit", "height that is required"),
            ),
            f'<div class="pair">{"".join(figures)}</div>',
            caption(
                f"Every physics step ({1000 * show.feet.dt:g} ms) of one undisturbed robot. Height: "
                f"lowest point of the foot; a full row is {100 * gait_plots.HIGHEST:.0f} cm. Right: time on the ground."
            ),
            "<h3>Feet from the side</h3>",
            legend(("command", "left"), ("measured", "right"), ("limit", "height that is required")),
            f'<div class="pair">{"".join(sides)}</div>',
        ]
        svg, types = gait_plots.torque_spectrum(show, contract.joint_names, step_rate=rate)
        parts += [
            "<h3>Spectrum of the joint torques</h3>",
            legend(*((f"s{k}", name) for k, name in enumerate(types))),
            f'<div class="scroll">{figure(svg)}</div>',
            caption("A walk peaks at its step rate and falls off above it. Peaks at 5 Hz and more are pattering."),
        ]
    return section("Gait", *parts)


def _strip(strip: Sequence[tuple[str, bytes]] | str) -> str:
    if isinstance(strip, str):
        return f'<p class="muted">No pictures: {escape(strip)}.</p>'
    pictures = [
        f'<figure><img alt="{escape(text)}" src="data:image/jpeg;base64,{base64.b64encode(data).decode("ascii")}">'
        f"<figcaption>{escape(text)}</figcaption></figure>"
        for text, data in strip
    ]
    return f'<div class="strip">{"".join(pictures)}</div>'


def _gait_table(verdict: Verdict) -> str:
    """The gait of each command class, with limits and intervals, on each floor that it was measured on."""
    parts = []
    for suffix, floor in (("", "on a hard floor"), ("_carpet", "on carpet")):
        found = {kind.title: f"gait_{name}{suffix}" for name, kind in CLASSES.items()}
        results = {title: r for title, name in found.items() for r in verdict.scenarios if r.name == name}
        if not results:
            continue
        rows = []
        for metric in (*GAIT, *TRACKING, "cost_of_transport"):
            checks = [c for r in results.values() for c in r.checks if c.metric == metric]
            sign = "≥" if checks and checks[0].at_least else "≤"
            limit = f"<small>{sign} {_short(metric, checks[0].limit)}</small>" if checks else ""
            rows.append([METRICS[metric].title + limit, *(_gait_cell(r, metric) for r in results.values())])
        parts.append(f"<h3>Gait {floor}, for each kind of command</h3>" + table(["", *results], rows))
    if parts:
        parts.append(
            caption(
                "Small: on the left the limits, in the cells the intervals of the mean over the robots. A limit holds "
                "when the whole interval does."
            )
        )
    return "".join(parts)


def _gait_cell(result: ScenarioResult, metric: str) -> str:
    value = result.metrics.get(metric, math.nan)
    check = next((c for c in result.checks if c.metric == metric), None)
    css = "" if check is None or check.passed else "bad"
    low, high = result.intervals.get(metric, (math.nan, math.nan))
    first, last = (_short(metric, max(end, 0.0)).split()[0] for end in (low, high))
    ends = "" if math.isnan(low) else f"<small>{first} to {last}</small>"
    return f'<span class="{css}">{_short(metric, value)}</span>{ends}'


def _sensitivity(verdict: Verdict) -> str:
    factors = verdict.sensitivity
    metrics = gait_plots.key_metrics(factors)
    if not metrics:
        return ""
    halves = [metrics[:4], metrics[4:]]
    figures = [
        f'<div class="scroll">{figure(gait_plots.sensitivity_plot(factors, verdict.scenarios, half))}</div>'
        for half in halves
        if half
    ]
    pairs = [(r, c) for r in verdict.scenarios if r.required for c in r.checks]
    worst = max(pairs, key=lambda pair: pair[1].used)
    best = min((r for r in verdict.scenarios if r.required and r.checks), key=lambda r: max(c.used for c in r.checks))
    named = (
        f"<p>Worst: <b>{escape(worst[0].title)}</b>, {escape(worst[1].sentence())}. "
        f"Best: <b>{escape(best.title)}</b>, which used {100 * max(c.used for c in best.checks):.0f} % of what is "
        "allowed at most.</p>"
    )
    text = "Red: the limit, and what fails it; lines through the dots are intervals. Only one thing changes at a time."
    return section("What one change at a time does", named, *figures, caption(text))


def _falls(verdict: Verdict) -> str:
    causes: Counter[str] = Counter()
    for result in verdict.scenarios:
        causes.update(result.fall_causes)
    robots = sum(result.envs for result in verdict.scenarios)
    if not causes:
        return f"<section><h2>Falls</h2><p>None of {robots} robots fell.</p></section>"
    where = ", ".join(f"{escape(r.title)} ({sum(r.fall_causes.values())})" for r in verdict.scenarios if r.fall_causes)
    return (
        f"<section><h2>Falls</h2><p>{sum(causes.values())} of {robots} robots fell: {where}.</p>"
        f"<figure>{plots.fall_causes(dict(causes))}</figure></section>"
    )


def _all_numbers(verdict: Verdict) -> str:
    heads = [f'<span title="{escape(METRICS[m].about)}">{escape(METRICS[m].title)}</span>' for m in TABLE_METRICS]
    rows = [
        [escape(r.title), *(_short(m, r.metrics.get(m, math.nan)) for m in TABLE_METRICS)] for r in verdict.scenarios
    ]
    about = facts({metric.title: metric.about for metric in METRICS.values()})
    more = f"<details><summary>What the numbers mean</summary>{about}</details>"
    return section("All numbers", table(["Scenario", *heads], rows), more)


def _short(metric: str, value: float) -> str:
    return "–" if math.isnan(value) else escape(format_value(metric, value)).replace(" ", " ")


def _scope(verdict: Verdict, contract: Contract) -> str:
    model = f"<h3>Notes</h3>{items(verdict.notes)}" if verdict.notes else ""
    return f"""<section><h2>What this does and does not show</h2>
<p>The exported graph drove the robot model in plain MuJoCo, through the contract's joint order, rates, gains and torque
limits. Signals were joint encoders, gyro and orientation{_estimates(contract)}; nothing else reached the policy.
A robot counts as fallen when its base tilts by more than {MAX_TILT:g} rad, sinks below {100 * MIN_HEIGHT:.0f} % of its
initial height, or when any body above the last link of a leg presses on the ground with more than {CONTACT_FORCE:g} N.
It is counted once and measured until then.</p>{model}
<h3>Not tested</h3>{items(NOT_TESTED)}</section>"""


def _estimates(contract: Contract) -> str:
    return "".join(f", and the true {name} in place of an estimate" for name in contract.estimated)


def _provenance(verdict: Verdict, contract: Contract, bundle: Path, model: Path) -> str:
    command = f"gaitway validate {bundle.name}"
    command += "" if verdict.model == "bundle" else f" --model {model.name}"
    command += f" --seed {verdict.seed}" if verdict.seed else ""
    hashes = {
        "policy.onnx": verdict.policy_sha256,
        "contract.yaml": verdict.contract_sha256,
        f"model ({verdict.model})": verdict.model_sha256,
        "checkpoint": contract.checkpoint_sha256,
    }
    text = "Same bundle, model, suite version, seed and software give the same numbers."
    return repeat(command, text, hashes, verdict.software)
