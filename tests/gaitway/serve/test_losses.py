"""Losses of the wire against plain formulas: values and gradients; and data that do not fit."""

import numpy as np
import pytest
import torch
from gaitway_agents.core.policy import Evaluation
from gaitway_files.errors import UserError

from gaitway.serve.losses import batch_of, loss_of
from gaitway.serve.messages import Datum

DEVICE = torch.device("cpu")


def data(loss, seed=0):
    g = np.random.default_rng(seed)
    found = []
    for count in (7, 4, 5):
        inputs = {"target_tokens": g.integers(0, 20, count)}
        if loss == "cross_entropy":
            inputs["weights"] = g.normal(size=count).astype("f4")
        else:
            inputs["logprobs"] = -g.random(count).astype("f4") * 2.0
            inputs["advantages"] = g.normal(size=count).astype("f4")
        if loss == "gspo":
            inputs["sequence_ratio_mask"] = (np.arange(count) > 1).astype("f4")
            inputs["advantages"] *= inputs["sequence_ratio_mask"]
        found.append(Datum(g.integers(0, 20, count), inputs))
    return found


def plain(loss, new, datum, settings):
    """The formulas of Tinker's documentation for one datum."""
    at = {name: torch.from_numpy(np.array(values)) for name, values in datum.inputs.items()}
    if loss == "cross_entropy":
        return -(new * at["weights"]).sum()
    q, a = at["logprobs"], at["advantages"]
    ratio = (new - q).exp()
    low, high = settings.get("clip_low_threshold", 0.8), settings.get("clip_high_threshold", 1.2)
    if loss == "importance_sampling":
        return -(ratio * a).sum()
    if loss == "ppo":
        return -torch.minimum(ratio * a, ratio.clamp(low, high) * a).sum()
    if loss == "cispo":
        return -(ratio.clamp(low, high).detach() * new * a).sum()
    if loss == "dro":
        return -(new * a - 0.5 * settings["beta"] * (new - q).square()).sum()
    inside = at["sequence_ratio_mask"] != 0
    ratio = ((new.detach() - q)[inside].mean() + new - new.detach()).exp()
    return -torch.minimum(ratio * a, ratio.clamp(low, high) * a).sum()


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("cross_entropy", {}),
        ("importance_sampling", {}),
        ("ppo", {}),
        ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.5}),
        ("cispo", {}),
        ("cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0}),
        ("dro", {"beta": 0.3}),
        ("gspo", {"clip_low_threshold": 0.95, "clip_high_threshold": 1.05}),
    ],
)
def test_losses_and_gradients_are_those_of_the_formulas(loss, settings):
    rows = data(loss)
    batch = batch_of(rows, loss, vocabulary=20, positions=None, device=DEVICE)
    new = torch.randn(batch.mask.shape).sub(1.0).requires_grad_()
    losses, _ = loss_of(loss, settings)(Evaluation(log_probs=new, entropy=torch.zeros_like(new)), batch)
    ours = (losses * batch.mask).sum()
    (gradient,) = torch.autograd.grad(ours, new)
    theirs = sum(plain(loss, new[i, : len(row.tokens)], row, settings) for i, row in enumerate(rows))
    (expected,) = torch.autograd.grad(theirs, new)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-7)


def test_a_token_may_have_several_targets():
    two = np.array([[1, 2], [3, 4], [5, 6]])
    rows = [Datum(np.arange(3), {"target_tokens": two, "weights": np.full((3, 2), 0.5, "f4")}), *data("cross_entropy")]
    batch = batch_of(rows, "cross_entropy", vocabulary=20, positions=None, device=DEVICE)
    assert batch.observations["targets"].shape == batch.weights.shape == (4, 7, 2)
    assert batch.observations["targets"][0, :3].tolist() == two.tolist()
    assert batch.mask.sum((1, 2)).tolist() == [6, 7, 4, 5]  # what is padding has no loss


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"target_tokens": np.arange(6)}, "datum 0.*7 input tokens"),
        ({"target_tokens": np.full(7, 20)}, "no token of the model's 20"),
        ({"logprobs": None}, "lacks logprobs"),
        ({"advantages": np.ones(3, "f4")}, r"advantages has shape \(3,\)"),
        ({"advantages": np.full(7, np.nan, "f4")}, "advantages.*not finite"),
        ({"mask": np.ones(7, "f4")}, "has 'mask'"),
        ({"target_tokens": np.zeros((7, 2), int)}, "only 'cross_entropy'"),
    ],
)
def test_data_that_do_not_fit_are_named(change, what):
    rows = data("ppo")
    rows[0].inputs.update(change)
    for name in [name for name, value in rows[0].inputs.items() if value is None]:
        del rows[0].inputs[name]
    with pytest.raises(UserError, match=what):
        batch_of(rows, "ppo", vocabulary=20, positions=None, device=DEVICE)


def test_sequences_longer_than_the_model_and_empty_ones_are_refused():
    with pytest.raises(UserError, match="7 tokens, and the model sees 6"):
        batch_of(data("ppo"), "ppo", vocabulary=20, positions=6, device=DEVICE)
    with pytest.raises(UserError, match="no tokens"):
        batch_of([Datum(np.empty(0, int), {})], "ppo", vocabulary=20, positions=6, device=DEVICE)
    with pytest.raises(UserError, match="at least one"):
        batch_of([], "ppo", vocabulary=20, positions=6, device=DEVICE)


def test_what_padding_would_blow_up_is_refused():
    long = Datum(np.zeros(2000, int), {"target_tokens": np.zeros((2000, 250), int)})
    with pytest.raises(UserError, match="68 data, padded to 2000 tokens with 250 targets each"):
        batch_of(
            [long, *(67 * data("cross_entropy")[:1])], "cross_entropy", vocabulary=20, positions=None, device=DEVICE
        )


@pytest.mark.parametrize(
    ("name", "settings", "what"),
    [
        ("ppoo", {}, "did you mean 'ppo'"),
        ("stable_reinforce", {}, "records of the sampler"),
        ("ppo", {"epsilon": 0.2}, "it has clip_low_threshold"),
        ("ppo", {"clip_low_threshold": 0.2, "clip_high_threshold": 0.2}, "bound the ratio itself"),
        ("dro", {}, "beta"),
        ("gspo", {}, "clip_low_threshold"),
        ("dro", {"beta": "much"}, "finite number"),
        ("dro", {"beta": float("inf")}, "finite number"),
    ],
)
def test_losses_and_settings_that_are_unknown_are_named(name, settings, what):
    with pytest.raises(UserError, match=what):
        loss_of(name, settings)
