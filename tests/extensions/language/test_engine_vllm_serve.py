"""A server of vLLM's that cannot be the engine of a training is refused, with the command that starts it rightly.

The answers here are shortened ones of vLLM 0.32; tests/peers/vllm has the server itself.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_language.engines.make import make_engine
from gaitway_language.engines.vllm_serve import _seed
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.sync import EngineLostError
from transformers import LlamaConfig, LlamaForCausalLM

RIGHT = {
    "model_config": {"dtype": "torch.float32", "logprobs_mode": "processed_logprobs", "max_model_len": 64},
    "weight_transfer_config": {"backend": "gaitway"},
    "device_config": {"device": "cuda"},
    "scheduler_config": {"enable_chunked_prefill": True},
}
INFO = "/server_info?config_format=json"
ABORT = "/inference/v1/abort_requests"
DISABLED = (403, {"error": {"message": "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out"}})


def told(**changed):
    """The answers of a server that was started rightly but for ``changed``."""
    return {
        "/version": (200, {"version": "0.32.0"}),
        INFO: (200, {"vllm_config": {**RIGHT, **changed}}),
    }


@pytest.fixture
def served():
    """A server that says what it is told, and its address."""
    answers = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, found = answers.get(self.path, (200, {}))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(found if isinstance(found, bytes) else json.dumps(found).encode())

        do_POST = do_GET

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield answers, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


def ask(address, longest=None, **settings):
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=37, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2)
    )
    options = LanguageOptions(model="tiny", tiny=TinyModel(), rollout="vllm-serve", server=address, **settings)
    return make_engine(options, model, [[5, 9, 11]], longest=longest)


@pytest.mark.parametrize(
    ("answers", "messages"),
    [
        ({"/version": (200, b"<html>")}, ["no vLLM", "language.server"]),
        ({"/version": (200, {"version": "0.31.2"})}, ["vLLM 0.31.2", "vllm>=0.32"]),
        (
            {**told(), INFO: (404, {})},
            ["/server_info", "VLLM_SERVER_DEV_MODE=1 vllm serve"],
        ),
        (
            told(weight_transfer_config=None),
            ["None", "'gaitway'", '--weight-transfer-config \'{"backend": "gaitway"}\''],
        ),
        (told(weight_transfer_config={"backend": "nccl"}), ["'nccl'", "language.transport=nccl"]),
        (
            told(model_config={**RIGHT["model_config"], "logprobs_mode": "raw_logprobs"}),
            ["raw_logprobs", "--logprobs-mode processed_logprobs"],
        ),
        (told(model_config={**RIGHT["model_config"], "max_model_len": 32}), ["32 tokens", "--max-model-len 41"]),
        (told(device_config={"device": "cpu"}), ["--no-enable-chunked-prefill"]),
        ({**told(), ABORT: DISABLED}, ["Scale-out endpoints are disabled", "--enable-scale-out --logprobs-mode"]),
        ({**told(), ABORT: (401, {"error": "Unauthorized"})}, ["--api-key", "VLLM_API_KEY"]),
        (
            {**told(), "/update_weights": (500, {"error": {"message": "no parameter named 'x'"}})},
            ["vocabulary of 37", "no parameter named 'x'"],
        ),
    ],
)
def test_a_server_that_was_started_otherwise_is_refused_with_what_to_do(served, answers, messages):
    served[0].update(answers)
    with pytest.raises(UserError) as said:
        ask(served[1], longest=40)
    assert not isinstance(said.value, EngineLostError)
    assert all(message in str(said.value) for message in [served[1], *messages]), said.value


def test_the_engine_that_has_ended_behind_its_server_is_lost(served):
    dead = (500, {"error": {"message": "EngineCore encountered an issue"}})
    served[0].update({**told(), "/start_weight_update": dead, "/health": (503, b"")})
    with pytest.raises(EngineLostError, match="has ended"):
        ask(served[1])


def test_a_server_that_is_not_there_is_named_with_its_command():
    with pytest.raises(EngineLostError, match=r"127.0.0.1:1 does not answer .* start it with .*vllm serve MODEL"):
        ask("http://127.0.0.1:1")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_nccl_without_a_gpu_is_refused():
    with pytest.raises(ValueError, match=r"no GPU here: use language.transport=http"):
        ask("http://127.0.0.1:1", transport="nccl")


def test_seeds_are_of_the_question_and_leave_room_for_its_answers():
    seeds = [_seed(*each) for each in ((3, (5, 9), 8), (4, (5, 9), 8), (3, (5, 8), 8), (3, (5, 9), 7))]
    assert seeds[0] == _seed(3, (5, 9), 8) and all(0 <= seed < 2**63 - 2**20 for seed in seeds)
    assert min(abs(a - b) for i, a in enumerate(seeds) for b in seeds[:i]) > 2**20
