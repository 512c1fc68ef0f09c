"""The same tensors into rsl_rl 5.5 and into Gaitway: advantages, a whole PPO update, symmetry, normaliser."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.advantage import gae, normalise
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.surrogates import ClippedSurrogate
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import gaussian_log_prob
from gaitway_agents.models.normalizer import RunningNormalizer
from gaitway_agents.symmetry import MirrorLoss, Symmetry
from torch import Tensor

pytest.importorskip("rsl_rl")
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

STEPS, ENVS, OBS, ACTIONS, HIDDEN = 6, 16, 5, 3, [16, 8]
GAMMA, LAM = 0.97, 0.9
ROUNDED = {"rtol": 1e-5, "atol": 1e-6}
"""rsl_rl multiplies discount and done flags in float32, whatever the tensors are."""


@pytest.fixture(autouse=True)
def _float64():
    """Rounding hides differences; with 53 bits what is left is a difference of method."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_policy() -> ActorCritic:
    config = ActorCriticConfig(
        actor_hidden=tuple(HIDDEN), critic_hidden=tuple(HIDDEN), init_std=0.6, normalize_observations=False
    )
    return ActorCritic(boxes(policy=OBS), box(ACTIONS), config)


def make_rsl_rl(policy: ActorCritic, **settings: Any) -> PPO:
    """rsl_rl's PPO with the same weights."""
    observations = TensorDict({"policy": torch.zeros(ENVS, OBS)}, batch_size=[ENVS])
    groups = {"actor": ["policy"], "critic": ["policy"]}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 0.6, "std_range": (1e-3, 1e6)}
    actor = MLPModel(observations, groups, "actor", ACTIONS, HIDDEN, "elu", distribution_cfg=gaussian)
    critic = MLPModel(observations, groups, "critic", 1, HIDDEN, "elu")
    actor.mlp.load_state_dict(policy.actor.state_dict())
    critic.mlp.load_state_dict(policy.critic.state_dict())
    storage = RolloutStorage("rl", ENVS, STEPS, observations, [ACTIONS])
    return PPO(actor, critic, storage, gamma=GAMMA, lam=LAM, **settings)


def make_rollout() -> dict[str, Tensor]:
    truncated = torch.rand(STEPS, ENVS) < 0.15
    return {
        "observations": torch.randn(STEPS + 1, ENVS, OBS),
        "final": torch.randn(STEPS, ENVS, OBS),
        "rewards": torch.randn(STEPS, ENVS),
        "terminated": (torch.rand(STEPS, ENVS) < 0.15) & ~truncated,
        "truncated": truncated,
    }


def collect(ppo: PPO, rollout: dict[str, Tensor]) -> None:
    """Let rsl_rl act in and record ``rollout``, through its own interface."""
    for t in range(STEPS):
        ppo.act(TensorDict({"policy": rollout["observations"][t]}, batch_size=[ENVS]))
        done = rollout["terminated"][t] | rollout["truncated"][t]
        after = TensorDict({"policy": rollout["observations"][t + 1]}, batch_size=[ENVS])
        ppo.process_env_step(after, rollout["rewards"][t], done, {"time_outs": rollout["truncated"][t]})
    ppo.compute_returns(TensorDict({"policy": rollout["observations"][-1]}, batch_size=[ENVS]))


@torch.no_grad()
def our_values(policy: ActorCritic, observations: Tensor) -> Tensor:
    return policy.value({"policy": observations.flatten(0, 1)}).reshape(observations.shape[:2])


@torch.no_grad()
def make_batch(policy: ActorCritic, ppo: PPO) -> Batch:
    """rsl_rl's recorded rollout in our form. Advantages are left for the optimiser to normalise."""
    st = ppo.storage
    observations = {"policy": st.observations["policy"].flatten(0, 1)}
    mean, std = policy.distribution(observations)
    actions = st.actions.flatten(0, 1)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=gaussian_log_prob(mean, std, actions),
        advantages=(st.returns - st.values).flatten(),
        values=policy.value(observations),
        returns=st.returns.flatten(),
        distribution=(mean, std.expand_as(mean)),
    )


# ---- advantages ------------------------------------------------------------------------------------------------------


def test_advantages_and_returns_without_time_outs():
    policy, rollout = make_policy(), make_rollout()
    rollout["terminated"] |= rollout["truncated"]
    rollout["truncated"] &= False
    ppo = make_rsl_rl(policy)
    collect(ppo, rollout)
    values = our_values(policy, rollout["observations"])
    done = rollout["terminated"]
    assert done.any()
    advantages = gae(rollout["rewards"], values[:-1], values[1:], done, done, GAMMA, LAM)
    torch.testing.assert_close(ppo.storage.returns[..., 0], advantages + values[:-1], **ROUNDED)
    torch.testing.assert_close(ppo.storage.advantages[..., 0], normalise(advantages), **ROUNDED)


def test_time_outs_are_bootstrapped_from_the_state_before_the_last_step_by_rsl_rl():
    """rsl_rl adds g V(s_t) to the last reward, as it never sees the final observation; we use g V(s_final).

    With the value of s_t in the place of that of the final observation ours are rsl_rl's numbers.
    """
    policy, rollout = make_policy(), make_rollout()
    ppo = make_rsl_rl(policy)
    collect(ppo, rollout)
    values = our_values(policy, rollout["observations"])
    truncated, terminated = rollout["truncated"], rollout["terminated"]
    assert truncated.any()

    def ours(final_values: Tensor) -> Tensor:
        next_values = torch.where(truncated, final_values, values[1:])
        return gae(rollout["rewards"], values[:-1], next_values, terminated, terminated | truncated, GAMMA, LAM)

    approximate = ours(values[:-1])
    torch.testing.assert_close(ppo.storage.returns[..., 0], approximate + values[:-1], **ROUNDED)
    exact = ours(our_values(policy, rollout["final"]))
    same = (approximate - exact).abs() < 1e-12
    assert not same[truncated].any()
    assert same.any()  # episodes that a time-out does not end


# ---- the whole update ------------------------------------------------------------------------------------------------


def same_order_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """rsl_rl draws one order for all epochs, we a new one for each: let every draw be the same."""
    order = torch.randperm(STEPS * ENVS)
    monkeypatch.setattr(torch, "randperm", lambda n, **_: order[order < n])


def compare(policy: ActorCritic, ppo: PPO, tolerance: float = 1e-9) -> None:
    pairs = [
        (policy.actor.state_dict(), ppo.actor.mlp.state_dict()),
        (policy.critic.state_dict(), ppo.critic.mlp.state_dict()),
        ({"std": policy.head.raw_std.data}, {"std": ppo.actor.distribution.std_param.data}),
    ]
    for ours, theirs in pairs:
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            torch.testing.assert_close(value, theirs[name], rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"clip_value_loss": False}, {"use_clipped_value_loss": False}),
        ({"schedule": "constant"}, {"schedule": "fixed"}),
        ({"max_grad_norm": 0.05}, {"max_grad_norm": 0.05}),
        (
            {"surrogate": ClippedSurrogate(clip=0.05), "value_coefficient": 0.3},
            {"clip_param": 0.05, "value_loss_coef": 0.3},
        ),
        ({"desired_kl": 1e-4}, {"desired_kl": 1e-4}),
    ],
    ids=["defaults", "plain value loss", "constant rate", "tight gradient clip", "clip and value weight", "small KL"],
)
def test_parameters_after_an_update(ours, theirs, monkeypatch):
    policy, rollout = make_policy(), make_rollout()
    ppo = make_rsl_rl(policy, **{"entropy_coef": 0.005, "learning_rate": 3e-3, **theirs})
    collect(ppo, rollout)
    batch = make_batch(policy, ppo)
    start = [p.detach().clone() for p in policy.parameters()]
    optimizer = PolicyOptimizer(policy, OptimizerConfig(**{"learning_rate": 3e-3, "chunk_size": 7, **ours}))
    same_order_for_both(monkeypatch)
    for _ in range(2):
        statistics = optimizer.update(batch)
        losses = ppo.update()
    compare(policy, ppo)
    assert any((p - q).abs().max() > 1e-3 for p, q in zip(policy.parameters(), start, strict=True))
    assert statistics["value_loss"] == pytest.approx(losses["value"], rel=1e-5)
    assert statistics["policy_loss"] == pytest.approx(losses["surrogate"], rel=1e-5)
    assert statistics["entropy"] == pytest.approx(losses["entropy"], rel=1e-5)
    assert optimizer.learning_rate == pytest.approx(ppo.learning_rate, rel=1e-12)
    if optimizer.config.schedule == "adaptive":
        assert optimizer.learning_rate != 3e-3


def test_parameters_after_an_update_in_bfloat16_stay_close(monkeypatch):
    """rsl_rl's mixed precision also covers the losses; ours keeps those in float32, so only similar, not equal."""
    torch.set_default_dtype(torch.float32)
    policy, rollout = make_policy(), make_rollout()
    ppo = make_rsl_rl(policy, entropy_coef=0.005, schedule="fixed", use_mixed_precision=True)
    collect(ppo, rollout)
    batch = make_batch(policy, ppo)
    optimizer = PolicyOptimizer(policy, OptimizerConfig(schedule="constant", precision="bfloat16"))
    same_order_for_both(monkeypatch)
    optimizer.update(batch)
    ppo.update()
    compare(policy, ppo, tolerance=1e-2)


# ---- symmetry --------------------------------------------------------------------------------------------------------

PERM, SIGN = torch.tensor([[0, 1, 2, 3, 4], [1, 0, 3, 2, 4]]), torch.tensor([[1, 1, 1, 1, 1], [1, 1, -1, -1, -1]])
ACTION_PERM, ACTION_SIGN = torch.tensor([[0, 1, 2], [1, 0, 2]]), torch.tensor([[1, 1, 1], [1, 1, -1]])


def mirror(env: object, obs: TensorDict | None, actions: Tensor | None) -> tuple[TensorDict | None, Tensor | None]:
    """The same reflection written the way rsl_rl asks for it: originals first, then images."""
    if obs is not None:
        image = obs["policy"][:, PERM[1]] * SIGN[1]
        obs = TensorDict({"policy": torch.cat((obs["policy"], image))}, batch_size=[2 * len(image)])
    if actions is not None:
        actions = torch.cat((actions, actions[:, ACTION_PERM[1]] * ACTION_SIGN[1]))
    return obs, actions


def test_parameters_after_an_update_with_mirrored_data(monkeypatch):
    """One minibatch, so that an image is in the same minibatch as its original, as rsl_rl always has it.

    rsl_rl reports entropy and KL of the originals alone; a Gaussian's entropy does not depend on the observation, and
    the rate is constant here, so that the gradients are the same.
    """
    policy, rollout = make_policy(), make_rollout()
    symmetry_cfg = {"env": None, "data_augmentation_func": mirror, "use_data_augmentation": True}
    ppo = make_rsl_rl(policy, entropy_coef=0.005, schedule="fixed", num_mini_batches=1, symmetry_cfg=symmetry_cfg)
    collect(ppo, rollout)
    symmetry = Symmetry({"policy": (PERM, SIGN)}, (ACTION_PERM, ACTION_SIGN), selectors=(4,)).double()
    original = make_batch(policy, ppo)
    with torch.no_grad():  # rsl_rl normalises before it mirrors
        batch = symmetry.augment(original.replace(advantages=normalise(original.advantages)), policy.distribution)
    config = OptimizerConfig(schedule="constant", minibatches=1, normalize_advantages="none")
    optimizer = PolicyOptimizer(policy, config)
    statistics = optimizer.update(batch)
    losses = ppo.update()
    compare(policy, ppo)
    assert statistics["value_loss"] == pytest.approx(losses["value"], rel=1e-5)
    assert statistics["policy_loss"] == pytest.approx(losses["surrogate"], rel=1e-5)


@pytest.mark.parametrize("workers", [1, 2])
def test_parameters_after_an_update_with_a_mirror_loss(monkeypatch, workers):
    """One minibatch; chunks and threads share the loss, whose statistic has its coefficient."""
    policy, rollout = make_policy(), make_rollout()
    symmetry_cfg = {
        "env": None,
        "data_augmentation_func": mirror,
        "use_data_augmentation": False,
        "use_mirror_loss": True,
        "mirror_loss_coeff": 0.5,
    }
    ppo = make_rsl_rl(policy, entropy_coef=0.005, schedule="fixed", num_mini_batches=1, symmetry_cfg=symmetry_cfg)
    collect(ppo, rollout)
    symmetry = Symmetry({"policy": (PERM, SIGN)}, (ACTION_PERM, ACTION_SIGN), selectors=(4,)).double()
    loss = MirrorLoss(policy, symmetry, 0.5)
    batch = loss.advantages(make_batch(policy, ppo))
    config = OptimizerConfig(schedule="constant", minibatches=1, chunk_size=40, workers=workers)
    statistics = PolicyOptimizer(policy, config, added={"mirror": loss.added_loss}).update(batch)
    losses = ppo.update()
    compare(policy, ppo)
    assert losses["symmetry"] > 1e-3
    assert statistics["mirror_loss"] == pytest.approx(0.5 * losses["symmetry"], rel=1e-5)
    assert statistics["policy_loss"] == pytest.approx(losses["surrogate"], rel=1e-5)


# ---- normaliser ------------------------------------------------------------------------------------------------------


def test_normaliser():
    ours, theirs = RunningNormalizer(4), EmpiricalNormalization(4)
    for n in (1, 7, 300):
        x = torch.randn(n, 4) * torch.tensor([1.0, 10.0, 0.1, 1.0]) + torch.tensor([0.0, 5.0, 0.0, -100.0])
        ours.update(x)
        theirs.update(x)
        torch.testing.assert_close(ours.mean, theirs.mean)
        torch.testing.assert_close(ours.var.sqrt(), theirs.std)
        torch.testing.assert_close(ours(x), theirs(x))
