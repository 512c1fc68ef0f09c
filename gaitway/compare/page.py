"""One self-contained page, as HTML and Markdown: curves, intervals, tables, settings and origins."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from gaitway_sim2real.pages.model import (
    Badge,
    Cell,
    Figure,
    Folded,
    Group,
    Head,
    Report,
    Section,
    heading,
    note,
    repeat,
)
from gaitway_sim2real.pages.model import Table as Cells

from .comparison import Comparison
from .figures import COLOURS, Drawing
from .gate import Gate
from .measures import headline
from .statistics import FEWEST
from .tables import Table, circumstances, results

ABOUT = (
    "Intervals are percentile intervals of {reps:,} resamples: within every task, runs are drawn with replacement, as "
    "in rliable (Agarwal et al. 2021); the draws are seeded, so the same runs give the same numbers. IQM is the mean "
    "of the middle half of all runs of all tasks. With few runs such intervals are too narrow: below {fewest} of a "
    "group and task there are none, and minimum and maximum of the runs are shown. Groups are ranked only where the "
    "rank-sum test (Mann and Whitney 1947) gives chance alone at most 5 % of cases."
)

FIRST = ("Examinations and verdicts", "Walking")
"""Tables that stand before the curves."""


def report(comparison: Comparison, drawings: Sequence[Drawing], gate: Gate | None, command: str) -> Report:
    """The whole page. ``command`` is what was typed."""
    figures = {drawing.name: Figure(drawing.inline(), drawing.caption) for drawing in drawings}
    tables = {table.title: table for table in results(comparison)}
    curves = figures["curves-steps"], figures["curves-time"]
    single = drawings[0].figure.get_figwidth() < 10.0
    return Report(
        f"{_groups(comparison)}: {comparison.metric}",
        _head(comparison, gate),
        *(_section(tables.pop(name), comparison) for name in FIRST if name in tables),
        Section("Learning curves", *([Group(*curves)] if single else curves)),
        *_aggregates(figures, tables, comparison),
        *(_section(table, comparison) for table in [*tables.values(), *circumstances(comparison)]),
        repeat(command, ABOUT.format(reps=comparison.reps, fewest=FEWEST)),
        styles=[style()],
    )


def style() -> str:
    return (files(__package__) / "page.css").read_text("utf-8")


def dotted(text: str, number: int) -> Cell:
    """A cell with a dot in the colour of group or run ``number``."""
    return Cell(text, f"dot g{number % len(COLOURS)}")


def _groups(comparison: Comparison) -> str:
    groups = comparison.groups
    if len(groups) > 4:
        return f"{len(groups)} groups"
    return " against ".join(groups) if len(groups) == 2 else ", ".join(groups)


def _head(comparison: Comparison, gate: Gate | None) -> Head:
    tasks, count = comparison.tasks, len(comparison.runs)
    runs = f"{count}{'' if comparison.cut else ' finished'} run{'' if count == 1 else 's'}"
    lines = [] if gate is None else [check.sentence() for check in gate.checks]
    return Head(
        f"Comparison of {runs} by {comparison.grouped_by}",
        _groups(comparison),
        f"on {', '.join(tasks) if len(tasks) <= 4 else f'{len(tasks)} tasks'}",
        headline(comparison),
        note(f"Score: {comparison.protocol}.", "muted"),
        gate and Badge(gate.word, "\n".join([f"Regression gate, bound {gate.bound:g}.", *lines])),
        *([heading("Before trusting the numbers"), comparison.warnings] if comparison.warnings else []),
        css=gate.word.lower() if gate else "plain",
    )


def _aggregates(figures: dict[str, Figure], tables: dict[str, Table], comparison: Comparison) -> list[Section]:
    """Aggregates and probabilities with their figures; takes both tables out of ``tables``."""
    whole, chance = tables.pop("Aggregates", None), tables.pop("Pairs of seeds", None)
    drawn = [figures[name] for name in ("profile", "efficiency") if name in figures]
    sections = []
    if whole is not None:
        body = figures.get("aggregates"), _cells(whole, comparison)
        sections.append(Section(whole.title, note(whole.note, "note"), *body, Group(*drawn)))
    if chance is not None:
        both = _cells(chance, comparison), figures.get("improvement")
        sections.append(Section(chance.title, note(chance.note, "note"), *both))
    return sections


def _section(table: Table, comparison: Comparison) -> Section | None:
    body = note(table.note, "note"), _cells(table, comparison)
    if not table.rows and not table.note:
        return None
    return Section("", Folded(table.title, *body)) if table.folded else Section(table.title, *body)


def _cells(table: Table, comparison: Comparison) -> Cells:
    kinds = ["word" if column in table.words else "num" for column in table.columns]
    rows = [
        [
            dotted(cell, comparison.groups.index(cell)) if name == "group" else cell
            for name, cell in zip(table.columns, row, strict=True)
        ]
        for row in table.rows
    ]
    return Cells(table.columns, rows, kinds)
