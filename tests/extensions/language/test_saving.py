"""Models written a tensor at a time: the folders of transformers' own ``save_pretrained``, with little memory."""

import copy
import ctypes
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_files.writing import whole_folder
from gaitway_language import saving
from gaitway_language.saving import save_model
from gaitway_language.tokenizer import build_tokenizer
from memory_taken import watched
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MixtralConfig, Qwen2Config

M_MMAP_THRESHOLD = -3
TOKENS = torch.tensor([[7, 8, 9, 10, 11]])
SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
SMALL = 8000
"""Bytes of a file, for a model that has a tensor of 5120 and some larger ones."""


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(["one apple and two pears are three pieces of fruit"])


def build(kind=Qwen2Config, **settings):
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(kind(**{**SIZES, **settings})).eval()


def adapted(model, targets="all-linear"):
    torch.manual_seed(4)
    config = LoraConfig(r=4, lora_alpha=12, init_lora_weights=False, target_modules=targets)
    return get_peft_model(model, config).eval()


def logits(model):
    with torch.no_grad():
        return model(input_ids=TOKENS).logits


def tensors(folder):
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


@pytest.mark.parametrize("file_bytes", [saving.FILE_BYTES, SMALL], ids=["one file", "several files"])
@pytest.mark.parametrize("adapters", [False, True], ids=["whole", "adapters"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_a_folder_is_that_of_transformers_itself(tokenizer, tmp_path, tied, adapters, file_bytes):
    model = build(tie_word_embeddings=tied, dtype=torch.bfloat16 if tied else torch.float32)
    plain = model
    if adapters:
        model = adapted(model.float())
        plain = copy.deepcopy(model).merge_and_unload()
    plain.save_pretrained(tmp_path / "theirs", max_shard_size=file_bytes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_model(model, tokenizer, tmp_path / "ours", file_bytes=file_bytes)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())

    names = {path.name for path in (tmp_path / "theirs").iterdir()}
    assert names <= {path.name for path in (tmp_path / "ours").iterdir()}
    assert ("model.safetensors" in names) == (file_bytes > SMALL)
    assert ("model.safetensors.index.json" in names) == (file_bytes == SMALL)
    for name in names:
        ours, theirs = tmp_path / "ours" / name, tmp_path / "theirs" / name
        if name.endswith(".json"):
            assert json.loads(ours.read_text()) == json.loads(theirs.read_text()), name
        else:
            found, expected = load_file(ours), load_file(theirs)
            assert found.keys() == expected.keys()
            assert all(torch.equal(found[n], t) and found[n].dtype == t.dtype for n, t in expected.items()), name
    assert ("lm_head.weight" in tensors(tmp_path / "ours")) == (not tied)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    assert torch.equal(logits(loaded), logits(plain))


@pytest.mark.parametrize("kind", ["experts", "split"])
def test_tensors_that_transformers_joins_or_splits_are_written_as_it_reads_them(tokenizer, tmp_path, kind):
    if kind == "experts":
        model = build(MixtralConfig, num_local_experts=3)
    else:
        from transformers.core_model_loading import Chunk, WeightConverter

        model = build(attention_bias=True)
        parts = [f"self_attn.{name}_proj.weight" for name in "kv"]
        model._weight_conversions = [WeightConverter("self_attn.kv.weight", parts, [Chunk(dim=0)])]
    model.save_pretrained(tmp_path / "theirs")
    save_model(model, tokenizer, tmp_path / "ours")
    found, expected = tensors(tmp_path / "ours"), tensors(tmp_path / "theirs")
    assert found.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())
    assert not found.keys() <= model.state_dict().keys()
    if kind == "experts":
        assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()), logits(model))


def test_an_output_layer_with_adapters_is_no_longer_tied(tokenizer, tmp_path):
    model = adapted(build(tie_word_embeddings=True), ["lm_head", "q_proj"])
    expected = logits(model)
    save_model(model, tokenizer, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(loaded), expected, atol=1e-5, rtol=1e-5)
    assert not loaded.config.tie_word_embeddings and model.config.tie_word_embeddings


def test_numbers_of_several_sizes_begin_where_readers_expect_them(tokenizer, tmp_path):
    model = build(dtype=torch.bfloat16, hidden_size=36, intermediate_size=45)
    model.model.norm.float()
    model.register_buffer("steps", torch.tensor([3], dtype=torch.int64))
    save_model(model, tokenizer, tmp_path)
    found = tensors(tmp_path)
    assert {name: found[name].dtype for name in ("steps", "model.norm.weight", "lm_head.weight")} == {
        "steps": torch.int64,
        "model.norm.weight": torch.float32,
        "lm_head.weight": torch.bfloat16,
    }
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in found.items())


def test_adapters_on_weights_without_values_are_refused(tokenizer, tmp_path):
    model = adapted(build())
    layer = model.get_base_model().model.layers[1].mlp.up_proj.base_layer
    layer.weight = torch.nn.Parameter(layer.weight.detach().to(torch.int8), requires_grad=False)
    with pytest.raises(UserError, match=r"model\.layers\.1\.mlp\.up_proj has adapters on .* with four_bits"):
        save_model(model, tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def saved_with(tokenizer, folder, dtype):
    """Bytes by which a process grows that saves a model of ``dtype``, of its largest tensor and of all weights."""
    # Tensors of real models are given back to the system when they are freed; here smaller ones are too.
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20)
    sizes = {"vocab_size": 2**16, "hidden_size": 128, "intermediate_size": 2**13, "num_hidden_layers": 12}
    config = LlamaConfig(**{**SIZES, **sizes}, tie_word_embeddings=False, dtype=dtype)
    model = adapted(LlamaForCausalLM(config).to(dtype), ["gate_proj", "up_proj", "down_proj"])
    weights = sum(tensor.nbytes for name, tensor in model.state_dict().items() if "lora" not in name)
    save_model(adapted(build()), tokenizer, folder / "first")  # what is loaded for it
    with watched() as grown:
        save_model(model, tokenizer, folder / "out")
        return grown(), model.get_base_model().lm_head.weight.nbytes, weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_memory_beside_the_model_is_less_than_two_of_its_largest_tensors(tokenizer, tmp_path, dtype):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:  # nothing else grows there
        grown, largest, weights = pool.submit(saved_with, tokenizer, tmp_path, dtype).result(timeout=120)
    assert weights > 4 * largest and 0 < grown < 2 * largest
    assert sum(path.stat().st_size for path in tmp_path.glob("out/*.safetensors")) > weights


DYING = """
import os, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from gaitway_files.writing import whole_folder
from gaitway_language import saving
from test_saving import adapted, build, build_tokenizer

written = 0
def content(tensor, write=saving.content):
    global written
    written += 1
    if written == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(tensor)

saving.content = content
with whole_folder(Path(sys.argv[1])) as partial:
    saving.save_model(adapted(build()), build_tokenizer(["one apple"]), partial)
"""


@pytest.mark.slow
def test_a_killed_export_leaves_nothing_that_looks_like_a_model(tokenizer, tmp_path):
    code = DYING.format(path=[os.path.dirname(__file__), *sys.path])
    process = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], timeout=300, check=False)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.") and not list(left.glob("**/config.json"))
    with whole_folder(tmp_path / "out") as partial:  # and the next one removes it
        save_model(build(), tokenizer, partial)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_leaves_nothing(tokenizer, tmp_path):
    model = build()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # the kernel's refusal, in the middle of the weights
    try:
        with pytest.raises(OSError), whole_folder(tmp_path / "out") as partial:
            save_model(model, tokenizer, partial)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
