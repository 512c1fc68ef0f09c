"""A report from outside: what it says stands on the page and in Markdown, escaped, and nothing else does."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from gaitway_sim2real.pages.model import (
    Badge,
    Cell,
    Figure,
    Folded,
    Group,
    Head,
    Report,
    Section,
    Table,
    bold,
    mark,
    note,
)
from gaitway_sim2real.pages.panels import stacked
from html_page import Page


@dataclass(frozen=True)
class Dial:
    """A part that no report of ours has."""

    degrees: float

    def html(self) -> str:
        return f'<meter value="{self.degrees:g}"></meter>'

    def markdown(self) -> str:
        return f"dial at {self.degrees:g}"


def motors() -> Report:
    time = np.linspace(0.0, 2.0, 50)
    lines = [(time, np.sin(time), "measured"), (time, np.full(50, np.nan), "command")]
    return Report(
        "go2: <motors>",
        Head(
            "Test of 2 motors", "go2", "on a stand", Badge("FAIL", f"{bold(1)} of 2 turns"), ["hip: stuck"], css="fail"
        ),
        Section(
            "Motors",
            "Each was turned <once>.",
            Table(
                ["", "motor", "torque [N m]"],
                [
                    "Front",
                    [mark(True), f"{bold('knee')}\nwith | gear", Cell("23.1", title="at 2 s")],
                    [None, None, mark(False, text="40.2")],
                ],
                ["mark", "", "num"],
            ),
            stacked([("angle [rad]", lines)], legend=[("measured", "encoder")]),
            Dial(30.0),
            note(""),
            aside="2 of 12",
        ),
        Section("Nothing was heard", [], {}, None, Table(["", "a"], []), Figure(""), Group(), note("")),
        Section("Where", Folded("Hashes", {"policy.onnx": "ab<c>"})),
        styles=["meter { width: 9px; }"],
    )


@pytest.mark.parametrize("phases", [(), [(0.0, 2.0, "standing")]])
def test_long_labels_of_panels_fit(phases):
    """Beside a panel, turned, the name of a joint with its unit was longer than the panel is high."""
    time = np.linspace(0.0, 2.0, 20)
    rows = [(f"{name} [N m]", [(time, time, "measured")]) for name in ("FL_thigh_joint", "left_shoulder_pitch_joint")]
    for number, panel in enumerate(re.findall(r"<svg.*?</svg>", stacked(rows, phases=phases).html())):
        width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', panel).groups())
        x, y = map(int, re.search(r'x="(\d+)" y="(\d+)" class="label" text-anchor="start"', panel).groups())
        assert "rotate" not in panel and x + 7 * len(rows[number][0]) < width and 11 <= y < height
        others = [float(at) for at in re.findall(r'y="([\d.]+)" class="(?:tick|phase)"', panel)]
        assert min(others) >= y + 8, "the label has a line of its own"


def test_the_page_says_all_of_it():
    text = motors().html()
    page = Page(text)
    assert page.open == []
    assert page.cells == ["", "motor", "torque [N m]", "Front", "✓", "kneewith | gear", "23.1", "40.2"]
    for said in (
        "go2: <motors>",
        "1 of 2 turns",
        "hip: stuck",
        "Each was turned <once>.",
        "encoder",
        "ab<c>",
        "2 of 12",
    ):
        assert said in page.text, said
    assert '<meter value="30">' in text and "meter { width" in text
    assert text.count("<svg") == 1 and "nan" not in text
    assert "http:" not in text and "https:" not in text


def test_cells_that_belong_together_are_one():
    html = motors().html()
    assert html.count('rowspan="2"') == 2 and 'title="at 2 s"' in html
    assert html.count("<tr") == 4


def test_what_is_empty_is_left_out():
    assert "Nothing was heard" not in motors().html() + motors().markdown()
    assert Section("Title", "").html() == ""


def test_markdown_has_what_is_text():
    text = motors().markdown()
    lines = text.splitlines()
    assert lines[0] == "# go2 on a stand" and "**FAIL** **1** of 2 turns" in lines
    assert "- hip: stuck" in lines and "- policy.onnx: ab&lt;c>" in lines and "dial at 30" in lines
    assert "| ✓ | **knee** with \\| gear | 23.1 |" in lines and "|  |  | 40.2 |" in lines
    assert "| --- | --- | ---: |" in lines
    assert "svg" not in text


def test_bold_words_in_foreign_text_cannot_break_a_page():
    page = Page(Report("t", Head("k", "t", "a"), Section("s", "\ue000never closed", bold("<b>"))).html())
    assert page.open == [] and "<b>" in page.text


def test_a_page_runs_and_fetches_nothing_whatever_it_quotes():
    report = Report("x", note("<img src=http://a.example/b> ![c](http://a.example/d) a\x1b[2K"))
    assert "Content-Security-Policy\" content=\"default-src 'none'" in report.html() and "<img" not in report.html()
    assert report.markdown() == "&lt;img src=http://a.example/b> ![c]\\(http://a.example/d) a\\x1b[2K"
