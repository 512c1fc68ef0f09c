"""Pages that stand alone: one HTML file in the look of the house, which needs no network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files


def document(title: str, sections: Iterable[str], *styles: str) -> str:
    """A whole page of ``sections``, HTML each; empty ones are left out. ``styles`` are further style sheets."""
    house = (files(__package__) / "pages.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{''.join([house, *styles])}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )
