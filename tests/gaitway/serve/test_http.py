"""The server over HTTP without Tinker's package: order, retries, mistakes by their name, limits, and who may ask."""

import http.client
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest
from gaitway_files.errors import UserError
from served_model import NAME, Wire, outputs_of, samples_of, serving, training_message

from gaitway.serve import http as server
from gaitway.serve import work

TOKENS = [9, 12, 15, 11, 20, 14]
DATUM = (TOKENS[:-1], {"target_tokens": TOKENS[1:], "weights": np.ones(5)})
ADAM = {"learning_rate": 1e-2}
PROTOBUF = "application/x-protobuf"


def prompt(tokens=TOKENS):
    return {"chunks": [{"type": "encoded_text", "tokens": list(tokens)}]}


def sampling(wire, session, path=None, number=0):
    where = {"base_model": NAME} if path is None else {"model_path": path}
    body = {"session_id": session, "sampling_session_seq_id": number} | where
    return wire.ask("create_sampling_session", body)


def test_a_model_is_made_trained_and_sampled_from(wire):
    session = wire.session()
    model = wire.model(session)
    assert model == f"{session}:train:0"
    info = wire.ask("get_info", {"model_id": model})[1]
    assert (info["is_lora"], info["lora_rank"], info["model_data"]["model_name"]) == (True, 4, NAME)
    sums = []
    for step in range(4):
        sums.append(outputs_of(wire.losses(model, 2 * step + 1, [DATUM]))[1]["loss:sum"])
        wire.wait("optim_step", {"model_id": model, "seq_id": 2 * step + 2, "adam_params": ADAM})
    assert sums[-1] < sums[0]
    saved = wire.wait("save_weights_for_sampler", {"model_id": model, "seq_id": 9, "sampling_session_seq_id": 0})
    found, said = samples_of(
        wire.wait(
            "asample",
            {
                "sampling_session_id": saved["sampling_session_id"],
                "seq_id": 0,
                "num_samples": 3,
                "prompt": prompt(),
                "prompt_logprobs": True,
                "topk_sample_logprobs": 5,
                "sampling_params": {"max_tokens": 4, "stop": []},
            },
        )
    )
    assert [len(answer["tokens"]) for answer in found] == [4, 4, 4]
    assert not any(answer["stopped"] for answer in found) and all(answer["best"] is not None for answer in found)
    outputs, _ = outputs_of(wire.losses(model, 10, [DATUM], forward_only=True))
    assert np.isnan(said[0])
    np.testing.assert_allclose(said[1:], outputs[0]["logprobs"], atol=1e-5)
    # what the sampler says of its own tokens is what training says of them
    full = TOKENS + found[0]["tokens"]
    own, _ = outputs_of(
        wire.losses(
            model, 11, [(full[:-1], {"target_tokens": full[1:], "weights": np.ones(len(full) - 1)})], forward_only=True
        )
    )
    np.testing.assert_allclose(own[0]["logprobs"][-4:], found[0]["log_probs"], atol=1e-5)


def test_requests_run_in_the_order_of_their_numbers_and_once(wire):
    model = wire.model(wire.session())
    step = {"model_id": model, "seq_id": 3, "adam_params": ADAM}
    assert wire.ask("optim_step", step)[0] == 200  # the step is sent first, and waits
    second = training_message(model, 2, [DATUM])
    assert wire.ask("forward_backward", second, kind=PROTOBUF)[0] == 200
    first = outputs_of(wire.losses(model, 1, [DATUM]))[1]["loss:sum"]
    for _ in range(2):  # sent again after a lost answer
        assert wire.ask("forward_backward", second, kind=PROTOBUF)[0] == 200
    assert outputs_of(wire.ask("retrieve_future", {"request_id": f"{model}:2"})[1])[1]["loss:sum"] == first
    norm = wire.ask("retrieve_future", {"request_id": f"{model}:3"})[1]["metrics"]["grad_norm"]
    other = wire.model(wire.session())
    wire.losses(other, 1, [DATUM, DATUM])
    assert norm == pytest.approx(
        wire.wait("optim_step", {"model_id": other, "seq_id": 2, "adam_params": ADAM})["metrics"]["grad_norm"], rel=1e-5
    )


def test_all_weights_may_learn(wire):
    model = wire.model(wire.session(), lora_config=None)
    info = wire.ask("get_info", {"model_id": model})[1]
    assert (info["is_lora"], info["lora_rank"]) == (False, None)
    wire.losses(model, 1, [DATUM])
    wire.wait("optim_step", {"model_id": model, "seq_id": 2, "adam_params": ADAM})
    path = wire.wait("save_weights", {"model_id": model, "seq_id": 3, "path": "one"})["path"]
    session = wire.session()
    body = {"session_id": session, "model_seq_id": 0, "path": path, "optimizer": True}
    assert wire.wait("load_weights", body)["model_id"] == f"{session}:train:0"
    sums = [
        outputs_of(wire.losses(name, seq, [DATUM], forward_only=True))[1]["loss:sum"]
        for name, seq in ((model, 4), (f"{session}:train:0", 1))
    ]
    assert sums[0] == sums[1]
    sampler = sampling(wire, session, path)[1]["sampling_session_id"]
    body = {"sampling_session_id": sampler, "seq_id": 0, "prompt": prompt(), "prompt_logprobs": True}
    _, said = samples_of(wire.wait("asample", body | {"sampling_params": {"max_tokens": 1}}))
    assert -float(said[1:].sum()) == pytest.approx(sums[0], rel=1e-5)


def test_a_server_that_starts_anew_goes_on_from_checkpoints(base, tmp_path):
    with serving(base, tmp_path) as address:
        wire = Wire(address)
        model = wire.model(wire.session())
        wire.losses(model, 1, [DATUM])
        wire.wait("optim_step", {"model_id": model, "seq_id": 2, "adam_params": ADAM})
        state = wire.wait("save_weights", {"model_id": model, "seq_id": 3, "path": "one"})["path"]
        weights = wire.wait("save_weights_for_sampler", {"model_id": model, "seq_id": 4, "path": "one"})["path"]
        expected = outputs_of(wire.losses(model, 5, [DATUM], forward_only=True))[1]
    with serving(base, tmp_path) as address:
        wire = Wire(address)
        status, said = wire.ask("get_info", {"model_id": model})
        assert status == 404 and "create_training_client_from_state" in said["error"]
        assert wire.ask("retrieve_future", {"request_id": f"{model}:1"})[0] == 404
        session = wire.session()
        wire.wait("load_weights", {"session_id": session, "model_seq_id": 0, "path": state, "optimizer": True})
        new = f"{session}:train:0"
        assert outputs_of(wire.losses(new, 1, [DATUM], forward_only=True))[1] == expected
        assert sampling(wire, session, weights)[0] == 200
        listed = wire.ask(f"training_runs/{model}/checkpoints", method="GET")[1]["checkpoints"]
        assert [c["tinker_path"] for c in listed] == [state, weights]
        assert wire.ask("weights_info", {"tinker_path": state})[1]["lora_rank"] == 4
        assert wire.ask("training_runs", method="GET")[1]["training_runs"][0]["training_run_id"] == model
        assert wire.ask(f"training_runs/{model}/checkpoints/weights/one", method="DELETE")[0] == 200
        assert wire.ask("weights_info", {"tinker_path": state})[0] == 400


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"prompt": prompt([])}, "no tokens"),
        ({"prompt": prompt([10**6])}, "no token of the model's"),
        ({"prompt": prompt([5] * 48)}, "48 tokens: the model sees 48"),
        ({"prompt": {"chunks": [{"type": "image", "data": ""}]}}, "type 'image'"),
        ({"sampling_params": {"temperature": -1}}, "temperature -1"),
        ({"sampling_params": {"max_tokens": 0}}, "max_tokens 0"),
        ({"sampling_params": {"stop": [10**6]}}, "stop"),
        ({"num_samples": 10**6}, "num_samples"),
        ({"prompt_logprobs_last_n": 6}, "from 1 to 5"),
        ({"prompt_alt_tokens_k": 2}, "prompt_alt_tokens_k"),
        ({"seq_id": None}, "seq_id None"),
        ({"sampling_session_id": "x"}, "sampler x is not known"),
    ],
)
def test_mistakes_in_sampling_are_named(wire, change, what):
    sampler = sampling(wire, wire.session())[1]["sampling_session_id"]
    body = {"sampling_session_id": sampler, "seq_id": 0, "prompt": prompt(), "sampling_params": {"max_tokens": 2}}
    status, said = wire.ask("asample", body | change)
    assert status in (400, 404) and what in said["error"]


def test_mistakes_in_training_are_named(wire):
    session = wire.session()
    body = {"session_id": session, "model_seq_id": 0, "base_model": "other", "lora_config": {"rank": 4}}
    assert wire.ask("create_model", body) == (400, {"error": f"base_model 'other': this server has '{NAME}' only"})
    body["base_model"] = NAME
    status, said = wire.ask("create_model", body | {"optimizer_config": {"type": "dimuon"}})
    assert status == 400 and "adamw" in said["error"]
    assert wire.ask("create_session", {"user_metadata": {"a": "b" * 2**15}})[0] == 400
    model = wire.model(session)
    failed = wire.losses(model, 1, [DATUM], loss="pppo")
    assert failed["category"] == "user" and "did you mean 'ppo'" in failed["error"]
    step = wire.wait("optim_step", {"model_id": model, "seq_id": 2, "adam_params": ADAM})
    assert "no step was taken" in step["error"]
    for number, path in enumerate(("../x", "a/b", ".hidden", "x" * 200)):
        status, said = wire.ask("save_weights", {"model_id": model, "seq_id": 3 + number, "path": path})
        assert status == 400 and "tinker://" in said["error"]
    wire.wait("save_weights", {"model_id": model, "seq_id": 3, "path": "one"})
    assert "exists" in wire.wait("save_weights", {"model_id": model, "seq_id": 4, "path": "one"})["error"]
    over = {"model_id": model, "seq_id": 5, "path": "one", "overwrite": True}
    path = wire.wait("save_weights", over)["path"]
    other = wire.model(session, 1, lora_config={"rank": 8})
    load = {"model_id": other, "seq_id": 1, "path": path, "optimizer": False}
    assert "rank 4" in wire.wait("load_weights", load)["error"]
    assert wire.ask("load_weights", load | {"seq_id": 2, "path": "/etc/passwd"})[0] == 400
    assert wire.ask("load_weights", load | {"seq_id": 2, "path": path[:-1] + "x"})[0] == 400


def test_a_checkpoint_of_another_model_is_refused(base, tmp_path):
    from served_model import tiny_base

    with serving(base, tmp_path) as address:
        wire = Wire(address)
        path = wire.wait("save_weights", {"model_id": wire.model(wire.session()), "seq_id": 1, "path": "a"})["path"]
    with serving(tiny_base(seed=1), tmp_path) as address:
        wire = Wire(address)
        status, said = sampling(wire, wire.session(), path)
        assert status == 400 and "was trained on" in said["error"]


def test_models_of_sessions_that_end_or_are_silent_make_room(base, tmp_path, monkeypatch):
    with serving(base, tmp_path, most_models=2) as address:
        wire = Wire(address)
        one, other = wire.session(), wire.session()
        first, second = wire.model(one), wire.model(other)
        body = {"session_id": other, "model_seq_id": 1, "base_model": NAME, "lora_config": {"rank": 2}}
        status, said = wire.ask("create_model", body)
        assert status == 400 and "--max-models" in said["error"]
        assert wire.ask(f"sessions/{one}/finish", {"reason": {"type": "success"}, "detail": None})[0] == 200
        assert wire.ask("get_info", {"model_id": first})[0] == 404
        assert wire.ask("session_heartbeat", {"session_id": one})[0] == 410  # which ends the client's heartbeat
        assert wire.ask("create_model", body)[0] == 200
        monkeypatch.setattr("gaitway.serve.registry.SILENT", -1.0)
        assert wire.wait("create_model", body | {"model_seq_id": 2})["model_id"] == f"{other}:train:2"
        assert wire.ask("get_info", {"model_id": second})[0] == 404


def test_a_sampling_client_has_the_weights_of_its_moment_unless_it_follows_its_model(wire):
    session = wire.session()
    model = wire.model(session)

    def saved(seq, number, kind):
        body = {"model_id": model, "seq_id": seq, "sampling_session_seq_id": number, "kind": kind}
        return wire.wait("save_weights_for_sampler", body)["sampling_session_id"]

    def said(sampler, seq):
        body = {"sampling_session_id": sampler, "seq_id": seq, "prompt": prompt(), "prompt_logprobs": True}
        return samples_of(wire.wait("asample", body | {"sampling_params": {"max_tokens": 1}}))[1][1:].tolist()

    fixed, follows = saved(1, 0, "snapshot"), saved(2, 1, "inflight")
    before = said(fixed, 0)
    assert said(follows, 0) == before
    wire.losses(model, 3, [DATUM])
    wire.wait("optim_step", {"model_id": model, "seq_id": 4, "adam_params": ADAM})
    later = saved(5, 2, "inflight")
    assert said(fixed, 1) == before
    assert said(follows, 1) == said(later, 0) != before


def test_pages_strangers_and_too_much_are_refused(base, tmp_path, monkeypatch):
    monkeypatch.setenv(server.KEY, "tml-a-long-secret-word")
    with serving(base, tmp_path) as address:
        assert Wire(address).ask("create_session", {})[0] == 401
        assert Wire(address, {"X-API-Key": "tml-a-long-secret-wore"}).ask("healthz", method="GET")[0] == 401
        known = Wire(address, {"X-API-Key": "tml-a-long-secret-word"})
        assert known.ask("healthz", method="GET") == (200, {"status": "ok"})
        assert Wire(address, {**known.headers, "Origin": "http://evil"}).ask("create_session", {})[0] == 403
        assert known.ask("nothing", {})[0] == 404
        assert known.ask("create_session", b"[]")[0] == 400
        assert known.ask("create_session", b"{", kind="application/json")[0] == 400
        assert known.ask("create_session", b"{}", kind="text/plain")[0] == 400
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
        headers = {**known.headers, "Content-Type": "application/json", "Content-Length": str(2**40)}
        connection.request("POST", "/api/v1/create_session", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 400 and b"at most" in answer.read()


def test_a_name_that_leads_here_is_no_name_of_this_server(wire):
    assert Wire(wire.address, {"Host": "localhost:8123"}).ask("healthz", method="GET")[0] == 200
    assert Wire(wire.address, {"Host": "rebound.example:8123"}).ask("healthz", method="GET")[0] == 403


def test_a_host_that_others_reach_needs_a_secret(monkeypatch):
    monkeypatch.delenv(server.KEY, raising=False)
    assert server.key_for("127.0.0.1") == ""
    with pytest.raises(UserError, match=server.KEY):
        server.key_for("0.0.0.0")
    monkeypatch.setenv(server.KEY, "short")
    with pytest.raises(UserError, match="tml-"):
        server.key_for("127.0.0.1")


def test_results_are_kept_within_limits(monkeypatch):
    monkeypatch.setattr(work, "MOST_JOBS", 3)
    monkeypatch.setattr(work, "FETCHED", 2)
    gate = threading.Event()
    queue = work.Work()

    def job(name):
        return work.Job(name, "me", 10, lambda given: [gate.wait(10) and {"name": name}])

    try:
        for name in "abc":
            queue.submit(job(name))
        with pytest.raises(work.Busy, match="too many"):
            queue.submit(job("d"))
        queue.cancel("c")
        assert queue.fetch("a", 0.01) is None
        gate.set()
        assert queue.fetch("a", 10).result == {"name": "a"}
        assert queue.fetch("c", 10).error == ("it was cancelled", "user")
        queue.submit(job("d"))
        for name in "bd":
            assert queue.fetch(name, 10).result == {"name": name}
        with pytest.raises(work.Unknown):
            queue.fetch("a", 0.01)  # its place was taken
        assert queue.fetch("d", 0.01).result == {"name": "d"}
        queue.drop_owner("me")
        with pytest.raises(work.Unknown):
            queue.fetch("d", 0.01)
    finally:
        gate.set()
        queue.close()
