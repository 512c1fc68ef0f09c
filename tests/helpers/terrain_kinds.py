"""Parameters with which each kind of sub-terrain fits on a tile of 6 m."""

from typing import Any

PARAMS: dict[str, dict[str, Any]] = {
    "flat": {},
    "pyramid_stairs": {
        "step_height_range": (0.05, 0.2), "step_width": 0.3, "platform_width": 2.0, "border_width": 0.5,
    },
    "inverted_pyramid_stairs": {
        "step_height_range": (0.05, 0.2), "step_width": 0.3, "platform_width": 2.0, "border_width": 0.5,
    },
    "random_grid": {"grid_width": 0.45, "grid_height_range": (0.05, 0.2), "platform_width": 1.0},
    "random_uniform": {"noise_range": (0.02, 0.1), "noise_step": 0.02, "border_width": 0.25},
    "pyramid_slope": {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25},
    "inverted_pyramid_slope": {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25},
    "wave": {"amplitude_range": (0.1, 0.3), "num_waves": 3, "border_width": 0.25},
    "discrete_obstacles": {
        "obstacle_height_range": (0.05, 0.2), "obstacle_width_range": (0.4, 1.2), "num_obstacles": 20,
        "platform_width": 1.0, "border_width": 0.25,
    },
    "stepping_stones": {
        "stone_height_max": 0.05, "stone_width_range": (0.4, 0.8), "stone_distance_range": (0.1, 0.3),
        "holes_depth": -1.0, "platform_width": 1.0, "border_width": 0.25,
    },
    "gap": {"gap_width_range": (0.2, 0.6), "platform_width": 2.0},
    "kerbs": {"kerb_height_range": (0.05, 0.15)},
    "narrow_beams": {"beam_width_range": (0.3, 0.9)},
}  # fmt: skip
