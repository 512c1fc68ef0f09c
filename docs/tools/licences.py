"""Licences of others' scripts in the site: a table for its page, and their texts as files beside it.

The texts come from the npm packages. MuJoCo's and ONNX Runtime's have none: theirs, with the notices of what they are
made of, come from the Python packages of the same projects. So do those of the site's theme.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import PurePosixPath

import fetch_scripts

MARK = "<!-- a row for each script -->"
"""Place of :func:`table` in the page."""
FOLDER = "scripts/licences"
FROM_PYTHON = {"mujoco": "mujoco", "onnxruntime": "onnxruntime"}
"""Python packages with the texts, by the npm package's name in :mod:`fetch_scripts`."""
THEME = ("mkdocs-material", "mkdocs")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Code of others in the site."""

    name: str
    licence: str
    texts: dict[str, bytes]
    """By the file's name."""
    origin: str


class NoText(Exception):
    """A package without the text of its licence."""


def parts() -> Iterator[Part]:
    """Code that this site has; scripts that were not fetched are left out."""
    for name, package in fetch_scripts.PACKAGES.items():
        if not fetch_scripts.is_there(name):
            continue
        kept = dict(fetch_scripts.kept(name))
        licence = json.loads(kept["package.json"])["license"]
        if name in FROM_PYTHON:
            texts, origin = _python_texts(FROM_PYTHON[name])
        else:
            texts, origin = {"LICENSE": kept["LICENSE"]}, package.name
        yield Part(name=package.name, licence=licence, texts=texts, origin=origin)
    for name in THEME:
        texts, origin = _python_texts(name)
        found = distribution(name).metadata
        licence = found.get("License-Expression") or found.get("License") or "see the text"
        yield Part(name=origin, licence=licence.splitlines()[0], texts=texts, origin=origin)


def files() -> Iterator[tuple[str, bytes]]:
    """The texts: names in the site, and contents."""
    for part in parts():
        for name, text in part.texts.items():
            yield _place(part, name), text


def table() -> str:
    """Rows of all parts."""
    lines = ["| script | licence | texts | from |", "|---|---|---|---|"]
    for part in parts():
        links = ", ".join(f'<a href="../{_place(part, name)}">{PurePosixPath(name).stem}</a>' for name in part.texts)
        lines.append(f"| `{part.name}` | {part.licence} | {links} | `{part.origin}` |")
    return "\n".join(lines)


def _place(part: Part, name: str) -> str:
    folder = re.sub(r"[^\w.]+", "-", part.name).strip("-")
    return f"{FOLDER}/{folder}/{PurePosixPath(name).stem}.txt"


def _python_texts(name: str) -> tuple[dict[str, bytes], str]:
    """Texts in an installed package, and its name with the version."""
    found = distribution(name)
    # Deeper ones are those of parts that this site does not have, such as sets of icons.
    near = [path for path in found.files or [] if len(path.parts) <= 3 and path.suffix in ("", ".txt", ".md")]
    texts = {path.name: path.locate().read_bytes() for path in near if path.name.startswith(("LICENSE", "ThirdParty"))}
    if not texts:
        raise NoText(f"{name} {found.version} has no text of its licence: add where it lies to {__file__}")
    return texts, f"{name} {found.version}"
