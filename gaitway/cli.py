"""Train legged robots and other agents in simulation, validate their policies, and deploy them.

Watch a robot walk, without training:
  gaitway demo

The usual path:
  gaitway train velocity-flat-anymal-c-blind --preset cpu --out runs/walk
  gaitway play runs/walk
  gaitway export runs/walk --out runs/walk/bundle
  gaitway validate runs/walk/bundle
  gaitway run runs/walk/bundle --sim --seconds 20

Language models, on the same optimiser:
  gaitway train arithmetic --agent sft --out runs/sft
  gaitway train arithmetic --agent grpo --model runs/sft --out runs/grpo
  gaitway evaluate runs/grpo --samples 8
  gaitway chat runs/grpo

Games and classic control, with a comparison of agents:
  gaitway train cartpole
  gaitway bench cartpole,acrobot --agent ppo,dqn --seeds 5 --jobs 2
  gaitway compare runs/bench --group agent --html compare.html
  gaitway sweep cartpole --space agent.gamma=0.9..0.999 --trials 8 --jobs 2
"""

# Exit codes: 0 done; 1 the work was done and the answer is no (a verdict FAIL, a diverged training); 2 something given
# is wrong; 3 something differs and no cause explains it (diagnose --flight); 70 a bug, with its traceback; 129, 130,
# 138 and 143 stopped by SIGHUP, Ctrl-C, SIGUSR1 and SIGTERM.

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing takes as long as all the rest of this file
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from .options import Parser

# Everything else is imported within main(), so that Ctrl-C is answered from the first moment on.

COMMANDS = (
    "demo",
    "list_",
    "train",
    "bench",
    "sweep",
    "compare",
    "evaluate",
    "chat",
    "serve",
    "report",
    "play",
    "validate",
    "export",
    "import_",
    "pull",
    "push",
    "convert",
    "adopt",
    "motion",
    "record",
    "diagnose",
    "run",
    "deploy",
    "twin",
    "rehearse",
    "replay",
    "identify",
    "doctor",
)
"""Modules of :mod:`gaitway.commands`, in the order of the help."""

SAFE_PATH = "PYTHONSAFEPATH"
"""Variable with which a Python process does not look for modules in the current folder."""


def build_parser() -> Parser:
    from importlib import import_module

    from .commands.common import add_command
    from .completion import ShowCompletion
    from .options import Parser
    from .version import ShowVersion

    parser = Parser(prog="gaitway", description=__doc__)
    parser.add_argument("--version", action=ShowVersion)
    parser.add_argument("--completion", action=ShowCompletion)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        add_command(commands, import_module(f".commands.{name}", __package__))
    return parser


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Arguments of one command. ``key=value`` may stand anywhere among the options, which argparse alone cannot do."""
    from gaitway_files.errors import UserError

    argv = sys.argv[1:] if argv is None else list(argv)
    for word in argv:
        if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in word):  # Python's signs of bytes that are none
            raise UserError(f"{word!a}: an argument must be text in UTF-8, without NUL")
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    args.argv = argv
    if hasattr(args, "settings"):
        args.settings += [word for word in rest if not word.startswith("-")]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        from .errors import nearest

        known = parser.commands()[args.command][0].options()
        near = [nearest(word.partition("=")[0], known, 0.7) for word in rest if word.startswith("--")]
        hint = f"; did you mean {' '.join(filter(None, near))}?" if any(near) else ""
        raise UserError(f"unrecognised arguments: {' '.join(rest)}{hint}; see gaitway {args.command} --help")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    before = os.environ.get(SAFE_PATH)
    try:
        os.environ[SAFE_PATH] = "1"
        from .terminal import guarded

        with guarded():
            code = _run(argv)
    except KeyboardInterrupt:
        print("gaitway: interrupted", file=sys.stderr)
        code = 130
    finally:  # for callers of main() in other programs
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
    if table := sys.modules.get("gaitway.backends.table"):
        for world in table.BACKENDS:
            table.backend(world).shut_down(code)
    if processes := sys.modules.get("gaitway.training.processes"):
        processes.leave(code)
    return code


def _run(argv: Sequence[str] | None) -> int:
    from .terminal import drop, work_on

    works_on = False
    try:
        args = parse(argv)
        if works_on := args.works_on:
            work_on()
        name_folder(args)
        trust_named(args)
        from .backends.table import make_way

        make_way(getattr(args, "world", None))
        return int(args.run(args))
    except Exception as error:
        from .outcome import BUG, outcome

        if isinstance(error, BrokenPipeError) and not works_on:  # the reader has closed the pipe
            drop(sys.stdout)
            return 0

        code, message = outcome(error)
        if code == BUG or os.environ.get("GAITWAY_DEBUG"):
            import traceback

            traceback.print_exc()
        print(f"gaitway: {_shown(message)}", file=sys.stderr)
        return code


def _shown(message: str) -> str:
    """A message whose lines after the first are indented: what it quotes cannot begin a line of its own."""
    from gaitway_files.reading import printable

    return "\n  ".join(printable(line) for line in message.splitlines())


def name_folder(args: argparse.Namespace) -> None:
    """Where the task of a training is the folder of a robot's package, take its task BLIND, with the preset cpu."""
    from pathlib import Path

    task = getattr(args, "task", None) or ""
    if (
        args.command == "train"
        and task
        and (Path(task) / "tasks.py").is_file()
        and (Path(task) / "__init__.py").is_file()
    ):
        from gaitway_files.trust import trust_folder

        args.task = f"{trust_folder(Path(task))}.tasks:BLIND"
        args.preset = args.preset or "cpu"


def trust_named(args: argparse.Namespace) -> None:
    """Trust the modules of --trust, and of a task or robot that the user calls ``module:object``."""
    words = [word for key in ("task", "tasks", "robot") for word in (getattr(args, key, None) or "").split(",")]
    modules = [word for word in words if ":" in word and not word.startswith(("gym:", "text:", "verifiers:"))]
    if modules := [*getattr(args, "trusted_modules", ()), *modules]:
        from gaitway_files.trust import trust

        trust(*modules)


if __name__ == "__main__":
    sys.exit(main())
