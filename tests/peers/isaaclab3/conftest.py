"""Real Isaac Lab 3.0 on a CPU, on Newton and on PhysX. Collected only where its wheel is installed."""

import os
import tempfile
from importlib import metadata
from pathlib import Path

import pytest

try:
    IS_HERE = metadata.version("isaaclab").startswith("3.")
except metadata.PackageNotFoundError:
    IS_HERE = False
if not IS_HERE:
    collect_ignore_glob = ["test_*.py"]


def pytest_generate_tests(metafunc):
    """Each test that takes ``physics`` runs on both engines; ``-m "not newton"`` leaves the slow one out."""
    if "physics" in metafunc.fixturenames:
        metafunc.parametrize("physics", ["physx", pytest.param("newton", marks=pytest.mark.newton)], scope="session")


ASSETS = tempfile.TemporaryDirectory(prefix="isaac_assets_")
os.environ["ISAACSIM_ASSET_ROOT"] = ASSETS.name  # before a test module imports Isaac Lab, which reads it then


@pytest.fixture(scope="session")
def lab():
    """:mod:`kitless`, with its assets in place."""
    import kitless

    kitless.use_local_assets(Path(ASSETS.name))
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
