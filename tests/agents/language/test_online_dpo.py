import copy
import math
from dataclasses import replace

import pytest
import torch
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
from gaitway_agents.language.schedule import LearningRateSchedule
from tiny_models import tiny_lm
from token_worlds import WANTED, WantedToken


def trainer(model=None, world=None, total_steps=None, **settings):
    usual = {"prompts_per_step": 8, "group_size": 3, "beta": 0.1, "optimizer": one_step(learning_rate=3e-3)}
    model = model or tiny_lm(vocab_size=12)
    world = world or WantedToken(model, seed=1)
    return OnlineDPOTrainer(model, world, OnlineDPOConfig(**(usual | settings)), seed=0, total_steps=total_steps)


def test_the_first_update_starts_at_ln_2():
    metrics = trainer().iterate()
    assert metrics["learn/loss"] == pytest.approx(math.log(2.0), abs=1e-5)
    assert metrics["rollout/staleness"] == 0.0


def test_the_best_and_the_worst_answer_to_each_prompt_become_a_pair():
    learner = trainer(group_size=4, missing_eos_penalty=0.5)
    samples = learner.draw(8, 4)
    batch = learner._pairs(samples)
    rewards = samples.rewards - 0.5 * (~samples.finished).float()
    expected = []
    for group in range(8):
        rows = [row for row in range(32) if samples.groups[row] == group]
        worths = [float(rewards[row]) for row in rows]
        if max(worths) - min(worths) > 1e-6:
            expected.append((rows[worths.index(max(worths))], rows[worths.index(min(worths))]))
    assert 0 < len(expected) == len(batch)
    for pair, (best, worst) in enumerate(expected):
        assert torch.equal(batch.actions[pair], samples.tokens[[best, worst]])
        assert torch.equal(batch.observations["mask"][pair], samples.mask[[best, worst]])
    said = learner.policy.evaluate(batch).log_probs
    torch.testing.assert_close(said, batch.reference, rtol=0, atol=1e-4)


@pytest.mark.parametrize("loss", ["dpo", "ipo"])
def test_it_learns_what_is_rewarded(loss):
    learner = trainer(loss=loss, prompts_per_step=16, group_size=4)
    first = learner.iterate()["rollout/reward"]
    for _ in range(40):
        last = learner.iterate()["rollout/reward"]
    assert last > first + 0.25
    assert (learner.last_rollout.tokens == WANTED).any()


def test_without_a_difference_nothing_is_learnt():
    class Same(WantedToken):
        def sample(self, num_prompts, group_size):
            rollout = super().sample(num_prompts, group_size)
            return replace(rollout, rewards=torch.ones_like(rollout.rewards))

    model = tiny_lm(vocab_size=12)
    learner = trainer(model, Same(model))
    before = copy.deepcopy(model.state_dict())
    metrics = learner.iterate()
    assert metrics["learn/used_groups"] == 0.0 and "learn/loss" not in metrics
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert learner.steps == 24


def test_a_resumed_training_is_the_same_training():
    settings = {"schedule": LearningRateSchedule(shape="linear"), "total_steps": 24 * 6}
    whole, first = trainer(**settings), trainer(**settings)
    for _ in range(4):
        whole.iterate()
    for _ in range(2):
        first.iterate()
    start = tiny_lm(vocab_size=12)
    second = trainer(start, **settings)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(2):
        metrics = second.iterate()
    assert metrics["learn/learning_rate"] == pytest.approx(3e-3 * (1 - 3.5 / 6))
    for mine, theirs in zip(second.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "kto"}, "loss 'kto'"),
        ({"group_size": 1}, "group_size 1"),
        ({"prompts_per_step": 0}, "prompts_per_step 0"),
        ({"missing_eos_penalty": -1.0}, "missing_eos_penalty"),
        ({"optimizer": one_step(minibatches=9)}, "minibatches 9"),
        ({"optimizer": one_step(schedule="adaptive")}, "schedule.shape"),
        ({"optimizer": one_step(normalize_advantages="batch")}, "no advantages"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        trainer(**settings)


def test_simpo_has_no_reference():
    model = tiny_lm(vocab_size=12)
    config = OnlineDPOConfig(loss="simpo", beta=2.0)
    assert OnlineDPOTrainer(model, WantedToken(model), config, seed=0).reference is None
