"""A process that trains along: ``python -m gaitway.training.companion RUN RANK MEMORY,SOCKET,... [MODULE ...]``.

:func:`gaitway.training.processes.companions` starts it. It reads the run folder and writes nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from socket import socket

from gaitway_agents.core.distributed import joined
from gaitway_agents.core.together import LostProcess, Together
from gaitway_files.errors import NotDone, UserError
from gaitway_files.trust import trust

from ..runs.folder import RunFolder
from .loop import train_along


def main(argv: list[str]) -> int:
    run, rank, shared, *modules = argv
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    memory, *sockets = map(int, shared.split(","))
    trust(*modules)
    folder = RunFolder.open(Path(run))
    try:
        with joined(Together(int(rank), memory, [socket(fileno=each) for each in sockets])):
            return train_along(folder.config(), folder)
    except LostProcess:  # the first says why
        return 1
    except (UserError, NotDone) as error:
        print(f"gaitway: {error}", file=sys.stderr)
        return 1


def _end_with(parent: int) -> None:
    """End this process when its parent has."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
