"""One HTML page for the owner of a robot: what was tried, what came out, what was not tried. Needs no network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import Actuator

from ..mujoco.robots import CONTACT_FORCE, MAX_TILT, MIN_HEIGHT
from ..pages.media import film
from ..pages.model import (
    Badge,
    Cell,
    Contents,
    Drawer,
    Figure,
    Folded,
    Group,
    Head,
    Report,
    Section,
    Table,
    bold,
    heading,
    mark,
    note,
    repeat,
)
from . import plots
from .engine_section import engine_section
from .evidence import Evidence, Strip
from .metric import Metric
from .needs import by_reason
from .result import LimitCheck, ScenarioResult
from .suite import Suite
from .suites import OWN
from .verdict import Verdict
from .why import Shown

MOST_FAILURES = 7


def report(
    suite: Suite,
    verdict: Verdict,
    evidence: Evidence,
    contract: Contract,
    bundle: Path,
    model: Path,
    clip: Path | None,
    why_no_clip: str,
    climbs: Mapping[str, Strip] | None = None,
    further: Section | None = None,
    failed: Shown | None = None,
) -> Report:
    """The whole page. ``climbs`` are pictures of walks on rungs of ladders, by their titles; ``further`` is a section
    about what was done besides, and ``failed`` the walk that a FAIL is explained by.

    What decides is on top; the rest is opened on demand. ``bundle`` is where the user has it."""
    own = suite.sections(verdict, evidence, contract, climbs or {})
    film = _film(clip, why_no_clip, suite.film_note)
    parts = [
        _scenarios(verdict),
        *own[:1],
        _sensitivity(suite, verdict),
        engine_section(verdict),
        *own[1:],
        _motion(evidence, contract),
        _falls(verdict),
        _all_numbers(suite, verdict),
        _scope(suite, verdict, contract),
        _provenance(verdict, contract, bundle, model),
    ]
    if verdict.passed:
        first = [film, further]
    else:
        first = [_failed_walk(failed), _scenarios(verdict, failed=True), further]
        parts = [film, *parts]
    below = [Drawer(each.name, *each.parts, aside=each.aside) for each in parts if each is not None]
    title = f"{contract.robot}: validation {verdict.word}"
    return Report(title, _head(verdict, contract), Contents([*filter(None, first), *below]), *first, *below)


def _head(verdict: Verdict, contract: Contract) -> Head:
    required = [result for result in verdict.scenarios if result.required]
    beyond = [result for result in verdict.flat if not result.required]
    robots = sum(result.envs for result in verdict.flat)
    hours = sum(result.envs * result.seconds for result in verdict.flat) / 3600
    failed = verdict.failures()
    lines = [f"{bold(result.title)}: {check.sentence()}" for result, check in failed[1:MOST_FAILURES]]
    if len(failed) > MOST_FAILURES:
        lines.append(f"and {len(failed) - MOST_FAILURES} more limits that do not hold, in the table of scenarios")
    model = "" if verdict.model == "bundle" else f" on {bold(verdict.model)}"
    extra = f", and {sum(r.passed for r in beyond)} of {len(beyond)} beyond the requirement" if beyond else ""
    passed = bold(f"{sum(result.passed for result in required)} of {len(required)}")
    text = (
        f"{bold(decisive(verdict))}\nThe policy passed {passed} required scenarios{extra}{model}"
        f"{f', and {bold(verdict.level)}' if verdict.level and not verdict.passed else ''}. "
        f"{robots} simulated robots, {hours:.1f} hours in all."
    )
    kicker = f"Validation in {', '.join(verdict.engines)}, suite {verdict.suite_version}, seed {verdict.seed}"
    if verdict.passed or verdict.why is None:
        said: tuple[Any, ...] = Badge(verdict.word, text), [*lines, *verdict.remarks()]
        return Head(kicker, contract.robot, contract.task, *said, css=verdict.word.lower())
    why = verdict.why
    rows = {"What it did": ". ".join(why.seen), "In common": why.common, "Likely cause": why.cause, "Next": why.command}
    more = Folded("All that failed, and remarks", [*lines, *verdict.remarks()])
    told = {name: value for name, value in rows.items() if value}
    return Head(kicker, contract.robot, contract.task, Badge(verdict.word, text), told, more, css="fail")


def _failed_walk(failed: Shown | None) -> Section | None:
    """The robot that failed worst: its film, and the feet or whatever the suite draws."""
    if failed is None:
        return None
    told, walk = failed.explanation, failed.walk
    clip: Any = note(f"No film: {failed.why_no_clip}.", "muted")
    if failed.clip is not None:
        clip = Figure(film(failed.clip), f"Robot {walk.robot + 1}, {told.start:.1f} to {told.end:.1f} s")
    drawn, *others = told.figures or (None,)
    shown = Group(clip, drawn) if drawn is not None else clip
    return Section(f"The worst failure: {walk.result.title}", note(walk.result.about, ""), shown, *others)


def decisive(verdict: Verdict) -> str:
    """The one sentence that says what decides: the worst failure, or what came closest to its limit."""
    pairs = [(r, c) for r in verdict.scenarios if r.required for c in r.checks]
    if not pairs:
        return "No required scenario was run."
    result, check = (verdict.failures() or [max(pairs, key=lambda pair: pair[1].used)])[0]
    said = f"{result.title}: {check.sentence()}."
    return f"Closest to its limit: {said}" if verdict.passed else said


def _film(clip: Path | None, why: str, more: str) -> Section:
    if clip is None:
        return Section("Video", note(f"No video: {why}.", "muted"))
    text = f"The undisturbed robot follows a fixed sequence of commands. {more}".strip()
    return Section("What it looks like", Figure(film(clip, start=4)), note(text))


def _scenarios(verdict: Verdict, failed: bool = False) -> Section | None:
    """All scenarios, or only the required ones that ``failed``, with the checks that failed."""
    rows: list[Sequence[str | Cell | None] | str] = []
    for required, title in ((True, "Required"), (False, "Beyond the requirement; does not decide the verdict")):
        chosen = [result for result in verdict.flat if result.required == required]
        if failed:
            chosen = _worst_first([result for result in chosen if required and not result.passed])[:MOST_FAILURES]
            title = ""
        rows += [title] * bool(chosen and title)
        for result in chosen:
            about = f"{bold(result.title)}\n{result.about} {result.envs} robots, {result.seconds:.0f} s."
            first: list[str | Cell | None] = [mark(result.passed, required), about]
            for check in result.checks:
                if failed and check.passed:
                    continue
                limit, found = allowed(check), mark(check.passed, required, check.said(check.value))
                rows.append([*first, check.metric.title, found, limit, _bar(check, required)])
                first = [None, None]
    text = (
        "The bar is full at the limit, marked by the line; shorter is better; the thin line on it is the interval, and "
        "a limit holds when all of it does. For survival the bar shows the share of allowed losses used."
    )
    if failed:
        count = sum(r.required and not r.passed for r in verdict.flat)
        text = f"{count} in all; the others are in the table of all scenarios." if count > MOST_FAILURES else ""
    heads = ["", "Scenario", "Measured", "Result", "Limit", "Share of what is allowed"]
    kinds = ["mark", "", "metric", "num", "num", ""]
    name = "What failed" if failed else "Scenarios"
    return Section(name, Table(heads, rows, kinds, css="scenarios"), note(text)) if rows else None


def _worst_first(results: list[ScenarioResult]) -> list[ScenarioResult]:
    return sorted(results, key=lambda each: -max(check.used for check in each.checks))


def allowed(check: LimitCheck) -> str:
    """A limit for a table."""
    return f"{'≥' if check.at_least else '≤'} {check.said(check.limit)}"


def _bar(check: LimitCheck, required: bool) -> Cell:
    """Bar of the used share of an allowance: 1 is the limit, drawn two thirds along."""
    if not math.isfinite(check.used):
        return Cell("")

    def along(used: float) -> float:
        return min(used / 1.5, 1.0) * 100

    bar = f'<i class="{mark(check.passed, required).css}" style="width:{along(check.used):.1f}%"></i>'
    if math.isfinite(check.low) and math.isfinite(check.high):
        ends = sorted(along(replace(check, value=end).used) for end in (check.low, check.high))
        bar += f'<b style="left:{ends[0]:.1f}%;width:{ends[1] - ends[0]:.1f}%"></b>'
    return Cell("", title=f"{100 * check.used:.0f} % of what is allowed", drawing=f'<div class="bar">{bar}</div>')


def _motion(evidence: Evidence, contract: Contract) -> Section | None:
    if evidence.speed is None:
        return None
    drives = "; ".join(_drive(actuator) for actuator in contract.actuators)
    text = f"A sample, extremes included. Lines: limits of the drives ({drives})."
    return Section("Torque and speed of all joints", Figure(plots.torque_speed(evidence, contract)), note(text))


def _drive(actuator: Actuator) -> str:
    speed = f", no-load speed {actuator.velocity_limit:g} rad/s" if actuator.velocity_limit else ""
    return f"{actuator.effort_limit:g} N m{speed}"


def _sensitivity(suite: Suite, verdict: Verdict) -> Section | None:
    factors = verdict.sensitivity
    levels = [level for factor in factors for level in factor.levels]
    known = [
        name for name in suite.key_metrics if any(math.isfinite(each.values.get(name, math.nan)) for each in levels)
    ]
    metrics = [suite.table[name] for name in known]
    if not metrics:
        return None
    halves = [half for half in (metrics[:4], metrics[4:]) if half]
    figures = (Figure(plots.sensitivity_plot(factors, verdict.scenarios, half), wide=True) for half in halves)
    decides = [r for r in verdict.scenarios if r.required and r.checks]
    worst = max(((r, c) for r in decides for c in r.checks), key=lambda pair: pair[1].used)
    used, best = min(((max(c.used for c in r.checks), r) for r in decides), key=lambda pair: pair[0])
    named = (
        f"Worst: {bold(worst[0].title)}, {worst[1].sentence()}. "
        f"Best: {bold(best.title)}, which used {100 * used:.0f} % of what is allowed at most."
    )
    text = "Red: the limit, and what fails it; lines through the dots are intervals. Only one thing changes at a time."
    return Section("What one change at a time does", named, *figures, note(text))


def _falls(verdict: Verdict) -> Section:
    causes: Counter[str] = Counter()
    for result in verdict.flat:
        causes.update(result.fall_causes)
    robots = sum(result.envs for result in verdict.flat)
    if not causes:
        return Section("Falls", f"None of {robots} robots fell.")
    where = ", ".join(f"{r.title} ({sum(r.fall_causes.values())})" for r in verdict.flat if r.fall_causes)
    text = f"{sum(causes.values())} of {robots} robots fell: {where}."
    return Section("Falls", text, Figure(plots.fall_causes(dict(causes))))


def _all_numbers(suite: Suite, verdict: Verdict) -> Section:
    shown = [suite.table[name] for name in suite.shown()]
    heads = [Cell(metric.title, title=metric.about) for metric in shown]
    rows = [
        [r.title, *(short(metric, r.metrics.get(metric.name, math.nan)) for metric in shown)] for r in verdict.scenarios
    ]
    more = Folded("What the numbers mean", {metric.title: metric.about for metric in suite.table.values()})
    return Section("All numbers", Table(["Scenario", *heads], rows), more)


def short(metric: Metric, value: float) -> str:
    """A value for a table."""
    return "–" if math.isnan(value) else metric.say(value).replace(" ", "\xa0")


def _scope(suite: Suite, verdict: Verdict, contract: Contract) -> Section:
    given = "".join(f", and the true {name} in place of an estimate" for name in contract.estimated)
    sensors, falls = (
        "joint encoders, gyro and orientation",
        (
            f"when its base tilts by more than {MAX_TILT:g} rad, sinks below {100 * MIN_HEIGHT:.0f} % of its initial "
            "height, or when a body above the last link of a limb presses on the ground with more than "
            f"{CONTACT_FORCE:g} N"
        ),
    )
    if contract.fixed_base:
        sensors, falls = "joint encoders", "when its physics diverge or its policy gives no finite number"
    text = (
        "The exported graph drove the robot model in plain MuJoCo, through the contract's joint order, rates, gains "
        f"and torque limits. Signals were {sensors}{given}; nothing else reached the "
        f"policy. A robot counts as fallen {falls}. It is counted once and measured until then."
    )
    notes = [heading("Notes"), verdict.notes] if verdict.notes else []
    parts = [*notes, *_left_out(verdict), heading("Not tested"), suite.untested(bool(verdict.ground_version))]
    return Section("What this does and does not show", text, *parts)


LEFT_OUT = {"scenario": "Scenarios", "rung": "Rungs", "limit": "Limits of", "metric": "Metrics"}


def _left_out(verdict: Verdict) -> list[Any]:
    """Section of the items that were not judged, with the missing properties of the robot or its contract."""
    rows = [
        [title, ", ".join(what), why]
        for kind, title in LEFT_OUT.items()
        for why, what in by_reason([row for row in verdict.left_out if row.kind == kind]).items()
    ]
    return [heading("Left out"), Table(["", "Not judged", "Why"], rows, ["", "", ""])] if rows else []


def _provenance(verdict: Verdict, contract: Contract, bundle: Path, model: Path) -> Section:
    command = f"gaitway validate {bundle}"
    command += " --rough" if verdict.ground_version else ""
    command += "" if verdict.model == "bundle" else f" --model {model.name}"
    command += f" --seed {verdict.seed}" if verdict.seed else ""
    outside = contract.suite if contract.suite not in OWN else None
    command += f" --trust {outside.partition('.')[0].partition(':')[0]}" if outside else ""
    hashes = {
        "policy.onnx": verdict.policy_sha256,
        "contract.yaml": verdict.contract_sha256,
        f"model ({verdict.model})": verdict.model_sha256,
        "checkpoint": contract.checkpoint_sha256,
    }
    text = "Same bundle, model, suite version, seed and software give the same numbers."
    return repeat(command, text, hashes, verdict.software)
