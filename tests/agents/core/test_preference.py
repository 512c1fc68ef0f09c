import math

import pytest
import torch
from gaitway_agents.core import preference
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.core.preference import KTOLoss, PairLoss, PreferenceLossConfig, RankingLoss

PAIRS = ("dpo", "hinge", "ipo", "simpo")


def pairs(count=5, seed=0):
    """Sums of log-probabilities (P, 2) that need a gradient, and the batch that they are of."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 7, (count, 2), generator=generator)
    mask = (torch.arange(8) < sizes[..., None]).double()
    log_probs = -torch.rand(count, 2, generator=generator, dtype=torch.float64) * sizes
    reference = -torch.rand(count, 2, generator=generator, dtype=torch.float64) * sizes
    none = torch.zeros(count, dtype=torch.float64)
    observations = {"mask": mask, "margin": torch.rand(count, generator=generator, dtype=torch.float64)}
    batch = Batch(observations=observations, actions=mask.long(), log_probs=none, advantages=none, reference=reference)
    return log_probs.requires_grad_(), batch


def evaluation(log_probs, values=None):
    return Evaluation(log_probs=log_probs, entropy=torch.zeros_like(log_probs), values=values)


def column(loss, statistics, name):
    return statistics[loss.statistics.index(name)]


@pytest.mark.parametrize(("kind", "start"), [("dpo", math.log(2.0)), ("hinge", 1.0), ("ipo", 25.0)])
def test_losses_start_where_they_must(kind, start):
    _, batch = pairs()
    loss = PairLoss(PreferenceLossConfig(loss=kind, beta=0.1))
    losses, statistics = loss(evaluation(batch.reference), batch)
    torch.testing.assert_close(losses, torch.full_like(losses, start))
    assert torch.equal(column(loss, statistics, "margin"), torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize("kind", PAIRS)
def test_every_loss_of_pairs_raises_the_chosen_and_lowers_the_rejected(kind):
    log_probs, batch = pairs()
    losses, _ = PairLoss(PreferenceLossConfig(loss=kind))(evaluation(log_probs), batch)
    losses.sum().backward()
    assert (log_probs.grad[:, 0] < 0).all() and (log_probs.grad[:, 1] > 0).all()


def test_dpo_is_a_classification_with_smoothed_labels():
    log_ratio = torch.linspace(-30.0, 30.0, 7, dtype=torch.float64)
    right = torch.sigmoid(0.1 * log_ratio)
    expected = -(0.8 * right.log() + 0.2 * (1.0 - right).log())
    torch.testing.assert_close(preference.dpo(log_ratio, 0.1, 0.2), expected)
    best = 10.0 * math.log(4.0)  # the log-ratio that says 0.8
    at = torch.tensor(best, dtype=torch.float64, requires_grad=True)
    preference.dpo(at, 0.1, 0.2).backward()
    assert abs(float(at.grad)) < 1e-12


def test_ipo_and_simpo_speak_of_means_over_tokens():
    log_probs, batch = pairs()
    sizes = batch.observations["mask"].sum(-1)
    means = (log_probs - batch.reference) / sizes
    losses, _ = PairLoss(PreferenceLossConfig(loss="ipo", beta=0.2))(evaluation(log_probs), batch)
    torch.testing.assert_close(losses, (means[:, 0] - means[:, 1] - 2.5).square())
    means = log_probs / sizes
    config = PreferenceLossConfig(loss="simpo", beta=2.0, gamma=1.0)
    losses, statistics = PairLoss(config)(evaluation(log_probs), batch.replace(reference=None))
    torch.testing.assert_close(losses, -torch.nn.functional.logsigmoid(2.0 * (means[:, 0] - means[:, 1]) - 1.0))
    torch.testing.assert_close(statistics[3], 2.0 * means[:, 0].detach())


def test_the_likelihood_of_the_chosen_answer_can_be_learnt_beside():
    log_probs, batch = pairs()
    plain, _ = PairLoss(PreferenceLossConfig())(evaluation(log_probs), batch)
    loss = PairLoss(PreferenceLossConfig(sft_coefficient=0.3))
    mixed, statistics = loss(evaluation(log_probs), batch)
    assert torch.equal(column(loss, statistics, "pair_loss"), plain.detach())
    assert torch.equal(column(loss, statistics, "loss"), mixed.detach())
    torch.testing.assert_close(mixed - plain, -0.3 * log_probs[:, 0] / batch.observations["mask"][:, 0].sum(-1))


def test_kto_compares_with_the_baseline_and_weighs_the_two_kinds():
    log_probs, batch = pairs(6)
    desirable = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    observations = {"desirable": desirable, "baseline": torch.full((6,), 0.7, dtype=torch.float64)}
    batch = batch.replace(observations=observations, reference=batch.reference[:, 0])
    config = PreferenceLossConfig(loss="kto", beta=0.5, desirable_weight=1.0, undesirable_weight=3.0)
    said = log_probs[:, 0]
    losses, statistics = KTOLoss(config)(evaluation(said), batch)
    reward = 0.5 * (said - batch.reference - 0.7)
    expected = torch.where(desirable > 0, 1.0 - torch.sigmoid(reward), 3.0 * (1.0 - torch.sigmoid(-reward)))
    torch.testing.assert_close(losses, expected)
    assert torch.equal(statistics[1], ((reward > 0) == (desirable > 0)).double())
    even, _ = KTOLoss(PreferenceLossConfig(loss="kto"))(evaluation(batch.reference + 0.7), batch)
    torch.testing.assert_close(even, torch.full_like(even, 0.5))


def test_a_reward_model_ranks_with_a_margin_and_stays_centred():
    scores, batch = pairs()
    plain, statistics = RankingLoss()(evaluation(torch.zeros(5), scores), batch)
    difference = scores[:, 0] - scores[:, 1]
    torch.testing.assert_close(plain, (1.0 + (-difference).exp()).log())
    assert torch.equal(statistics[1], (difference > 0).double())
    wide, _ = RankingLoss(use_margin=True)(evaluation(torch.zeros(5), scores), batch)
    torch.testing.assert_close(wide, (1.0 + (batch.observations["margin"] - difference).exp()).log())
    centred, _ = RankingLoss(centring=0.01)(evaluation(torch.zeros(5), scores), batch)
    torch.testing.assert_close(centred - plain, 0.01 * scores.sum(1).square())
    even, _ = RankingLoss()(evaluation(torch.zeros(5), torch.ones(5, 2)), batch)
    torch.testing.assert_close(even, torch.full((5,), math.log(2.0)))


def test_losses_stay_finite_far_away():
    far = torch.tensor([-1e5, 1e5])
    for losses in (preference.dpo(far, 1.0), preference.bradley_terry(far), preference.simpo(far, 2.0, 0.5)):
        assert torch.isfinite(losses).all()
    ends = preference.kto(far, torch.zeros(2), torch.ones(2), 1.0)
    assert torch.equal(ends, torch.tensor([1.0, 0.0]))


def test_a_missing_reference_is_named():
    log_probs, batch = pairs()
    with pytest.raises(ValueError, match="'dpo' needs the batch's reference"):
        PairLoss(PreferenceLossConfig())(evaluation(log_probs), batch.replace(reference=None))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "orpo"}, "loss 'orpo'"),
        ({"beta": 0.0}, "beta 0.0"),
        ({"label_smoothing": 0.5}, "label_smoothing 0.5"),
        ({"loss": "ipo", "label_smoothing": 0.1}, "for 'dpo' and 'simpo'"),
        ({"gamma": -1.0}, "gamma -1.0"),
        ({"loss": "kto", "desirable_weight": 0.0}, "desirable_weight 0.0"),
        ({"desirable_weight": 2.0}, "only 'kto'"),
        ({"sft_coefficient": -1.0}, "sft_coefficient -1.0"),
        ({"loss": "kto", "sft_coefficient": 1.0}, "only losses of pairs"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PreferenceLossConfig(**settings)
