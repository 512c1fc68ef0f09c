"""One run of each kind, shared by the tests that look at what such a run can be used for."""

import pytest
from language_runs import RL, SFT, train


@pytest.fixture(scope="session")
def sft(tmp_path_factory):
    return train("arithmetic", "--agent", "sft", *SFT, out=tmp_path_factory.mktemp("runs") / "sft")


@pytest.fixture(scope="session")
def grpo(sft, tmp_path_factory):
    return train(
        "arithmetic", "--agent", "grpo", "--model", sft, *RL, "evaluation_interval=32",
        out=tmp_path_factory.mktemp("runs") / "grpo",
    )  # fmt: skip
