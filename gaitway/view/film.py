"""Films of Gymnasium's tasks and Atari games, played by a trained policy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import torch
from gaitway_agents.vector import adapt
from gaitway_files.writing import whole_file
from gaitway_gymnasium import GymTask
from numpy.typing import NDArray

from ..errors import RunError
from ..runs.files import make_folder
from ..runs.folder import RunFolder
from ..training.load import load_trainer
from ..training.progress import Counter

Frame = NDArray[np.uint8]
ATARI_FPS, ATARI_SCALE = 15, 5  # sixty frames a second, every fourth of which is seen
SEED = 30_000  # not one that training or evaluation has seen


def film_game(folder: Path, out: Path, seconds: float) -> str:
    """Film the newest policy of a run for ``seconds`` of its task's own time; says how the episodes went."""
    config, trainer, _ = load_trainer(RunFolder.open(folder))
    trainer.envs[0].close()
    env, picture, fps = _stage(config.task)
    observation, _ = env.reset(seed=SEED)
    memory = trainer.initial_memory(1)
    returns: list[float] = []
    first = picture(observation)
    make_folder(out.absolute().parent)
    height, width = (size // 2 * 2 for size in first.shape[:2])
    with whole_file(out) as partial, torch.no_grad():
        writer = imageio_ffmpeg.write_frames(str(partial), (width, height), fps=fps, macro_block_size=2, quality=8)
        writer.send(None)
        for _ in Counter("film", "frames").each(range(max(1, round(seconds * fps)))):
            writer.send(np.ascontiguousarray(picture(observation)[:height, :width]))
            action, memory = trainer.predict(observation | memory)
            observation, _, terminated, truncated, info = env.step(action)
            memory = {name: value * ~(terminated | truncated)[:, None] for name, value in memory.items()}
            if "episode" in info:
                returns.append(float(info["episode"]["r"][0]))
        writer.close()
    env.close()
    return f"returns of its episodes: {', '.join(f'{r:.1f}' for r in returns)}" if returns else "no episode ended in it"


def _stage(task: Any) -> tuple[Any, Callable[[Any], Frame], int]:
    """An environment that can be looked at, its picture for an observation, and pictures a second."""
    if not isinstance(task, GymTask):
        import gaitway_ale

        return adapt(gaitway_ale.make_env(task, 1, seed=SEED)), _console, ATARI_FPS
    import gaitway_gymnasium
    import gymnasium

    if task.env_id not in gymnasium.registry:
        raise RunError(f"{task.env_id} is EnvPool's, which draws no pictures: there is nothing to film")
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # Gymnasium's own choice needs a display
    probe = gymnasium.make(task.env_id, render_mode="rgb_array", disable_env_checker=True)
    fps = int(probe.metadata.get("render_fps", 30))
    drawing: dict[str, Any] = {"render_mode": "rgb_array"}
    model = getattr(probe.unwrapped, "model", None)
    if "track" in [model.camera(i).name for i in range(getattr(model, "ncam", 0))]:  # type: ignore[union-attr]
        drawing["camera_name"] = "track"  # a robot would run out of the default camera's view
    probe.close()
    drawn = replace(task, backend="gymnasium", vectorization="sync", kwargs={**task.kwargs, **drawing})
    inner = gaitway_gymnasium.make_env(drawn, 1, seed=SEED)
    return adapt(inner), lambda observation: np.asarray((inner.render() or ())[0], np.uint8), fps


def _console(observation: Any) -> Frame:
    """What the agent sees last, in grey."""
    seen = observation["policy"][0]
    if seen.dim() != 3:
        raise RunError("a game seen through its memory shows no pictures: train it with images to film it")
    grey = seen[-1].numpy().repeat(ATARI_SCALE, 0).repeat(ATARI_SCALE, 1)
    return np.stack([grey] * 3, -1)
