"""Shared by all tests: one thread, and the same examples every time."""

import os
from pathlib import Path

import pytest
import torch
from costs import Costs
from dds_domain import dds_domain  # noqa: F401
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("gaitway", deadline=None, derandomize=True)
settings.load_profile("gaitway")


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


def pytest_configure(config):
    if (path := os.environ.get("GAITWAY_TEST_COSTS")) is not None:
        config.pluginmanager.register(Costs(Path(path).absolute()))


def pytest_runtest_setup(item):
    """Tell :mod:`benchmarks.hostile` which table an attack belongs to."""
    if (mark := item.get_closest_marker("hostile")) is not None:
        item.user_properties.append(("hostile", mark.args[0]))
