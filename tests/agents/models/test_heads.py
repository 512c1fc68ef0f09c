"""Action heads against torch.distributions, and what a mask may never let through."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import ACTION_MASK, Categorical, Gaussian, make_head
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**31)


def head(space: spaces.Space, **change: float) -> Gaussian | Categorical:
    return make_head(space, **{"init_std": 0.7, "min_std": 1e-3, "log_std": False, "unimix": 0.0, **change})


def random_mask(rows: int, sizes: Sequence[int]) -> Tensor:
    """Of every choice at least one option is allowed."""
    parts = []
    for size in sizes:
        part = torch.rand(rows, size) < 0.5
        part[torch.arange(rows), torch.randint(size, (rows,))] = True
        parts.append(part)
    return torch.cat(parts, 1)


def reference(logits: Tensor, mask: Tensor) -> TorchCategorical:
    """One row's distribution over the allowed options alone, padded by nothing."""
    return TorchCategorical(logits=logits[mask])


# ---- Gaussian --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_std", [False, True])
@given(seed=SEEDS, dim=st.integers(1, 8))
def test_a_gaussian_is_torchs(log_std, seed, dim):
    torch.manual_seed(seed)
    found = head(box(dim), log_std=log_std).double()
    std = (torch.rand(dim) + 0.01).double()
    found.raw_std.data = std.log() if log_std else std
    outputs, actions = torch.randn(2, 5, dim, dtype=torch.float64)
    new = found(outputs, {})
    expected = Independent(Normal(outputs, std), 1)
    torch.testing.assert_close(found.log_prob(new, actions), expected.log_prob(actions))
    torch.testing.assert_close(found.entropy(new), expected.entropy())
    other = outputs + 1.0, torch.full((5, dim), 0.5, dtype=torch.float64)
    torch.testing.assert_close(found.kl(other, new), kl_divergence(Independent(Normal(*other), 1), expected))
    assert torch.equal(found.mode(new), outputs)


@pytest.mark.parametrize("log_std", [False, True])
def test_the_logarithm_is_learnt_only_if_asked_for(log_std):
    found = head(box(3), log_std=log_std)
    assert found.raw_std.tolist() == pytest.approx([math.log(0.7) if log_std else 0.7] * 3)
    assert found.std.tolist() == pytest.approx([0.7] * 3)
    found.entropy(found(torch.zeros(1, 3), {})).sum().backward()
    assert found.raw_std.grad.tolist() == pytest.approx([1.0 if log_std else 1 / 0.7] * 3)
    with torch.no_grad():
        found.raw_std.fill_(-40.0)
    assert found.std.tolist() == pytest.approx([1e-3] * 3)


def test_gaussian_samples_are_distributed_as_they_say():
    found = head(box(2))
    mean = torch.tensor([[1.0, -2.0]]).expand(40_000, 2)
    samples = found.sample(found(mean, {}), torch.Generator().manual_seed(0)).detach()
    torch.testing.assert_close(samples.mean(0), mean[0], rtol=0.0, atol=0.02)
    torch.testing.assert_close(samples.std(0), torch.full((2,), 0.7), rtol=0.02, atol=0.0)
    assert np.corrcoef(samples.T.numpy())[0, 1] == pytest.approx(0.0, abs=0.02)
    within = ((samples - mean).abs() < 0.7).float().mean().item()
    assert within == pytest.approx(0.6827, abs=0.01)


def test_actions_have_the_shape_of_their_space():
    actions = torch.arange(12.0).reshape(2, 6)
    assert head(spaces.Box(-1.0, 1.0, (2, 3), np.float32)).to_env(actions).shape == (2, 2, 3)
    rows = head(spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, 1], [0, 7]])))
    assert rows.to_env(torch.zeros(3, 4, dtype=torch.int64)).tolist() == [[[0, 1], [0, 7]]] * 3


def test_a_space_that_no_policy_acts_in_is_refused():
    with pytest.raises(ValueError, match="MultiBinary"):
        head(spaces.MultiBinary(3))


# ---- categorical -----------------------------------------------------------------------------------------------------


def space_of(sizes: Sequence[int], single: bool) -> spaces.Space:
    return spaces.Discrete(sizes[0]) if single else spaces.MultiDiscrete(sizes)


@given(seed=SEEDS, sizes=SIZES, single=st.booleans(), masked=st.booleans())
def test_choices_are_torchs_over_what_is_allowed(seed, sizes, single, masked):
    torch.manual_seed(seed)
    sizes = sizes[:1] if single else sizes
    found, rows = head(space_of(sizes, single)), 6
    logits, old_logits = 3.0 * torch.randn(2, rows, sum(sizes), dtype=torch.float64)
    mask = random_mask(rows, sizes) if masked else torch.ones(rows, sum(sizes), dtype=torch.bool)
    seen = {ACTION_MASK: mask} if masked else {}
    new, old = found(logits, seen), found(old_logits, seen)
    actions = found.sample(new, torch.Generator().manual_seed(seed))
    assert actions.dtype == torch.int64 and actions.shape == ((rows,) if single else (rows, len(sizes)))
    log_prob, entropy, kl, mode = found.log_prob(new, actions), found.entropy(new), found.kl(old, new), found.mode(new)
    for row in range(rows):
        expected = {"log_prob": 0.0, "entropy": 0.0, "kl": 0.0}
        for i, (a, b, m) in enumerate(zip(*(x[row].split(sizes) for x in (logits, old_logits, mask)), strict=True)):
            theirs, before, allowed = reference(a, m), reference(b, m), m.nonzero().flatten().tolist()
            action = actions[row] if single else actions[row, i]
            index = torch.tensor(allowed.index(int(action)))  # the sampled action is one of the allowed
            expected["log_prob"] += theirs.log_prob(index).item()
            expected["entropy"] += theirs.entropy().item()
            expected["kl"] += kl_divergence(before, theirs).item()
            assert int(mode[row] if single else mode[row, i]) == allowed[int(theirs.probs.argmax())]
        assert log_prob[row].item() == pytest.approx(expected["log_prob"], rel=1e-9, abs=1e-12)
        assert entropy[row].item() == pytest.approx(expected["entropy"], rel=1e-9, abs=1e-12)
        assert kl[row].item() == pytest.approx(expected["kl"], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("single", [True, False])
def test_choices_are_made_as_often_as_they_say(single):
    sizes, draws = ([5] if single else [5, 3]), 60_000
    found, mask = head(space_of(sizes, single)), torch.tensor([1, 0, 1, 1, 1] + ([] if single else [0, 1, 1]))
    logits = torch.randn(sum(sizes))
    parameters = found(logits.expand(draws, -1), {ACTION_MASK: mask.expand(draws, -1)})
    samples = found.sample(parameters, torch.Generator().manual_seed(0)).reshape(draws, -1)
    for i, log_probs in enumerate(parameters[0][0].split(sizes)):
        counts = torch.bincount(samples[:, i], minlength=sizes[i])
        probabilities = log_probs.exp()
        assert not counts[probabilities == 0.0].any()
        expected = (draws * probabilities)[probabilities > 0.0]
        chi_square = ((counts[probabilities > 0.0] - expected).square() / expected).sum().item()
        assert chi_square < 20.0  # four options: exceeded once in five thousand seeds
    if not single:
        joint = torch.corrcoef(samples.T.double())[0, 1].item()
        assert joint == pytest.approx(0.0, abs=0.02)


EXTREME = {
    "one allowed": ([0.0, 50.0, 50.0], [1, 0, 0]),
    "forbidden far likelier": ([-80.0, -90.0, 1e5], [1, 1, 0]),
    "allowed far apart": ([1e4, -1e4, 3.0], [1, 1, 0]),
}


@pytest.mark.parametrize("unimix", [0.0, 0.01])
@pytest.mark.parametrize(("logits", "mask"), EXTREME.values(), ids=EXTREME)
def test_what_is_forbidden_never_happens(logits, mask, unimix):
    found = head(spaces.Discrete(3), unimix=unimix)
    logits, mask = torch.tensor(logits).expand(20_000, 3), torch.tensor(mask).expand(20_000, 3)
    parameters = found(logits, {ACTION_MASK: mask})
    samples = found.sample(parameters, torch.Generator().manual_seed(0))
    assert mask.gather(1, samples[:, None]).all()
    assert mask.gather(1, found.mode(parameters)[:, None]).all()
    assert (parameters[0].exp()[mask == 0] == 0.0).all()
    torch.testing.assert_close(parameters[0].exp().sum(1), torch.ones(20_000))
    for value in (found.entropy(parameters), found.kl(parameters, parameters), found.log_prob(parameters, samples)):
        assert torch.isfinite(value).all()


@pytest.mark.parametrize("unimix", [0.0, 0.05])
@pytest.mark.parametrize("sizes", [[6], [4, 3, 2]])
def test_no_gradient_reaches_the_logits_of_what_is_forbidden(sizes, unimix):
    found, rows = head(space_of(sizes, len(sizes) == 1), unimix=unimix), 50
    logits, mask = torch.randn(rows, sum(sizes), requires_grad=True), random_mask(rows, sizes)
    new = found(logits, {ACTION_MASK: mask})
    with torch.no_grad():
        old = found(torch.randn(rows, sum(sizes)), {ACTION_MASK: mask})
        actions = found.sample(old, torch.Generator().manual_seed(0))
    loss = found.log_prob(new, actions) * torch.randn(rows) + 0.3 * found.entropy(new) + found.kl(old, new)
    loss.sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[~mask] == 0.0).all()
    several = torch.cat([part.sum(1, keepdim=True).expand_as(part) > 1 for part in mask.split(sizes, 1)], 1)
    assert (logits.grad[mask & several] != 0.0).all()


def test_a_mask_of_ones_changes_nothing():
    found, logits = head(spaces.MultiDiscrete([3, 4])), torch.randn(5, 7)
    assert torch.equal(found(logits, {})[0], found(logits, {ACTION_MASK: torch.ones(5, 7, dtype=torch.bool)})[0])


@given(seed=SEEDS, sizes=SIZES, unimix=st.floats(0.001, 0.9), masked=st.booleans(), scale=st.sampled_from([1.0, 300.0]))
def test_unimix_is_a_mixture_with_the_uniform_distribution_over_what_is_allowed(seed, sizes, unimix, masked, scale):
    torch.manual_seed(seed)
    logits, rows = scale * torch.randn(5, sum(sizes), dtype=torch.float64), 5
    mask = random_mask(rows, sizes) if masked else torch.ones(rows, sum(sizes), dtype=torch.bool)
    seen = {ACTION_MASK: mask} if masked else {}
    (found,) = head(spaces.MultiDiscrete(sizes), unimix=unimix)(logits, seen)
    (plain,) = head(spaces.MultiDiscrete(sizes))(logits, seen)
    for mine, bare, m in zip(*(x.split(sizes, 1) for x in (found, plain, mask)), strict=True):
        uniform = m / m.sum(1, keepdim=True).double()
        torch.testing.assert_close(mine.exp(), (1.0 - unimix) * bare.exp() + unimix * uniform)
        assert (mine.exp() >= unimix * uniform - 1e-12).all()
        assert (mine.exp()[~m] == 0.0).all()


def test_half_precision_outputs_become_single_precision_distributions():
    found = head(spaces.Discrete(3))
    (log_probs,) = found(torch.randn(4, 3).bfloat16(), {})
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(4))


def test_a_space_may_be_numbered_from_anywhere():
    found = head(spaces.Discrete(3, start=-1))
    actions = found.sample(found(torch.zeros(500, 3), {}), torch.Generator().manual_seed(0))
    assert set(actions.tolist()) == {0, 1, 2}  # what the policy learns from
    assert set(found.to_env(actions).tolist()) == {-1, 0, 1}
    several = head(spaces.MultiDiscrete([2, 3], start=[10, 5]))
    assert several.to_env(torch.tensor([[0, 0], [1, 2]])).tolist() == [[10, 5], [11, 7]]


# ---- a whole update --------------------------------------------------------------------------------------------------


def masked_batch(policy: ActorCritic, sizes: Sequence[int], rows: int = 64) -> Batch:
    """The last option of the first choice is never allowed."""
    mask = random_mask(rows, sizes)
    mask[:, sizes[0] - 1] = False
    mask[:, 0] = True
    observations = {"policy": torch.randn(rows, 4), ACTION_MASK: mask}
    with torch.no_grad():
        distribution = policy.distribution(observations)
        actions = policy.head.sample(distribution, torch.Generator().manual_seed(0))
        values = policy.value(observations)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions),
        advantages=torch.randn(rows),
        values=values,
        returns=values + torch.randn(rows),
        distribution=distribution,
    )


@pytest.mark.parametrize("sizes", [[5], [4, 3]])
def test_an_update_leaves_alone_what_is_never_allowed(sizes):
    space = space_of(sizes, len(sizes) == 1)
    seen = spaces.Dict({**boxes(policy=4).spaces, ACTION_MASK: spaces.MultiBinary(sum(sizes))})
    config = ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False)
    policy = ActorCritic(seen, space, config)
    assert policy.actor_encoder.dim == policy.critic_encoder.dim == 4  # the mask is not an observation to learn from
    before = [p.detach().clone() for p in policy.actor[-1].parameters()]
    settings = OptimizerConfig(epochs=4, minibatches=2, learning_rate=1e-2, chunk_size=13, workers=2)
    statistics = PolicyOptimizer(policy, settings, torch.Generator().manual_seed(0)).update(masked_batch(policy, sizes))
    assert all(math.isfinite(value) for value in statistics.values())
    assert statistics["kl"] > 0.0
    never = sizes[0] - 1
    for old, new in zip(before, policy.actor[-1].parameters(), strict=True):
        assert torch.equal(old[never], new[never])
        others = [i for i in range(sum(sizes)) if i != never]
        assert (old[others] != new[others]).any()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_kl_of_an_update_is_that_of_the_choices(precision):
    """Before any step it is zero, and afterwards what torch computes from the policy before and after."""
    policy = ActorCritic(boxes(policy=4), spaces.Discrete(5), ActorCriticConfig(actor_hidden=(16,), critic_hidden=(8,)))
    batch = masked_batch(policy, [5])
    batch = dataclasses.replace(batch, observations={"policy": batch.observations["policy"]})
    with torch.no_grad():
        before = policy.distribution(batch.observations)
    batch = batch.replace(distribution=before, log_probs=policy.head.log_prob(before, batch.actions))
    config = OptimizerConfig(epochs=1, minibatches=1, learning_rate=3e-2, schedule="constant", precision=precision)
    optimizer = PolicyOptimizer(policy, config)
    assert optimizer.update(batch)["kl"] == pytest.approx(0.0, abs=1e-6 if precision == "float32" else 1e-4)
    with torch.no_grad():
        (after,) = policy.distribution(batch.observations)
    expected = kl_divergence(TorchCategorical(logits=before[0]), TorchCategorical(logits=after)).mean().item()
    assert expected > 1e-3
    assert optimizer.update(batch)["kl"] == pytest.approx(expected, rel=1e-3 if precision == "float32" else 0.1)
