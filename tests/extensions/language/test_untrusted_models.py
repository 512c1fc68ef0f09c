"""A model's folder from a stranger is numbers and text: code in it is not run, not even after a question."""

import json
import os
import pickle

import pytest
import torch
from gaitway_language.engines import serve
from gaitway_language.memory import _outline
from gaitway_language.model import ModelError, build_model, load_model, load_reward_model
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.saving import save_model
from gaitway_language.tokenizer import TokenizerError, build_tokenizer, load_tokenizer

pytestmark = pytest.mark.hostile("untrusted files")
SIZES = TinyModel(hidden_size=16, layers=1, heads=2, intermediate_size=16, max_positions=32)
CODE = """
open({mark!r}, "w")
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
class Evil(LlamaForCausalLM): pass
class EvilConfig(LlamaConfig): model_type = "evil"
class EvilTokenizer(PreTrainedTokenizerFast): pass
"""


@pytest.fixture
def tokenizer():
    return build_tokenizer(["one apple and two pears"])


@pytest.fixture
def folder(tokenizer, tmp_path, monkeypatch):
    """A model whose folder brings code of its own, and a user who says yes to everything."""
    path = tmp_path / "model"
    save_model(build_model(SIZES, tokenizer, 0), tokenizer, path)
    (path / "evil.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    maps = dict.fromkeys(("AutoModelForCausalLM", "AutoModelForSequenceClassification"), "evil.Evil")
    maps |= {"AutoConfig": "evil.EvilConfig", "AutoTokenizer": [None, "evil.EvilTokenizer"]}
    for name, more in {
        "config.json": {"model_type": "evil", "architectures": ["Evil"]},
        "tokenizer_config.json": {"tokenizer_class": "EvilTokenizer"},
    }.items():
        facts = json.loads((path / name).read_text())
        (path / name).write_text(json.dumps(facts | more | {"auto_map": maps}))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    return path


LOADS = {
    "model": lambda folder, tokenizer: load_model(LanguageOptions(model=str(folder)), tokenizer),
    "reward model": lambda folder, tokenizer: load_reward_model(LanguageOptions(model=str(folder)), tokenizer),
    "size": lambda folder, tokenizer: _outline(LanguageOptions(model=str(folder))),
    "tokeniser": lambda folder, tokenizer: load_tokenizer(str(folder)),
    "server": lambda folder, tokenizer: serve.main(["--model", str(folder), "--engine", "transformers", "--port", "0"]),
}


@pytest.mark.parametrize("load", LOADS)
def test_code_in_a_models_folder_is_not_run(folder, tokenizer, tmp_path, load):
    with pytest.raises((ModelError, TokenizerError, ValueError)):
        LOADS[load](folder, tokenizer)
    assert not (tmp_path / "mark").exists()


def test_weights_that_are_pickled_are_not_read(tokenizer, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "mark"),)

    model = build_model(SIZES, tokenizer, 0)
    save_model(model, tokenizer, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    for content in (model.state_dict(), Evil()):
        torch.save(content, tmp_path / "model" / "pytorch_model.bin", pickle_module=pickle)
        with pytest.raises(ModelError, match="safetensors"):
            load_model(LanguageOptions(model=str(tmp_path / "model")), tokenizer)
    assert not (tmp_path / "mark").exists()


def test_a_chat_template_cannot_reach_python(tokenizer):
    tokenizer.chat_template = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(Exception, match="unsafe"):
        tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
