"""Films of Gymnasium's tasks and Atari games, played by a trained policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gaitway_files.writing import whole_file
from gaitway_sim2real.mujoco.encoder import encoder

from ..runs.choice import Which
from ..runs.files import make_folder
from ..runs.folder import RunFolder
from ..training.load import trainer_of
from ..training.progress import Counter

SEED = 30_000  # not one that training or evaluation has seen


def film_game(folder: Path, out: Path, seconds: float, which: Which = None) -> str:
    """Film a policy of a run for ``seconds`` of its task's own time; says how the episodes went."""
    run = RunFolder.open(folder)
    config = run.config()
    env, picture, fps = config.environments.pictured(config.task, SEED)
    trainer = trainer_of(run, env, which)
    observation, _ = env.reset(seed=SEED)
    memory = trainer.initial_memory(1)
    returns: list[float] = []
    first = picture(observation)
    make_folder(out.absolute().parent)
    height, width = (size // 2 * 2 for size in first.shape[:2])
    with whole_file(out) as partial, torch.no_grad(), encoder(partial, (width, height), fps, quality=8) as add:
        for _ in Counter("film", "frames").each(range(max(1, round(seconds * fps)))):
            add(np.ascontiguousarray(picture(observation)[:height, :width]))
            action, memory = trainer.predict(observation | memory)
            observation, _, terminated, truncated, info = env.step(action)
            memory = {name: value * ~(terminated | truncated)[:, None] for name, value in memory.items()}
            if "episode" in info:
                returns.append(float(info["episode"]["r"][0]))
    env.close()
    return f"returns of its episodes: {', '.join(f'{r:.1f}' for r in returns)}" if returns else "no episode ended in it"
