"""The text environment that a page shows."""

import importlib

from .checks import ROOT


def test_the_page_shows_the_file_and_the_shop_sells():
    shop = importlib.import_module("shop")
    text = (ROOT / "docs/examples/shop.py").read_text("utf-8").partition("\n\n")[2]
    assert text in (ROOT / "docs/language_environments.md").read_text("utf-8")
    dialogue = shop.Shop()
    assert "4 pieces of bolt" in dialogue.reset({"seed": 1})
    asked = dialogue.step('<tool_call>{"name": "price", "arguments": {"item": "bolt", "pieces": 4}}</tool_call>')
    assert (asked.reply, asked.reward, asked.role) == ("12", 0.0, "tool")
    assert dialogue.step("They cost 12.").reward == 1.0 and dialogue.step("Nothing.").reward == 0.0
