"""A tiny model and few problems, for tests of the command line that train for seconds."""

from pathlib import Path

from gaitway.cli import main

MODEL = [
    "language.tiny.hidden_size=32", "language.tiny.heads=2", "language.tiny.layers=1",
    "language.tiny.intermediate_size=64",
]  # fmt: skip
FLOAT = ["agent.optimizer.precision=float32", "language.dtype=float32", "num_threads=1"]
PROBLEMS = [
    "task.source.demonstrations=256", "task.source.test_problems=16", "task.source.steps=[1,2]",
    "evaluation_episodes=8", "evaluation_interval=0",
]  # fmt: skip
SFT = [*MODEL, *FLOAT, *PROBLEMS, "agent.batch_size=32", "agent.optimizer.learning_rate=1e-2", "total_steps=2560"]
"""Enough for answers of the right form, now and then a right one."""
RL = [*FLOAT, *PROBLEMS, "agent.prompts_per_step=4", "agent.group_size=4", "total_steps=64", "checkpoint_interval=1"]


def ours(argv, capsys):
    """Exit code and the two streams of a command run in this process."""
    capsys.readouterr()
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


def train(*argv, out: Path) -> Path:
    """The folder of a run that went well."""
    assert main(["train", *map(str, argv), "--out", str(out), "--quiet"]) == 0
    return out
