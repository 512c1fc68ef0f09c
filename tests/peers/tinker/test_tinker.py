"""Tinker's own client against ``gaitway serve``: loops of supervised and reinforcement learning as in its cookbook.

The model is a tiny one of random weights, and the server runs in a thread of this process.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from served_model import NAME
from tree import ROOT

tinker = pytest.importorskip("tinker")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

from tinker import types  # noqa: E402
from tinker.types.tensor_data import TensorData  # noqa: E402


@pytest.fixture
def service(address, monkeypatch):
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
    with tinker.ServiceClient(base_url=address, api_key="tml-local") as client:
        yield client


def tokens_of(text, base):
    return base.tokenizer.encode(text)


def demonstration(base, question, answer):
    """A datum whose weights keep the answer, as the cookbook's ``conversation_to_datum`` makes it."""
    prompt, said = tokens_of(question, base), [*tokens_of(answer, base), base.tokenizer.eos_token_id]
    tokens = prompt + said
    weights = [0.0] * (len(prompt) - 1) + [1.0] * len(said)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": weights},
    )


def test_a_loop_of_supervised_learning(base, service):
    client = service.create_lora_training_client(base_model=NAME, rank=8, seed=0).result()
    assert (client.get_info().lora_rank, client.get_info().model_data.model_name) == (8, NAME)
    assert client.get_tokenizer().encode("what is the sum") == tokens_of("what is the sum", base)
    batch = [demonstration(base, f"what is {letter}", f"{letter} yes {letter}") for letter in "abcdefgh"]
    losses = []
    for step in range(20):
        rate = 3e-2 * (1.0 - step / 20)
        forward_backward = client.forward_backward(batch, loss_fn="cross_entropy")
        optim = client.optim_step(types.AdamParams(learning_rate=rate, beta1=0.9, beta2=0.95, eps=1e-8))
        result = forward_backward.result()
        assert optim.result().metrics["learning_rate"] == pytest.approx(rate)
        said = [output["logprobs"].to_numpy() for output in result.loss_fn_outputs]
        weights = [datum.loss_fn_inputs["weights"].to_numpy() for datum in batch]
        total = -sum(float((lp * w).sum()) for lp, w in zip(said, weights, strict=True))
        assert result.metrics["loss:sum"] == pytest.approx(total, rel=1e-5)
        losses.append(total / sum(float(w.sum()) for w in weights))
    assert losses[0] > 3.0 and losses[-1] < 0.7 * losses[0]


def test_a_loop_of_reinforcement_learning(base, service):
    client = service.create_lora_training_client(base_model=NAME, rank=8, seed=0).result()
    half = base.vocabulary // 2  # a token of the upper half earns
    adam = types.AdamParams(learning_rate=2e-2, beta1=0.9, beta2=0.95, eps=1e-8)
    params = types.SamplingParams(max_tokens=4, stop=[base.tokenizer.eos_token_id])
    prompts = [types.ModelInput.from_ints(tokens_of(f"what is {letter}", base)) for letter in "abcd"]
    rewards = []
    for _ in range(10):
        sampler = client.save_weights_and_get_sampling_client().result()
        futures = [sampler.sample(prompt=prompt, num_samples=8, sampling_params=params) for prompt in prompts]
        data, means = [], []
        for prompt, future in zip(prompts, futures, strict=True):
            sequences = future.result().sequences
            values = [sum(token >= half for token in s.tokens) / len(s.tokens) for s in sequences]
            means.append(sum(values) / len(values))
            for sequence, value in zip(sequences, values, strict=True):
                data.append(experience(prompt, sequence, value - means[-1]))
        rewards.append(sum(means) / len(means))
        forward_backward = client.forward_backward(data, loss_fn="importance_sampling")
        optim = client.optim_step(adam)
        result = forward_backward.result()
        optim.result()
        # The policy is the one that sampled: r = 1, and the loss is minus the sum of the advantages.
        expected = -sum(float(datum.loss_fn_inputs["advantages"].to_numpy().sum()) for datum in data)
        assert result.metrics["loss:sum"] == pytest.approx(expected, abs=1e-3)
        for datum, output in zip(data, result.loss_fn_outputs, strict=True):
            sampled = datum.loss_fn_inputs["advantages"].to_numpy() != 0
            gap = output["logprobs"].to_numpy() - datum.loss_fn_inputs["logprobs"].to_numpy()
            np.testing.assert_allclose(gap[sampled], 0.0, atol=1e-4)
    assert rewards[0] < 0.65 and min(rewards[-3:]) > 0.8


def test_the_program_of_the_page_runs(address, monkeypatch, capsys):
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/serve.md").read_text("utf-8"), re.S)
    exec(program.replace("http://127.0.0.1:8123", address).replace("runs/reason/sft", NAME), {})
    metrics, answers, path = capsys.readouterr().out.splitlines()
    assert "loss:sum" in metrics and answers.count("'") >= 8 and path.endswith("/weights/step-1")


def experience(prompt, sequence, advantage):
    """A sampled sequence as a datum, as the cookbook's loop makes it."""
    before = prompt.length - 1
    model_input = prompt.append(types.EncodedTextChunk(tokens=sequence.tokens[:-1]))
    count = model_input.length - before
    return types.Datum(
        model_input=model_input,
        loss_fn_inputs={
            "target_tokens": TensorData.from_torch(torch.tensor([0] * before + sequence.tokens)),
            "logprobs": TensorData.from_torch(torch.tensor([0.0] * before + sequence.logprobs)),
            "advantages": TensorData.from_torch(torch.tensor([0.0] * before + [advantage] * count)),
        },
    )


@pytest.mark.parametrize(
    ("loss", "settings"), [("ppo", None), ("cispo", {"clip_low_threshold": 0.7, "clip_high_threshold": 1.1})]
)
def test_clipped_losses_are_those_of_the_log_probabilities_that_come_back(service, loss, settings):
    client = service.create_lora_training_client(base_model=NAME, rank=4, seed=0).result()
    rows = np.random.default_rng(0)
    tokens, old, advantages = rows.integers(9, 30, 9).tolist(), -3.5 + rows.normal(size=9) / 3, rows.normal(size=9)
    inputs = {"target_tokens": [*tokens[1:], 3], "logprobs": old.astype("f4"), "advantages": advantages.astype("f4")}
    datum = types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs=inputs)
    result = client.forward_backward([datum], loss, settings).result()
    new = result.loss_fn_outputs[0]["logprobs"].to_numpy().astype(float)
    ratio = np.exp(new - old)
    if loss == "ppo":
        expected = -np.minimum(ratio * advantages, ratio.clip(0.8, 1.2) * advantages).sum()
    else:
        expected = -(ratio.clip(0.7, 1.1) * new * advantages).sum()
    assert result.metrics["loss:sum"] == pytest.approx(expected, rel=1e-4)


def test_a_loss_of_the_clients_own_has_the_gradient_of_a_plain_computation(base, service):
    client = service.create_lora_training_client(base_model=NAME, rank=4, seed=5).result()
    data = [demonstration(base, "what is a", "b yes"), demonstration(base, "what is the sum of", "c")]

    def own(batch, log_probs):
        loss = sum(
            (lp.square() * d.loss_fn_inputs["weights"].to_torch()).sum() for d, lp in zip(batch, log_probs, strict=True)
        )
        return loss, {"own:sum": loss.item()}

    metrics = client.forward_backward_custom(data, own).result().metrics
    norm = client.optim_step(types.AdamParams(learning_rate=0.0)).result().metrics["grad_norm"]

    from gaitway.serve.base import Adapters

    twin = base.learner_model(Adapters(4, 5))
    loss = torch.zeros(())
    for datum in data:
        inputs = {name: value.to_torch() for name, value in datum.loss_fn_inputs.items()}
        logits = twin(torch.tensor([datum.model_input.to_ints()])).logits[0]
        log_probs = logits.log_softmax(-1).gather(1, inputs["target_tokens"][:, None])[:, 0]
        loss = loss + (log_probs.square() * inputs["weights"]).sum()
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in twin.parameters() if p.requires_grad])
    assert metrics["own:sum"] == pytest.approx(loss.item(), rel=1e-5)
    assert norm == pytest.approx(float(gradient.norm()), rel=1e-4)


def test_training_goes_on_from_saved_state(base, service):
    adam = types.AdamParams(learning_rate=1e-2)
    batch = [demonstration(base, "what is a", "b yes")]
    client = service.create_lora_training_client(base_model=NAME, rank=4, seed=0).result()
    client.forward_backward(batch, "cross_entropy").result()
    client.optim_step(adam).result()
    state = client.save_state("one").result().path
    weights = client.save_weights_for_sampler("one").result().path
    again = service.create_training_client_from_state_with_optimizer(state).result()
    fresh = service.create_training_client_from_state(state).result()
    found = []
    for one in (client, again, fresh):
        first = one.forward_backward(batch, "cross_entropy").result().metrics["loss:sum"]
        one.optim_step(adam).result()
        found.append((first, one.forward(batch, "cross_entropy").result().metrics["loss:sum"]))
    assert found[0] == found[1] and found[0][0] == found[2][0] and found[0] != found[2]
    sampler = service.create_sampling_client(model_path=weights).result()
    assert sampler.get_base_model() == NAME
    datum = batch[0]
    tokens = [*datum.model_input.to_ints(), int(datum.loss_fn_inputs["target_tokens"].data[-1])]
    said = sampler.compute_logprobs(types.ModelInput.from_ints(tokens)).result()
    assert said[0] is None
    weighted = datum.loss_fn_inputs["weights"].to_numpy()
    assert -float((np.array(said[1:]) * weighted).sum()) == pytest.approx(found[0][0], rel=1e-5)


def test_data_of_several_requests_are_one_batch(base, service):
    """A client cuts a batch into requests of at most 1024 data, and sends the first of them last."""
    datum = demonstration(base, "what is a", "b")
    client = service.create_lora_training_client(base_model=NAME, rank=4, seed=0).result()
    one = client.forward_backward([datum], "cross_entropy").result().metrics["loss:sum"]
    result = client.forward_backward([datum] * 1100, "cross_entropy").result()
    assert len(result.loss_fn_outputs) == 1100
    assert result.metrics["loss:sum"] == pytest.approx(1100 * one, rel=1e-4)


def test_mistakes_reach_the_caller(base, service, address):
    with pytest.raises(tinker.BadRequestError, match=r"'other'.*this server has 'tiny' only"):
        service.create_lora_training_client(base_model="other").result()
    client = service.create_lora_training_client(base_model=NAME, rank=4).result()
    datum = demonstration(base, "what is a", "b")
    with pytest.raises(tinker.RequestFailedError, match="lacks logprobs, advantages"):
        client.forward_backward([datum], "ppo").result()
    with pytest.raises(tinker.RequestFailedError, match="no step was taken"):
        client.optim_step(types.AdamParams()).result()
    sampler = service.create_sampling_client(base_model=NAME).result()
    with pytest.raises(tinker.BadRequestError, match="the model sees 48"):
        sampler.sample(types.ModelInput.from_ints([9] * 60), 1, types.SamplingParams(max_tokens=1)).result()
    rest = tinker.RestClient(base_url=address, api_key="tml-local")
    assert [m.model_name for m in rest.get_server_capabilities().result().supported_models] == [NAME]


def test_what_a_client_saved_is_listed_and_deleted(base, service, address):
    client = service.create_lora_training_client(base_model=NAME, rank=4).result()
    path = client.save_state("listed", user_metadata={"step": "0"}).result().path
    rest = tinker.RestClient(base_url=address, api_key="tml-local")
    info = rest.get_weights_info_by_tinker_path(path).result()
    assert (info.base_model, info.lora_rank) == (NAME, 4)
    run = client.get_info().model_id
    (listed,) = rest.list_checkpoints(run).result().checkpoints
    assert (listed.tinker_path, listed.user_metadata) == (path, {"step": "0"})
    assert rest.get_training_run(run).result().base_model == NAME
    rest.delete_checkpoint_from_tinker_path(path).result()
    assert rest.list_checkpoints(run).result().checkpoints == []
