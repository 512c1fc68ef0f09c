"""docs/your_robot.md and docs/your_task.md show what is in their examples."""

import pytest

from .pages import ROOT, blocks

EXAMPLES = {"docs/your_robot.md": "pony", "docs/your_task.md": "reacher"}
BLOCKS = [block for page in EXAMPLES for block in blocks(page) if block.language]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_what_the_page_shows_is_in_the_example(block):
    name = EXAMPLES[block.page]
    example = ROOT / "docs/examples" / name
    files = {"python": example.glob(f"{name}/*.py"), "toml": [example / "pyproject.toml"]}[block.language]
    assert any(block.text in file.read_text("utf-8") for file in files)
