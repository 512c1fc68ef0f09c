"""All parameters in one buffer: the module, its copies and its checkpoints must not notice."""

from __future__ import annotations

import copy
import dataclasses
import io

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.flat import FlatParameters
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn


def make_module() -> nn.Module:
    """Layers of several shapes, one of them of no dimension at all."""
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 4), nn.LayerNorm(4))
    module.register_parameter("scale", nn.Parameter(torch.tensor(0.3)))
    return module


def groups_of(module: nn.Module) -> list[list[nn.Parameter]]:
    everything = list(module.parameters())
    return [everything[:3], everything[3:]]


def loss_of(module: nn.Module, x: Tensor) -> Tensor:
    return (module(x) * module.get_parameter("scale")).square().sum()


def test_the_module_computes_what_it_did():
    module, x = make_module(), torch.randn(5, 2, 4, 4)
    expected, before = module(x), copy.deepcopy(module.state_dict())
    flat = FlatParameters(groups_of(module))
    assert torch.equal(module(x), expected)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert len(flat.flat) == sum(p.numel() for p in module.parameters())
    order = [p for group in groups_of(module) for p in group]
    assert torch.equal(flat.flat, torch.cat([p.flatten() for p in order]))
    assert [len(flat.flat[part]) for part in flat.slices] == [sum(p.numel() for p in g) for g in groups_of(module)]


def test_both_see_what_either_writes():
    module = make_module()
    flat = FlatParameters(groups_of(module))
    with torch.no_grad():
        flat.flat.fill_(2.0)
    assert all((p == 2.0).all() for p in module.parameters())
    other = make_module()
    module.load_state_dict(other.state_dict())
    assert torch.equal(flat.flat, torch.cat([p.flatten() for group in groups_of(other) for p in group]))


def test_gradients_arrive_in_the_buffer_and_leave_with_it():
    module, other, x = make_module(), make_module(), torch.randn(5, 2, 4, 4)
    flat = FlatParameters(groups_of(module))
    other.load_state_dict(module.state_dict())
    for _ in range(2):
        flat.flat.grad.zero_()
        other.zero_grad()
        for model in (module, other):
            loss_of(model, x).backward()
            loss_of(model, -x).backward()  # gradients add up
        expected = torch.cat([p.grad.flatten() for group in groups_of(other) for p in group])
        torch.testing.assert_close(flat.flat.grad, expected)
    assert expected.abs().max() > 0.0


@given(st.integers(0, 2**31), st.floats(-3.0, 3.0), st.integers(1, 4))
def test_clipping_is_torchs_for_each_group(seed, exponent, count):
    torch.manual_seed(seed)
    max_norm = 10.0**exponent
    parameters = [nn.Parameter(torch.randn(torch.randint(1, 6, (2,)).tolist())) for _ in range(6)]
    groups = [parameters[i::count] for i in range(count)]
    flat = FlatParameters(groups)
    gradients = [torch.randn_like(p) * torch.rand(()) * 10 for p in parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad.copy_(gradient)
    norm = flat.clip_gradients(max_norm)
    theirs = [nn.Parameter(p.detach().clone()) for p in parameters]
    for parameter, gradient in zip(theirs, gradients, strict=True):
        parameter.grad = gradient.clone()
    norms = [nn.utils.clip_grad_norm_(theirs[i::count], max_norm) for i in range(count)]
    torch.testing.assert_close(norm, torch.stack(norms).norm())
    for mine, other in zip(parameters, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop])
def test_an_optimizer_of_the_buffer_steps_as_one_of_the_parameters(kind):
    module, other = make_module().double(), make_module().double()
    other.load_state_dict(module.state_dict())
    flat = FlatParameters(groups_of(module))
    inner, theirs = kind([flat.flat], lr=1e-2), kind(other.parameters(), lr=1e-2)
    for _ in range(5):
        x = torch.randn(5, 2, 4, 4, dtype=torch.float64)
        flat.flat.grad.zero_()
        theirs.zero_grad()
        loss_of(module, x).backward()
        loss_of(other, x).backward()
        inner.step()
        theirs.step()
    for mine, expected in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, expected)


def test_a_copy_of_the_module_is_its_own():
    module = make_module()
    flat = FlatParameters(groups_of(module))
    other = copy.deepcopy(module)
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        flat.flat.add_(1.0)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())


def test_a_checkpoint_holds_every_number_once_and_reads_back():
    module = nn.Sequential(*[nn.Linear(100, 100) for _ in range(6)])
    flat = FlatParameters([list(module.parameters())])
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    assert buffer.tell() < 4 * len(flat.flat) * 1.1
    other = nn.Sequential(*[nn.Linear(100, 100) for _ in range(6)])
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


# ---- in the policy optimiser -----------------------------------------------------------------------------------------


def make_policy() -> ActorCritic:
    config = ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), normalize_observations=True)
    return ActorCritic(boxes(policy=4), box(2), config)


def make_batch(policy: ActorCritic, rows: int = 64) -> Batch:
    observations = {"policy": torch.randn(rows, 4)}
    with torch.no_grad():
        distribution, values = policy.distribution(observations), policy.value(observations)
        actions = policy.head.sample(distribution, torch.Generator().manual_seed(0))
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions).detach(),
        advantages=torch.randn(rows),
        values=values,
        returns=values + torch.randn(rows),
    )


CONFIG = OptimizerConfig(epochs=2, minibatches=2, schedule="constant", workers=3, chunk_size=8)


def test_replicas_share_the_parameters_and_the_statistics_but_not_the_gradients():
    policy = make_policy()
    optimizer = PolicyOptimizer(policy, CONFIG)
    replicas = optimizer._replicas
    assert replicas[0][0] is policy and len(replicas) == 3
    pointers = [p.data_ptr() for p in policy.parameters()]
    for replica, gradient in replicas:
        assert [p.data_ptr() for p in replica.parameters()] == pointers
        gradient.zero_()
    for i, (replica, gradient) in enumerate(replicas):
        replica.evaluate(make_batch(policy)).log_probs.sum().backward()
        assert gradient.abs().max() > 0.0
        assert all((later == 0.0).all() for _, later in replicas[i + 1 :])
    policy.update_normalizers({"policy": torch.randn(50, 4) + 3.0})
    x = {"policy": torch.randn(3, 4)}
    for replica, _ in optimizer._replicas:
        assert torch.equal(replica.distribution(x)[0], policy.distribution(x)[0])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_policy_loaded_into_the_optimizers_buffer_is_the_one_that_learns(workers):
    """Loading a checkpoint after the optimiser was made must not leave it with parameters of its own."""
    policy, source = make_policy(), make_policy()
    optimizer = PolicyOptimizer(policy, dataclasses.replace(CONFIG, workers=workers), torch.Generator().manual_seed(0))
    policy.load_state_dict(source.state_dict())
    batch = make_batch(policy)
    optimizer.update(batch)
    expected = PolicyOptimizer(source, optimizer.config, torch.Generator().manual_seed(0))
    expected.update(batch)
    assert torch.equal(optimizer.store.flat, expected.store.flat)
    assert torch.equal(torch.cat([p.flatten() for g in policy.parameter_groups() for p in g]), optimizer.store.flat)


def test_clipped_as_one_or_apart():
    batch, norms = make_batch(make_policy()), {}
    for apart in (True, False):
        policy = make_policy()
        config = dataclasses.replace(
            CONFIG, epochs=1, minibatches=1, workers=1, max_grad_norm=0.01, clip_groups=apart, clip_value_loss=False
        )
        PolicyOptimizer(policy, config).update(batch)
        norms[apart] = [
            torch.cat([p.grad.flatten() for p in group]).norm().item() for group in policy.parameter_groups()
        ]
    assert norms[True] == pytest.approx([0.01, 0.01], rel=1e-3)
    assert sum(norm**2 for norm in norms[False]) ** 0.5 == pytest.approx(0.01, rel=1e-3)


def test_a_parameter_that_nobody_would_train_is_named():
    policy = make_policy()
    policy.register_parameter("forgotten", nn.Parameter(torch.zeros(1)))
    with pytest.raises(ValueError, match="parameter forgotten is in none"):
        PolicyOptimizer(policy, CONFIG)
