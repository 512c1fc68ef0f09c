"""The documentation site has every page once, and a picture of every robot. ``make site`` checks the links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import yaml
from gaitway_tasks.robots.known import own

from .pages import ROOT

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
DOCS = ROOT / SITE["docs_dir"]


def in_navigation(part: Any) -> Iterator[str]:
    """Pages below a part of the navigation."""
    if isinstance(part, str):
        yield part
    else:
        for inner in part.values() if isinstance(part, dict) else part:
            yield from in_navigation(inner)


def test_every_page_is_in_the_navigation_once():
    elsewhere = SITE["extra"]["elsewhere"]
    assert all((ROOT / path).is_file() for path in elsewhere)
    pages = {path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")}
    left_out = [pattern.rstrip("/") + "*" for pattern in SITE["exclude_docs"].split()]
    pages = {page for page in pages if not any(fnmatch(page.removeprefix("docs/"), pattern) for pattern in left_out)}
    expected = {elsewhere.get(page, page.removeprefix("docs/")) for page in pages | set(elsewhere)}
    found = Counter(in_navigation(SITE["nav"]))
    assert found == Counter(expected), "put every page into the nav of mkdocs.yml once"


def test_every_robot_has_a_picture():
    pictures = {path.stem for path in (DOCS / "images/robots").glob("*.jpg")}
    assert pictures == set(own()), "draw them with: python docs/tools/draw_robots.py"


def test_the_site_fetches_nothing_from_elsewhere():
    assert SITE["theme"]["font"] is False and SITE["strict"] is True
    texts = [path.read_text("utf-8") for kind in ("css", "js") for path in DOCS.rglob(f"*.{kind}")]
    assert texts and not any("http" in text for text in texts)
