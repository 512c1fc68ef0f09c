"""Kinds of sub-terrain: ``func(difficulty, grid, draws, **params) -> Tile``. Lengths in m, slopes as rise over run.

Names, parameters, heights and draws are those of ``isaaclab.terrains`` where it has the kind: its functions, with
the same seeds, give the same heights. ``difficulty`` is from 0 to 1.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from .tile import FOOT, Draws, Grid, TerrainError, Tile, block, frame

Range = tuple[float, float]


def _between(limits: Range, difficulty: float) -> float:
    return limits[0] + difficulty * (limits[1] - limits[0])


# ---- boxes ---------------------------------------------------------------------------------------------------------


def flat(difficulty: float, grid: Grid, draws: Draws) -> Tile:
    """Level ground."""
    return Tile.of_boxes(grid, [block(grid.size, -FOOT, 0.0)], 0.0)


def _stairs(
    up: float,
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    step_height_range: Range,
    step_width: float,
    platform_width: float = 1.0,
    border_width: float = 0.0,
    holes: bool = False,
) -> Tile:
    """Rings of steps to a platform in the middle, which is on top for ``up`` 1 and in a pit for -1."""
    height = up * _between(step_height_range, difficulty)
    if holes:
        raise TerrainError("stairs with holes: only Isaac Lab makes them: use holes=false, or --world isaaclab")
    inner = [length - 2 * border_width for length in grid.size]
    count = int(min((length - platform_width) // (2 * step_width) + 1 for length in inner))
    if count < 1 or min(inner) - 2 * count * step_width <= 0.0:
        raise TerrainError(
            f"stairs with a platform of {platform_width:g} m, a border of {border_width:g} m and treads of "
            f"{step_width:g} m do not fit on a tile of {grid.size[0]:g} x {grid.size[1]:g} m: make one of them smaller"
        )
    bottom = min(0.0, (count + 1) * height) - FOOT
    outer = (grid.size[0], grid.size[1])
    boxes = frame(outer, (inner[0], inner[1]), bottom, 0.0) if border_width > 0.0 else []
    for ring in range(count):
        x, y = (length - 2 * ring * step_width for length in inner)
        boxes += frame((x, y), (x - 2 * step_width, y - 2 * step_width), bottom, (ring + 1) * height)
    x, y = (length - 2 * count * step_width for length in inner)
    boxes.append(block((x, y), bottom, (count + 1) * height))
    return Tile.of_boxes(grid, boxes, (count + 1) * height)


def random_grid(
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    grid_width: float,
    grid_height_range: Range,
    platform_width: float = 1.0,
    holes: bool = False,
) -> Tile:
    """Square cells of random heights; the platform in the middle is as high as the highest may be."""
    if holes:
        raise TerrainError("a random grid with holes: only Isaac Lab makes it: use holes=false, or --world isaaclab")
    if grid.size[0] != grid.size[1]:
        raise TerrainError(f"a random grid on a tile of {grid.size[0]:g} x {grid.size[1]:g} m: the tile must be square")
    size, cells = grid.size[0], int(grid.size[0] / grid_width)
    border = size - cells * grid_width
    if border <= 0:
        raise TerrainError(f"a grid of {grid_width:g} m fills a tile of {size:g} m: the tile needs a border")
    height = _between(grid_height_range, difficulty)
    noise = draws.uniform(-height, height, cells**2).astype(float).reshape(cells, cells)
    edges = np.arange(cells + 1) * grid_width + border / 2 - size / 2
    x, y = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
    bottom = np.full(cells**2, -FOOT - height)
    tiles = np.stack([edges[x], edges[x + 1], edges[y], edges[y + 1], bottom.reshape(x.shape), noise], -1)
    inner = (size - border, size - border)
    rest = [*frame(grid.size, inner, -FOOT - height, 0.0), block((platform_width, platform_width), -FOOT, height)]
    return Tile.of_boxes(grid, np.concatenate([tiles.reshape(-1, 6), rest]), height)


def gap(difficulty: float, grid: Grid, draws: Draws, *, gap_width_range: Range, platform_width: float = 1.0) -> Tile:
    """A gap all around a platform in the middle, a metre deep; Isaac Lab's has no floor."""
    width = _between(gap_width_range, difficulty)
    if (outer := platform_width + 2 * width) >= min(grid.size):
        raise TerrainError(
            f"a gap of {width:g} m around a platform of {platform_width:g} m does not fit on a tile of "
            f"{grid.size[0]:g} x {grid.size[1]:g} m: make one of them smaller"
        )
    return Tile.of_boxes(
        grid,
        [
            *frame(grid.size, (outer, outer), -FOOT, 0.0),
            block((platform_width, platform_width), -FOOT, 0.0),
            block(grid.size, -FOOT - 0.1, -FOOT),
        ],
        0.0,
    )


def kerbs(
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    kerb_height_range: Range,
    kerb_width: float = 0.15,
    distance: float = 1.0,
    platform_width: float = 2.0,
) -> Tile:
    """Kerbs around the middle, every ``distance``: hit head on or at an angle, one after the other. Ours."""
    height, boxes = _between(kerb_height_range, difficulty), [block(grid.size, -FOOT, 0.0)]
    for inner in np.arange(platform_width, min(grid.size) - 2 * kerb_width - 0.2, 2 * distance):
        boxes += frame((inner + 2 * kerb_width,) * 2, (inner, inner), -FOOT, height)
    return Tile.of_boxes(grid, boxes, 0.0)


def narrow_beams(
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    beam_width_range: Range,
    depth: float = 0.5,
    platform_width: float = 2.0,
    border_width: float = 0.5,
) -> Tile:
    """Beams from a platform to the border over a pit, along x and along y, narrower with difficulty. Ours."""
    width = beam_width_range[1] - difficulty * (beam_width_range[1] - beam_width_range[0])
    inner = (grid.size[0] - 2 * border_width, grid.size[1] - 2 * border_width)
    return Tile.of_boxes(
        grid,
        [
            *frame(grid.size, inner, -FOOT, 0.0),
            block((platform_width, platform_width), -FOOT, 0.0),
            block((inner[0], width), -FOOT, 0.0),
            block((width, inner[1]), -FOOT, 0.0),
            block(grid.size, -FOOT, -depth),
        ],
        0.0,
    )


# ---- height fields -------------------------------------------------------------------------------------------------


def _bordered(grid: Grid, border_width: float) -> tuple[int, int, int]:
    """Points inside of the border along x and along y, and points of the border, as Isaac Lab counts them."""
    if 0 < border_width < grid.horizontal_scale:
        raise TerrainError(
            f"a border of {border_width:g} m: it must be 0 or as wide as a cell, {grid.horizontal_scale:g} m"
        )
    border = int(border_width / grid.horizontal_scale) + 1
    x, y = (n - 2 * border for n in grid.shape)
    if min(x, y) < 2:
        raise TerrainError(f"a border of {border_width:g} m leaves nothing of a tile of {grid.size[0]:g} m")
    return x, y, border


def _field(grid: Grid, inner: np.ndarray, border: int, origin: float) -> Tile:
    """A tile of ``inner`` heights and an ``origin``, in units of the vertical scale, with a level border."""
    units = np.zeros(grid.shape, np.int16)
    units[border:-border, border:-border] = np.rint(inner).astype(np.int16)
    return Tile.of_heights(grid, units * grid.vertical_scale, float(np.rint(origin)) * grid.vertical_scale)


def _highest(grid: Grid, inner: np.ndarray) -> float:
    """The highest point within a metre of the middle."""
    reach = max(1, int(1.0 / grid.horizontal_scale))
    x, y = (slice(max(0, n // 2 - reach), n // 2 + reach) for n in inner.shape)
    return float(inner[x, y].max())


def random_uniform(
    difficulty: float, grid: Grid, draws: Draws, *, noise_range: Range, noise_step: float, border_width: float = 0.0
) -> Tile:
    """A height drawn at each point; ``difficulty`` changes nothing."""
    x, y, border = _bordered(grid, border_width)
    low, high, step = (int(value / grid.vertical_scale) for value in (*noise_range, noise_step))
    if step < 1 or low > high:
        raise TerrainError(
            f"noise from {noise_range[0]:g} to {noise_range[1]:g} m in steps of {noise_step:g} m: the second is the "
            f"larger, and a step is {grid.vertical_scale:g} m at least"
        )
    units = draws.numpy.choice(np.arange(low, high + step, step), size=(x, y))
    return _field(grid, units, border, _highest(grid, units))


def _slope(
    up: float,
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    slope_range: Range,
    platform_width: float = 1.0,
    border_width: float = 0.0,
) -> Tile:
    """Slopes to a platform in the middle, which is on top for ``up`` 1 and in a pit for -1."""
    slope = up * _between(slope_range, difficulty)
    x, y, border = _bordered(grid, border_width)
    top = int(slope * (x * grid.horizontal_scale) / 2 / grid.vertical_scale)
    middle = (int(x / 2), int(y / 2))
    across, along = ((m - np.abs(m - np.arange(n))) / m for m, n in zip(middle, (x, y), strict=True))
    units = top * across[:, None] * along[None, :]
    platform = int(platform_width / grid.horizontal_scale / 2)
    corner = units[x // 2 - platform, y // 2 - platform]
    units = np.clip(units, min(0, corner), max(0, corner))
    return _field(grid, units, border, units[middle])


def wave(
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    amplitude_range: Range,
    num_waves: int = 1,
    border_width: float = 0.0,
) -> Tile:
    """Waves along x and y."""
    if num_waves < 1:
        raise TerrainError(f"num_waves {num_waves}: at least one")
    x, y, border = _bordered(grid, border_width)
    highest = int(0.5 * _between(amplitude_range, difficulty) / grid.vertical_scale)
    number = 2 * np.pi / (y / num_waves)
    units = highest * (np.cos(np.arange(y) * number)[None, :] + np.sin(np.arange(x) * number)[:, None])
    return _field(grid, units, border, _highest(grid, units))


def discrete_obstacles(
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    obstacle_height_range: Range,
    obstacle_width_range: Range,
    num_obstacles: int,
    platform_width: float = 1.0,
    border_width: float = 0.0,
) -> Tile:
    """Blocks and pits of two heights and random sizes: rubble."""
    x, y, border = _bordered(grid, border_width)
    height = int(_between(obstacle_height_range, difficulty) / grid.vertical_scale)
    smallest, largest = (int(width / grid.horizontal_scale) for width in obstacle_width_range)
    if not 0 < smallest < largest <= min(x, y):
        raise TerrainError(
            f"obstacles from {obstacle_width_range[0]:g} to {obstacle_width_range[1]:g} m: the second is larger by a "
            f"cell, {grid.horizontal_scale:g} m, and fits on the tile"
        )
    widths = np.arange(smallest, largest, 4)
    units, choice = np.zeros((x, y)), draws.numpy.choice
    for _ in range(num_obstacles):
        top = choice([-height, -height // 2, height // 2, height])
        width, length = int(choice(widths)), int(choice(widths))
        start_x, start_y = int(choice(np.arange(0, x, 4))), int(choice(np.arange(0, y, 4)))
        start_x, start_y = min(start_x, x - width), min(start_y, y - length)
        units[start_x : start_x + width, start_y : start_y + length] = top
    _level_middle(units, int(platform_width / grid.horizontal_scale))
    return _field(grid, units, border, 0.0)


def stepping_stones(
    difficulty: float,
    grid: Grid,
    draws: Draws,
    *,
    stone_height_max: float,
    stone_width_range: Range,
    stone_distance_range: Range,
    holes_depth: float = -10.0,
    platform_width: float = 1.0,
    border_width: float = 0.0,
) -> Tile:
    """Stones over holes, smaller and farther apart with difficulty."""
    x, y, border = _bordered(grid, border_width)
    width = int(
        (stone_width_range[1] - difficulty * (stone_width_range[1] - stone_width_range[0])) / grid.horizontal_scale
    )
    distance = int(_between(stone_distance_range, difficulty) / grid.horizontal_scale)
    if width < 1 or distance < 0:
        raise TerrainError(
            f"stones from {stone_width_range[0]:g} to {stone_width_range[1]:g} m: they are as wide as a cell, "
            f"{grid.horizontal_scale:g} m, at least"
        )
    highest = int(stone_height_max / grid.vertical_scale)
    tops, numpy = np.arange(-highest - 1, highest), draws.numpy
    units = np.full((x, y), int(holes_depth / grid.vertical_scale))
    rows = units if x <= y else units.T
    for start in range(0, rows.shape[1], width + distance):
        row = slice(start, start + width)
        first = numpy.randint(0, width)
        rows[: max(0, first - distance), row] = numpy.choice(tops)
        for stone in range(first, rows.shape[0], width + distance):
            rows[stone : stone + width, row] = numpy.choice(tops)
    _level_middle(units, int(platform_width / grid.horizontal_scale))
    return _field(grid, units, border, 0.0)


def _level_middle(units: np.ndarray, width: int) -> None:
    """Level a square of so many points."""
    (x, y), half = units.shape, width
    units[(x - half) // 2 : (x + half) // 2, (y - half) // 2 : (y + half) // 2] = 0


KINDS: dict[str, Callable[..., Tile]] = {
    "flat": flat,
    "pyramid_stairs": functools.partial(_stairs, 1.0),
    "inverted_pyramid_stairs": functools.partial(_stairs, -1.0),
    "random_grid": random_grid,
    "random_uniform": random_uniform,
    "pyramid_slope": functools.partial(_slope, 1.0),
    "inverted_pyramid_slope": functools.partial(_slope, -1.0),
    "wave": wave,
    "discrete_obstacles": discrete_obstacles,
    "stepping_stones": stepping_stones,
    "gap": gap,
    "kerbs": kerbs,
    "narrow_beams": narrow_beams,
}
"""Kinds by the name that ``isaaclab.terrains`` has for them."""


def parameters(kind: str) -> dict[str, inspect.Parameter]:
    """The parameters of a kind by name."""
    found = inspect.signature(KINDS[kind]).parameters
    return {name: each for name, each in found.items() if each.kind is inspect.Parameter.KEYWORD_ONLY}
