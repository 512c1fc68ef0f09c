"""The training client: the same steps as the core's optimiser, from sampled data, and states that go on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from counting_lm import VOCABULARY, CountingLM
from gaitway_agents.core.losses import PolicyLoss, PolicyLossConfig
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language.client import LOSSES, POLICY_LOSSES, TrainingClient
from gaitway_agents.language.datum import Datum, Sample, batch_of
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_language.engines.transformers import TransformersEngine

from .tiny_models import tiny_lm

CPU = torch.device("cpu")
CONFIG = one_step(learning_rate=1e-2, max_grad_norm=0.3, chunk_size=20)


def make_policy() -> CausalLMPolicy:
    torch.manual_seed(0)
    return CausalLMPolicy(CountingLM())


def make_client(config: OptimizerConfig = CONFIG) -> TrainingClient:
    return TrainingClient(make_policy(), config)


def make_data(count: int = 7, seed: int = 0) -> list[Datum]:
    """Sequences of 4 to 9 tokens as an older policy chose them, with a gap in every other one."""
    g = torch.Generator().manual_seed(seed)
    data = []
    for number in range(count):
        length = int(torch.randint(4, 10, (), generator=g))
        mask = torch.ones(length)
        mask[:2] = 0.0
        mask[3] = float(number % 2)
        mask[2] = 1.0
        old, away, advantages = torch.randn(3, length, generator=g)
        data.append(
            Datum(
                tokens=torch.randint(VOCABULARY, (length,), generator=g),
                mask=mask,
                advantages=advantages,
                log_probs=-3.0 + 0.3 * old,
                reference=-3.0 + 0.3 * away,
                weights=(0.3 * away).exp(),
            )
        )
    return data


def parameters(client: TrainingClient) -> torch.Tensor:
    return client.optimizer.flat.flat.detach().clone()


def expected_after(data: list[list[Datum]], config: OptimizerConfig, loss=None) -> torch.Tensor:
    """Parameters after one update of the core's optimiser for each of the batches."""
    policy = make_policy()
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0), loss=loss)
    for part in data:
        optimizer.update(batch_of(part, VOCABULARY, CPU))
    return optimizer.flat.flat.detach()


@pytest.mark.parametrize("name", POLICY_LOSSES)
def test_steps_are_those_of_the_core_s_optimiser(name):
    client, batches = make_client(), [make_data(seed=seed) for seed in range(3)]
    start = parameters(client)
    for data in batches:
        client.forward_backward(data, name)
        client.optim_step()
    expected = expected_after(batches, replace(CONFIG, **POLICY_LOSSES[name]))
    torch.testing.assert_close(parameters(client), expected, rtol=0.0, atol=1e-12)
    assert (parameters(client) - start).abs().max() > 1e-2


@pytest.mark.parametrize("aggregation", ["decision", "sequence", "sequence_sum", "constant"])
def test_however_data_are_split_over_calls_they_are_one_batch(aggregation):
    config = replace(CONFIG, aggregation=aggregation, horizon=12 if aggregation == "constant" else None)
    client, data = make_client(config), make_data()
    for part in (data[:1], data[1:5], data[5:]):
        client.forward_backward(part, "ppo")
    norm = client.optim_step()["grad_norm"]
    torch.testing.assert_close(parameters(client), expected_after([data], config), rtol=0.0, atol=1e-12)
    whole = make_client(config)
    whole.forward_backward(data, "ppo")
    assert whole.optim_step()["grad_norm"] == pytest.approx(norm, rel=1e-9)


def test_losses_of_one_step_share_its_mean():
    """Half of the data by one loss, half by another: the gradient is that of the mean over all of their tokens."""
    client, first, second = make_client(replace(CONFIG, max_grad_norm=1e9)), make_data(4), make_data(3, seed=9)
    client.forward_backward(first, "ppo")
    client.forward_backward(second, "cross_entropy")
    client.optim_step()
    policy = make_policy()
    one, two = (batch_of(data, VOCABULARY, CPU) for data in (first, second))
    surrogate = PolicyLoss(PolicyLossConfig(entropy_coefficient=0.0))(policy.evaluate(one), one)[0]
    likelihood = -policy.evaluate(two).log_probs * two.weights
    total = (surrogate * one.mask).sum() + (likelihood * two.mask).sum()
    mean = total / (one.mask.sum() + two.mask.sum())
    expected = torch.autograd.grad(mean, [p for group in policy.parameter_groups() for p in group])
    found = client.optimizer.flat.flat.grad
    torch.testing.assert_close(found, torch.cat([g.flatten() for g in expected]), rtol=0.0, atol=1e-12)


def test_what_a_call_says_is_what_the_model_says():
    client, data = make_client(), [replace(datum, weights=None) for datum in make_data()]
    said = client.forward_backward(data, "cross_entropy")
    losses = []
    for datum, found in zip(data, said.log_probs, strict=True):
        with torch.no_grad():
            logits = client.policy.model(datum.tokens[None]).logits[0, :-1]
        plain = torch.nn.functional.cross_entropy(logits, datum.tokens[1:], reduction="none")
        torch.testing.assert_close(found[1:].double(), -plain * datum.mask[1:], rtol=1e-6, atol=1e-6)
        assert found[0] == 0.0
        losses.append(plain[datum.mask[1:] > 0])
    assert said.loss == pytest.approx(torch.cat(losses).mean().item(), rel=1e-6)
    assert said.statistics["loss"] == pytest.approx(said.loss, rel=1e-6)
    again = client.forward(data, "cross_entropy")
    assert again.loss == pytest.approx(said.loss, rel=1e-6)
    assert all(torch.allclose(a, b) for a, b in zip(again.log_probs, said.log_probs, strict=True))


def test_forward_leaves_no_trace():
    client, data = make_client(), make_data()
    before = parameters(client)
    client.forward(data, "ppo")
    with pytest.raises(ValueError, match="nothing to step along"):
        client.optim_step()
    assert torch.equal(parameters(client), before) and client.steps == 0


def test_settings_losses_and_functions_of_one_s_own():
    data = make_data()
    settings = PolicyLossConfig(clip_high=0.3, dual_clip=2.0, kl_coefficient=0.1, entropy_coefficient=0.0)

    def by_hand(new, batch):
        return PolicyLoss(settings)(new, batch)[0]

    found = []
    for loss in (settings, PolicyLoss(settings), by_hand):
        client = make_client()
        said = client.forward_backward(data, loss)
        client.optim_step()
        found.append((parameters(client), said.loss))
        assert ("reference_kl" in said.statistics) == (loss is not by_hand)
    assert all(torch.equal(found[0][0], other) and loss == found[0][1] for other, loss in found)


def test_a_rate_for_each_step():
    slow, fast = make_client(), make_client()
    start = parameters(slow)
    for client, rate in ((slow, 1e-4), (fast, 1e-3)):
        client.forward_backward(make_data(), "ppo")
        assert client.optim_step(rate)["learning_rate"] == rate
    ratio = (parameters(fast) - start) / (parameters(slow) - start)
    assert ratio[(parameters(slow) - start).abs() > 1e-5].median().item() == pytest.approx(10.0, rel=1e-3)


def sampling_client(**changes) -> TrainingClient:
    model = tiny_lm()
    engine = TransformersEngine(model)
    return TrainingClient(CausalLMPolicy(model), replace(CONFIG, **changes), engine=engine)


def test_samples_are_of_the_newest_weights():
    client = sampling_client()
    prompts, sampling = [[2, 3, 4], [5, 6]], Sampling(max_tokens=6, stop_tokens=(1,), seed=3)
    for step in range(3):
        groups = client.sample(prompts, replace(sampling, seed=step), num_samples=4)
        assert [len(group) for group in groups] == [4, 4]
        answers = [answer for group in groups for answer in group]
        assert [answer.prompt for answer in answers] == [prompts[0]] * 4 + [prompts[1]] * 4
        data = [answer.datum(advantages=answer.tokens.count(7) - 0.5) for answer in answers]
        said = client.forward_backward(data, "ppo")
        for answer, found in zip(answers, said.log_probs, strict=True):
            size = len(answer.prompt)
            assert found[size:].tolist() == pytest.approx(answer.log_probs, abs=1e-4)
            assert found[:size].tolist() == [0.0] * size
        assert said.statistics["kl"] == pytest.approx(0.0, abs=1e-6)
        client.optim_step()
    assert len({tuple(answer.tokens) for answer in answers}) > 4


def test_a_sample_becomes_a_datum():
    datum = Sample([4, 5], [6, 1], [-0.5, -0.25], True).datum(advantages=2.0)
    batch = batch_of([datum], VOCABULARY, CPU)
    assert batch.actions.tolist() == [[4, 5, 6, 1]] and batch.observations["lengths"].tolist() == [4]
    assert batch.mask.tolist() == [[0, 0, 1, 1]]
    assert batch.log_probs.tolist() == [[0, 0, -0.5, -0.25]]
    assert batch.advantages.tolist() == [[0, 0, 2, 2]]
    assert batch.reference is None and batch.weights is None


@pytest.mark.parametrize("gathered", [False, True])
def test_a_saved_state_goes_on_bit_for_bit(tmp_path, gathered):
    one, other = make_client(), make_client()
    one.forward_backward(make_data(), "ppo")
    one.optim_step(5e-3)
    if gathered:
        one.forward_backward(make_data(seed=1), "cispo")
    one.save_state(tmp_path / "state.pt")
    other.load_state(tmp_path / "state.pt")
    assert list(tmp_path.iterdir()) == [tmp_path / "state.pt"]
    for client in (one, other):
        client.forward_backward(make_data(seed=2), "ppo")
        client.optim_step()
    assert torch.equal(parameters(one), parameters(other)) and one.steps == other.steps == 2


def test_states_of_others_are_refused(tmp_path):
    (tmp_path / "text").write_text("not a state")
    torch.save({"weights": 1}, tmp_path / "other")
    small = sampling_client()
    small.save_state(tmp_path / "small")
    for name, message in (("text", "is no state"), ("other", "is no state"), ("small", "load into the same model")):
        with pytest.raises(ValueError, match=message):
            make_client().load_state(tmp_path / name)


GOOD = Datum(tokens=[3, 4, 5], mask=[0.0, 1.0, 1.0], advantages=1.0, log_probs=-1.0)


@pytest.mark.parametrize(
    ("data", "loss", "message"),
    [
        ([], "ppo", "no data"),
        ([GOOD, replace(GOOD, tokens=[3])], "ppo", r"datum 1: tokens of shape \(1,\)"),
        ([replace(GOOD, tokens=[3, 4, VOCABULARY])], "ppo", f"datum 0: token {VOCABULARY} is not in the model's"),
        ([replace(GOOD, tokens=[3, -1, 5])], "ppo", "datum 0: token -1 is not in the model's"),
        ([replace(GOOD, mask=[0.0, 1.0])], "ppo", r"datum 0: mask of shape \(2,\) for 3 tokens"),
        ([replace(GOOD, mask=[0.0, 0.5, 1.0])], "ppo", "mask holds other values than 0 and 1"),
        ([replace(GOOD, mask=1.0)], "ppo", "mask 1 at the first token, which follows nothing"),
        ([replace(GOOD, mask=0.0)], "ppo", "mask is 0 everywhere"),
        ([replace(GOOD, advantages=[1.0, 2.0])], "ppo", r"advantages of shape \(2,\) for 3 tokens"),
        ([replace(GOOD, log_probs=float("-inf"))], "ppo", "log_probs holds a value that is not a finite number"),
        ([GOOD, replace(GOOD, log_probs=None)], "ppo", "datum 1 has no log_probs, but others have"),
        ([replace(GOOD, log_probs=None)], "ppo", "needs the log_probs of every datum"),
        ([replace(GOOD, advantages=None)], "reinforce", "needs the advantages of every datum"),
        ([GOOD], "grpo", "loss 'grpo': use one of 'cross_entropy', 'importance_sampling', 'ppo'"),
        ([GOOD], PolicyLossConfig(), "entropy_coefficient 0.005: the policy's entropy has no gradient"),
        ([GOOD], PolicyLossConfig(entropy_coefficient=0.0, kl_coefficient=0.1), "needs the reference"),
        ([GOOD], PolicyLossConfig(aggregation="sequence"), "aggregation 'sequence' .* client's config 'decision'"),
        ([GOOD], lambda new, batch: new.log_probs.sum(), r"returned shape \(\) for tokens \(1, 3\)"),
    ],
)
def test_what_is_refused(data, loss, message):
    client = make_client()
    before = parameters(client)
    for call in (client.forward, client.forward_backward):
        with pytest.raises(ValueError, match=message):
            call(data, loss)
    assert torch.equal(parameters(client), before)


def test_what_no_datum_has_is_not_taken_for_zero():
    batch = batch_of([replace(GOOD, log_probs=None, advantages=None)], VOCABULARY, CPU)
    assert batch.log_probs.isnan().all() and batch.advantages.isnan().all()
    assert make_client().forward([replace(GOOD, log_probs=None, advantages=None)], "cross_entropy").loss > 0.0


def test_a_client_is_refused_what_is_the_loop_s():
    with pytest.raises(ValueError, match=r"'epochs': 5.*'schedule': 'adaptive'.*one_step"):
        make_client(OptimizerConfig())
    with pytest.raises(ValueError, match=r"no engine to sample with"):
        make_client().sample([[2]], Sampling(max_tokens=2))
    with pytest.raises(ValueError, match="num_samples 0: must be at least 1"):
        sampling_client().sample([[2]], Sampling(max_tokens=2), num_samples=0)
    with pytest.raises(ValueError, match=r"learning_rate 0.0: must be positive"):
        make_client().optim_step(0.0)


def test_the_loop_of_the_documentation_learns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[3] / "docs" / "language_client.md"
    text = page.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert names["rewards"][0] < 0.2 and sum(names["rewards"][-3:]) / 3 > 0.8
    assert (tmp_path / "client.pt").exists() and capsys.readouterr().out.count("reward") == 20
    assert all(f"`{name}`" in text for name in LOSSES)
