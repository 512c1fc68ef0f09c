"""One small bundle for all tests of the hub, and a folder where it is published."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from once import made_once
from published_bundle import make_bundle

from gaitway.hub.folder import FolderPlace
from gaitway.hub.transfer import push


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only: use ``bundle`` to change something."""

    def make(folder: Path) -> None:
        make_bundle(folder / "bundle")
        push(folder / "bundle", FolderPlace(folder / "shelf" / "stand"))

    return made_once(tmp_path_factory, "published", make)


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "bundle", tmp_path / "bundle"))


@pytest.fixture
def shelf(made: Path, tmp_path: Path) -> Path:
    """A folder of published bundles: one, ``stand``."""
    return Path(shutil.copytree(made / "shelf", tmp_path / "shelf"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of pulled bundles."""
    monkeypatch.setenv("GAITWAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "bundles"
