"""One self-contained HTML page: curves, intervals, tables, settings and origins. Needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from gaitway_sim2real.pages.document import document

from .comparison import Comparison
from .figures import COLOURS, Drawing
from .gate import Gate
from .tables import Table, circumstances, headline, results


def render_page(comparison: Comparison, drawings: Sequence[Drawing], gate: Gate | None, command: str) -> str:
    """The whole page. ``command`` is what was typed."""
    figures = {drawing.name: drawing for drawing in drawings}
    tables = {table.title: table for table in results(comparison)}
    sections = [
        _head(comparison, gate),
        _curves(figures),
        _aggregates(figures, tables, comparison),
        *(_section(table, comparison) for table in tables.values()),
        *(_section(table, comparison) for table in circumstances(comparison)),
        _repeat(comparison, command),
    ]
    return document(_title(comparison), sections, style())


def style() -> str:
    return (files(__package__) / "page.css").read_text("utf-8")


def _title(comparison: Comparison) -> str:
    return f"{_groups(comparison)}: {comparison.metric}"


def _groups(comparison: Comparison) -> str:
    groups = comparison.groups
    if len(groups) > 4:
        return f"{len(groups)} groups"
    return " against ".join(groups) if len(groups) == 2 else ", ".join(groups)


def _head(comparison: Comparison, gate: Gate | None) -> str:
    tasks = comparison.tasks
    where = ", ".join(tasks) if len(tasks) <= 4 else f"{len(tasks)} tasks"
    verdict = ""
    if gate is not None:
        verdict = (
            f'<div class="verdict"><span class="badge">{gate.word}</span><p>Regression gate, bound {gate.bound:g}. '
            + "<br>".join(escape(check.sentence()) for check in gate.checks)
            + "</p></div>"
        )
    warnings = "".join(f"<li>{escape(text)}</li>" for text in comparison.warnings)
    listed = f'<h3>Before trusting the numbers</h3><ul class="warnings">{warnings}</ul>' if warnings else ""
    return f"""<header class="{gate.word.lower() if gate else "plain"}">
<p class="kicker">Comparison of {_count(len(comparison.runs), "finished run")} by {escape(comparison.grouped_by)}</p>
<h1>{escape(_groups(comparison))} <span>on {escape(where)}</span></h1>
<p>{escape(headline(comparison))}</p>
<p class="muted">Score: {escape(comparison.protocol)}.</p>
{verdict}{listed}</header>"""


def _curves(figures: dict[str, Drawing]) -> str:
    steps, time = figures["curves-steps"], figures["curves-time"]
    both = figure_of(steps) + figure_of(time)
    single = steps.figure.get_figwidth() < 10.0
    body = f'<div class="pair">{both}</div>' if single else both
    return f"<section><h2>Learning curves</h2>{body}</section>"


def _aggregates(figures: dict[str, Drawing], tables: dict[str, Table], comparison: Comparison) -> str:
    """Aggregates and probabilities with their figures; takes both tables out of ``tables``."""
    drawn = {name: figure_of(drawing) for name, drawing in figures.items() if not name.startswith("curves")}
    parts = []
    if table := tables.pop("Aggregates", None):
        parts.append(f"<h2>{table.title}</h2>{_note(table)}{drawn.get('aggregates', '')}{_table(table, comparison)}")
    profile, efficiency = drawn.get("profile", ""), drawn.get("efficiency", "")
    table = tables.pop("Probability of improvement", None)
    if efficiency or table is None:
        parts.append(f'<div class="pair spaced">{profile}{efficiency}</div>' if profile else "")
        profile = ""
    if table is not None:
        beside = profile or _table(table, comparison)
        rest = drawn["improvement"] + (_table(table, comparison) if profile else "")
        title = f"Performance profile and {table.title.lower()}" if profile else table.title
        parts.append(f'<h3>{title}</h3>{_note(table)}<div class="pair"><div>{beside}</div><div>{rest}</div></div>')
    return f"<section>{''.join(parts)}</section>" if parts else ""


def _section(table: Table, comparison: Comparison) -> str:
    body = f"<h2>{escape(table.title)}</h2>{_note(table)}{_table(table, comparison)}"
    if table.folded:
        body = f"<details><summary>{escape(table.title)}</summary>{_note(table)}{_table(table, comparison)}</details>"
    return f"<section>{body}</section>" if table.rows or table.note else ""


def _note(table: Table) -> str:
    return f'<p class="note">{escape(table.note)}</p>' if table.note else ""


def _table(table: Table, comparison: Comparison) -> str:
    if not table.rows:
        return ""
    css = ["word" if column in table.words else "num" for column in table.columns]
    head = "".join(f'<th class="{c}">{escape(name)}</th>' for c, name in zip(css, table.columns, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{c}">{dot(comparison.groups.index(cell)) if name == "group" else ""}{escape(cell)}</td>'
            for c, name, cell in zip(css, table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def dot(number: int) -> str:
    """A dot in the colour of group or run ``number``."""
    return f'<span class="dot" style="background:var(--g{number % len(COLOURS)})"></span>'


def figure_of(drawing: Drawing) -> str:
    return f"<figure>{drawing.inline()}<figcaption>{escape(drawing.caption)}</figcaption></figure>"


def _repeat(comparison: Comparison, command: str) -> str:
    return f"""<section><h2>To repeat this</h2>
<pre>{escape(command)}</pre>
<p class="caption">Intervals are percentile intervals of {comparison.reps:,} resamples: within every task, runs are
drawn with replacement, as in rliable (Agarwal et al. 2021); the draws are seeded, so the same runs give the same
numbers. IQM is the mean of the middle half of all runs of all tasks. With few runs, intervals are narrower than the
truth: two runs say next to nothing, five say something, ten say a lot. An interval from 1 to 1 says that every run of
one group beat every run of the other, not that the next will.</p></section>"""


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
