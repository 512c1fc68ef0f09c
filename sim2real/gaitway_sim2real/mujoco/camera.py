"""Offscreen pictures of a simulated robot."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from gaitway_files.errors import NotDone

from .model import ground_height


class RenderingError(NotDone):
    """This machine cannot render offscreen, or a video cannot be encoded."""


FINER = 1.5
"""Pictures are rendered at this many times their size, then reduced: in software that smooths edges at half the cost of
sampling each pixel four times."""


STEEPER = (-16.0, -22.0, -28.0, -35.0, -45.0, -60.0)
"""Elevations of a camera that may have ground before it, the usual first [degrees]."""
EXTENT = 3.0
"""Largest extent of a scene that counts for the range of sight [m]; a course has ground for tens of metres."""
NEAR = 0.15
"""Distance between the ground and a line of sight [m]."""


class Camera:
    """Offscreen rendering that follows a point. Frames are uint8 (H, W, 3)."""

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int]) -> None:
        self.model, self.data = model, mujoco.MjData(model)
        model.stat.extent = min(model.stat.extent, EXTENT)  # what is nearer than a hundredth of it is cut away
        self.scene = mujoco.MjvScene(model, maxgeom=2000)
        self.camera = mujoco.MjvCamera()
        self.camera.distance, self.camera.azimuth, self.camera.elevation = 2.6, 120.0, STEEPER[0]
        self._option = mujoco.MjvOption()
        self._size = size
        self._fine = (round(FINER * size[0]), round(FINER * size[1]))
        self._rect = mujoco.MjrRect(0, 0, *self._fine)

    def __enter__(self) -> Camera:
        self._gl = _gl_context(*self._fine)
        self._gl.make_current()
        self._context = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        return self

    def __exit__(self, *_: object) -> None:
        self._context.free()
        self._gl.free()

    def look(self, qpos: np.ndarray, target: np.ndarray) -> None:
        """Pose the model and put ``target`` [m] in the middle of the picture."""
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        self.camera.lookat[:] = target
        kinds = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self.model, self.data, self._option, None, self.camera, kinds, self.scene)
        for flag in (mujoco.mjtRndFlag.mjRND_REFLECTION, mujoco.mjtRndFlag.mjRND_SHADOW):
            self.scene.flags[flag] = 0

    def rise_above_ground(self, targets: Sequence[np.ndarray]) -> None:
        """Look down as steeply as keeps the ground out of the way to each of ``targets`` [m], (3,)."""
        mujoco.mj_kinematics(self.model, self.data)
        for elevation in STEEPER:
            self.camera.elevation = elevation
            if all(self._sees(target) for target in targets):
                return

    def _sees(self, target: np.ndarray) -> bool:
        """True if the ground does not come near the line from the camera to ``target``."""
        turn, rise = np.radians(self.camera.azimuth), np.radians(-self.camera.elevation)
        back = -np.array([np.cos(turn) * np.cos(rise), np.sin(turn) * np.cos(rise), -np.sin(rise)])
        line = target + np.linspace(0.4, 1.2, 5)[:, None] * self.camera.distance * back
        return all(point[2] > ground_height(self.data, point) + NEAR for point in line)

    def arrow(self, start: np.ndarray, end: np.ndarray, rgb: tuple[int, int, int]) -> None:
        """Add an arrow to the scene of the current frame."""
        if np.linalg.norm(end - start) < 0.03:
            return
        geom = self.scene.geoms[self.scene.ngeom]
        color = np.array([*(c / 255 for c in rgb), 0.9], np.float32)
        mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_ARROW, np.zeros(3), np.zeros(3), np.eye(3).ravel(), color)
        mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_ARROW, 0.018, start, end)
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR
        self.scene.ngeom += 1

    def blot(self, center: np.ndarray, yaw: float, size: tuple[float, float], alpha: float) -> None:
        """A soft shadow: nested flat ellipsoids on the ground at ``center`` [m], (3,), semi-axes ``size`` [m]."""
        turn = np.array([[np.cos(yaw), -np.sin(yaw), 0.0], [np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
        for layer, share in enumerate((1.0, 0.85, 0.7, 0.55)):
            geom = self.scene.geoms[self.scene.ngeom]
            axes = np.array([share * size[0], share * size[1], 0.0005])
            pos = center + np.array([0.0, 0.0, 0.001 + 0.0005 * layer])
            color = np.array([0.0, 0.0, 0.0, alpha], np.float32)
            mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_ELLIPSOID, axes, pos, turn.ravel(), color)
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR
            geom.specular = geom.shininess = geom.reflectance = 0.0
            self.scene.ngeom += 1

    def shoot(self) -> np.ndarray:
        """The picture."""
        from PIL import Image

        pixels = np.empty((self._fine[1], self._fine[0], 3), np.uint8)
        mujoco.mjr_render(self._rect, self.scene, self._context)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._context)
        return np.asarray(Image.fromarray(pixels).resize(self._size, Image.Resampling.BILINEAR))[::-1]


def _gl_context(width: int, height: int) -> Any:
    """A context that needs no display. EGL directly, since MuJoCo reads MUJOCO_GL only once, when it is imported."""
    if (
        sys.platform == "linux"
        and os.environ.get("MUJOCO_GL", "egl").lower() == "egl"
        and not os.environ.get("DISPLAY")
    ):
        from mujoco.egl import GLContext
    else:
        from mujoco.rendering.classic.gl_context import GLContext
    return GLContext(width, height)
