"""Costs and gains of learning from old samples: staleness N of GRPO, PPO and online DPO on `arithmetic`, two cores.

    python benchmarks/language_staleness.py start FOLDER              # a model that solves some problems, from nothing
    python benchmarks/language_staleness.py sweep FOLDER [--agents grpo,ppo,online-dpo] [--staleness 0,1,2,4,8]
    python benchmarks/language_staleness.py overlap FOLDER            # N = 1 in a process of its own against N = 0

Rollout k is sampled with the weights after update max(0, k - N). `sweep` asks how much of the reward is left after the
same number of updates; it samples ahead in any case, so its times compare. `overlap` asks what sampling beside
learning saves: the same training, synchronous in one process and asynchronous in two, in turn, one thread each, and the
wall time of their updates. It needs two cores that nothing else uses, and says how busy they were.
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from gaitway_agents.core.surrogates import ClippedSurrogate
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language import presets
from gaitway_agents.language.asynchronous import AsynchronousWorld
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
from gaitway_language.model import build_model, load_model, save_model
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.tokenizer import build_tokenizer, load_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task

TASK = get_language_task("arithmetic")
PROMPTS, ANSWERS, UPDATES = 64, 8, 40
EXAMINATION = 10_000
"""Seed of the problems that trained models are compared on."""
PPO = {"normalize_advantages": "batch", "value_coefficient": 0.5, "clip_groups": True}


# ---- worlds ---------------------------------------------------------------------------------------------------------


def make_world(folder: str, seed: int) -> TextWorld:
    """The task with an engine that has weights of its own; what another process builds as well."""
    tokenizer = load_tokenizer(folder)
    return world_of(load_model(LanguageOptions(model=folder), tokenizer), tokenizer, seed)


def world_of(model: Any, tokenizer: Any, seed: int) -> TextWorld:
    conversation = Conversation(tokenizer)
    engine = TransformersEngine(model, dtype=torch.bfloat16)
    sampling = Sampling(max_tokens=TASK.max_completion_tokens, stop_tokens=conversation.stops)
    return TextWorld(TASK, conversation, engine, sampling, judge, seed=seed)


def judge(prompts: Any, completions: Any, rows: Any) -> Any:
    return score(TASK, prompts, completions, rows)


def examine(model: Any, tokenizer: Any) -> float:
    """Mean reward of sampled answers to 512 problems."""
    return float(world_of(model, tokenizer, EXAMINATION).sample(512, 1).rewards.mean())


# ---- trainings ------------------------------------------------------------------------------------------------------


def make_trainer(agent: str, model: Any, world: Any, seed: int) -> Any:
    """All agents see as many answers for an update and take as many steps."""
    optimizer = one_step(
        learning_rate=1e-3, betas=(0.9, 0.98), precision="bfloat16", surrogate=ClippedSurrogate(clip_high=0.28)
    )
    schedule = LearningRateSchedule(shape="linear")
    common = {"seed": seed, "total_steps": PROMPTS * ANSWERS * UPDATES}
    if agent == "grpo":
        config = replace(presets.GRPO, optimizer=optimizer)
    elif agent == "ppo":
        config = replace(
            presets.PPO_RLHF,
            kl=KLControlConfig(coefficient=0.005),
            missing_eos_reward=None,
            optimizer=replace(optimizer, **PPO),
        )
    elif agent == "online-dpo":
        dpo = OnlineDPOConfig(
            prompts_per_step=PROMPTS,
            group_size=ANSWERS,
            optimizer=replace(optimizer, surrogate=ClippedSurrogate()),
            schedule=schedule,
        )
        return OnlineDPOTrainer(model, world, dpo, **common)
    else:
        raise SystemExit(f"--agents {agent}: use grpo, ppo or online-dpo")
    groups = config.advantage != "gae"
    config = replace(
        config,
        prompts_per_step=PROMPTS if groups else PROMPTS * ANSWERS,
        group_size=ANSWERS if groups else 1,
        schedule=schedule,
    )
    return PolicyGradientTrainer(model, world, config, critic=None if groups else TokenCritic(model), **common)


@dataclass(frozen=True)
class Result:
    before: float
    after: float
    seconds: float
    """Of wall time in updates."""
    cpu: float
    """CPU-seconds, those of the sampling process included."""
    waiting: float
    """Share of the wall time in which the learner waited for samples."""
    sampling: float
    """Seconds that samples took to generate and judge, wherever that was."""
    busy: float
    """Other processes that wanted a core, on average."""


def train(agent: str, folder: str, seed: int, staleness: int, *, apart: bool = True) -> Result:
    """One training; ``apart`` samples in another process."""
    tokenizer = load_tokenizer(folder)
    model = load_model(LanguageOptions(model=folder), tokenizer)
    before = examine(model, tokenizer)
    make = functools.partial(make_world, folder, seed)
    world: Any = AsynchronousWorld(make, staleness=staleness) if apart else make()
    trainer = make_trainer(agent, model, world, seed)
    cpu = _cpu()
    metrics = [trainer.iterate() for _ in range(UPDATES)]
    if apart:
        world.close()
    cpu, load = _cpu() - cpu, os.getloadavg()[0]
    seconds = sum(m["time/total"] for m in metrics)
    return Result(
        before=before,
        after=examine(model, tokenizer),
        seconds=seconds,
        cpu=cpu,
        waiting=sum(m["time/sampling"] for m in metrics) / seconds,
        sampling=sum(m["time/generation"] + m["time/reward"] for m in metrics),
        busy=max(0.0, load - cpu / seconds),
    )


def _cpu() -> float:
    """CPU-seconds of this process and of children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


# ---- commands -------------------------------------------------------------------------------------------------------


def start(folder: str, updates: int) -> None:
    """Supervised fine-tuning on the task's demonstrations, half of which have a slip."""
    began = time.process_time()
    tokenizer = build_tokenizer([" ".join(TASK.source.vocabulary())])
    model = build_model(TinyModel(), tokenizer, 0)
    data = demonstrations(TASK.source.rows("train"), TASK, Conversation(tokenizer))
    config = SFTConfig(
        batch_size=64,
        updates=updates,
        schedule=LearningRateSchedule(shape="linear", warmup=0.03),
        optimizer=one_step(learning_rate=2e-3, betas=(0.9, 0.98), precision="bfloat16"),
    )
    trainer = SFTTrainer(model, data, config, seed=0, total_steps=64 * updates)
    metrics = trainer.iterate()
    save_model(model, tokenizer, Path(folder))
    print(
        f"{updates} updates, loss {metrics['learn/loss']:.3f}, sampled reward {examine(model, tokenizer):.3f}, "
        f"{time.process_time() - began:.0f} CPU-s"
    )


def sweep(folder: str, agents: list[str], stalenesses: list[int], seeds: int) -> None:
    print(f"{'agent':<11} {'N':>2} {'reward before':>13} {'after':>6}   per seed")
    for agent in agents:
        for staleness in stalenesses:
            found = [train(agent, folder, seed, staleness) for seed in range(seeds)]
            after = statistics.mean(result.after for result in found)
            each = " ".join(f"{result.after:.3f}" for result in found)
            print(f"{agent:<11} {staleness:>2} {found[0].before:>13.3f} {after:>6.3f}   {each}", flush=True)


def overlap(folder: str, agents: list[str], seeds: int) -> None:
    print(
        f"{'agent':<11} {'':<12} {'wall s':>7} {'CPU s':>6} {'sampling s':>10} {'waiting':>7} {'after':>6} {'busy':>5}"
    )
    for agent in agents:
        walls: dict[bool, list[float]] = {False: [], True: []}
        for seed in range(seeds):
            for apart in (False, True):
                result = train(agent, folder, seed, int(apart), apart=apart)
                walls[apart].append(result.seconds)
                print(
                    f"{agent:<11} {'asynchronous' if apart else 'synchronous':<12} {result.seconds:>7.1f} "
                    f"{result.cpu:>6.1f} {result.sampling:>10.1f} {result.waiting:>7.0%} {result.after:>6.3f} "
                    f"{result.busy:>5.1f}",
                    flush=True,
                )
        saved = 1.0 - sum(walls[True]) / sum(walls[False])
        print(f"{agent:<11} asynchronous takes {saved:.0%} less wall time (target 25 %)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("start", "sweep", "overlap"))
    parser.add_argument("folder")
    parser.add_argument("--agents", default="")
    parser.add_argument("--staleness", default="0,1,2,4,8")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--updates", type=int, default=700, help="of `start`")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.command == "start":
        start(options.folder, options.updates)
    elif options.command == "sweep":
        agents = (options.agents or "grpo,ppo,online-dpo").split(",")
        sweep(options.folder, agents, [int(n) for n in options.staleness.split(",")], options.seeds)
    else:
        overlap(options.folder, (options.agents or "grpo").split(","), options.seeds)


if __name__ == "__main__":
    main()
