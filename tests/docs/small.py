"""Small versions of the pages' commands, which run in a second or two: the one table of rewrites and of exceptions."""

from __future__ import annotations

import re
import socket

from gaitway_agents.distillation import PolicyDistillationConfig
from gaitway_agents.off_policy.config import DQNConfig, SACConfig
from gaitway_agents.presets import PPOConfig
from gaitway_agents.rsl_rl.config import RslRlConfig
from gaitway_agents.tabular.td_trainer import QLearningConfig, SarsaConfig
from gaitway_tasks.robots.anymal_c import ANYMAL_C
from language_runs import MODEL, PROBLEMS

from gaitway import cli
from gaitway.train_config import TrainConfig

from .checks import resolved
from .pages import Command
from .workshop import ROBOT

NOT_HERE = (
    (r"gaitway deploy", "takes over a robot; tests/gaitway/commands/test_deploy.py lets it take over the twin"),
    (r"gaitway rehearse", "takes minutes; tests/gaitway/commands/test_rehearse.py runs parts of it"),
    (r"gaitway replay log\.csv", "needs a log of somebody's; tests/sim2real/logs/test_logs.py makes some"),
    (r"gaitway convert robot\.urdf", "needs somebody's robot; tests/gaitway/commands/test_convert.py makes some"),
    (r"gaitway adopt robot\.(urdf|xml)", "needs somebody's robot; tests/gaitway/commands/test_adopt.py makes one"),
    (r"gaitway train my_robot", "needs an adopted robot; tests/gaitway/commands/test_adopt.py trains one"),
    (r"gaitway motion \w+ \w+\.(csv|txt)", "needs somebody's clip; tests/tasks/tracking/test_motion.py makes some"),
    (r"gaitway train .*clip=pace.npz", "needs somebody's clip; tests/gaitway/test_tracking.py trains with a file"),
    (r"gaitway compare sb3_logs", "needs logs of another program; tests/gaitway/compare/test_foreign.py makes some"),
    (r"gaitway identify", "takes half a minute; tests/gaitway/commands/test_identify.py does it"),
    (r"gaitway serve", "serves on the network; tests/gaitway/commands/test_serve.py speaks with it"),
    (r"gaitway twin", "serves on the network; tests/gaitway/commands/test_twin.py speaks with it"),
    (r"gaitway .*--world isaaclab", "needs Isaac Lab; tests/peers/isaaclab has its own code"),
    (r"gaitway .*--world mujoco-warp", "needs MuJoCo Warp; tests/peers/warp has its own code"),
    (r"gaitway .*--engine ", "needs Isaac Lab; tests/gaitway/backends and tests/peers/isaaclab3 run the parts"),
    (r"gaitway train .*--server ray:", "needs a cluster; tests/gaitway/domains/texts/test_engine_on_ray.py has one"),
    (r"gaitway .*--rollout vllm|python -m gaitway_language.engines.serve", "needs vLLM; tests/peers/vllm"),
    (r"gaitway train .*--server own", "starts processes; tests/gaitway/domains/texts/test_engine_killed.py trains so"),
    (r"gaitway export .*rsl-rl", "needs a run without mirrors; tests/agents/test_rsl_rl_checkpoints.py makes one"),
    (
        r"gaitway .*--(sign|trust) (?!reacher)",
        "needs the reader's own key; tests/gaitway/commands/test_signing.py has one",
    ),
    (r"gaitway (pull|push) .*(hf:|https:)", "needs the internet; tests/gaitway/hub has servers of its own"),
    (
        r"gaitway .*(pypi:|train (instructions|records)|runs/(follow|records))",
        "takes minutes; test_commands.py of texts has a small GGUF file",
    ),
    (r"gaitway evaluate .*--right ", "keeps what a model gets right; tests/gaitway/domains/texts trains one that does"),
    (r"gaitway train .*--(gpus|nodes) ", "needs GPUs or machines; tests/gaitway/test_launch.py starts processes"),
    (r"torchrun|(\./)?isaaclab(\.sh)? ", "needs Isaac Lab; tests/peers/isaaclab has its own code"),
    (r"gaitway sweep .*--ray ", "needs a cluster; tests/gaitway/test_on_ray.py has one"),
    (r"python benchmarks/", "takes an hour, and checkouts of what others published"),
    (r"\S*python -m pytest ", "runs tests, of which this is one"),
    (r"make ", "installs and trains for minutes; test_pages.py checks what it runs"),
    (r"\S*pip |python3 -m venv|source ", "installs"),
    (r"\S*mike ", "publishes"),
    (r"ip |ping ", "looks for a robot on the network"),
)
"""Commands that are understood but not run, and why."""

STANDS_FOR = {
    ("docs/compare.md", "runs/go2"): "runs/walk",
    ("docs/compare.md", "runs/straight"): "runs/old_walk",
    ("docs/estimation.md", "RUN"): "runs/flat",
    ("docs/import_isaaclab.md", "RUN"): "logs/rsl_rl/unitree_go2_flat/2026-01-31_12-00-00",
    ("docs/import_isaaclab.md", "BUNDLE"): "bundles/first",
    ("docs/import.md", "SOURCE"): "published/walk.onnx",
    ("docs/import.md", "BUNDLE"): "bundles/walk",
    ("docs/isaaclab.md", "bundles/anymal"): "runs/walk/bundle",
    ("docs/isaaclab_checks.md", "runs/physx"): "runs/walk",
    ("docs/isaaclab_checks.md", "runs/physx/bundle"): "runs/walk/bundle",
    ("docs/convert.md", "robot.xml"): str(ANYMAL_C.mjcf),
    ("README.md", "released/bundle"): "released",
    ("docs/estimation.md", "BUNDLE"): "estimating",
    ("docs/export.md", "BUNDLE"): "exported",
    ("docs/rsl_rl.md", "RUN"): "runs/flat",
    ("", "runs/walk/validation/falsified"): "cases",
    ("", "runs/walk/validation/falsified/case-1.json"): "case-1.json",
    ("", "best"): "last",  # no training here is long enough for an examination
    ("", "RUN"): "runs/walk",
    ("", "BUNDLE"): "runs/walk/bundle",
}
"""Replacements of words of one page, or of any page."""

MAY_SAY_NO = {"validate", "run", "diagnose", "compare"}
"""Commands whose exit code 1 is an answer: nothing here was trained for long enough to pass."""

SIZES = {
    "demo": ["--seconds", "0.1", "--no-browser"],
    "play": ["--seconds", "0.1"],
    "run": ["--seconds", "0.1"],
    "evaluate": ["--problems", "2"],
    "compare": ["--reps", "20", "--normalize", "none"],  # too short for two different returns
    "record": ["--seconds", "0.4", "--envs", "2"],
}
"""Options that make a command small; the last of two wins."""

LEAST = {("validate", "--falsify"): ["--falsify", "0.02"], ("validate", "--baseline"): ["--twins", "2"]}
"""What goes with an option whose command takes minutes; the last of two wins."""


def why_not(command: Command) -> str | None:
    """Reason why the command cannot run here; None for one that is run."""
    if command.is_synopsis:
        return "a pattern"
    return next((why for pattern, why in NOT_HERE if re.match(pattern, command.text)), None)


def small(command: Command) -> list[str]:
    """The words after ``gaitway`` that do the same in a second or two. Raises ValueError where there is none."""
    program, *words = command.words
    if program != "gaitway":
        raise ValueError(f"{program!r} is neither run nor in the table of what cannot run: see {__file__}")
    words = [STANDS_FOR.get((command.page, word), STANDS_FOR.get(("", word), word)) for word in words]
    name = words[0]
    if "--case" in words:
        return words  # which has its own length
    if name in ("demo", "play") and "--video" not in words:
        words += ["--port", str(free_port())]
    if name == "train" and not command.refusal:
        words += ["--quiet", *(["--seeds", "1"] if "--seeds" in words else []), *train_sizes(words)]
    for (command_name, option), least in LEAST.items():
        words += least if name == command_name and option in words else []
    if name == "sweep":
        words += ["--trials", "2", *(["--seeds", "1"] if "--confirm" in words else [])]
        words += ["--prune", "none", "--metric", "learn/entropy", "num_threads=1"]
        words += ROBOT if "velocity" in words[1] else ["num_envs=4", "agent.num_steps=8", "total_steps=32"]
        words += ["evaluation_episodes=1", "evaluation_interval=0"]
    if name == "bench":
        words += ["--seeds", "1", "--dry-run"]
    return [*words, *SIZES.get(name, ())]


def train_sizes(words: list[str]) -> list[str]:
    config = resolved(cli.parse(words))
    if not isinstance(config, TrainConfig) or config.language is not None:
        return language_sizes(words)
    sizes = ["num_threads=1", "evaluation_interval=0", f"evaluation_episodes={min(1, config.evaluation_episodes)}"]
    agent = config.agent
    if isinstance(agent, PPOConfig) and config.simulator is not None:
        walks = "base_velocity" in config.robot_task.commands
        begun = [*ROBOT[:3], *([ROBOT[-1]] if walks else []), "task.timing.episode_length_s=1"]
        sizes += ROBOT[:3] if "--resume" in words else begun
    elif isinstance(agent, PPOConfig):
        sizes += ["num_envs=4", "agent.num_steps=8", "total_steps=32"]
    elif isinstance(agent, PolicyDistillationConfig):
        sizes += ["num_envs=4", "agent.num_steps=10", "agent.gradient_length=5", "total_steps=40"]
        sizes += ["task.timing.episode_length_s=1"]
    elif isinstance(agent, RslRlConfig):
        sizes += ["num_envs=4", "agent.num_steps_per_env=4", "total_steps=16"]
    elif isinstance(agent, DQNConfig | SACConfig):
        sizes += ["agent.learning_starts=32", "agent.iteration_steps=64", "agent.buffer_size=1000", "total_steps=64"]
        sizes += ["num_envs=8"] if config.simulator is not None else []
    elif isinstance(agent, QLearningConfig | SarsaConfig):
        sizes += ["total_steps=2000"]
    if "--resume" in words and any(word.startswith("total_steps=") for word in words):
        sizes += ["total_steps=512"]  # further than the run has come
    return sizes


def language_sizes(words: list[str]) -> list[str]:
    agent = words[words.index("--agent") + 1]
    sizes = ["num_threads=1", "evaluation_episodes=0", "evaluation_interval=0", "agent.optimizer.precision=float32"]
    sizes += ["language.dtype=float32"]
    if words[1] == "arithmetic":
        sizes += [setting for setting in PROBLEMS if setting.startswith("task.")]
    if words[1] in ("arrows", "digit-sums"):
        sizes += ["task.source.demonstrations=256", "task.source.test_problems=16"]
    if words[1].startswith("text:"):
        sizes += ["task.source.train=16", "task.source.test=16"]
    if "--model" not in words:
        sizes += MODEL
    if agent in ("grpo", "ppo"):
        return [
            *sizes,
            "agent.prompts_per_step=2",
            "agent.group_size=2",
            "agent.optimizer.minibatches=1",
            "task.max_completion_tokens=32",
            "total_steps=4",
        ]
    return [*sizes, "agent.batch_size=4", "total_steps=8"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
