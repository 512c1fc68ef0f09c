"""``gaitway --completion``: what a shell that has read the script offers, and that it has every command and option."""

import argparse
import contextlib
import os
import pty
import re
import shutil
import subprocess

import pytest

from gaitway import completion
from gaitway.cli import build_parser, main


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder, parser = tmp_path_factory.mktemp("completion"), build_parser()
    for shell in completion.SHELLS:
        (folder / shell).write_text(completion.script(shell, parser))
    return folder


def bash(scripts, *words: str) -> list[str]:
    """Completions of the last word, as bash asks for them; it runs nothing of Gaitway."""
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {scripts}/bash; complete -p gaitway >&2; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        '_gaitway; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-uc", code], capture_output=True, text=True, check=True)
    assert done.stderr == "complete -o default -F _gaitway gaitway\n"
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["gaitway", "tr"], ["train"]),
        (["gaitway", "re"], ["report", "record", "rehearse", "replay"]),
        (["gaitway", "--c"], ["--completion"]),
        (["gaitway", "--completion", ""], ["bash", "zsh"]),
        (["gaitway", "train", "velocity-flat-go2"], ["velocity-flat-go2", "velocity-flat-go2-blind"]),
        (["gaitway", "train", "carti"], []),
        (["gaitway", "train", "cartpole", "--se"], ["--settings", "--seed", "--seeds", "--server"]),
        (["gaitway", "train", "cartpole", "--physics", "n"], ["newton"]),
        (["gaitway", "train", "cartpole", "--physics", "=", "n"], ["newton"]),
        (["gaitway", "train", "cartpole", "--physics", "="], ["physx", "newton"]),
        (["gaitway", "train", "--preset", "c"], ["cpu"]),
        (["gaitway", "train", "--seed", ""], []),
        (["gaitway", "export", "runs/walk", "--format", ""], ["bundle", "rsl-rl", "huggingface"]),
        (["gaitway", "play", "runs/walk", "--world", ""], ["isaaclab"]),
        (["gaitway", "deploy", "b", "--robot", "unitree-go"], ["unitree-go2"]),
        (["gaitway", "list", "wo"], ["worlds"]),
        (["gaitway", "validate", "--checkpoint", "b"], ["best"]),
        (["gaitway", "validate", ""], []),  # nothing: bash offers files
    ],
)
def test_bash_offers(scripts, words, offered):
    assert bash(scripts, *words) == offered


def test_tab_completes_in_a_shell(scripts, tmp_path):
    """Files with spaces too, which bash offers by itself where there is no reply, but not after a number's option."""
    (tmp_path / "my walk.yaml").touch()
    master, slave = pty.openpty()
    command = ["bash", "--norc", "--noprofile", "-i"]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, start_new_session=True
    ) as shell:
        os.close(slave)
        os.write(master, f"source {scripts}/bash; gaitway() {{ printf '<%s>' \"$@\"; }}\n".encode())
        for line in ("train --physics newt", "train --config my", "train --seed my"):
            os.write(master, f"gaitway {line}\t\n".encode())
        os.write(master, b"exit\n")
        shell.wait(30)
    said = b""
    with contextlib.suppress(OSError):  # Linux says so at the end of a terminal
        while part := os.read(master, 4096):
            said += part
    os.close(master)
    for words in (b"<train><--physics><newton>", b"<train><--config><my walk.yaml>", b"<train><--seed><my>"):
        assert words in said


def test_every_command_and_option_is_there(scripts):
    texts = {shell: (scripts / shell).read_text() for shell in completion.SHELLS}
    for name, (parser, _) in build_parser().commands().items():
        for shell, text in texts.items():
            (line,) = re.findall(rf'^ +"{name}\"\) (?:options="|known=\()(.*)$', text, re.M)
            for action in parser._actions:
                for option in () if action.help == argparse.SUPPRESS else action.option_strings:
                    assert re.search(rf"(?<![\w-]){option}(?![\w-])", line), (shell, name, option)


def test_names_of_others_cannot_command_a_shell(scripts, monkeypatch):
    monkeypatch.setitem(completion.KNOWN, "task", lambda: ["good-one", "$(touch here)", "a;b", "`c`", "quux corge"])
    for shell in completion.SHELLS:
        text = completion.script(shell, build_parser())
        assert "good-one" in text and not re.search(r"touch|a;b|`c`|corge", text)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["gaitway", "tr"], "_describe command known:train:train an agent on a task"),
        (["gaitway", "train", "--se"], "_describe -o option known:--seed:random seed (default 0)"),
        (["gaitway", "train", "--physics", ""], "compadd -- physx newton"),
        (["gaitway", "train", "--config", ""], "_files"),
        (["gaitway", "list", ""], "compadd -- tasks robots grounds worlds agents"),
    ],
)
def test_zsh_offers(scripts, words, called):
    """With zsh's own functions replaced by ones that say how they were called."""
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        'compdef() { }; compadd() { print -r -- compadd "$@" }; _files() { print -r -- _files }; '
        '_describe() { for each in "${known[@]}"; do print -r -- _describe "$@":"$each"; done }; '
        f'source {scripts}/zsh; words=({quoted}); CURRENT={len(words)}; PREFIX="${{words[CURRENT]}}"; _gaitway'
    )
    done = subprocess.run(["zsh", "-fc", code], capture_output=True, text=True, check=True)
    assert called in done.stdout.splitlines(), done.stderr


def test_an_unknown_shell_is_refused(capsys):
    assert main(["--completion", "fish"]) == 2
    assert "--completion: invalid choice: 'fish' (choose from 'bash', 'zsh')" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["--completion", "bash"])
    assert end.value.code == 0 and "complete -o default -F _gaitway gaitway" in capsys.readouterr().out
