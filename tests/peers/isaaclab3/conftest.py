"""Real Isaac Lab 3.0, Newton on the CPU. Run where ISAACLAB3_PATH names its source tree, skipped elsewhere."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = os.environ.get("ISAACLAB3_PATH")


def pytest_collection_modifyitems(items):
    if not SOURCE:
        reason = "Isaac Lab 3.0 is not here: set ISAACLAB3_PATH to its source tree and run make test-isaaclab3"
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


if SOURCE:
    packages = sorted((Path(SOURCE) / "source").glob("isaaclab*"))
    if not packages:
        raise pytest.UsageError(f"ISAACLAB3_PATH={SOURCE} is no Isaac Lab source tree: it has no source/isaaclab")
    sys.path[:0] = [str(package) for package in packages]


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """:mod:`kitless`, with its assets in place."""
    import kitless

    kitless.use_local_assets(tmp_path_factory.mktemp("assets"))
    return kitless


@pytest.fixture
def make(lab):
    """Makes environments from configurations, one at a time, and closes the last."""
    made = []

    def make_env(cfg):
        while made:
            made.pop().close()
        made.append(lab.make_env(cfg))
        return made[-1]

    yield make_env
    while made:
        made.pop().close()
