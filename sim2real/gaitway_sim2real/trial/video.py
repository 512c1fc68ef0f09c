"""The film of a validation, its showcase, and strips of pictures: of the showcase, and of a rung of a ladder."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.rotation import quat_apply

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.camera import Camera, RenderingError
from ..mujoco.film import COMPONENTS, Frames, film
from ..mujoco.plant import Plant, build_plant
from .scenario import Scenario
from .showcase import Showcase
from .simulate import Trajectory, simulate
from .suite import PICTURES, Suite
from .suites import suite_of

PICTURE = (320, 240)
"""Size of a strip's pictures [pixels]."""


def render_episode(
    suite: Suite,
    showcase: Showcase,
    contract: Contract,
    model: Path,
    reference: Path,
    out: Path,
    *,
    seconds: float | None = None,
    frames: Frames = iter,
) -> Path:
    """Film a showcase that was run on ``model`` until a fall, or its first ``seconds``, to ``out``."""
    rec, followed = showcase.recording, suite.followed(showcase)
    shown: Sequence[tuple[str, str]] = COMPONENTS
    if followed is None:
        shown = tuple(zip(contract.command_names, contract.command_units, strict=True))
    assert rec.qpos is not None, "only an episode simulated with keep_qpos can be filmed"
    steps = int(rec.alive[:, 0].sum())
    if seconds is not None:
        steps = min(steps, round(seconds / rec.control_dt))
    return film(
        build_plant(contract, model, reference, visual=True),
        rec.qpos[:steps, 0],
        rec.command[:steps, 0],
        None if followed is None else followed[:steps],
        showcase.labels,
        out,
        control_dt=rec.control_dt,
        frames=frames,
        components=shown,
    )


def film_strip(
    showcase: Showcase, shown: Mapping[int, str], contract: Contract, model: Path, reference: Path
) -> list[tuple[str, bytes]]:
    """Captions and JPEG pictures from the side of the control steps ``shown``.

    Raises :class:`RenderingError`.
    """
    if not shown:
        return []
    plant = build_plant(contract, model, reference, visual=True)
    return _shoot(plant, showcase.recording, shown, elevation=-6.0, distance=2.9)


def climb_strip(
    suite: Suite, rung: Scenario, contract: Contract, policy: BatchedPolicy, model: Path, reference: Path
) -> list[tuple[str, bytes]]:
    """Captions and JPEG pictures of one robot that walks head on over a rung of a ladder, to its end or fall.

    ``policy`` must be fresh and for one robot. Raises :class:`RenderingError`.
    """
    drawn = suite.draw(replace(rung, envs=1), contract, 0)
    plant = build_plant(contract, model, reference, ground=rung.ground)
    rec = simulate(plant, contract, policy, replace(drawn, yaw=np.zeros(1)), keep_qpos=True)
    steps = np.linspace(0, int(rec.alive[:, 0].sum()) - 1, PICTURES).round().astype(int).tolist()
    shown = {step: f"{(step + 1) * rec.control_dt:.1f} s" for step in steps}
    shown[steps[-1]] += f": {_end(rec)}"
    dressed = build_plant(contract, model, reference, ground=rung.ground, visual=True)
    return _shoot(dressed, rec, shown, elevation=-14.0, distance=3.6)


def _end(rec: Trajectory) -> str:
    if rec.crossed is not None and rec.crossed[0]:
        return "crossed"
    return f"fell, {rec.fall_cause[0]}" if rec.fall_cause[0] else "not across in time"


def _shoot(
    plant: Plant, rec: Trajectory, shown: Mapping[int, str], *, elevation: float, distance: float
) -> list[tuple[str, bytes]]:
    """Pictures of a recording's first robot from the side, as JPEG, with the captions of the control steps ``shown``.

    ``elevation`` [degrees] and ``distance`` (in initial heights of the base) are the camera's.
    """
    assert rec.qpos is not None
    shots = []
    try:
        from PIL import Image

        with Camera(plant.model, PICTURE) as camera:
            camera.camera.elevation, camera.camera.distance = elevation, distance * plant.start_height
            for t, caption in shown.items():
                ahead = quat_apply(rec.base_quat[t, 0].astype(float), np.array([1.0, 0.0, 0.0]))
                camera.camera.azimuth = 90.0 + float(np.degrees(np.arctan2(ahead[1], ahead[0])))
                place = rec.base_pos[t, 0, :2].astype(float)
                middle = float(plant.ground.height(place)) + 0.55 * plant.start_height
                camera.look(rec.qpos[t, 0], np.array([*place, middle]))
                jpeg = io.BytesIO()
                Image.fromarray(camera.shoot()).save(jpeg, "JPEG", quality=82)
                shots.append((caption, jpeg.getvalue()))
    except (ImportError, RuntimeError, AttributeError, OSError, mujoco.FatalError) as error:
        raise RenderingError(f"cannot render ({' '.join(str(error).split()) or type(error).__name__})") from error
    return shots


def record_video(bundle: Path, out: Path, *, model: Path | None = None, seconds: float | None = None) -> Path:
    """Run the showcase sequence of ``bundle`` and film it to ``out`` (mp4)."""
    bundle = Path(bundle)
    verify_files(bundle)
    contract, reference = Contract.load(bundle), bundle / "robot.xml"
    path = reference if model is None else Path(model)
    policy = BatchedPolicy(bundle / "policy.onnx", contract, 1)
    suite = suite_of(contract)
    showcase = suite.showcase(build_plant(contract, path, reference, gait=True), contract, policy)
    return render_episode(suite, showcase, contract, path, reference, out, seconds=seconds)
