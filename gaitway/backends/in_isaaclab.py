"""Runs in the Python that has Isaac Lab: what it has there, and a bundle's policy walking in one of its engines.

``in_isaaclab.py find ENGINE`` prints JSON. ``in_isaaclab.py walk FOLDER CHANNEL`` reads ``walk.json`` and ``walk.npz``
from FOLDER, writes ``recorded.npz`` there, and one byte to the file descriptor CHANNEL before each control step.
Errors that a user can mend are printed on the last line, after ``ERROR``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ERROR = "gaitway error: "
LIMIT = 8 * 2**30
"""Bytes of a file of arrays."""


def find(engine: str) -> dict[str, Any]:
    """Versions of Gaitway and of Isaac Lab's packages in this Python, and what is wrong with them for ``engine``."""
    from gaitway_isaaclab import preflight

    from gaitway import __version__

    here = preflight.find()
    problem = None
    try:
        preflight.check(engine)
        if here.release != "3.0":
            problem = (
                f"Isaac Lab {here.release} needs Isaac Sim and a GPU; 3.0 runs on a CPU: {preflight.INSTALL['3.0']}"
            )
        elif here.starts_isaac_sim(engine):
            problem = f"PhysX would start Isaac Sim; ovphysx runs by itself: {preflight.OVPHYSX}"
    except ValueError as error:
        problem = str(error)
    versions = {name: version for name, version in here.versions.items() if version is not None}
    return {"gaitway": __version__, "versions": versions, "problem": problem}


def walk(folder: Path, channel: int) -> None:
    """The walk that ``folder`` describes."""
    import numpy as np
    from gaitway_files.archives import read_npz
    from gaitway_files.json_files import read_json
    from gaitway_files.writing import whole_file
    from gaitway_isaaclab.walk import Walk
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.bundle.batched_policy import BatchedPolicy

    from .isaaclab_bundle import robot_of, signals_of

    told, arrays = read_json(folder / "walk.json"), read_npz(folder / "walk.npz", limit=LIMIT)
    bundle = Path(told["bundle"])
    contract = Contract.load(bundle)
    command = arrays["command"]
    steps, count = command.shape[:2]
    robot = robot_of(contract, bundle, told["body_names"], [foot[0] for foot in told["feet"]])
    lab = Walk(
        robot, count, physics=told["engine"],
        **{name: told[name] for name in ("physics_dt", "decimation", "friction")},
    )  # fmt: skip
    lab.place(arrays["base_pos"], arrays["base_quat"], arrays["joint_pos"], arrays["lin_vel"])
    policy = BatchedPolicy(bundle / "policy.onnx", contract, count)

    def controller(step: int, state: dict[str, np.ndarray]) -> np.ndarray:
        return policy({**signals_of(contract, state), "command": command[step]})[0]

    def told_steps() -> Iterator[int]:
        for step in range(steps):
            os.write(channel, b".")
            yield step

    recorded = lab.record(controller, told_steps(), told["feet"], told["fall_bodies"])
    with whole_file(folder / "recorded.npz") as path:
        np.savez(path, allow_pickle=False, **recorded)
    lab.close()


def main(task: str, *arguments: str) -> int:
    if task == "find":
        print(json.dumps(find(*arguments)))
        return 0
    folder, channel = arguments
    try:
        walk(Path(folder), int(channel))
    except ValueError as error:
        from ..outcome import outcome

        code, message = outcome(error)
        if code != 2:
            raise
        print(f"{ERROR}{message}", flush=True)
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
