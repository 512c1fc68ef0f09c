"""File servers that lie, redirect, drip, cut off or send without end: each is refused in bounded time and memory."""

from __future__ import annotations

import contextlib
import functools
import http.server
import time
from pathlib import Path
from typing import Any

import pytest
from published_bundle import folder_handler, serving

from gaitway.cli import main
from gaitway.hub.place import PlaceError, Unreachable
from gaitway.hub.web import WebPlace

pytestmark = pytest.mark.hostile("untrusted files")


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, content: bytes, length: int | None = None) -> None:
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)


def fetch(server: type[Server], most: int = 1000, **limits: float) -> bytes:
    with serving(server) as address:
        return WebPlace(f"{address}/walk", **limits).fetch("policy.onnx", most)


def test_more_than_it_said():
    sent = []

    class Endless(Server):
        def do_GET(self) -> None:
            self.answer(b"")
            with contextlib.suppress(ConnectionError):
                for _ in range(1000):
                    self.wfile.write(b"0" * 100_000)
                    sent.append(1)

    with pytest.raises(PlaceError, match="more than 1000 bytes"):
        fetch(Endless)
    assert len(sent) < 1000


def test_less_than_it_said():
    class Short(Server):
        def do_GET(self) -> None:
            self.answer(b"0" * 10, length=100)

    with pytest.raises(Unreachable, match="90 bytes early"):
        fetch(Short)


@pytest.mark.parametrize("status", [404, 403, 500])
def test_refusals(status):
    class Refusing(Server):
        def do_GET(self) -> None:
            self.send_error(status)

    with pytest.raises((PlaceError, Unreachable), match=r"no http|status") as error:
        fetch(Refusing)
    assert isinstance(error.value, PlaceError) == (status == 404)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "https://127.0.0.1/x", "http://127.0.0.2/x", "//other/x"])
def test_redirects_elsewhere_are_refused(target):
    class Leading(Server):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", target)
            self.end_headers()

    with pytest.raises(PlaceError, match="another server"):
        fetch(Leading)


def test_redirects_within_the_server_are_followed_but_not_for_ever():
    class Moved(Server):
        def do_GET(self) -> None:
            if self.path == "/new":
                return self.answer(b"here", 4)
            self.send_response(301)
            self.send_header("Location", "/new")
            self.end_headers()

    class Circle(Server):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", self.path + "x")
            self.end_headers()

    assert fetch(Moved) == b"here"
    with pytest.raises(PlaceError, match="in a circle"):
        fetch(Circle)


def test_silence():
    class Silent(Server):
        def do_GET(self) -> None:
            time.sleep(5)

    with pytest.raises(Unreachable, match="does not answer"):
        fetch(Silent, silence=0.1)


@pytest.mark.parametrize("where", ["headers", "content"])
def test_drips(where):
    """Each comes before the silence is too long; together they are."""

    class Dripping(Server):
        def do_GET(self) -> None:
            if where == "content":
                self.answer(b"", 1000)
            else:
                self.wfile.write(b"HTTP/1.0 200 OK\r\nX-Long: ")
            with contextlib.suppress(ConnectionError):  # it is hung up on
                for _ in range(500):
                    self.wfile.write(b"0")
                    self.wfile.flush()
                    time.sleep(0.01)

    with pytest.raises(Unreachable, match=r"more than 0\.\d+ s"):
        fetch(Dripping, silence=5.0, patience=0.3, slowest=1e6)


def test_no_server(capsys: Any):
    with serving(Server) as address:
        pass
    assert main(["pull", f"{address}/walk"]) == 1
    assert address in capsys.readouterr().err


def test_a_server_that_answers_everything_with_a_page(capsys: Any):
    class Pages(Server):
        def do_GET(self) -> None:
            self.answer(b"<html>welcome</html>", 20)

    with serving(Pages) as address:
        assert main(["pull", f"{address}/walk"]) == 2
    assert "published.json" in capsys.readouterr().err


def test_a_server_that_changes_its_files(shelf: Path, tmp_path: Path, capsys: Any):
    """The index is of one moment, and a file of another."""

    class Changing(folder_handler(shelf).func):
        def send_head(self) -> Any:
            if self.path.endswith("policy.onnx"):
                path = shelf / "stand/policy.onnx"
                path.write_bytes(path.read_bytes()[::-1])
            return super().send_head()

    with serving(functools.partial(Changing, directory=str(shelf))) as address:
        assert main(["pull", f"{address}/stand", "--out", str(tmp_path / "out")]) == 2
    assert "policy.onnx is not the file that its published.json names" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
