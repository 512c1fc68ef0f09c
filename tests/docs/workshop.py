"""A folder with a small one of everything that the pages speak of, made once for all workers."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import torch
from gaitway_agents.rsl_rl.trainer import RslRlConfig, RslRlTrainer
from gaitway_mujoco import make_env
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.falsify.case import Case
from gaitway_sim2real.population.twin import Twin
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import RobotParameters
from gaitway_tasks.robots.parameters_file import save_parameters
from language_runs import RL, SFT
from sim2real.imports.isaaclab.run_folder import env_settings, write_run
from sim2real.imports.published import holosoma, linear_onnx, unitree_lab
from stand_bundle import make_stand_bundle

from gaitway.cli import main

from .pages import ROOT

ROBOT = [
    "num_envs=16",
    "agent.num_steps=8",
    "total_steps=256",
    "num_threads=1",
    "agent.optimizer.epochs=1",
    "evaluation_episodes=0",
    "task.commands.base_velocity.margin=0",
]
"""A normaliser of observations needs some before numbers are of the size that they will have. Without a margin nothing
is calibrated for an export, which takes seconds."""
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
PONY = ROOT / "docs/examples/pony/pony"
BLIND = "velocity-flat-anymal-c-blind"


def done(*words: object) -> None:
    assert main([str(word) for word in words]) == 0, words


def build(folder: Path) -> None:
    """Fill ``folder``, which is the current one."""
    shutil.copytree(PONY, "pony")
    shutil.copy(ROOT / "docs/examples/shop.py", "shop.py")
    train_robots()
    fall()
    fly(folder)
    train_games()
    train_language()
    bring_from_isaac_lab(folder / "logs/rsl_rl/unitree_go2_flat/2026-01-31_12-00-00")
    (folder / "my_rewards.py").write_text(
        '"""A reader\'s own reward."""\n\n\ndef bouncing(world, limit):\n'
        '    """(N,)"""\n    return world.robot.root_lin_vel_b[:, 2].abs().clamp(max=limit)\n'
        "\n\ndef off_command(world):\n"
        "    return (world.command('base_velocity')[:, :2] - world.robot.root_lin_vel_b[:, :2]).norm(dim=1)\n"
    )
    shutil.copy("runs/go2/bundle/robot.xml", "heavy.xml")


def train_robots() -> None:
    done("train", BLIND, "--preset", "cpu", "--quiet", "--out", "runs/walk", *ROBOT)
    done("train", "velocity-flat-anymal-c", "--quiet", "--out", "runs/flat", *ROBOT)
    done("export", "runs/walk", "--out", "runs/walk/bundle")
    reward = "task.rewards.straight={func: 'gaitway_tasks.mdp.rewards:lin_vel_z_l2', weight: -1}"
    done("train", BLIND, "--preset", "cpu", "--quiet", "--out", "runs/old_walk", *ROBOT, "seed=1", reward)
    done("export", "runs/old_walk", "--out", "released")
    shutil.copytree("runs/walk/bundle", "bundle")
    shutil.copy("bundle/robot.xml", "my_anymal.xml")
    torch.set_num_threads(1)
    trainer = RslRlTrainer(make_env(get_task(BLIND), 4, num_threads=1), RslRlConfig(), seed=0)
    trainer.save_rsl_rl_checkpoint("model_300.pt")


def fall() -> None:
    """A case in which no policy falls, as a search writes it."""
    contract = Contract.load("runs/walk/bundle")
    easy = Case(
        task=contract.task, robot=contract.robot, joint_names=contract.joint_names, policy_sha256="",
        contract_sha256="", seconds=0.2, seed=0, command=((0.0, 0.0, 0.0, 0.0),), blows=(), twin=Twin(),
        size=1.0, shares={"friction": 1.0}, says="falls", cause="base tilt", falls_after=0.1, falls=8,
    )  # fmt: skip
    Path("cases").mkdir()
    for path in ("cases/case-1.json", "case-1.json"):
        easy.save(path)


def fly(folder: Path) -> None:
    make_stand_bundle(folder / "runs/go2/bundle", GO2, stiffness=60.0, damping=2.0)
    done("run", "runs/go2/bundle", "--seconds", "0.3", "--log", "flight.mcap")
    (folder / "flights").mkdir()
    for name in ("stand.mcap", "flights/first.mcap"):
        shutil.copy("flight.mcap", name)
    for name in ("params.yaml", "go2.yaml"):
        save_parameters(RobotParameters(robot="go2", delay=0.004), folder / name)


def bring_from_isaac_lab(run: Path) -> None:
    write_run(run, env_settings())
    done("import", run, "--out", "imported")
    unitree_lab(Path("unitree_rl_lab/deploy"))
    Path("published").mkdir()
    Path("published/go1.onnx").write_bytes(linear_onnx(48, 12))
    holosoma(Path("published"))
    with Path("mine.yaml").open("w") as file, contextlib.redirect_stdout(file):
        done("import", "published/walk.onnx", "--show")
    done("record", "imported", "--out", "rollout.npz", "--seconds", "1", "--envs", "2")


def train_games() -> None:
    sizes = ["num_threads=1", "num_envs=4", "agent.num_steps=8", "total_steps=64", "evaluation_episodes=0"]
    done("train", "cartpole", "--seeds", "2", "--quiet", "--out", "runs/cartpole", *sizes)
    done("train", "hopper", "--quiet", "--out", "runs/hopper", *sizes)
    for name in ("sweep", "new", "old", "bench"):
        shutil.copytree("runs/cartpole", f"runs/{name}")


def train_language() -> None:
    small = [*SFT[:-1], "total_steps=64"]
    done("train", "arithmetic", "--agent", "sft", "--quiet", "--out", "runs/sft", *small)
    done("train", "arithmetic", "--agent", "grpo", "--model", "runs/sft", "--quiet", "--out", "runs/grpo",
         *RL, "total_steps=16", "agent.prompts_per_step=2", "evaluation_episodes=2")  # fmt: skip
    pairs = [{"prompt": f"say {word}", "chosen": f"{word} {word}", "rejected": "no"} for word in WORDS]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    right = [{"prompt": f"{digit} 1", "completion": f"<answer> {digit + 1} </answer>"} for digit in range(4)] * 8
    Path("runs/reason").mkdir()
    Path("runs/reason/right-1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in right))
    for name in ("sums", "stories"):
        shutil.copy("runs/reason/right-1.jsonl", f"{name}.jsonl")
    rows = [{"prompt": f"say {word}", "answer": word} for word in WORDS]
    Path("prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
