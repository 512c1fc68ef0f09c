"""MuJoCo on all cores of a CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from .backend import Backend

if TYPE_CHECKING:
    from pathlib import Path

    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig


class Mujoco(Backend):
    shares_cores = True
    steps_model = True
    models = (".xml",)

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        import gaitway_mujoco

        options = dataclasses.asdict(config.simulator)
        return gaitway_mujoco.make_env(config.task, num_envs, seed=seed, num_threads=config.num_threads, **options)

    def convert(self, source: Path, out: Path, engine: str | None) -> Iterable[str]:
        import mujoco
        from gaitway_files.writing import whole_file
        from gaitway_sim2real.mujoco.standalone import alone
        from gaitway_tasks.robots.source import check_inertials, is_urdf, read_spec

        from ..runs.files import make_folder

        if engine is not None:
            raise UserError(f"--engine {engine} loads a USD: give --out FILE.usd")
        make_folder(out.absolute().parent)
        with whole_file(out) as partial:
            model = alone(read_spec(source), partial, source)
            if model.nbody < 2:
                raise UserError(f"{source} has no body: a robot has some")
            check_inertials(source, model)
            check_inertials(source, mujoco.MjModel.from_xml_path(str(partial)))
        joints = model.njnt - int((model.jnt_type == mujoco.mjtJoint.mjJNT_FREE).sum())
        yield f"{out}: {model.nbody - 1} bodies, {joints} joints, {model.body_mass.sum():.6g} kg"
        if is_urdf(source):
            yield "left out: visual shapes, velocity limits, elements of other programs"
        yield "next: the robot's facts and a task, which gaitway adopt makes, or docs/your_robot.md tells"

    def notes(self, config: TrainConfig, *, continued: bool) -> Iterable[str]:
        from gaitway_tasks.commands import is_velocity
        from gaitway_tasks.registry import called, entries, is_outside

        walks = any(is_velocity(command) for command in config.task.commands.values())
        if not continued and walks and config.preset in (None, "isaaclab3"):
            name, ready = called(config.task.name), [task for task, row in entries().items() if "cpu" in row.presets]
            alike = [task for task in ready if task.startswith(f"{name}-")]
            size = f"{config.num_envs:,} robots at once for {config.total_steps:,} steps"
            remedy = (
                "--preset cpu learns to walk in minutes on two cores" if name in ready or is_outside(name)
                else f"this task has no preset for a CPU: give num_envs=512 or fewer{_or_else(alike)}"
            )  # fmt: skip
            yield f"these are Isaac Lab's settings, meant for a GPU, {size}; {remedy}"


def _or_else(tasks: Sequence[str]) -> str:
    return f", or train {' or '.join(tasks)}, whose preset cpu is made for one" if tasks else ""
