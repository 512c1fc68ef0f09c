"""GRPO's gain beside TRL's: the same model, problems, rewards, number of answers and settings.

    python benchmarks/language_beside_trl.py FOLDER [--task instructions] [--prompts 8] [--updates 24] [--seed 0]
    python benchmarks/language_beside_trl.py FOLDER --device cuda:0
    python benchmarks/language_beside_trl.py FOLDER --table

Ours is ``gaitway train`` and theirs TRL's ``GRPOTrainer``, one after the other, on one thread each or on one GPU. Both
learn all weights of the task's own model, or of --model, with the task's recipe, but from all answers of a group and
without its KL penalty: Adam, four minibatches of an update, answers of at most ``task.max_completion_tokens`` at the
recipe's temperature, rewards normalised in groups, a rate that rises and then falls to 0. Both models are then
evaluated by ``gaitway evaluate`` on the same 240 held-out problems. A part that is done is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

GROUP, MINIBATCHES = 8, 4
GAITWAY = (sys.executable, "-m", "gaitway")
WHO = ("gaitway", "trl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", default="instructions")
    parser.add_argument("--prompts", type=int, default=8, help="prompts of an update; a multiple of 4")
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="instead of the task's own, a --model of gaitway train")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:0")
    parser.add_argument("--problems", type=int, default=240, help="held-out problems (default 240)")
    parser.add_argument("--table", action="store_true", help="print the table of all that FOLDER has, and run nothing")
    parser.add_argument("--only", choices=("trl",), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        return trl(options)
    on_cpu = options.device == "cpu"
    if not options.table:
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        environment |= {"OMP_NUM_THREADS": "1"} if on_cpu else {}
        device = [f"device={options.device}", *(["num_threads=1"] if on_cpu else [])]
        for who in WHO:
            place = options.folder / f"{who}-{options.seed}"
            command = [sys.executable, __file__, *sys.argv[1:], "--only", "trl"]
            if who == "gaitway":
                command = [
                    *GAITWAY, "train", options.task, *(["--model", options.model] if options.model else []),
                    "--agent", "grpo", "--seed", options.seed, "--out", place,
                    "--resume", f"total_steps={options.updates * options.prompts * GROUP}",
                    f"agent.prompts_per_step={options.prompts}", "agent.learnt_answers=null",
                    "agent.optimizer.reference_kl=null",
                    *device, "evaluation_interval=0", "evaluation_episodes=0",
                ]  # fmt: skip
            if not (place / "cost.json").exists():
                began = time.monotonic()
                started = subprocess.Popen(list(map(str, command)), env=environment)
                _, status, used = os.wait4(started.pid, 0)
                took = (time.monotonic() - began) / 60
                if status:
                    raise SystemExit(f"{who} failed; what it said is above")
                busy = (used.ru_utime + used.ru_stime) / 60
                cost = {"minutes": took, "cpu_minutes": busy, "peak_gb": used.ru_maxrss / 1e6}
                (place / "cost.json").write_text(json.dumps(cost))
            if not (place / "held-out.json").exists():
                examined = [*GAITWAY, "evaluate", place, "--task", options.task, "--problems", options.problems]
                words = [*map(str, examined), "--out", str(place), "--name", "held-out", *device]
                subprocess.run(words, env=environment, check=True)
    print("| run | reward of the last quarter, sampled | right, greedy | time | CPU time | peak memory |")
    print("|---|---|---|---|---|---|")
    for place in sorted(options.folder.iterdir()):
        if (place / "held-out.json").exists():
            print(row(place))


def row(place: Path) -> str:
    rewards = [json.loads(line)["rollout/reward"] for line in (place / "metrics.jsonl").read_text().splitlines()]
    last = rewards[-max(1, len(rewards) // 4) :]
    right = json.loads((place / "held-out.json").read_text())["measures"]["greedy accuracy"]
    cost = json.loads((place / "cost.json").read_text())
    held = " to ".join(f"{100 * right[end]:.1f}" for end in ("low", "high"))
    minutes = "" if "minutes" not in cost else f"{cost['minutes']:.1f} min"
    return (
        f"| {place.name} | {sum(last) / len(last):.3f} | {100 * right['value']:.1f} % [{held}] "
        f"| {minutes} | {cost['cpu_minutes']:.1f} min | {cost['peak_gb']:.1f} GB |"
    )


def trl(options: argparse.Namespace) -> None:
    """Train TRL's; the model and the reward of each update lie in its folder, as in one of ours."""
    on_cpu = options.device == "cpu"
    import torch
    from datasets import Dataset
    from gaitway_agents.presets import has_bfloat16
    from gaitway_tasks.language.score import score
    from trl import GRPOConfig, GRPOTrainer

    from gaitway.domains.texts.models import open_start
    from gaitway.train_config import resolve

    if on_cpu:
        torch.set_num_threads(1)
    given = {} if options.model is None else {"model": options.model}
    config: Any = resolve(options.task, agent="grpo", overrides=[f"device={options.device}"], options=given)
    task, language, agent = config.task, config.language, config.agent
    low = language.dtype == "bfloat16" if on_cpu else has_bfloat16(torch.device(options.device))
    model, tokenizer = open_start(config, None)
    rows = list(islice(task.source.stream("train", options.seed), options.prompts * options.updates))
    place = options.folder / f"trl-{options.seed}"
    place.mkdir(parents=True, exist_ok=True)
    stops = {tokenizer.eos_token_id}
    heard: list[float] = []

    def reward(prompts: Any, completions: Any, completion_ids: Any, number: list[int], **columns: Any) -> list[float]:
        asked = [rows[i] | {"finished": ids[-1] in stops} for i, ids in zip(number, completion_ids, strict=True)]
        texts = [completion[0]["content"] for completion in completions]
        totals, parts = score(task, [row["prompt"] for row in asked], texts, asked)
        heard.append(sum(totals) / len(totals))
        means = {f"rollout/reward/{name}": sum(values) / len(values) for name, values in parts.items()}
        with (place / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"rollout/reward": heard[-1], "cpu": time.process_time(), **means}) + "\n")
        return totals

    (place / "metrics.jsonl").unlink(missing_ok=True)
    chats = [{"prompt": [{"role": "user", "content": row["prompt"]}], "number": i} for i, row in enumerate(rows)]
    answers, steps = options.prompts * GROUP, options.updates * MINIBATCHES
    optimizer = agent.optimizer
    settings = GRPOConfig(
        output_dir=str(place / "trl"), seed=options.seed, max_steps=steps, num_generations=GROUP,
        per_device_train_batch_size=answers // MINIBATCHES, gradient_accumulation_steps=1,
        steps_per_generation=MINIBATCHES, max_completion_length=task.max_completion_tokens,
        temperature=language.temperature, beta=0.0, num_iterations=1, epsilon=optimizer.surrogate.clip,
        epsilon_high=optimizer.surrogate.clip_high, learning_rate=optimizer.learning_rate,
        adam_beta1=optimizer.betas[0], adam_beta2=optimizer.betas[1], weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.max_grad_norm, lr_scheduler_type="linear",
        warmup_steps=round(agent.schedule.warmup * steps), loss_type="dapo", shuffle_dataset=False, use_cpu=on_cpu,
        bf16=low, gradient_checkpointing=False, report_to="none", save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model, reward_funcs=reward, args=settings,
        train_dataset=Dataset.from_list(chats), processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    trainer.save_model(str(place))
    tokenizer.save_pretrained(place)


if __name__ == "__main__":
    main()
