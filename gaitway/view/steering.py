"""The page of a walker: commands, pushes, floor and payload go in; velocities, forces and contacts are shown."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.control.commands import scripted

from .gait_diagram import GaitDiagram
from .remote import PUSHES
from .scene import FRAME_S, Arrows, PushArrow, Scene, serve, set_theme, velocity_table
from .walkers import Array, BundleWalker, Walker

if TYPE_CHECKING:
    from gaitway_sim2real.mujoco.physics import Physics

PUSH = 0.8  # [m/s]
TOUR = 45.0  # [s]; the first leg, in which it stands, is left out at first
DRAWN_S = 0.12  # between gait diagrams
AS_MODELLED = "as modelled"
PLAIN, SLIPPERY, ROUGH = (232, 234, 237), (186, 222, 247), (196, 190, 178)  # colours of the floor
DARKER = 0.28  # share of them on a dark page

Choice = Mapping[str, Callable[[], Walker]]
"""Robots of a page by their names, made when they are chosen."""


def view(
    robots: Choice, host: str, port: int, seconds: float | None = None, *, touring: bool = False, browse: bool = False
) -> None:
    """Serve until Ctrl-C, or for ``seconds``; the first of ``robots`` is shown at first.

    ``touring`` starts with a tour of the commands, ``browse`` opens the page in a browser.
    """
    name = next(iter(robots))
    walker = robots[name]()
    serve(
        walker.name, host, port, lambda server: Show(robots, name, walker, server, touring).turn, seconds, browse=browse
    )


class Show:
    """A page's loop: the robot that is shown, its scene and its panel."""

    def __init__(self, robots: Choice, name: str, walker: Walker, server: Any, touring: bool):
        self.robots, self.server, self.touring, self.dark = robots, server, touring, False
        self._show(name, walker)

    def _show(self, name: str, walker: Walker) -> None:
        self.server.scene.reset()
        self.server.gui.reset()
        self.walker, self.name, self.wanted = walker, name, name
        if len(self.robots) > 1:
            choice = self.server.gui.add_dropdown("robot", tuple(self.robots), initial_value=name)
            choice.on_update(lambda event: setattr(self, "wanted", event.target.value))
        self.scene = Scene(walker.model, self.server, walker.base_qpos)
        self.panel = panel_of(walker, self.server, self.scene, self.touring)
        self._dress(self.dark)
        self.clock, self.picture = time.monotonic(), 0.0
        self.server.remote.tell(walker.title, walker.detail, steers=walker.steers)

    def _dress(self, dark: bool) -> None:
        self.dark = dark
        set_theme(self.server, dark=dark)
        self.panel.paint(dark)

    def _change(self) -> None:
        try:
            walker = self.robots[self.wanted]()
        except UserError as error:
            print(error, flush=True)
            walker, self.wanted = self.walker, self.name
        self._show(self.wanted, walker)

    def turn(self) -> None:
        """One control step, and a picture when it is time for one."""
        if self.wanted != self.name:
            self._change()
        if self.server.remote.dark not in (None, self.dark):
            self._dress(self.server.remote.dark)
        panel, walker = self.panel, self.walker
        panel.do()
        if not panel.paused.value:
            walker.step(panel.command())
            panel.look()
        now = time.monotonic()
        if now - self.picture >= FRAME_S:
            self.picture = now
            self.scene.show(walker.qpos, follow=panel.follow.value)
            panel.show()
        # A machine too slow for real time shows slow motion rather than falling ever further behind.
        self.clock = max(self.clock + walker.control_dt, now - walker.control_dt)
        time.sleep(max(0.0, self.clock - now))


def panel_of(walker: Walker, server: Any, scene: Scene, touring: bool = False) -> Panel:
    """The panel with all that this walker can do."""
    if isinstance(walker, BundleWalker) and not walker.fixed:
        return BundlePanel(walker, server, scene, touring)
    return Panel(walker, server, scene, touring)


def floors() -> dict[str, Physics]:
    """Contact models that a floor can change to below a robot that walks, by their titles."""
    from gaitway_sim2real.mujoco.floors import FLOORS, NOMINAL

    return {AS_MODELLED if name == NOMINAL else floor.title: floor.physics for name, floor in FLOORS.items()}


class Dial:
    """One number of the command on the page: a slider, a box to tick for 0 or 1, or nothing where it cannot change."""

    def __init__(self, gui: Any, label: str, limits: tuple[float, float], value: float, *, step: float | None):
        (self._low, high), self._fixed, self._handle = limits, value, None
        self._step = step or (high - self._low) / 100.0
        if limits == (0.0, 1.0) and step is None:
            self._handle, self._step = gui.add_checkbox(label, bool(value)), 1.0
        elif self._low < high:
            self._handle = gui.add_slider(label, min=self._low, max=high, step=self._step, initial_value=value)

    @property
    def value(self) -> float:
        return self._fixed if self._handle is None else float(self._handle.value)

    @value.setter
    def value(self, value: float) -> None:
        if self._handle is None:
            return
        shown = type(self._handle.value)(round(self._low + self._step * round((value - self._low) / self._step), 6))
        if self._handle.value != shown:
            self._handle.value = shown


class Panel:
    """Commands and pushes in, measured velocity out. What the page's threads ask for is done between two steps."""

    def __init__(self, walker: Walker, server: Any, scene: Scene, touring: bool = False):
        self.walker, self.gui, self.remote, self.scene = walker, server.gui, server.remote, scene
        self.moves = walker.base_qpos < walker.model.nq
        self.asked: deque[Callable[[], None]] = deque()
        self.pushed = PushArrow(server)
        script = walker.tour(TOUR)
        self._tour, self._time = scripted(script), script[1][0]
        self.measured = self.gui.add_markdown("")
        self._above()
        with self.gui.add_folder("Command"):
            dials = zip(walker.labels, walker.command_ranges, walker.still, strict=True)
            step = 0.05 if walker.steers else None
            self.sliders = [Dial(self.gui, name, limits, value, step=step) for name, limits, value in dials]
            self.touring = self.gui.add_checkbox(
                "tour", touring, hint="go through the commands until a slider is moved"
            )
            self._button("Stop", self._stop)
        if self.moves:
            with self.gui.add_folder("Push"):
                self.strength = self.gui.add_slider("by [m/s]", min=0.1, max=2.0, step=0.1, initial_value=PUSH)
                ways = self.gui.add_button_group("push", tuple(PUSHES))
                ways.on_click(lambda event: self.asked.append(functools.partial(self._push, event.target.value)))
        self._below()
        with self.gui.add_folder("View"):
            self.paused = self.gui.add_checkbox("pause", False)
            self.follow = self.gui.add_checkbox("follow", True, visible=self.moves)
            self._button("Start again", walker.reset)
        self._told = self._wanted()

    def _above(self) -> None:
        """Add what stands above the command."""

    def _below(self) -> None:
        """Add what stands below the pushes."""

    def _button(self, label: str, action: Callable[[], None]) -> None:
        self.gui.add_button(label).on_click(lambda _: self.asked.append(action))

    def do(self) -> None:
        """Do what was asked for on the page since the last call."""
        while self.asked:
            self.asked.popleft()()
        while self.remote.asked:
            what = self.remote.asked.popleft()
            if what == "again":
                self.walker.reset()
            elif self.moves:
                self._push(what)

    def command(self) -> Array:
        """Command of the next control step, (D,): the tour's, which ends when a slider is moved, or the sliders'.

        Keys, gamepad and sticks move the sliders.
        """
        if self.walker.steers and (shares := self.remote.shares()) is not None:
            self.touring.value = False
            ranges = self.walker.command_ranges
            self._tell(
                tuple(share * (high if share > 0 else -low) for share, (low, high) in zip(shares, ranges, strict=True))
            )
        if self.touring.value and self._wanted() != self._told:
            self.touring.value = False
        if self.touring.value:
            self._tell(self._tour(self._time % TOUR))
            self._time += self.walker.control_dt
        return np.array(self._wanted())

    def look(self) -> None:
        """Note what the page shows of the last step."""

    def show(self) -> None:
        """Bring the page up to date."""
        if self.moves:
            columns = {
                "command": self._wanted() if self.walker.steers else None,
                "measured": self.walker.velocity(),
                "policy's estimate": self.walker.own(),
            }
            self.measured.content = "\n".join(velocity_table(columns))
            base = self.walker.qpos[self.walker.base_qpos : self.walker.base_qpos + 3]
            self.pushed.show(base - self.scene.shift)

    def paint(self, dark: bool) -> None:
        """Paint what has other colours on a dark page."""

    def _wanted(self) -> tuple[float, ...]:
        return tuple(slider.value for slider in self.sliders)

    def _tell(self, command: tuple[float, ...]) -> None:
        for slider, value in zip(self.sliders, command, strict=True):
            slider.value = value
        self._told = self._wanted()

    def _stop(self) -> None:
        self.touring.value = False
        self._tell(self.walker.still)

    def _push(self, name: str) -> None:
        forward, left = PUSHES[name]
        cos, sin = np.cos(self.walker.heading()), np.sin(self.walker.heading())
        velocity = self.strength.value * np.array([cos * forward - sin * left, sin * forward + cos * left])
        self.walker.push(velocity)
        self.pushed.begin(velocity)


class BundlePanel(Panel):
    """A bundle's panel: floor and payload can be changed as well, and the feet are watched."""

    walker: BundleWalker

    def __init__(self, walker: BundleWalker, server: Any, scene: Scene, touring: bool = False):
        self.diagram = GaitDiagram(walker.robot.plant.foot_names, walker.control_dt)
        self.drawn, self.contacts = 0.0, walker.contacts()
        self.colour, self.dark = PLAIN, False
        super().__init__(walker, server, scene, touring)
        self.arrows = Arrows(server, "/forces")
        self.paint(self.dark)

    def _above(self) -> None:
        self.gait = self.gui.add_html("")

    def _below(self) -> None:
        self.floors = floors()
        self.nominal_friction = self.walker.surroundings.friction
        with self.gui.add_folder("Floor"):
            self.floor = self.gui.add_dropdown("contacts", tuple(self.floors))
            self.friction = self.gui.add_slider(
                "friction", min=0.05, max=1.5, step=0.05, initial_value=round(self.nominal_friction, 2)
            )
        with self.gui.add_folder("Load"):
            self.payload = self.gui.add_slider("payload [kg]", min=0.0, max=20.0, step=0.5, initial_value=0.0)
            self.forces = self.gui.add_checkbox("show forces", True)
        for handle, action in (
            (self.floor, self._lay_floor),
            (self.friction, self._lay_floor),
            (self.payload, self._load),
        ):
            handle.on_update(lambda _, action=action: self.asked.append(action))

    def look(self) -> None:
        self.contacts = self.walker.contacts()
        self.diagram.add(self.contacts.foot, self.contacts.force[:, 2])

    def show(self) -> None:
        super().show()
        if time.monotonic() - self.drawn > DRAWN_S:
            self.drawn = time.monotonic()
            self.gait.content = self.diagram.html(self.walker.surroundings.weight)
        if self.forces.value:
            size = (
                1.0 / self.walker.surroundings.weight
            )  # a foot that carries the whole robot has an arrow of one metre
            self.arrows.show(self.contacts.point - self.scene.shift, size * self.contacts.force, self.contacts.sliding)
        else:
            self.arrows.hide()

    def _lay_floor(self) -> None:
        ground = self.walker.surroundings
        ground.lay_floor(self.floors[self.floor.value])
        ground.friction = self.friction.value
        share = self.friction.value / self.nominal_friction
        self.colour = SLIPPERY if share < 0.6 else ROUGH if share > 1.3 else PLAIN
        self.paint(self.dark)

    def paint(self, dark: bool) -> None:
        self.dark = dark
        red, green, blue = (round(DARKER * part) if dark else part for part in self.colour)
        self.scene.paint_floor((red, green, blue))

    def _load(self) -> None:
        self.walker.surroundings.set_payload(self.payload.value)
        self.scene.show_payload(self.payload.value)
