"""Engines whose process ends while they are asked: another one gives the answers that were lost."""

import sys
import threading
import warnings

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_files.adapters import MergedWeights
from gaitway_language.engines import own_server, vllm_server
from gaitway_language.engines.make import make_engine
from gaitway_language.engines.serve import EngineServer
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.options import LanguageOptions, LoraOptions, TinyModel
from gaitway_language.sync import STARTS, EngineLostError, EngineOutOfStepError, EngineWarning
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
from tree import ROOT

PROMPTS = [[5, 9, 11], [7, 8], [5, 9, 11]]
MANY = [[5 + i, 9, 11] for i in range(8)]
SAMPLING = Sampling(max_tokens=24, stop_tokens=(2, 6), seed=3, temperature=0.8)


def make(seed=0):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=37,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config).eval()


def adapted():
    torch.manual_seed(1)
    return get_peft_model(make(), LoraConfig(r=4, init_lora_weights=False, target_modules=["q_proj"])).eval()


def change(model):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)


def options(**settings):
    return LanguageOptions(model="tiny", tiny=TinyModel(), **settings)


class Server:
    """One in a thread, which ends without an answer when ``deadly`` says so; ``after`` is then called."""

    def __init__(self, deadly=lambda method: False, port=0, after=lambda: None):
        self.deadly, self.after, self.engine = deadly, after, TransformersEngine(make(9))
        self.server = EngineServer(self.engine, ("127.0.0.1", port), vocabulary=37, dtype=torch.float32)
        for name in ("generate", "update"):
            setattr(self.engine, name, self.mortal(getattr(self.engine, name)))
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def mortal(self, method):
        def answered(*arguments):
            if self.deadly(method.__name__):
                self.end()
                self.after()
                raise SystemExit  # the connection is closed, as by the end of a process
            return method(*arguments)

        return answered

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("build", [make, adapted], ids=["whole", "adapters"])
@pytest.mark.parametrize("transport", ["http", "gloo"])
def test_a_server_that_is_started_anew_gets_the_weights_and_answers_what_was_lost(build, transport):
    answered, lost, servers = [], [], []

    def deadly(method):
        answered.append(method)
        return bool(lost) and lost[-1] == len(answered)

    def start(port=0):
        servers.append(Server(deadly, port, lambda: start(servers[-1].server.server_port)))

    start()
    model = build()
    one = make_engine(options(rollout="vllm-server", server=servers[0].address, transport=transport), model, PROMPTS)
    here = make_engine(options(), model, PROMPTS)
    for engine in (one, here):
        assert engine.generate(MANY, SAMPLING) == here.generate(MANY, SAMPLING)
    change(model)
    for method in ("update", "generate"):  # in the middle of an update, then of a rollout
        lost.append(len(answered) + 1)
        with pytest.warns(EngineWarning, match=f"Attempt 1 of {STARTS} to replace it follows"):
            if method == "update":
                assert one.update(MergedWeights(model))["sync_gap"] < 1e-5
                here.update(MergedWeights(model))
            else:
                there = one.generate(MANY, SAMPLING)
        assert answered[lost[-1] - 1] == method
    assert len(servers) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens = [answer.tokens for answer in here.generate(MANY, SAMPLING)]
        assert [answer.tokens for answer in there] == tokens
        assert [answer.tokens for answer in one.generate(MANY, SAMPLING)] == tokens
    servers[-1].end()


def test_a_server_with_other_weights_than_ours_is_noticed_before_it_answers():
    """Started anew between two requests, it would answer with the weights of its folder."""
    first = Server()
    model = make()
    one = make_engine(options(rollout="vllm-server", server=first.address), model, PROMPTS)
    expected = TransformersEngine(model).generate(MANY, SAMPLING)
    assert one.generate(MANY, SAMPLING) == expected
    first.end()
    second = Server(port=first.server.server_port)
    with pytest.warns(EngineWarning, match="started anew, without the weights that it had"):
        assert one.generate(MANY, SAMPLING) == expected
    second.end()


def test_an_engine_that_is_lost_again_and_again_ends_the_training(monkeypatch):
    monkeypatch.setattr(vllm_server, "WAIT", 0.0)
    server = Server()
    one = make_engine(options(rollout="vllm-server", server=server.address), make(), PROMPTS)
    server.end()
    with pytest.warns(EngineWarning) as said, pytest.raises(EngineLostError, match=r"start it with python -m"):
        one.generate(MANY, SAMPLING)
    assert len(said) == STARTS


def test_one_that_came_back_with_wrong_weights_is_found():
    first = Server()
    one = make_engine(options(rollout="vllm-server", server=first.address), make(), PROMPTS)
    first.end()
    second = Server(port=first.server.server_port)
    second.engine.update = lambda parameters: None
    with pytest.warns(EngineWarning), pytest.raises(EngineOutOfStepError):
        one.generate(MANY, SAMPLING)
    second.end()


@pytest.mark.slow
@pytest.mark.parametrize("build", [make, adapted], ids=["whole", "adapters"])
def test_a_process_that_is_killed_in_the_middle_of_answers_is_started_again(build, tmp_path, monkeypatch):
    deaths = tmp_path / "deaths"
    deaths.write_text("2 5\n1 3")  # the second process dies too, when it is asked again
    monkeypatch.setattr(
        own_server, "SERVER", (sys.executable, str(ROOT / "tests/helpers/dying_server.py"), str(deaths))
    )
    model = build()
    lora = LoraOptions() if build is adapted else None
    one = make_engine(options(server="own", lora=lora), model, PROMPTS)
    here = make_engine(options(), model, PROMPTS)
    first = one.generate(MANY, SAMPLING)
    assert [answer.tokens for answer in first] == [answer.tokens for answer in here.generate(MANY, SAMPLING)]
    change(model)
    for engine in (one, here):
        engine.update(MergedWeights(model))
    with pytest.warns(EngineWarning, match="ended with exit code -9") as said:
        second = one.generate(MANY, SAMPLING)
    assert len([each for each in said if each.category is EngineWarning]) == 2
    assert [answer.tokens for answer in second] == [answer.tokens for answer in here.generate(MANY, SAMPLING)]
    asked = [line.split() for line in (tmp_path / "deaths.asked").read_text().splitlines()]
    assert len({pid for pid, *_ in asked}) == 3 and len(asked) == 4
    process = one.engine.place.process
    one.close()
    assert process.poll() is not None
