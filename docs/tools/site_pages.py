"""Hook of MkDocs: pages of the site that are no files of docs/, and links that work here as they do on a code host.

The README is the site's first page and docs/index.md its list of pages. Files of the repository that a page links to,
such as a benchmark, become pages with their text. Each robot has a page, and so has each public module.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel

sys.path.insert(0, str(Path(__file__).parent))
import browser_robot
import fetch_scripts
import licences
import public_api
import robot_pages

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
LANGUAGES = {".py": "python", ".xml": "xml", ".toml": "toml", ".yaml": "yaml", ".json": "json", ".md": "markdown"}
PAGE_BYTES = 400_000
"""Longest file that is shown."""
NOT_SEARCHED = "---\nsearch: {exclude: true}\n---\n"

_page_of: dict[str, str] = {}
"""Page of the site, by path in the repository."""
_origin: dict[str, str] = {}
"""Path in the repository, by page of the site."""


def on_config(config: Any) -> Any:
    """Navigation to the generated pages, diagrams if Mermaid is here, and anchors as code hosts make them."""
    project = config.nav.pop()
    robots = [{robot_pages.title(name): f"robots/{name}.md"} for name in robot_pages.names()]
    reference = [
        {group: [{module: f"api/{module}.md"} for module in modules]} for group, modules in public_api.GROUPS.items()
    ]
    config.nav += [{"Robots": robots}, {"Reference": ["api/index.md", *reference]}, project]
    config.mdx_configs["toc"]["slugify"] = slug
    config.copyright = f"Gaitway {version()}, BSD 3-Clause License"
    if "MIKE_DOCS_VERSION" in os.environ:  # set by mike, which lays versions beside each other
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    if fetch_scripts.is_there("mermaid"):
        config.mdx_configs["pymdownx.superfences"] = {
            "custom_fences": [{"name": "mermaid", "class": "mermaid", "format": _diagram}]
        }
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is generated; ``files`` has those of docs/."""
    _page_of.clear()
    _origin.clear()
    for path, page in config.extra["elsewhere"].items():
        if (old := files.get_file_from_path(page)) is not None:
            files.remove(old)
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
        _enter(path, page)
    for file in files.documentation_pages():
        if file.src_uri not in _origin:
            _enter(f"docs/{file.src_uri}", file.src_uri)
    for file in list(files.documentation_pages()):
        for path in sorted(_linked(file.content_string, _origin[file.src_uri])):
            _show(path, files, config)
    for name in robot_pages.names():
        _add(f"robots/{name}.md", robot_pages.page(name), files, config)
    _add("api/index.md", public_api.index(), files, config)
    for module in public_api.modules():
        _add(f"api/{module}.md", public_api.page(module), files, config)
    for path, content in [*fetch_scripts.files(), *licences.files(), *_robot_to_drive()]:
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page with links that are relative to where its file lies in the site."""
    markdown = markdown.replace(robot_pages.MARK, robot_pages.cards())
    if licences.MARK in markdown:
        markdown = markdown.replace(licences.MARK, licences.table())
    origin = _origin.get(page.file.src_uri)
    if origin is None:
        return markdown
    return _indented(_outside_code(markdown, lambda text: LINK.sub(_relinked(origin, page), text)))


def on_page_content(content: str, **_: Any) -> str:
    """Docstrings without the marks that only Sphinx reads, and tables with heads of their rows."""
    content = re.sub(r"<table>\n<thead>.*?</table>", lambda found: _row_heads(found[0]), content, flags=re.DOTALL)
    return re.sub(r":(?:class|func|meth|mod|attr|data):(?=<code>)", "", content).replace("::</p>", ":</p>")


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Scripts of the few pages that need one; no page fetches anything from another server. The search has a name."""
    search = 'data-md-component="search" role="dialog"'
    output = output.replace(search, f'{search} aria-label="Search"', 1)
    if '<pre class="mermaid">' in output:
        source = posixpath.relpath("scripts/mermaid/mermaid.js", page.url or ".")
        output = output.replace("</body>", f'<script src="{source}"></script></body>')
    return output


def _row_heads(table: str) -> str:
    """A table with heads of its rows, where its first column has none itself; Markdown cannot say so.

    A head of the table that is empty goes.
    """
    head, end, body = table.partition("</thead>")
    cells = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", head, re.DOTALL)
    if cells[0]:
        return table
    body = re.sub(r"(<tr>\n)<td([^>]*)>(.*?)</td>", r'\1<th scope="row"\2>\3</th>', body, flags=re.DOTALL)
    return f"{head}{end}{body}" if any(cells) else f"<table>\n{body.lstrip()}"


def _robot_to_drive() -> Iterator[tuple[str, bytes]]:
    """Files of the page that drives a robot; none where its scripts are not, since it cannot use them."""
    if fetch_scripts.is_there("mujoco", "onnxruntime", "three"):
        for name, content in browser_robot.files().items():
            yield f"drive/{name}", content
        for name in ("controls.css", "controls.js"):
            yield f"drive/{name}", (ROOT / "gaitway/view" / name).read_bytes()


def version() -> str:
    """Gaitway's version, without importing it."""
    return re.search(r'__version__ = "(.+)"', (ROOT / "gaitway/__init__.py").read_text("utf-8"))[1]


def slug(heading: str, separator: str) -> str:
    """Anchor of a heading as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def _diagram(source: str, language: str, css_class: str, options: Any, md: Any, **kwargs: Any) -> str:
    source = source.replace("flowchart LR", "flowchart TB", 1)  # a page is higher than wide
    return f'<pre class="mermaid"><code>{html.escape(source)}</code></pre>'


def _enter(path: str, page: str) -> None:
    _page_of[path], _origin[page] = page, path


def _add(page: str, content: str, files: Any, config: Any, **options: Any) -> None:
    files.append(File.generated(config, page, content=content, **options))


def _target(link: str, origin: str) -> str | None:
    """Path in the repository that a link of the file ``origin`` leads to; None for anchors and other servers."""
    path = link.split("#")[0]
    if not path or "://" in link or link.startswith("mailto:"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))


def _linked(markdown: str, origin: str) -> set[str]:
    """Files and folders outside the site that a page links to."""
    found: set[str] = set()
    _outside_code(markdown, lambda text: found.update(_target(link[1], origin) for link in LINK.findall(text)) or text)
    return {path for path in found if path and path not in _page_of and not _in_site(path) and (ROOT / path).exists()}


def _in_site(path: str) -> bool:
    return path.startswith("docs/images/")


def _show(path: str, files: Any, config: Any) -> None:
    """Add a page with the text of a file, or with the names of a folder's files."""
    if path in _page_of:
        return
    place = ROOT / path
    _page_of[path] = f"files/{path}.md"
    if place.is_dir():
        inside = sorted(found.name for found in place.iterdir() if not found.name.startswith((".", "__pycache__")))
        for name in inside:
            _show(f"{path}/{name}", files, config)
        body = "\n".join(f"- [`{name}`]({posixpath.basename(path)}/{name}.md)" for name in inside)
    else:
        text = place.read_text("utf-8")
        if len(text) > PAGE_BYTES:
            raise ValueError(f"{path} is linked to by a page and has {len(text)} characters: link to a smaller file")
        fence = "`" * 4
        body = f"{fence}{LANGUAGES.get(place.suffix, 'text')}\n{text}\n{fence}"
    content = f"{NOT_SEARCHED}# `{path}`\n\n{body}\n"
    _add(_page_of[path], content, files, config, inclusion=InclusionLevel.NOT_IN_NAV)


def _relinked(origin: str, page: Any) -> Callable[[re.Match[str]], str]:
    """Replacement of a link in the file ``origin``: where its target is in the site."""

    def replace(found: re.Match[str]) -> str:
        path = _target(found[2], origin)
        if path is None:
            return found[0]
        if path in _page_of:
            to = _page_of[path]
        elif path.startswith("docs/"):
            to = path.removeprefix("docs/")
        else:
            return found[0]  # MkDocs names the page and the link
        anchor = found[2][len(found[2].split("#")[0]) :]
        return f"{found[1]}{posixpath.relpath(to, posixpath.dirname(page.file.src_uri) or '.')}{anchor}{found[3]}"

    return replace


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Lines, and whether each belongs to a fenced block."""
    fence = ""
    for line in markdown.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        ends = mark is not None and (not fence or mark[1].startswith(fence))
        yield line, bool(fence or ends)
        if mark is not None and ends:
            fence = "" if fence else mark[1]


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """``change`` applied to each line outside of fences."""
    return "\n".join(line if code else change(line) for line, code in _lines(markdown))


def _indented(markdown: str) -> str:
    """Continuation of a list item, indented by four spaces: Python-Markdown wants them, code hosts do not."""
    done, width = [], 0
    for line, code in _lines(markdown):
        mark = None if code else re.match(r"([-*+]|\d+\.) +", line)
        if mark:
            if width and done[-1].startswith("    "):
                done.append("")
            width = len(mark[0])
        elif width and line.startswith(" " * width):
            line = " " * (4 - width) + line
        elif line.strip():
            width = 0
        done.append(line)
    return "\n".join(done)
