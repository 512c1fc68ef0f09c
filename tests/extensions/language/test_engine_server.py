"""An engine in another process: the same answers over the wire, weights that arrive, and mistakes by their name."""

import errno
import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from gaitway_language.engines.make import make_engine
from gaitway_language.engines.serve import EngineServer
from gaitway_language.engines.stream import WeightStream, tensors_of
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.engines.vllm_server import VLLMServerEngine
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.sync import EngineLostError, EngineOutOfStepError, VerifiedEngine
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import Qwen2Config, Qwen2ForCausalLM
from tree import ROOT

PROMPTS = [[5, 9, 11], [7, 8], [5, 9, 11]]
SAMPLING = Sampling(max_tokens=12, stop_tokens=(2, 6), seed=3, top_k=20, temperature=0.8)


def make(seed=0, vocabulary=37):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return Qwen2ForCausalLM(config).eval()


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("GAITWAY_ENGINE_TOKEN", "a long secret word")


@pytest.fixture
def served():
    """A server in a thread, around a model with weights of its own, and its address."""
    engine = TransformersEngine(make(1))
    server = EngineServer(engine, ("127.0.0.1", 0), vocabulary=37, dtype=torch.float32)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", engine
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.parametrize("transport", ["http", "gloo"])
def test_answers_are_those_of_an_engine_in_this_process(served, transport):
    model = make()
    here, there = TransformersEngine(model), VLLMServerEngine(model, served[0], transport=transport)
    assert there.generate(PROMPTS, SAMPLING) == here.generate(PROMPTS, SAMPLING)
    assert there.score(PROMPTS) == here.score(PROMPTS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    for engine in (here, there):
        engine.update(model.state_dict().items())
    assert there.generate(PROMPTS, SAMPLING) == here.generate(PROMPTS, SAMPLING)
    there.close()


def adapted(dtype=torch.float32, **settings):
    model = get_peft_model(make().to(dtype), LoraConfig(r=4, lora_alpha=12, init_lora_weights=False, **settings))
    return model.eval()


def counting(monkeypatch):
    """Bytes of weights that each path was sent."""
    sent, ask = [], VLLMServerEngine._ask

    def counted(self, method, path, body=None, timeout=None):
        if isinstance(body, WeightStream):
            sent.append((path, len(body)))
        return ask(self, method, path, body, timeout)

    monkeypatch.setattr(VLLMServerEngine, "_ask", counted)
    return sent


@pytest.mark.parametrize("transport", ["http", "gloo"])
def test_of_adapters_only_their_factors_travel_and_answers_are_those_of_merged_weights(served, monkeypatch, transport):
    sent = counting(monkeypatch)
    model = adapted(target_modules=["q_proj", "down_proj"])
    live, there = TransformersEngine(model, copied=False), VLLMServerEngine(model, served[0], transport=transport)
    one = VerifiedEngine(there, live.score, PROMPTS)
    before = there.score(PROMPTS)
    for _ in range(2):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_" in name:
                    parameter.add_(0.1 * torch.randn_like(parameter))
        assert one.update(MergedWeights(model))["sync_gap"] < 1e-5
    assert there.score(PROMPTS) != before
    for ours, theirs in zip(
        there.generate(PROMPTS, SAMPLING), TransformersEngine(model).generate(PROMPTS, SAMPLING), strict=True
    ):
        assert ours.tokens == theirs.tokens
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
    assert [path for path, _ in sent] == ["/base", *["/adapters"] * 3]
    numbers = sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)
    assert 4 * numbers < sent[1][1] < 4 * numbers + 2000  # and a header


def test_adapters_of_another_kind_travel_merged(served, monkeypatch):
    sent = counting(monkeypatch)
    model = adapted(target_modules=["q_proj"], use_dora=True)
    VLLMServerEngine(model, served[0])
    assert not MergedWeights(model).factors()
    assert [path for path, _ in sent] == ["/update"]


def test_an_engine_that_does_not_follow_is_found_across_the_wire(served):
    address, engine = served
    options = LanguageOptions(model="tiny", tiny=TinyModel(), rollout="vllm-server", server=address, transport="gloo")
    model = make()
    one = make_engine(options, model, PROMPTS)
    assert one.update(model.state_dict().items())["sync_gap"] < 1e-5
    engine.update = lambda parameters: None
    with torch.no_grad():
        model.lm_head.weight.mul_(2.0)
    with pytest.raises(EngineOutOfStepError):
        one.update(model.state_dict().items())


def test_the_stream_is_a_safetensors_file(tmp_path):
    model = make()
    for dtype in (torch.float32, torch.bfloat16):
        stream = WeightStream(model.state_dict().items(), dtype)
        file = tmp_path / "weights.safetensors"
        file.write_bytes(b"".join(stream))
        assert file.stat().st_size == len(stream)
        loaded = load_file(file)
        assert set(loaded) == set(model.state_dict()) - {"lm_head.weight"}  # tied
        for name, tensor in loaded.items():
            assert tensor.dtype == dtype
            assert torch.equal(tensor, model.state_dict()[name].to(dtype))
        assert dict(tensors_of(file)).keys() == loaded.keys()


def test_mistakes_come_back_by_their_name(served):
    one = VLLMServerEngine(make(), served[0])
    with pytest.raises(ValueError, match="says: prompt 0 has a token outside the model's vocabulary of 37"):
        one.generate([[99]], SAMPLING)
    with pytest.raises(ValueError, match="says: new weights without"):
        one.update([("model.norm.weight", torch.ones(32))])
    with pytest.raises(ValueError, match="the one that learns has 41: start it with the same --model"):
        VLLMServerEngine(make(vocabulary=41), served[0])
    assert one.score([[5, 9]])  # and the server goes on


def test_weights_by_ways_that_are_not_there(served):
    with pytest.raises(ValueError, match="weights through 'pigeon': use 'nccl' or 'gloo'"):
        VLLMServerEngine(make(), served[0], transport="pigeon")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="there is no GPU here: use transport 'gloo' or 'http'"):
            VLLMServerEngine(make(), served[0], transport="nccl")
    with pytest.raises(ValueError, match="/join comes first"):
        VLLMServerEngine(make(), served[0])._ask("POST", "/receive", {"layout": []})


def test_weights_of_another_shape_are_refused_by_either_way(served):
    one = VLLMServerEngine(make(), served[0], transport="gloo")
    with pytest.raises(ValueError, match="says: new weights without"):
        one.update([("model.norm.weight", torch.ones(32))])
    assert one.score([[5, 9]])


def test_a_server_that_fails_says_so(served):
    address, engine = served
    one = VLLMServerEngine(make(), address)

    def fail(*_):
        raise MemoryError("no memory left")

    engine.score = fail
    with pytest.raises(RuntimeError, match="says: MemoryError: no memory left"):
        one.score([[5, 9]])
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/nothing", timeout=10)
    with pytest.raises(RuntimeError, match="says: TypeError"):
        one._ask("POST", "/generate", {"prompts": [[5]], "sampling": {"stop_tokens": [], "heat": 1}})


def test_no_server():
    with pytest.raises(UserError, match=r"start it with python -m gaitway_language.engines.serve"):
        VLLMServerEngine(make(), "http://127.0.0.1:9")


def test_a_machine_without_power_is_lost_and_a_slow_answer_is_not(served, monkeypatch):
    """The first is what the system says of a machine that does not answer it (a minute after a cable was cut)."""
    one, asked = VLLMServerEngine(make(), served[0]), []

    def silent(connection):
        asked.append(connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        raise errors.pop()

    errors = [TimeoutError("timed out"), TimeoutError(errno.ETIMEDOUT, "Connection timed out")]
    monkeypatch.setattr(HTTPConnection, "getresponse", silent)
    with pytest.raises(EngineLostError, match="Connection timed out"):
        one.score([[5, 9]])
    with pytest.raises(UserError, match="timed out") as said:
        one.score([[5, 9]])
    assert not isinstance(said.value, EngineLostError) and all(asked) and len(asked) == 2


def test_what_answers_is_no_engine_server(served, tmp_path):
    command = [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONUNBUFFERED": "1"}) as process:
        try:
            port = process.stdout.readline().split("port ")[1].split()[0]
            with pytest.raises(UserError, match="does not answer"):
                VLLMServerEngine(make(), f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_command_serves_a_folder(tmp_path):
    model = make()
    model.save_pretrained(tmp_path)
    command = [sys.executable, "-m", "gaitway_language.engines.serve", "--model", str(tmp_path), "--port", "0"]
    path = ":".join(str(ROOT / folder) for folder in ("extensions", "tasks"))
    environment = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PATH": ""}
    command += ["--engine", "transformers", "--dtype", "float32"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            address = process.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{address}/about", timeout=30) as answer:
                about = json.load(answer)
                assert about.pop("life")
                assert about == {"engine": "TransformersEngine", "vocabulary": 37, "dtype": "float32"}
            one = VLLMServerEngine(model, address)
            assert one.generate(PROMPTS, SAMPLING) == TransformersEngine(model).generate(PROMPTS, SAMPLING)
        finally:
            process.terminate()


def _ask(address, path, body, **headers):
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname, url.port, timeout=20)
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


@pytest.mark.hostile("untrusted files")
def test_pages_of_a_browser_are_refused(served):
    address, engine = served
    before = engine.score(PROMPTS)
    weights = b"".join(bytes(part) for part in WeightStream(make(2).state_dict().items(), torch.float32))
    status, said = _ask(address, "/update", weights, Origin="http://evil.example")
    assert status == 403 and said["error"] == "a page of http://evil.example asks, and only programs may"
    body = json.dumps({"sequences": [[1, 2, 3]]})
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        status, said = _ask(address, "/score", body, **{"Content-Type": kind})
        assert status == 400 and "application/json is needed" in said["error"]
    assert engine.score(PROMPTS) == before


@pytest.mark.hostile("untrusted files")
def test_only_who_knows_the_secret_is_answered(secret, served, monkeypatch):
    address, engine = served
    assert len(VLLMServerEngine(make(1), address).score(PROMPTS)) == len(PROMPTS)
    before = engine.score(PROMPTS)
    for word in ("", "another word", "a long secret"):
        monkeypatch.setenv("GAITWAY_ENGINE_TOKEN", word)
        with pytest.raises(RuntimeError, match="GAITWAY_ENGINE_TOKEN must hold the secret that the server was started"):
            VLLMServerEngine(make(2), address)
    weights = b"".join(bytes(part) for part in WeightStream(make(2).state_dict().items(), torch.float32))
    assert _ask(address, "/update", weights, Authorization="Bearer")[0] == 401
    assert engine.score(PROMPTS) == before


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "trainer.example"])
def test_no_server_for_others_without_a_secret(host, monkeypatch):
    monkeypatch.delenv("GAITWAY_ENGINE_TOKEN", raising=False)
    with pytest.raises(ValueError, match="set GAITWAY_ENGINE_TOKEN to the same secret here and where you train"):
        EngineServer(TransformersEngine(make()), (host, 0), vocabulary=37, dtype=torch.float32)


@pytest.mark.hostile("untrusted files")
def test_silent_connections_hold_nobody_up(served):
    """Ten that say nothing, and one that stops in the middle of its request."""
    address, _ = served
    url = urlsplit(address)
    quiet = [socket.create_connection((url.hostname, url.port)) for _ in range(11)]
    quiet[0].sendall(b"POST /score HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    try:
        there = VLLMServerEngine(make(), address)
        assert len(there.score(PROMPTS)) == len(PROMPTS)
    finally:
        for connection in quiet:
            connection.close()
