"""One row makes an algorithm: what rows name exists, and an algorithm from outside trains by the command."""

import dataclasses
import json
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


COMMANDS = """
import contextlib, io, json, sys
from gaitway_agents.registry import ENVIRONMENTS, Algorithm

ENVIRONMENTS["coin"] = Algorithm(
    name="coin", summary="tosses a coin", trainer="coin_agent:CoinTrainer", config="coin_agent:CoinConfig",
    actions=("Discrete",),
)
from gaitway.cli import main

done = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        done.append((main(words), out, err))
print(json.dumps([(code, out.getvalue(), err.getvalue()) for code, out, err in done]))
"""


@pytest.mark.slow
def test_an_algorithm_is_one_file_and_one_row(tmp_path):
    run, other = str(tmp_path / "run"), str(tmp_path / "other")
    coin, sizes = ["--agent", "coin"], ["num_envs=4", "total_steps=400", "evaluation_episodes=2", "agent.bias=0.6"]
    words = (
        ["train", "cartpole", *coin, "--out", run, "--quiet", *sizes],
        ["train", "cartpole", *coin, "--out", run, "--resume", "total_steps=800"],
        ["list", "agents"],
        ["train", "pendulum", *coin, "--out", other],
        ["train", "cartpole", *coin, "agent.side=1", "--out", other],
    )
    command = [sys.executable, "-c", COMMANDS, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=600)
    assert done.returncode == 0, done.stderr
    trained, resumed, (_, listed, _), refused, wrong = json.loads(done.stdout)
    assert trained[0] == 0 and "over 2 deterministic episodes" in trained[1], trained
    config = (tmp_path / "run/config.yaml").read_text()
    assert "algorithm: coin" in config and "kind: CoinConfig" in config and "bias: 0.6" in config
    assert resumed[0] == 0 and "finished: 800 steps" in resumed[1], resumed
    assert "coin" in listed and "tosses a coin" in listed
    assert refused[0] == 2 and "agent 'coin' cannot act in Box" in refused[2]
    assert wrong[0] == 2 and "unknown key 'agent.side'" in wrong[2]
