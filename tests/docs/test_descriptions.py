"""Keys of descriptions: those of the code are those of the page."""

import re

from gaitway_sim2real.imports import description
from tree import ROOT

PAGE = (ROOT / "docs/import.md").read_text()
KINDS = ("Description", "Term", "History", "Clock", "Action", "Command", "Held", "Network")


def test_the_page_has_all_keys_and_terms():
    said = set(re.findall(r"`(\w+)`", PAGE))
    keys = {key for kind in KINDS for key in getattr(description, kind).__dataclass_fields__}
    assert keys | set(description.TERMS) | set(description.TWIST) <= said
