"""A policy that a description runs, ready to become a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gaitway_files.yaml_files import dump_yaml

from .bundle import Found, write_bundle
from .description_file import as_data
from .errors import PolicyImportError
from .families import Options
from .robot import FoundRobot, robot_of

NOT_MEASURED = (
    "the policy reads its base velocity, which no robot measures; validate feeds the simulation's own, a robot needs "
    "an estimator"
)


@dataclass(frozen=True)
class DescribedPolicy:
    """Description found by a reader, and its robot."""

    found: Found
    robot: FoundRobot

    def show(self) -> Sequence[tuple[str, str]]:
        d, robot = self.robot.description, self.robot.robot
        frames = f", {len(d.history.ages)} frames" if len(d.history.ages) > 1 else ""
        rows = [
            ("policy", f"{d.family} {d.name}: {d.network.file}, {1 / d.control_dt:g} Hz"),
            ("origin", f"{d.source}; licence {d.licence}"),
            ("robot", f"{robot.name}, {len(d.joints)} of {robot.num_joints} joints"),
            (
                "reads",
                f"{d.observation_dim} numbers{frames}: " + ", ".join(f"{t.term} {d.width(t)}" for t in d.observation),
            ),
        ]
        rows += [("guessed", f"{what}: {how}") for what, how in d.guessed.items()]
        rows += [("differs", note) for note in (*d.notes, *self.robot.notes)]
        if any(term.term == "base_lin_vel" for term in d.observation):
            rows.append(("not measured", NOT_MEASURED))
        return rows

    def description_text(self) -> str:
        """The description as YAML, to change and to import with."""
        return dump_yaml(as_data(self.robot.description))

    def export(self, out: Path) -> Path:
        write_bundle(self.found, self.robot, out)
        return out


def described(found: Found, options: Options) -> DescribedPolicy:
    """The policy on the robot of its description, or on the one that the user names."""
    for name in ("checkpoint", "joint_order"):
        if getattr(options, name) is not None:
            raise PolicyImportError(f"--{name.replace('_', '-')} is for runs of Isaac Lab: leave it out")
    return DescribedPolicy(found, robot_of(found.description, options.robot, options.model))
