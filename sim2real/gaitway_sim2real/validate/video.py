"""The film of a validation: its showcase."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.contract import Contract, verify_files

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.film import Frames, film
from ..mujoco.plant import build_plant
from .showcase import Showcase, run_showcase


def render_episode(
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
    rec = showcase.recording
    assert rec.qpos is not None, "only an episode simulated with keep_qpos can be filmed"
    steps = int(rec.alive[:, 0].sum())
    if seconds is not None:
        steps = min(steps, round(seconds / rec.control_dt))
    return film(
        build_plant(contract, model, reference, visual=True),
        rec.qpos[:steps, 0],
        rec.command[:steps, 0],
        np.hstack([rec.lin_vel[:steps, 0, :2], rec.ang_vel[:steps, 0, 2:]]),
        showcase.labels,
        out,
        control_dt=rec.control_dt,
        frames=frames,
    )


def record_video(bundle: Path, out: Path, *, model: Path | None = None, seconds: float | None = None) -> Path:
    """Run the showcase sequence of ``bundle`` and film it to ``out`` (mp4)."""
    bundle = Path(bundle)
    verify_files(bundle)
    contract, reference = Contract.load(bundle), bundle / "robot.xml"
    path = reference if model is None else Path(model)
    policy = BatchedPolicy(bundle / "policy.onnx", contract, 1)
    showcase = run_showcase(build_plant(contract, path, reference), contract, policy)
    return render_episode(showcase, contract, path, reference, out, seconds=seconds)
