"""Rewards from a server and from a module: what they give, and what goes wrong."""

import contextlib
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import pytest
from gaitway_files import trust
from gaitway_tasks.language import remote
from gaitway_tasks.language.remote import RemoteRewardError, load_reward, remote_reward
from gaitway_tasks.language.score import RewardError, score
from gaitway_tasks.language.tasks import get_language_task

TEXTS = ["a", "bb", "ccc"]


def lengths(prompts, completions, answer, **columns):
    return [
        None if text == "bb" else len(prompt + text) + float(gold)
        for prompt, text, gold in zip(prompts, completions, answer, strict=True)
    ]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: waits.append(seconds))
    waits.clear()


waits: list[float] = []


@pytest.fixture
def answers():
    """A server that sends the bytes it is given, with their status, one after the other, and counts requests."""
    replies, servers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            status, body, delay = replies.pop(0)
            self.rfile.read(int(self.headers["Content-Length"]))
            time_to_stop.wait(delay)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    def start(*given):
        replies.extend((*reply, 0.0)[:3] for reply in given)
        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}", replies

    time_to_stop = threading.Event()
    yield start
    time_to_stop.set()
    for server in servers:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def serve_reward(func):
    """Serve a reward function while the context lasts; what it raises is answered with status 500 and the reason."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            status = 200
            try:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                scores = func(prompts=asked["prompts"], completions=asked["completions"], **asked.get("columns", {}))
                answer = {"scores": [None if score is None else float(score) for score in scores]}
            except Exception as error:
                status, answer = 500, {"error": f"{type(error).__name__}: {error}"}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            """Say nothing of requests that went well."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_served_reward_is_the_reward(batch):
    columns = {"answer": ["1", "2", "3"]}
    with serve_reward(lengths) as url:
        found = remote_reward(["p"] * 3, TEXTS, url=url, batch=batch, **columns)
    assert found == lengths(["p"] * 3, TEXTS, **columns) == [3.0, None, 7.0]


def test_a_server_is_part_of_a_task_and_proxies_are_not_asked(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    rows = [{"prompt": "p", "answer": str(i)} for i in range(3)]
    with serve_reward(lengths) as url:
        task = get_language_task("arithmetic").replace(rewards={"far": load_reward(url)})
        assert score(task, ["p"] * 3, TEXTS, rows)[0] == [2.0, 0.0, 6.0]
    with pytest.raises(RewardError, match=f"reward 'far'.*no rewards from {url}"):
        score(task, ["p"] * 3, TEXTS, rows)


def test_a_function_that_raises_over_there_is_named_here():
    with (
        serve_reward(lengths) as url,
        pytest.raises(RemoteRewardError, match=r"status 500.*KeyError|TypeError.*answer"),
    ):
        remote_reward(["p"], ["a"], url=url, retries=1)
    assert waits == [1.0]


def test_trouble_that_passes_is_survived(answers):
    url, left = answers((503, b"busy"), (500, b""), (200, b'{"scores": [1.5]}'))
    assert remote_reward(["p"], ["a"], url=url) == [1.5]
    assert waits == [1.0, 2.0] and not left


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((404, b"no such page"), r"status 404: no such page"),
        ((200, b"<html>"), r"answered b'<html>' instead of a JSON object with 'scores'"),
        ((200, b"[1]"), r"answered b'\[1\]'"),
        ((200, b'{"scores": 3}'), r"no list"),
        ((200, b'{"scores": [1, 2]}'), r"returned 2 scores for 1 completions"),
    ],
)
def test_wrong_answers_are_not_asked_for_twice(answers, reply, message):
    url, _ = answers(reply, (200, b'{"scores": [1]}'))
    with pytest.raises(RemoteRewardError, match=message):
        remote_reward(["p"], ["a"], url=url)
    assert waits == []


def test_a_server_that_never_answers(answers):
    url, _ = answers((200, b"", 30.0), (200, b"", 30.0))
    begin = time.monotonic()
    with pytest.raises(RemoteRewardError, match=r"no rewards from http://127.*timed out"):
        remote_reward(["p"], ["a"], url=url, timeout=0.2, retries=0)
    assert time.monotonic() - begin < 10.0


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RemoteRewardError, match=r"Connection refused.*is the server running"):
        remote_reward(["p"], ["a"], url=f"http://127.0.0.1:{port}", retries=2)
    assert waits == [1.0, 2.0]


def test_functions_by_name(tmp_path, monkeypatch):
    (tmp_path / "my_rewards.py").write_text(
        "def shout(prompts, completions, **c): return [9.0 for _ in prompts]\nx = 1\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(trust, "_trusted", set())
    assert load_reward("my_rewards:shout").func(["a"], ["b"]) == [9.0]
    for where, message in {
        "my_rewards:whisper": "my_rewards has no 'whisper'",
        "my_rewards:x": "my_rewards:x is no term",
        "nowhere_at_all:f": "No module named 'nowhere_at_all'",
        "my_rewards": "use http://host:port or module:function",
        "my rewards:f": "use http://host:port or module:function",
        "http://": "no address",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_reward(where)
