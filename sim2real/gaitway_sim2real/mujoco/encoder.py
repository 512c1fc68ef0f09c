"""Encoder of films."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def encoder(path: Path, size: tuple[int, int], fps: float, **options: Any) -> Iterator[Callable[[np.ndarray], None]]:
    """Context in which the function takes the pictures of the film ``path``, (height, width, 3) of uint8.

    ``options`` are imageio-ffmpeg's. If the block is left by an exception, ffmpeg is killed before it can complain
    about its unfinished file.
    """
    import imageio_ffmpeg

    writer = imageio_ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2, **options)
    writer.send(None)
    try:
        yield writer.send
    except BaseException:
        with contextlib.suppress(KeyboardInterrupt):
            writer.throw(KeyboardInterrupt)  # it kills ffmpeg for this one only
        raise
    writer.close()
