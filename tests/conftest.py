"""Shared by all tests: one thread, and the same examples every time."""

import ctypes
import functools
import gc
import os
import sys
from pathlib import Path

import pytest
import torch
from costs import Costs, resident_megabytes
from dds_domain import dds_domain  # noqa: F401
from gaitway_files import trust
from gaitway_onboard import realtime
from gaitway_tasks.robots import known
from hypothesis import settings

torch.set_num_threads(1)
gc.set_threshold(5_000, 10, 10)  # at the usual 700 a fifteenth of the suite's time went into looking for garbage
settings.register_profile("gaitway", deadline=None, derandomize=True)
settings.load_profile("gaitway")

realtime.LOCK_CURRENT_AND_FUTURE |= 4  # MCL_ONFAULT: a worker has reserved gigabytes that locking would fill


@pytest.fixture(autouse=True)
def _fixed_seed_and_one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _robots_named_by_one_test(monkeypatch):
    """A robot of a test's own module is not known to the next test."""
    monkeypatch.setattr(known, "_named", {})


@pytest.fixture(autouse=True)
def _modules_trusted_by_one_test(monkeypatch):
    """A module that a test trusts is not trusted in the next test."""
    monkeypatch.setattr(trust, "_trusted", set(trust._trusted))


def pytest_configure(config):
    if (path := os.environ.get("GAITWAY_TEST_COSTS")) is not None:
        config.pluginmanager.register(Costs(Path(path).absolute()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m slow``, files without such a test are not imported: all together take 18 CPU-seconds and 900 MB."""
    if config.option.markexpr != "slow" or collection_path.suffix != ".py":
        return None
    marked = (collection_path, collection_path.with_name("conftest.py"))  # whose parameters may have marks
    return None if any(path.exists() and "mark.slow" in path.read_text() for path in marked) else True


def pytest_collection_finish():
    """Exempt the objects that modules made on import from garbage collection: they stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Tell :mod:`benchmarks.hostile` which table an attack belongs to."""
    if (mark := item.get_closest_marker("hostile")) is not None:
        item.user_properties.append(("hostile", mark.args[0]))
    _read_operators_once()


def _read_operators_once():
    """PyTorch's exporter parses the source of 500 ONNX operators for each graph: a third of the time of an export."""
    registration = sys.modules.get("torch.onnx._internal.exporter._registration")
    operators = registration and getattr(registration.onnxscript_apis, "_module", None)  # once a test has exported
    if operators and not hasattr(operators.get_torchlib_ops, "cache_info"):
        operators.get_torchlib_ops = functools.cache(operators.get_torchlib_ops)


held = 0.0
"""Memory of this process [MB] when garbage was last looked for between modules, which takes half a second."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Between modules, memory that is free but kept for later goes back to the system."""
    global held
    if nextitem is None or nextitem.path != item.path:
        if resident_megabytes() > held + 150.0:
            gc.collect()
            held = resident_megabytes()
        ctypes.CDLL(None).malloc_trim(0)
