"""Reports as data: a head and sections of text, tables, figures and lists, shown as HTML or Markdown.

A part is a text, which is a paragraph; a sequence of texts, which is a list; a mapping, which says something of each
name; or whatever else has ``html()``, and ``markdown()`` if it is text. Texts are plain and escaped here; :func:`bold`
marks words, and a line break starts a line. Empty parts are left out, and so are sections without others::

    head = Head("Test of 3 motors", "go2", "on a stand", Badge("PASS", f"{bold(3)} of 3 turn"), css="pass")
    Report("go2: motors", head, Section("Motors", Table(["", "torque [N m]"], [["hip", "23.1"]]))).html()
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from gaitway_files.reading import printable

NUMBER = "num"
"""Kind of a column of numbers."""
SVG = re.compile("<svg .*?</svg>", re.DOTALL)
MARKED = re.compile("\ue000([^\ue000\ue001]*)\ue001")


def bold(text: object) -> str:
    return f"\ue000{text}\ue001"


def inline(text: str) -> str:
    """HTML of plain text."""
    return MARKED.sub(r"<b>\1</b>", escape(text)).replace("\n", "<br>")


def plain(text: str) -> str:
    """Markdown of plain text: one line that breaks no table, and holds no element, picture or link."""
    text = MARKED.sub(r"**\1**", text).replace("|", "\\|").replace("\n", " ")
    return printable(text.replace("<", "&lt;").replace("](", "]\\("))


@dataclass(frozen=True)
class Text:
    """A paragraph, or another element of text, such as "h3" or "pre"."""

    text: str
    css: str = ""
    tag: str = "p"

    def html(self) -> str:
        return _element(self.tag, escape(self.text) if self.tag == "pre" else inline(self.text), self.css)

    def markdown(self) -> str:
        return {"pre": f"```\n{self.text}\n```", "h3": f"### {self.text}"}.get(self.tag) or plain(self.text)


def heading(text: str) -> Text:
    return Text(text, tag="h3")


def note(text: str, css: str = "caption") -> Text | None:
    """A paragraph in small print; nothing without a text."""
    return Text(text, css) if text else None


@dataclass(frozen=True)
class Badge:
    """A verdict in a word, and what it says."""

    word: str
    text: str

    def html(self) -> str:
        return f'<div class="verdict"><span class="badge">{escape(self.word)}</span><p>{inline(self.text)}</p></div>'

    def markdown(self) -> str:
        return f"**{self.word}** {plain(self.text)}"


@dataclass(frozen=True)
class Cell:
    """A cell of a table; lines after the first are small print. ``css`` is "good", "bad", "warn" or another class."""

    text: str
    css: str = ""
    title: str = ""
    """Shown when pointed at."""
    drawing: str = ""
    """HTML after the text."""

    def html(self, tag: str, kind: str, rows: int) -> str:
        first, *small = self.text.split("\n")
        inner = inline(first) + "".join(f"<small>{inline(line)}</small>" for line in small if line) + self.drawing
        more = f' rowspan="{rows}"' if rows > 1 else ""
        more += f' title="{escape(self.title)}"' if self.title else ""
        return _element(tag, inner, f"{kind} {self.css}", more)


def mark(passed: bool, required: bool = True, text: str | None = None) -> Cell:
    """A sign of what passed or did not; or ``text``, coloured if it did not."""
    css = "good" if passed else "bad" if required else "warn"
    return Cell("✓" if passed else "✗", css) if text is None else Cell(text, "" if passed else css)


@dataclass(frozen=True)
class Table:
    """Rows of cells, texts or :class:`Cell`; a row that is a text is a heading, None is part of the cell above it."""

    columns: Sequence[Any]
    rows: Sequence[Sequence[Any]]
    kinds: Sequence[str] = ()
    """Classes of the columns; by default all but the first are :data:`NUMBER`."""
    css: str = "numbers"

    def html(self) -> str:
        if not self.rows:
            return ""
        top = f"<thead>{self._row('th', self.columns)}</thead>" if any(self.columns) else ""
        body = "".join(
            self._row("td", row, self.rows[k + 1 :])
            if not isinstance(row, str)
            else f'<tr class="group"><th colspan="{len(self.columns)}">{inline(row)}</th></tr>'
            for k, row in enumerate(self.rows)
        )
        return f'<div class="scroll"><table class="{self.css}">{top}<tbody>{body}</tbody></table></div>'

    def _row(self, tag: str, row: Sequence[Any], below: Sequence[Any] = ()) -> str:
        cells = []
        for j, (kind, cell) in enumerate(zip(self._kinds(), row, strict=True)):
            if cell is not None:
                others = (k for k, other in enumerate(below) if isinstance(other, str) or other[j] is not None)
                cell = Cell(cell) if isinstance(cell, str) else cell
                cells.append(cell.html(tag, kind, 1 + next(others, len(below))))
        return _element("tr", "".join(cells), "" if row[0] is None else "first")

    def markdown(self) -> str:
        rule = ["---:" if NUMBER in kind else "---" for kind in self._kinds()]
        rows = [self.columns, rule, *([row] if isinstance(row, str) else row for row in self.rows)]
        texts = ((cell.text if isinstance(cell, Cell) else cell or "" for cell in row) for row in rows)
        return "\n".join("| " + " | ".join(map(plain, row)) + " |" for row in texts) if self.rows else ""

    def _kinds(self) -> Sequence[str]:
        return self.kinds or ["", *[NUMBER] * (len(self.columns) - 1)]


@dataclass(frozen=True)
class Figure:
    """A drawing, picture or film, as HTML, below its legend: colours, by their class, and what is drawn in them."""

    body: str
    caption: str = ""
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False
    """Scrolled rather than shrunk on a narrow screen."""

    def html(self) -> str:
        keys = "".join(f'<span class="key {css}"></span>{escape(text)} ' for css, text in self.legend)
        drawn = self.body + (f"<figcaption>{inline(self.caption)}</figcaption>" if self.caption else "")
        legend = _element("p", keys, "legend") if keys else ""
        return legend + (_element("figure", drawn, "scroll" if self.wide else "") if drawn else "")


class Group:
    """Parts in an element of their own, such as two figures side by side."""

    tag = "div"

    def __init__(self, *parts: Any, css: str = "pair"):
        self.parts, self.css = parts, css

    def inner(self) -> str:
        return "\n".join(_html(part) for part in self.parts if part).strip()

    def html(self) -> str:
        inner = self.inner()
        return _element(self.tag, self.title() + inner, self.css, self.more()) if inner else ""

    def title(self) -> str:
        return ""

    def more(self) -> str:
        """Further attributes of the element."""
        return ""

    def markdown(self) -> str:
        return "\n\n".join(filter(None, (_markdown(part) for part in self.parts if part)))


class Section(Group):
    """Parts under a title, with ``aside`` beside it."""

    tag = "section"

    def __init__(self, title: str, *parts: Any, aside: str = ""):
        super().__init__(*parts, css="")
        self.name, self.aside = title, aside

    def title(self) -> str:
        beside = f' <span class="muted">{escape(self.aside)}</span>' if self.aside else ""
        return f"<h2>{inline(self.name)}{beside}</h2>" if self.name else ""

    def more(self) -> str:
        return f' id="{place(self.name)}"' if self.name and self.tag == "section" else ""

    def markdown(self) -> str:
        inner = super().markdown()
        return f"## {plain(self.name)}\n\n{inner}" if inner and self.name else inner


class Folded(Section):
    """Parts that are opened on demand."""

    tag = "details"

    def title(self) -> str:
        return f"<summary>{inline(self.name)}</summary>"


class Drawer(Section):
    """A section that is opened on demand: its title is a line of the page."""

    tag = "details"

    def html(self) -> str:
        inner = self.inner()
        opened = f'<div id="{place(self.name)}">{inner}</div>'  # a browser opens what a link leads into
        return _element(self.tag, self.title() + opened, "drawer") if inner else ""

    def title(self) -> str:
        return f"<summary>{super().title()}</summary>"


class Head(Group):
    """The card on top; ``css`` is "pass", "fail" or "plain"."""

    tag = "header"

    def __init__(self, kicker: str, title: str, about: str, *parts: Any, css: str = "plain"):
        super().__init__(*parts, css=css)
        self.kicker, self.name, self.about = kicker, title, about

    def html(self) -> str:
        title = Text(self.kicker, "kicker").html() + f"<h1>{inline(self.name)} <span>{inline(self.about)}</span></h1>"
        return _element(self.tag, title + self.inner(), self.css)

    def markdown(self) -> str:
        return f"# {plain(self.name)} {plain(self.about)}\n\n{plain(self.kicker)}\n\n{super().markdown()}"


class Contents:
    """Links to the sections of a page that come after it."""

    def __init__(self, sections: Iterable[Any]):
        self.names = [each.name for each in sections if isinstance(each, Section) and each.name and each.inner()]

    def html(self) -> str:
        links = "".join(f'<a href="#{place(name)}">{inline(name)}</a>' for name in self.names)
        return f"<nav>{links}</nav>" if links else ""


def place(name: str) -> str:
    """The name of a section in a link."""
    return "-".join(re.findall("[a-z0-9]+", name.lower()))


class Report(Group):
    """A page that stands alone and needs no network. ``styles`` are further style sheets."""

    def __init__(self, title: str, *sections: Any, styles: Iterable[str] = ()):
        super().__init__(*sections)
        self.name, self.styles = title, styles

    def drawings(self) -> dict[str, str]:
        """Every drawing as a file of its own, by a name: SVG that needs no page, in the colours of a light one."""
        style = _style().partition("@media (prefers-color-scheme")[0] + "".join(_style().partition("* {")[1:])
        found: dict[str, str] = {}
        for section in self.parts:
            bodies = [svg for figure in _figures(section) for svg in SVG.findall(figure.body)]
            for number, body in enumerate(bodies, 1):
                name = f"{place(getattr(section, 'name', '') or 'page')}-{number}.svg"
                found[name] = body.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
                    ">", f"><style>{escape(style, quote=False)}</style>", 1
                )
        return found

    def html(self) -> str:
        house = _style()
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f"<title>{escape(self.name)}</title>\n<style>\n{''.join([house, *self.styles])}</style>\n</head>\n<body>\n"
            f"<main>\n{self.inner()}\n</main>\n</body>\n</html>\n"
        )


POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data: file: 'self'"
"""A page runs nothing and fetches nothing but a film beside it, whatever stands in the texts of others."""


def repeat(
    command: str, text: str, hashes: Mapping[str, str] | None = None, software: Mapping[str, str] | None = None
) -> Section:
    """Section that tells how to make the same page again."""
    versions = ", ".join(f"{name} {value}" for name, value in (software or {}).items())
    return Section("To repeat this", Text(command, tag="pre"), note(text), hashes, note(versions, "muted"))


def _style() -> str:
    return (files(__package__) / "pages.css").read_text("utf-8")


def _figures(part: Any) -> list[Figure]:
    """Figures within a part, in their order."""
    if isinstance(part, Figure):
        return [part]
    return list(itertools.chain.from_iterable(map(_figures, part.parts))) if isinstance(part, Group) else []


def _html(part: Any) -> str:
    if isinstance(part, str):
        return Text(part).html()
    if isinstance(part, Mapping):
        return _element("dl", "".join(f"<dt>{escape(k)}</dt><dd>{inline(v)}</dd>" for k, v in part.items()))
    if isinstance(part, Sequence):
        return _element("ul", "".join(f"<li>{inline(text)}</li>" for text in part))
    return str(part.html())


def _markdown(part: Any) -> str:
    if isinstance(part, str):
        return plain(part)
    if isinstance(part, Mapping):
        part = [f"{name}: {text}" for name, text in part.items()]
    if isinstance(part, Sequence):
        return "\n".join(f"- {plain(text)}" for text in part)
    return str(getattr(part, "markdown", str)())


def _element(tag: str, inner: str, css: str = "", more: str = "") -> str:
    css = " ".join(css.split())
    attributes = f' class="{css}"{more}' if css else more
    return f"<{tag}{attributes}>{inner}</{tag}>"
