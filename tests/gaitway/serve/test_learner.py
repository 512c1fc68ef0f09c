"""A client's model against a plain computation with transformers, peft and torch's AdamW; and its checkpoints."""

import copy

import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError

from gaitway.serve import targets
from gaitway.serve.base import Adapters
from gaitway.serve.learner import AdamParams, Learner
from gaitway.serve.messages import Datum, TrainingRequest

LORA, WHOLE = Adapters(4, 3), Adapters(None, 0)


def sequences(count=5, seed=0):
    g = np.random.default_rng(seed)
    found = []
    for size in g.integers(3, 20, count):
        inputs = {"target_tokens": g.integers(0, 20, size), "weights": g.random(size).astype("f4")}
        found.append(Datum(g.integers(0, 20, size), inputs))
    return found


def request(data, **more):
    return TrainingRequest(loss="cross_entropy", data=data, **more)


def plain_losses(model, data):
    """Log-probabilities of each datum's targets, one sequence at a time, and the sum of the losses."""
    said, total = [], 0.0
    for datum in data:
        logits = model(torch.from_numpy(np.array(datum.tokens))[None]).logits[0]
        targets = torch.from_numpy(np.array(datum.inputs["target_tokens"]))
        log_probs = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
        total = total - (log_probs * torch.from_numpy(np.array(datum.inputs["weights"]))).sum()
        said.append(log_probs.detach())
    return said, total


def assert_near(ours, theirs):
    """They differ by rounding in float32."""
    assert float((ours - theirs).norm()) <= 1e-4 * float(theirs.norm())


@pytest.mark.parametrize("adapters", [LORA, WHOLE], ids=["lora", "whole"])
def test_steps_are_those_of_torchs_adamw_on_plain_gradients(base, adapters):
    learner = Learner(base, adapters)
    twin = copy.deepcopy(learner.model)
    learning = [p for p in twin.parameters() if p.requires_grad]
    theirs = torch.optim.AdamW(learning, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    params = AdamParams(learning_rate=1e-2, eps=1e-8, weight_decay=0.1, grad_clip_norm=0.5)
    for step in range(3):
        data = sequences(seed=step)
        first, metrics = learner.losses(request(data[:2]))  # gradients of requests add up
        rest, more = learner.losses(request(data[2:]))
        said, total = plain_losses(twin, data)
        assert metrics["loss:sum"] + more["loss:sum"] == pytest.approx(total.item(), rel=1e-5)
        for ours, expected, datum in zip([*first, *rest], said, data, strict=True):
            np.testing.assert_allclose(ours["logprobs"], expected, atol=1e-5)
            np.testing.assert_allclose(ours["elementwise_loss"], -expected.numpy() * datum.inputs["weights"], atol=1e-5)
        theirs.zero_grad()
        total.backward()
        assert_near(learner.gradient, torch.cat([p.grad.flatten() for p in learning]))
        norm = torch.nn.utils.clip_grad_norm_(learning, 0.5)
        theirs.step()
        assert learner.step(params)["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
        assert_near(learner.flat.flat.detach(), torch.cat([p.detach().flatten() for p in learning]))


def test_forward_only_leaves_the_gradient_alone(base):
    learner = Learner(base, LORA)
    ahead, _ = learner.losses(request(sequences(), forward_only=True))
    assert not learner.gradient.any()
    behind, _ = learner.losses(request(sequences()))
    assert learner.gradient.any()
    for one, other in zip(ahead, behind, strict=True):
        np.testing.assert_allclose(one["logprobs"], other["logprobs"], atol=1e-6)


def test_several_targets_of_a_token_have_each_their_log_probability(base):
    learner = Learner(base, LORA)
    tokens = np.array([3, 7, 5])
    several = np.array([[1, 2], [3, 4], [5, 6]])
    many = Datum(tokens, {"target_tokens": several, "weights": np.full((3, 2), 0.5, "f4")})
    found, metrics = learner.losses(request([many, *sequences(2)]))
    assert found[0]["logprobs"].shape == (3, 2)
    for column in (0, 1):
        one = Datum(tokens, {"target_tokens": several[:, column], "weights": np.full(3, 0.5, "f4")})
        alone, _ = learner.losses(request([one], forward_only=True))
        np.testing.assert_allclose(found[0]["logprobs"][:, column], alone[0]["logprobs"], atol=1e-6)
    expected = sum(float(output["elementwise_loss"].sum()) for output in found)
    assert metrics["loss:sum"] == pytest.approx(expected, rel=1e-5)


def test_a_failed_request_leaves_the_gradient_and_the_next_step_says_so(base):
    learner = Learner(base, LORA)
    learner.losses(request(sequences()))
    before, weights = learner.gradient.clone(), learner.flat.flat.detach().clone()
    bad = sequences(1)
    bad[0].inputs["target_tokens"][:] = 10**6
    with pytest.raises(UserError, match="no token"):
        learner.losses(request(bad))
    assert torch.equal(learner.gradient, before)
    with pytest.raises(UserError, match="no step was taken"):
        learner.step(AdamParams())
    assert torch.equal(learner.flat.flat.detach(), weights) and not learner.gradient.any()
    learner.losses(request(sequences()))
    learner.step(AdamParams())
    assert not torch.equal(learner.flat.flat.detach(), weights)


@pytest.mark.parametrize("adapters", [LORA, WHOLE], ids=["lora", "whole"])
def test_a_model_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(base, adapters, tmp_path):
    learner, params = Learner(base, adapters), AdamParams(learning_rate=1e-2)
    learner.losses(request(sequences(seed=1)))
    learner.step(params)
    learner.save(tmp_path, optimizer=True)
    again = Learner(base, adapters, folder=tmp_path)
    again.load_optimizer(tmp_path)
    third = Learner(base, adapters)
    third.losses(request(sequences(seed=5)))  # gradients that a load drops
    third.replace(tmp_path, optimizer=True)
    anew = Learner(base, adapters)
    anew.replace(tmp_path, optimizer=False)
    for one in (learner, again, third, anew):
        one.losses(request(sequences(seed=2)))
        one.step(params)
    assert torch.equal(again.flat.flat, learner.flat.flat)
    assert torch.equal(third.flat.flat, learner.flat.flat)
    assert not torch.equal(anew.flat.flat, learner.flat.flat)  # Adam's moments began anew


def test_checkpoints_are_those_of_other_libraries(base, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    tokens = torch.tensor([[9, 12, 15, 11]])
    for adapters in (LORA, WHOLE):
        learner, folder = Learner(base, adapters), tmp_path / str(adapters.rank)
        learner.losses(request(sequences(seed=1)))
        learner.step(AdamParams(learning_rate=0.05))
        learner.save(folder, optimizer=True)
        if adapters.rank is None:
            model = AutoModelForCausalLM.from_pretrained(folder)
        else:
            model = PeftModel.from_pretrained(copy.deepcopy(base.model), folder)
        with torch.no_grad():
            torch.testing.assert_close(model(tokens).logits, learner.model(tokens).logits, rtol=1e-5, atol=1e-5)


def test_learners_share_the_frozen_weights_and_not_their_adapters(base):
    one, other = Learner(base, LORA), Learner(base, LORA)
    owned = {p.data_ptr() for p in base.model.parameters()}
    frozen = [{p.data_ptr() for p in x.model.parameters() if not p.requires_grad} for x in (one, other)]
    assert frozen == [owned, owned]
    before = [p.clone() for p in base.model.parameters()]
    one.losses(request(sequences()))
    one.step(AdamParams(learning_rate=0.1))
    assert all(torch.equal(p, q) for p, q in zip(base.model.parameters(), before, strict=True))
    assert not torch.equal(one.flat.flat, other.flat.flat)


def test_adapters_lie_on_the_layers_that_were_asked_for(base):
    def trained(adapters):
        names = [name for name, p in Learner(base, adapters).model.named_parameters() if p.requires_grad]
        return {"mlp" in name for name in names}, sum("lora_A" in name for name in names)

    assert trained(Adapters(4, 0)) == ({True, False}, 14)
    assert trained(Adapters(4, 0, train_mlp=False)) == ({False}, 8)
    assert trained(Adapters(4, 0, train_attn=False)) == ({True}, 6)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"learning_rate": -1.0}, "learning_rate -1.0"),
        ({"learning_rate": float("nan")}, "learning_rate nan"),
        ({"beta1": 1.0}, "betas below 1"),
        ({"momentum": 0.9}, "momentum"),
        ({"eps": "small"}, "eps 'small'"),
    ],
)
def test_settings_of_adam_are_checked(given, what):
    with pytest.raises(UserError, match=what):
        AdamParams.asked(given)


@pytest.mark.parametrize(
    ("config", "what"),
    [({"rank": 0}, "rank 0"), ([4], "must be an object"), ({"rank": 8, "seed": -1}, "seed -1"), ({}, "rank None"),
     ({"rank": 8, "train_attn": False, "train_mlp": False}, "only the output layer")],
)  # fmt: skip
def test_settings_of_adapters_are_checked(config, what):
    with pytest.raises(UserError, match=what):
        Adapters.asked(config)


@pytest.mark.parametrize("loss", ["importance_sampling", "cross_entropy", "dro"])
def test_answers_to_one_prompt_share_its_reading_and_change_nothing(base, loss, monkeypatch):
    """Log-probabilities of the prompt's targets too, which may differ from row to row."""
    g = np.random.default_rng(3)
    data = []
    for prompt in (g.integers(9, 30, 20), g.integers(9, 30, 14)):
        for size in (3, 5, 1, 4):
            tokens = np.concatenate([prompt, g.integers(9, 30, size - 1)])
            learnt = np.arange(len(tokens)) >= len(prompt) - 1
            inputs = {"target_tokens": g.integers(0, 30, len(tokens))}
            if loss == "cross_entropy":
                inputs["weights"] = (g.normal(size=len(tokens)) * learnt).astype("f4")
            else:
                inputs |= {"logprobs": np.full(len(tokens), -3.0, "f4"), "advantages": (2.0 * learnt).astype("f4")}
            data.append(Datum(tokens, inputs))
    data[3].inputs["weights" if loss == "cross_entropy" else "advantages"][:] = 0.0  # nothing is learnt from this one
    settings = {"beta": 0.1} if loss == "dro" else {}
    found, read = [], []
    both = targets.both_states
    monkeypatch.setattr(targets, "both_states", lambda *args: read.append(args[2].prefixes.shape) or both(*args))
    for shares in (True, False):
        learner = Learner(base, LORA)
        with torch.no_grad():
            learner.flat.flat.add_(
                0.05 * torch.randn(len(learner.flat.flat), generator=torch.Generator().manual_seed(0))
            )
        assert learner.policy.shares
        learner.policy.shares = shares
        outputs, metrics = learner.losses(TrainingRequest(loss=loss, data=data, settings=settings))
        found.append((outputs, metrics["loss:sum"], learner.gradient.clone()))
    assert sum(shape[0] for shape in read) == (0 if loss == "dro" else 3)  # two prompts, and a row to its end
    (ours, total, gradient), (theirs, expected, other) = found
    assert total == pytest.approx(expected, rel=1e-5)
    assert_near(gradient, other)
    for one, another in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one["logprobs"], another["logprobs"], atol=2e-5)
