"""The ``gaitway`` command.

Exit codes: 0 done; 1 the work was done and the answer is no (a verdict FAIL, a diverged training); 2 something given
is wrong; 130 and 143 stopped by Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .commands import (
    bench,
    chat,
    compare,
    deploy,
    diagnose,
    doctor,
    evaluate,
    export,
    identify,
    import_isaaclab,
    list_,
    play,
    record,
    rehearse,
    replay,
    report,
    run,
    train,
    twin,
    validate,
)
from .errors import UserError
from .files import DISK_ERRORS, disk_error

COMMANDS = (
    list_,
    train,
    bench,
    compare,
    evaluate,
    chat,
    report,
    play,
    validate,
    export,
    import_isaaclab,
    record,
    diagnose,
    run,
    deploy,
    twin,
    rehearse,
    replay,
    identify,
    doctor,
)

DESCRIPTION = """\
Train legged robots and other agents in simulation, check what they learnt, and take it to hardware.

The usual path:
  gaitway train velocity-flat-anymal-c-blind --preset cpu --out runs/walk
  gaitway play runs/walk
  gaitway export runs/walk --out runs/walk/bundle
  gaitway validate runs/walk/bundle
  gaitway run runs/walk/bundle --world twin --seconds 20

Language models, on the same optimiser:
  gaitway train arithmetic --agent sft --out runs/sft
  gaitway train arithmetic --agent grpo --model runs/sft --out runs/grpo
  gaitway evaluate runs/grpo --samples 8
  gaitway chat runs/grpo

Games and classic control, and how agents compare on them:
  gaitway train cartpole
  gaitway bench cartpole,acrobot --agent ppo,dqn --seeds 5 --jobs 2
  gaitway compare runs/bench --group agent --html compare.html
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gaitway", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"gaitway {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_parser(commands).set_defaults(run=module.run)
    return parser


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Arguments of one command. ``key=value`` may stand anywhere among the options, which argparse alone cannot do."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if hasattr(args, "settings"):
        args.settings += [word for word in rest if not word.startswith("-")]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        parser.error(f"unrecognised arguments: {' '.join(rest)}; see gaitway {args.command} --help")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    args = parse(argv)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        print("gaitway: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing to report, to nobody
        return 0
    except Exception as error:
        code = _exit_code(error)
        if code is None or os.environ.get("GAITWAY_DEBUG"):
            traceback.print_exc()
        if code is None:
            print("gaitway: this is a bug, or a case nobody thought of; please report the lines above", file=sys.stderr)
            return 70
        print(f"gaitway: {_message(error)}", file=sys.stderr)
        return code


def _exit_code(error: Exception) -> int | None:
    """2 for what the user can mend, 1 for work that failed, None for what nobody foresaw.

    Every package has its own ``ValueError`` subclasses for bad input, and the lower floors know nothing of this one:
    they are recognised by where they are defined.
    """
    own = type(error).__module__.partition(".")[0].startswith("gaitway")
    if isinstance(error, UserError) or (own and isinstance(error, ValueError)):
        return 2
    if isinstance(error, OSError) and (error.filename is not None or error.errno in DISK_ERRORS):
        return 2
    return 1 if own and isinstance(error, RuntimeError) else None


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return str(disk_error(Path(error.filename or "a file"), error))
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
