"""The server of engines, whose process kills itself in the middle of an answer to many prompts.

    dying_server.py FILE ...        # the rest is the server's

The file has a line for each process to come, ``CALL STEP``: it dies in its CALLth answer to more than four prompts,
before the token after the STEPth. Processes without a line live. What each was asked is appended to FILE.asked.
"""

import os
import signal
import sys
from pathlib import Path

from gaitway_language.engines import serve
from gaitway_language.engines.llama import LlamaSession
from gaitway_language.engines.transformers import TransformersEngine

PROBES = 4


def main(file: Path, arguments: list[str]) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[1:]))
    dies = tuple(map(int, lines[0].split())) if lines else None
    calls, steps = 0, 0
    generate, step = TransformersEngine.generate, LlamaSession.step

    def counted(self, prompts, sampling):
        nonlocal calls, steps
        steps, many = 0, len(prompts) > PROBES
        calls += many
        if many:
            with open(f"{file}.asked", "a") as asked:
                asked.write(f"{os.getpid()} {sampling.seed} {len(prompts)}\n")
        return generate(self, prompts, sampling)

    def stepped(self, tokens):
        nonlocal steps
        steps += 1
        if (calls, steps) == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, tokens)

    TransformersEngine.generate, LlamaSession.step = counted, stepped
    serve.main(arguments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
