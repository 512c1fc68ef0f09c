"""The digital twin in a web browser: what it does, and buttons for what can be done to it."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .scene import FRAME_S, PushArrow, Scene, page, random_push, set_theme

if TYPE_CHECKING:
    from gaitway_sim2real.digital_twin.twin import Twin

PRESS = 0.3  # [s] that a button is held


@contextmanager
def watching(twin: Twin, name: str, host: str, port: int) -> Iterator[Callable[[], None]]:
    """Serve a page while the block runs; what it gives is to be called after every step, from the twin's thread.

    Pictures are drawn in a thread of their own, so that they do not delay the robot's states.
    """
    with page(name, host, port, "  watch it at URL") as server, _painted(twin, server) as after_step:
        server.remote.tell(f"Twin of {name}", "", steers=_has_transmitter(twin))
        yield after_step


@contextmanager
def _painted(twin: Twin, server: Any) -> Iterator[Callable[[], None]]:
    scene = Scene(twin.body.model, server, twin.body.plant.base_qpos)
    panel, ended = _Panel(twin, server), threading.Event()
    poses: deque[np.ndarray] = deque([twin.body.data.qpos.copy()], maxlen=1)
    next_pose = twin.time

    def draw() -> None:
        dark = False
        while not ended.wait(FRAME_S):
            if poses:
                scene.show(poses.pop(), follow=panel.follow.value)
            panel.show()
            scene_base = twin.body.plant.base_qpos
            panel.pushed.show(scene.data.qpos[scene_base : scene_base + 3] - scene.shift)
            if server.remote.dark not in (None, dark):
                dark = server.remote.dark
                set_theme(server, dark=dark)

    def after_step() -> None:
        nonlocal next_pose
        panel.do()
        if twin.time >= next_pose:
            next_pose = twin.time + FRAME_S
            poses.append(twin.body.data.qpos.copy())
            panel.look()

    painter = threading.Thread(target=draw, name="twin-viewer", daemon=True)
    painter.start()
    try:
        yield after_step
    finally:
        ended.set()
        painter.join()


def _has_transmitter(twin: Twin) -> bool:
    return "stop" in twin.side.faults_of(twin.hardware)


class _Panel:
    """Buttons come from the server's threads; what they ask for is done between two steps."""

    def __init__(self, twin: Twin, server: Any):
        self.twin, self.asked, self.seen, self.note = twin, deque[Callable[[], Any]](), "", ""
        self.remote, self.pushed = server.remote, PushArrow(server)
        gui = server.gui
        self.state = gui.add_markdown("")
        self.follow = gui.add_checkbox("Follow the robot", True)
        with gui.add_folder("World"):
            self._button(gui, "Push", self._push)
            self._button(gui, "Let go of the stand", twin.release)
        with gui.add_folder("Fault"):
            self.fault = gui.add_dropdown("Fault", sorted(twin.side.faults_of(twin.hardware)))
            self.joint = gui.add_dropdown("Joint", twin.joint_names)
            self.seconds = gui.add_number("Seconds", 0.5, min=0.0, step=0.1)
            self._button(gui, "Provoke", self._provoke)
        if _has_transmitter(twin):
            with gui.add_folder("Transmitter"):
                for buttons in (("start",), ("select",), ("A",), ("B",), ("L2", "B")):
                    self._button(gui, "+".join(buttons), functools.partial(twin.press, *buttons, seconds=PRESS))
                axes = ("left x", "left y", "right x", "right y")
                self.sticks = [gui.add_slider(axis, min=-1.0, max=1.0, step=0.05, initial_value=0.0) for axis in axes]
                for stick in self.sticks:
                    stick.on_update(lambda _: self.asked.append(self._move_sticks))

    def _button(self, gui: Any, label: str, action: Callable[[], Any]) -> None:
        gui.add_button(label).on_click(lambda _: self.asked.append(action))

    def do(self) -> None:
        while self.asked:
            try:
                self.asked.popleft()()
            except ValueError as error:
                self.note = str(error)
        while self.remote.asked:
            if self.remote.asked.popleft() != "again":  # a real robot cannot
                self._push()
        if (shares := self.remote.shares()) is not None:
            forward, left, turn = shares
            self.twin.stick((-left, forward), (-turn, 0.0))

    def _push(self) -> None:
        velocity = random_push()
        self.twin.body.push((*velocity, 0.0))
        self.pushed.begin(velocity)

    def _provoke(self) -> None:
        self.twin.inject(self.fault.value, duration=self.seconds.value or np.inf, joint=self.joint.value)
        self.note = f"{self.fault.value} was provoked"

    def _move_sticks(self) -> None:
        left_x, left_y, right_x, right_y = (stick.value for stick in self.sticks)
        self.twin.stick((left_x, left_y), (right_x, right_y))

    def look(self) -> None:
        """Describe the robot's state in text, which the painter shows."""
        twin, truth = self.twin, self.twin.truth()
        own = "none" if twin.sport is None else "active" if twin.sport.active else "released"
        speed = " ".join(f"{value:+.2f}" for value in truth.base_lin_vel)
        rows = {
            "own controller": own,
            "commands obeyed": f"{twin.counters.accepted}",
            "velocity [m/s]": speed,
            "height [m], tilt [rad]": f"{truth.height:.2f}, {truth.tilt:.2f}",
            "largest torque [N m]": f"{np.abs(truth.joint_torque).max():.1f}",
        }
        lines = [f"| {name} | {value} |" for name, value in rows.items()]
        self.seen = "\n".join(["| | |", "|---|---|", *lines, "", self.note])

    def show(self) -> None:
        self.state.content = self.seen
