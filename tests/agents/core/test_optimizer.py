"""The policy optimiser: what may change its result, and what may not."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core import offload
from gaitway_agents.core.advantage import normalise
from gaitway_agents.core.batch import Batch, concatenate
from gaitway_agents.core.objective import gaussian_kl
from gaitway_agents.core.optimizer import NonFiniteError, OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.policy import Policy
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import gaussian_log_prob
from torch import Tensor

SMALL = ActorCriticConfig(actor_hidden=(16, 8), critic_hidden=(16,), init_std=0.7)


def make_policy(seed: int = 0) -> ActorCritic:
    torch.manual_seed(seed)
    return ActorCritic(boxes(policy=5, critic=7), box(3), SMALL)


@torch.no_grad()
def make_batch(policy: ActorCritic, rows: int = 101, seed: int = 1) -> Batch:
    """Batch as a rollout of ``policy`` would leave it."""
    torch.manual_seed(seed)
    observations = {"policy": torch.randn(rows, 5), "critic": torch.randn(rows, 7)}
    mean, std = policy.distribution(observations)
    actions = mean + std * torch.randn(rows, 3)
    values = policy.value(observations)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=gaussian_log_prob(mean, std, actions),
        advantages=torch.randn(rows),
        values=values,
        returns=values + torch.randn(rows),
        distribution=(mean, std.expand_as(mean)),
    )


def parameters(policy: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


def updated(config: OptimizerConfig, batch: Batch | None = None, seed: int = 7) -> tuple[Tensor, dict[str, float]]:
    """Parameters and statistics after one update of the same policy on the same batch."""
    policy = make_policy()
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(seed))
    statistics = optimizer.update(make_batch(policy) if batch is None else batch)
    return parameters(policy), statistics


CONFIG = OptimizerConfig(epochs=3, minibatches=4, learning_rate=1e-3, schedule="constant", normalize_advantages="none")


@pytest.mark.parametrize(
    "change",
    [{"chunk_size": 7}, {"chunk_size": 1}, {"workers": 2}, {"workers": 3, "chunk_size": 4}],
    ids=lambda change: ",".join(f"{k}={v}" for k, v in change.items()),
)
def test_cutting_up_the_work_changes_nothing_but_rounding(change):
    expected, statistics = updated(CONFIG)
    found, others = updated(dataclasses.replace(CONFIG, **change))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert others == pytest.approx(statistics, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_seed_gives_the_same_bits(workers):
    config = dataclasses.replace(CONFIG, workers=workers, chunk_size=5)
    assert torch.equal(updated(config)[0], updated(config)[0])
    assert not torch.equal(updated(config)[0], updated(config, seed=8)[0])


def test_workers_leave_every_parameter_in_the_policy_itself():
    """Replicas share memory with the policy; a step that replaced tensors would train copies."""
    policy = make_policy()
    optimizer = PolicyOptimizer(policy, dataclasses.replace(CONFIG, workers=2), torch.Generator().manual_seed(0))
    pointers = [p.data_ptr() for p in policy.parameters()]
    for seed in (1, 2):
        before = parameters(policy).clone()
        optimizer.update(make_batch(policy, seed=seed))
        assert [p.data_ptr() for p in policy.parameters()] == pointers
        assert not torch.equal(parameters(policy), before)


def test_masked_rows_do_not_count():
    batch = make_batch(make_policy(), rows=40)
    padding = dataclasses.replace(
        make_batch(make_policy(), rows=24, seed=9),
        advantages=torch.full((24,), 1e3),
        returns=torch.full((24,), 1e3),
        log_probs=torch.full((24,), -1e4),  # a ratio beyond all numbers
    )
    one = dataclasses.replace(CONFIG, epochs=2, minibatches=1)
    expected, statistics = updated(one, batch)
    masked = concatenate(
        [batch.replace(mask=torch.ones(40)), padding.replace(mask=torch.zeros(24))],
    )
    found, others = updated(one, masked)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert others == pytest.approx(statistics, rel=1e-3, abs=1e-5)


def test_a_minibatch_of_padding_alone_does_no_harm():
    batch = make_batch(make_policy(), rows=8).replace(mask=torch.tensor([1.0, *[0.0] * 7]))
    found, _ = updated(dataclasses.replace(CONFIG, epochs=1, minibatches=8), batch)
    assert torch.isfinite(found).all()


class SequencePolicy(Policy):
    """Decisions in rows of T: the same Gaussian policy applied to every step."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = make_policy()

    def evaluate(self, batch: Batch):
        rows, steps = batch.log_probs.shape
        flat = batch.replace(
            observations={k: v.flatten(0, 1) for k, v in batch.observations.items()},
            actions=batch.actions.flatten(0, 1),
            distribution=tuple(p.flatten(0, 1) for p in batch.distribution),
        )
        new = self.inner.evaluate(flat)
        return dataclasses.replace(
            new,
            log_probs=new.log_probs.reshape(rows, steps),
            entropy=new.entropy.reshape(rows, steps),
            values=new.values.reshape(rows, steps),
            kl=new.kl.reshape(rows, steps),
        )

    def parameter_groups(self):
        return self.inner.parameter_groups()


@pytest.mark.parametrize("with_mask", [False, True])
def test_rows_may_be_sequences(with_mask):
    """A mean over decisions: twelve sequences of five are sixty decisions."""
    flat = make_batch(make_policy(), rows=60)
    one = dataclasses.replace(CONFIG, epochs=2, minibatches=1)
    expected, statistics = updated(one, flat)
    sequences = Batch(
        observations={k: v.reshape(12, 5, -1) for k, v in flat.observations.items()},
        actions=flat.actions.reshape(12, 5, -1),
        log_probs=flat.log_probs.reshape(12, 5),
        advantages=flat.advantages.reshape(12, 5),
        values=flat.values.reshape(12, 5),
        returns=flat.returns.reshape(12, 5),
        distribution=tuple(p.reshape(12, 5, -1) for p in flat.distribution),
        mask=torch.ones(12, 5) if with_mask else None,
    )
    policy = SequencePolicy()
    found = PolicyOptimizer(policy, one, torch.Generator().manual_seed(7)).update(sequences)
    torch.testing.assert_close(parameters(policy), expected, rtol=1e-4, atol=1e-5)
    assert found == pytest.approx(statistics, rel=1e-3, abs=1e-5)


def test_the_first_step_is_on_policy():
    """Ratio 1 and KL 0 before anything has moved; the surrogate is then minus the mean advantage."""
    batch = make_batch(make_policy())
    _, statistics = updated(dataclasses.replace(CONFIG, epochs=1, minibatches=1), batch)
    assert statistics["kl"] == pytest.approx(0.0, abs=1e-6)
    assert statistics["clip_fraction"] == 0.0
    assert statistics["policy_loss"] == pytest.approx(-batch.advantages.mean().item(), abs=1e-6)
    assert statistics["value_loss"] == pytest.approx((batch.returns - batch.values).square().mean().item(), rel=1e-5)
    gaussian = torch.distributions.Normal(torch.zeros(3), 0.7 * torch.ones(3))
    assert statistics["entropy"] == pytest.approx(gaussian.entropy().sum().item(), rel=1e-6)


def test_statistics_are_those_of_the_policy_that_was_left():
    policy = make_policy()
    batch = make_batch(policy)
    config = dataclasses.replace(CONFIG, epochs=1, minibatches=1, learning_rate=3e-2)
    optimizer = PolicyOptimizer(policy, config)
    optimizer.update(batch)
    with torch.no_grad():
        new = policy.evaluate(batch)
        kl = gaussian_kl(*batch.distribution, *new.distribution).mean().item()
        clipped = ((new.log_probs - batch.log_probs).exp() - 1.0).abs().gt(0.2).float().mean().item()
    second = optimizer.update(batch)
    assert second["kl"] == pytest.approx(kl, rel=1e-4)
    assert second["clip_fraction"] == pytest.approx(clipped)
    assert kl > 0.01 and clipped > 0.1


def test_without_a_distribution_the_kl_is_estimated_from_samples():
    policy = make_policy()
    batch = make_batch(policy, rows=4000)
    config = dataclasses.replace(CONFIG, epochs=2, minibatches=1, learning_rate=1e-2)
    exact = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0)).update(batch)["kl"]
    policy = make_policy()
    estimate = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0)).update(batch.replace(distribution=()))
    assert estimate["kl"] == pytest.approx(exact, rel=0.2)


def test_a_batch_without_values_trains_the_actor_alone():
    policy = make_policy()
    critic = [p.detach().clone() for p in policy.critic.parameters()]
    actor = policy.actor[0].weight.detach().clone()
    batch = make_batch(policy).replace(values=None, returns=None)
    statistics = PolicyOptimizer(policy, CONFIG).update(batch)
    assert statistics["value_loss"] == 0.0
    assert not torch.equal(policy.actor[0].weight, actor)
    assert all(torch.equal(a, b) for a, b in zip(critic, policy.critic.parameters(), strict=True))


@pytest.mark.parametrize(
    ("shift", "factor"),
    [(0.0, 1.0), (0.02, 1.5), (0.1, 1.0), (0.3, 1 / 1.5)],
    ids=["none", "small", "desired", "large"],
)
def test_the_adaptive_rate_follows_the_kl(shift, factor):
    """A policy whose mean lies ``shift`` from the behaviour's in each of three actions: KL = 3 shift^2 / (2 std^2)."""
    policy = make_policy()
    batch = make_batch(policy)
    mean, std = batch.distribution
    config = OptimizerConfig(epochs=1, minibatches=1, learning_rate=1e-3, desired_kl=0.02)
    optimizer = PolicyOptimizer(policy, config)
    statistics = optimizer.update(batch.replace(distribution=(mean + shift, std)))
    assert statistics["kl"] == pytest.approx(3 * shift**2 / (2 * 0.7**2), abs=1e-6)
    if shift:
        assert statistics["learning_rate"] == pytest.approx(1e-3 * factor)
    assert optimizer.store.inner.param_groups[0]["lr"] == optimizer.learning_rate  # the rate of this very step


@pytest.mark.parametrize(("shift", "bound"), [(3.0, 5e-7), (0.01, 2e-6)])
def test_the_adaptive_rate_keeps_to_its_range(shift, bound):
    policy = make_policy()
    batch = make_batch(policy)
    mean, std = batch.distribution
    config = OptimizerConfig(epochs=4, minibatches=1, learning_rate=1e-6, learning_rate_range=(5e-7, 2e-6))
    optimizer = PolicyOptimizer(policy, config)
    assert optimizer.update(batch.replace(distribution=(mean + shift, std)))["learning_rate"] == bound


def test_an_update_stops_before_the_step_that_would_follow_too_large_a_kl():
    policy = make_policy()
    batch = make_batch(policy)
    config = dataclasses.replace(CONFIG, learning_rate=3e-2, epochs=10, minibatches=1, max_kl=0.01)
    statistics = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0)).update(batch)
    taken = statistics["minibatches"] - 1
    assert 1 <= taken < 9
    same = dataclasses.replace(config, epochs=taken, max_kl=None)
    found, others = updated(same, batch, seed=0)
    assert torch.equal(parameters(policy), found)
    assert others["minibatches"] == taken


def test_gradients_of_actor_and_critic_are_clipped_apart():
    policy = make_policy()
    batch = make_batch(policy)
    exploding = batch.replace(returns=batch.returns * 1e6)
    config = dataclasses.replace(CONFIG, epochs=1, minibatches=1, clip_value_loss=False, max_grad_norm=0.5)
    actors = []
    for data in (batch, exploding):
        policy = make_policy()
        PolicyOptimizer(policy, config).update(data)
        norms = [torch.stack([p.grad.norm() for p in group]).norm() for group in policy.parameter_groups()]
        assert all(norm <= 0.5 * 1.0001 for norm in norms)
        actors.append(torch.cat([p.detach().flatten() for p in policy.actor.parameters()]))
    assert torch.equal(*actors)


def test_bfloat16_takes_nearly_the_same_step():
    start = parameters(make_policy())
    one = dataclasses.replace(CONFIG, epochs=1, minibatches=1)
    exact, statistics = updated(one)
    rough, others = updated(dataclasses.replace(one, precision="bfloat16"))
    assert torch.nn.functional.cosine_similarity(exact - start, rough - start, dim=0) > 0.9
    assert others["value_loss"] == pytest.approx(statistics["value_loss"], rel=0.05)
    assert rough.dtype == torch.float32


def with_advantages(rule: str, data: Batch, minibatches: int = 2) -> Tensor:
    config = dataclasses.replace(
        CONFIG, epochs=1, minibatches=minibatches, normalize_advantages=rule, max_grad_norm=1e9
    )
    return updated(config, data)[0]


def test_advantages_are_normalised_over_what_was_asked_for(monkeypatch):
    """By hand before the update: the whole batch's, or each half's, as the two minibatches will be."""
    monkeypatch.setattr(torch, "randperm", lambda n, **_: torch.arange(n))
    data = make_batch(make_policy(), rows=64)
    data = data.replace(advantages=data.advantages * torch.linspace(0.1, 9.0, 64) + 5.0)
    whole, halves = normalise(data.advantages), torch.cat([normalise(part) for part in data.advantages.chunk(2)])
    assert not torch.allclose(whole, halves, atol=0.1)
    found = {rule: with_advantages(rule, data) for rule in ("batch", "minibatch", "none")}
    assert torch.equal(found["batch"], with_advantages("none", data.replace(advantages=whole)))
    assert torch.equal(found["minibatch"], with_advantages("none", data.replace(advantages=halves)))
    assert not torch.allclose(found["batch"], found["minibatch"], atol=1e-5)
    assert not torch.allclose(found["batch"], found["none"], atol=1e-5)


@pytest.mark.parametrize("rule", ["batch", "none"])
def test_advantages_estimated_anew_are_used_from_the_second_epoch_on(rule, monkeypatch):
    monkeypatch.setattr(torch, "randperm", lambda n, **_: torch.arange(n))
    first, later = make_batch(make_policy()), make_batch(make_policy()).replace(advantages=torch.randn(101) + 2.0)
    config = dataclasses.replace(CONFIG, epochs=3, minibatches=1, normalize_advantages=rule)
    policy, calls = make_policy(), []
    PolicyOptimizer(policy, config).update(first, lambda: calls.append(1) or later)
    assert len(calls) == 2
    expected = make_policy()
    optimizer = PolicyOptimizer(expected, dataclasses.replace(config, epochs=1))
    for data in (first, later, later):
        optimizer.update(data)
    assert torch.equal(parameters(policy), parameters(expected))


def test_the_exact_kl_is_asked_for_only_where_it_decides():
    assert OptimizerConfig(schedule="adaptive").needs_distribution
    assert OptimizerConfig(schedule="constant", max_kl=0.1).needs_distribution
    assert not OptimizerConfig(schedule="constant").needs_distribution


def test_rmsprop_follows_torchs():
    """One step on a fresh optimiser: the gradient over the root of (1 - decay) times its square."""
    policy = make_policy()
    before = parameters(policy)
    config = dataclasses.replace(
        CONFIG, epochs=1, minibatches=1, algorithm="rmsprop", betas=(0.5, 0.9), eps=1e-3, max_grad_norm=1e9
    )
    PolicyOptimizer(policy, config).update(make_batch(policy))
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters()])
    step = config.learning_rate * gradient / ((0.1 * gradient.square()).sqrt() + 1e-3)
    torch.testing.assert_close(parameters(policy), before - step)


def spoil_parameter(policy: ActorCritic, batch: Batch) -> Batch:
    policy.critic[0].bias.data[2] = float("inf")
    return batch


def spoil(name: str):
    def change(policy: ActorCritic, batch: Batch) -> Batch:
        tensors = batch.named_tensors()
        tensors[name] = tensors[name].clone()
        tensors[name].view(-1)[3] = float("nan")
        group = name.removeprefix("observations.")
        if name.startswith("observations."):
            return batch.replace(observations={**batch.observations, group: tensors[name]})
        return batch.replace(**{name: tensors[name]})

    return change


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (spoil("observations.policy"), "batch.observations.policy"),
        (spoil("observations.critic"), "batch.observations.critic"),
        (spoil("advantages"), "batch.advantages"),
        (spoil("returns"), "batch.returns"),
        (spoil_parameter, "policy.critic.0.bias"),
    ],
    ids=["policy observation", "critic observation", "advantages", "returns", "parameter"],
)
def test_the_first_bad_tensor_is_named_and_nothing_is_stepped(change, culprit):
    policy = make_policy()
    batch = change(policy, make_batch(policy))
    before = parameters(policy).clone()
    optimizer = PolicyOptimizer(policy, dataclasses.replace(CONFIG, minibatches=1))
    with pytest.raises(NonFiniteError, match=f"{culprit} is not finite"):
        optimizer.update(batch)
    assert torch.equal(parameters(policy), before)


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "cosine"},
        {"precision": "float16"},
        {"algorithm": "adamw"},
        {"normalize_advantages": "yes"},
        {"epochs": 0},
        {"minibatches": 0},
        {"chunk_size": 0},
        {"workers": 0},
        {"learning_rate": 0.0},
        {"learning_rate": -1e-3},
        {"desired_kl": 0.0},
        {"value_clip": 0.0},
        {"max_grad_norm": 0.0},
        {"eps": 0.0},
        {"learning_rate_range": (1e-2, 1e-5)},
        {"betas": (0.9, 1.0)},
        {"max_kl": 0.0},
    ],
    ids=lambda change: ",".join(f"{k}={v}" for k, v in change.items()),
)
def test_a_bad_setting_is_refused_by_name(change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        OptimizerConfig(**change)


def test_too_few_rows_are_refused():
    policy = make_policy()
    with pytest.raises(ValueError, match="3 rows cannot be split into 4 minibatches"):
        PolicyOptimizer(policy, CONFIG).update(make_batch(policy, rows=3))


def test_a_saved_optimizer_continues_bit_for_bit():
    policy = make_policy()
    generator = torch.Generator().manual_seed(0)
    optimizer = PolicyOptimizer(policy, dataclasses.replace(CONFIG, schedule="adaptive"), generator)
    optimizer.update(make_batch(policy))
    saved = {k: v.clone() for k, v in policy.state_dict().items()}, optimizer.state_dict(), generator.get_state()
    saved[1]["inner"]["state"] = {
        k: {n: t.clone() for n, t in v.items()} for k, v in saved[1]["inner"]["state"].items()
    }
    batch = make_batch(policy, seed=5)
    optimizer.update(batch)

    other = make_policy(seed=99)
    other.load_state_dict(saved[0])
    again = PolicyOptimizer(other, optimizer.config, torch.Generator())
    again.load_state_dict(saved[1])
    again.generator.set_state(saved[2])
    again.update(batch)
    assert torch.equal(parameters(other), parameters(policy))
    assert again.learning_rate == optimizer.learning_rate


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("first", [False, True])
def test_moments_elsewhere_change_no_step_and_no_checkpoint(weight_decay, first, monkeypatch):
    monkeypatch.setattr(
        offload, "PART", 128
    )  # of several hundred parameters; whole vectors, as what is left over is rounded otherwise
    config = dataclasses.replace(CONFIG, weight_decay=weight_decay)
    policies = [make_policy(), make_policy()]
    optimizers = [
        PolicyOptimizer(policy, dataclasses.replace(config, offload=away), torch.Generator().manual_seed(7))
        for policy, away in zip(policies, (first, not first), strict=True)
    ]
    batch = make_batch(policies[0])
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))  # before the first step
    for optimizer in optimizers:
        optimizer.update(batch)
    assert torch.equal(parameters(policies[0]), parameters(policies[1]))
    optimizers[0].learning_rate = 3e-4
    optimizers[0].update(batch)
    policies[1].load_state_dict(policies[0].state_dict())
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    for optimizer in optimizers:
        optimizer.generator.manual_seed(8)
        optimizer.update(batch)
    assert torch.equal(parameters(policies[0]), parameters(policies[1]))


def test_only_adam_has_moments_to_offload():
    with pytest.raises(ValueError, match="offload with algorithm 'rmsprop'"):
        OptimizerConfig(offload=True, algorithm="rmsprop")
