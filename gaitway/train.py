"""The training loop: iterate, log, checkpoint, stop well."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .errors import ConfigError, RunError
from .files import make_folder, write_tensors_atomically
from .interrupt import stop_requests
from .progress import Progress, make_progress
from .runs import RunFolder

if TYPE_CHECKING:
    from gaitway_agents.on_policy import OnPolicyTrainer
    from torch import nn

    from .config import TrainConfig

TIMES = ("physics", "terms", "policy", "learning")


class TrainingFailed(RuntimeError):
    """Training cannot go on; the message says what happened and where the evidence lies."""


def build_trainer(config: TrainConfig, num_envs: int | None = None) -> OnPolicyTrainer:
    """Environments, symmetry and learner of a configuration; ``num_envs`` asks for one small group instead."""
    import dataclasses

    from gaitway_agents.on_policy import OnPolicyTrainer
    from gaitway_agents.symmetry import Symmetry
    from gaitway_mujoco import make_env
    from gaitway_mujoco.mirrors import verify_mirrors
    from gaitway_tasks.symmetry import mirror_group

    total, groups = (num_envs, 1) if num_envs else (config.num_envs, config.env_groups)
    envs = [
        make_env(
            config.task,
            total // groups,
            seed=config.seed * groups + group,
            num_threads=config.num_threads,
            **dataclasses.asdict(config.physics),
        )
        for group in range(groups)
    ]
    symmetry = None
    if config.agent.symmetry != "none":
        verify_mirrors(config.task.robot)
        group = mirror_group(config.task)
        symmetry = Symmetry(group.observations, group.actions, group.selectors, group.tie_breaker)
    return OnPolicyTrainer(envs, config.agent, seed=config.seed, symmetry=symmetry, total_steps=config.total_steps)


def rehearse(config: TrainConfig) -> None:
    """Build one environment and use every term of the task once, so that what cannot work fails before it starts."""
    try:
        trainer = build_trainer(config, num_envs=1)
        env: Any = trainer.env
        env.reset()
        env.managers.events.apply("interval", torch.tensor([0]))
        env.step(torch.zeros(env.action_space.shape))
        env.close()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"{config.task.name} cannot run: {reason}") from error


def train(config: TrainConfig, run: RunFolder, *, quiet: bool = False) -> int:
    """Train until ``total_steps`` or a stop request, continuing from the newest checkpoint; returns the exit code."""
    torch.set_num_threads(1)  # the matrices are small: threads inside an operation cost more than they save
    trainer = build_trainer(config)
    iteration, wall, times = _restore(run, trainer)
    run.record.pop("error", None)
    run.update(status="running", total_steps=config.total_steps)
    progress = make_progress(config, trainer.steps, quiet=quiet)
    saved = run.checkpoints()[-1] if iteration else None
    start = time.perf_counter() - wall
    with stop_requests() as stop, _tensorboard(run, iteration) as writer, progress:
        try:
            while trainer.steps < config.total_steps and stop.signal is None:
                metrics = _iterate(trainer, run)
                iteration += 1
                wall = time.perf_counter() - start
                for name in TIMES:
                    times[name] = times.get(name, 0.0) + metrics[f"time/{name}"]
                _log(run, writer, {"iteration": iteration, "steps": trainer.steps, "wall_s": wall, **metrics})
                progress.show(trainer.steps, metrics)
                if iteration % config.checkpoint_interval == 0:
                    saved = _save(run, trainer, config, iteration, wall, times)
            if iteration % config.checkpoint_interval or saved is None:
                saved = _save(run, trainer, config, iteration, wall, times)
        except BaseException as error:
            _mark_failed(run, error)
            raise
    status = "finished" if trainer.steps >= config.total_steps else "interrupted"
    run.update(status=status)
    _say_goodbye(run, config, saved, stop.signal.name if stop.signal and status == "interrupted" else None)
    return stop.exit_code if status == "interrupted" else 0


def load_actor(run: RunFolder) -> tuple[TrainConfig, nn.Module, Path]:
    """The deterministic policy (N, D) -> (N, A) of a run's newest checkpoint, and the checkpoint."""
    config = run.config()
    found = run.load_checkpoint()
    if found is None:
        raise RunError(f"{run.path} has no checkpoint yet: train it first")
    state, path = found
    trainer = build_trainer(config, num_envs=1)
    trainer.policy.load_state_dict(state["trainer"]["policy"])
    trainer.env.close()
    return config, trainer.actor(), path


def _iterate(trainer: OnPolicyTrainer, run: RunFolder) -> dict[str, float]:
    from gaitway_agents.core.optimizer import NonFiniteError

    try:
        metrics = trainer.iterate()
        bad = next((name for name, value in metrics.items() if not math.isfinite(value)), None)
        if bad is not None:
            raise NonFiniteError(f"metric {bad} is not finite")
    except NonFiniteError as error:
        path = run.path / "nan_dump.pt"
        write_tensors_atomically(path, {"steps": trainer.steps, "trainer": trainer.state_dict()})
        raise TrainingFailed(
            f"training stopped after {trainer.steps:,} steps: {error}. The whole state is in {path}; a lower "
            "agent.optimizer.learning_rate or a smaller agent.optimizer.desired_kl often helps"
        ) from error
    return metrics | tracking_errors(trainer.envs)


def tracking_errors(envs: Sequence[Any]) -> dict[str, float]:
    """Mean distance from the commanded velocity at this moment over all environments, [m/s] and [rad/s]."""
    errors: dict[str, float] = {}
    for name in envs[0].task.commands:
        command = torch.cat([env.world.command(name) for env in envs])
        linear = torch.cat([env.world.robot.root_lin_vel_b for env in envs])
        angular = torch.cat([env.world.robot.root_ang_vel_b for env in envs])
        planar, yaw = (command[:, :2] - linear[:, :2]).norm(dim=1), (command[:, 2] - angular[:, 2]).abs()
        errors |= {f"tracking/{name}/linear": float(planar.mean()), f"tracking/{name}/yaw": float(yaw.mean())}
    return errors


def _restore(run: RunFolder, trainer: OnPolicyTrainer) -> tuple[int, float, dict[str, float]]:
    """Load the newest checkpoint if there is one: iterations done, wall time and time split so far."""
    found = run.load_checkpoint()
    if found is None:
        return 0, 0.0, {}
    state, path = found
    try:
        trainer.load_state_dict(state["trainer"])
    except (KeyError, RuntimeError, ValueError) as error:
        raise RunError(f"{path} does not fit {run.path}/config.yaml: {str(error).splitlines()[0]}") from error
    torch.set_rng_state(state["torch_rng"])
    for later in run.checkpoints():
        if later > path:
            later.unlink()  # damaged, and named after steps that will be done again
    run.truncate_metrics(state["iteration"])
    return state["iteration"], state["wall_s"], dict(state["time_s"])


def _save(
    run: RunFolder,
    trainer: OnPolicyTrainer,
    config: TrainConfig,
    iteration: int,
    wall: float,
    times: dict[str, float],
) -> Path:
    state = {
        "steps": trainer.steps,
        "iteration": iteration,
        "wall_s": wall,
        "time_s": times,
        "torch_rng": torch.get_rng_state(),
        "trainer": trainer.state_dict(),
    }
    path = run.save_checkpoint(state, config.keep_checkpoints)
    run.update(steps=trainer.steps, iterations=iteration, wall_time_s=round(wall, 3), time_s=times)
    return path


def _tensorboard(run: RunFolder, iteration: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    folder = run.path / "tensorboard"
    make_folder(folder)
    return SummaryWriter(str(folder), purge_step=iteration + 1 if iteration else None, flush_secs=30)


def _log(run: RunFolder, writer: Any, row: dict[str, Any]) -> None:
    run.append_metrics(row)
    for name, value in row.items():
        if name not in ("iteration", "steps"):
            writer.add_scalar(name, value, row["iteration"])
    writer.add_scalar("steps", row["steps"], row["iteration"])


def _mark_failed(run: RunFolder, error: BaseException) -> None:
    # The disk that failed the run may fail its epitaph too; the first error is the one to tell.
    with contextlib.suppress(RunError):
        run.update(status="failed", error=f"{type(error).__name__}: {error}")


def _say_goodbye(run: RunFolder, config: TrainConfig, checkpoint: Path | None, signal_name: str | None) -> None:
    steps, wall = run.record["steps"], run.record["wall_time_s"]
    if signal_name is None:
        print(f"finished: {steps:,} steps in {wall:.0f} s; checkpoint {checkpoint}")
    else:
        print(
            f"interrupted by {signal_name} after {steps:,} of {config.total_steps:,} steps; checkpoint {checkpoint}; "
            f"continue with: gaitway train {config.task.name} --out {run.path} --resume"
        )


__all__ = ["Progress", "TrainingFailed", "build_trainer", "load_actor", "tracking_errors", "train"]
