"""The documentation site has every page once, and a picture of every robot. ``make site`` checks the links."""

from __future__ import annotations

import ast
import json
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from gaitway_tasks.robots.known import own

from .checks import check
from .pages import ROOT, Command

sys.path.append(str(ROOT / "docs/tools"))
import fetch_scripts
import licences
import public_api
import robot_pages

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


def source(module: str) -> Path:
    """File of a module of ours."""
    folders = [ROOT / folder for folder in SITE["plugins"][1]["mkdocstrings"]["handlers"]["python"]["paths"]]
    names = [f"{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py")]
    return next(folder / name for folder in folders for name in names if (folder / name).is_file())


def without_docstring(node: ast.AST, name: str) -> Iterator[str]:
    """Public classes, functions and methods of a module or class that say nothing of themselves."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.ClassDef, ast.FunctionDef)) and not inner.name.startswith("_"):
            if not ast.get_docstring(inner) and "overload" not in map(ast.unparse, inner.decorator_list):
                yield f"{name}.{inner.name}"
            if isinstance(inner, ast.ClassDef):
                yield from without_docstring(inner, f"{name}.{inner.name}")


def exported(tree: ast.Module) -> set[str]:
    """Names in ``__all__``."""
    found = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return set(ast.literal_eval(found[0])) if found else set()


@pytest.mark.parametrize("module", list(public_api.modules()))
def test_public_names_have_docstrings(module):
    file = source(module)
    tree = ast.parse(file.read_text("utf-8"))
    missing = [*([] if ast.get_docstring(tree) else [module]), *without_docstring(tree, module)]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            names = {alias.name for alias in node.names} & exported(tree)
            other = ast.parse(source(f"{package}.{node.module}").read_text("utf-8")) if names else ast.Module([], [])
            other.body = [found for found in other.body if getattr(found, "name", "") in names]
            missing += without_docstring(other, f"{package}.{node.module}")
    assert not missing, "give these a docstring: a noun first, shapes, units, errors"


def test_every_robot_has_a_picture():
    pictures = {path.stem for path in (DOCS / "images/robots").glob("*.jpg")}
    assert pictures == set(own()), "draw them with: python docs/tools/draw_robots.py"


def test_the_site_fetches_nothing_from_elsewhere():
    assert SITE["theme"]["font"] is False and SITE["strict"] is True
    texts = [path.read_text("utf-8") for kind in ("css", "js") for path in DOCS.rglob(f"*.{kind}")]
    assert texts and not any("http" in text for text in texts)


@pytest.mark.parametrize("name", list(own()))
def test_commands_of_a_robots_page_are_understood(name):
    page = robot_pages.page(name)
    commands = [line for line in page.splitlines() if line.startswith("gaitway ")]
    assert len(commands) == 4 and all(joint in page for joint in own()[name].robot.joint_names)
    for line, command in enumerate(commands):
        check(Command(page=f"{name}.md", line=line, text=command))


def test_an_archive_with_another_hash_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_scripts, "KEPT", tmp_path / "kept")
    archive = tmp_path / "three.tgz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(__file__, "package/build/three.module.js")
    with pytest.raises(fetch_scripts.WrongArchive, match="three@"):
        fetch_scripts._keep(archive, "three")
    assert not (tmp_path / "kept").exists() and not fetch_scripts.is_there("three")


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Files in the place of fetched ones: one package, whose notice is its own."""
    monkeypatch.setattr(fetch_scripts, "KEPT", tmp_path)
    for file in fetch_scripts.PACKAGES["three"].files.values():
        path = fetch_scripts._folder("three") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"license": "MIT"}) if file == "package.json" else f"of {file}", "utf-8")


def test_scripts_bring_their_licences(scripts, monkeypatch):
    monkeypatch.setattr(licences, "THEME", ("mkdocs",) if find_spec("mkdocs") else ("numpy",))
    part, theme = licences.parts()
    assert (part.name, part.licence, part.texts) == ("three@0.187.0", "MIT", {"LICENSE": b"of LICENSE"})
    assert theme.texts and all(len(text) > 500 for text in theme.texts.values())
    files = dict(licences.files())
    assert files["scripts/licences/three-0.187.0/LICENSE.txt"] == b"of LICENSE"
    assert all(f'href="../{name}"' in licences.table() for name in files)


@pytest.mark.parametrize("name", sorted(licences.FROM_PYTHON.values()))
def test_python_packages_have_the_texts_that_npm_lacks(name):
    texts, origin = licences._python_texts(name)
    assert len(texts) == 2 and b"License" in texts["LICENSE"] and origin.startswith(f"{name} ")


def test_every_script_has_a_text_of_its_licence():
    for name, package in fetch_scripts.PACKAGES.items():
        assert "package.json" in package.files and (name in licences.FROM_PYTHON or "LICENSE" in package.files)
