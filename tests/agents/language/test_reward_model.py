import copy
import math

import pytest
import torch
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.reward_model import RewardModelConfig, RewardModelTrainer
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.models.reward_model import RewardModel
from tiny_models import HigherWins, tiny_scorer

CONSTANT = LearningRateSchedule()


def trainer(data=None, total_steps=None, batch_size=8, updates=1, learning_rate=1e-3, **settings):
    config = RewardModelConfig(
        batch_size=batch_size,
        updates=updates,
        schedule=CONSTANT,
        optimizer=one_step(learning_rate=learning_rate),
        **settings,
    )
    model = RewardModel(tiny_scorer())
    return RewardModelTrainer(model, data or HigherWins(40), config, seed=0, total_steps=total_steps)


def test_an_ignorant_model_has_a_loss_of_ln_2():
    learner = trainer()
    torch.nn.init.zeros_(learner.policy.model.model.score.weight)
    assert learner.iterate()["learn/loss"] == pytest.approx(math.log(2.0), abs=1e-6)


def test_it_learns_what_is_better_and_is_normalised_at_the_end():
    learner = trainer(HigherWins(600), total_steps=32 * 60, batch_size=32, updates=30, learning_rate=3e-3)
    held_out = HigherWins(200, seed=7)
    before = learner.accuracy(held_out)
    learner.iterate()
    raw = learner.scores(HigherWins(600))
    assert abs(float(raw.std()) - 1.0) > 0.2
    metrics = learner.iterate()
    assert metrics["learn/accuracy"] > 0.9 and before < 0.7 < 0.8 < learner.accuracy(held_out)
    scores = learner.scores(HigherWins(600))
    assert float(scores.mean()) == pytest.approx(0.0, abs=1e-4)
    assert float(scores.std()) == pytest.approx(1.0, abs=1e-4)


def test_scores_do_not_depend_on_the_answers_beside_them():
    learner = trainer()
    together = learner.scores(HigherWins(20))
    alone = torch.cat([learner.scores(HigherWins(20)[row : row + 1]) for row in range(20)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_margins_and_centring_change_what_is_learnt():
    def after(**settings):
        learner = trainer(HigherWins(32), total_steps=32 * 20, batch_size=32, updates=20, normalise_on=0, **settings)
        learner.iterate()
        return learner.scores(HigherWins(32))

    plain, wide, centred = after(), after(use_margin=True), after(centring=1.0)
    assert (wide[:, 0] - wide[:, 1]).mean() > (plain[:, 0] - plain[:, 1]).mean()
    assert centred.sum(1).square().mean() < plain.sum(1).square().mean()


def test_a_resumed_training_is_the_same_training():
    whole, first, second = (trainer(total_steps=32) for _ in range(3))
    for _ in range(4):
        whole.iterate()
    for _ in range(2):
        first.iterate()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(2):
        second.iterate()
    theirs = whole.policy.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in second.policy.state_dict().items())
    assert float(whole.policy.model.std) != 1.0


def test_bad_settings_and_data_are_named():
    class Equal(HigherWins):
        def margin(self, index):
            return 0.0

    with pytest.raises(ValueError, match="no pair has a margin"):
        trainer(Equal(8), use_margin=True)
    with pytest.raises(ValueError, match="centring -1"):
        RewardModelConfig(centring=-1.0)
    with pytest.raises(ValueError, match="normalise_on -1"):
        RewardModelConfig(normalise_on=-1)
