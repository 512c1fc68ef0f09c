"""The report's section about rough ground: classes, a curve for each ladder, and a table of all rungs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gaitway_sim2real.pages.model import Figure, Group, Section, Table, bold, mark, note
from gaitway_sim2real.pages.svg import Axes
from gaitway_sim2real.trial.evidence import Strip
from gaitway_sim2real.trial.ladders import GAVE_UP, ladder_title
from gaitway_sim2real.trial.plots import pictures
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.verdict import Verdict

from .metrics import METRICS
from .rough import ABOUT, CROSSED, ladder_axis


def ground_section(verdict: Verdict, climbs: Mapping[str, Strip]) -> Section | None:
    """Section of the ladders; empty for a verdict without ladders."""
    classes = verdict.ground
    if not classes:
        return None
    rungs = {found.ladder: [r for r in verdict.scenarios if r.ladder == found.ladder] for found in classes}
    rows: list[Sequence[object] | str] = []
    for found in classes:
        rows += [f"{ladder_title(found.ladder)}: {found.level or 'none'}", *map(_row, rungs[found.ladder])]
    figures = (Figure(ladder_chart(name, results), ladder_title(name)) for name, results in rungs.items())
    left = [row.what for row in verdict.left_out if row.kind == "rung"]
    stopped = f"Not tried, since {GAVE_UP}: {'; '.join(left)}." if left else ""
    heads = ["", "Ground", "Crossed", "Interval", "Robots", "Cut off", "Fell or stopped", "Began with"]
    return Section(
        "On rough ground",
        [f"{bold(ladder_title(found.ladder))}: {bold(found.level or 'none')} ({found.said})" for found in classes],
        note(ABOUT),
        Group(*figures),
        note(
            "Share of robots that crossed, with its interval; dashed: what a rung asks for. Robots that neither crossed"
            " nor fell were too slow. Cut off: share of the periods in which a target was."
        ),
        Table(heads, rows, ["mark", "", "num", "num", "num", "num", "num", ""]),
        note(stopped),
        *(part for title, strip in climbs.items() for part in pictures(title, strip)),
        aside=f"ladders {verdict.ground_version}, decides no PASS or FAIL",
    )


def _row(result: ScenarioResult) -> Sequence[object]:
    low, high = (METRICS["crossed"].say(end) for end in result.intervals["crossed"])
    causes = sorted(result.fall_causes.items(), key=lambda item: -item[1])
    return [
        mark(result.passed, required=False),
        result.level,
        METRICS["crossed"].say(result.metrics["crossed"]),
        f"{low.removesuffix(' %')} to {high}",
        str(result.envs),
        METRICS["cut"].say(result.metrics["cut"]),
        METRICS["falls"].say(result.metrics["falls"]),
        ", ".join(f"{cause} ({count})" for cause, count in causes[:3]),
    ]


def ladder_chart(name: str, results: Sequence[ScenarioResult]) -> str:
    """Share of robots that crossed over the height of the rungs; what is shown beside a ladder is not drawn."""
    rungs = [result for result in results if result.number is not None]
    found = [(rung.number or 0.0, rung.metrics["crossed"], rung.intervals["crossed"], rung.passed) for rung in rungs]
    most = 1.08 * max(number for number, *_ in found)
    axes = Axes(x=(0.0, most), y=(0.0, 1.05), width=350, height=190, left=56, bottom=42)
    axes.grid(ladder_axis(name), "crossed", y=(0.0, 0.5, 1.0), said=lambda share: f"{100 * share:.0f} %")
    axes.level(CROSSED.value)
    axes.line([number for number, *_ in found], [share for _, share, *_ in found], "series s5")
    for number, share, ends, passed in found:
        css = "fine" if passed else "bad"
        axes.line((number, number), ends, f"whisker {css}")
        axes.add(f'<circle cx="{axes.px(number)}" cy="{axes.py(share)}" r="3.4" class="dot {css}"/>')
    return axes.render(f"share of robots that crossed: {ladder_title(name)}")
