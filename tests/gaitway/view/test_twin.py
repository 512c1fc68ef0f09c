import socket
import urllib.request

import numpy as np
import pytest
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.twin import open_twin

from gaitway.view.remote import Remote
from gaitway.view.twin import _Panel, watching


@pytest.fixture
def twin():
    bus = MemoryBus()
    twin = open_twin("unitree-go2", bus.join("twin"), hung=True, visual=True)
    bus.attach(twin.advance)
    bus.sleep_until(0.01)
    return twin


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def port():
    return free_port()


class Recorded:
    """Stands for viser's handles: remembers what is clicked, and has a value."""

    def __init__(self, value=None):
        self.value, self.clicks, self.content = value, [], ""

    def on_click(self, action):
        self.clicks.append(action)

    on_update = on_click

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Gui:
    """Stands for ``server.gui``; handles by their label."""

    def __init__(self):
        self.handles = {}

    def _add(self, label, value=None):
        return self.handles.setdefault(label, Recorded(value))

    def add_markdown(self, content):
        return self._add("state")

    def add_folder(self, label):
        return Recorded()

    def add_button(self, label):
        return self._add(label)

    def add_checkbox(self, label, value):
        return self._add(label, value)

    def add_number(self, label, value, **_):
        return self._add(label, value)

    def add_dropdown(self, label, options):
        return self._add(label, options[0])

    def add_slider(self, label, **settings):
        return self._add(label, settings["initial_value"])


@pytest.fixture
def panel(twin):
    server = type("Server", (), {"gui": Gui(), "remote": Remote("twin")})()
    return _Panel(twin, server), server.gui.handles


def click(handle):
    for action in handle.clicks:
        action(None)


def test_buttons_do_their_thing_between_two_steps(twin, panel):
    panel, handles = panel
    click(handles["Let go of the stand"])
    assert twin.body.hung, "not before the twin's own thread comes by"
    panel.do()
    assert not twin.body.hung
    click(handles["Push"])
    panel.do()
    assert np.linalg.norm(twin.truth().base_lin_vel) == pytest.approx(1.0, abs=0.01)
    click(handles["L2+B"])
    handles["left y"].value = 0.5
    click(handles["left y"])
    panel.do()
    twin.bus.sleep_until(0.02)
    assert twin.side.remote.buttons == {"L2", "B"} and twin.side.remote.left == (0.0, 0.5)


def test_a_gamepad_moves_the_transmitters_sticks(twin, panel):
    panel, _ = panel
    panel.remote.hear('{"steer": [0.5, 1.0, -0.25]}')
    panel.remote.hear('{"push": "left"}')
    panel.remote.hear('{"again": true}')
    panel.do()
    assert np.linalg.norm(twin.truth().base_lin_vel) == pytest.approx(1.0, abs=0.01)
    twin.bus.sleep_until(0.02)
    assert twin.side.remote.left == (-1.0, 0.5) and twin.side.remote.right == (0.25, 0.0)


def test_faults_are_provoked_or_refused_in_words(twin, panel):
    panel, handles = panel
    handles["Fault"].value, handles["Joint"].value = "joint-nan", "RR_calf_joint"
    click(handles["Provoke"])
    panel.do()
    injection = twin.faults.injections[0]
    assert twin.joint_names[injection.joint] == "RR_calf_joint"
    assert injection.end - injection.start == pytest.approx(0.5)
    handles["Fault"].value = "fall"
    click(handles["Provoke"])
    panel.do()
    panel.look()
    panel.show()
    assert "cannot fall" in handles["state"].content and "| own controller | active |" in handles["state"].content


def test_a_page_is_served_while_it_is_watched(twin, port, monkeypatch):
    monkeypatch.setattr("gaitway.view.scene.token_urlsafe", lambda size: "known")
    with watching(twin, "unitree-go2", "127.0.0.1", port) as after_step:
        for step in range(20):
            twin.bus.sleep_until(0.01 + 0.01 * step)
            after_step()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?token=known", timeout=10.0) as page:
            assert page.status == 200
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1.0)
