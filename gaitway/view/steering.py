"""The page of a walker: commands, pushes, floor and payload go in; velocities, forces and contacts are shown."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from gaitway_onboard.control.commands import scripted, tour

from .gait_diagram import GaitDiagram
from .scene import FRAME_S, Arrows, Scene, Turn, serve, velocity_table
from .walkers import Array, BundleWalker, Walker

if TYPE_CHECKING:
    from gaitway_sim2real.mujoco.physics import Physics

PUSHES = {"ahead": (1.0, 0.0), "back": (-1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0)}
PUSH = 0.8  # [m/s]
TOUR, FIRST_LEG = 45.0, 5.0  # [s]; the first leg, in which it stands, is left out at first
DRAWN_S = 0.12  # between gait diagrams
AS_MODELLED = "as modelled"
PLAIN, SLIPPERY, ROUGH = (232, 234, 237), (186, 222, 247), (196, 190, 178)  # colours of the floor


def view(
    walker: Walker, host: str, port: int, seconds: float | None = None, *, touring: bool = False, browse: bool = False
) -> None:
    """Serve until Ctrl-C, or for ``seconds``.

    ``touring`` starts with a tour of the commands, ``browse`` opens the page in a browser.
    """
    serve(walker.name, host, port, lambda server: _step(walker, server, touring), seconds, browse=browse)


def _step(walker: Walker, server: Any, touring: bool) -> Turn:
    scene = Scene(walker.model, server, walker.base_qpos)
    panel = panel_of(walker, server, scene, touring)
    clock, picture = time.monotonic(), 0.0

    def turn() -> None:
        nonlocal clock, picture
        panel.do()
        if not panel.paused.value:
            walker.step(panel.command())
            panel.look()
        now = time.monotonic()
        if now - picture >= FRAME_S:
            picture = now
            scene.show(walker.qpos, follow=panel.follow.value)
            panel.show()
        # A machine too slow for real time shows slow motion rather than falling ever further behind.
        clock = max(clock + walker.control_dt, now - walker.control_dt)
        time.sleep(max(0.0, clock - now))

    return turn


def panel_of(walker: Walker, server: Any, scene: Scene, touring: bool = False) -> Panel:
    """The panel with all that this walker can do."""
    if isinstance(walker, BundleWalker):
        return BundlePanel(walker, server, scene, touring)
    return Panel(walker, server, touring)


def floors() -> dict[str, Physics]:
    """Contact models that a floor can change to below a robot that walks, by their titles."""
    from gaitway_sim2real.mujoco.floors import FLOORS, NOMINAL

    return {AS_MODELLED if name == NOMINAL else floor.title: floor.physics for name, floor in FLOORS.items()}


class Panel:
    """Commands and pushes in, measured velocity out. What the page's threads ask for is done between two steps."""

    def __init__(self, walker: Walker, server: Any, touring: bool = False):
        self.walker, self.gui = walker, server.gui
        self.asked: deque[Callable[[], None]] = deque()
        self._tour, self._time = scripted(tour(walker.command_ranges, TOUR)), FIRST_LEG
        self.measured = self.gui.add_markdown("")
        self._above()
        with self.gui.add_folder("Command"):
            names = ("forward [m/s]", "left [m/s]", "turn left [rad/s]")
            self.sliders = [
                self.gui.add_slider(name, min=low, max=high, step=0.05, initial_value=0.0)
                for name, (low, high) in zip(names, walker.command_ranges, strict=True)
            ]
            self.touring = self.gui.add_checkbox(
                "tour", touring, hint="go through the commands until a slider is moved"
            )
            self._button("Stop", self._stop)
        with self.gui.add_folder("Push"):
            self.strength = self.gui.add_slider("by [m/s]", min=0.1, max=2.0, step=0.1, initial_value=PUSH)
            ways = self.gui.add_button_group("push", tuple(PUSHES))
            ways.on_click(lambda event: self.asked.append(functools.partial(self._push, event.target.value)))
        self._below()
        with self.gui.add_folder("View"):
            self.paused = self.gui.add_checkbox("pause", False)
            self.follow = self.gui.add_checkbox("follow", True)
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

    def command(self) -> Array:
        """Command of the next control step, (3,): the tour's, which ends when a slider is moved, or the sliders'."""
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
        columns = {
            "command": self._wanted(),
            "measured": self.walker.velocity(),
            "policy's estimate": self.walker.own(),
        }
        self.measured.content = "\n".join(velocity_table(columns))

    def _wanted(self) -> tuple[float, ...]:
        return tuple(slider.value for slider in self.sliders)

    def _tell(self, command: tuple[float, ...]) -> None:
        for slider, value in zip(self.sliders, command, strict=True):
            rounded = round(20 * value) / 20
            if slider.value != rounded:
                slider.value = rounded
        self._told = self._wanted()

    def _stop(self) -> None:
        self.touring.value = False
        self._tell((0.0, 0.0, 0.0))

    def _push(self, name: str) -> None:
        forward, left = PUSHES[name]
        cos, sin = np.cos(self.walker.heading()), np.sin(self.walker.heading())
        self.walker.push(self.strength.value * np.array([cos * forward - sin * left, sin * forward + cos * left]))


class BundlePanel(Panel):
    """A bundle's panel: floor and payload can be changed as well, and the feet are watched."""

    walker: BundleWalker

    def __init__(self, walker: BundleWalker, server: Any, scene: Scene, touring: bool = False):
        self.scene = scene
        self.diagram = GaitDiagram(walker.robot.plant.foot_names, walker.control_dt)
        self.drawn, self.contacts = 0.0, walker.contacts()
        super().__init__(walker, server, touring)
        self.arrows = Arrows(server, "/forces")
        scene.paint_floor(PLAIN)

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
        self.scene.paint_floor(SLIPPERY if share < 0.6 else ROUGH if share > 1.3 else PLAIN)

    def _load(self) -> None:
        self.walker.surroundings.set_payload(self.payload.value)
        self.scene.show_payload(self.payload.value)
