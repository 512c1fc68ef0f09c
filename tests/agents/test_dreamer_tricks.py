"""DreamerV3's tricks: their formulas, and that each works with every kind of policy."""

from __future__ import annotations

import dataclasses
import io
import math

import numpy as np
import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.scaling import PercentileScaler
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.critics import VALUE_HEADS, DreamerTricks, TwoHot, symexp, symlog, two_hot
from gaitway_agents.models.heads import ACTION_MASK, Categorical
from gaitway_agents.models.recurrent import POLICIES
from gaitway_agents.presets import PPO_DREAMER, PPOConfig
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from on_policy import on_policy_trainer
from tiny_worlds import TinyWorld, always, signs
from torch import Tensor

ALL = DreamerTricks(
    symlog_observations=True, critic="two_hot", critic_zero_init=True, critic_ema=True, percentile_scaling=True
)
SMALL = ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False, init_std=0.5)
CONFIG = PPOConfig(
    num_steps=8,
    gamma=0.9,
    model=SMALL,
    optimizer=OptimizerConfig(
        epochs=4,
        minibatches=2,
        learning_rate=1e-2,
        schedule="constant",
        clip_value_loss=False,
        entropy_coefficient=0.0,
        normalize_advantages="none",
    ),
)
BINS = TwoHot().bins
KINDS = {
    "feed-forward": {},
    "shared encoder": {"share_encoder": True},
    "recurrent": {"recurrent": "gru", "memory_size": 8},
}


# ---- symlog and two-hot ----------------------------------------------------------------------------------------------


@given(st.floats(-6.0, 6.0), st.sampled_from([-1.0, 1.0]))
def test_symexp_undoes_symlog_over_twelve_orders_of_magnitude(exponent, sign):
    x = torch.tensor(sign * 10.0**exponent)
    assert symexp(symlog(x)).item() == pytest.approx(x.item(), rel=1e-5)
    assert symlog(x).item() == pytest.approx(sign * math.log1p(10.0**exponent), rel=1e-6)


def test_bins_are_symmetric_and_one_of_them_is_zero():
    assert torch.equal(BINS, -BINS.flip(0))
    assert (BINS[0].item(), BINS[127].item(), BINS[254].item(), len(BINS)) == (-20.0, 0.0, 20.0, 255)
    torch.testing.assert_close(BINS.diff(), torch.full((254,), 40.0 / 254))


@given(st.lists(st.floats(-20.0, 20.0, width=32), min_size=1, max_size=5))
def test_the_mean_of_a_two_hot_distribution_is_the_number_it_encodes(numbers):
    x = torch.tensor(numbers)
    hot = two_hot(x, BINS)
    torch.testing.assert_close(hot @ BINS, x, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(hot.sum(-1), torch.ones(len(x)))
    for row, number in zip(hot, numbers, strict=True):
        places = row.nonzero().flatten().tolist()
        near_a_bin = (number - BINS).abs().min() < 1e-5  # so near that rounding may put it on the bin
        assert len(places) == 2 or (near_a_bin and len(places) == 1)
        assert places[-1] - places[0] == len(places) - 1
        assert (row >= 0.0).all()


def test_a_number_on_a_bin_is_one_hot_and_one_beyond_them_goes_to_the_last():
    assert torch.equal(two_hot(BINS, BINS), torch.eye(255))
    assert torch.equal(two_hot(torch.tensor([-21.0, 1e9]), BINS), torch.eye(255)[[0, 254]])


def test_the_two_hot_loss_is_a_cross_entropy_with_its_gradient():
    head, targets = TwoHot().double(), torch.tensor([0.0, -3.7, 1e6, 2.5e-4], dtype=torch.float64)
    logits = torch.randn(4, 255, dtype=torch.float64, requires_grad=True)
    hot = two_hot(symlog(targets), head.bins)
    losses = head.losses(logits, targets)
    torch.testing.assert_close(losses, torch.nn.functional.cross_entropy(logits, hot, reduction="none"))
    assert torch.autograd.gradcheck(lambda x: head.losses(x, targets), logits)  # against finite differences
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(gradient, logits.softmax(-1) - hot)


@given(st.floats(-8.0, 8.0), st.sampled_from([-1.0, 1.0]))
def test_logits_of_a_two_hot_distribution_decode_to_its_value(exponent, sign):
    value = torch.tensor([sign * 10.0**exponent])
    logits = two_hot(symlog(value), BINS).log().clamp(min=-1e3)
    assert TwoHot().values(logits).item() == pytest.approx(value.item(), rel=2e-5, abs=1e-6)


def test_the_symlog_critic_regresses_symlogs_and_its_values_stay_finite():
    head, outputs = VALUE_HEADS["symlog"](), torch.tensor([[0.0], [2.0], [-1e4], [1e4]])
    torch.testing.assert_close(head.losses(outputs, torch.tensor([0.0, math.expm1(3.0), 0.0, 0.0]))[:2],
                               torch.tensor([0.0, 1.0]))  # fmt: skip
    limit = math.expm1(20.0)
    torch.testing.assert_close(head.values(outputs), torch.tensor([0.0, math.expm1(2.0), -limit, limit]))


# ---- percentile scaling ----------------------------------------------------------------------------------------------


def outcome(returns: Tensor, *, advantages: Tensor | None = None, mask: Tensor | None = None) -> Batch:
    """A batch of which only returns, advantages (the returns if not given) and mask matter."""
    return Batch(
        observations={},
        actions=returns,
        log_probs=returns,
        advantages=returns if advantages is None else advantages,
        returns=returns,
        mask=mask,
    )


def test_percentile_scaling_is_what_numpy_makes_of_its_definition():
    generator, scaler, expected = np.random.default_rng(0), PercentileScaler(), None
    for _ in range(5):
        returns = generator.standard_cauchy((7, 9)).astype(np.float32) * 100.0
        mask = generator.random((7, 9)) < 0.7
        low, high = np.percentile(returns[mask], [5, 95])
        expected = high - low if expected is None else 0.99 * expected + 0.01 * (high - low)
        scaler.seen(outcome(torch.from_numpy(returns), mask=torch.from_numpy(mask.astype(np.float32))))
        assert scaler.range == pytest.approx(expected, rel=1e-5)
    batch = outcome(torch.zeros(7, 9), advantages=torch.randn(7, 9))
    torch.testing.assert_close(scaler.advantages(batch).advantages, batch.advantages / expected)
    again = PercentileScaler()
    again.load_state_dict(scaler.state_dict())
    assert torch.equal(again.advantages(batch).advantages, scaler.advantages(batch).advantages)


@given(scale=st.floats(1e-6, 1e6))
def test_large_returns_are_scaled_down_to_a_range_of_one_and_small_ones_never_up(scale):
    batch = outcome(torch.linspace(0.0, scale, 101))
    scaler = PercentileScaler()
    scaler.seen(batch)
    largest = scaler.advantages(batch).advantages.max().item()
    assert largest == pytest.approx(scale if 0.9 * scale <= 1.0 else 1.0 / 0.9, rel=1e-5)


def test_a_rollout_without_transitions_says_nothing_of_the_range():
    scaler = PercentileScaler()
    batch = outcome(torch.arange(3.0), mask=torch.zeros(3))
    scaler.seen(batch)
    assert scaler.range is None
    assert torch.equal(scaler.advantages(batch).advantages, batch.advantages)


# ---- unimix ----------------------------------------------------------------------------------------------------------


def test_unimix_mixes_probabilities_over_the_possible_actions():
    head, logits = Categorical(spaces.MultiDiscrete([3, 2]), 0.01), torch.randn(6, 5) * 5
    mask = torch.tensor([[1, 1, 0, 1, 1]], dtype=torch.bool).expand(6, -1)
    (found,) = head(logits, {ACTION_MASK: mask})
    left = torch.cat((0.99 * logits[:, :2].softmax(-1) + 0.01 / 2, torch.zeros(6, 1)), -1)
    right = 0.99 * logits[:, 3:].softmax(-1) + 0.01 / 2
    torch.testing.assert_close(found.exp(), torch.cat((left, right), -1))


def test_unimix_has_the_right_gradients_where_logits_are_extreme_and_actions_masked():
    head = Categorical(spaces.Discrete(4), 0.01)
    mask = torch.tensor([[True, True, True, False]])
    actions = torch.tensor([1, 1])

    def log_probs(logits: Tensor) -> Tensor:
        return head.log_prob(head(logits, {ACTION_MASK: mask.expand(len(logits), -1)}), actions)

    extreme = torch.tensor([[80.0, -80.0, 0.0, 80.0], [0.3, -0.2, 0.1, 5.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_probs, extreme)
    torch.testing.assert_close(log_probs(extreme)[0].item(), math.log(0.01 / 3))
    single = extreme.detach().float().requires_grad_()
    (gradient,) = torch.autograd.grad(log_probs(single).sum(), single)
    assert torch.isfinite(gradient).all()
    assert gradient[:, 3].tolist() == [0.0, 0.0]


def test_unimix_bounds_the_divergence_between_any_two_policies():
    head = Categorical(spaces.Discrete(4), 0.01)
    one, other = torch.eye(4)[:1] * 1e4, torch.eye(4)[1:2] * 1e4
    assert head.kl(head(one, {}), head(other, {})).item() < math.log(4 / 0.01)


# ---- in a policy -----------------------------------------------------------------------------------------------------


def make_policy(dreamer: DreamerTricks = ALL, seed: int = 0, **model: object) -> ActorCritic:
    torch.manual_seed(seed)
    config = dataclasses.replace(SMALL, dreamer=dreamer, **model)
    return POLICIES[config.recurrent](boxes(policy=3), box(2), config)


@torch.no_grad()
def make_batch(policy: ActorCritic, rows: int = 40) -> Batch:
    torch.manual_seed(1)
    observations = {"policy": torch.randn(rows, 3) * 100.0}
    distribution = policy.distribution(observations)
    actions = policy.head.sample(distribution, torch.Generator().manual_seed(0))
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions),
        advantages=torch.randn(rows),
        values=policy.value(observations),
        returns=torch.randn(rows) * 1e3,
    )


def test_without_tricks_the_policy_is_the_plain_one():
    plain = make_policy(DreamerTricks())
    assert plain.evaluate(make_batch(plain)).value_losses is None
    torch.manual_seed(0)
    other = ActorCritic(boxes(policy=3), box(2), SMALL)
    assert plain.state_dict().keys() == other.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), other.parameters(), strict=True))
    assert not any("slow" in name or "value_head" in name for name in plain.state_dict())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("critic", VALUE_HEADS)
def test_a_critic_that_starts_at_zero_says_zero(critic, kind):
    policy = make_policy(DreamerTricks(critic=critic, critic_zero_init=True), **KINDS[kind])
    observations = {"policy": torch.randn(30, 3)} | policy.initial_memory(30)
    assert policy.value(observations).abs().max() < 2e-5
    other = make_policy(DreamerTricks(critic=critic), **KINDS[kind])
    assert other.value(observations).abs().max() > 1e-3


def test_symlog_squashes_vectors_before_they_are_normalised():
    policy = make_policy(DreamerTricks(symlog_observations=True), normalize_observations=True)
    seen = torch.randn(500, 3) * 1e4
    policy.update_normalizers({"policy": seen})
    normalizer = policy.actor_encoder.parts["policy"].normalizer
    torch.testing.assert_close(normalizer.mean, symlog(seen).mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(policy.actor_encoder({"policy": seen}), normalizer(symlog(seen)))
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(policy.export_actor().eval(), (seen[:8],), dynamic_shapes=({0: rows},))
    torch.testing.assert_close(exported.module()(seen[:5]), policy.distribution({"policy": seen[:5]})[0])


@pytest.mark.parametrize("critic", VALUE_HEADS)
def test_the_moving_average_follows_its_formula_and_draws_the_critic(critic):
    policy = make_policy(DreamerTricks(critic=critic, critic_ema=True))
    batch = make_batch(policy)
    config = dataclasses.replace(CONFIG.optimizer, epochs=1, minibatches=1, learning_rate=1e-2)
    optimizer = PolicyOptimizer(policy, config)
    expected = [p.detach().clone() for p in policy.critic.parameters()]
    for _ in range(5):
        optimizer.update(batch)
        expected = [0.98 * old + 0.02 * new for old, new in zip(expected, policy.critic.parameters(), strict=True)]
    for found, wanted in zip(policy.slow_critic.buffers(), expected, strict=True):
        torch.testing.assert_close(found, wanted.detach())
    head, features = policy.value_head, policy.critic_encoder(batch.observations)
    outputs, slow = policy.critic(features), head.values(policy.slow_critic(features))
    losses = policy.evaluate(batch).value_losses
    torch.testing.assert_close(losses, head.losses(outputs, batch.returns) + head.losses(outputs, slow))
    assert not torch.allclose(losses, head.losses(outputs, batch.returns))
    assert losses.requires_grad and not any(b.requires_grad for b in policy.slow_critic.buffers())


def test_workers_see_the_moving_average_move():
    def updated(workers: int) -> Tensor:
        policy = make_policy()
        config = dataclasses.replace(CONFIG.optimizer, workers=workers)
        PolicyOptimizer(policy, config, torch.Generator().manual_seed(0)).update(make_batch(policy))
        return torch.cat([value.flatten() for value in policy.state_dict().values()])

    torch.testing.assert_close(updated(3), updated(1), rtol=1e-4, atol=1e-5)


# ---- in training -----------------------------------------------------------------------------------------------------


def with_tricks(dreamer: DreamerTricks, **model: object) -> PPOConfig:
    return dataclasses.replace(CONFIG, model=dataclasses.replace(SMALL, dreamer=dreamer, **model))


@pytest.mark.parametrize(
    ("kind", "reward"), [("feed-forward", 3e-3), ("feed-forward", 3e3), ("shared encoder", 3e3), ("recurrent", 3e3)]
)
def test_the_critic_learns_a_reward_of_any_scale(kind, reward):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        return state, reward * (2.0 + state[:, 0]), always(len(state))

    tricks = dataclasses.replace(ALL, critic_ema=False)  # which learns the same, but slowly
    trainer = on_policy_trainer(TinyWorld(signs, rule, num_envs=16), with_tricks(tricks, **KINDS[kind]), seed=0)
    trainer.optimizer.learning_rate = 3e-2
    for _ in range(30):
        trainer.iterate()
    observations = {"policy": torch.tensor([[-1.0], [1.0]])} | trainer.initial_memory(2)
    with torch.no_grad():
        assert trainer.policy.value(observations).tolist() == pytest.approx([reward, 3.0 * reward], rel=0.1)


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -100.0 * state.square()[:, 0], state[:, 0].abs() > 2.0


def make_world() -> TinyWorld:
    return TinyWorld(signs, walk, time_limit=6, num_envs=16)


def everything(value: object) -> list[bytes]:
    """All numbers in a state, as bytes."""
    if isinstance(value, Tensor):
        return [value.numpy().tobytes()]
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return [found for part in parts for found in everything(part)]
    return [repr(value).encode()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_continued_from_its_state_is_the_uninterrupted_run_bit_for_bit(kind):
    config = with_tricks(ALL, **KINDS[kind])
    trainer, resumed = (on_policy_trainer(make_world(), config, seed=seed) for seed in (0, 77))
    for _ in range(2):
        trainer.iterate()
    buffer = io.BytesIO()
    torch.save(trainer.state_dict(), buffer)
    buffer.seek(0)
    resumed.load_state_dict(torch.load(buffer, weights_only=True))
    for _ in range(2):
        metrics = trainer.iterate()
        resumed.iterate()
    assert everything(resumed.state_dict()) == everything(trainer.state_dict())
    assert metrics["learn/return_range"] > 1.0


def test_advantages_are_scaled_by_the_range_and_the_range_counts_a_rollout_once():
    config = dataclasses.replace(with_tricks(DreamerTricks(percentile_scaling=True)), recompute_advantages=True)
    trainer = on_policy_trainer(make_world(), config, seed=0)
    ranges, seen = [], []
    scaler = trainer.additions["advantage_scaler"]
    update, scale = trainer.optimizer.update, scaler.seen
    scaler.seen = lambda batch: (ranges.append(batch.returns), scale(batch))
    trainer.optimizer.update = lambda batch, refresh: (seen.extend((batch, refresh())), update(batch, refresh))[1]
    trainer.iterate()
    assert len(ranges) == 1
    low, high = np.percentile(ranges[0].numpy(), [5, 95])
    raw = seen[0].returns - seen[0].values
    torch.testing.assert_close(seen[0].advantages, raw / (high - low), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(seen[1].advantages, seen[0].advantages)  # nothing has been learnt in between


# ---- bad combinations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tricks", "optimizer", "message"),
    [
        ({"percentile_scaling": True}, {"normalize_advantages": "batch"}, "normalize_advantages 'batch'.*'none'"),
        ({"percentile_scaling": True}, {"normalize_advantages": "minibatch"}, "normalize_advantages 'minibatch'"),
        ({"critic": "two_hot"}, {"clip_value_loss": True}, "clip_value_loss.*two_hot"),
        ({"critic": "symlog"}, {"clip_value_loss": True}, "clip_value_loss.*symlog"),
        ({"critic_ema": True}, {"clip_value_loss": True}, "clip_value_loss"),
    ],
    ids=str,
)
def test_combinations_that_undo_each_other_are_refused(tricks, optimizer, message):
    model = dataclasses.replace(SMALL, dreamer=DreamerTricks(**tricks))
    with pytest.raises(ValueError, match=message):
        PPOConfig(model=model, optimizer=dataclasses.replace(CONFIG.optimizer, **optimizer))


def test_an_unknown_critic_is_refused():
    with pytest.raises(ValueError, match=r"critic 'twohot'.*two_hot"):
        DreamerTricks(critic="twohot")


def test_the_preset_has_every_trick():
    assert PPO_DREAMER.model.dreamer == ALL
    assert PPO_DREAMER.model.unimix == 0.01
