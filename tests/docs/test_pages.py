"""Every command and link of the pages is understood or exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gaitway.walk import export_command, film_command, train_command, validate_command

from .checks import check, commands_of_make, makefile, options, parsers
from .pages import PAGES, ROOT, Command, anchors, block_commands, help_commands, inline, inline_commands


def refused(commands: list[Command]) -> list[str]:
    """Errors of the commands that would not be understood."""
    wrong = []
    for command in commands:
        try:
            check(command)
        except ValueError as error:
            wrong.append(f"{command.where}\n    {error}")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_is_understood(page):
    assert not (wrong := refused([*block_commands(page), *inline_commands(page)])), "\n".join(wrong)


def test_every_example_of_the_help_is_understood():
    examples = list(help_commands())
    assert len(examples) > 50
    assert not (wrong := refused(examples)), "\n".join(wrong)


def test_what_make_runs_is_understood():
    out = Path("runs/walk")
    steps = [train_command(out, 0), *(command(out) for command in (export_command, validate_command, film_command))]
    walking = [Command("gaitway/walk.py", 0, f"gaitway {shlex.join(step)}") for step in steps]
    commands = [*walking, *commands_of_make("reason"), *commands_of_make("act")]
    assert len(commands) >= 18
    assert not (wrong := refused(commands)), "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gaitway walk runs/walk", "invalid choice"),
        ("gaitway play runs/walk --film x.mp4", "unrecognised arguments: --film"),
        ("gaitway train velocity-flat-anymal-c agent.learning_rate=3e-4", "did you mean"),
        ("gaitway train velocity-flat-anymal-z", "anymal-z"),
        ("gaitway train cartpole --preset gpu", "gpu"),
        ("gaitway bench cartpole,acrobat", "acrobat"),
        ("gaitway twin unitree-go9", "unitree-go9"),
        ("gaitway compare RUN... [--by KEY]", "has no --by"),
        ("make walks", "target 'walks'"),
        ("make walk PIPARGS=x", "variable 'PIPARGS'"),
        ("python benchmarks/walker.py --speed 3", "no --speed"),
        ("pip install 'gaitway[mujocoo]'", "no extra mujocoo"),
        ("./isaaclab.sh train --task Gaitway-Velocity-Anymal-C-v0", "no environment"),
        ("git pull", "in no class"),
    ],
)
def test_what_is_wrong_is_found(text, message):
    assert re.search(message, refused([Command("page.md", 7, text)])[0])


@pytest.mark.parametrize("page", PAGES)
def test_every_link_goes_somewhere(page):
    broken = []
    for line, token in inline(page):
        target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src")
        if token.type not in ("link_open", "image") or re.match(r"[a-z]+:", str(target)):
            continue
        path, _, anchor = str(target).partition("#")
        aim = (ROOT / page).parent / path if path else ROOT / page
        if not aim.exists():
            broken.append(f"{page}:{line}: no file {target}")
        elif anchor and anchor not in anchors(str(aim.resolve().relative_to(ROOT))):
            broken.append(f"{page}:{line}: no heading {target}")
    assert not broken, "\n".join(broken)


OF_OTHERS = {
    "--headless", "--rl_library", "--task", "--export_io_descriptors",  # Isaac Lab's
    "--external_callback", "--frontend",
    "--head", "--address", "--num-gpus",  # Ray's
    "--nproc_per_node", "--no-python", "--logdir", "--extra-index-url",  # torchrun's, TensorBoard's, pip's
    "--gpus-per-node",  # Slurm's
    "--weight-transfer-config", "--enable-scale-out", "--logprobs-mode", "--no-enable-chunked-prefill",  # vLLM's
    "--api-key", "--data-parallel-size", "--tensor-parallel-size",
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_every_option_in_a_sentence_exists(page):
    known = {option for name in parsers() for option in options(name)} | OF_OTHERS | {"--version", "--completion"}
    scripts = [*(ROOT / "benchmarks").glob("*.py"), ROOT / "extensions/gaitway_language/engines/serve.py"]
    sources = "".join(path.read_text() for path in scripts)
    known |= set(re.findall(r'"(--[a-z][\w-]*)"', sources))
    unknown = []
    for line, token in inline(page):
        if token.type == "code_inline":
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", token.content):
                if option not in known:
                    unknown.append(f"{page}:{line}: {option}")
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("page", PAGES)
def test_exit_codes_are_those_there_are(page):
    codes = set(re.findall(r"exit code (?:is |of )?(\d+)", " ".join((ROOT / page).read_text().split())))
    assert codes <= {"0", "1", "2", "3", "70", "130", "143"}


def test_make_help_shows_every_target_of_the_first_page():
    assert {"walk", "test", "reason", "act"} <= makefile()[0]


def test_the_gallery_counts_the_policies_of_the_test_house():
    house = (ROOT / "docs/test_house.md").read_text()
    walked, judged = (
        house.partition(f"## {title}")[2].partition("\n## ")[0] for title in ("Five commands", "Verdicts")
    )
    rows = len(re.findall(r"^\| [a-z]", walked, re.M)) - 1, len(re.findall(r"\| (?:PASS|FAIL) \|", judged))
    assert rows == (20, 15)
    said = " ".join((ROOT / "docs/gallery.md").read_text().split())
    assert "has twenty public policies walk" in said and "judges 15 of them" in said
    assert "has the verdicts of 15 public policies" in " ".join((ROOT / "README.md").read_text().split())
