"""Parameters in parts in two processes, over gloo, against one process that has all of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from gaitway_agents.core import distributed
from gaitway_agents.core.batch import Batch, concatenate
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.parts import whole
from gaitway_agents.core.store import STORES
from gaitway_agents.interfaces import TokenRollout
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.evaluation import evaluate
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.kl_control import KLControlConfig
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_agents.models.token_critic import TokenCritic
from tiny_models import VOCABULARY, tiny_lm
from token_worlds import WantedToken
from torch import Tensor

PROCESSES = 2
SIZES = (5, 12)
"""Sequences in each of the processes."""
CONFIG = OptimizerConfig(
    epochs=2,
    minibatches=1,
    learning_rate=1e-2,
    schedule="constant",
    normalize_advantages="none",
    chunk_size=32,
    max_grad_norm=0.5,
)
CASES = {
    "decisions": CONFIG,
    "sequences": replace(CONFIG, aggregation="sequence"),
    "decay": replace(CONFIG, weight_decay=0.1),
    "one norm": replace(CONFIG, clip_groups=False),
}


def make_policy(dtype: torch.dtype = torch.float64, *, tied: bool = True) -> CausalLMPolicy:
    model = tiny_lm(tie_word_embeddings=tied).to(dtype)
    critic = TokenCritic(model).to(dtype)
    return CausalLMPolicy(model, critic=critic)


def make_batch(rank: int, dtype: torch.dtype = torch.float64) -> Batch:
    g = torch.Generator().manual_seed(rank)
    rows, length = SIZES[rank], 12
    tokens = torch.randint(VOCABULARY, (rows, length), generator=g)
    lengths = torch.randint(6, length + 1, (rows,), generator=g)
    places = torch.arange(length)
    mask = ((places >= 3) & (places < lengths[:, None])).to(dtype)
    said, advantages, returns = torch.randn(3, rows, length, generator=g, dtype=dtype)
    return Batch(
        observations={"lengths": lengths},
        actions=tokens,
        log_probs=-3.0 + 0.1 * said,
        advantages=advantages,
        returns=returns,
        values=returns + 0.1,
        mask=mask,
    )


def weights_of(policy: CausalLMPolicy) -> dict[str, Tensor]:
    """Whole weights, which all processes must ask for."""
    return {name: whole(value).detach().clone() for name, value in policy.named_parameters()}


def learn(config: OptimizerConfig, batch: Batch, policy: CausalLMPolicy | None = None) -> dict[str, Any]:
    policy = make_policy() if policy is None else policy
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0))
    statistics = [optimizer.update(batch) for _ in range(2)]
    said = evaluate(policy, batch, config)
    return {"weights": weights_of(policy), "statistics": statistics, "said": said.log_probs}


def learn_in_parts(rank: int, config: OptimizerConfig) -> dict[str, Any]:
    return learn(config, make_batch(rank))


SMALL = replace(CONFIG, precision="bfloat16", learning_rate=1e-5)
"""Steps that are lost in weights in bfloat16."""


def learn_low(rank: int | None, store: str, offload: bool = False) -> dict[str, dict[str, Tensor]]:
    """Weights that are computed with, and those that learn."""
    policy = make_policy(torch.float32)
    config = replace(SMALL, store=store, offload=offload)
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0))
    both = [make_batch(rank, torch.float32) for rank in range(PROCESSES)]
    for _ in range(2):
        optimizer.update(concatenate(both) if rank is None else both[rank])
    weights = weights_of(policy)
    if store != "sharded":
        return {"weights": weights, "learnt": weights}
    vector = optimizer.store.parts()["parameters"].full_tensor()
    ordered = [(name, value) for name, value in weights.items()]
    parts = vector.split([value.numel() for _, value in ordered])
    learnt = {name: part.view(value.shape) for part, (name, value) in zip(parts, ordered, strict=True)}
    return {"weights": weights, "learnt": learnt}


def save(rank: int, store: str, folder: Path) -> dict[str, Tensor]:
    """Learn, save in the middle, learn on."""
    policy = make_policy()
    optimizer = PolicyOptimizer(policy, replace(CONFIG, store=store), torch.Generator().manual_seed(0))
    optimizer.update(make_batch(rank))
    dcp.save(optimizer.store.parts(), checkpoint_id=folder / store)
    optimizer.update(make_batch(rank))
    return weights_of(policy)


def learn_on(rank: int | None, store: str, folder: Path) -> dict[str, Tensor]:
    """Go on from what was saved in the middle, in a process that begins with other weights."""
    policy = make_policy()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
    optimizer = PolicyOptimizer(policy, replace(CONFIG, store=store), torch.Generator().manual_seed(0))
    parts = optimizer.store.parts()
    dcp.load(parts, checkpoint_id=folder / store)
    optimizer.store.take_parts(parts)
    optimizer.update(concatenate([make_batch(0), make_batch(1)]) if rank is None else make_batch(rank))
    return weights_of(policy)


class Half(WantedToken):
    """Answers to twice as many prompts, of which a process sees its half; ``rank`` None sees all."""

    def __init__(self, model, rank: int | None):
        super().__init__(model, own_weights=True)
        self.rank = rank

    def sample(self, num_prompts: int, group_size: int) -> TokenRollout:
        if self.rank is None:
            return super().sample(num_prompts, group_size)
        rollout = super().sample(PROCESSES * num_prompts, group_size)
        own = slice(self.rank * num_prompts * group_size, (self.rank + 1) * num_prompts * group_size)
        fields = ("tokens", "lengths", "mask", "log_probs", "finished", "rewards")
        parts = {name: part[own] for name, part in rollout.parts.items()}
        found = {name: getattr(rollout, name)[own] for name in fields}
        return replace(rollout, **found, groups=rollout.groups[own] - self.rank * num_prompts, parts=parts)


GRPO = PolicyGradientConfig(
    prompts_per_step=4,
    group_size=4,
    kl=KLControlConfig(coefficient=0.1, target=0.02),
    optimizer=one_step(learning_rate=1e-2, chunk_size=40),
)


def train(rank: int | None, store: str) -> dict[str, Any]:
    """A whole trainer, with a reference and a controller of the divergence from it."""
    model = tiny_lm(vocab_size=12).double()
    config = replace(GRPO, optimizer=replace(GRPO.optimizer, store=store))
    if rank is None:
        config = replace(config, prompts_per_step=PROCESSES * config.prompts_per_step)
    trainer = PolicyGradientTrainer(model, Half(model, rank), config, seed=0)
    trainer.policy.in_parts = store == "fsdp"
    metrics = [trainer.iterate() for _ in range(3)]
    told = ("learn/kl_coefficient", "learn/grad_norm", "rollout/reward", "learn/kl")
    return {
        "weights": weights_of(trainer.policy),
        "metrics": [{name: row[name] for name in told} for row in metrics],
        "steps": trainer.steps,
    }


def jobs(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"{store}, {name}": partial(learn_in_parts, config=replace(config, store=store))
        for store, name, config in ((store, *case) for store in STORES for case in CASES.items())
    }
    found |= {f"{store}, trained": partial(train, store=store) for store in STORES}
    for store in STORES[1:]:
        found |= {f"{store}, saved": partial(save, store=store, folder=folder)}
        found |= {f"{store}, loaded": partial(learn_on, store=store, folder=folder)}
        for offload in (False, True):
            found |= {f"{store}, low, {offload}": partial(learn_low, store=store, offload=offload)}
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def found(folder) -> dict[str, list[Any]]:
    """Results of every job in each of the processes of one group."""
    mp.spawn(_process, (folder,), nprocs=PROCESSES)
    ranks = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(PROCESSES)]
    return {name: [results[name] for results in ranks] for name in ranks[0]}


def _process(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.PIECE = 1000  # of some 20,000 parameters
    store = dist.FileStore(str(folder / "store"), PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    try:
        torch.save({name: job(rank) for name, job in jobs(folder).items()}, folder / f"{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


def assert_near(ours: dict[str, Tensor], theirs: dict[str, Tensor], within: float) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=0.0, atol=within, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns_from_both_batches(found, store, case):
    """With sequences of other lengths, and other numbers of forward passes, in each."""
    both = concatenate([make_batch(0), make_batch(1)])
    policy = make_policy()
    policy.in_parts = store == "fsdp"  # called as modules, of which some compute in float32
    alone = learn(CASES[case], both, policy)
    first, second = found[f"{store}, {case}"]
    assert_near(first["weights"], second["weights"], 0.0)
    assert_near(first["weights"], alone["weights"], 1e-6)
    start = make_policy().model.get_input_embeddings().weight
    assert (first["weights"]["model.model.embed_tokens.weight"] - start).abs().max() > 1e-3
    assert first["statistics"] == second["statistics"]
    for mine, theirs in zip(first["statistics"], alone["statistics"], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    said = torch.cat([first["said"], second["said"]])
    torch.testing.assert_close(said, alone["said"], rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("store", STORES)
def test_two_trainers_learn_what_one_learns_from_twice_the_prompts(found, store):
    first, second = found[f"{store}, trained"]
    alone = train(None, "flat")
    assert_near(first["weights"], second["weights"], 0.0)
    assert_near(first["weights"], alone["weights"], 1e-6)
    start = tiny_lm(vocab_size=12).double().get_input_embeddings().weight
    assert (first["weights"]["model.model.embed_tokens.weight"] - start).abs().max() > 1e-3
    assert first["steps"] == alone["steps"] == 3 * 32
    for mine, theirs in zip(first["metrics"], alone["metrics"], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("store", STORES[1:])
def test_saved_by_two_processes_and_continued_by_two_or_one(found, folder, store):
    first, _ = found[f"{store}, saved"]
    again, _ = found[f"{store}, loaded"]
    assert_near(again, first, 0.0)
    try:
        assert_near(learn_on(None, store, folder), first, 1e-6)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("store", STORES[1:])
def test_steps_that_bfloat16_cannot_hold_add_up(found, store, offload):
    """As in the flat store, whose weights are in float32."""
    alone = learn_low(None, "flat")["learnt"]
    first, second = found[f"{store}, low, {offload}"]
    assert_near(first["weights"], second["weights"], 0.0)
    start = dict(make_policy(torch.float32).named_parameters())
    theirs, ours = (torch.cat([(w[name] - start[name]).flatten() for name in start]) for w in (alone, first["learnt"]))
    assert torch.nn.functional.cosine_similarity(ours, theirs, dim=0) > 0.8
    assert 0.9 < ours.norm() / theirs.norm() < 1.1
    if store == "sharded":
        assert_near(first["weights"], {name: value.bfloat16() for name, value in first["learnt"].items()}, 0.0)


def test_one_process_in_a_sharded_store_takes_the_steps_of_adam():
    batch = concatenate([make_batch(0), make_batch(1)])
    flat, sharded = (learn(replace(CONFIG, store=store), batch)["weights"] for store in ("flat", "sharded"))
    assert_near(sharded, flat, 1e-12)
