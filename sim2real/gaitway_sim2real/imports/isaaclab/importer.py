"""Import of an Isaac Lab run folder as a task and an actor, from which the ordinary export makes a bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from gaitway_files.writing import write_text
from gaitway_files.yaml_files import dump_yaml
from gaitway_tasks.signals import signals_of
from gaitway_tasks.spec import Task, Timing
from torch import Tensor, nn

from ...bundle.export import export_bundle
from ...mujoco.own_model import OwnModel
from .actions import FIX_ACTION, FIX_COMMAND, map_actions, map_command, robot_asset
from .checkpoint import build_actor
from .config import Settings, read_yaml
from .errors import IsaacLabImportError
from .learners import DESCRIBE, find_actor
from .networks import RunActor
from .robot import resolve_robot
from .terms import FIX, PolicyObservation, RobotNames, map_observations

ESTIMATED = ("root_lin_vel_b", "height_scan")
"""Signals that Isaac Lab's tasks read from the simulation and that no sensor of a robot gives."""

DESCRIPTORS = ("io_descriptors", "params", "exported", ".")
PROVENANCE = "import.yaml"


@dataclass(frozen=True)
class ImportedRun:
    """An imported run, with notes on how it was read."""

    folder: Path
    checkpoint: Path
    iteration: int | None
    learner: str
    """The learner that writes such checkpoints, e.g. ``"rsl_rl 3.x"``."""
    network: str
    task: Task
    actor: nn.Module
    observation: PolicyObservation
    action_order: tuple[str, ...]
    """The joint of each number the policy gives."""
    joint_order: str
    """Source of the order of the joints."""
    notes: tuple[str, ...]
    """Approximations and assumptions."""
    own_model: OwnModel | None = None
    """Keeps the file of the robot's MJCF until the run is exported, if it is one made for this import."""

    @property
    def estimated(self) -> tuple[str, ...]:
        return self.task.estimators

    def provenance(self) -> dict[str, object]:
        """Content of ``import.yaml``."""
        return {
            "run": str(self.folder),
            "checkpoint": {
                "file": self.checkpoint.name,
                "sha256": _sha256(self.checkpoint),
                "iteration": self.iteration,
                "learner": self.learner,
                "actor": self.network,
            },
            "robot": self.task.robot.name,
            "joint_order": {"source": self.joint_order, "names": list(self.task.robot.joint_names)},
            "action_order": list(self.action_order),
            "terms": [
                {"name": name, "function": self.observation.functions[name], "width": width}
                for name, width in self.observation.widths.items()
            ],
            "estimated": list(self.estimated),
            "notes": list(self.notes),
        }

    def show(self) -> list[tuple[str, str]]:
        """Lines for the terminal: the terms, and the warnings to read before trusting a verdict."""
        task = self.task
        trained = f", {self.iteration} iterations" if self.iteration is not None else ""
        what = {"root_lin_vel_b": "its base velocity", "height_scan": "the heights around it"}
        rows = [
            ("task", f"{task.name}, {1 / task.timing.step_dt:g} Hz"),
            ("checkpoint", f"{self.checkpoint.name}{trained}, {self.learner}: {self.network}"),
            ("robot", f"{task.robot.name}, {task.robot.num_joints} joints"),
            ("joint order", f"{self.joint_order}: {', '.join(task.robot.joint_names)}"),
        ]
        rows += [
            ("reads", f"{name}, {width} numbers: {self.observation.functions[name]}")
            for name, width in self.observation.widths.items()
        ]
        rows += [("approximated", note) for note in self.notes]
        if self.estimated:
            rows.append(
                (
                    "not measured",
                    f"the policy reads {' and '.join(what[name] for name in self.estimated)}, which no robot measures; "
                    f"validate feeds the simulation's own, a robot needs an estimator",
                )
            )
        return rows

    def description_text(self) -> str:
        """Provenance of the run as YAML."""
        return dump_yaml(self.provenance())

    def export(self, out: Path) -> Path:
        """Write the bundle, and in it ``import.yaml``: the run it comes from and how it was read."""
        bundle = export_bundle(
            self.task,
            self.actor,
            out,
            checkpoint_sha256=_sha256(self.checkpoint),
            software={"trained_with": f"Isaac Lab, {self.learner}"},
        )
        write_text(bundle / PROVENANCE, self.description_text())
        return bundle


class ImportedActor(nn.Module):
    """An rsl_rl actor over the columns that it reads and the joints that it moves.

    Maps the observation of the task (N, D) to the action of all joints (N, J) in the task's order, 0 where the policy
    moves none; with a memory, observation and memory to action and next memory.
    """

    columns: Tensor
    scatter: Tensor

    def __init__(self, actor: RunActor, columns: Sequence[int], scatter: Sequence[int]):
        super().__init__()
        self.actor = actor
        self.memory_size = int(getattr(actor, "memory_size", 0))
        self.register_buffer("columns", torch.tensor(columns))
        self.register_buffer("scatter", torch.tensor(scatter))

    def forward(self, observation: Tensor, memory: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        read = observation.index_select(1, self.columns)
        if not self.memory_size:
            return self._spread(self.actor(read))
        action, memory = self.actor(read, memory)
        return self._spread(action), memory

    def _spread(self, action: Tensor) -> Tensor:
        return torch.cat((action, torch.zeros_like(action[:, :1])), 1).index_select(1, self.scatter)


def read_run(
    folder: str | Path,
    *,
    checkpoint: str | Path | None = None,
    robot: str | None = None,
    model: str | Path | None = None,
    joint_order: str | None = None,
) -> ImportedRun:
    """Read the run in ``folder`` (``logs/rsl_rl/<experiment>/<date>``); writes nothing.

    ``checkpoint`` defaults to the newest of the run; for the others see :func:`.robot.resolve_robot`. Raises
    :class:`IsaacLabImportError` with all terms that have no equivalent, or with the tensor that does not fit.
    """
    folder = Path(folder)
    env, agent, descriptors, deploy = _settings(folder)
    found_actor = find_actor(agent, folder, Path(checkpoint) if checkpoint is not None else None)
    config, weights = found_actor.config, found_actor.weights
    asset = robot_asset(env)
    found = resolve_robot(
        env, asset, name=robot, model=Path(model) if model else None, joint_order=joint_order, descriptors=descriptors,
        deploy=deploy,
    )  # fmt: skip
    pose = dict(zip(found.robot.joint_names, found.robot.default_joint_pos, strict=True))
    problems: list[str] = []
    action = map_actions(env, asset, pose, agent.get("clip_actions", float), problems)
    layout = RobotNames(found.robot.joint_names, action.joints, asset, (found.robot.base_name,))
    observation = map_observations(env, found_actor.groups or _groups(agent, env), layout, problems)
    notes = [*found.notes, *observation.notes]
    commands = map_command(env, observation.commands, problems, notes) if not problems else {}
    if problems:
        raise IsaacLabImportError(_refusal(folder, problems))
    actor = build_actor(config, weights, observation.widths, len(action.order))
    terms = observation.group.terms.values()
    read = {signal for term in terms for signal in signals_of(term.func)}
    order = action.order
    scatter = [order.index(joint) if joint in order else len(order) for joint in found.robot.joint_names]
    if left := [joint for joint in found.robot.joint_names if joint not in order]:
        notes.append(f"{', '.join(left)}: moved by no action; held at 0 rad, as Isaac Lab does")
    try:
        timing = Timing(
            physics_dt=float(env.child("sim").require("dt", float)),
            decimation=env.require("decimation", int),
            episode_length_s=float(env.get("episode_length_s", float, 20.0)),
        )
    except IsaacLabImportError:
        raise
    except ValueError as error:
        raise IsaacLabImportError(f"{env.where}: {error}") from None
    task = Task(
        name=f"isaaclab-{found_actor.experiment or folder.name}",
        robot=found.robot,
        observations={"policy": observation.group},
        actions=action.action,
        rewards={},
        terminations={},
        commands=commands,
        height_scanners=observation.scanners,
        timing=timing,
        estimators=tuple(signal for signal in ESTIMATED if signal in read),
    )
    hidden = ", ".join(map(str, config.hidden_dims))
    memory = f"{config.rnn_type} {config.rnn_layers} x {config.rnn_dim}, " if config.rnn_type else ""
    return ImportedRun(
        folder=folder,
        checkpoint=found_actor.checkpoint,
        iteration=weights.iteration,
        learner=f"rsl_rl {weights.version}" if found_actor.groups is None else weights.version,
        network=f"{memory}MLP {hidden}, {config.activation}{', observations normalised' if config.normalized else ''}",
        task=task,
        actor=ImportedActor(actor, observation.columns, scatter),
        observation=observation,
        action_order=tuple(order),
        joint_order=found.order_source,
        notes=tuple(notes),
        own_model=found.own_model,
    )


def env_file(folder: Path) -> Path:
    """``env.yaml`` of a run folder. Raises :class:`IsaacLabImportError`."""
    if not folder.is_dir():
        raise IsaacLabImportError(f"no run folder at {folder}: give a folder like logs/rsl_rl/anymal_c_flat/<date>")
    params = folder if (folder / "env.yaml").is_file() else folder / "params"
    if not (params / "env.yaml").is_file():
        runs = sorted(path.parents[1] for path in folder.glob("*/params/env.yaml"))
        hint = f"; its runs are {', '.join(run.name for run in runs)}: give one of them" if runs else ""
        raise IsaacLabImportError(f"{folder} has no params/env.yaml, which Isaac Lab's train.py writes{hint}")
    return params / "env.yaml"


def _settings(folder: Path) -> tuple[Settings, Settings, Settings | None, Settings | None]:
    """``env.yaml``, ``agent.yaml`` and, if there are any, the IO descriptors and ``deploy.yaml`` of a run folder."""
    params = env_file(folder).parent
    env = Settings(read_yaml(params / "env.yaml"), "env.yaml")
    agent = Settings(read_yaml(params / "agent.yaml"), "agent.yaml")
    for key in ("scene", "sim", "observations", "actions"):
        if key not in env:
            raise IsaacLabImportError(
                f"env.yaml has no {key!r}: only manager-based tasks can be imported, since the code of a direct task "
                f"decides what its policy reads; {DESCRIBE}"
            )

    def first(paths: Iterable[Path]) -> Settings | None:
        found = next((path for path in paths if path.is_file()), None)
        return Settings(read_yaml(found), str(found)) if found else None

    descriptors = first(folder / sub / "IO_descriptors.yaml" for sub in DESCRIPTORS)
    return env, agent, descriptors, first([params / "deploy.yaml"])


def _groups(agent: Settings, env: Settings) -> list[str]:
    """Observation groups that the actor reads, by rsl_rl's rules for ``obs_groups``."""
    chosen = agent.get("obs_groups", dict, {})
    for key in ("actor", "student", "policy"):
        if key in chosen:
            return list(chosen[key])
    present = env.child("observations")
    return ["actor"] if "actor" in agent and "actor" in present else ["policy"]


def _refusal(folder: Path, problems: Sequence[str]) -> str:
    fixes = {"observation": FIX, "action": FIX_ACTION, "command": FIX_COMMAND}
    wanted = dict.fromkeys(
        fixes[problem.partition(" ")[0]] for problem in problems if problem.partition(" ")[0] in fixes
    )
    listed = "".join(f"\n  - {problem}" for problem in problems)
    return f"{folder} cannot be imported; without an equivalent here:{listed}\n" + "\n".join(wanted)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
