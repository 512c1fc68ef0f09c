"""Log-probabilities, entropies and gradients of tokens against a plain forward pass of transformers."""

import copy
import weakref

import pytest
import safetensors.torch
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.language.shared_weights import SharedWeights
from gaitway_agents.models import causal_lm
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_agents.models.prefixes import ARCHITECTURES
from gaitway_agents.models.sequences import hidden_states, packed_states, token_chunks
from gaitway_agents.models.token_critic import TokenCritic
from gaitway_files import adapters
from gaitway_files.adapters import MergedWeights
from gaitway_language.engines.stream import WeightStream
from gaitway_language.engines.transformers import TransformersEngine
from tiny_models import VOCABULARY, tiny_lm

LENGTHS = torch.tensor([12, 7, 5, 9])


def sequences(lengths=LENGTHS, width=14, seed=0):
    """Tokens, lengths and mask of rows of which all but three tokens were chosen, and one in their middle was not."""
    tokens = torch.randint(1, VOCABULARY, (len(lengths), width), generator=torch.Generator().manual_seed(seed))
    at = torch.arange(width)
    return tokens, lengths, ((at >= 3) & (at != 4) & (at < lengths[:, None])).float()


def test_minibatches_keep_the_answers_to_a_prompt_together():
    tokens, lengths, mask = sequences(torch.full((12,), 9))
    tokens[:, :3] = torch.tensor([[1, 2, 3], [1, 2, 4], [5, 6, 7]]).repeat(4, 1)
    batch = Batch(
        observations={"lengths": lengths}, actions=tokens, log_probs=torch.zeros(12, 14), advantages=mask, mask=mask
    )
    orders = set()
    for seed in range(20):
        order = batch.shuffled(torch.Generator().manual_seed(seed))
        found = CausalLMPolicy(tiny_lm()).grouped(batch, order)
        assert sorted(found.tolist()) == list(range(12))
        prompts = (found % 3).tolist()
        assert [prompts[i] for i in (0, 4, 8)] == list(dict.fromkeys(prompts)) and prompts[::4] == prompts[3::4]
        orders.add(tuple(prompts[::4]))
    assert len(orders) == 6
    apart = batch.replace(actions=torch.arange(12)[:, None] * 20 + torch.arange(14))
    assert torch.equal(CausalLMPolicy(tiny_lm()).grouped(apart, order), order)


def plain(model, tokens, lengths, mask, temperature=1.0):
    """The same row by row, from all logits of sequences that have no padding."""
    log_probs, entropy = torch.zeros(mask.shape, dtype=model.dtype), torch.zeros(mask.shape, dtype=model.dtype)
    for row, length in enumerate(lengths.tolist()):
        logits = model(input_ids=tokens[row : row + 1, :length]).logits[0, :-1] / temperature
        said = logits.log_softmax(-1)
        log_probs[row, 1:length] = said.gather(1, tokens[row, 1:length, None])[:, 0]
        entropy[row, 1:length] = -(said.exp() * said).sum(-1)
    return log_probs * mask, entropy * mask


def batch_of(tokens, lengths, mask):
    none = torch.zeros_like(mask)
    return Batch(observations={"lengths": lengths}, actions=tokens, log_probs=none, advantages=none, mask=mask)


def adapted(model, noise=0.1):
    """The model with LoRA whose product is not 0."""
    from peft import LoraConfig, get_peft_model

    found = get_peft_model(model, LoraConfig(r=4, lora_alpha=8.0, target_modules="all-linear"))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in found.named_parameters():
        if "lora" in name:
            parameter.data.normal_(0.0, noise, generator=generator)
    return found


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equals_a_plain_forward_pass(attention, temperature):
    model = tiny_lm(attn_implementation=attention)
    policy = CausalLMPolicy(model, temperature=temperature)
    with torch.no_grad():
        found = policy.evaluate(batch_of(*sequences()))
        log_probs, entropy = plain(model, *sequences(), temperature)
    assert log_probs.abs().sum() > 10.0
    torch.testing.assert_close(found.log_probs, log_probs, atol=2e-6, rtol=0.0)
    torch.testing.assert_close(found.entropy, entropy, atol=2e-6, rtol=0.0)


def double_lm():
    """A GPT-2 of float64 throughout; Qwen2's norms compute in float32."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2LMHeadModel(GPT2Config(**shape, **dropout, bos_token_id=0, eos_token_id=0)).double()


def gradients(model, log_probs, entropy):
    model.zero_grad()
    weights = torch.randn(log_probs.shape, generator=torch.Generator().manual_seed(2))
    ((log_probs + 0.3 * entropy) * weights).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("slices", [False, True])
def test_gradient_equals_that_of_all_logits(slices, monkeypatch):
    if slices:
        monkeypatch.setitem(causal_lm.LOGITS, "cpu", 4 * VOCABULARY)
    model = double_lm()
    ours = gradients(model, *CausalLMPolicy(model, entropy="gradient").log_probs(*sequences()))
    naive = gradients(model, *plain(model, *sequences()))
    for name, value in naive.items():
        torch.testing.assert_close(ours[name], value, atol=1e-13, rtol=0.0)


def test_entropy_is_a_statistic_unless_asked():
    model = tiny_lm()
    log_probs, entropy = CausalLMPolicy(model).log_probs(*sequences())
    assert entropy.sum() > 0.0 and not entropy.requires_grad
    same, none = CausalLMPolicy(model, entropy="none").log_probs(*sequences())
    assert torch.equal(same, log_probs) and not none.any()
    with pytest.raises(ValueError, match="entropy 'maybe'"):
        CausalLMPolicy(model, entropy="maybe")


def largest(build, monkeypatch, limit):
    """The most elements that any tensor saved for the backward pass, or made by the head, has."""
    monkeypatch.setattr(causal_lm, "KEPT", limit)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        build().sum().backward()
    return max(sizes)


def test_never_holds_all_logits(monkeypatch):
    model = tiny_lm(vocab_size=4096)
    policy = CausalLMPolicy(model)
    tokens, lengths, mask = sequences(torch.full((32,), 14))

    def build():
        return policy.log_probs(tokens, lengths, mask)[0]

    chosen = int(mask.sum()) * 4096
    assert largest(build, monkeypatch, 2**24) >= chosen
    assert largest(build, monkeypatch, 16 * 4096) < chosen / 2  # the model's own weights are the largest then


@pytest.mark.parametrize("name", ["gemma2", "cohere", *sorted({*ARCHITECTURES} - {"qwen2"})])
def test_other_architectures(name, monkeypatch):
    import transformers as hf

    monkeypatch.setattr(causal_lm, "LONGEST", 0)  # lean passes are tested by themselves

    sizes = {
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    config = {
        "gemma2": lambda: hf.Gemma2Config(**sizes, head_dim=8, final_logit_softcapping=0.2),
        "cohere": lambda: hf.CohereConfig(**sizes, logit_scale=3.0),
        "granite": lambda: hf.GraniteConfig(**sizes, logits_scaling=0.1),
        "gpt2": lambda: hf.GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
        ),
        "qwen3": lambda: hf.Qwen3Config(**sizes, head_dim=8),
        "llama": lambda: hf.LlamaConfig(**sizes),
        "olmo2": lambda: hf.Olmo2Config(**sizes),
        "phi3": lambda: hf.Phi3Config(**sizes),
        "smollm3": lambda: hf.SmolLM3Config(**sizes),
    }[name]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = hf.AutoModelForCausalLM.from_config(config)
    policy = CausalLMPolicy(model, entropy="gradient")
    with torch.no_grad():
        torch.testing.assert_close(
            policy.log_probs(*sequences())[0], plain(model.eval(), *sequences())[0], atol=2e-6, rtol=0.0
        )
    read = counted(model)
    ours = gradients(model, *policy.log_probs(*answers()))
    assert (len(read) == 2) == (name in ARCHITECTURES)
    for parameter, value in gradients(model, *plain(model, *answers())).items():
        torch.testing.assert_close(ours[parameter], value, atol=5e-6, rtol=1e-5)


def test_refuses_a_model_whose_logits_come_from_elsewhere():
    model = tiny_lm()
    inner = model.forward
    model.forward = lambda *args, **kwargs: shifted(inner(*args, **kwargs))

    def shifted(output):
        output.logits = output.logits * 1.5
        return output

    with pytest.raises(ValueError, match="not its output layer's of its decoder's last states"):
        CausalLMPolicy(model)


def test_rows_in_one_line_do_not_see_one_another():
    model = tiny_lm().eval()
    tokens, lengths, _ = sequences()
    seen = torch.arange(tokens.shape[1]) < lengths[:, None]
    with torch.no_grad():
        apart = hidden_states(model, tokens, lengths)
        packed = packed_states(model.get_decoder(), tokens, lengths)
    torch.testing.assert_close(packed[seen], apart[seen], atol=2e-6, rtol=0.0)
    assert not packed[~seen].any()


def test_forward_passes_hold_so_many_tokens():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 15, (50,), generator=generator)
    parts = token_chunks(batch_of(*sequences(lengths)), 40)
    assert torch.cat(parts).sort().values.tolist() == list(range(50))
    padded = [len(part) * int(lengths[part].max()) for part in parts]
    assert max(padded) <= 40
    assert sum(padded) < 1.15 * int(lengths.sum())
    assert [len(part) for part in token_chunks(batch_of(*sequences(lengths)), 3)] == [1] * int((lengths > 1).sum())
    pairs = Batch(
        observations={"lengths": torch.tensor([[9, 4], [10, 10], [3, 2]])},
        actions=torch.zeros(3, 2, 10),
        log_probs=torch.zeros(3),
        advantages=torch.zeros(3),
    )
    assert [part.tolist() for part in token_chunks(pairs, 20)] == [[1], [0], [2]]
    assert [part.tolist() for part in token_chunks(pairs, 40)] == [[1, 0], [2]]


def update(model, **settings):
    """The weights after two steps of a policy gradient, and the statistics."""
    policy = CausalLMPolicy(model)
    batch = batch_of(*sequences(torch.tensor([14, 3, 9, 5, 4, 8, 11, 13])))
    with torch.no_grad():
        log_probs = policy.evaluate(batch).log_probs
    signs = torch.tensor([1.0, -1.0]).repeat(4)[:, None]
    batch = batch.replace(log_probs=log_probs, advantages=signs * batch.mask)
    usual = {
        "epochs": 2, "minibatches": 1, "learning_rate": 1e-3, "schedule": "constant", "entropy_coefficient": 0.0,
        "normalize_advantages": "none",
    }  # fmt: skip
    optimizer = PolicyOptimizer(policy, OptimizerConfig(**(usual | settings)))
    statistics = optimizer.update(batch)
    return {name: value.clone() for name, value in model.state_dict().items()}, statistics


@pytest.mark.parametrize("settings", [{"chunk_size": 20}, {"chunk_size": 20, "workers": 2}])
@pytest.mark.parametrize("lora", [False, True])
def test_updates_do_not_depend_on_how_they_are_cut_up(settings, lora):
    start = tiny_lm()
    make = adapted if lora else (lambda model: model)
    whole, _ = update(make(copy.deepcopy(start)))
    parts, _ = update(make(copy.deepcopy(start)), **settings)
    moved = 0.0
    for name, value in make(copy.deepcopy(start)).state_dict().items():
        torch.testing.assert_close(parts[name], whole[name], atol=2e-5, rtol=0.0)
        moved += float((whole[name] - value).abs().sum())
        assert not lora or "lora" in name or torch.equal(whole[name], value), name
    assert moved > 0.1


def test_tied_embeddings_stay_tied():
    model = tiny_lm()
    update(model)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_low_precision_learns_the_same_way():
    start = tiny_lm()
    full, _ = update(copy.deepcopy(start))
    low, _ = update(copy.deepcopy(start), precision="bfloat16")
    first = torch.cat([(full[name] - value).flatten() for name, value in start.state_dict().items()])
    second = torch.cat([(low[name] - value).flatten() for name, value in start.state_dict().items()])
    assert all(value.dtype == torch.float32 for value in low.values())
    assert torch.nn.functional.cosine_similarity(first, second, dim=0) > 0.9


@pytest.mark.parametrize("lora", [False, True])
def test_activations_computed_anew_are_the_same(lora, monkeypatch):
    monkeypatch.setattr(causal_lm, "LONGEST", 0)  # both in transformers' passes
    ours, again = (adapted(tiny_lm()) if lora else tiny_lm() for _ in range(2))
    again.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    expected = gradients(ours, *CausalLMPolicy(ours, entropy="gradient").log_probs(*sequences()))
    saved = []
    policy = CausalLMPolicy(again, entropy="gradient")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        found = policy.log_probs(*sequences())
    checkpointed = len(saved)
    for name, value in gradients(again, *found).items():
        torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=1e-5)
    saved.clear()
    again.gradient_checkpointing_disable()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        policy.log_probs(*sequences())
    assert checkpointed < 0.6 * len(saved)


def test_no_dropout_unless_asked():
    model = tiny_lm(attention_dropout=0.5)
    model.train()
    policy = CausalLMPolicy(model, dropout=True)
    policy.train()
    first, second = (policy.log_probs(*sequences())[0] for _ in range(2))
    assert not torch.equal(first, second)
    policy = CausalLMPolicy(model)
    policy.train()
    first, second = (policy.log_probs(*sequences())[0] for _ in range(2))
    assert torch.equal(first, second)


def test_an_engine_gets_adapters_merged():
    model = tiny_lm()
    names = list(model.state_dict())
    policy = CausalLMPolicy(adapted(copy.deepcopy(model)))
    weights = dict(policy.named_weights())
    assert list(weights) == names
    with torch.no_grad():
        expected = policy.log_probs(*sequences())[0]
        model.load_state_dict(weights)
        assert (expected - CausalLMPolicy(tiny_lm()).log_probs(*sequences())[0]).abs().max() > 0.01
        torch.testing.assert_close(CausalLMPolicy(model).log_probs(*sequences())[0], expected, atol=1e-5, rtol=0.0)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in MergedWeights(model))


@pytest.mark.parametrize("route", ["engine", "wire", "shared memory"])
def test_merged_tensors_are_made_one_at_a_time(route, monkeypatch):
    live, most = weakref.WeakSet(), 0

    def counted(layer, weight, merged=adapters._merged):
        nonlocal most
        live.add(found := merged(layer, weight))
        most = max(most, len(live))
        return found

    monkeypatch.setattr(adapters, "_merged", counted)
    model = tiny_lm()
    policy = CausalLMPolicy(adapted(copy.deepcopy(model)))
    held = dict(policy.named_weights())
    count, most = most, 0
    expected = {name: value.clone() for name, value in held.items() if name != "lm_head.weight"}
    del held
    if route == "engine":
        TransformersEngine(model).update(policy.named_weights())
    elif route == "wire":
        stream = WeightStream(policy.named_weights(), torch.float32)
        sent = b"".join(bytes(part) for part in stream)
        assert len(sent) == len(stream)
        for name, value in safetensors.torch.load(sent).items():
            assert torch.equal(value, expected[name]), name
    else:
        shared = SharedWeights.like(policy.named_weights(), 1)
        shared.unlink()
        shared.write(0, policy.named_weights())
        found = dict(shared.read(0))
        assert all(torch.equal(value, found[name]) for name, value in expected.items())
        assert found["lm_head.weight"].data_ptr() == found["model.embed_tokens.weight"].data_ptr()
    assert most <= 2 < count  # the one before is there until the next one is


# ---- shared prompts -------------------------------------------------------------------------------------------------


def answers(prompts=4, each=6, seed=0):
    """``each`` answers of 1 to 4 tokens to prompts of 7 to 12 tokens; the last answer counts for nothing."""
    generator = torch.Generator().manual_seed(seed)
    rows, starts = [], []
    for _ in range(prompts):
        prompt = torch.randint(
            1, VOCABULARY, (int(torch.randint(7, 13, (), generator=generator)),), generator=generator
        )
        for _ in range(each):
            length = int(torch.randint(1, 5, (), generator=generator))
            rows.append(torch.cat((prompt, torch.randint(1, VOCABULARY, (length,), generator=generator))))
            starts.append(len(prompt))
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    at = torch.arange(tokens.shape[1])
    mask = ((at >= torch.tensor(starts)[:, None]) & (at < lengths[:, None])).float()
    mask[-1] = 0.0
    return tokens, lengths, mask


def counted(model):
    """List that collects the number of tokens in each call of the decoder of ``model`` from now on."""
    found = []
    model.get_input_embeddings().register_forward_hook(lambda _module, inputs, _output: found.append(inputs[0].numel()))
    return found


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_prompts_of_several_answers_are_read_once(attention):
    model = tiny_lm(attn_implementation=attention)
    expected = gradients(model, *plain(model, *answers()))
    policy = CausalLMPolicy(model, entropy="gradient")
    read = counted(model)
    log_probs, entropy = policy.log_probs(*answers())
    assert sum(read) < 0.6 * answers()[0].numel()
    with torch.no_grad():
        torch.testing.assert_close(log_probs, plain(model, *answers())[0], atol=2e-6, rtol=0.0)
    for name, value in gradients(model, log_probs, entropy).items():
        torch.testing.assert_close(value, expected[name], atol=3e-6, rtol=1e-5)


def test_forward_passes_keep_answers_to_a_prompt_together():
    tokens, lengths, mask = answers(prompts=5, each=8)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    batch = batch_of(tokens[order], lengths[order], mask[order])
    policy = CausalLMPolicy(tiny_lm())
    parts = policy.chunks(batch, 60)
    assert torch.cat(parts).sort().values.tolist() == list(range(40))
    read = counted(policy.model)
    for part in parts:
        policy.evaluate(batch[part])
        assert len(batch[part].actions[:, :7].unique(dim=0)) <= 2
    whole, apart = sum(read), token_chunks(batch, 60)
    assert whole < 0.7 * sum(len(part) * int(batch.observations["lengths"][part].max()) for part in apart)
    # Prompts without company, or none longer than an answer: length alone decides.
    alone = batch_of(*sequences())
    assert [p.tolist() for p in policy.chunks(alone, 30)] == [p.tolist() for p in token_chunks(alone, 30)]


def test_shared_prompts_change_no_update():
    start = tiny_lm()
    states = []
    for shares in (True, False):
        model = copy.deepcopy(start)
        if not shares:
            model.config.model_type = "of nobody's"
        policy = CausalLMPolicy(model, critic=TokenCritic(model))
        torch.nn.init.ones_(policy.critic.head.weight)
        batch = batch_of(*answers())
        with torch.no_grad():
            found = policy.evaluate(batch)
        signs = torch.tensor([1.0, -1.0]).repeat(12)[:, None]
        batch = batch.replace(
            log_probs=found.log_probs, values=found.values, returns=found.values + 1.0, advantages=signs * batch.mask
        )
        config = OptimizerConfig(
            epochs=2, minibatches=1, schedule="constant", normalize_advantages="none", chunk_size=60, workers=2
        )
        PolicyOptimizer(policy, config).update(batch)
        states.append(policy.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, atol=3e-5, rtol=0.0)


@pytest.mark.parametrize("lora", [False, True])
def test_shared_prompts_with_adapters_in_low_precision(lora):
    model = adapted(tiny_lm()) if lora else tiny_lm()
    policy = CausalLMPolicy(model)
    with torch.no_grad():
        full = policy.log_probs(*answers())[0]
        with torch.autocast("cpu", torch.bfloat16):
            low = policy.log_probs(*answers())[0]
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, full, atol=0.1, rtol=0.0)
