"""A description to complete, with all that a run's ``env.yaml`` tells, for runs whose policy cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

from gaitway_files.yaml_files import dump_yaml

from .description import TERMS
from .families import Options
from .isaaclab.told import told_by
from .readers.described import TEMPLATE

UNASKED = ("licence", "source")
"""Keys of the template that no run tells."""


def run_template(folder: Path, options: Options) -> str:
    """A description as YAML; what ``env.yaml`` does not tell is as in the general template, and marked."""
    name = folder.absolute().name
    facts, notes = told_by(folder, TERMS, robot=options.robot, model=options.model, joint_order=options.joint_order)
    told = {"name": name} | facts
    head = [f"# To complete: how to run the policy of {name}.", *(f"# {note}" for note in notes)]
    blocks = {block.partition(":")[0]: block for block in re.split(r"^(?=[a-z])", TEMPLATE, flags=re.MULTILINE)[1:]}
    marks = {key: "" if key in UNASKED else "# not in env.yaml:\n" for key in blocks}
    parts = [dump_yaml({k: told.pop(k)}) if k in told else f"{marks[k]}{block}" for k, block in blocks.items()]
    return "\n".join(head) + "\n" + "".join(parts) + (dump_yaml(told) if told else "")
