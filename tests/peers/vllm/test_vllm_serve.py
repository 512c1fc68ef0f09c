"""vLLM's own server as the engine of a training: its answers, its weight transfer, and its end in the middle."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.engines.make import make_engine
from gaitway_language.engines.stream import WeightStream
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.engines.vllm import _buckets
from gaitway_language.engines.vllm_serve import VLLMServeEngine, _Source
from gaitway_language.options import LanguageOptions
from gaitway_language.sync import EngineOutOfStepError, EngineWarning, VerifiedEngine
from gaitway_language.tokenizer import build_tokenizer
from peft import LoraConfig, get_peft_model
from test_vllm_learning import SIZES, TASK, make_model, train
from tiny import learn, prompts
from transformers import Qwen2Config, Qwen2ForCausalLM
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerWeightTransferEngine

PROMPTS = [row for row in [*prompts(6, 24), *prompts(2, 5)] for _ in range(4)]
SAMPLING = Sampling(max_tokens=16, stop_tokens=(2, 6, 9), seed=3)
START = 300.0
"""Longest time that a server may take to start [s]."""
OPTIONS = (
    "--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--weight-transfer-config", '{"backend": "gaitway"}',
    "--no-enable-chunked-prefill", "--dtype", "float32", "--enforce-eager", "--skip-tokenizer-init",
    "--max-num-seqs", "64", "--data-parallel-size",
)  # fmt: skip


class Server:
    """Copies of a model behind one address. They find the backend as if Gaitway was installed beside them."""

    def __init__(self, folder):
        self.folder = folder
        plugin = folder / "gaitway-0.dist-info"
        plugin.mkdir()
        plugin.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: gaitway\nVersion: 0\n")
        plugin.joinpath("entry_points.txt").write_text(
            "[vllm.general_plugins]\ngaitway = gaitway_language.engines.vllm_plugin:register\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self, copies):
        settings = {
            "PYTHONPATH": os.pathsep.join([str(self.folder), *sys.path]),
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": "1",
        }
        # "vllm serve" itself looks for a package with another name than the CPU build's.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.folder)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, *OPTIONS, str(copies), "--host", "127.0.0.1", "--port", str(self.port)],
                stdout=log, stderr=log, env={**os.environ, **settings}, start_new_session=True,
            )  # fmt: skip

    def wait(self):
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=10.0):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise AssertionError((self.folder / "log").read_text()[-3000:])

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(TASK.source.vocabulary())


@pytest.fixture(scope="module")
def server(tokenizer, tmp_path_factory):
    one = Server(tmp_path_factory.mktemp("served"))
    model = make_model(tokenizer)
    learn(model)  # other weights than the trainer's: the server has to get those first
    model.save_pretrained(one.folder)
    one.start(copies=2)
    one.wait()
    yield one
    one.kill()


@pytest.fixture
def pair(server, tokenizer):
    """A model, and the server with its weights."""
    model = make_model(tokenizer).eval()
    for _ in range(3):
        learn(model)
    return model, TransformersEngine(model, copied=False), VLLMServeEngine(model, server.address)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_are_those_of_the_model(pair, temperature):
    model, _, engine = pair
    answers = engine.generate(PROMPTS, replace(SAMPLING, temperature=temperature))
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        with torch.no_grad():
            said = (model(torch.tensor([prompt + answer.tokens])).logits[0, :-1] / temperature).log_softmax(-1)
        expected = said[len(prompt) - 1 :].gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(answer.log_probs), expected, atol=1e-4, rtol=0)
        assert answer.finished == (answer.tokens[-1] in (2, 6, 9)) and not {2, 6, 9} & set(answer.tokens[:-1])
        assert answer.finished or len(answer.tokens) == 16


def test_score_and_greedy_are_those_of_transformers(pair):
    _, live, engine = pair
    greedy = replace(SAMPLING, temperature=0.0, limits=tuple(1 + i % 16 for i in range(len(PROMPTS))))
    for ours, theirs in zip(engine.generate(PROMPTS, greedy), live.generate(PROMPTS, greedy), strict=True):
        assert (ours.tokens, ours.finished) == (theirs.tokens, theirs.finished)
    for mine, its in zip(engine.score(PROMPTS), live.score(PROMPTS), strict=True):
        torch.testing.assert_close(torch.tensor(mine), torch.tensor(its), atol=1e-4, rtol=0)
    assert engine.generate([], SAMPLING) == []


def test_equal_calls_draw_equal_tokens(pair):
    engine = pair[2]

    def drawn(seed):
        return [tuple(answer.tokens) for answer in engine.generate(PROMPTS, replace(SAMPLING, seed=seed))]

    first = drawn(3)
    engine.generate(PROMPTS[:5], SAMPLING)
    assert drawn(3) == first != drawn(4)
    assert len(set(first)) > len(PROMPTS) * 0.8


def test_it_follows_every_update_and_a_wrong_one_is_found(pair):
    model, live, engine = pair
    one = VerifiedEngine(engine, live.score, PROMPTS[::4])
    for _ in range(2):
        learn(model)
        with pytest.raises(EngineOutOfStepError):
            one.verify()
        assert one.update(model.state_dict().items())["sync_gap"] < 1e-4
    wrong = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wrong["model.layers.1.mlp.down_proj.weight"].mul_(3.0)
    with pytest.raises(EngineOutOfStepError, match="VLLMServeEngine does not answer with the model's weights"):
        one.update(wrong.items())


def test_an_update_that_a_training_was_killed_in_is_ended_by_the_next(pair, server):
    model, live, engine = pair
    engine._ask("POST", "/pause?mode=wait")
    engine._ask("POST", "/start_weight_update")
    another = VLLMServeEngine(model, server.address)
    assert VerifiedEngine(another, live.score, PROMPTS[::4]).verify() < 1e-4


def test_adapters_are_merged(server, tokenizer):
    settings = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    model = get_peft_model(make_model(tokenizer), settings)
    engine = VLLMServeEngine(model, server.address)
    assert VerifiedEngine(engine, TransformersEngine(model, copied=False).score, PROMPTS[::4]).verify() < 1e-4


def test_weights_go_in_parts_and_as_vllm_wants_them_for_nccl(pair, monkeypatch):
    model, live, engine = pair
    monkeypatch.setattr("gaitway_language.engines.vllm.BUCKET", 2**14)
    assert len(list(_buckets(model.state_dict().items(), torch.float32))) > 3
    learn(model)
    engine.update(model.state_dict().items())
    assert VerifiedEngine(engine, live.score, PROMPTS[::4]).verify() < 1e-4
    source = _Source(WeightStream(model.state_dict().items(), torch.bfloat16))
    sent = dict(NCCLTrainerWeightTransferEngine._checked_iter(source, source.metadata()))
    assert {name: tensor.shape for name, tensor in sent.items()} == {
        name: parameter.shape for name, parameter in model.named_parameters()
    }
    with pytest.raises(ValueError, match=r"there is no GPU here: use language.transport=http"):
        VLLMServeEngine(model, "http://127.0.0.1:1", transport="nccl")


def test_grpo(server, tokenizer):
    options = LanguageOptions(model="tiny", tiny=SIZES, rollout="vllm-serve", server=server.address)
    found = train(options, tokenizer, 12)
    assert all(metrics["learn/sync_gap"] < 1e-3 for metrics in found)
    # On-policy: what vLLM said of its tokens is what the trainer says of them before its update.
    assert all(abs(metrics["learn/kl"]) < 1e-3 for metrics in found)
    assert found[-1]["rollout/reward"] > found[0]["rollout/reward"] + 0.1


def test_a_server_that_was_killed_gets_the_weights_and_answers_again(pair, server):
    """Last of the tests that share the server; then a model of another size, at which an update cannot be mended."""
    model, _, _ = pair
    options = LanguageOptions(model="tiny", tiny=SIZES, rollout="vllm-serve", server=server.address)
    one = make_engine(options, model, PROMPTS[::4])
    expected = [answer.tokens for answer in one.generate(PROMPTS, SAMPLING)]
    one.engine._ask("POST", "/update_weight_version", {"new_version": "another's"})
    with pytest.warns(EngineWarning, match="started anew, or another training uses it"):
        assert [answer.tokens for answer in one.generate(PROMPTS, SAMPLING)] == expected
    server.kill()
    server.start(copies=1)
    with pytest.warns(EngineWarning, match="does not answer"):
        assert [answer.tokens for answer in one.generate(PROMPTS, SAMPLING)] == expected
    assert one.verify() < 1e-4

    config = Qwen2Config(**{**model.config.to_dict(), "vocab_size": 50})
    with pytest.raises(ValueError, match=r"with a vocabulary of 50: .* Start it anew with that MODEL"):
        VLLMServeEngine(Qwen2ForCausalLM(config), server.address)
