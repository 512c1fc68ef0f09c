"""A page's keys, gamepad and sticks reach the robot, a page that goes lets go of it, and nobody else steers."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

pytest.importorskip("viser")

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import gaitway.view.remote as remote_module
from gaitway.demo import bundle_of
from gaitway.view.remote import FILES, Remote
from gaitway.view.scene import page
from gaitway.view.steering import Show
from gaitway.view.walkers import BundleWalker

from .test_twin import free_port

SECRET = "a-secret_of-this.page"
CONTROLS = Path(remote_module.__file__).with_name("controls.js")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Any, int]]:
    port = free_port()
    known = mock.patch("gaitway.view.scene.token_urlsafe", lambda size: SECRET)
    with known, page("test", "127.0.0.1", port, "URL") as server:
        yield server, port


@pytest.fixture(scope="module")
def show(served: Any) -> Show:
    walk: Callable[[], Any] = partial(BundleWalker, bundle_of("anymal-c"))
    return Show({"first": walk, "second": walk}, "first", walk(), served[0], touring=True)


def talk(served: Any, **options: Any) -> Any:
    return connect(f"ws://127.0.0.1:{served[1]}/gaitway/remote?token={SECRET}", **options)


def until(condition: Callable[[], bool]) -> None:
    """Wait for the server's thread."""
    for _ in range(200):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("nothing came")


def test_the_page_brings_its_scripts(served: Any) -> None:
    address = f"http://127.0.0.1:{served[1]}"
    with urlopen(f"{address}/?token={SECRET}", timeout=10) as answer:
        text = answer.read()
    assert int(answer.headers["Content-Length"]) == len(text) and b'id="root"' in text
    assert text.count(b'src="/gaitway/page.js"') == 1 and text.count(b'href="/gaitway/page.css"') == 1
    for name in FILES:
        with urlopen(f"{address}/gaitway/{name}?token={SECRET}", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/javascript" if name.endswith("js") else "text/css")
            assert answer.read() == CONTROLS.with_name(name).read_bytes()
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"{address}/gaitway/{name}", timeout=10)
    for other in ("gaitway/remote.py", "gaitway/../scene.py"):
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/{other}?token={SECRET}", timeout=10)


def test_who_lacks_the_token_or_is_another_page_does_not_steer(served: Any) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{served[1]}/gaitway/remote")
    with pytest.raises(InvalidStatus, match="403"):
        talk(served, origin="http://evil.example")


def test_sticks_move_the_sliders_and_end_the_tour(served: Any, show: Show) -> None:
    with talk(served) as link:
        assert json.loads(link.recv())["title"] == "ANYmal C"
        link.send(json.dumps({"steer": [0.5, 0, -1]}))
        until(lambda: served[0].remote._stick is not None)
        low, high = show.walker.command_ranges[2][0], show.walker.command_ranges[0][1]
        assert show.panel.command() == pytest.approx([0.5 * high, 0.0, low])
        assert not show.panel.touring.value and show.panel.sliders[2].value == pytest.approx(low)
        link.send(json.dumps({"steer": [0, 0, 0]}))
        until(lambda: served[0].remote._stick == ((0.0, 0.0, 0.0), mock.ANY))
        assert show.panel.command().tolist() == [0.0, 0.0, 0.0]
        show.panel.sliders[0].value = 0.3  # the sliders are free again
        assert show.panel.command().tolist() == [0.3, 0.0, 0.0]


def test_a_stick_that_falls_silent_is_let_go(monkeypatch: Any) -> None:
    remote = Remote("test")
    assert remote.shares() is None
    remote.hear('{"steer": [1, 0, 0]}')
    assert remote.shares() == remote.shares() == (1.0, 0.0, 0.0)
    monkeypatch.setattr(remote_module, "SILENT_S", -1.0)
    assert remote.shares() == (0.0, 0.0, 0.0) and remote.shares() is None


def test_a_push_is_seen_for_a_moment(served: Any, show: Show, monkeypatch: Any) -> None:
    show.walker.reset()
    with talk(served) as link:
        link.send(json.dumps({"push": "ahead"}))
        until(lambda: bool(served[0].remote.asked))
    show.panel.do()
    speed = show.panel.strength.value
    assert show.walker.robot.data.qvel[:2] == pytest.approx([speed, 0.0], abs=1e-6)
    show.panel.show()
    arrow = show.panel.pushed._arrows.handle
    (start, end), base = arrow.points[0], show.walker.qpos[:3]
    assert arrow.visible and np.asarray(end - start) == pytest.approx([speed, 0.0, 0.0], abs=1e-3)
    assert 0.4 < base[0] - end[0] < 0.6 and end[2] == pytest.approx(base[2], abs=1e-3)
    monkeypatch.setattr(show.panel.pushed, "_until", 0.0)
    show.panel.show()
    assert not arrow.visible


def test_another_robot_is_chosen_on_the_page(served: Any, show: Show) -> None:
    before = show.walker
    show.wanted = "second"
    show.turn()
    assert show.name == "second" and show.walker is not before
    show.turn()
    with talk(served) as link:
        told = json.loads(link.recv())
    assert told == {"title": "ANYmal C", "detail": "velocity-flat-anymal-c-blind, bundle anymal-c", "steers": True}


def test_colours_are_those_of_the_browser(served: Any, show: Show) -> None:
    light = tuple(show.scene.floor.plane_color)
    with talk(served) as link:
        link.send(json.dumps({"dark": True}))
        until(lambda: served[0].remote.dark is True)
    show.turn()
    assert max(show.scene.floor.plane_color) < 0.5 * min(light)


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(
    "words",
    [
        "",
        "{",
        "[]",
        '{"steer": [2, 0, 0]}',
        '{"steer": [NaN, 0, 0]}',
        '{"steer": [1e999, 0, 0]}',
        '{"steer": [true, 0, 0]}',
        '{"steer": [0, 0]}',
        '{"push": "up"}',
        '{"dark": 1}',
        "[" * 900,
        b'{"again": true}',
        '{"again": true}' + " " * 1000,
    ],
)
def test_other_words_end_the_talk(served: Any, words: str | bytes) -> None:
    with talk(served) as link:
        link.recv()
        link.send(words)
        with pytest.raises(ConnectionClosed):
            link.recv(timeout=10)
        assert link.close_code == 1008
    assert not served[0].remote.asked and served[0].remote.shares() is None


SCRIPT = """
const c = await import(process.argv[1]);
const ranges = [[-1, 2], [-0.5, 0.5], [-1, 1]];
console.log(JSON.stringify({
  keys: c.keyShares(new Set(["KeyW", "ArrowUp", "KeyE"])),
  none: c.keyShares(new Set(["KeyA", "KeyD"])),
  still: c.padShares([0.1, -0.1, 0.05, 0]),
  full: c.padShares([0, -1, 1, 0]),
  half: c.padShares([0.56, 0, 0, 0]),
  asks: c.padAsks([true, false, false, false, false, false, false, false, false, true], []),
  held: c.padAsks([true], [true]),
  dpad: c.padAsks([...Array(12).fill(false), true, false, false, true], []),
  sum: c.together([0.8, 0, 0], [1, 0, -0.5]),
  command: c.commandOf([0.5, -1, 0], ranges),
  back: c.commandOf([-0.5, 0, 0], ranges),
}));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_keys_and_gamepads_become_commands() -> None:
    asked = ["node", "--input-type=module", "--eval", SCRIPT, CONTROLS.as_uri()]
    # Node takes a file for a module by its name's end alone.
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["keys"] == [0.8, 0, -0.8] and found["none"] == [0, 0, 0]
    assert found["still"] == [0, 0, 0] and found["full"] == [1, 0, -1]
    assert found["half"] == pytest.approx([0, -0.5, 0])
    assert found["asks"] == ["left", "again"] and found["held"] == [] and found["dpad"] == ["ahead", "right"]
    assert found["sum"] == [1, 0, -0.5]
    assert found["command"] == [1.0, -0.5, 0] and found["back"] == [-0.5, 0, 0]
