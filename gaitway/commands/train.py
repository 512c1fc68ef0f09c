"""``gaitway train``: train an agent on a task.

Train an agent on a task, from scratch or from where a run stopped.

Settings come from, in rising priority: the defaults, --preset, --config FILE, key=value. Every field of the
configuration can be set: the learner's (agent.*), the simulator's (physics.*) and the task's (task.*). Unknown keys and
wrong types are refused before anything starts. The resolved configuration is written to config.yaml in the run folder.

--until good examines the policy every half million steps: a short, deterministic version of 'gaitway validate'. A line
says what is still missing. Training ends when all checks hold twice in a row, at total_steps at the latest.

The run folder also gets run.json, metrics.jsonl, tensorboard/ and checkpoints/. Ctrl-C or SIGTERM finishes the
iteration and writes a checkpoint; --resume continues from there, bit for bit as if uninterrupted.

--world isaaclab trains a robot's task in Isaac Lab: 2.3 with Isaac Sim on a GPU, or 3.0, whose PhysX and Newton need
neither. Its simulations cannot be saved: --resume restores the learner exactly and starts new episodes. Export and
validate need no Isaac Lab. With torchrun and --distributed several processes train one agent, each with num_envs
environments and its own GPU; the first writes the run folder.

examples:
  gaitway train velocity-flat-anymal-c-blind --preset cpu --out runs/walk
  gaitway train velocity-flat-anymal-c-blind --out runs/walk --resume
  gaitway train velocity-flat-anymal-c-blind --preset cpu --until good
  gaitway train velocity-flat-anymal-c --seed 1 num_envs=512 agent.optimizer.learning_rate=3e-4
  gaitway train velocity-flat-anymal-c task.rewards.action_rate_l2.weight=-0.02 task.timing.decimation=2
  gaitway train velocity-flat-anymal-c task.events.push_robot=null        # null removes a term
  gaitway train velocity-flat-go2-blind --preset cpu --parameters params.yaml
  gaitway train velocity-flat-anymal-c --world isaaclab --physics newton num_envs=2048
  torchrun --nproc_per_node=2 --no-python gaitway train velocity-flat-anymal-c --world isaaclab --distributed
  gaitway train cartpole
  gaitway train hopper --agent trpo --seeds 3
  gaitway train gym:LunarLander-v3 --agent dqn agent.double=true
  gaitway train breakout --agent ppo
  gaitway train frozen-lake --agent value-iteration
  gaitway train arithmetic --agent sft --out runs/sft
  gaitway train arithmetic --agent grpo --model runs/sft
  gaitway train gsm8k --agent grpo --model Qwen/Qwen2.5-1.5B-Instruct --rollout vllm --lora
  gaitway train pairs.jsonl --agent dpo --model runs/sft
  gaitway train prompts.jsonl --agent ppo --model runs/sft --reward-model runs/judge
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError
from gaitway_tasks.registry import UnknownNameError

from ..backends.table import BACKENDS, backend, engines
from ..catalogue import AGENTS, MUJOCO, WORLDS
from ..errors import RunError
from . import common

if TYPE_CHECKING:
    from ..config.train_config import TrainConfig
    from ..runs.folder import RunFolder

RESUMABLE = (
    "total_steps", "num_threads", "checkpoint_interval", "keep_checkpoints", "evaluation_episodes",
    "evaluation_interval", "until", "least_steps", "examination_interval",
    "device", "language.server", "language.gpu_memory", "language.gradient_checkpointing",
    "agent.optimizer.offload",
)  # fmt: skip
"""Settings that may change when a run is continued; any other would make it a different run."""


def add_options(parser: common.Parser) -> None:
    parser.option(
        "task",
        "robot task (also MODULE:OBJECT), language task or file of texts, Gymnasium environment (also gym:ID) or "
        "Atari game; 'gaitway list tasks' shows them",
    )
    parser.option("settings key=value", "change a setting, e.g. num_envs=512", nargs="*")
    parser.option("--agent", "agent to train (default ppo, for texts grpo); 'gaitway list agents' shows them")
    parser.option("--world", "simulator to train in (default: the task's usual one)")
    parser.option("--physics", "engine of Isaac Lab (default: what is installed)", choices=tuple(engines()))
    parser.switch("--distributed", "train together with the other processes of torchrun")
    parser.option("--preset", "named settings for a kind of machine, e.g. cpu")
    parser.option("--config FILE", "YAML file of settings", Path)
    parser.option("--parameters FILE", "params.yaml from 'gaitway identify': train on this identified robot", Path)
    parser.option("--seed", "random seed (default 0)", common.seed)
    parser.option("--seeds N", "train N runs one after another, with seeds from --seed on", common.count)
    parser.option(
        "--until end|good",
        "what ends the training: total_steps (end, the default), or examinations that hold twice in a row (good)",
    )
    parser.option("--out DIR", "run folder (default runs/TASK/TIME-seedK)", Path)
    parser.switch("--resume", "continue the run in --out, or the newest run of the task; starts one if there is none")
    parser.switch("--quiet", "print no progress, only the last line")
    texts = parser.add_argument_group("language tasks")
    parser.option("--model MODEL", "run folder, Hugging Face folder or hub id to begin with; or tiny", within=texts)
    parser.option("--teacher MODEL", "model that agent gkd learns from: as --model", within=texts)
    parser.option(
        "--rollout", "engine that samples the answers", choices=("transformers", "vllm", "vllm-server"), within=texts
    )
    parser.option("--server URL", "address of the vLLM server, for --rollout vllm-server", within=texts)
    parser.switch("--lora", "train low-rank adapters only (language.lora.*)", within=texts)
    parser.option(
        "--reward-model RUN|URL|MODULE:FUNCTION",
        "score answers with this reward model instead of the task's rewards",
        within=texts,
    )
    common.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    from ..training import processes

    processes.check(args.distributed)
    simulator = backend(args.world) if args.world in BACKENDS else None
    if args.distributed and simulator is not None:  # before the processes know each other
        given = [word.partition("=")[2] for word in args.settings if word.startswith("device=")]
        simulator.start_first(given[-1] if given else "auto")
    if args.seeds is None:
        with processes.group(args.distributed):
            return _run_one(args)
    if args.distributed:
        raise UserError("--seeds with --distributed: start one run for each seed")
    first, out = args.seed or 0, args.out
    for seed in range(first, first + args.seeds):
        args.seed, args.out = seed, None if out is None else out / f"seed{seed}"
        if code := _run_one(args):
            return code
        if simulator is not None:  # a process may have one simulation at a time
            simulator.close()
    return 0


def _run_one(args: argparse.Namespace) -> int:
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    if args.agent is not None and args.agent not in AGENTS:
        raise UnknownNameError("agent", args.agent, AGENTS)
    complete = args.world in BACKENDS and backend(args.world).brings_torch
    agent = args.agent or "ppo"
    common.require(f"training with {agent}", WORLDS[args.world] if complete else AGENTS[agent])

    from ..config.train_config import resolve
    from ..domains.table import domain_of, find_task, worlds_of
    from ..runs import folder as runs
    from ..training import processes

    task = find_task(args.task, args.preset)
    domain = domain_of(task)
    agent, world = args.agent or domain.usual_agent, args.world or worlds_of(task)[0]
    if world not in WORLDS:
        raise UnknownNameError("world", world, WORLDS)
    path = args.out or (runs.newest_run(task.name, agent) if args.resume else None)
    continued = args.resume and path is not None and runs.is_run(path)
    path, continued = processes.of_first((path, continued))
    if continued and path is not None:
        return _resume(args, path)
    common.require(f"training in {world}", WORLDS[world])
    config = resolve(
        args.task,
        agent=agent,
        preset=args.preset,
        config_file=args.config,
        overrides=_settings(args, world),
        options=_options(args),
        seed=args.seed,
        world=args.world,
    )
    if args.distributed and not domain.distributed:
        raise UserError(f"--distributed: {task.name} is {domain.kind}, learnt in one process; leave it out")
    _check_examination(config)
    config = domain.preflight(config)
    domain.start(config)
    if not _keeps_records():
        return _train(config, None)
    folder = runs.RunFolder.create(path or runs.default_folder(task.name, agent, config.seed), config)
    print(f"training {task.name} with {agent} in {world}, seed {config.seed}, run folder {folder.path}", flush=True)
    _print_notes(config, continued=False)
    return _train(config, folder, quiet=args.quiet)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Given options that only one kind of task has."""
    from ..domains.table import DOMAINS

    return {name: value for row in DOMAINS for name in row.options if (value := getattr(args, name))}


def _settings(args: argparse.Namespace, world: str) -> list[str]:
    """The settings of the command line, and what options say in their stead."""
    settings: list[str] = args.settings + ([] if args.until is None else [f"until={args.until}"])
    if args.physics is None:
        return settings
    owner = engines()[args.physics]
    if world != owner:
        raise UserError(f"--physics {args.physics} is an engine of {BACKENDS[owner].title}: add --world {owner}")
    return settings + backend(world).chosen(args)


def _keeps_records() -> bool:
    from gaitway_agents.core import distributed

    return distributed.rank() == 0


def _print_notes(config: TrainConfig, *, continued: bool) -> None:
    for line in config.domain.notes(config, continued=continued):
        print(line)


def _train(config: TrainConfig, folder: RunFolder | None, *, quiet: bool = False) -> int:
    """Train in the simulator that the world needs; without records where ``folder`` is another process's."""
    from ..training.loop import train, train_along

    if folder is not None and _keeps_records():
        return train(config, folder, quiet=quiet)
    return train_along(config, folder)


def _resume(args: argparse.Namespace, path: Path) -> int:
    from ..runs.folder import RunFolder

    if not _keeps_records():
        return _continue(args, path, RunFolder.open(path))
    lock = RunFolder.open(path).lock
    with lock:
        folder = RunFolder.open(path)  # as the process that held it before has left it
        folder.lock = lock
        return _continue(args, path, folder)


def _continue(args: argparse.Namespace, path: Path, folder: RunFolder) -> int:
    from ..config.overrides import trust_settings
    from ..config.train_config import difference, merge
    from ..domains.table import check_options, find_task
    from ..runs.files import refuse_links

    refuse_links(*path.iterdir())
    trust_settings(args.settings)
    stored = folder.config()
    _check_edits(folder)
    if stored.task.name != (asked_task := find_task(args.task, args.preset).name):
        raise RunError(f"{path} is a run of {stored.task.name}, not of {asked_task}: choose another --out")
    for name, field in (("seed", "seed"), ("preset", "preset"), ("world", "world"), ("agent", "algorithm")):
        asked, had = getattr(args, name), getattr(stored, field)
        if asked is not None and asked != had:
            raise RunError(f"{path} was started with --{name} {had}, not {asked}: choose another --out")
    common.require(f"training in {stored.world}", WORLDS[stored.world])
    options = _options(args)
    check_options(stored.task, options)
    stored.domain.check_continued(stored, options, path)
    config = merge(stored, args.config, _settings(args, stored.world))
    if changed := [key for key in difference(stored, config) if key not in RESUMABLE]:
        raise UserError(
            f"{changed[0]} cannot change when a run is continued (only {', '.join(RESUMABLE)} can): "
            "start a new run with another --out"
        )
    steps = folder.record["steps"]
    if config.total_steps < steps and config.total_steps != stored.total_steps:
        raise UserError(
            f"total_steps={config.total_steps:,}: {path} has done {steps:,} steps already; give a greater number or "
            "leave it out"
        )
    if folder.record["status"] == "finished":
        if steps >= config.total_steps:
            print(f"{path} is finished: {steps:,} steps; raise total_steps to train on")
            return 0
        if _stays_good(folder, stored, config):
            print(f"{path} is finished: good after {steps:,} steps; raise least_steps or total_steps to train on")
            return 0
    _check_examination(config)
    config.domain.start(config.domain.as_begun(config, folder.record))
    if not _keeps_records():
        return _train(config, folder)
    print(f"continuing {path} after {folder.record['steps']:,} of {config.total_steps:,} steps", flush=True)
    _print_notes(config, continued=True)
    folder.set_config(config)
    return _train(config, folder, quiet=args.quiet)


def _check_examination(config: TrainConfig) -> None:
    """Refuse, before a simulator starts, to examine where MuJoCo is missing, or as old as Newton asks for."""
    if config.until == "good":
        common.require("--until good examines in MuJoCo, which", MUJOCO)


def _stays_good(folder: RunFolder, stored: TrainConfig, config: TrainConfig) -> bool:
    """Whether a finished run, as good as it was asked to be, is asked for nothing more."""
    from ..training.examinations import GOOD

    asked = config.until == "good" and config.total_steps == stored.total_steps
    return folder.record.get("reason") == GOOD and asked and folder.record["steps"] >= config.least_steps


def _check_edits(folder: RunFolder) -> None:
    """Refuse a configuration that differs from the run's in settings that must not change."""
    edited = {key: pair for key, pair in folder.edited().items() if key not in RESUMABLE}
    if not edited:
        return
    key, (then, now) = next(iter(edited.items()))
    more = f" (and {len(edited) - 1} more: {', '.join(list(edited)[1:6])})" if len(edited) > 1 else ""
    raise RunError(
        f"{folder.path}/config.yaml is not what the run was trained with: {key} was {then!r} and is {now!r}{more}. "
        "Put it back to continue the run, or start a new one with another --out"
    )


def _show_warning(message: Warning | str, *where: object) -> None:
    """Print a warning as one line, without the source line."""
    print(f"gaitway: warning: {message}", file=sys.stderr)
