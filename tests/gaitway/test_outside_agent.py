"""Agents of another package, named on the command line: an algorithm of one file, and PPO that learns elsewhere."""

import shutil
import sys

import pytest
from gaitway_agents import registry
from gaitway_files import trust as trusting
from tree import ROOT, TESTS

import gaitway
from gaitway import catalogue
from gaitway.cli import main
from gaitway.training.loop import TrainingFailed

ROWS = '''
import dataclasses

from gaitway_agents.registry import ENVIRONMENTS, Algorithm
from gaitway_agents.source import source_of

COIN = Algorithm(
    name="coin", summary="tosses a coin", actions=("Discrete",),
    trainer="tosses.coin_agent:CoinTrainer", config="tosses.coin_agent:CoinConfig",
)
COUNTED = dataclasses.replace(ENVIRONMENTS["ppo"], source="tosses.rows:counted")
TABLE = {"coin": COIN}
made = []


def counted(env, config):
    """A source of rollouts by name: the usual one, counted."""
    made.append(env.num_envs)
    return source_of(env, config)
'''
ADDED = '''
from dataclasses import dataclass, replace

import torch
from gaitway_agents.additions import Addition, AdditionConfig


@dataclass(frozen=True, kw_only=True)
class Novelty(AdditionConfig):
    """A bonus for observations far from their running mean."""

    weight: float = 0.1

    def make(self, policy, source, generator):
        return Bonus(self.weight)


class Bonus(Addition):
    def __init__(self, weight):
        self.weight, self.mean = weight, None

    def rewards(self, rollout):
        seen = rollout.observations["policy"]
        mean = seen.mean((0, 1)) if self.mean is None else self.mean
        self.bonus = self.weight * (seen - mean).norm(dim=-1)
        return replace(rollout, learnt_rewards=rollout.learnt_rewards + self.bonus)

    def added_loss(self, policy, new, batch):
        return 0.1 * new.distribution[0].square().mean(-1)  # actions are small

    def update(self, batch):
        self.mean = batch.observations["policy"].mean(0)
        return {"novelty": float(self.bonus.mean())}

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]
'''
SIZES = ["num_envs=4", "total_steps=400", "evaluation_episodes=2", "num_threads=1"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    package = tmp_path / "tosses"
    package.mkdir()
    shutil.copy(TESTS / "agents/coin_agent.py", package)
    (package / "__init__.py").touch()
    (package / "rows.py").write_text(ROWS)
    (package / "added.py").write_text(ADDED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(trusting, "_trusted", set())
    yield tmp_path
    for table in (registry.ENVIRONMENTS, catalogue.AGENTS):
        for name in [name for name in table if name.startswith("tosses")]:
            del table[name]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tosses"]:
        del sys.modules[name]


def forget(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(trusting, "_trusted", set())
    for table in (registry.ENVIRONMENTS, catalogue.AGENTS):
        table.pop("tosses.rows:COIN", None)


def test_an_algorithm_is_trained_by_its_name(here, capsys, monkeypatch):
    coin = ["--agent", "tosses.rows:COIN", "--out", "run"]
    assert main(["train", "cartpole", *coin, *SIZES, "agent.bias=0.6"]) == 0
    assert "over 2 deterministic episodes" in capsys.readouterr().out
    config = (here / "run/config.yaml").read_text()
    assert "algorithm: tosses.rows:COIN" in config and "kind: CoinConfig" in config and "bias: 0.6" in config
    forget(monkeypatch)
    assert main(["train", "cartpole", *coin, "--resume", "total_steps=800"]) == 0
    assert "finished: 800 steps" in capsys.readouterr().out
    assert main(["train", "pendulum", "--agent", "tosses.rows:COIN", "--out", "other"]) == 2
    assert "agent 'tosses.rows:COIN' cannot act in Box" in capsys.readouterr().err
    assert main(["train", "cartpole", *coin[:2], "--out", "other", "agent.side=1"]) == 2
    assert "unknown key 'agent.side'" in capsys.readouterr().err


def test_a_run_of_it_asks_for_trust(here, capsys, monkeypatch):
    assert main(["train", "cartpole", "--agent", "tosses.rows:COIN", "--out", "run", "--quiet", *SIZES]) == 0
    forget(monkeypatch)
    with pytest.raises(gaitway.UserError, match=r"names code of the module 'tosses\.rows'.*trust\.trust\(\"tosses\"\)"):
        gaitway.evaluate("run", episodes=2)
    trusting.trust("tosses")
    assert len(gaitway.evaluate("run", episodes=2)["returns"]) == 2


def test_a_source_of_rollouts_is_named_by_its_row(here):
    given = {"num_envs": 4, "total_steps": 128, "agent.num_steps": 32, "evaluation_episodes": 0, "quiet": True}
    run = gaitway.train("cartpole", agent="tosses.rows:COUNTED", out="counted", **given)
    from tosses.rows import made

    assert run.status == "finished" and made[-1] == 4
    assert run.rows()[-1]["learn/value_loss"] > 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tosses.rows:TABLE", "agent 'tosses.rows:TABLE' is a dict: expected a gaitway_agents.registry.Algorithm"),
        ("tosses.rows:COINS", "tosses.rows has no 'COINS': did you mean 'COIN'?"),
        ("no_such_place:COIN", "cannot import 'no_such_place'"),
    ],
)
def test_names_that_lead_nowhere(here, capsys, name, said):
    assert main(["train", "cartpole", "--agent", name, "--out", "run"]) == 2
    assert said in capsys.readouterr().err and not (here / "run").exists()


BONUS = {"agent.additions.novelty": {"kind": "tosses.added:Novelty", "weight": 0.5}}
GIVEN = {"num_envs": 4, "agent.num_steps": 8, "evaluation_episodes": 0, "quiet": True, "num_threads": 1}
GIVEN |= {"agent.optimizer.minibatches": 1, "agent.learning_rate_final": None, "agent.anneal": "linear", "processes": 1}
TASK = "velocity-flat-anymal-c-blind"


def test_an_addition_changes_rewards_learns_and_goes_on(here):
    whole = gaitway.train(TASK, out="whole", total_steps=128, **GIVEN, **BONUS)
    text = (here / "whole/config.yaml").read_text()
    assert "novelty:" in text and "kind: tosses.added:Novelty" in text and "weight: 0.5" in text
    half = gaitway.train(TASK, out="half", total_steps=64, **GIVEN, **BONUS)
    half = gaitway.train(TASK, out="half", total_steps=128, resume=True)
    losses = [[row["learn/value_loss"] for row in run.rows()] for run in (whole, half)]
    assert losses[0] == losses[1] and all(
        row["learn/novelty"] > 0 and row["learn/novelty_loss"] > 0 for row in whole.rows()
    )
    without = gaitway.train(TASK, out="without", total_steps=128, **GIVEN)
    assert [row["learn/value_loss"] for row in without.rows()] != losses[0]
    assert without.rows()[0]["rollout/reward"] == whole.rows()[0]["rollout/reward"]  # the world's


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"kind": "tosses.added:Bonus"}, "no dataclass derived from AdditionConfig"),
        ({"kind": "tosses.added:Novelty", "wieght": 1.0}, "wieght"),
        ({"weight": 1.0}, r"agent\.additions\.novelty={'weight': 1\.0}: a new one needs its kind"),
        ("tosses.added:Novelty", "a new one needs its kind"),
        (
            {"kind": "novelty"},
            r"use one of RNDConfig, AMPConfig or module:Class of another AdditionConfig",
        ),
    ],
)
def test_additions_that_are_none(here, setting, said):
    with pytest.raises(gaitway.UserError, match=said):
        gaitway.train(TASK, out="wrong", **GIVEN, **{"agent.additions.novelty": setting})
    assert not (here / "wrong").exists()


def test_the_addition_of_the_page(here):
    blocks = (ROOT / "docs/train.md").read_text().split("```python\n")[1:]
    (code,) = (block.partition("```")[0] for block in blocks if block.startswith("from dataclasses"))
    (here / "tosses/calm.py").write_text(code)
    calm = {"agent.additions.calm": {"kind": "tosses.calm:Calm", "weight": 0.1}}
    run = gaitway.train(TASK, out="calm", total_steps=64, **GIVEN, **calm)
    assert all(row["learn/calm_loss"] > 0 for row in run.rows())


FAULTY = '''
from dataclasses import dataclass

import torch
from gaitway_agents.additions import Addition, AdditionConfig


@dataclass(frozen=True, kw_only=True)
class Faulty(AdditionConfig):
    """Does one thing wrong."""

    fault: str

    def make(self, policy, source, generator):
        return None if self.fault == "none" else type("Wrong", (Wrong,), FAULTS.get(self.fault, {}))()


class Wrong(Addition):
    pass


FAULTS = {
    "raises": {"rewards": lambda self, rollout: rollout.lost},
    "forgets": {"rewards": lambda self, rollout: None},
    "updates nothing": {"update": lambda self, batch: None},
    "a vector": {"update": lambda self, batch: {"three": torch.ones(3)}},
    "takes": {"update": lambda self, batch: {"policy_loss": 99.0}},
    "an object": {"state_dict": lambda self: {"o": object()}},
    "a number": {"added_loss": lambda self, policy, new, batch: new.log_probs.mean()},
    "detached": {"added_loss": lambda self, policy, new, batch: new.log_probs.detach()},
    "no tensor": {"added_loss": lambda self, policy, new, batch: None},
    "not finite": {"added_loss": lambda self, policy, new, batch: new.log_probs * float("nan")},
}
'''


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("none", "addition 'odd': its make returned a NoneType, no Addition"),
        ("raises", r"addition 'odd', rewards, \(tosses\.faulty:Wrong\) failed: AttributeError: .*'lost'.*line \d+: "),
        ("forgets", "addition 'odd': its rewards returned a NoneType, no EnvRollout"),
        ("updates nothing", "addition 'odd': its update returned a NoneType, no dict"),
        ("a vector", r"addition 'odd', update, \(tosses\.faulty:Wrong\) failed"),
        ("takes", "addition 'odd': its statistic 'policy_loss' is there already"),
        ("an object", "addition 'odd': its state_dict holds more than tensors"),
        ("a number", r"added loss 'odd' has shape \(\): expected a tensor of shape \(16,\), a loss of each decision"),
        ("detached", "added loss 'odd' depends on no parameter of the policy"),
        ("no tensor", "added loss 'odd' has type NoneType"),
        ("not finite", "odd_loss, which was added, is not finite"),
    ],
)
def test_an_addition_that_does_not_do_what_it_should(here, fault, said):
    (here / "tosses/faulty.py").write_text(FAULTY)
    odd = {"agent.additions.odd": {"kind": "tosses.faulty:Faulty", "fault": fault}}
    with pytest.raises((gaitway.UserError, TrainingFailed), match=said):
        gaitway.train(TASK, out="wrong", total_steps=32, **GIVEN, **odd)


def test_an_addition_may_not_take_a_name_of_ours(here):
    named = {"agent.additions.mirror": BONUS["agent.additions.novelty"], "agent.symmetry": "loss"}
    with pytest.raises(gaitway.UserError, match=r"agent\.additions\.mirror: one of PPO's own has this name"):
        gaitway.train(TASK, out="wrong", **GIVEN, **named)
    assert not (here / "wrong").exists()


def test_additions_are_for_one_process(here):
    with pytest.raises(gaitway.UserError, match="additions"):
        gaitway.train(TASK, out="wrong", **GIVEN | BONUS | {"processes": 2})
