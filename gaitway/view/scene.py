"""An interactive view of a walker in a web browser."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mujoco
import numpy as np

from ..errors import UserError
from .walkers import Array, Walker

FRAME_S = 1 / 40  # between pictures
PUSH = 1.0  # [m/s]


def check_port(host: str, port: int) -> None:
    """Raise if nothing can listen there."""
    if not 0 < port < 65536:
        raise UserError(f"--port {port}: choose a port between 1024 and 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = "is in use" if error.errno == 98 else f"cannot be opened ({error.strerror})"
            raise UserError(f"port {port} on {host} {reason}: choose another with --port") from None


@contextmanager
def page(name: str, host: str, port: int, text: str) -> Iterator[Any]:
    """A server of pages while the block runs; ``text`` is printed with its address in the place of ``URL``."""
    import viser

    check_port(host, port)
    server = viser.ViserServer(host=host, port=port, label=f"Gaitway: {name}", verbose=False)
    print(text.replace("URL", f"http://{'localhost' if host == '0.0.0.0' else host}:{port}"), flush=True)
    try:
        yield server
    finally:
        server.stop()


def serve(name: str, host: str, port: int, loop: Callable[[Any], None]) -> None:
    """Run ``loop`` with a server of pages until it returns or Ctrl-C ends it."""
    with page(name, host, port, f"{name}: open URL (Ctrl-C ends)") as server:
        try:
            loop(server)
        except KeyboardInterrupt:
            print()


def view(walker: Walker, host: str, port: int, seconds: float | None = None) -> None:
    """Serve until Ctrl-C, or for ``seconds``."""
    serve(walker.name, host, port, lambda server: _loop(walker, server, seconds))


def _loop(walker: Walker, server: Any, seconds: float | None) -> None:
    scene = Scene(walker.model, server, walker.base_qpos)
    panel = Panel(walker, server)
    start = clock = time.monotonic()
    picture = 0.0
    while seconds is None or clock - start < seconds:
        if not panel.paused.value:
            walker.step(panel.command())
        now = time.monotonic()
        if now - picture >= FRAME_S:
            picture = now
            scene.show(walker.qpos, follow=panel.follow.value)
            panel.show(walker.velocity())
        # A machine too slow for real time shows slow motion rather than falling ever further behind.
        clock = max(clock + walker.control_dt, now - walker.control_dt)
        time.sleep(max(0.0, clock - now))


class Panel:
    """Commands in, measured velocity out."""

    def __init__(self, walker: Walker, server: Any):
        gui = server.gui
        self.measured = gui.add_markdown("")
        with gui.add_folder("Command"):
            self.sliders = [
                gui.add_slider(name, min=low, max=high, step=0.05, initial_value=0.0)
                for name, (low, high) in zip(
                    ("forward [m/s]", "left [m/s]", "turn left [rad/s]"), walker.command_ranges, strict=True
                )
            ]
            gui.add_button("Stop").on_click(lambda _: self._stop())
        with gui.add_folder("World"):
            gui.add_button("Push").on_click(lambda _: walker.push(random_push()))
            gui.add_button("Start again").on_click(lambda _: walker.reset())
            self.paused = gui.add_checkbox("Pause", False)
            self.follow = gui.add_checkbox("Follow the robot", True)

    def command(self) -> Array:
        return np.array([slider.value for slider in self.sliders])

    def show(self, velocity: Array) -> None:
        rows = zip(("forward", "left", "turn"), self.command(), velocity, ("m/s", "m/s", "rad/s"), strict=True)
        lines = [f"| {name} | {want:+.2f} | {have:+.2f} {unit} |" for name, want, have, unit in rows]
        self.measured.content = "\n".join(["| | command | measured |", "|---|---|---|", *lines])

    def _stop(self) -> None:
        for slider in self.sliders:
            slider.value = 0.0


class Scene:
    """The model's geoms as meshes on one frame for each body."""

    def __init__(self, model: mujoco.MjModel, server: Any, base_qpos: int):
        self.model, self.data, self.server, self.base = model, mujoco.MjData(model), server, base_qpos
        scene = server.scene
        scene.set_up_direction("+z")
        server.initial_camera.position, server.initial_camera.look_at = (1.8, -1.8, 1.0), (0.0, 0.0, 0.3)
        self.floor = scene.add_grid("/floor", width=40.0, height=40.0, cell_size=0.5, section_size=1.0)
        self.bodies = {body: scene.add_frame(f"/robot/{body}", show_axes=False) for body in range(1, model.nbody)}
        groups = model.geom_group[model.geom_bodyid > 0]
        shown = groups < 3 if (groups < 3).any() else groups >= 0
        for geom in np.flatnonzero(model.geom_bodyid > 0)[shown]:
            mesh = _mesh(model, int(geom))
            if mesh is not None:
                scene.add_mesh_simple(
                    f"/robot/{model.geom_bodyid[geom]}/{geom}",
                    np.asarray(mesh[0], np.float32),
                    np.asarray(mesh[1], np.uint32),
                    color=tuple(float(c) for c in _rgba(model, int(geom))[:3]),
                    position=model.geom_pos[geom],
                    wxyz=model.geom_quat[geom],
                )

    def show(self, qpos: Array, *, follow: bool) -> None:
        """Pose the robot. Following moves the floor below a robot that stays, so that the camera is the user's own."""
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, self.data)
        shift = np.array([*qpos[self.base : self.base + 2], 0.0]) if follow else np.zeros(3)
        with self.server.atomic():
            self.floor.position = -np.mod(shift, 1.0)
            for body, frame in self.bodies.items():
                frame.position, frame.wxyz = self.data.xpos[body] - shift, self.data.xquat[body]


def _mesh(model: mujoco.MjModel, geom: int) -> tuple[Array, Array] | None:
    """Vertices [m] and faces of a geom in its own frame; None for planes and height fields."""
    import trimesh

    kind, size = mujoco.mjtGeom(model.geom_type[geom]), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        vertices, faces = (int(x) for x in (model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]))
        return (
            model.mesh_vert[vertices : vertices + model.mesh_vertnum[mesh]],
            model.mesh_face[faces : faces + model.mesh_facenum[mesh]],
        )
    creation = trimesh.creation
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        made = creation.box(extents=2 * size)
    elif kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        made = creation.icosphere(subdivisions=2, radius=size[0])
    elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        made = creation.capsule(radius=size[0], height=2 * size[1], count=[16, 16])
        made.apply_translation(-made.bounds.mean(0))
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        made = creation.cylinder(radius=size[0], height=2 * size[1], sections=24)
    elif kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        made = creation.icosphere(subdivisions=2)
        made.apply_scale(size)
    else:
        return None
    return np.asarray(made.vertices), np.asarray(made.faces)


def _rgba(model: mujoco.MjModel, geom: int) -> Array:
    material = int(model.geom_matid[geom])
    return model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]


def random_push() -> Array:
    """A velocity [m/s] in the plane, shape (2,)."""
    angle = np.random.default_rng().uniform(0.0, 2.0 * np.pi)
    return PUSH * np.array([np.cos(angle), np.sin(angle)])
