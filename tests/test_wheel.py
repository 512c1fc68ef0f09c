"""Wheel and source archive, built as a release is, and read."""

import io
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
NOTICES = ("LICENSE", "THIRD_PARTY_LICENSES")


MOST_BYTES = {".whl": 5_000_000, ".gz": 8_000_000}
"""The wheel goes to robots and over slow networks; the source archive has the films of the documentation too."""


def build(source: Path, folder: Path) -> dict[str, bytes]:
    """The archives of a release, by name."""
    asked = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(asked, cwd=source, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, bytes]:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built):
    """Content by name."""
    with zipfile.ZipFile(io.BytesIO(built[f"gaitway-{version()}-py3-none-any.whl"])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_both_archives_are_small(built):
    assert set(built) == {f"gaitway-{version()}-py3-none-any.whl", f"gaitway-{version()}.tar.gz"}
    sizes = {name: len(content) for name, content in built.items()}
    assert [name for name, size in sizes.items() if size > MOST_BYTES[Path(name).suffix]] == [], sizes


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_there_with_all_its_files_and_types(wheel, package):
    folder = ROOT / package
    files = {path for path in folder.rglob("*.*") if path.is_file() and path.suffix not in (".pyc", ".pth")}
    assert {path.relative_to(folder.parent).as_posix() for path in files} <= wheel.keys()
    assert f"{folder.name}/py.typed" in wheel


def test_the_licences_are_there(wheel):
    for name in NOTICES:
        assert wheel[f"gaitway-{version()}.dist-info/licenses/{name}"] == (ROOT / name).read_bytes()
    metadata = wheel[f"gaitway-{version()}.dist-info/METADATA"].decode()
    assert all(f"\nLicense-File: {name}\n" in metadata for name in NOTICES)
    models = [name for name in wheel if name.startswith("gaitway_tasks/robots/") and name.endswith(".xml")]
    assert len(models) >= 10
    assert all(f"{model.rpartition('/')[0]}/LICENSE" in wheel for model in models)


def test_nothing_else_is_there(wheel):
    """Tests, pages and tools stay in the repository."""
    roots = {name.split("/")[0] for name in wheel}
    names = {Path(package).name for package in PACKAGES}
    assert roots == {*names, "gaitway_gymnasium_plugin.pth", f"gaitway-{version()}.dist-info"}


def test_the_source_archive_is_the_repository(built):
    """Whoever packages it can run its tests."""
    with tarfile.open(fileobj=io.BytesIO(built[f"gaitway-{version()}.tar.gz"])) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no checkout of git")
    assert {name for name in listed.stdout.splitlines() if (ROOT / name).exists()} <= names


def test_the_source_archive_builds_the_same_bytes(built, tmp_path):
    """In another folder, later, with other rights of files, and from the archive of that build again."""
    with tarfile.open(fileobj=io.BytesIO(built[f"gaitway-{version()}.tar.gz"])) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"gaitway-{version()}"
    for path in source.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path)
    assert build(source, tmp_path / "dist") == built


def version() -> str:
    import gaitway

    return gaitway.__version__
