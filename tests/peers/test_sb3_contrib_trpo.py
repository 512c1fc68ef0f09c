"""The same weights and rollout into sb3-contrib's TRPO and into ours, in float64: search direction, step, critic.

Three things differ in its code, and are accounted for:

- It averages the KL divergence of continuous actions over their dimensions, where the paper adds them up. So its
  divergence and its damping correspond to as many times theirs as there are dimensions.
- It measures the divergence from the new policy to the old, where the paper has it from the old to the new. Direction
  and step are the same, as both agree to second order; whether a step fits into the region may not be, so rollouts
  are such that both agree.
- It starts conjugate gradients at a small random vector, which is zero here as in ours, and stops them at an absolute
  residual where ours is relative; iterations are few enough that neither stops early.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from box_spaces import boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.critic import CriticConfig
from gaitway_agents.core.trust_region import TrustRegionConfig, TrustRegionOptimizer, conjugate_gradient
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from torch import Tensor, nn

pytest.importorskip("sb3_contrib")
from sb3_contrib import TRPO
from sb3_contrib.common.utils import conjugate_gradient_solver
from stable_baselines3.common.logger import Logger

ROWS, OBS, HIDDEN = 48, 5, (16, 8)
SPACES = {"box": gymnasium.spaces.Box(-9.0, 9.0, (3,), np.float32), "discrete": gymnasium.spaces.Discrete(4)}


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def _from_zero(monkeypatch):
    monkeypatch.setattr("sb3_contrib.common.utils.th.randn_like", torch.zeros_like)


def make_ours(space: gymnasium.Space) -> ActorCritic:
    config = ActorCriticConfig(
        actor_hidden=HIDDEN, critic_hidden=HIDDEN, activation="tanh", init_std=0.6, log_std=True,
        normalize_observations=False,
    )  # fmt: skip
    return ActorCritic(boxes(policy=OBS), space, config)


def make_theirs(ours: ActorCritic, space: gymnasium.Space, **settings: object) -> TRPO:
    """Its TRPO in float64 with our weights."""

    class Still(gymnasium.Env):
        """Wanted for its spaces; nothing is ever stepped."""

        observation_space, action_space = gymnasium.spaces.Box(-9.0, 9.0, (OBS,), np.float32), space

    theirs = TRPO(
        "MlpPolicy",
        Still(),
        n_steps=ROWS,
        policy_kwargs={"net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)}},
        device="cpu",
        **settings,
    )
    theirs.policy.double()
    # It casts observations and actions to float32 on their way in; ours are made to survive that.
    for network in (theirs.policy.mlp_extractor.policy_net, theirs.policy.mlp_extractor.value_net):
        network.register_forward_pre_hook(lambda module, inputs: (inputs[0].double(),))
    for module, source in zip(networks(theirs), (ours.actor, ours.critic), strict=True):
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(source.parameters()), module.parameters())
    if hasattr(theirs.policy, "log_std"):
        theirs.policy.log_std.data = ours.head.raw_std.data.clone()
    theirs.policy.optimizer = torch.optim.Adam(theirs.policy.parameters(), lr=theirs.learning_rate)
    theirs.set_logger(Logger(None, []))
    return theirs


def networks(theirs: TRPO) -> tuple[nn.Sequential, nn.Sequential]:
    extractor = theirs.policy.mlp_extractor
    return (
        nn.Sequential(extractor.policy_net, theirs.policy.action_net),
        nn.Sequential(extractor.value_net, theirs.policy.value_net),
    )


@torch.no_grad()
def make_batch(policy: ActorCritic) -> Batch:
    generator = torch.Generator().manual_seed(1)
    observations = {"policy": torch.randn(ROWS, OBS, generator=generator).float().double()}
    distribution = policy.distribution(observations)
    actions = policy.head.sample(distribution, generator)
    actions = actions.float().double() if actions.is_floating_point() else actions
    values = policy.value(observations)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions),
        advantages=2.0 * torch.randn(ROWS, generator=generator) + 1.0,
        values=values,
        returns=values + torch.randn(ROWS, generator=generator),
    )


def fill(theirs: TRPO, batch: Batch) -> None:
    """Put our batch where its collector leaves a rollout."""
    tensors = {
        "observations": batch.observations["policy"],
        "actions": batch.actions.reshape(ROWS, -1).double(),
        **{name: getattr(batch, name) for name in ("log_probs", "advantages", "values", "returns")},
    }
    for name, value in tensors.items():
        setattr(theirs.rollout_buffer, name, value.numpy().reshape(ROWS, 1, *value.shape[1:]))
    theirs.rollout_buffer.full = True


def dimensions(space: gymnasium.Space) -> int:
    """Over how many it averages the KL divergence."""
    return space.shape[0] if isinstance(space, gymnasium.spaces.Box) else 1


def weights(modules: tuple[nn.Module, ...], std: Tensor | None) -> Tensor:
    parts = [parameter.detach().flatten() for module in modules for parameter in module.parameters()]
    return torch.cat(parts if std is None else [*parts, std.detach().flatten()])


def ours_flat(policy: ActorCritic) -> Tensor:
    return weights((policy.actor, policy.critic), getattr(policy.head, "raw_std", None))


def theirs_flat(theirs: TRPO) -> Tensor:
    return weights(networks(theirs), getattr(theirs.policy, "log_std", None))


@pytest.mark.usefixtures("_from_zero")
@pytest.mark.parametrize("iterations", [1, 4, 10, 100])
def test_conjugate_gradients(iterations):
    root = torch.randn(30, 30)
    matrix, target = root @ root.T / 30.0 + 0.1 * torch.eye(30), torch.randn(30)
    expected = conjugate_gradient_solver(lambda v: matrix @ v, target, max_iter=iterations)
    found = conjugate_gradient(lambda v: matrix @ v, target, iterations)
    # Where both converge they stop at residuals of their own.
    torch.testing.assert_close(found, expected, rtol=1e-4 if iterations == 100 else 1e-10, atol=1e-4)


@pytest.mark.usefixtures("_from_zero")
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize(
    ("target_kl", "normalize", "damping", "iterations"),
    [(0.01, True, 0.1, 5), (0.01, False, 0.1, 5), (0.003, True, 1.0, 3)],
    ids=["defaults", "advantages as they are", "much damping"],
)
def test_the_same_update(space, target_kl, normalize, damping, iterations):
    """The policy's step, and ten steps of the critic on the whole batch, where the order of rows does not matter."""
    policy = make_ours(space)
    batch, before = make_batch(policy), ours_flat(policy)
    theirs = make_theirs(
        policy,
        space,
        batch_size=ROWS,
        target_kl=target_kl,
        normalize_advantage=normalize,
        cg_damping=damping,
        cg_max_steps=iterations,
        n_critic_updates=10,
        learning_rate=1e-3,
    )
    fill(theirs, batch)
    torch.testing.assert_close(theirs_flat(theirs), before, rtol=0, atol=0)
    theirs.train()
    config = TrustRegionConfig(
        target_kl=target_kl * dimensions(space),
        cg_damping=damping * dimensions(space),
        cg_iterations=iterations,
        normalize_advantages="batch" if normalize else "none",
        critic=CriticConfig(epochs=10, learning_rate=1e-3),
    )
    statistics = TrustRegionOptimizer(policy, config).update(batch)
    logged = theirs.logger.name_to_value
    assert statistics["step"] > 0.0 and logged["train/is_line_search_success"] == 1.0
    torch.testing.assert_close(ours_flat(policy), theirs_flat(theirs), rtol=1e-7, atol=1e-9)
    assert (ours_flat(policy) - before).abs().max() > 1e-3
    assert statistics["policy_loss"] == pytest.approx(-logged["train/policy_objective"], rel=1e-6)
    assert statistics["value_loss"] == pytest.approx(logged["train/value_loss"], rel=1e-6)
    assert statistics["kl"] == pytest.approx(dimensions(space) * logged["train/kl_divergence_loss"], rel=0.2)


@pytest.mark.usefixtures("_from_zero")
def test_both_give_up_and_keep_the_policy():
    policy = make_ours(SPACES["box"])
    batch, before = make_batch(policy), policy.actor[0].weight.detach().clone()
    theirs = make_theirs(policy, SPACES["box"], batch_size=ROWS, target_kl=9.0, cg_damping=1e-3, line_search_max_iter=1)
    fill(theirs, batch)
    theirs.train()
    config = TrustRegionConfig(target_kl=27.0, cg_damping=3e-3, line_search_steps=1)
    assert TrustRegionOptimizer(policy, config).update(batch)["step"] == 0.0
    assert theirs.logger.name_to_value["train/is_line_search_success"] == 0.0
    assert torch.equal(policy.actor[0].weight, before)
    assert torch.equal(theirs.policy.mlp_extractor.policy_net[0].weight, before)


def test_its_random_start_of_conjugate_gradients_makes_no_difference_worth_mentioning():
    policy = make_ours(SPACES["box"])
    batch, before = make_batch(policy), ours_flat(policy)
    theirs = make_theirs(policy, SPACES["box"], batch_size=ROWS, cg_max_steps=100, n_critic_updates=1)
    fill(theirs, batch)
    theirs.train()
    config = TrustRegionConfig(target_kl=0.03, cg_damping=0.3, cg_iterations=100, critic=CriticConfig(epochs=1))
    TrustRegionOptimizer(policy, config).update(batch)
    step = theirs_flat(theirs) - before
    assert (ours_flat(policy) - before - step).norm() < 1e-3 * step.norm()
