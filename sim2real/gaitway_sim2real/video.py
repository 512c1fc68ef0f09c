"""Draw a recorded motion to a video file.

Rendering runs in a process of its own: which OpenGL MuJoCo draws with is decided once, when it is first imported, and
a machine without a display needs another one than the default. A broken driver then also cannot take a run down.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

SIZE = (960, 544)  # pixels, multiples of 16 as video codecs want them


class VideoError(ValueError):
    """A video that could not be written, with what to install or change."""


def render_video(
    model: mujoco.MjModel,
    qpos: NDArray[np.floating],
    out: Path,
    *,
    fps: float,
    base: int,
    commands: Sequence[Sequence[float]] | None = None,
) -> None:
    """Write ``qpos`` (T, nq) as a video; the camera follows body ``base``.

    ``commands`` (T, 3), vx, vy, yaw rate in the base frame, are drawn as an arrow above the base.
    """
    if out.suffix not in (".mp4", ".gif", ".webm"):
        raise VideoError(f"video {out}: the name must end in .mp4, .webm or .gif")
    if not len(qpos):
        raise VideoError(f"video {out}: nothing was recorded")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder)
        mujoco.mj_saveModel(model, str(job / "model.mjb"))
        np.savez(
            job / "motion.npz",
            qpos=qpos,
            fps=fps,
            base=base,
            commands=np.zeros((len(qpos), 3)) if commands is None else np.asarray(commands),
        )
        partial = job / f"video{out.suffix}"
        failures = []
        for backend in [os.environ["MUJOCO_GL"]] if "MUJOCO_GL" in os.environ else ["egl", "osmesa", "glfw"]:
            done = subprocess.run(
                [sys.executable, "-m", "gaitway_sim2real.video", str(job), str(partial)],
                env={**os.environ, "MUJOCO_GL": backend, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                capture_output=True,
                text=True,
            )
            if done.returncode == 0:
                out.write_bytes(partial.read_bytes())
                return
            failures.append(f"{backend}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    raise VideoError(f"cannot draw {out} without OpenGL ({'; '.join(failures)}): install libegl1 or libosmesa6")


def _draw(job: Path, out: Path) -> None:
    """The child process: every frame of ``motion.npz``."""
    import imageio.v2 as imageio

    model = mujoco.MjModel.from_binary_path(str(job / "model.mjb"))
    motion = np.load(job / "motion.npz")
    base = int(motion["base"])
    model.vis.global_.offwidth, model.vis.global_.offheight = SIZE
    data = mujoco.MjData(model)
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.distance, camera.azimuth, camera.elevation = 4.5 * max(0.3, float(model.stat.extent) / 2.5), 135.0, -18.0
    look = motion["qpos"][0, :3].copy()
    with (
        mujoco.Renderer(model, SIZE[1], SIZE[0], max_geom=2000) as renderer,
        imageio.get_writer(out, fps=float(motion["fps"]), macro_block_size=1) as writer,
    ):
        for qpos, command in zip(motion["qpos"], motion["commands"], strict=True):
            data.qpos[:] = qpos
            mujoco.mj_forward(model, data)
            look += 0.1 * (data.xpos[base] - look)  # a camera that does not shake with the gait
            camera.lookat[:] = look
            renderer.update_scene(data, camera)
            _add_arrow(renderer.scene, data.xpos[base], data.xmat[base].reshape(3, 3), command)
            writer.append_data(renderer.render())


def _add_arrow(
    scene: mujoco.MjvScene, origin: NDArray[np.floating], turn: NDArray[np.floating], command: NDArray[np.floating]
) -> None:
    """The commanded velocity, level, 0.6 m long at 1 m/s, above the base."""
    if np.linalg.norm(command[:2]) < 0.05 or scene.ngeom >= scene.maxgeom:
        return
    heading = np.arctan2(turn[1, 0], turn[0, 0])
    cos, sin = np.cos(heading), np.sin(heading)
    start = origin + np.array([0.0, 0.0, 0.35])
    along = np.array([cos * command[0] - sin * command[1], sin * command[0] + cos * command[1], 0.0])
    geom = scene.geoms[scene.ngeom]
    green = np.array([0.1, 0.8, 0.2, 0.9], dtype=np.float32)
    mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_ARROW, np.zeros(3), np.zeros(3), np.eye(3).flatten(), green)
    mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_ARROW, 0.025, start, start + 0.6 * along)
    scene.ngeom += 1


if __name__ == "__main__":
    _draw(Path(sys.argv[1]), Path(sys.argv[2]))
