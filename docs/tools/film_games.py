"""Films of games side by side, for docs/images/games.webp.

    python benchmarks/scores.py --only pong-sticky-ppo breakout-sticky-ppo
    gaitway play runs/scores/pong-sticky-ppo/seed1 --video pong.mp4 --seconds 30
    gaitway play runs/scores/breakout-sticky-ppo/seed2 --video breakout.mp4 --seconds 30
    python docs/tools/film_games.py pong.mp4 breakout.mp4 docs/images/games.webp

Each film has the name of its game, whose colours it is given.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from film_hour import pictures
from PIL import Image

SCREEN = (160, 210)
"""Width and height of the console's screen [pixels]; shown twice as large."""
COLOURS = {
    "pong": [(0, 0, 0), (236, 236, 236), (144, 72, 17), (213, 130, 74), (92, 186, 92)],
    "breakout": [
        (0, 0, 0), (142, 142, 142), (200, 72, 72), (198, 108, 58), (180, 122, 48), (162, 162, 42), (72, 160, 72),
        (66, 72, 200), (66, 158, 130),
    ],
}  # fmt: skip
"""Those of each game's screen [0 to 255]; with them alone a film has no noise and is small."""
PERIOD_MS = 67
"""Between two pictures: every fourth of the console's 60 frames a second is seen."""


def screens(film: Path) -> Iterator[np.ndarray]:
    """Screens of a game, (2 H, 2 W, 3), of the film that has its name."""
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for colour in COLOURS[film.stem] for value in colour])
    for picture in pictures(film):
        screen = Image.fromarray(picture).resize(SCREEN, Image.Resampling.BOX)
        snapped = screen.quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB")
        yield np.asarray(snapped).repeat(2, axis=0).repeat(2, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("films", type=Path, nargs="+", help="pong.mp4 and breakout.mp4, by gaitway play --video")
    parser.add_argument("out", type=Path, help="animated .webp")
    args = parser.parse_args()
    if unknown := [film for film in args.films if film.stem not in COLOURS]:
        parser.error(f"{unknown[0]}: call it {' or '.join(f'{game}.mp4' for game in COLOURS)}, after the game it shows")
    games = zip(*map(screens, args.films), strict=True)
    shown = [Image.fromarray(np.concatenate(game, axis=1)) for game in games]
    shown[0].save(args.out, save_all=True, append_images=shown[1:], duration=PERIOD_MS, loop=0, lossless=True, method=6)
    print(f"{args.out}: {len(shown)} pictures, {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
