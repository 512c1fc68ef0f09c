"""A page is steered by its own browser, with values that its controls have; other sites get no answer."""

from __future__ import annotations

import asyncio
import http.client
import platform
import socket
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("viser")

from viser import _messages as messages
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gaitway.view.guard import can_be
from gaitway.view.scene import page

pytestmark = pytest.mark.hostile("untrusted files")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Any, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    known = mock.patch("gaitway.view.scene.token_urlsafe", lambda size: SECRET)
    with known, page("test", "127.0.0.1", port, "URL") as server:
        yield server, port


SECRET = "a-secret_of-this.page"


OWN = ("localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", platform.node())
STRANGE = (
    "evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "localhost.evil.example",
    "evil.example.",
    "",
    "[",
    "@",
)


@pytest.mark.parametrize(("hosts", "status"), [(OWN, 200), (STRANGE, 403)])
def test_the_page_is_there_for_who_knows_its_name(served: Any, hosts: tuple[str, ...], status: int) -> None:
    for host in hosts:
        connection = http.client.HTTPConnection("127.0.0.1", served[1], timeout=10)
        connection.request("GET", f"/?token={SECRET}", headers={"Host": host.format(port=served[1])})
        assert connection.getresponse().status == status, host
        connection.close()


def test_two_hosts_are_none(served: Any) -> None:
    with socket.create_connection(("127.0.0.1", served[1]), 10) as plain:
        plain.sendall(f"GET /?token={SECRET} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".encode())
        assert plain.recv(100).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:{port}"])
def test_its_own_browser_connects(served: Any, origin: Any) -> None:
    kept = None if origin is None else origin.format(port=served[1])
    cookie = {"Cookie": f"theme=dark; gaitway-{served[1]}={SECRET}"}
    with connect(
        f"ws://127.0.0.1:{served[1]}",
        origin=kept,
        additional_headers=cookie,
        subprotocols=["viser-v0"],
    ):
        pass


def test_a_browser_that_has_shown_the_token_keeps_it(served: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served[1], timeout=10)
    connection.request("GET", f"/?token={SECRET}")
    answer = connection.getresponse()
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    connection.close()
    connection.request("GET", "/", headers={"Cookie": cookie.partition(";")[0]})
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=another", "/?token=a-secret", "/assets/index.js"])
@pytest.mark.parametrize("cookie", [None, "gaitway-{port}=another", "gaitway-1={secret}", "{secret}", '=;"', "\xff=1"])
def test_nobody_gets_in_without_the_token(served: Any, path: str, cookie: str | None) -> None:
    said = {} if cookie is None else {"Cookie": cookie.format(port=served[1], secret=SECRET)}
    connection = http.client.HTTPConnection("127.0.0.1", served[1], timeout=10)
    connection.request("GET", path, headers=said)
    answer = connection.getresponse()
    assert answer.status == 403 and answer.headers["Set-Cookie"] is None
    connection.close()
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(
            f"ws://127.0.0.1:{served[1]}{path}",
            additional_headers=said,
            subprotocols=["viser-v0"],
        ),
    ):
        pass


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1.evil.example:{port}", "null", "file://"]
)
def test_another_site_does_not(served: Any, origin: str) -> None:
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(
            f"ws://127.0.0.1:{served[1]}/?token={SECRET}",
            origin=origin.format(port=served[1]),
            subprotocols=["viser-v0"],
        ),
    ):
        pass


def _send(server: Any, handle: Any, **updates: Any) -> Any:
    message = messages.GuiUpdateMessage(handle._impl.uuid, updates)
    asyncio.run_coroutine_threadsafe(
        server._websock_server._handle_incoming_message(0, message), server._event_loop
    ).result(10)
    return handle.value


def test_a_control_takes_what_it_can_be_and_nothing_else(served: Any) -> None:
    server, _ = served
    slider = server.gui.add_slider("speed", min=-1.0, max=1.0, step=0.05, initial_value=0.0)
    assert _send(server, slider, value=0.5) == 0.5 and _send(server, slider, value=-1) == -1.0
    for bad in (float("nan"), float("inf"), 7.0, "1", None, [], True, {}):
        assert _send(server, slider, value=bad) == -1.0
    _send(server, slider, max=1e9)
    _send(server, slider, value=0.5, max=1e9)
    assert slider.max == 1.0 and slider.value == -1.0
    choice = server.gui.add_dropdown("floor", ("hard", "soft"))
    assert _send(server, choice, value="soft") == "soft" and _send(server, choice, value="lava") == "soft"
    check = server.gui.add_checkbox("pause", False)
    assert _send(server, check, value="yes") is False and _send(server, check, value=True) is True
    number = server.gui.add_number("seconds", 0.5, min=0.0)
    assert _send(server, number, value=-1.0) == 0.5 and not can_be(number, float("nan")) and can_be(number, 1e6)


def test_nobody_publishes_it(served: Any) -> None:
    inbox = served[0]._websock_server._incoming_handlers
    assert messages.ShareUrlRequest not in inbox and messages.ShareUrlDisconnect not in inbox
