"""Figures of the benchmark pages: index, pages and the rows of ten seeds agree, and each table has its command."""

from __future__ import annotations

import re
import statistics
from itertools import pairwise

import pytest

from .pages import DOCS, ROOT, tokens

INDEX, WALKING, SEEDS = "docs/benchmarks.md", "docs/benchmarks/walking.md", "docs/learning_to_walk.md"
TOPICS = [page for page in DOCS if page.startswith("docs/benchmarks/")]
COMMAND = re.compile(r"python benchmarks/\w+\.py|^(time )?(gaitway|make|pytest) \S")
"""Command that measures."""
MOST = 120
"""Longest cell of a table, in characters."""


def rows(page: str) -> list[list[str]]:
    """Rows of all tables of a page: the text of each cell, without links."""
    found: list[list[str]] = []
    parsed = tokens(page)
    for before, token in pairwise(parsed):
        if token.type == "tr_open":
            found.append([])
        elif token.type == "inline" and before.type in ("td_open", "th_open"):
            found[-1].append("".join(child.content for child in token.children or ()))
    return found


def numbers(text: str) -> list[str]:
    """Numbers of a text; a space or a comma may separate thousands."""
    return re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d)[ ,](?=\d{3}\b)", "", text))


def test_every_headline_is_on_its_page():
    linked = re.findall(r"^\| \[[^]]+\]\((benchmarks/[^)]+)\) \| (.+) \|$", (ROOT / INDEX).read_text("utf-8"), re.M)
    assert sorted(f"docs/{page}" for page, _ in linked) == TOPICS
    for page, headline in linked:
        known = set(numbers((ROOT / "docs" / page).read_text("utf-8")))
        assert (quoted := numbers(headline)), page
        assert not (lost := [number for number in quoted if number not in known]), f"{page} has no {lost}: {headline}"


def test_the_summary_of_ten_seeds_is_that_of_their_rows():
    seeds = [row for row in rows(SEEDS) if len(row) == 7 and row[0].isdigit() and "of 41" in row[3]]
    assert [row[0] for row in seeds] == [str(k) for k in range(10)]
    columns = {"CPU time": [float(row[2]) for row in seeds]}
    for place, names in ((4, ("linear error", "yaw error")), (5, ("linear bias", "yaw bias"))):
        for k, name in enumerate(names):
            columns[name] = [float(row[place].split(", ")[k]) for row in seeds]
    summary = {row[0]: row[2] for row in rows(WALKING) if len(row) == 3}
    for name in ("linear error", "yaw error", "linear bias", "yaw bias"):
        unit = "[m/s]" if name.startswith("linear") else "[rad/s]"
        low, high, *median = map(float, numbers(summary[f"{name} {unit}"]))
        assert (low, high) == (min(columns[name]), max(columns[name])), name
        if median:
            assert median == [pytest.approx(statistics.median(columns[name]), abs=0.00051)], name
    for name, value in (
        ("CPU time in B, examinations included, median", statistics.median(columns["CPU time"])),
        ("CPU time in B, worst seed", max(columns["CPU time"])),
        ("CPU time in B, best seed", min(columns["CPU time"])),
    ):
        assert float(numbers(summary[name])[0]) == pytest.approx(value, abs=0.051), name


@pytest.mark.parametrize("page", [INDEX, *TOPICS])
def test_cells_are_short(page):
    assert not [cell for row in rows(page) for cell in row if len(cell) > MOST]


@pytest.mark.parametrize("page", TOPICS)
def test_every_table_has_its_command(page):
    for section in re.split(r"^## ", (ROOT / page).read_text("utf-8"), flags=re.M):
        if "\n|---" in section:
            commands = [code for code in re.findall(r"`([^`]+)`", section) if COMMAND.search(code)]
            assert commands, f"{page}: {section.partition(chr(10))[0]}"
