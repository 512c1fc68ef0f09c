import copy
import math
from dataclasses import replace

import pytest
import torch
from gaitway_agents.core.finite import NonFiniteError
from gaitway_agents.core.losses import ReferenceKL
from gaitway_agents.language import presets
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.corrections import CorrectionConfig
from gaitway_agents.language.entropy_control import EntropyControlConfig
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.kl_control import KLControlConfig
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.language.reference import Reference
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_agents.models.token_critic import TokenCritic
from tiny_models import tiny_lm
from token_worlds import WantedToken

QUICK = PolicyGradientConfig(prompts_per_step=4, group_size=4, optimizer=one_step(learning_rate=3e-3))


def trainer(config=QUICK, *, seed=0, total_steps=None, model=None, world=WantedToken, **settings):
    model = tiny_lm(vocab_size=12) if model is None else model
    return PolicyGradientTrainer(model, world(model, seed=seed), config, seed=seed, total_steps=total_steps, **settings)


def parameters(learner):
    return torch.cat([p.detach().flatten() for p in learner.policy.model.parameters()])


class Unanimous(WantedToken):
    """Answers to every second prompt all earn the same."""

    def sample(self, num_prompts, group_size):
        rollout = super().sample(num_prompts, group_size)
        return replace(rollout, rewards=torch.where(rollout.groups % 2 == 0, rollout.rewards, 1.0 / 3.0))


def test_the_ratio_starts_at_one_and_metrics_are_those_of_the_sample():
    learner = trainer()
    metrics = learner.iterate()
    rollout = learner.last_rollout
    assert metrics["learn/kl"] == pytest.approx(0.0, abs=1e-6) and metrics["learn/clip_fraction"] == 0.0
    assert metrics["rollout/reward"] == pytest.approx(float(rollout.rewards.mean()))
    assert metrics["rollout/length"] == pytest.approx(float(rollout.mask.sum(1).mean()))
    assert metrics["rollout/finished"] == pytest.approx(float(rollout.finished.float().mean()))
    assert metrics["rollout/staleness"] == 0.0 and learner.steps == 16


def test_log_probabilities_of_the_trainer_give_the_update_of_an_exact_engine():
    one, two = trainer(), trainer(replace(QUICK, behaviour="trainer"))
    for learner in (one, two):
        metrics = [learner.iterate() for _ in range(3)]
    torch.testing.assert_close(parameters(one), parameters(two), rtol=0, atol=1e-4)
    assert metrics[-1]["learn/mismatch_kl"] == pytest.approx(0.0, abs=1e-6)


def test_several_minibatches_and_epochs_move_away_from_the_behaviour():
    metrics = trainer(replace(QUICK, optimizer=one_step(learning_rate=1e-2, minibatches=4, epochs=2))).iterate()
    assert metrics["learn/minibatches"] == 8 and metrics["learn/kl"] > 1e-3


def test_prompts_whose_answers_all_earn_the_same_teach_nothing():
    learner = trainer(world=Unanimous)
    samples, _ = learner._sample()
    batch = learner._prepare(samples, {})
    unanimous = samples.groups % 2 == 1
    assert not batch.advantages[unanimous].any() and batch.advantages[~unanimous].any()


class Fork(WantedToken):
    """Answer 2 leads to the reply 7, where one of two earns something, and answer 3 to the reply 8 and to nothing."""

    def sample(self, num_prompts, group_size):
        earned = torch.zeros(4, 4)
        earned[0, 3] = 1.0
        return replace(
            super().sample(1, 4),
            tokens=torch.tensor([[9, 2, 7, 4], [9, 2, 7, 5], [9, 3, 8, 4], [9, 3, 8, 5]]),
            lengths=torch.full((4,), 4),
            mask=torch.tensor([[0.0, 1, 0, 1]]).repeat(4, 1),
            log_probs=torch.zeros(4, 4),
            rewards=earned.sum(1),
            turn_rewards=earned,
        )


def test_a_turn_is_credited_with_the_place_it_leads_to_whatever_comes_of_it(monkeypatch):
    learner = trainer(replace(QUICK, advantage="place", lam=0.0), world=Fork)
    seen = []
    monkeypatch.setattr(learner.optimizer, "update", lambda batch: seen.append(batch.advantages) or {})
    learner.iterate()
    (advantages,) = seen
    scale = advantages[0, 3] / 0.5  # of whitening
    expected = torch.tensor([[0, 0.25, 0, 0.5], [0, 0.25, 0, -0.5], [0, -0.25, 0, 0], [0, -0.25, 0, 0]])
    torch.testing.assert_close(advantages, expected * scale)


def test_dropped_prompts_leave_the_update_of_the_others():
    """With means over tokens the kept prompts have more weight, by as much as there are fewer tokens."""
    keep, drop = trainer(world=Unanimous), trainer(replace(QUICK, zero_variance="drop"), world=Unanimous)
    batches = []
    for learner in (keep, drop):
        samples, metrics = learner._sample()
        batches.append(learner._prepare(samples, metrics))
        assert metrics["learn/used_groups"] == 0.5
    used = (torch.arange(16) // 4) % 2 == 0
    assert len(batches[1]) == 8 and torch.equal(batches[1].advantages, batches[0].advantages[used])
    share = float(batches[1].mask.sum() / batches[0].mask.sum())
    gradients = []
    for learner, batch in zip((keep, drop), batches, strict=True):
        learner.optimizer.update(batch)
        gradients.append(learner.optimizer.store.gradient.clone())
    whole = one_step(learning_rate=3e-3).max_grad_norm
    assert gradients[0].norm() <= whole and gradients[1].norm() <= whole + 1e-6
    direction = torch.nn.functional.cosine_similarity(gradients[0], gradients[1], dim=0)
    assert float(direction) == pytest.approx(1.0, abs=1e-5) and 0.3 < share < 0.7


def test_dynamic_sampling_fills_the_batch_with_prompts_that_teach():
    learner = trainer(replace(QUICK, zero_variance="resample"), world=Unanimous)
    samples, metrics = learner._sample()
    assert len(samples) == 16 and learner.world.calls == 2 and learner.steps == 32
    spread = samples.rewards.view(4, 4)
    assert (spread.amax(1) > spread.amin(1)).all() and metrics["learn/used_groups"] == 0.5


def test_an_update_may_learn_from_the_best_and_worst_answers_only():
    """Learning and advantages are those of the answers that are kept; metrics those of all."""
    learner = trainer(replace(QUICK, learnt_answers=2))
    samples, metrics = learner._sample()
    everything = trainer()._sample()[0]
    spread = everything.rewards.view(4, 4)
    assert torch.equal(samples.rewards.view(4, 2).amax(1), spread.amax(1))
    assert torch.equal(samples.rewards.view(4, 2).amin(1), spread.amin(1))
    assert metrics["rollout/reward"] == pytest.approx(float(everything.rewards.mean()))
    batch = learner._prepare(samples, {})
    assert len(batch) == 8 and torch.equal(
        batch.advantages.sum(1) > 0, samples.rewards > spread.mean(1).repeat_interleave(2)
    )


class Hopeless(WantedToken):
    def sample(self, num_prompts, group_size):
        rollout = super().sample(num_prompts, group_size)
        return replace(rollout, rewards=torch.zeros_like(rollout.rewards))


@pytest.mark.parametrize("how", ["drop", "resample"])
def test_without_a_prompt_that_teaches_the_model_stays(how):
    learner = trainer(replace(QUICK, zero_variance=how, max_resamples=2), world=Hopeless)
    before = parameters(learner)
    metrics = learner.iterate()
    assert torch.equal(parameters(learner), before) and metrics["learn/used_groups"] == 0.0
    assert learner.world.calls == (3 if how == "resample" else 1)


def test_truncated_answers_may_be_left_out_of_the_loss():
    learner = trainer(replace(QUICK, truncated="mask"))
    samples, _ = learner._sample()
    batch = learner._prepare(samples, {})
    assert 0 < int(samples.finished.sum()) < len(samples)
    assert torch.equal(batch.mask.bool().any(1), samples.finished)


def test_a_model_with_dropout_learns_without_it():
    model = tiny_lm(vocab_size=12, attention_dropout=0.5).train()
    assert trainer(replace(QUICK, behaviour="trainer"), model=model).iterate()["learn/kl"] == pytest.approx(0, abs=1e-6)


def test_the_rate_follows_the_schedule():
    config = replace(QUICK, schedule=LearningRateSchedule(shape="linear"))
    learner = trainer(config, total_steps=64)
    rates = [learner.iterate()["learn/learning_rate"] / 3e-3 for _ in range(4)]
    assert rates == pytest.approx([0.875, 0.625, 0.375, 0.125])
    with pytest.raises(ValueError, match="total_steps"):
        trainer(config)


class Broken(WantedToken):
    def sample(self, num_prompts, group_size):
        rollout = super().sample(num_prompts, group_size)
        rollout.rewards[3] = math.nan
        return rollout


def test_a_reward_that_is_no_number_ends_the_training_before_the_model_is_harmed():
    learner = trainer(world=Broken)
    before = parameters(learner)
    with pytest.raises(NonFiniteError, match="the reward of sampled sequence 3"):
        learner.iterate()
    assert torch.equal(parameters(learner), before)


class Silent(WantedToken):
    """One of two rewards has no opinion on every second answer."""

    part = math.nan

    def sample(self, num_prompts, group_size):
        rollout = super().sample(num_prompts, group_size)
        silent = torch.arange(len(rollout.rewards)) % 2 == 0
        return replace(rollout, parts={**rollout.parts, "other": torch.where(silent, self.part, 0.0)})


class Infinite(Silent):
    part = -math.inf


def test_a_reward_without_an_opinion_changes_nothing_else():
    silent, other = trainer(world=Silent), trainer()
    assert silent.iterate()["rollout/reward/other"] == 0.0
    other.iterate()
    assert torch.equal(parameters(silent), parameters(other))
    with pytest.raises(NonFiniteError, match="part 'other' of the reward of sampled sequence 0"):
        trainer(world=Infinite).iterate()


STEERED = replace(
    presets.PPO_RLHF,
    prompts_per_step=16,
    kl=KLControlConfig(coefficient=0.1, target=0.5, horizon=100),
    entropy=EntropyControlConfig(target=3.0, step=0.01),
    reference_interval=2,
    behaviour="trainer",
    correction=CorrectionConfig(),
    optimizer=replace(presets.PPO_RLHF.optimizer, learning_rate=3e-3),
)


@pytest.mark.parametrize(
    "config",
    [
        replace(QUICK, schedule=LearningRateSchedule(shape="cosine", warmup=0.2)),
        replace(QUICK, zero_variance="resample", optimizer=one_step(learning_rate=3e-3, minibatches=2)),
        STEERED,
        replace(QUICK, advantage="place", optimizer=one_step(learning_rate=3e-3, minibatches=2)),
    ],
    ids=["cosine", "resampling", "ppo", "place"],
)
def test_a_training_goes_on_bit_for_bit(config):
    def make(seed):
        critic = TokenCritic(tiny_lm(seed=1, vocab_size=12)) if config.advantage == "gae" else None
        return trainer(config, total_steps=160, seed=seed, critic=critic)

    whole = make(0)
    for _ in range(3):
        whole.iterate()
    resumed = make(1)
    if resumed.reference is not None:  # the start is the same, whatever the seed
        assert float(whole.controller.coefficient) != config.kl.coefficient
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    for _ in range(3):
        mine, theirs = whole.iterate(), resumed.iterate()
        for name in mine:
            assert name.startswith("time/") or name.endswith("tokens_per_s") or mine[name] == theirs[name], name
    for one, two in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert torch.equal(one, two)


class Biased(WantedToken):
    """An engine that says of every second token that it was likelier than it is."""

    def sample(self, num_prompts, group_size):
        rollout = super().sample(num_prompts, group_size)
        rollout.log_probs[:, ::2] += 0.5 * rollout.mask[:, ::2]
        return rollout


def test_weights_correct_an_engine_that_is_not_the_trainer():
    learner = trainer(replace(QUICK, behaviour="trainer", correction=CorrectionConfig(low=0.9)), world=Biased)
    samples, _ = learner._sample()
    metrics = {}
    weights = learner._prepare(samples, metrics).weights
    even = samples.mask.clone()
    even[:, 1::2] = 0.0
    assert weights[even.bool()] == pytest.approx(0.9)  # exp(-0.5), truncated
    assert weights[(samples.mask - even).bool()] == pytest.approx(1.0, abs=1e-4)
    assert metrics["learn/mismatch_kl"] > 0.01 and 0.0 < metrics["learn/importance_outside"] < 1.0
    assert trainer(replace(QUICK, behaviour="trainer")).iterate().keys() >= {"learn/mismatch_kl"}


@pytest.mark.parametrize("advantage", ["leave_one_out", "reinforce++", "gae"])
@pytest.mark.parametrize("behaviour", ["engine", "trainer"])
def test_a_penalty_for_leaving_the_reference_does_not_depend_on_the_engine(advantage, behaviour):
    """It is of the policy that learns; the ratio starts from whose log-probabilities ``behaviour`` says."""
    config = replace(QUICK, advantage=advantage, behaviour=behaviour, kl=KLControlConfig(estimator="k2", target=1.0))
    found = []
    for world in (WantedToken, Biased):
        critic = TokenCritic(tiny_lm(seed=1, vocab_size=12)) if advantage == "gae" else None
        learner = trainer(config, world=world, critic=critic)
        learner.reference = Reference(CausalLMPolicy(tiny_lm(seed=2, vocab_size=12)))
        metrics = {}
        batch = learner._prepare(learner._sample()[0], metrics)
        found.append((batch, metrics, learner.controller.coefficient))
    (exact, said, coefficient), (biased, also, same) = found
    torch.testing.assert_close(biased.advantages, exact.advantages, atol=1e-4, rtol=1e-4)
    for name in ("rollout/reference_kl", "learn/reference_kl"):
        assert also[name] == pytest.approx(said[name], rel=1e-4) and abs(said[name]) > 0.01
    assert same == pytest.approx(coefficient) != config.kl.coefficient
    assert torch.allclose(biased.log_probs, exact.log_probs, atol=1e-4) == (behaviour == "trainer")


def test_only_the_least_certain_tokens_may_be_learnt_from():
    learner = trainer(replace(QUICK, behaviour="trainer", entropy_share=0.2))
    samples, _ = learner._sample()
    weights = learner._prepare(samples, {}).weights
    assert float(weights.sum() / samples.mask.sum()) == pytest.approx(0.2, abs=0.03)


def test_bad_answers_far_from_the_policy_may_be_left_out():
    learner = trainer(replace(QUICK, behaviour="trainer", off_policy_threshold=0.1), world=Biased)
    samples, _ = learner._sample()
    batch = learner._prepare(samples, {})
    good = (batch.advantages > 0.0).any(1)
    kept = batch.weights.bool().any(1)
    assert kept[good].all() and not kept[~good].all()


def test_the_reference_moves_towards_the_policy():
    optimizer = one_step(learning_rate=3e-3, reference_kl=ReferenceKL(coefficient=0.1))
    learner = trainer(replace(QUICK, reference_interval=2, reference_rate=1.0, optimizer=optimizer))
    reference = learner.reference.policy.model
    first = parameters(learner)
    for expected in ("start", "now"):
        learner.iterate()
        theirs = torch.cat([p.detach().flatten() for p in reference.parameters()])
        assert torch.equal(theirs, first if expected == "start" else parameters(learner))
    with pytest.raises(ValueError, match="without a reference"):
        replace(QUICK, reference_interval=2)


def test_entropy_is_kept_up_by_a_bonus_that_comes_and_goes():
    config = replace(QUICK, prompts_per_step=8, group_size=8, optimizer=one_step(learning_rate=1e-2))
    plain = trainer(config)
    steered = trainer(replace(config, entropy=EntropyControlConfig(target=1.0, step=0.05)))
    entropies, coefficients = [], []
    for _ in range(25):
        plain_entropy = plain.iterate()["learn/entropy"]
        metrics = steered.iterate()
        entropies.append(metrics["learn/entropy"])
        coefficients.append(metrics["learn/entropy_coefficient"])
    assert coefficients[0] == 0.0 and max(coefficients) >= 0.05
    assert plain_entropy < 0.3 < sum(entropies[-5:]) / 5


def test_a_policy_can_be_taken_without_the_rest():
    learner, other = trainer(), trainer(seed=1)
    learner.iterate()
    other.load_policy(learner.state_dict())
    assert torch.equal(parameters(learner), parameters(other)) and other.steps == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"advantage": "best"}, "advantage 'best': use one of 'group'"),
        ({"scale": "max"}, "scale 'max'"),
        ({"zero_variance": "hide"}, "zero_variance 'hide'"),
        ({"truncated": "drop"}, "truncated 'drop'"),
        ({"behaviour": "both"}, "behaviour 'both'"),
        ({"prompts_per_step": 0}, "prompts_per_step 0"),
        ({"gamma": 1.5}, "gamma 1.5"),
        ({"group_size": 1}, "group_size 1 with advantage 'group'"),
        ({"advantage": "gae", "zero_variance": "drop"}, "zero_variance 'drop' with advantage 'gae'"),
        ({"advantage": "leave_one_out", "scale": "none"}, "scale 'none' is for advantage 'group'"),
        ({"whiten_rewards": True}, "whiten_rewards with advantage 'group'"),
        ({"missing_eos_penalty": -1.0}, "missing_eos_penalty -1.0"),
        ({"missing_eos_penalty": 1.0, "missing_eos_reward": 0.0}, "use one of them"),
        ({"missing_eos_penalty": 1.0, "truncated": "mask"}, "truncated 'mask'"),
        ({"overlong_start": 3}, "give both or neither"),
        ({"overlong_start": 3, "overlong_end": 3}, "must lie below"),
        ({"correction": CorrectionConfig()}, "correction with behaviour 'engine'"),
        ({"entropy_share": 0.2}, "entropy_share with behaviour 'engine'"),
        ({"entropy_share": 0.0}, "entropy_share 0.0"),
        ({"off_policy_threshold": 0.0}, "off_policy_threshold 0.0"),
        ({"reference_rate": 0.0}, "reference_rate 0.0"),
        ({"kl": KLControlConfig(), "optimizer": one_step(reference_kl=ReferenceKL(coefficient=0.1))}, "not in both"),
        ({"entropy": EntropyControlConfig(), "optimizer": one_step(entropy_coefficient=0.1)}, "set that to 0"),
        ({"optimizer": one_step(minibatches=3)}, "optimizer.minibatches 3 does not divide the 16"),
        ({"learnt_answers": 3, "optimizer": one_step(minibatches=8)}, "8 does not divide the 12 .* learnt_answers 3"),
        ({"learnt_answers": 4}, "learnt_answers 4: must be at least 2 and below group_size 4"),
        ({"learnt_answers": 2, "advantage": "reinforce++"}, "learnt_answers with advantage"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        replace(QUICK, **settings)


def test_bad_weights_and_targets_are_refused():
    with pytest.raises(ValueError, match="level 'word'"):
        CorrectionConfig(level="word")
    with pytest.raises(ValueError, match="bounds"):
        CorrectionConfig(low=3.0)
    with pytest.raises(ValueError, match=r"target 0\.0: must be positive"):
        EntropyControlConfig(target=0.0)
