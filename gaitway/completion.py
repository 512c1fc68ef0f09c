"""``gaitway --completion bash|zsh``: a script by which the shell completes commands, options and their values.

The script is made from the options of the commands and runs nothing of Gaitway when the Tab key is pressed.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .catalogue import AGENTS, LOGGERS, WORLDS
from .options import Parser

SHELLS = ("bash", "zsh")
PLAIN = re.compile(r"[\w.+@-]+", re.ASCII)
"""Words that mean nothing else to a shell; names of tasks and robots may come from other packages."""
FILES = "files"


def _tasks() -> Iterable[str]:
    from .domains.table import domains

    return (name for domain in domains() for name in domain.names())


def _presets() -> Iterable[str]:
    from .domains.table import domains

    return sorted({preset for domain in domains() for _, presets, _ in domain.facts() for preset in presets} | {"none"})


def _hardware() -> Iterable[str]:
    from gaitway_sim2real.hardware import HARDWARE

    return [*HARDWARE, "ros2"]


def _robots() -> Iterable[str]:
    from gaitway_tasks.robots import ROBOTS

    return ROBOTS


def _shown() -> Iterable[str]:
    from .demo import shipped

    return shipped()


KNOWN: dict[str, Callable[[], Iterable[str]]] = {
    "task": _tasks,
    "tasks": _tasks,
    "demo robot": _shown,
    "--preset": _presets,
    "--robot": _robots,
    "deploy --robot": _hardware,
    "rehearse --robot": _hardware,
    "twin robot": _hardware,
    "--agent": lambda: AGENTS,
    "--world": lambda: WORLDS,
    "--logger": lambda: LOGGERS,
    "--until": lambda: ("end", "good"),
    "--checkpoint": lambda: ("best", "last"),
    "deploy --command": lambda: ("remote", "gamepad", "keyboard", "cmd_vel", "tour"),
}
"""Values of an option or a positional argument that argparse does not know, of one command or of all."""


@dataclass(frozen=True)
class Words:
    """What may stand behind a command."""

    about: str
    options: dict[str, str]
    """Help of each option."""
    values: dict[str, str]
    """Values of an option that takes one: words, :data:`FILES`, or "" for numbers."""
    arguments: str
    """Words that may stand without an option; files may too."""


def words_of(command: str, about: str, parser: Parser) -> Words:
    """Words of ``command`` in the order of its help."""
    options, values, arguments = dict[str, str](), dict[str, str](), list[str]()
    for action in parser._actions:
        if action.help is argparse.SUPPRESS:
            continue
        for option in action.option_strings:
            options[option] = action.help or ""
            if action.nargs is None:
                values[option] = _listed(command, option, action) or (FILES if action.type in (Path, str) else "")
        if not action.option_strings:
            arguments.append(_listed(command, action.dest, action))
    return Words(about, options, values, " ".join(filter(None, arguments)))


def _listed(command: str, name: str, action: argparse.Action) -> str:
    own = KNOWN.get(f"{command} {name}")
    known = own() if own else action.choices or KNOWN.get(name, tuple)()
    return " ".join(word for word in map(str, known) if PLAIN.fullmatch(word))


def tables(parser: Parser) -> dict[str, Words]:
    """Words of the command line itself, as "", and of each command."""
    own = {action.option_strings[-1]: action.help or "" for action in parser._actions if action.option_strings}
    found = {"": Words("", own, {"--completion": " ".join(SHELLS)}, " ".join(parser.commands()))}
    return found | {name: words_of(name, about, each) for name, (each, about) in parser.commands().items()}


def script(shell: str, parser: Parser) -> str:
    """Script for bash or zsh."""
    found = tables(parser)
    return "\n".join(bash(found) if shell == "bash" else zsh(found)) + "\n"


def _values(found: dict[str, Words], act: Callable[[str], str]) -> Iterator[str]:
    """Branches of a ``case`` of the command and the word before, by what is to be done for it."""
    for name, words in found.items():
        by_values: dict[str, list[str]] = {}
        for option, values in words.values.items():
            by_values.setdefault(values, []).append(f'"{name} {option}"')
        for values, options in by_values.items():
            yield f"    {'|'.join(options)}) {act(values)} ;;"


def bash(found: dict[str, Words]) -> Iterator[str]:
    """Lines of the script for bash, version 4 or later."""

    def values(given: str) -> str:
        if given == FILES:
            return "return"  # without a reply bash completes files
        return f'COMPREPLY=($(compgen -W "{given}" -- "$word")); compopt +o default 2>/dev/null; return'

    yield "# Completion of gaitway, made by: gaitway --completion bash"
    yield "_gaitway() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" each'
    yield "  COMPREPLY=()"
    yield '  [[ $word == "=" ]] && word=""'  # bash takes --option=value for three words
    yield '  [[ $before == "=" ]] && before="${COMP_WORDS[COMP_CWORD-2]}"'
    yield '  [[ ${COMP_WORDS[COMP_CWORD]} == "=" ]] && before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield f'    case "$each" in {"|".join(filter(None, found))}) command="$each"; break ;; esac'
    yield "  done"
    yield '  case "$command $before" in'
    yield from _values(found, values)
    yield "  esac"
    yield '  local options="" arguments=""'
    yield '  case "$command" in'
    for name, words in found.items():
        yield f'    "{name}") options="{" ".join(words.options)}" arguments="{words.arguments}" ;;'
    yield "  esac"
    yield '  [[ "$word" == -* ]] && arguments="$options"'
    yield '  COMPREPLY=($(compgen -W "$arguments" -- "$word"))'
    yield "}"
    yield "complete -o default -F _gaitway gaitway"


def zsh(found: dict[str, Words]) -> Iterator[str]:
    """Lines of the script for zsh, to be sourced or to lie in a folder of ``fpath``."""

    def values(given: str) -> str:
        return "_files; return" if given == FILES else f"compadd -- {given}; return" if given else "return 1"

    def described(words: dict[str, str]) -> str:
        return " ".join(shlex.quote(f"{word}:{about.replace('%%', '%')}") for word, about in words.items())

    yield "#compdef gaitway"
    yield "# Completion of gaitway, made by: gaitway --completion zsh"
    yield "_gaitway() {"
    yield '  local before="${words[CURRENT-1]}" command="" each'
    yield "  local -a known"
    yield '  for each in "${(@)words[2,CURRENT-1]}"; do'
    yield f'    case "$each" in {"|".join(filter(None, found))}) command="$each"; break ;; esac'
    yield "  done"
    yield '  case "$command $before" in'
    yield from _values(found, values)
    yield "  esac"
    yield '  if [[ "$PREFIX" == -* ]]; then'
    yield '    case "$command" in'
    yield from (f'      "{name}") known=({described(words.options)}) ;;' for name, words in found.items())
    yield "    esac"
    yield "    _describe -o option known"
    yield "    return"
    yield "  fi"
    yield '  case "$command" in'
    yield f'    "") known=({described({name: words.about for name, words in found.items() if name})})'
    yield "      _describe command known; return ;;"
    yield from (f'    "{name}") compadd -- {each.arguments} ;;' for name, each in found.items() if each.arguments)
    yield "  esac"
    yield "  _files"
    yield "}"
    yield 'if [[ "${funcstack[1]}" == _gaitway ]]; then _gaitway "$@"; else compdef _gaitway gaitway; fi'


class ShowCompletion(argparse.Action):
    """The option ``--completion``, which prints a script."""

    def __init__(self, option_strings: list[str], dest: str, **kwargs: Any):
        about = "print a script that completes gaitway's commands and options, and exit"
        super().__init__(option_strings, dest, choices=SHELLS, help=about, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, space: object, value: Any, option: Any = None) -> NoReturn:
        assert isinstance(parser, Parser)
        print(script(str(value), parser), end="")
        parser.exit()
