"""How long and with what networks Isaac Lab 2.3.2 trains its velocity tasks, by robot; the same for every PPO."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gaitway_tasks.spec import Task


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``hidden_dims`` are those of actor and critic; an iteration is 24 steps of every environment."""

    max_iterations: int = 300
    hidden_dims: tuple[int, ...] = (128, 128, 128)
    entropy_coef: float = 0.005


FLAT, ROUGH = Settings(), Settings(max_iterations=1500, hidden_dims=(512, 256, 128))
UNITREE = dict.fromkeys(("a1", "go1", "go2"), (replace(FLAT, entropy_coef=0.01), replace(ROUGH, entropy_coef=0.01)))
BY_ROBOT: dict[str, tuple[Settings, Settings]] = {
    **UNITREE,
    "h1": (
        replace(FLAT, entropy_coef=0.01, max_iterations=1000),
        replace(ROUGH, entropy_coef=0.01, max_iterations=3000),
    ),
    "g1": (
        replace(FLAT, entropy_coef=0.008, max_iterations=1500, hidden_dims=(256, 128, 128)),
        replace(ROUGH, entropy_coef=0.008, max_iterations=3000),
    ),
}
"""On flat and on rough ground; robots that are not here share ANYmal's."""


def settings_of(task: Task) -> Settings:
    return BY_ROBOT.get(task.robot.name, (FLAT, ROUGH))[task.terrain.kind == "generator"]
