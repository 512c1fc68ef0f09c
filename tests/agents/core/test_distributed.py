"""Two processes on the CPU, over gloo, against one process that has the data of both."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from bigram import Bigram, sequences
from box_spaces import box, boxes
from gaitway_agents.core import distributed
from gaitway_agents.core.advantage import normalise
from gaitway_agents.core.batch import Batch, concatenate
from gaitway_agents.core.critic import CriticConfig
from gaitway_agents.core.group_advantage import group_relative, reinforce_plus_plus
from gaitway_agents.core.losses import AGGREGATIONS
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.surrogates import ClippedSurrogate
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.estimator import EstimatorConfig
from gaitway_agents.models.normalizer import RunningNormalizer
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPO_DREAMER, TRPO, PPOConfig
from gaitway_agents.rollout import EnvRollout
from gaitway_agents.source import RolloutSource, source_of
from gaitway_agents.symmetry import Symmetry
from hidden_worlds import COLUMNS, HiddenSpeed
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld, always, signs
from torch import Tensor

MODEL = ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), normalize_observations=True)
ONE_STEP = OptimizerConfig(epochs=3, minibatches=1, learning_rate=1e-3)
PROCESSES = 2


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, list[Any]]:
    """Results of every job below in each of the processes of one group."""
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(_process, (folder,), nprocs=PROCESSES)
    ranks = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(PROCESSES)]
    return {name: [results[name] for results in ranks] for name in ranks[0]}


def _process(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    try:
        torch.save({name: job(rank) for name, job in JOBS.items()}, folder / f"{rank}.pt")
        dist.barrier()  # gloo aborts, now and then, where one process leaves while another still works
    finally:
        dist.destroy_process_group()


def make_policy(seed: int) -> ActorCritic:
    torch.manual_seed(seed)
    return ActorCritic(boxes(policy=3), box(2), MODEL)


def make_batch(policy: ActorCritic, rows: int, seed: int, masked: bool) -> Batch:
    g = torch.Generator().manual_seed(seed)
    observations = {"policy": torch.randn(rows, 3, generator=g)}
    with torch.no_grad():
        distribution = policy.distribution(observations)
        values = policy.value(observations)
    actions = policy.head.sample(distribution, g)
    mask = (torch.rand(rows, generator=g) < 0.3 + 0.4 * (seed % 2)).float() if masked else None
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions).detach(),
        advantages=seed + torch.randn(rows, generator=g),
        values=values,
        returns=values + torch.randn(rows, generator=g),
        distribution=tuple(part.detach() for part in distribution),
        mask=mask,
    )


CASES = {
    f"{normalize}, {'masked' if masked else 'whole'}": (
        replace(ONE_STEP, normalize_advantages=normalize, chunk_size=20),
        masked,
    )
    for normalize in ("batch", "minibatch")
    for masked in (False, True)
}
SHUFFLED = "in minibatches"


def batches(masked: bool) -> list[Batch]:
    return [make_batch(make_policy(5), 48, seed, masked) for seed in (1, 2)]


def update(rank: int, config: OptimizerConfig, masked: bool) -> dict[str, Any]:
    policy = make_policy(5 + rank)  # processes start apart, and end as one
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(rank))
    statistics = [optimizer.update(batches(masked)[rank]) for _ in range(4)]
    return {"policy": policy.state_dict(), "statistics": statistics}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns_from_both_batches(found, case):
    config, masked = CASES[case]
    policy = make_policy(5)
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0))
    alone = [optimizer.update(concatenate(batches(masked))) for _ in range(4)]
    first, second = found[case]
    start = make_policy(5).state_dict()
    for name, value in policy.state_dict().items():
        assert torch.equal(first["policy"][name], second["policy"][name])
        torch.testing.assert_close(first["policy"][name], value, rtol=0.0, atol=1e-6)
    assert (policy.state_dict()["actor.0.weight"] - start["actor.0.weight"]).abs().max() > 1e-3
    for mine, theirs in zip(first["statistics"], alone, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-5)
    assert first["statistics"] == second["statistics"]
    assert alone[-1]["learning_rate"] != config.learning_rate  # the rate has adapted, and everywhere alike


def test_minibatches_keep_the_processes_together(found):
    first, second = found[SHUFFLED]
    assert all(torch.equal(first["policy"][name], value) for name, value in second["policy"].items())


SIZES = (9, 14)
"""Sequences in each of the processes."""


def token_config(aggregation: str) -> OptimizerConfig:
    return replace(
        ONE_STEP,
        aggregation=aggregation,
        horizon=7 if aggregation == "constant" else None,
        surrogate=ClippedSurrogate(ratio="sequence"),
        chunk_size=5,
        normalize_advantages="none",
        schedule="constant",
    )


def token_update(rank: int, aggregation: str) -> Tensor:
    policy = Bigram(0)
    batch = sequences(SIZES[rank], 7, rank, policy)
    PolicyOptimizer(policy, token_config(aggregation), torch.Generator().manual_seed(rank)).update(batch)
    return policy.logits.detach()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_sequences_of_both_processes_weigh_what_they_weigh_in_one(found, aggregation):
    policy = Bigram(0)
    batch = concatenate([sequences(SIZES[rank], 7, rank, policy) for rank in range(PROCESSES)])
    PolicyOptimizer(policy, token_config(aggregation), torch.Generator().manual_seed(0)).update(batch)
    first, second = found[aggregation]
    assert torch.equal(first, second)
    torch.testing.assert_close(first, policy.logits.detach(), rtol=0.0, atol=1e-6)
    assert (first - Bigram(0).logits).abs().max() > 1e-3


REWARDS = torch.tensor([[1.0, 2.0, 0.0, 0.0], [5.0, 3.0, 9.0, 1.0]])
GROUPS = torch.tensor([0, 0, 1, 1])
EQUAL = torch.full((17, 1), 0.1)


def advantages_of(rank: int) -> dict[str, Tensor]:
    mask = torch.ones(4, 1)
    return {
        "batch": group_relative(REWARDS[rank], GROUPS, "batch"),
        "reinforce++": reinforce_plus_plus(REWARDS[rank][:, None], mask)[:, 0],
        "equal": reinforce_plus_plus(EQUAL, torch.ones(17, 1)),
        "equal here, not there": reinforce_plus_plus(EQUAL + rank, torch.ones(17, 1)),
    }


def test_advantages_are_scaled_by_the_deviation_in_all_processes(found):
    both = {name: torch.cat([part[name] for part in found["advantages"]]) for name in advantages_of(0)}
    groups = torch.cat([GROUPS, GROUPS + 2])
    torch.testing.assert_close(both["batch"], group_relative(REWARDS.flatten(), groups, "batch"))
    torch.testing.assert_close(both["reinforce++"], reinforce_plus_plus(REWARDS.view(8, 1), torch.ones(8, 1))[:, 0])
    assert torch.equal(both["equal"], torch.zeros(34, 1))
    assert both["equal here, not there"].sign().tolist() == [[-1.0]] * 17 + [[1.0]] * 17


PARTS = [100.0 + 3.0 * torch.randn(60, 3, generator=torch.Generator().manual_seed(n)) for n in range(2)]


def statistics_of(rank: int) -> dict[str, Any]:
    normalizer = RunningNormalizer(3)
    for part in PARTS:
        normalizer.update(part[rank::2])
    normalizer.update(PARTS[0] if rank else PARTS[0][:0])
    return {"normalizer": normalizer.state_dict(), "advantages": normalise(PARTS[0][rank::2, 0])}


def test_normalisers_see_what_all_processes_see(found):
    """Also where one of them has nothing to show."""
    first, second = found["statistics"]
    alone = RunningNormalizer(3)
    for part in (*PARTS, PARTS[0]):
        alone.update(part)
    for name, value in alone.state_dict().items():
        assert torch.equal(first["normalizer"][name], second["normalizer"][name])
        torch.testing.assert_close(first["normalizer"][name], value, rtol=1e-5, atol=1e-5)
    both = torch.empty(60)
    both[::2], both[1::2] = first["advantages"], second["advantages"]
    torch.testing.assert_close(both, normalise(PARTS[0][:, 0]), rtol=1e-4, atol=1e-5)


def world() -> TinyWorld:
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, -(action - 0.5 * state).square()[:, 0], always(len(state))

    return TinyWorld(signs, rule)


CONFIG = PPOConfig(num_steps=4, model=MODEL, optimizer=OptimizerConfig(epochs=2, minibatches=2))


def train(rank: int) -> dict[str, Any]:
    trainer = on_policy_trainer(world(), CONFIG, seed=rank)
    for _ in range(3):
        trainer.iterate()
    saved = copy.deepcopy(trainer.state_dict())
    again = on_policy_trainer(world(), CONFIG, seed=rank)
    # The checkpoint of a training of one process has the generator of the first alone.
    again.load_state_dict(saved | {"generator": None if rank else torch.Generator().manual_seed(0).get_state()})
    noise = torch.rand(3, generator=again.generator)
    refused = {}
    wrong = {
        "trust region": TRPO,
        "optimizer.critic": replace(CONFIG, optimizer=replace(ONE_STEP, critic=CriticConfig())),
        "decoupled": replace(CONFIG, decoupled=True),
        "percentile_scaling": PPO_DREAMER,
    }
    for name, config in wrong.items():
        try:
            on_policy_trainer(world(), config, seed=0, total_steps=100)
        except ValueError as error:
            refused[name] = str(error)
    stop = distributed.any_of(rank == 1, torch.device("cpu")), distributed.any_of(False, torch.device("cpu"))
    return {"state": saved, "noise": noise, "refused": refused, "stop": stop, "steps": trainer.steps}


def test_trainers_of_two_processes_stay_one_policy_and_explore_apart(found):
    first, second = found["trainers"]
    assert all(torch.equal(first["state"]["policy"][n], v) for n, v in second["state"]["policy"].items())
    assert not torch.equal(first["state"]["generator"], second["state"]["generator"])
    assert first["steps"] == second["steps"] == 3 * 4 * 2 * world().num_envs
    assert int(first["state"]["policy"]["actor_encoder.parts.policy.normalizer.count"]) == first["steps"]
    assert not torch.equal(first["noise"], second["noise"])  # nor do they after a checkpoint of the first
    for refused in (first["refused"], second["refused"]):
        assert len(refused) == 4 and all(name in message for name, message in refused.items())
    assert first["stop"] == second["stop"] == (True, False)


class Part:
    """A source of the rollouts of ``whole``, with noise of its own, of which a process sees ``own`` environments."""

    def __init__(self, whole: RolloutSource, own: range):
        self.whole, self.num_envs, self.own = whole, len(own), slice(own.start, own.stop)

    def begin(self, policy: ActorCritic, generator: torch.Generator, symmetry: Symmetry | None) -> None:
        self.whole.begin(policy, torch.Generator().manual_seed(7), symmetry)  # minibatches draw from the trainer's

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def collect(self, steps: int, *, last: bool = False) -> EnvRollout:
        rollout = self.whole.collect(steps, last=last)
        assert not rollout.finals
        part = {
            name: getattr(rollout, name)[:, self.own]
            for name in ("actions", "rewards", "learnt_rewards", "terminated", "truncated", "valid")
        }
        return replace(
            rollout,
            observations={name: value[:, self.own] for name, value in rollout.observations.items()},
            following={name: value[self.own] for name, value in rollout.following.items()},
            distribution=tuple(parameter[:, self.own] for parameter in rollout.distribution),
            **part,
        )


WHOLE = replace(CONFIG, optimizer=ONE_STEP)


def learn(part: int | None) -> OnPolicyTrainer:
    """A trainer after three iterations, of all environments or of one half."""
    env = world()
    each = env.num_envs if part is None else env.num_envs // PROCESSES
    own = range(each) if part is None else range(part * each, (part + 1) * each)
    trainer = OnPolicyTrainer(Part(source_of(env, WHOLE), own), WHOLE, seed=0)
    for _ in range(3):
        trainer.iterate()
    return trainer


def learn_half(rank: int) -> dict[str, Any]:
    trainer = learn(rank)
    return {"policy": copy.deepcopy(trainer.policy.state_dict()), "steps": trainer.steps}


def test_two_trainers_learn_what_one_learns_in_twice_the_environments(found):
    """From the rollout to the policy: advantages, normalisers, gradients and the learning rate."""
    first, second = found["halves"]
    alone = learn(None)
    start = OnPolicyTrainer(source_of(world(), WHOLE), WHOLE, seed=0).policy.state_dict()
    assert first["steps"] == alone.steps
    for name, value in alone.policy.state_dict().items():
        assert torch.equal(first["policy"][name], second["policy"][name])
        torch.testing.assert_close(first["policy"][name], value, rtol=1e-5, atol=1e-5)
    weights = "actor.0.weight"
    assert (alone.policy.state_dict()[weights] - start[weights]).abs().max() > 1e-3


def estimate(rank: int) -> dict[str, Any]:
    model = replace(MODEL, estimator=EstimatorConfig(signals=("speed",), hidden=(16,)))
    trainer = on_policy_trainer(HiddenSpeed(seed=rank), replace(CONFIG, model=model), seed=rank, columns=COLUMNS)
    start = copy.deepcopy(trainer.policy.state_dict())
    errors = [trainer.iterate()["learn/estimate_error_speed"] for _ in range(3)]
    return {"start": start, "policy": trainer.policy.state_dict(), "errors": errors}


def test_estimators_of_two_processes_stay_one(found):
    """Each process sees worlds of its own; what is estimated, and the error that is told, is of both."""
    first, second = found["estimators"]
    for state in ("start", "policy"):
        assert all(torch.equal(first[state][name], value) for name, value in second[state].items())
    assert first["errors"] == second["errors"]
    assert not torch.equal(first["start"]["estimator.net.0.weight"], first["policy"]["estimator.net.0.weight"])


JOBS: dict[str, Callable[[int], Any]] = {
    **{case: partial(update, config=config, masked=masked) for case, (config, masked) in CASES.items()},
    SHUFFLED: partial(update, config=replace(ONE_STEP, minibatches=4), masked=False),
    **{aggregation: partial(token_update, aggregation=aggregation) for aggregation in AGGREGATIONS},
    "advantages": advantages_of,
    "statistics": statistics_of,
    "trainers": train,
    "estimators": estimate,
    "halves": learn_half,
}


def test_one_process_alone_talks_to_nobody():
    assert (distributed.size(), distributed.rank()) == (1, 0) and "RANK" not in os.environ
    x = torch.tensor([1.0, 2.0])
    assert distributed.mean_(x) is x and distributed.from_first_(x) is x and x.tolist() == [1.0, 2.0]
