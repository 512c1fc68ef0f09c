"""Film an episode: the camera follows the base, arrows and bars compare commanded with measured velocity."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_files.writing import whole_file
from gaitway_onboard.bundle.contract import Contract, verify_files

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.plant import Plant, build_plant
from ..mujoco.rotation import quat_apply
from .showcase import Showcase, run_showcase

SIZE = (848, 480)
FPS = 25
BLUE, ORANGE, INK = (38, 110, 196), (226, 119, 28), (28, 32, 38)
Frames = Callable[[range], Iterable[int]]
"""Goes through the numbers of the frames, as ``iter`` does, and may say how far it is."""
COMPONENTS = (("vx", "m/s"), ("vy", "m/s"), ("yaw", "rad/s"))


class RenderingError(RuntimeError):
    """This machine cannot render offscreen, or a video cannot be encoded; validation itself does not need either."""


def record_video(bundle: Path, out: Path, *, model: Path | None = None, seconds: float | None = None) -> Path:
    """Run the showcase sequence of ``bundle`` and film it to ``out`` (mp4)."""
    bundle = Path(bundle)
    verify_files(bundle)
    contract, reference = Contract.load(bundle), bundle / "robot.xml"
    path = reference if model is None else Path(model)
    showcase = run_showcase(
        build_plant(contract, path, reference), contract, BatchedPolicy(bundle / "policy.onnx", contract, 1)
    )
    return render_episode(showcase, contract, path, reference, out, seconds=seconds)


def render_episode(
    showcase: Showcase,
    contract: Contract,
    model: Path,
    reference: Path,
    out: Path,
    *,
    size: tuple[int, int] = SIZE,
    seconds: float | None = None,
    frames: Frames = iter,
) -> Path:
    """Film a recorded episode of robot 0 to ``out``; nothing is left behind when it fails."""
    plant = build_plant(contract, model, reference, visual=True)
    rec = showcase.recording
    assert rec.qpos is not None, "only an episode simulated with keep_qpos can be filmed"
    steps = (
        int(rec.alive[:, 0].sum())
        if seconds is None
        else min(int(rec.alive[:, 0].sum()), round(seconds / rec.control_dt))
    )
    stride = max(1, round(1 / (FPS * rec.control_dt)))
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        import imageio_ffmpeg

        with Camera(plant.model, size) as camera, whole_file(out) as partial:
            writer = imageio_ffmpeg.write_frames(
                str(partial), size, fps=1 / (stride * rec.control_dt), codec="libx264", macro_block_size=2,
                output_params=["-crf", "27", "-preset", "veryfast", "-movflags", "+faststart"],
            )  # fmt: skip
            writer.send(None)
            for t in frames(range(0, steps, stride)):
                writer.send(_frame(camera, plant, showcase, t))
            writer.close()
    except ImportError as error:
        raise RenderingError(f"{error.name or error} is not installed: pip install gaitway[mujoco]") from None
    except (RuntimeError, AttributeError, OSError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RenderingError(
            f"no offscreen rendering here ({reason}): install libegl1 or set MUJOCO_GL=osmesa"
        ) from None
    return out


class Camera:
    """Offscreen rendering that follows a point. Frames are uint8 (H, W, 3)."""

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int]) -> None:
        self.model, self.data = model, mujoco.MjData(model)
        self.scene = mujoco.MjvScene(model, maxgeom=2000)
        self.camera = mujoco.MjvCamera()
        self.camera.distance, self.camera.azimuth, self.camera.elevation = 2.6, 120.0, -16.0
        self._option = mujoco.MjvOption()
        self._size = size
        self._rect = mujoco.MjrRect(0, 0, *size)

    def __enter__(self) -> Camera:
        self._gl = _gl_context(*self._size)
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
        """A soft shadow: nested flat ellipsoids on the ground, semi-axes ``size`` [m]."""
        turn = np.array([[np.cos(yaw), -np.sin(yaw), 0.0], [np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
        for layer, share in enumerate((1.0, 0.85, 0.7, 0.55)):
            geom = self.scene.geoms[self.scene.ngeom]
            axes = np.array([share * size[0], share * size[1], 0.0005])
            pos = np.array([center[0], center[1], 0.001 + 0.0005 * layer])
            color = np.array([0.0, 0.0, 0.0, alpha], np.float32)
            mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_ELLIPSOID, axes, pos, turn.ravel(), color)
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR
            geom.specular = geom.shininess = geom.reflectance = 0.0
            self.scene.ngeom += 1

    def shoot(self) -> np.ndarray:
        pixels = np.empty((self._size[1], self._size[0], 3), np.uint8)
        mujoco.mjr_render(self._rect, self.scene, self._context)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._context)
        return np.flipud(pixels)


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


def _frame(camera: Camera, plant: Plant, showcase: Showcase, t: int) -> np.ndarray:
    rec = showcase.recording
    assert rec.qpos is not None
    base = rec.base_pos[t, 0].astype(float)
    window = slice(max(0, t - 12), t + 13)  # half a second: the camera glides, it does not bob with the trunk
    camera.look(rec.qpos[t, 0], np.array([*rec.base_pos[window, 0, :2].mean(0), 0.42 * plant.start_height / 0.6]))
    _shadows(camera, plant, rec.base_quat[t, 0])
    for velocity, rgb, lift in ((rec.command[t, 0], BLUE, 0.0), (_smooth(rec.lin_vel[:, 0], t), ORANGE, 0.05)):
        start, planar = base + np.array([0.0, 0.0, 0.32 + lift]), np.array([velocity[0], velocity[1], 0.0])
        camera.arrow(start, start + 0.6 * quat_apply(rec.base_quat[t, 0], planar), rgb)
    measured = np.array([*_smooth(rec.lin_vel[:, 0], t)[:2], _smooth(rec.ang_vel[:, 0], t)[2]]).round(2) + 0.0
    return overlay(camera.shoot(), showcase.labels[t], rec.command[t, 0], measured, t * rec.control_dt)


def _shadows(camera: Camera, plant: Plant, quat: np.ndarray) -> None:
    """Blots under the trunk and the feet, fainter the higher they are."""
    forward = quat_apply(quat, np.array([1.0, 0.0, 0.0]))
    yaw, body = float(np.arctan2(forward[1], forward[0])), camera.data.xpos
    camera.blot(body[plant.base_body], yaw, (0.75 * plant.start_height, 0.4 * plant.start_height), 0.06)
    for name in plant.foot_names:
        foot = body[camera.model.body(name).id]
        camera.blot(foot, yaw, (0.05, 0.05), 0.12 * float(np.clip(1 - 4 * (foot[2] - 0.03), 0, 1)))


def _smooth(values: np.ndarray, t: int) -> np.ndarray:
    """Mean over the last 0.2 s or so, about a step of the gait: (T, d) -> (d,)."""
    return values[max(0, t - 10) : t + 1].mean(0)


def overlay(picture: np.ndarray, label: str, command: np.ndarray, measured: np.ndarray, time: float) -> np.ndarray:
    """Draw the panel with the command and, per component, a bar for the command and one for the measurement."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    unit = image.height / 540
    draw = ImageDraw.Draw(image, "RGBA")
    small, large = _font(round(14 * unit)), _font(round(18 * unit))
    left, top, width, height = (round(v * unit) for v in (18, 18, 292, 142))
    draw.rounded_rectangle((left, top, left + width, top + height), round(8 * unit), fill=(255, 255, 255, 205))
    draw.text((left + 14 * unit, top + 9 * unit), label, fill=INK, font=large)
    draw.text((left + width - 14 * unit, top + 12 * unit), f"{time:4.1f} s", fill=INK, font=small, anchor="ra")
    middle, scale = left + 126 * unit, 50 * unit
    for row, (name, unit_name) in enumerate(COMPONENTS):
        y = top + (44 + 25 * row) * unit
        draw.text((left + 14 * unit, y), name, fill=INK, font=small)
        draw.line((middle, y - 1 * unit, middle, y + 18 * unit), fill=(*INK, 110))
        for value, rgb, offset in ((command[row], BLUE, 1), (measured[row], ORANGE, 10)):
            end = middle + scale * float(np.clip(value, -1.25, 1.25))
            draw.rectangle((min(middle, end), y + offset * unit, max(middle, end), y + (offset + 7) * unit), fill=rgb)
        draw.text(
            (left + width - 14 * unit, y),
            f"{measured[row]:+.2f} {unit_name}".replace("-", "−"),
            fill=INK,
            font=small,
            anchor="ra",
        )
    y = top + 120 * unit
    for x, rgb, text in ((14, BLUE, "commanded"), (132, ORANGE, "measured")):
        draw.rectangle((left + x * unit, y + 3 * unit, left + (x + 10) * unit, y + 12 * unit), fill=rgb)
        draw.text((left + (x + 16) * unit, y - 1 * unit), text, fill=INK, font=small)
    return np.asarray(image)


def _font(size: int) -> Any:
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
