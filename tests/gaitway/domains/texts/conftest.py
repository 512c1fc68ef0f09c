"""One run of each kind, shared by the tests that look at what such a run can be used for."""

import shutil

import pytest
from language_runs import RL, SFT, train
from once import made_once


def copied(run, factory):
    """A worker's own: tests evaluate runs, which leaves files in them."""
    return shutil.copytree(run, factory.mktemp("runs") / run.name)


@pytest.fixture(scope="session")
def sft(tmp_path_factory):
    def learn(folder):
        train("arithmetic", "--agent", "sft", *SFT, out=folder / "sft")

    return copied(made_once(tmp_path_factory, "run-sft", learn) / "sft", tmp_path_factory)


@pytest.fixture(scope="session")
def grpo(sft, tmp_path_factory):
    def learn(folder):
        train("arithmetic", "--agent", "grpo", "--model", sft, *RL, "evaluation_interval=32", out=folder / "grpo")

    return copied(made_once(tmp_path_factory, "run-grpo", learn) / "grpo", tmp_path_factory)
