"""A recorded flight in a web browser: play, pause, go anywhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .scene import FRAME_S, Scene, Turn, check_port, serve, velocity_table

if TYPE_CHECKING:
    from gaitway_onboard.flight.reading import Flight
    from gaitway_sim2real.replay.motion import Motion

SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "4")


def show_flight(flight: Flight, motion: Motion, host: str, port: int, seconds: float | None = None) -> None:
    """Serve until Ctrl-C, or for ``seconds``."""
    from gaitway_sim2real.replay.motion import make_body

    check_port(host, port)
    body = make_body(flight, visual=True)

    def start(server: Any) -> Turn:
        server.remote.tell(flight.robot, flight.path.name, steers=False)
        return _picture(Scene(body.model, server, body.plant.base_qpos), Player(flight, motion, server))

    serve(flight.path.name, host, port, start, seconds)


def _picture(scene: Scene, player: Player) -> Turn:
    last = time.monotonic()

    def turn() -> None:
        nonlocal last
        time.sleep(FRAME_S)
        now = time.monotonic()
        scene.show(player.advance(now - last), follow=player.follow.value)
        last = now

    return turn


class Player:
    """Playback position in the flight, and the recorded state there."""

    def __init__(self, flight: Flight, motion: Motion, server: Any):
        from gaitway_sim2real.replay.film import labels
        from gaitway_sim2real.replay.summary import command_of_states, own_velocity

        self.flight, self.motion = flight, motion
        self.time = motion.time - flight.start
        self.modes, self.command = labels(flight, motion), command_of_states(flight)[motion.index]
        own = own_velocity(flight)
        if own is not None:
            own[:, 2] = np.nan  # in place of a yaw rate, which policies do not estimate
        self.true, self.own = not flight.hardware, None if own is None else own[motion.index]
        gui = server.gui
        self.told = gui.add_markdown("")
        low, high = float(self.time[0]), max(float(self.time[-1]), float(self.time[0]) + FRAME_S)
        self.slider = gui.add_slider("Time [s]", min=low, max=high, step=0.01, initial_value=low)
        self.playing = gui.add_checkbox("Play", True)
        self.speed = gui.add_dropdown("Speed", SPEEDS, initial_value="1")
        self.follow = gui.add_checkbox("Follow the robot", True)
        gui.add_markdown(f"Base: {motion.source}; its position is that summed up, and drifts.")
        with gui.add_folder("Events"):
            for event in [event for event in flight.events if event.kind != "mode"][:20]:
                when = max(low, event.time - flight.start - 1.0)
                button = gui.add_button(f"{event.time - flight.start:.2f} s {event.kind}", hint=event.text)
                button.on_click(lambda _, when=when: self.go(when))

    def go(self, when: float) -> None:
        self.slider.value = when

    def advance(self, by: float) -> np.ndarray:
        """The pose (nq,) after ``by`` seconds of the viewer's time; the end of the flight is followed by its start."""
        if self.playing.value:
            when = self.slider.value + by * float(self.speed.value)
            self.slider.value = when if when <= self.slider.max else self.slider.min
        row = max(0, int(np.searchsorted(self.time, self.slider.value, side="right")) - 1)
        self._tell(row)
        pose: np.ndarray = self.motion.qpos[row]
        return pose

    def _tell(self, row: int) -> None:
        velocity = (*self.motion.lin_vel_b[row, :2], self.flight.state.gyro[self.motion.index[row], 2])
        table = velocity_table(
            {
                "command": self.command[row],
                "truth" if self.true else "estimate": velocity,
                "policy's estimate": None if self.own is None else self.own[row],
            }
        )
        self.told.content = "\n".join([f"**{self.modes[row]}** at {self.time[row]:.2f} s", "", *table])
