"""An interactive view of a walker in a web browser."""

from __future__ import annotations

import errno
import socket
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from secrets import token_urlsafe
from typing import Any

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_sim2real.mujoco.model import ground_height
from gaitway_tasks.robots.mjcf import ground_geoms

from ..training.interrupt import stop_requests
from .guard import TOKEN, guarded, restrict
from .remote import Remote
from .walkers import Array

FRAME_S = 1 / 40  # between pictures
PUSH = 1.0  # [m/s]
BLUE, RED, BROWN, GROUND = (38, 110, 196), (214, 64, 48), (150, 110, 70), (206, 209, 213)
ORANGE = (225, 95, 0)
SKY, DARK_SKY = (244, 247, 250), (24, 28, 34)
PUSH_SHOWN_S, BESIDE_M = 0.7, 0.5  # how long a push's arrow is seen, and how far from the base's centre it ends
PAYLOAD_DENSITY = 600.0  # [kg/m^3]


def check_port(host: str, port: int) -> None:
    """Raise if nothing can listen there."""
    if not 0 < port < 65536:
        raise UserError(f"--port {port}: choose a port between 1024 and 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
            option = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
            raise UserError(f"port {port} on {host} {reason}: choose another with {option}") from None


@contextmanager
def page(name: str, host: str, port: int, text: str, *, browse: bool = False) -> Iterator[Any]:
    """A server of pages while the block runs; ``text`` is printed with its address in the place of ``URL``.

    The address has the token that a browser must show. The server has it as ``address``, and the pages' ``remote``.

    ``browse`` opens the page in a browser.
    """
    import viser

    check_port(host, port)
    token, remote = token_urlsafe(16), Remote(name)
    with redirect_stdout(StringIO()), guarded(host, port, token, remote):  # viser's own greeting
        server = viser.ViserServer(host=host, port=port, label=f"Gaitway: {name}", verbose=False)
    restrict(server)
    server.remote = remote
    set_theme(server, dark=False)
    address = f"http://{'localhost' if host == '0.0.0.0' else host}:{port}/?{TOKEN}={token}"
    server.address = address
    print(text.replace("URL", address), flush=True)
    if browse and not webbrowser.open(address):
        print("no browser could be opened here: open this address in one", flush=True)
    try:
        yield server
    finally:
        with redirect_stdout(StringIO()):
            server.stop()


def set_theme(server: Any, *, dark: bool) -> None:
    """Light or dark colours of the page."""
    server.gui.configure_theme(show_logo=False, show_share_button=False, dark_mode=dark)
    server.scene.set_background_image(np.full((1, 1, 3), DARK_SKY if dark else SKY, np.uint8))  # seen in recordings too


Turn = Callable[[], object]
"""One turn of a page's loop."""


def serve(
    name: str, host: str, port: int, start: Callable[[Any], Turn], seconds: float | None = None, *, browse: bool = False
) -> None:
    """Call what ``start(server)`` returns again and again, for ``seconds`` or until Ctrl-C or SIGTERM.

    ``browse`` opens the page in a browser. Signals are noted, not raised: an exception would be lost if it came
    while a library that catches everything is imported.
    """
    with stop_requests() as stop, page(name, host, port, f"{name}: open URL (Ctrl-C ends)", browse=browse) as server:
        turn, begun = start(server), time.monotonic()
        while stop.signal is None and (seconds is None or time.monotonic() - begun < seconds):
            turn()
    if stop.signal is not None:
        print()


def velocity_table(columns: Mapping[str, Sequence[float] | Array | None]) -> list[str]:
    """Lines of Markdown with forward, left [m/s] and turn [rad/s] of each column, "-" where it is NaN.

    A column that is None is left out.
    """
    shown = {title: values for title, values in columns.items() if values is not None}
    lines = [f"| | {' | '.join(shown)} | |", "|---" * (len(shown) + 2) + "|"]
    for k, (name, unit) in enumerate((("forward", "m/s"), ("left", "m/s"), ("turn", "rad/s"))):
        numbers = ("-" if np.isnan(values[k]) else f"{values[k]:+.2f}" for values in shown.values())
        lines.append(f"| {name} | {' | '.join(numbers)} | {unit} |")
    return lines


UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])
GLIDE = 0.1  # share of the way that a followed robot's ground moves from one picture to the next, up or down


class Scene:
    """The model's geoms as meshes on one frame for each body, on a grid, or on the ground that the model has.

    ``base_qpos`` is where the base's place is in ``qpos``; its end for a base that is fixed.
    """

    def __init__(self, model: mujoco.MjModel, server: Any, base_qpos: int):
        self.model, self.data, self.server, self.base = model, mujoco.MjData(model), server, base_qpos
        scene = server.scene
        scene.set_up_direction("+z")
        server.initial_camera.position, server.initial_camera.look_at = (1.8, -1.8, 1.0), (0.0, 0.0, 0.3)
        mujoco.mj_kinematics(model, self.data)
        meshes = {int(geom): _mesh(model, int(geom)) for geom in ground_geoms(model)}
        planes = [model.geom_quat[geom] for geom, mesh in meshes.items() if mesh is None]
        turn = planes[0] if planes else UPRIGHT
        self.level = bool(planes) and np.array_equal(turn, UPRIGHT)
        self.floor = scene.add_grid(
            "/floor", width=40.0, height=40.0, cell_size=0.5, section_size=1.0, wxyz=turn, visible=bool(planes)
        )
        self.ground = scene.add_frame("/ground", show_axes=False)
        self.tiles = [
            self._add(f"/ground/{geom}", geom, mesh, GROUND) for geom, mesh in meshes.items() if mesh is not None
        ]
        self.shift: Array = np.zeros(3)
        """Position in the world [m] that the page shows at its origin, (3,)."""
        self.bodies = {body: scene.add_frame(f"/robot/{body}", show_axes=False) for body in range(1, model.nbody)}
        groups = model.geom_group[model.geom_bodyid > 0]
        shown = groups < 3 if (groups < 3).any() else groups >= 0
        for geom in np.flatnonzero(model.geom_bodyid > 0)[shown]:
            mesh = _mesh(model, int(geom))
            if mesh is not None:
                colour = tuple(float(c) for c in _rgba(model, int(geom))[:3])
                self._add(f"/robot/{model.geom_bodyid[geom]}/{geom}", int(geom), mesh, colour)

    def _add(self, name: str, geom: int, mesh: tuple[Array, Array], colour: Any) -> Any:
        """Add a geom, whose ``mesh`` is in its own frame, below its body's."""
        return self.server.scene.add_mesh_simple(
            name,
            np.asarray(mesh[0], np.float32),
            np.asarray(mesh[1], np.uint32),
            color=colour,
            flat_shading=name.startswith("/ground"),
            position=self.model.geom_pos[geom],
            wxyz=self.model.geom_quat[geom],
        )

    def show(self, qpos: Array, *, follow: bool) -> None:
        """Pose the robot. Following moves the floor below a robot that stays, so that the camera is the user's own."""
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, self.data)
        moves = follow and self.base < self.model.nq
        self.shift = shift = self._under(qpos[self.base : self.base + 2]) if moves else np.zeros(3)
        with self.server.atomic():
            self.floor.position = -np.mod(shift, 1.0) if self.level else -shift
            self.ground.position = -shift
            for body, frame in self.bodies.items():
                frame.position, frame.wxyz = self.data.xpos[body] - shift, self.data.xquat[body]

    def _under(self, xy: Array) -> Array:
        """The ground under the robot [m], (3,); its height follows gently, since stairs are steep."""
        if self.level:
            return np.array([*xy, 0.0])
        return np.array([*xy, self.shift[2] + GLIDE * (ground_height(self.data, xy) - self.shift[2])])

    def paint_floor(self, colour: tuple[int, int, int]) -> None:
        self.floor.plane_color, self.floor.plane_opacity = colour, 1.0
        for tile in self.tiles:
            tile.color = colour

    def show_payload(self, kilograms: float) -> None:
        """Put a box of that weight on the base; none for 0."""
        body = int(self.model.jnt_bodyid[np.flatnonzero(self.model.jnt_qposadr == self.base)[0]])
        name = f"/robot/{body}/payload"
        if kilograms <= 0.0:
            self.server.scene.remove_by_name(name)
            return
        side = float(np.cbrt(kilograms / PAYLOAD_DENSITY))
        geoms = np.flatnonzero(
            (self.model.geom_bodyid == body) & (self.model.geom_contype + self.model.geom_conaffinity > 0)
        )
        top = max((float(self.model.geom_pos[g, 2] + self.model.geom_aabb[g, 5]) for g in geoms), default=0.1)
        self.server.scene.add_box(name, color=BROWN, dimensions=(side,) * 3, position=(0.0, 0.0, top + side / 2))


class Arrows:
    """Forces as arrows: blue, or red where a contact slides."""

    def __init__(self, server: Any, name: str, *, plain: tuple[int, int, int] = BLUE):
        self.server, self.name, self.plain = server, name, plain
        self.handle: Any = None

    def show(self, start: Array, along: Array, marked: Array) -> None:
        """Draw arrows from ``start`` [m] for ``along`` [m], (C, 3) each; ``marked`` ones, (C,) bool, are red."""
        if not len(start):
            self.hide()
            return
        colours = np.where(marked[:, None], RED, self.plain).astype(np.uint8)
        points = np.stack([start, start + along], axis=1).astype(np.float32)
        if self.handle is None:
            self.handle = self.server.scene.add_arrows(
                self.name, points, colours, shaft_radius=0.02, head_radius=0.045, head_length=0.09
            )
        with self.server.atomic():
            self.handle.points, self.handle.colors, self.handle.visible = points, colours, True

    def hide(self) -> None:
        if self.handle is not None:
            self.handle.visible = False


class PushArrow:
    """The last push as an arrow, which comes from where it hits the base; a velocity step acts at once, so it stays."""

    def __init__(self, server: Any):
        self._arrows, self._until = Arrows(server, "/push", plain=ORANGE), 0.0
        self._velocity: Array = np.zeros(2)

    def begin(self, velocity: Array) -> None:
        """Show a push by ``velocity`` [m/s], (2,), in the world's plane."""
        self._velocity, self._until = velocity, time.monotonic() + PUSH_SHOWN_S

    def show(self, base: Array) -> None:
        """Draw it at a ``base`` [m], (3,), in the page's frame, or hide it when its time is over."""
        if time.monotonic() > self._until:
            self._arrows.hide()
            return
        along = np.array([[*self._velocity, 0.0]])
        self._arrows.show(base - (1.0 + BESIDE_M / np.linalg.norm(along)) * along, along, np.zeros(1, bool))


def _mesh(model: mujoco.MjModel, geom: int) -> tuple[Array, Array] | None:
    """Vertices [m] and faces of a geom in its own frame; None for planes."""
    import trimesh

    kind, size = mujoco.mjtGeom(model.geom_type[geom]), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        vertices, faces = (int(x) for x in (model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]))
        return (
            model.mesh_vert[vertices : vertices + model.mesh_vertnum[mesh]],
            model.mesh_face[faces : faces + model.mesh_facenum[mesh]],
        )
    if kind == mujoco.mjtGeom.mjGEOM_HFIELD:
        return _surface(model, int(model.geom_dataid[geom]))
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


def _surface(model: mujoco.MjModel, field: int) -> tuple[Array, Array]:
    """Vertices [m] and faces of a height field, each cell cut along the same diagonal as MuJoCo does."""
    rows, columns, first = (int(x[field]) for x in (model.hfield_nrow, model.hfield_ncol, model.hfield_adr))
    x, y, top, _ = model.hfield_size[field]
    z = top * model.hfield_data[first : first + rows * columns]
    grid = np.meshgrid(np.linspace(-x, x, columns), np.linspace(-y, y, rows))
    corner = np.arange(rows * columns).reshape(rows, columns)[:-1, :-1].ravel()
    right, up, across = corner + 1, corner + columns, corner + columns + 1
    faces = np.concatenate([np.stack([corner, right, across], 1), np.stack([corner, across, up], 1)])
    return np.stack([grid[0].ravel(), grid[1].ravel(), z], 1), faces


def _rgba(model: mujoco.MjModel, geom: int) -> Array:
    material = int(model.geom_matid[geom])
    return model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]


def random_push() -> Array:
    """A velocity [m/s] in the plane, shape (2,)."""
    angle = np.random.default_rng().uniform(0.0, 2.0 * np.pi)
    return PUSH * np.array([np.cos(angle), np.sin(angle)])
