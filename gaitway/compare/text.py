"""A comparison as CSV and on the terminal."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.reading import printable

from .comparison import Comparison
from .measures import ERRORS, headline
from .tables import circumstances, results, speed_of

if TYPE_CHECKING:
    from rich.console import Console

CSV_COLUMNS = (
    "task", "group", "agent", "preset", "seed", "steps", "wall_time_s", "steps_per_s", "metric", "score", "protocol",
    "evaluation_last", "evaluation_max", "evaluations", "falls", "episodes", "off_command", "turning", "run",
)  # fmt: skip


def comma_separated(comparison: Comparison) -> str:
    """One row for each run, numbers in full."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for run in comparison.runs:
        means = [evaluation.mean for evaluation in run.evaluations]
        record = run.record
        last, best = (means[-1], max(means)) if means else ("", "")
        end = run.evaluations[-1] if run.evaluations and run.evaluations[-1].falls is not None else None
        walked = [end.falls, len(end.returns), *(end.errors.get(k, "") for k in ERRORS)] if end else [""] * 4
        writer.writerow(map(_cell, [
            run.task, run.group, record["algorithm"], record.get("preset") or "", run.header.seed, record["steps"],
            record["wall_time_s"], speed_of(run), run.series.name, run.series.score, run.series.protocol,
            last, best, len(means), *walked, run.header.path,
        ]))  # fmt: skip
    return buffer.getvalue()


def _cell(value: object) -> object:
    """A cell that a spreadsheet does not take for a formula, and that is one line."""
    if not isinstance(value, str | Path):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def show(comparison: Comparison, console: Console) -> None:
    """Print the tables, without the long ones that are rarely needed."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    for table in [*results(comparison), *circumstances(comparison)]:
        if table.folded or not table.rows:
            continue
        shown = RichTable(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        kept = [number for number, column in enumerate(table.columns) if column not in table.details]
        for number in kept:
            shown.add_column(
                Text(table.columns[number]), justify="left" if table.columns[number] in table.words else "right"
            )
        for row in table.rows:
            shown.add_row(*(Text(row[number]) for number in kept))
        console.print(Text(table.title, "bold"), Text(table.note, "dim"), shown, sep="\n")
    for sentence in headline(comparison):
        console.print(Text(sentence), soft_wrap=True)
