"""The engine that the options ask for."""

from types import SimpleNamespace

import pytest
import torch
from gaitway_language.engines.llama import LlamaDecoder
from gaitway_language.engines.make import make_engine
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.sync import VerifiedEngine
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

TOKENIZER = SimpleNamespace(pad_token_id=0)
PROMPTS = [[5, 9, 11], [7, 8]]


def make():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=37, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2)
    )


def options(**settings):
    return LanguageOptions(model="tiny", tiny=TinyModel(), **settings)


def test_transformers_with_the_dtype_and_the_batch_of_the_options():
    one = make_engine(options(dtype="bfloat16", batch_size=3), make(), TOKENIZER, PROMPTS)
    assert isinstance(one, VerifiedEngine) and isinstance(one.engine.decoder, LlamaDecoder)
    assert one.engine.decoder.dtype == torch.bfloat16
    assert one.engine.batch_size == 3


def test_where_nobody_learns_the_model_follows_the_weights():
    learner, model = make(), make()
    one = make_engine(options(), model, TOKENIZER, PROMPTS, learning=False)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.mul_(1.3)
    assert one.update(learner.state_dict().items())["sync_gap"] < 1e-5
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), learner.parameters(), strict=True))
    with pytest.raises(ValueError, match="give the model without adapters"):
        adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"]))
        make_engine(options(), adapted, TOKENIZER, PROMPTS, learning=False)


def test_vllm_that_is_not_there_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(ImportError, match=r"pip install 'gaitway\[vllm\]'"):
        make_engine(options(rollout="vllm"), make(), TOKENIZER, PROMPTS)


def test_only_a_server_has_a_transport():
    with pytest.raises(ValueError, match="transport 'pigeon': use 'http', 'nccl' or 'gloo'"):
        options(transport="pigeon")
    with pytest.raises(ValueError, match="only a 'vllm-server' has one"):
        options(transport="nccl")
