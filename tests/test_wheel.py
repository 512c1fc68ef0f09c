"""Wheel and source archive, built as a release is, and read."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
NOTICES = ("LICENSE", "THIRD_PARTY_LICENSES")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    asked = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(asked, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """Content by name."""
    (path,) = built.glob("gaitway-*-py3-none-any.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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


def test_the_source_archive_has_licences_changes_and_tests(built):
    (path,) = built.glob("gaitway-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    robots = (ROOT / "tasks/gaitway_tasks/robots").glob("*/LICENSE")
    asked = {*NOTICES, "README.md", "CHANGELOG.md", "pyproject.toml", "docs/index.md", "tests/test_wheel.py"}
    assert asked | {robot.relative_to(ROOT).as_posix() for robot in robots} <= names


def version() -> str:
    import gaitway

    return gaitway.__version__
