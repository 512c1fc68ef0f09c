"""``gaitway train``: train an agent on a task.

Train an agent on a task, from scratch or from where a run stopped.

Settings come from, in rising priority: the defaults, --preset, --config FILE, key=value. Every field of the
configuration can be set: the learner's (agent.*), the simulator's (simulator.*) and the task's (task.*). Unknown keys
and wrong types are refused before anything starts. The resolved configuration is written to config.yaml in the run
folder.

--until good examines the policy every half million steps: a short, deterministic version of 'gaitway validate'. A line
lists the checks that fail. If none does, the whole suite judges this policy, on random draws of its own; if it passes,
training ends. At total_steps, the best policy examined is the result.

--against CASES draws the disturbances of failing cases that 'gaitway validate --falsify' found, and a policy must
survive these cases in its examination.

On two cores, robots in MuJoCo train in two processes, each with half of the robots; processes=1 uses a single one.

The run folder also gets run.json, metrics.jsonl, tensorboard/ and checkpoints/. Ctrl-C, SIGTERM, SIGHUP or SIGUSR1
finishes the iteration and writes a checkpoint; --resume continues from there, bit for bit as if uninterrupted.

--world isaaclab trains a robot's task in Isaac Lab: 2.3 with Isaac Sim on a GPU, or 3.0, whose PhysX and Newton need
neither. Its simulations cannot be saved: --resume restores the learner exactly and starts new episodes. Export and
validate need no Isaac Lab.

--gpus N starts N processes that train one agent, each with num_envs environments and its own GPU; the first writes the
run folder. --nodes adds machines, --cpus N does the same on CPUs. --dry-run prints torchrun's command.

examples:
  gaitway train velocity-flat-anymal-c-blind --preset cpu --out runs/walk
  gaitway train velocity-flat-anymal-c-blind --out runs/walk --resume
  gaitway train velocity-flat-anymal-c-blind --preset cpu --until good
  gaitway train velocity-flat-anymal-c-blind --until good --against runs/walk/validation/falsified
  gaitway train velocity-flat-anymal-c --settings optimizer             # what can be set, and its default
  gaitway train velocity-flat-anymal-c 'evaluation_episodes=${num_envs}'
  gaitway train velocity-flat-anymal-c --seed 1 num_envs=512 agent.optimizer.learning_rate=3e-4
  gaitway train velocity-flat-anymal-c task.rewards.action_rate_l2.weight=-0.02 task.timing.decimation=2
  gaitway train velocity-flat-anymal-c task.events.push_robot=null        # null removes a term
  gaitway train velocity-flat-go2-blind --preset cpu --parameters params.yaml
  gaitway train velocity-flat-anymal-c --world isaaclab --physics newton num_envs=2048
  gaitway train velocity-flat-anymal-c --world isaaclab --gpus all
  gaitway train velocity-flat-anymal-c-blind --cpus 4 --nodes 2 --node-rank 1 --endpoint node0:29500 --out runs/walk
  gaitway train velocity-rough-anymal-c-blind --agent distill --teacher runs/perceptive
  gaitway train my_robot --out runs/mine                      # the folder that 'gaitway adopt' wrote
  gaitway train cartpole
  gaitway train hopper --agent trpo --seeds 3
  gaitway train cartpole --logger wandb,mlflow
  gaitway train gym:LunarLander-v3 --agent dqn agent.double=true
  gaitway train breakout --agent ppo
  gaitway train frozen-lake --agent value-iteration
  gaitway train arithmetic --agent sft --out runs/sft
  gaitway train arithmetic --agent grpo --model runs/sft
  gaitway train gsm8k --agent grpo --model Qwen/Qwen2.5-1.5B-Instruct --rollout vllm --lora
  gaitway train pairs.jsonl --agent dpo --model runs/sft
  gaitway train sums.jsonl,stories.jsonl --agent sft --model runs/sft 'task.source.weights={sums: 0.7, stories: 0.3}'
  gaitway train prompts.jsonl --agent ppo --model runs/sft --reward-model runs/judge
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_tasks.registry import UnknownNameError

from .. import launch, options
from ..backends.table import BACKENDS, backend, engines
from . import common

if TYPE_CHECKING:
    from ..start import Order


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option(
        "task",
        "robot task (also MODULE:OBJECT, or the folder of 'gaitway adopt'), language task or file of "
        "texts, Gymnasium environment (also gym:ID) or "
        "Atari game; 'gaitway list tasks' shows them",
    )
    parser.option("settings key=value", "change a setting, e.g. num_envs=512", nargs="*")
    parser.option(
        "--settings PART",
        "show the settings whose keys have PART, or all, as they would be trained with, and train nothing",
        dest="shown",
        nargs="?",
        const="",
    )
    parser.option("--agent", "agent to train (default ppo, for texts grpo); 'gaitway list agents' shows them")
    parser.option("--world", "simulator to train in (default: the task's usual one)")
    parser.option("--physics", "engine of Isaac Lab (default: what is installed)", choices=tuple(engines()))
    parser.switch("--distributed", "train together with the other processes of a torchrun of your own")
    parser.option(
        "--preset",
        "named settings for a kind of machine (robots in MuJoCo: default cpu); none: Isaac Lab's own numbers",
    )
    parser.option("--config FILE", "YAML file of settings", Path)
    parser.option("--parameters FILE", "params.yaml from 'gaitway identify': train on this identified robot", Path)
    parser.option(
        "--against CASE|FOLDER",
        "with --until good: train against failing cases of 'gaitway validate --falsify'; repeatable",
        Path,
        many=True,
    )
    parser.option("--teacher RUN|MODEL", "teacher: for agent distill a robot's run, for gkd a model like --model")
    parser.option("--seed", "random seed (default 0)", options.seed)
    parser.option("--seeds N", "train N runs in turn, with seeds from --seed", options.count)
    parser.option(
        "--until end|good",
        "end of the training: total_steps (end, the default), or a policy that passes examination and suite (good)",
    )
    parser.option("--logger wandb|mlflow", "send the metrics there too, beside TensorBoard; both: wandb,mlflow")
    parser.option("--out DIR", "run folder (default runs/TASK/TIME-seedK)", Path)
    parser.switch("--resume", "continue the run in --out, or the newest run of the task; starts one if there is none")
    parser.switch(
        "--quiet",
        "print only warnings, errors and the result: the final evaluation and the checkpoint",
    )
    launch.add_options(parser)
    parser.option(
        "--patience SECONDS",
        "of several processes, time in which each must come a step further (default 600)",
        options.seconds,
        default=launch.PATIENCE_S,
    )
    texts = parser.add_argument_group("language tasks")
    parser.option("--model MODEL", "initial model: run or Hugging Face folder, GGUF file, hub id, tiny", within=texts)
    parser.option(
        "--rollout",
        "engine that samples the answers; vllm-serve: vLLM's own server",
        choices=("transformers", "vllm", "vllm-server", "vllm-serve"),
        within=texts,
    )
    parser.option(
        "--server URL[,URL...]|own|ray:HOST:PORT",
        "address of the server, for --rollout vllm-server or vllm-serve, or one for each of several processes; own: "
        "run the engine in a process of its own; ray:HOST:PORT: run it on a node of the Ray cluster with that head",
        within=texts,
    )
    parser.switch("--lora", "train low-rank adapters only (language.lora.*)", within=texts)
    parser.option(
        "--reward-model RUN|URL|MODULE:FUNCTION",
        "score answers with this reward model instead of the task's rewards",
        within=texts,
    )
    common.add_trust(parser)


def show_settings(order: Order, part: str) -> int:
    """Print the settings of a training whose dotted keys have ``part``."""
    from ..config.overrides import flatten
    from ..config.tree import to_tree
    from ..start import configuration

    values = flatten(to_tree(configuration(order)))
    shown = {key: value for key, value in values.items() if part in key}
    if not shown:
        raise UnknownNameError(f"setting of {order.task} with", part, values)
    for key, value in shown.items():
        print(f"{key}={json.dumps(value)}")
    return 0


def run(args: argparse.Namespace) -> int:
    from ..start import begin, told
    from ..training import processes

    if args.shown is not None:
        return show_settings(order_of(args), args.shown)
    launch.check_options(args)
    processes.check(args.distributed)
    if args.gpus is not None or args.cpus is not None:
        return launched(args)
    simulator = backend(args.world) if args.world in BACKENDS else None
    if args.distributed and simulator is not None:  # before the processes know each other
        given = [word.partition("=")[2] for word in args.settings if word.startswith("device=")]
        simulator.start_first(given[-1] if given else "auto")
    warnings.showwarning = _show_warning
    if args.seeds is None:
        order = order_of(args)
        with processes.group(args.distributed, patience=args.patience, told=told(order)):
            return begin(order)[1]
    first, out = args.seed or 0, args.out
    for seed in range(first, first + args.seeds):
        args.seed, args.out = seed, None if out is None else out / f"seed{seed}"
        if code := begin(order_of(args))[1]:
            return code
        if simulator is not None:  # a process may have one simulation at a time
            simulator.close()
    return 0


def launched(args: argparse.Namespace) -> int:
    """Train in processes that this one starts; returns the exit code."""
    from ..start import check_together, planned

    nodes = launch.Nodes(**{f.name: getattr(args, f.name) for f in fields(launch.Nodes)} | {"nodes": args.nodes or 1})
    nodes.check()
    order = order_of(args)
    with launch.environment():
        config = planned(order)
        check_together(config, nodes.option)
        return launch.launch(nodes, config, args.argv[1:], patience=args.patience, dry_run=args.dry_run)


def order_of(args: argparse.Namespace) -> Order:
    """The training that the command line asks for."""
    from ..domains.table import DOMAINS
    from ..start import Order

    same = {f.name: getattr(args, f.name) for f in fields(Order) if f.name not in ("settings", "callbacks", "options")}
    also = [] if args.until is None else [f"until={args.until}"]
    also += [] if args.logger is None else [f"logger=[{args.logger}]"]
    options = {name: value for row in DOMAINS for name in row.options if (value := getattr(args, name))}
    return Order(settings=[*args.settings, *also], options=options, **same)


def _show_warning(message: Warning | str, *where: Any, **how: Any) -> None:
    """Print a warning as one line, without the source line."""
    print(f"gaitway: warning: {message}", file=sys.stderr)
