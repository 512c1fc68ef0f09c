"""Films of games side by side, for docs/images/games.webp.

python benchmarks/scores.py --only pong-sticky-ppo breakout-sticky-ppo
gaitway play runs/scores/pong-sticky-ppo/seed1 --video pong.mp4 --seconds 30
gaitway play runs/scores/breakout-sticky-ppo/seed2 --video breakout.mp4 --seconds 30
python docs/tools/film_games.py pong.mp4 breakout.mp4 docs/images/games.webp
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from film_hour import pictures
from PIL import Image

SIZE = (320, 420)
"""Width and height of each game, twice those of the console's screen [pixels]."""
PERIOD_MS = 67
"""Between two pictures: every fourth of the console's 60 frames a second is seen."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("films", type=Path, nargs="+", help="films by gaitway play --video, of the same length")
    parser.add_argument("out", type=Path, help="animated .webp")
    parser.add_argument("--quality", type=int, default=45, help="of the pictures, 0 to 100")
    args = parser.parse_args()
    shown = []
    for games in zip(*map(pictures, args.films), strict=True):
        panels = [np.asarray(Image.fromarray(game).resize(SIZE, Image.Resampling.LANCZOS)) for game in games]
        shown.append(Image.fromarray(np.concatenate(panels, axis=1)))
    shown[0].save(
        args.out, save_all=True, append_images=shown[1:], duration=PERIOD_MS, loop=0, quality=args.quality, method=4
    )
    print(f"{args.out}: {len(shown)} pictures, {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
