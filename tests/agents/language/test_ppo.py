"""PPO from human feedback, by the details of "The N+ implementation details of RLHF with PPO" (Huang et al. 2024)."""

from dataclasses import replace

import pytest
import torch
from gaitway_agents.core.advantage import normalise
from gaitway_agents.language.kl_control import KLControlConfig
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.language.presets import PPO_RLHF
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.models.token_critic import TokenCritic
from tiny_models import tiny_lm
from token_worlds import WantedToken
from torch.nn.functional import pad

SMALL = replace(PPO_RLHF, prompts_per_step=16, schedule=LearningRateSchedule())


def trainer(config=SMALL, *, world=WantedToken, critic=None, **settings):
    model = tiny_lm(vocab_size=12)
    critic = TokenCritic(tiny_lm(seed=1, vocab_size=12)) if critic is None else critic
    return PolicyGradientTrainer(model, world(model), config, seed=0, critic=critic, **settings)


def prepared(learner, metrics=None):
    samples, _ = learner._sample()
    return samples, learner._prepare(samples, {} if metrics is None else metrics)


class Shifted:
    """A reference that finds every token ``gap`` nats likelier, or less likely, than the engine did."""

    def __init__(self, learner, gap):
        self.learner, self.gap = learner, gap

    def evaluate(self, batch, config):
        return (self.learner.last_rollout.log_probs + self.gap) * batch.mask


def test_the_settings_are_those_of_the_paper():
    optimizer, kl = PPO_RLHF.optimizer, PPO_RLHF.kl
    assert (kl.coefficient, kl.estimator, kl.target) == (0.05, "k1", None)
    assert (PPO_RLHF.gamma, PPO_RLHF.lam, PPO_RLHF.whiten_rewards) == (1.0, 0.95, False)
    assert (optimizer.learning_rate, optimizer.eps, optimizer.epochs, optimizer.minibatches) == (3e-6, 1e-5, 4, 1)
    assert (optimizer.surrogate.clip, optimizer.value_clip, optimizer.normalize_advantages) == (0.2, 0.2, "batch")
    assert optimizer.value_coefficient == 0.1 / 2 and optimizer.clip_value_loss
    assert PPO_RLHF.schedule.shape == "linear" and PPO_RLHF.missing_eos_reward == -1.0


def test_advantages_are_those_of_a_plain_loop_over_the_tokens_of_each_answer():
    learner = trainer()
    learner.reference = Shifted(learner, -0.3)
    with torch.no_grad():
        learner.policy.critic.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    samples, batch = prepared(learner)
    config = learner.config
    for row in range(len(samples)):
        columns = samples.mask[row].nonzero().flatten().tolist()
        score = float(samples.rewards[row])
        carry, following = 0.0, 0.0
        for t in reversed(columns):
            reward = -0.05 * 0.3 + (score if t == columns[-1] else 0.0)
            value = float(batch.values[row, t])
            carry = reward + config.gamma * following - value + config.gamma * config.lam * carry
            following = value
            assert float(batch.advantages[row, t]) == pytest.approx(carry, abs=1e-5)
            assert float(batch.returns[row, t]) == pytest.approx(carry + value, abs=1e-5)
    assert not batch.advantages[samples.mask == 0].any() and not batch.returns[samples.mask == 0].any()


def test_the_kl_controller_hears_of_the_divergence_of_whole_answers_after_this_batch():
    learner = trainer(replace(SMALL, kl=KLControlConfig(coefficient=0.1, target=6.0, horizon=1000)))
    learner.reference = Shifted(learner, -2.0)
    metrics = {}
    samples, _ = prepared(learner, metrics)
    kl = 2.0 * float(samples.sizes.mean())
    assert metrics["rollout/reference_kl"] == pytest.approx(kl, rel=1e-5)
    assert metrics["learn/reference_kl"] == pytest.approx(2.0, rel=1e-5) and metrics["learn/kl_coefficient"] == 0.1
    error = min(max(kl / 6.0 - 1.0, -0.2), 0.2)
    assert learner.controller.coefficient == pytest.approx(0.1 * (1.0 + error * 16 / 1000))


def test_the_reference_is_the_model_as_it_was():
    learner = trainer(replace(SMALL, optimizer=replace(SMALL.optimizer, learning_rate=1e-2)))
    first, later = (learner.iterate()["rollout/reference_kl"] for _ in range(2))
    assert first == pytest.approx(0.0, abs=1e-5) and abs(later) > 1e-3


def test_advantages_are_whitened_over_the_tokens_of_the_whole_batch():
    learner = trainer()
    _, batch = prepared(learner)
    seen = []
    learner.optimizer.loss = lambda new, part, loss=learner.optimizer.loss: (seen.append(part), loss(new, part))[1]
    learner.optimizer.loss.statistics = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
    learner.optimizer.update(batch)
    kept = torch.cat([part.advantages[part.mask.bool()] for part in seen[: len(seen) // 4]])
    assert float(kept.mean()) == pytest.approx(0.0, abs=1e-5) and float(kept.std()) == pytest.approx(1.0, abs=1e-4)
    expected = normalise(batch.advantages, batch.mask)[batch.mask.bool()]
    assert kept.sort().values == pytest.approx(expected.sort().values, abs=1e-5)


def test_rewards_of_tokens_are_whitened_if_asked():
    scores = []
    for whiten in (False, True):
        learner = trainer(replace(SMALL, whiten_rewards=whiten, lam=1.0, kl=None))
        _, batch = prepared(learner)
        scores.append(batch.returns)
    assert float(scores[1].abs().max()) > 2.0 * float(scores[0].abs().max())


class Padded(WantedToken):
    def sample(self, num_prompts, group_size):
        rollout = super().sample(num_prompts, group_size)
        padded = {name: pad(getattr(rollout, name), (0, 5)) for name in ("tokens", "mask", "log_probs")}
        return replace(rollout, **padded)


def test_padding_changes_nothing():
    learners = [trainer(world=world) for world in (WantedToken, Padded)]
    for learner in learners:
        learner.iterate()
    for one, two in zip(learners[0].policy.parameters(), learners[1].policy.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-6)


class Warm(WantedToken):
    temperature = 0.7


def test_probabilities_are_those_at_the_temperature_of_sampling():
    config = replace(SMALL, optimizer=replace(SMALL.optimizer, epochs=1))
    metrics = trainer(config, world=Warm).iterate()
    assert metrics["learn/kl"] == pytest.approx(0.0, abs=1e-6) and metrics["learn/clip_fraction"] == 0.0


def test_the_critic_learns_what_answers_earn():
    config = replace(SMALL, prompts_per_step=64, optimizer=replace(SMALL.optimizer, learning_rate=3e-3))
    learner = trainer(replace(config, kl=None, optimizer=replace(config.optimizer, value_coefficient=1.0)))
    losses = [learner.iterate()["learn/value_loss"] for _ in range(12)]
    assert sum(losses[-3:]) < 0.4 * sum(losses[:3])


def test_critic_and_advantage_go_together():
    model = tiny_lm(vocab_size=12)
    with pytest.raises(ValueError, match="'gae' needs one"):
        PolicyGradientTrainer(model, WantedToken(model), SMALL, seed=0)
    with pytest.raises(ValueError, match="others none"):
        trainer(replace(SMALL, advantage="reinforce++"))
