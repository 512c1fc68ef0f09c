"""The training loop: iterate, log, checkpoint, stop well."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch
from gaitway_agents.core import distributed

from ..domains.worlds import as_begun, usual_agent
from ..errors import ConfigError, RunError
from ..runs.files import make_folder, write_tensors_atomically
from ..runs.folder import EPISODES, RunFolder
from ..runs.provenance import available_cores
from ..runs.rows import RunWarning, read_rows
from . import memory
from .interrupt import StopRequest, stop_requests
from .progress import make_progress

if TYPE_CHECKING:
    from gaitway_agents.symmetry import Symmetry
    from gaitway_agents.trainer import Learner, Trainer
    from gymnasium.vector import VectorEnv
    from torch import nn

    from ..config.train_config import TrainConfig

RECENT = 100
"""Episodes whose mean return is shown while training."""
PROCESS_SEEDS = 1_000
"""Every process of a training is seeded this much above the one before."""
EVALUATION_SEED = 10_000
"""Evaluations play in environments seeded this much above the run's own seed."""


class TrainingFailed(RuntimeError):
    """Training cannot go on; the message says what happened and where the evidence lies."""


def build_trainer(config: TrainConfig, num_envs: int | None = None) -> Trainer:
    """Environments, symmetry and learner of a configuration; ``num_envs`` asks for one small group instead."""
    from ..domains.agents import make_trainer
    from ..domains.worlds import make_envs

    total, groups = (num_envs, 1) if num_envs else (config.num_envs, config.env_groups)
    seed = config.seed + PROCESS_SEEDS * distributed.rank()
    return make_trainer(
        config.algorithm,
        config.agent,
        make_envs(config, total, groups, seed),
        seed=seed,
        total_steps=config.total_steps,
        symmetry=symmetry_of(config),
    )


def symmetry_of(config: TrainConfig) -> Symmetry | None:
    """The mirror group that the agent uses; None if it uses none."""
    from gaitway_agents.symmetry import Symmetry
    from gaitway_mujoco.mirrors import verify_mirrors
    from gaitway_tasks.spec import Task
    from gaitway_tasks.symmetry import mirror_group

    if getattr(config.agent, "symmetry", "none") == "none":
        return None
    assert isinstance(config.task, Task)
    verify_mirrors(config.task.robot)
    group = mirror_group(config.task)
    return Symmetry(group.observations, group.actions, group.selectors, group.tie_breaker)


def rehearse(config: TrainConfig) -> None:
    """Build a small copy of everything and use it once, so that what cannot work fails before it starts.

    A simulation of Isaac Lab takes minutes to start, and a process can have one: there, only what is installed is
    looked at. A language model is too large to be loaded twice: all but that is done once.
    """
    from gaitway_tasks.spec import Task

    if config.isaaclab is not None:
        from gaitway_isaaclab import launch, preflight

        preflight.check(config.isaaclab.physics)
        launch.resolve_device(config.device)
        return
    memory.check(config)
    if config.language is not None:
        from ..domains.texts.rehearse import rehearse as rehearse_texts

        rehearse_texts(config)
        return
    try:
        trainer = build_trainer(config, num_envs=1)
        env: Any = trainer.envs[0]
        memory.check(config, memory.bytes_of(env.single_observation_space))
        if isinstance(config.task, Task):
            env.reset()
            env.managers.events.apply("interval", torch.tensor([0]))
            env.step(torch.zeros(env.action_space.shape))
        env.close()
    except ConfigError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
            raise  # one of ours says more than that it cannot run
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"{config.task.name} cannot run: {reason}") from error


def train(config: TrainConfig, run: RunFolder, *, quiet: bool = False) -> int:
    """Train until ``total_steps`` or a stop request, continuing from the newest checkpoint; returns the exit code.

    Raises :class:`RunError` at once where another process trains the run.
    """
    with run.lock, tensor_cores(config):
        return _train(config, run, quiet=quiet)


@contextlib.contextmanager
def tensor_cores(config: TrainConfig) -> Iterator[None]:
    """The precision of a GPU's float32 products that the configuration asks for; then what was set before."""
    flags: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [flag.allow_tf32 for flag in flags]
    try:
        for flag in flags:
            flag.allow_tf32 = config.tf32
        yield
    finally:
        for flag, was in zip(flags, before, strict=True):
            flag.allow_tf32 = was


def _train(config: TrainConfig, run: RunFolder, *, quiet: bool) -> int:
    config = as_begun(config, run.record)
    try:
        trainer, judge = _set_up(config, run)
    except BaseException as error:
        _mark_failed(run, error)
        raise
    iteration, wall, times = _restore(run, trainer)
    run.record.pop("error", None)
    run.update(status="running", total_steps=config.total_steps, processes=distributed.size())
    progress = make_progress(config, trainer.steps, quiet=quiet)
    saved = run.checkpoints()[-1] if iteration else None
    judge.begin()
    start, busy = time.perf_counter() - wall, time.process_time() - run.record.get("cpu_time_s", 0.0)
    with stop_requests() as stop, Board(run, iteration) as board, progress:
        try:
            while not _is_done(trainer, config) and not _asked_to_stop(stop):
                metrics = _iterate(trainer, run)
                iteration += 1
                wall = time.perf_counter() - start
                for name in metrics:
                    if name.startswith("time/") and name != "time/total":
                        times[name[5:]] = times.get(name[5:], 0.0) + metrics[name]
                metrics |= judge.watch(wall)
                row = {"iteration": iteration, "steps": trainer.steps, "wall_s": wall, **metrics}
                last = _is_done(trainer, config) or stop.signal is not None
                run.append_metrics(row)
                board.add(row, last=last)
                progress.show(trainer.steps, metrics, last=last)
                if iteration % config.checkpoint_interval == 0:
                    saved = _save(run, trainer, config, iteration, wall, time.process_time() - busy, times)
            if iteration % config.checkpoint_interval or saved is None:
                saved = _save(run, trainer, config, iteration, wall, time.process_time() - busy, times)
        except BaseException as error:
            _mark_failed(run, error)
            if saved is not None and not isinstance(error, TrainingFailed):
                _say_goodbye(run, config, saved, "failed")
            raise
    finished = _is_done(trainer, config)
    if finished:
        judge.final_exam(wall)
    run.update(status="finished" if finished else "interrupted")
    told = stop.signal.name if stop.signal else "another process"
    _say_goodbye(run, config, saved, "" if finished else f"interrupted by {told}")
    return 0 if finished else stop.exit_code


def _set_up(config: TrainConfig, run: RunFolder) -> tuple[Learner, Examiner]:
    if config.language is not None:
        from ..domains.texts.build import build_studio
        from ..domains.texts.judge import LanguageJudge

        torch.set_num_threads(config.num_threads or available_cores())
        studio = build_studio(config, run)
        return studio.trainer, LanguageJudge(config, run, studio)
    torch.set_num_threads(1)  # the matrices are small: threads inside an operation cost more than they save
    trainer = build_trainer(config)
    if config.world == "isaaclab":
        _record_simulation(run, trainer.envs[0])
    return trainer, Judge(config, run, trainer)


def _record_simulation(run: RunFolder, env: Any) -> None:
    """Say and write down what of Isaac Lab this is: what was chosen here is what the run goes on with."""
    simulation = env.simulation
    run.update(isaaclab=simulation)
    version = simulation["versions"].get("isaaclab", "of unknown version")
    print(f"Isaac Lab {version}, {simulation['engine']}; robot: {simulation['asset']}", flush=True)


def train_along(config: TrainConfig, run: RunFolder | None) -> int:
    """What every process but the first does in :func:`train`: the same iterations, and no records."""
    torch.set_num_threads(1)
    trainer = build_trainer(config if run is None else as_begun(config, run.record))
    found = None if run is None else run.load_checkpoint()
    if found is not None:
        trainer.load_state_dict(found[0]["trainer"])
    with stop_requests() as stop, tensor_cores(config):
        while not _is_done(trainer, config) and not _asked_to_stop(stop):
            trainer.iterate()
            trainer.pop_episodes()
    return 0 if _is_done(trainer, config) else stop.exit_code


def _asked_to_stop(stop: StopRequest) -> bool:
    """Whether any process was; they stop before the same iteration."""
    return distributed.any_of(stop.signal is not None, torch.device("cpu"))


def _is_done(trainer: Learner, config: TrainConfig) -> bool:
    return trainer.steps >= config.total_steps or getattr(trainer, "finished", False)


class Examiner(Protocol):
    """Keeps account of a training and examines what it has learnt, as the configuration asks."""

    def begin(self) -> None:
        """The trainer is where this part of the training starts."""
        ...

    def watch(self, wall: float) -> dict[str, float]:
        """After an iteration, ``wall`` seconds into the training; returns further metrics of it."""
        ...

    def final_exam(self, wall: float) -> None:
        """After the last."""
        ...


class Judge:
    """The examiner of agents in environments: their episodes, and those they play for it."""

    def __init__(self, config: TrainConfig, run: RunFolder, trainer: Trainer):
        self.config, self.run, self.trainer = config, run, trainer
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self.envs: dict[int, VectorEnv] = {}
        self.examined = 0

    def begin(self) -> None:
        path = self.run.path / EPISODES
        earlier = read_rows(path)[-RECENT:] if path.exists() else []
        self.recent.extend((row["return"], row["length"]) for row in earlier if {"return", "length"} <= row.keys())
        self.examined = self.trainer.steps

    def watch(self, wall: float) -> dict[str, float]:
        """Record the episodes of an iteration; returns the mean return and length of recent ones, tracking errors."""
        episodes = self.trainer.pop_episodes()
        self.run.append_episodes(
            [{"steps": e.steps, "wall_s": wall, "return": e.ret, "length": e.length} for e in episodes]
        )
        self.recent.extend((e.ret, e.length) for e in episodes)
        interval = self.config.evaluation_interval
        if interval and self.trainer.steps // interval > self.examined // interval:
            self.examined = self.trainer.steps
            self._examine(-(-self.config.evaluation_episodes // 10), wall)
        metrics = tracking_errors(self.trainer.envs)
        if not self.recent:
            return metrics
        returns, lengths = zip(*self.recent, strict=True)
        return metrics | {
            "episodes/return": sum(returns) / len(returns),
            "episodes/length": sum(lengths) / len(lengths),
        }

    def final_exam(self, wall: float) -> None:
        if self.config.evaluation_episodes:
            returns = torch.tensor(self._examine(self.config.evaluation_episodes, wall), dtype=torch.float64)
            print(
                f"evaluation: return {returns.mean():.2f} +- {returns.std(unbiased=False):.2f} "
                f"over {len(returns)} deterministic episodes"
            )

    def _examine(self, episodes: int, wall: float) -> list[float]:
        from gaitway_agents.trainer import evaluate

        from ..domains.worlds import make_envs

        seed = self.config.seed + EVALUATION_SEED
        size = min(episodes, 16)
        if size not in self.envs:
            self.envs[size] = make_envs(self.config, size, 1, seed)[0]
        played = evaluate(self.trainer, self.envs[size], episodes, seed)
        returns, lengths = [e.ret for e in played], [e.length for e in played]
        self.run.append_evaluation(
            {
                "steps": self.trainer.steps,
                "wall_s": wall,
                "deterministic": True,
                "seed": seed,
                "returns": returns,
                "lengths": lengths,
            }
        )
        return returns


def load_trainer(run: RunFolder, num_envs: int = 1) -> tuple[TrainConfig, Trainer, Path]:
    """A run's agent with the policy of its newest checkpoint, in ``num_envs`` fresh environments; the checkpoint.

    The environments are MuJoCo's where the run learnt in Isaac Lab, which need not be there.
    """
    from ..domains.worlds import in_mujoco

    config = run.config()
    if config.language is not None:
        raise RunError(
            f"{run.path} is a run of a language model: gaitway evaluate examines it, gaitway chat talks with it and "
            "gaitway export writes it as a Hugging Face folder"
        )
    found = run.load_checkpoint()
    if found is None:
        raise RunError(f"{run.path} has no checkpoint yet: train it first")
    state, path = found
    trainer = build_trainer(in_mujoco(config), num_envs)
    trainer.load_policy(state["trainer"])
    return config, trainer, path


def load_actor(run: RunFolder) -> tuple[TrainConfig, nn.Module, Path]:
    """The deterministic policy (N, D) -> (N, A) of a robot's run, from its newest checkpoint, and the checkpoint."""
    config, trainer, path = load_trainer(run)
    trainer.envs[0].close()
    config.robot_task  # noqa: B018  refuses what is no robot's
    return config, trainer.actor(), path  # type: ignore[attr-defined]


def _iterate(trainer: Learner, run: RunFolder) -> dict[str, float]:
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
    return metrics


def tracking_errors(envs: Sequence[Any]) -> dict[str, float]:
    """A robot's mean distance from the commanded velocity now, over all environments, [m/s] and [rad/s]."""
    errors: dict[str, float] = {}
    task = getattr(envs[0], "task", None)
    for name in task.commands if task is not None else ():
        planar, yaw = (torch.cat(parts) for parts in zip(*(off_command(env, name) for env in envs), strict=True))
        errors |= {f"tracking/{name}/linear": float(planar.mean()), f"tracking/{name}/yaw": float(yaw.mean())}
    return errors


def off_command(env: Any, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Distance of each robot's velocity from what command ``name`` says, (N,) [m/s] and (N,) [rad/s]."""
    command, robot = env.world.command(name), env.world.robot
    planar = (command[:, :2] - robot.root_lin_vel_b[:, :2]).norm(dim=1)
    return planar, (command[:, 2] - robot.root_ang_vel_b[:, 2]).abs()


def _restore(run: RunFolder, trainer: Learner) -> tuple[int, float, dict[str, float]]:
    """Load the newest checkpoint if there is one: iterations done, wall time and time split so far."""
    found = run.load_checkpoint()
    if found is None:
        if steps := run.record.get("steps"):
            raise RunError(
                f"{run.path} did {steps:,} steps, and its checkpoints are gone: put them back into "
                f"{run.path}/checkpoints, or start a new run with another --out"
            )
        run.forget_after(-1)
        run.record["cpu_time_s"] = 0.0
        return 0, 0.0, {}
    state, path = found
    try:
        steps, iteration, wall, times = state["steps"], state["iteration"], state["wall_s"], dict(state["time_s"])
        trainer.load_state_dict(state["trainer"])
        torch.set_rng_state(state["torch_rng"])
    except (KeyError, RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"{path} does not fit {run.path}/config.yaml: {what}") from error
    for later in run.checkpoints():
        if later > path:
            later.unlink()  # damaged, and named after steps that will be done again
    run.forget_after(steps)
    return iteration, wall, times


def _save(
    run: RunFolder,
    trainer: Learner,
    config: TrainConfig,
    iteration: int,
    wall: float,
    cpu: float,
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
    run.update(
        steps=trainer.steps, iterations=iteration, wall_time_s=round(wall, 3), cpu_time_s=round(cpu, 3), time_s=times
    )
    return path


class Board:
    """TensorBoard's events: at most four rows a second, for writing one takes ten milliseconds.

    They repeat ``metrics.jsonl``. If their thread fails, the training goes on without them.
    """

    INTERVAL_S = 0.25

    def __init__(self, run: RunFolder, iteration: int):
        from torch.utils.tensorboard import SummaryWriter

        self.folder = run.path / "tensorboard"
        make_folder(self.folder)
        self.writer: SummaryWriter | None = SummaryWriter(str(self.folder), purge_step=iteration + 1, flush_secs=30)
        self.written = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.writer is not None:
            with self._dispensable():
                self.writer.close()

    def add(self, row: dict[str, Any], *, last: bool) -> None:
        now = time.monotonic()
        if self.writer is None or (not last and now - self.written < self.INTERVAL_S):
            return
        self.written = now
        with self._dispensable():
            for name, value in row.items():
                if name != "iteration":
                    self.writer.add_scalar(name, value, row["iteration"])

    @contextlib.contextmanager
    def _dispensable(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever ended the thread is raised here
            self.writer = None
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            warnings.warn(
                f"{self.folder} gets no more events ({what}); the training goes on, and metrics.jsonl has all of them",
                RunWarning,
                stacklevel=3,
            )


def _mark_failed(run: RunFolder, error: BaseException) -> None:
    # The disk or memory that failed the run may fail its epitaph too; the first error is the one to tell.
    with contextlib.suppress(RunError, MemoryError):
        run.update(status="failed", error=f"{type(error).__name__}: {error}")


def _say_goodbye(run: RunFolder, config: TrainConfig, checkpoint: Path | None, ending: str) -> None:
    """``ending`` is what came before the end of the training; nothing if nothing did."""
    steps, wall = run.record["steps"], run.record["wall_time_s"]
    if not ending:
        print(f"finished: {steps:,} steps in {wall:.0f} s; checkpoint {checkpoint}")
    else:
        print(
            f"{ending} after {steps:,} of {config.total_steps:,} steps; checkpoint {checkpoint}; "
            f"continue with: gaitway train {config.task.name}{_agent_option(config)} --out {run.path} --resume"
        )


def _agent_option(config: TrainConfig) -> str:
    return "" if config.algorithm == usual_agent(config.task) else f" --agent {config.algorithm}"
