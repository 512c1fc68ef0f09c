"""Tables whose names are never cut: on a narrow terminal each row becomes a paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def make_table(*columns: str) -> Table:
    """An empty table. The first column has the names, on one line each."""
    from rich.table import Table

    table = Table(title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0)
    return table


def show_table(console: Console, table: Table) -> None:
    """Print a table; where its words do not fit beside each other, name by name with the rest below it."""
    from rich.measure import Measurement
    from rich.padding import Padding

    unlimited = console.options.update(max_width=10_000)
    if Measurement.get(console, unlimited, table).minimum <= console.width:
        console.print(table)
        return
    names, *others = table.columns
    console.print(names.header, style="bold", soft_wrap=True)
    for name, *cells in zip(*(column.cells for column in (names, *others)), strict=True):
        console.print(name, soft_wrap=True)
        for column, cell in zip(others, cells, strict=True):
            if cell:
                label = f"{column.header}: " if column.header else ""
                console.print(Padding(f"{label}{cell}", (0, 0, 0, 2)))
    console.print()
