"""Estimates of memory against what is really kept."""

from itertools import pairwise

import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.core.store import ShardedStore
from gaitway_agents.models import causal_lm, llama
from gaitway_language import memory
from gaitway_language.memory import (
    Saving,
    affordable,
    available_memory,
    check_memory,
    estimate_host_memory,
    estimate_memory,
)
from gaitway_language.model import ModelError, add_lora, build_model
from gaitway_language.options import LanguageOptions, LoraOptions, TinyModel
from gaitway_language.saving import save_model
from gaitway_language.tokenizer import build_tokenizer

SIZES = TinyModel(hidden_size=128, layers=4, heads=4, intermediate_size=384, max_positions=64)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(["one apple and two pears"])


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(build_model(SIZES, tokenizer, 0), tokenizer, path)
    return path


def options(folder, **settings):
    return LanguageOptions(model=str(folder), tiny=None, **settings)


def kept(model, rows, length, low, lean=False):
    """Bytes per token that autograd keeps for the backward pass, parameters and their copies left out."""
    model.train()
    found, weights = {}, {p.shape for p in model.parameters()} | {p.T.shape for p in model.parameters() if p.dim() == 2}

    def pack(tensor):
        if tensor.shape not in weights:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = (storage.nbytes(), storage)
        return tensor.detach()  # an output that is kept with its history would keep itself

    tokens = torch.ones(rows, length, dtype=torch.int64)
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=low),
    ):
        if lean:
            states = llama.lean_states(model, tokens, torch.full((rows,), length), None)
        else:
            states = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    assert states.requires_grad
    return sum(size for size, _ in found.values())


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_activations_are_those_that_are_kept(folder, tokenizer, low, attention, checkpointing, monkeypatch):
    model = build_model(SIZES, tokenizer, 0, attention=attention)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    settings = options(folder, attention=attention, gradient_checkpointing=checkpointing, batch_size=1)
    precision = "bfloat16" if low else "float32"
    monkeypatch.setattr(memory, "LEAN", ())
    said = estimate_memory(settings, sequence=48, chunk_size=40 * 48, precision=precision)["activations"]
    real = kept(model, 40, 48, low)
    layer = said * 2 / (2 * 4 * SIZES.layers) if checkpointing else said / (SIZES.layers + 1)
    # What the backward pass adds in the layer where it is has no hook to be seen by.
    assert real < said < (real + 1.1 * layer if not checkpointing else 12 * real)


@pytest.mark.parametrize("low", [False, True])
def test_activations_of_lean_passes_are_those_that_are_kept(folder, tokenizer, low):
    model = build_model(SIZES, tokenizer, 0)
    precision = "bfloat16" if low else "float32"
    found = estimate_memory(options(folder, batch_size=1), sequence=48, chunk_size=40 * 48, precision=precision)
    said, real = found["activations"], kept(model, 40, 48, low, lean=True)
    assert real < said < real + 1.1 * said / (SIZES.layers + 1)
    assert not found.get("weights in bfloat16")
    small = options(folder, batch_size=1)
    for settings in ({"on_gpu": True}, {"sequence": 513}):
        other = estimate_memory(small, **{"sequence": 48, "chunk_size": 513, "precision": precision} | settings)
        assert bool(other.get("weights in bfloat16")) is low


def test_weights_gradients_and_moments(folder, tokenizer):
    count = sum(p.numel() for p in build_model(SIZES, tokenizer, 0).parameters())
    found = estimate_memory(options(folder), sequence=48, reference=True, critic=True)
    assert (found["weights"], found["gradients"], found["Adam's moments"]) == (4 * count, 4 * count, 8 * count)
    assert (found["reference"], found["critic"]) == (4 * count, 16 * count)
    assert "engine's weights" not in estimate_memory(options(folder, rollout="vllm"), sequence=48)


def test_learning_and_sampling_take_turns(folder):
    learning = estimate_memory(options(folder, batch_size=1), sequence=48)
    sampling = estimate_memory(options(folder, batch_size=256), sequence=48, chunk_size=48)
    assert sampling["engine's keys and values"] == 4 * 2 * 4 * 128 * 48 * 256
    turns = {"activations", "logits", "gradient under way"}, {f"engine's {part}" for part in ("prompts", "logits")}
    assert turns[0] <= set(learning) and not turns[0] & set(sampling)
    assert turns[1] <= set(sampling) and not turns[1] & set(learning)
    apart = {"sequence": 48, "on_gpu": True}
    one, two = (estimate_memory(options(folder, batch_size=1), critic=c, **apart)["activations"] for c in (0, 1))
    assert two == 2 * one  # those of the critic, at the same time
    kept = estimate_memory(options(folder, batch_size=1), sequence=48, samples=False)
    assert "engine's weights" in learning and "engine's weights" not in kept  # there while it is evaluated alone


def test_logits_are_counted_as_they_are_cut():
    assert (memory.LOGITS, memory.KEPT) == (causal_lm.LOGITS, causal_lm.KEPT)
    assert (memory.LEAN, memory.LONGEST) == (llama.FAMILY, llama.LONGEST)


def test_what_saves_memory(folder, tokenizer):
    model = build_model(SIZES, tokenizer, 0)
    count = sum(p.numel() for p in model.parameters())
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not model.lm_head)
    low = {"sequence": 48, "precision": "bfloat16", "reference": True, "on_gpu": True}
    assert estimate_memory(options(folder), **low)["reference"] == 4 * count - 2 * linear
    assert estimate_memory(options(folder), moving=True, **low)["reference"] == 4 * count
    assert "Adam's moments" not in estimate_memory(options(folder), offload=True, **low)
    assert estimate_host_memory(options(folder), offload=True)["Adam's moments"] == 8 * count
    assert estimate_host_memory(options(folder)) == {"weights while they are read": 4 * count}


def bytes_kept(store):
    """Bytes of the tensors that a sharded store and its optimiser hold; of views once."""
    state = store.inner.state_dict()["state"][0]
    tensors = [store._weights, store._gradient, store._part, state["exp_avg"], state["exp_avg_sq"]]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_sharded_store_keeps_what_is_said(folder, tokenizer, precision):
    model = build_model(SIZES, tokenizer, 0)
    policy = causal_lm.CausalLMPolicy(model)
    config = OptimizerConfig(store="sharded", precision=precision)
    store = ShardedStore(policy.parameter_groups(), config)
    store.step(1e-3)
    found = estimate_memory(options(folder), sequence=48, precision=precision, store="sharded")
    names = ("weights", "gradients", "weights in float32", "Adam's moments")
    assert bytes_kept(store) == sum(found.get(name, 0) for name in names)


QWEN_7B = """{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": false}"""


def test_seven_billion_parameters_fit_on_one_gpu_of_80_gb_in_a_sharded_store(tmp_path):
    """7.6 billion; moments and weights in float32 are in the machine's memory."""
    (tmp_path / "config.json").write_text(QWEN_7B, "utf-8")
    large = options(tmp_path, dtype="bfloat16", gradient_checkpointing=True, batch_size=32)
    common = {"sequence": 2048, "chunk_size": 4096, "precision": "bfloat16", "on_gpu": True}
    sizes = {
        store: sum(estimate_memory(large, offload=True, store=store, **common).values())
        for store in ("flat", "sharded")
    }
    assert sizes["sharded"] < 0.9 * 80e9 < 80e9 < sizes["flat"]
    assert estimate_host_memory(large, offload=True, store="sharded")["Adam's moments"] == 12 * 7_615_616_512
    each = [sum(estimate_memory(large, store="fsdp", processes=n, **common).values()) for n in (1, 2, 4)]
    steps = [a - b for a, b in pairwise(each)]
    assert steps == pytest.approx([16 * 7_615_616_512 / 2**n for n in (1, 2)])  # but what each keeps for itself
    begin = estimate_memory(large, store="fsdp", processes=8, **common)
    assert begin["weights while they are read"] == 4 * 7_615_616_512


def test_a_process_of_its_own_has_copies_too(folder, tokenizer):
    count = sum(p.numel() for p in build_model(SIZES, tokenizer, 0).parameters())
    late = options(folder, staleness=2, dtype="bfloat16")
    found, apart = estimate_memory(late, sequence=48), estimate_memory(late, sequence=48, on_gpu=True)
    assert found["sampler's model"] == apart["sampler's model"] == apart["engine's weights"] == 2 * count
    assert found["weights on their way"] == 3 * 4 * count and "weights on their way" not in apart
    adapters = estimate_memory(options(folder, staleness=1, dtype="bfloat16", lora=LoraOptions()), sequence=48)
    assert adapters["weights on their way"] == 2 * 2 * count
    assert not {"sampler's model", "weights on their way"} & set(estimate_memory(options(folder), sequence=48))


def test_the_cheapest_saving_that_fits_is_taken():
    asked, gib = Saving(8192, False, False), 2**30

    def needed(saving):
        activations = 24 * gib * saving.chunk_size // 8192 // (8 if saving.gradient_checkpointing else 1)
        return {"weights": 2 * gib, "activations": activations, "moments": 0 if saving.offload else 2 * gib}

    def chosen(gigabytes, **settings):
        return affordable(needed, asked, gigabytes * gib, **{"sequence": 600, "on_gpu": True} | settings)

    assert chosen(28) == asked
    assert chosen(27) == asked._replace(chunk_size=4096) == chosen(16)
    assert chosen(15) == asked._replace(chunk_size=2048)
    assert chosen(8) == asked._replace(chunk_size=1024)
    assert chosen(8, sequence=1500) == asked._replace(gradient_checkpointing=True)  # a sequence is not cut
    anew = Saving(8192, True, False)
    assert chosen(6) == anew._replace(chunk_size=4096) and chosen(5) == anew._replace(chunk_size=2048)
    assert chosen(4) == Saving(4096, True, True)
    assert chosen(1) == Saving(1024, True, True) and chosen(1, on_gpu=False) == Saving(1024, True, False)


def test_adapters_need_little(folder, tokenizer):
    lora = LoraOptions(rank=4)
    model = add_lora(build_model(SIZES, tokenizer, 0), lora)
    learnt = sum(p.numel() for p in model.parameters() if p.requires_grad)
    whole = sum(p.numel() for p in model.parameters()) - learnt
    found = estimate_memory(options(folder, lora=lora, dtype="bfloat16"), sequence=48, reference=True)
    assert found["gradients"] == 4 * learnt and found["weights"] == 2 * whole + 4 * learnt
    assert "reference" not in found
    some = estimate_memory(options(folder, lora=LoraOptions(rank=4, targets=("q_proj",))), sequence=48)
    assert some["gradients"] == 4 * 4 * SIZES.layers * 256
    # Lean passes multiply by weights with the adapters added, and keep them for the backward pass.
    adapted = sum(p.numel() for n, p in model.named_parameters() if "base_layer" in n)
    for precision, size in (("bfloat16", 2), ("float32", 4)):
        lean = estimate_memory(options(folder, lora=lora), sequence=48, precision=precision, chunk_size=65536)
        assert lean["weights with adapters"] == size * adapted > 0


def test_too_little_memory_is_said_with_what_to_do():
    needed = {"weights": 6 * 2**30, "gradients": 3 * 2**30}
    check_memory(needed, 9 * 2**30, "the GPU")
    with pytest.raises(
        ModelError, match=r"needs about 9.0 GiB and the GPU has 8.5 GiB.*weights 6.0, gradients 3.0.*--lora"
    ):
        check_memory(needed, 17 * 2**29, "the GPU")


def test_memory_of_a_container_is_what_it_may_use(tmp_path, monkeypatch):
    assert available_memory(torch.device("cpu")) > 2**20
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1500000\n")
    (tmp_path / "memory.stat").write_text("anon 900000\ninactive_file 500000\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert available_memory(torch.device("cpu")) == 2000000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(torch.device("cpu")) > 2000000


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        estimate_memory(options(tmp_path / "nowhere"), sequence=48)
