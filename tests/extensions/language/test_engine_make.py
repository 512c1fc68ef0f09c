"""The engine that the options ask for."""

import sys
from types import SimpleNamespace

import pytest
import torch
from gaitway_language.engines.llama import LlamaDecoder
from gaitway_language.engines.make import make_engine
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.sync import VerifiedEngine
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

PROMPTS = [[5, 9, 11], [7, 8]]


def make():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=37, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2)
    )


def options(**settings):
    return LanguageOptions(model="tiny", tiny=TinyModel(), **settings)


def test_transformers_with_the_dtype_and_the_batch_of_the_options():
    one = make_engine(options(dtype="bfloat16", batch_size=3), make(), PROMPTS)
    assert isinstance(one, VerifiedEngine) and isinstance(one.engine.decoder, LlamaDecoder)
    assert one.engine.decoder.dtype == torch.bfloat16
    assert one.engine.batch_size == 3


def test_where_nobody_learns_the_model_follows_the_weights():
    learner, model = make(), make()
    one = make_engine(options(), model, PROMPTS, learning=False)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.mul_(1.3)
    assert one.update(learner.state_dict().items())["sync_gap"] < 1e-5
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), learner.parameters(), strict=True))
    with pytest.raises(ValueError, match="give the model without adapters"):
        adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"]))
        make_engine(options(), adapted, PROMPTS, learning=False)


class Asked(Exception):
    pass


def ask(**settings):
    raise Asked(settings)


@pytest.mark.parametrize(("longest", "room"), [(None, 2048), (40, 41), (5, 3 + 16 + 1), (9000, 2048)])
def test_vllm_gets_room_for_what_the_run_needs_and_not_for_what_the_model_can(monkeypatch, longest, room):
    platform = SimpleNamespace(current_platform=SimpleNamespace(is_cpu=lambda: False))
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=ask, SamplingParams=dict))
    monkeypatch.setitem(sys.modules, "vllm.platforms", platform)
    with pytest.raises(Asked) as said:
        make_engine(options(rollout="vllm", dtype="bfloat16", tensor_parallel=2), make(), PROMPTS, longest=longest)
    asked = said.value.args[0]
    assert (asked["max_model_len"], asked["tensor_parallel_size"], asked["dtype"]) == (room, 2, "bfloat16")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tensor_parallel": 2}, "tensor_parallel 2 with rollout 'transformers'"),
        ({"rollout": "vllm", "tensor_parallel": 0}, "tensor_parallel 0"),
        ({"asynchronous": True, "rollout": "vllm-server", "server": "http://there:8000"}, "asynchronous with rollout"),
        ({"transport": "pigeon"}, "transport 'pigeon': use one of 'http', 'nccl', 'gloo'"),
        ({"transport": "nccl"}, "only a server has one"),
        ({"rollout": "vllm-serve"}, "'vllm-serve' or 'vllm-server' needs an address"),
        (
            {"rollout": "vllm-serve", "server": "http://there:8000", "transport": "gloo"},
            "vLLM's server takes 'nccl' or 'http'",
        ),
        ({"asynchronous": True, "rollout": "vllm-serve", "server": "http://there:8000"}, "asynchronous with rollout"),
        ({"rollout": "vllm-server", "server": "own"}, "'vllm-server' needs an address, others none, 'own'"),
        ({"server": "http://there:8000"}, "'vllm-server' needs an address, others none, 'own' or 'ray:HOST:PORT'"),
        ({"rollout": "vllm", "server": "own", "sleep": True}, "only 'vllm' in this process can sleep"),
        ({"server": "own", "asynchronous": True}, "use rollout transformers or vllm without a server"),
    ],
)
def test_options_that_their_engine_has_not(wrong, message):
    with pytest.raises(ValueError, match=message):
        options(**wrong)


def deep(layers, scale):
    torch.manual_seed(0)
    sizes = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=layers))
    with torch.no_grad():
        model.lm_head.weight.mul_(scale)
    return model


@pytest.mark.parametrize(("layers", "scale"), [(2, 1.0), (2, 60.0), (16, 60.0)])
def test_the_limit_follows_what_rounding_makes(layers, scale):
    model, prompts = deep(layers, scale), [[i, i + 7, i + 30] for i in range(8)]
    exact = make_engine(options(), model, prompts)
    rounded = make_engine(options(dtype="bfloat16"), model, prompts)
    assert exact.limit == 0.05 and exact.verify() < 1e-4
    assert rounded.limit >= 0.05 and rounded.verify() < rounded.limit
    assert (rounded.limit > 0.05) == (scale > 1.0)
    assert rounded.limit < 10.0 * rounded.verify() or rounded.limit == 0.05
    both = make_engine(options(dtype="bfloat16"), model, prompts, precision="bfloat16")
    assert both.verify() < both.limit


def test_vllm_that_is_not_there_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(ImportError, match=r"pip install 'gaitway\[vllm\]'"):
        make_engine(options(rollout="vllm"), make(), PROMPTS)
