"""Parts of the pages that a reader can type or follow: commands, snippets, options, links, each with page and line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from markdown_it import MarkdownIt
from markdown_it.token import Token
from tree import ROOT

DOCS = sorted(
    str(path.relative_to(ROOT)) for folder in ("docs", "docs/benchmarks") for path in (ROOT / folder).glob("*.md")
)
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", *DOCS)

PROGRAM = re.compile(
    r"(\$ )?([./\w]*/)?(gaitway|make|python3?|pip|isaaclab(\.sh)?|torchrun|source|ip|ping|ssh|apt|git|docker|mike)\s"
)
"""Beginning of a line to be typed, in a block or in a sentence."""
SYNOPSIS = re.compile(r"(^|\s)\[|\.\.\.|\b[A-Z]+\|[A-Z]|\||<run>")
"""Marks of a pattern of commands, which nobody types as it is."""


@dataclass(frozen=True)
class Command:
    page: str
    line: int
    text: str
    refusal: str = ""
    """Refusal that a transcript shows for the command."""
    in_sentence: bool = False
    """It may be mentioned without what it cannot do without."""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def is_synopsis(self) -> bool:
        unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "''", self.text)
        return SYNOPSIS.search(unquoted) is not None

    @property
    def words(self) -> list[str]:
        """As a shell splits them, without redirections and the program's folder."""
        words = shlex.split(re.sub(r"\s[<>]\s*\S+", "", self.text), comments=True)
        program = words[0].rpartition("/")[2]
        if program.startswith("python") and words[1:3] == ["-m", "gaitway"]:
            return ["gaitway", *words[3:]]
        return [program, *words[1:]]


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def tokens(page: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text("utf-8"))


def inline(page: str) -> Iterator[tuple[int, Token]]:
    """The parts of sentences, tables and headings, with the line of their paragraph."""
    for token in tokens(page):
        for child in token.children or ():
            assert token.map is not None
            yield token.map[0] + 1, child


def blocks(page: str) -> Iterator[Snippet]:
    """Fenced and indented blocks; ``line`` is that of their first line of text."""
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            yield Snippet(page, token.map[0] + (2 if token.type == "fence" else 1), token.info.strip(), token.content)


def block_commands(page: str) -> Iterator[Command]:
    """Typed lines of a page, without the printed ones. Raises ValueError for a line that is neither."""
    for block in blocks(page):
        lines = block.text.splitlines()
        if block.language or not any(PROGRAM.match(f"{line} ") for line in lines):
            continue
        transcript = any(line.startswith("$ ") for line in lines)
        typed: list[tuple[int, str]] = []
        refusals: dict[int, str] = {}
        printed = False
        for number, line in enumerate(lines, block.line):
            if PROGRAM.match(f"{line} "):
                typed.append((number, line.removeprefix("$ ")))
                printed = False
            elif not line.strip() or line.startswith("#"):
                printed = printed or not line.strip()
            elif typed and line.startswith(" ") and not printed:
                typed[-1] = typed[-1][0], f"{typed[-1][1].rstrip(chr(92))} {line.strip()}"
            elif line.startswith("gaitway: ") and typed:
                refusals[typed[-1][0]] = line.removeprefix("gaitway: ")
            elif not (printed or transcript):
                raise ValueError(
                    f"{page}:{number}: {line!r} is no command that is known here: see PROGRAM in {__file__}"
                )
        for number, text in typed:
            for part in re.split(r"\s#\s", text)[0].split(" && "):
                yield Command(page, number, part.strip(), refusals.get(number, ""))


def inline_commands(page: str) -> Iterator[Command]:
    """Commands that stand in a sentence or a table."""
    for line, token in inline(page):
        if token.type == "code_inline" and PROGRAM.match(token.content) and re.search(r"\s\S", token.content):
            yield Command(page, line, " ".join(token.content.split()), in_sentence=True)


def help_commands() -> Iterator[Command]:
    """The examples that ``gaitway COMMAND --help`` shows."""
    from gaitway import cli

    modules = {"gaitway --help": cli}
    for name in cli.COMMANDS:
        modules[f"gaitway {name.strip('_').replace('_', '-')} --help"] = import_module(f"gaitway.commands.{name}")
    for page, module in modules.items():
        for number, line in enumerate(str(module.__doc__).splitlines(), 1):
            if line.startswith("  gaitway "):
                yield Command(page, number, re.sub(r"\s+#\s.*", "", line.strip()))


def anchors(page: str) -> set[str]:
    """The names that a link may go to within a page, as GitHub makes them from headings."""
    found, opened = [], False
    for token in tokens(page):
        if opened:
            plain = "".join(child.content for child in token.children or ())
            found.append(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
        opened = token.type == "heading_open"
    return set(found)
