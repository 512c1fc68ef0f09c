"""What the sections of reports are made of. Arguments are HTML where it says so, and plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def head(
    css: str, kicker: str, title: str, about: str, *, word: str = "", text: str = "", failures: Iterable[str] = ()
) -> str:
    """The card on top: a title, what it is about, and the verdict ``word`` with ``text`` beside it, if there is one.

    ``css`` is "pass", "fail" or "plain"; ``text`` and ``failures`` are HTML.
    """
    lines = "".join(f"<li>{line}</li>" for line in failures)
    badge = f'<div class="verdict"><span class="badge">{word}</span><p>{text}</p></div>' if word else text
    failed = f'<ul class="failures">{lines}</ul>' if lines else ""
    return (
        f'<header class="{css}"><p class="kicker">{escape(kicker)}</p>\n'
        f"<h1>{escape(title)} <span>{escape(about)}</span></h1>\n{badge}{failed}</header>"
    )


def section(title: str, *parts: str) -> str:
    """HTML parts under a title; nothing at all if every part is empty."""
    body = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, css: str = "numbers", kinds: Sequence[str] | None = None
) -> str:
    """A table of HTML cells. ``kinds`` are the columns' classes; by default all but the first are numbers, "num"."""
    kinds = kinds or ["", *["num"] * (len(heads) - 1)]
    marks = [f' class="{kind}"' if kind else "" for kind in kinds]

    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}{m}>{c}</{tag}>' for m, c in zip(marks, cells, strict=True))}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    top = f"<thead>{row('th', heads)}</thead>" if any(heads) else ""
    return f'<div class="scroll"><table class="{css}">{top}<tbody>{body}</tbody></table></div>'


def mark(passed: bool, required: bool = True) -> tuple[str, str]:
    """Class and sign of what passed, or did not."""
    return ("good", "✓") if passed else ("bad" if required else "warn", "✗")


def caption(text: str) -> str:
    return f'<p class="caption">{escape(text)}</p>'


def figure(svg: str, text: str = "") -> str:
    return f"<figure>{svg}{f'<figcaption>{escape(text)}</figcaption>' if text else ''}</figure>"


def legend(*entries: tuple[str, str]) -> str:
    """Colours, by their class, and what is drawn in them."""
    spans = "".join(f'<span class="key {css}"></span>{escape(text)} ' for css, text in entries)
    return f'<p class="legend">{spans}</p>'


def items(texts: Iterable[str]) -> str:
    """A list; nothing without an item."""
    lines = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{lines}</ul>" if lines else ""


def facts(rows: Mapping[str, str], *, code: bool = False) -> str:
    """Names and what is said of each; ``code`` for hashes and the like."""
    tags = ("<code>", "</code>") if code else ("", "")
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{tags[0]}{escape(v)}{tags[1]}</dd>' for k, v in rows.items())}</dl>"


def repeat(command: str, text: str, hashes: Mapping[str, str], software: Mapping[str, str]) -> str:
    """How to get the same page again."""
    versions = ", ".join(f"{name} {value}" for name, value in software.items())
    used = f'<p class="muted">{escape(versions)}</p>' if versions else ""
    return section("To repeat this", f"<pre>{escape(command)}</pre>", caption(text), facts(hashes, code=True), used)
