"""Isaac Lab 2.3 and 3.0: PhysX and Newton, one simulation in a process."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .. import options, sources
from ..errors import ConfigError
from .backend import Backend
from .on_gpu import check_agent, in_one_go

if TYPE_CHECKING:
    from gaitway_sim2real.trial.engines import Engine
    from gaitway_tasks.recording import Recording
    from gaitway_tasks.spec import Task
    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig

NAME = "isaaclab"


class IsaacLab(Backend):
    gpu, brings_torch = True, True
    portable = False
    models = (".usd", ".usda", ".usdc")
    own_options = ("physics", "envs", "viz", "livestream")

    # ---- command line ----------------------------------------------------------------------------------------------

    def add_options(self, parser: options.Parser) -> None:
        lab = parser.add_argument_group("in Isaac Lab")
        parser.option(
            "--physics",
            "engine (default: that of the training; for a bundle PhysX where it is installed)",
            choices=("physx", "newton"),
            within=lab,
        )
        parser.option("--envs N", "robots side by side (default 4)", options.count, within=lab)
        parser.option(
            "--viz NAME", "visualizer: kit (Isaac Sim's window), newton_gl, newton_rtx, rerun or viser", within=lab
        )
        parser.option(
            "--livestream",
            "stream from Isaac Sim: local for this machine, public for others",
            choices=("local", "public"),
            within=lab,
        )

    def chosen(self, physics: str) -> list[str]:
        return [f"simulator.physics={physics}"]

    def play(self, args: argparse.Namespace) -> int:
        if args.model is not None:
            raise UserError(f"--model {args.model} is another robot in MuJoCo: leave it out, or --world {NAME}")
        from gaitway_isaaclab.viewer import Viewer
        from gaitway_onboard.bundle.contract import Contract

        from ..runs.files import make_folder
        from ..runs.folder import RunFolder
        from .isaaclab_player import play, play_bundle

        live = args.viz is not None or args.livestream is not None
        seconds = args.seconds or (None if live and args.video is None else 20.0)
        bundle = sources.is_bundle(args.source) and not sources.is_run(args.source)
        step_dt = (
            Contract.load(args.source).control_dt
            if bundle
            else RunFolder.open(args.source).config().robot_task.timing.step_dt
        )
        steps = round((seconds or 0.0) / step_dt)
        if args.video is not None:
            make_folder(args.video.absolute().parent)
        viewer = Viewer(visualizer=args.viz, livestream=args.livestream, video=args.video, video_steps=steps)
        shown = play_bundle if bundle else functools.partial(play, which=args.checkpoint)
        shown(args.source, viewer, physics=args.physics, num_envs=args.envs or 4, seconds=seconds)
        return 0

    def record_rollout(self, args: argparse.Namespace) -> Recording:
        from .isaaclab_player import record_bundle, record_run

        of_run = functools.partial(record_run, which=args.checkpoint)
        recorded = of_run if sources.is_run(args.source) else record_bundle
        return recorded(args.source, physics=args.physics, num_envs=args.envs, seconds=args.seconds, seed=args.seed)

    def convert(self, source: Path, out: Path, engine: str | None) -> Iterable[str]:
        from gaitway_isaaclab.own_robot import check_loaded, robot_in
        from gaitway_isaaclab.sayable import left_out
        from gaitway_isaaclab.usd import compile_file, renamed, write_usd

        from ..runs.files import make_folder

        robot = robot_in(source)
        make_folder(out.absolute().parent)
        # Isaac Lab must be the first to import pxr, with which the file is written.
        lines = [] if engine is None else check_loaded(robot, engine)
        write_usd(robot, out, rename=True)
        model = compile_file(source)
        yield (
            f"{out}: {len(robot.body_names)} bodies, {len(robot.joint_names)} joints, base {robot.base_name}, "
            f"{model.body_mass.sum():.6g} kg"
        )
        for old, new in renamed(model).items():
            yield f"renamed: {old} is {new}, since names in a USD are letters, digits and _, no digit first"
        if lost := left_out(source):
            yield f"left out: {lost}"
        for line in lines:
            yield f"{engine}: {line}"

    def add_engine_options(self, parser: options.Parser) -> None:
        parser.option("--isaaclab-python PYTHON", "Python that has Isaac Lab (default: this one)", Path)

    def validation_engines(self, names: Sequence[str], args: argparse.Namespace) -> Sequence[Engine]:
        from .isaaclab_engines import engines

        return engines(names, args.isaaclab_python)

    def make_way(self) -> None:
        """The threads of numpy's OpenBLAS do not survive the forks with which Isaac Sim starts."""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from gaitway_isaaclab import application

        application.start_if_told()

    def start_first(self, device: str) -> None:
        from gaitway_isaaclab import launch

        launch.start_first(device)

    def close(self) -> None:
        from gaitway_isaaclab import launch

        launch.close()

    def shut_down(self, code: int) -> None:
        if launch := sys.modules.get("gaitway_isaaclab.launch"):
            launch.shut_down(code)

    # ---- training --------------------------------------------------------------------------------------------------

    def defaults(self, settings: dict[str, Any], task: Task, *, preset: bool) -> dict[str, Any]:
        from gaitway_tasks.mdp import events

        mujoco_alone = (events.randomize_ground_impedance,)  # has no counterpart: a preset does without it here
        if preset:
            there = {name: event for name, event in task.events.items() if event.func not in mujoco_alone}
            settings = settings | {"task": task.replace(events=there)}
        agent = in_one_go(settings["agent"])
        return settings | {"tf32": True, "agent": agent, "evaluation_episodes": 0}

    def check(self, config: TrainConfig) -> None:
        check_agent(
            config,
            "Isaac Lab",
            elsewhere="; Isaac Lab's own scripts train the same tasks with rsl_rl, skrl, rl_games and sb3",
        )
        if config.evaluation_episodes:
            raise ConfigError(
                f"evaluation_episodes={config.evaluation_episodes}: a process has one simulation of Isaac Lab; use "
                "evaluation_episodes=0"
            )

    def preflight(self, config: TrainConfig) -> bool:
        """Isaac Lab takes minutes to start, once in a process: it is looked for only."""
        from gaitway_isaaclab import launch, preflight

        preflight.check(config.simulator.physics)
        launch.resolve_device(config.device)
        return False

    def start(self, config: TrainConfig) -> None:
        from gaitway_isaaclab import application, launch, preflight

        if application.is_running():
            return
        for line in preflight.advice(preflight.check(config.simulator.physics)):
            print(f"note: {line}")
        launch.start_first(config.device)

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        from gaitway_isaaclab import launch

        return launch.make_env(config.task, num_envs, device=config.device, seed=seed, options=config.simulator)

    def notes(self, config: TrainConfig, *, continued: bool) -> Iterable[str]:
        if continued:
            yield (
                "the learner goes on exactly where it was; Isaac Lab's simulations cannot be saved, so episodes start "
                "anew"
            )

    def record(self, env: Any) -> dict[str, Any]:
        told = env.simulation
        version = told["versions"].get(NAME, "of unknown version")
        print(f"Isaac Lab {version}, {told['engine']}; robot: {told['asset']}", flush=True)
        return {NAME: told}

    def as_begun(self, config: TrainConfig, record: Mapping[str, Any]) -> TrainConfig:
        if NAME not in record:
            return config
        begun = {name: record[NAME][name] for name in ("asset", "physics") if name in record[NAME]}
        return dataclasses.replace(config, simulator=dataclasses.replace(config.simulator, **begun))
