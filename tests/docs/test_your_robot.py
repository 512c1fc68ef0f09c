"""docs/your_robot.md shows what is in its example."""

import pytest

from .pages import ROOT, blocks

EXAMPLE = ROOT / "docs/examples/pony"
BLOCKS = [block for block in blocks("docs/your_robot.md") if block.language]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_what_the_page_shows_is_in_the_example(block):
    files = {"python": EXAMPLE.glob("pony/*.py"), "toml": [EXAMPLE / "pyproject.toml"]}[block.language]
    assert any(block.text in file.read_text("utf-8") for file in files)
