"""The report's section about physics engines: what each of them measured of the same policy, side by side."""

from __future__ import annotations

import math
from itertools import groupby

from ..pages.model import Section, Table, note
from .in_engines import MUJOCO, Comparison, comparisons
from .verdict import Verdict


def engine_section(verdict: Verdict) -> Section | None:
    """Section of other engines; empty for a verdict of MuJoCo alone."""
    engines = verdict.engines
    heads = [head for engine in engines for head in ([engine] if engine == MUJOCO else [engine, "difference"])]
    tables = [
        Table([title, *heads], [_cells(row, engines) for row in rows])
        for title, rows in groupby(
            comparisons(verdict.scenarios, [verdict.metrics[name] for name in verdict.compared]),
            key=lambda row: row.scenario,
        )
    ]
    text = (
        f"The same commands, starts and metrics in {', '.join(engines)}, each with its own contacts; every engine "
        "decides the verdict. Differences are from MuJoCo. Command classes walk on the suite's hard floor there."
    )
    return Section("Physics engines", *tables, note(text)) if tables else None


def _cells(row: Comparison, engines: tuple[str, ...]) -> list[str]:
    cells = [row.metric.title]
    for engine in engines:
        cells.append(row.metric.say(row.values.get(engine, math.nan)))
        if engine != MUJOCO:
            far = row.difference(engine) if engine in row.values else math.nan
            cells.append("" if math.isnan(far) else "+" * (far > 0) + row.metric.say(far))
    return cells
