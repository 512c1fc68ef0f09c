"""The report's section about physics engines: what each of them measured of the same policy, side by side."""

from __future__ import annotations

from html import escape
from itertools import groupby

from ..pages.parts import caption, section, table
from .in_engines import MUJOCO, Comparison, comparisons
from .metrics import METRICS, format_value
from .verdict import Verdict


def engine_section(verdict: Verdict) -> str:
    """HTML; nothing for a verdict of MuJoCo alone."""
    engines = verdict.engines
    parts = []
    for title, rows in groupby(comparisons(verdict.scenarios), key=lambda row: row.scenario):
        heads = [escape(title)]
        for engine in engines:
            heads += [escape(engine)] if engine == MUJOCO else [escape(engine), "difference"]
        parts.append(table(heads, [_cells(row, engines) for row in rows]))
    text = (
        f"The same commands, starts and metrics in {', '.join(engines)}, each with its own contacts; every engine "
        "decides the verdict. Differences are from MuJoCo. Command classes walk on the suite's hard floor there."
    )
    return section("Physics engines", *parts, caption(text)) if parts else ""


def _cells(row: Comparison, engines: tuple[str, ...]) -> list[str]:
    cells = [escape(METRICS[row.metric].title)]
    for engine in engines:
        cells.append(escape(format_value(row.metric, row.values.get(engine, float("nan")))))
        if engine != MUJOCO:
            far = row.difference(engine) if engine in row.values else float("nan")
            cells.append("" if far != far else ("+" if far > 0 else "") + escape(format_value(row.metric, far)))
    return cells
