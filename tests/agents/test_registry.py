"""One row makes an algorithm: what rows name exists, and an algorithm from outside trains by the command."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from gaitway_agents import registry
from gaitway_agents.registry import ENVIRONMENTS, TEXTS, load

HERE = Path(__file__).parent
ROWS = [*ENVIRONMENTS.values(), *TEXTS.values()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_a_row_names_exists(row):
    assert isinstance(load(row.trainer), type) and dataclasses.is_dataclass(load(row.config))
    assert type(row.defaults()) is load(row.config)
    assert (row.fields == ()) == (row in ENVIRONMENTS.values())


def test_no_two_agents_share_a_name_but_ppo():
    assert set(ENVIRONMENTS) & set(TEXTS) == {"ppo"}
    assert list(registry.algorithms()) == list(dict.fromkeys(row.name for row in ROWS))


def test_the_registry_is_light():
    code = "import sys, gaitway_agents.registry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "gymnasium", "numpy"} & set(loaded)
    assert {name for name in loaded if name.startswith("gaitway_agents.")} == {"gaitway_agents.registry"}


COMMAND = """
import sys
from gaitway_agents.registry import ENVIRONMENTS, Algorithm

ENVIRONMENTS["coin"] = Algorithm(
    name="coin", summary="tosses a coin", trainer="coin_agent:CoinTrainer", config="coin_agent:CoinConfig",
    actions=("Discrete",),
)
from gaitway.cli import main

sys.exit(main(sys.argv[1:]))
"""


def command(*words):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words)], capture_output=True, text=True, cwd=HERE, timeout=600
    )


@pytest.mark.slow
def test_an_algorithm_is_one_file_and_one_row(tmp_path):
    sizes = ["num_envs=4", "total_steps=400", "evaluation_episodes=2", "agent.bias=0.6"]
    done = command("train", "cartpole", "--agent", "coin", "--out", tmp_path / "run", "--quiet", *sizes)
    assert done.returncode == 0, done.stderr
    assert "over 2 deterministic episodes" in done.stdout
    config = (tmp_path / "run/config.yaml").read_text()
    assert "algorithm: coin" in config and "kind: CoinConfig" in config and "bias: 0.6" in config
    again = command("train", "cartpole", "--agent", "coin", "--out", tmp_path / "run", "--resume", "total_steps=800")
    assert again.returncode == 0 and "finished: 800 steps" in again.stdout, again.stderr
    listed = command("list", "agents").stdout
    assert "coin" in listed and "tosses a coin" in listed
    refused = command("train", "pendulum", "--agent", "coin", "--out", tmp_path / "other")
    assert refused.returncode == 2 and "agent 'coin' cannot act in Box" in refused.stderr
    wrong = command("train", "cartpole", "--agent", "coin", "agent.side=1", "--out", tmp_path / "other")
    assert wrong.returncode == 2 and "unknown key 'agent.side'" in wrong.stderr
