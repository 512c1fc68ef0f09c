"""Costs and gains of learning from old samples: GRPO, PPO and online DPO with staleness and partial rollouts.

    python benchmarks/language_staleness.py start FOLDER        # a tiny model that solves some problems of `arithmetic`
    python benchmarks/language_staleness.py train FOLDER --settings 0,1,2,4,1:2 --seeds 3
    python benchmarks/language_staleness.py train MODEL --results FILE --task instructions --threads 2    # any model
    python benchmarks/language_staleness.py table FOLDER
    python benchmarks/language_staleness.py sample MODEL --settings 0,0:1,0:3 --task instructions --limit 256

A setting is N, for `language.staleness=N`, or N:M, for `language.staleness=N language.max_staleness=M`. With N = 0
learner and sampler take turns in one process of `--threads` threads; otherwise a second process of one thread samples.
All settings see the same number of answers. Each finished training is a line of FOLDER/staleness.jsonl and is not run
again, so a stopped benchmark goes on where it was. Wall times need two cores that nothing else uses; `busy` says how
many other processes wanted one. CPU-seconds of learner and sampler depend less on that. `sample` draws 4 rollouts
without learning, after as many as are under way at once.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from gaitway_agents.core.surrogates import ClippedSurrogate
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language import presets
from gaitway_agents.language.asynchronous import AsynchronousWorld
from gaitway_agents.language.corrections import CorrectionConfig
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.kl_control import KLControlConfig
from gaitway_agents.language.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.language.sft import SFTConfig, SFTTrainer
from gaitway_agents.models.token_critic import TokenCritic
from gaitway_language.conversation import Conversation
from gaitway_language.data import demonstrations
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.model import build_model, load_model
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.saving import save_model
from gaitway_language.tokenizer import build_tokenizer, load_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.score import score
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.language.tasks import get_language_task

EXAMINATION = 10_000
"""Seed of the problems that trained models are compared on."""
PPO = {"normalize_advantages": "batch", "value_coefficient": 0.5, "clip_groups": True}
SAME = ("model", "task", "agent", "objective", "setting", "threads", "answers", "updates", "limit", "learning_rate")
"""What seeds of one row of the table have in common."""


# ---- worlds ---------------------------------------------------------------------------------------------------------


def make_world(asked: argparse.Namespace, seed: int, ahead: int = 0) -> TextWorld:
    """The task with an engine that has weights of its own; another process builds it as well."""
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(asked.model)
    return world_of(asked, load_model(LanguageOptions(model=asked.model), tokenizer), tokenizer, seed, ahead)


def task_of(asked: argparse.Namespace) -> LanguageTask:
    task = get_language_task(asked.task)
    return task.replace(max_completion_tokens=asked.limit) if asked.limit else task


def world_of(asked: argparse.Namespace, model: Any, tokenizer: Any, seed: int, ahead: int = 0) -> TextWorld:
    task, conversation = task_of(asked), Conversation(tokenizer)
    engine = TransformersEngine(model, dtype=torch.bfloat16, batch_size=512)
    sampling = Sampling(max_tokens=task.max_completion_tokens, stop_tokens=conversation.stops)
    return TextWorld(task, conversation, engine, sampling, functools.partial(score, task), seed=seed, ahead=ahead)


def examine(asked: argparse.Namespace, model: Any, tokenizer: Any) -> tuple[float, float]:
    """Mean reward of sampled answers to problems that no training saw, and half of its 95 % interval."""
    rewards = world_of(asked, model, tokenizer, EXAMINATION).sample(asked.problems, 1).rewards
    return float(rewards.mean()), 1.96 * float(rewards.std()) / len(rewards) ** 0.5


# ---- trainings ------------------------------------------------------------------------------------------------------


def make_trainer(asked: argparse.Namespace, model: Any, world: Any, seed: int) -> Any:
    """All agents see as many answers for an update and take as many steps."""
    optimizer = one_step(
        learning_rate=asked.learning_rate,
        betas=(0.9, 0.98),
        precision="bfloat16",
        surrogate=ClippedSurrogate(clip_high=0.28),
    )
    prompts, answers = asked.prompts, asked.answers
    schedule = LearningRateSchedule(shape="linear")
    common = {"seed": seed, "total_steps": prompts * answers * asked.updates}
    if asked.agent == "online-dpo":
        dpo = OnlineDPOConfig(
            prompts_per_step=prompts,
            group_size=answers,
            optimizer=replace(optimizer, surrogate=ClippedSurrogate()),
            schedule=schedule,
        )
        return OnlineDPOTrainer(model, world, dpo, **common)
    config = replace(presets.GRPO, optimizer=optimizer)
    if asked.agent == "ppo":
        config = replace(
            presets.PPO_RLHF,
            kl=KLControlConfig(coefficient=0.005),
            missing_eos_reward=None,
            optimizer=replace(optimizer, **PPO),
        )
    groups = config.advantage != "gae"
    config = replace(
        config,
        prompts_per_step=prompts if groups else prompts * answers,
        group_size=answers if groups else 1,
        schedule=schedule,
    )
    if asked.objective == "decoupled":
        config = replace(config, behaviour="trainer", correction=CorrectionConfig())
    return PolicyGradientTrainer(model, world, config, critic=None if groups else TokenCritic(model), **common)


def train(asked: argparse.Namespace, setting: str, seed: int) -> dict[str, Any]:
    """One training."""
    staleness, _, most = setting.partition(":")
    late = int(staleness)
    ahead = int(most) - late if most else 0
    threads = 1 if late else asked.threads
    torch.set_num_threads(threads)
    tokenizer = load_tokenizer(asked.model)
    model = load_model(LanguageOptions(model=asked.model), tokenizer)
    before, _ = examine(asked, model, tokenizer)
    make = functools.partial(make_world, asked, seed, ahead)
    world: Any = AsynchronousWorld(make, staleness=late) if late else make()
    trainer = make_trainer(asked, model, world, seed)
    cpu, began = _cpu(), time.perf_counter()
    metrics = [trainer.iterate() for _ in range(asked.updates)]
    wall = time.perf_counter() - began
    load = os.getloadavg()[0]
    if late:
        world.close()
    learner, sampler = (now - then for now, then in zip(_cpu(), cpu, strict=True))
    after, half = examine(asked, model, tokenizer)
    return {
        "setting": setting,
        "seed": seed,
        "threads": threads,
        "before": before,
        "after": after,
        "half": half,
        "wall": wall,
        "learner": learner,
        "sampler": sampler,
        "waiting": sum(m["time/sampling"] for m in metrics) / wall,
        "generation": sum(m["time/generation"] for m in metrics),
        "late": statistics.mean(m["rollout/staleness_mean"] for m in metrics),
        "latest": max(m["rollout/staleness"] for m in metrics),
        "mixed": statistics.mean(m["rollout/mixed_versions"] for m in metrics),
        "length": statistics.mean(m["rollout/length"] for m in metrics),
        "rewards": [round(m["rollout/reward"], 4) for m in metrics],
        "busy": max(0.0, load - (learner + sampler) / wall),
    }


def _cpu() -> tuple[float, float]:
    """CPU-seconds of this process, and of children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return usage[0].ru_utime + usage[0].ru_stime, usage[1].ru_utime + usage[1].ru_stime


# ---- commands -------------------------------------------------------------------------------------------------------


def start(asked: argparse.Namespace) -> None:
    """Supervised fine-tuning on the task's demonstrations, half of which have a slip."""
    began = time.process_time()
    task = get_language_task("arithmetic")
    tokenizer = build_tokenizer([" ".join(task.source.vocabulary())])  # type: ignore[union-attr]
    model = build_model(TinyModel(), tokenizer, 0)
    data = demonstrations(task.source.rows("train"), task, Conversation(tokenizer))
    config = SFTConfig(
        batch_size=64,
        updates=700,
        schedule=LearningRateSchedule(shape="linear", warmup=0.03),
        optimizer=one_step(learning_rate=2e-3, betas=(0.9, 0.98), precision="bfloat16"),
    )
    metrics = SFTTrainer(model, data, config, seed=0, total_steps=64 * 700).iterate()
    save_model(model, tokenizer, Path(asked.model))
    reward, _ = examine(asked, model, tokenizer)
    print(f"loss {metrics['learn/loss']:.3f}, sampled reward {reward:.3f}, {time.process_time() - began:.0f} CPU-s")


def trainings(asked: argparse.Namespace) -> None:
    """Those of the settings and seeds that have no line yet."""
    for seed in range(asked.seeds):
        for setting in asked.settings.split(","):
            given = {name: getattr(asked, name) for name in (*SAME, "prompts") if hasattr(asked, name)}
            key = given | {"setting": setting, "seed": seed, "threads": asked.threads if setting[0] == "0" else 1}
            if any(key.items() <= row.items() for row in read(asked.results)):
                continue
            row = key | train(asked, setting, seed)
            with open(asked.results, "a") as file:
                file.write(json.dumps(row) + "\n")
            print(table([row])[-1], flush=True)


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if Path(path).exists() else []


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each setting: means over seeds, and half of the 95 % interval of one seed's reward."""
    names = ("late", "max", "mixed", "wall s", "learner", "sampler", "waiting", "busy")
    first = f"{'agent':<10} {'objective':<9} {'rate':>7} {'setting':<7} {'threads':>7} {'seeds':>5}"
    lines = [" ".join([first, f"{'before':>6} {'after':>6} {'+-':>5}", *(f"{name:>7}" for name in names), " per seed"])]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in SAME), []).append(row)
    for each in groups.values():
        one = each[0]
        mean = {name: statistics.mean(row[name] for row in each) for name in one if isinstance(one[name], float)}
        lines.append(
            f"{one['agent']:<10} {one['objective']:<9} {one['learning_rate']:>7g} {one['setting']:<7} "
            f"{one['threads']:>7} {len(each):>5} "
            f"{mean['before']:>6.3f} {mean['after']:>6.3f} {mean['half']:>5.3f} {mean['late']:>7.2f} "
            f"{one['latest']:>7.0f} {mean['mixed']:>7.0%} {mean['wall']:>7.1f} {mean['learner']:>7.1f} "
            f"{mean['sampler']:>7.1f} {mean['waiting']:>7.0%} {mean['busy']:>7.1f}  "
            + " ".join(f"{row['after']:.3f}" for row in each)
        )
    return lines


def sampling(asked: argparse.Namespace) -> None:
    """CPU-seconds of whole and partial rollouts."""
    tokenizer = load_tokenizer(asked.model)
    model = load_model(LanguageOptions(model=asked.model), tokenizer)
    print(f"{'setting':<7} {'tokens':>6} {'longest':>7} {'CPU-s a rollout':>15} {'tokens a CPU-s':>14}")
    for setting in asked.settings.split(","):
        ahead = int(setting.partition(":")[2] or 0)
        world = world_of(asked, model, tokenizer, 0, ahead)
        for _ in range(ahead + 1):
            world.sample(asked.prompts, asked.answers)
        began, sizes = time.process_time(), []
        for _ in range(4):
            sizes += world.sample(asked.prompts, asked.answers).mask.sum(1).tolist()
        spent = time.process_time() - began
        lengths = f"{statistics.mean(sizes):>6.1f} {max(sizes):>7.0f}"
        print(f"{setting:<7} {lengths} {spent / 4:>15.2f} {sum(sizes) / spent:>14.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("start", "train", "table", "sample"))
    parser.add_argument("model", help="folder of the model; `start` makes it")
    parser.add_argument("--results", default="", help="file of finished trainings; default MODEL/staleness.jsonl")
    parser.add_argument("--task", default="arithmetic", help="a task by name")
    parser.add_argument("--limit", type=int, default=0, help="tokens of an answer; 0 leaves the task's")
    parser.add_argument("--agent", default="grpo", choices=("grpo", "ppo", "online-dpo"))
    parser.add_argument("--objective", default="coupled", choices=("coupled", "decoupled"))
    parser.add_argument("--settings", default="0,1,2,4")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of setting 0, where learner and sampler take turns")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--problems", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    asked = parser.parse_args()
    asked.results = asked.results or str(Path(asked.model) / "staleness.jsonl")
    torch.set_num_threads(1)
    if asked.command == "start":
        start(asked)
    elif asked.command == "train":
        trainings(asked)
    elif asked.command == "sample":
        return sampling(asked)
    print("\n".join(table(read(asked.results))))


if __name__ == "__main__":
    main()
