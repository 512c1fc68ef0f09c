"""Bundles that come with Gaitway, each in a folder named after its robot, and how each was made."""

from __future__ import annotations

from pathlib import Path

from gaitway_files.errors import UserError

BUNDLES = Path(__file__).parent / "bundles"
MADE_FILE = "made.yaml"


def shipped() -> list[str]:
    """Names of the robots that have a bundle here."""
    return sorted(path.name for path in BUNDLES.iterdir() if path.is_dir())


def bundle_of(robot: str) -> Path:
    """Folder of the bundle for a robot; :class:`UserError` if none is shipped."""
    names = shipped()
    if robot not in names:
        raise UserError(
            f"no bundle for {robot!r} comes with Gaitway: choose {' or '.join(names)}, "
            "or watch a bundle of your own with 'gaitway play BUNDLE'"
        )
    return BUNDLES / robot


def about(bundle: Path) -> str:
    """How a shipped bundle was made and what validation said of it, in lines for a terminal."""
    from gaitway_files.yaml_files import read_yaml
    from gaitway_onboard.bundle.contract import verify_files
    from gaitway_onboard.bundle.verdict import VERDICT_FILE, read_verdict

    verify_files(bundle)
    verdict = read_verdict(bundle / VERDICT_FILE, policy=bundle / "policy.onnx")
    made = read_yaml(bundle / MADE_FILE)
    return "\n".join(
        [
            f"{verdict['task']} in {bundle}",
            "made by",
            *(f"  {command}" for command in made["commands"]),
            f"  {made['steps']:,} steps in {made['cpu_seconds'] / 60:.0f} CPU-minutes ({made['machine']})",
            f"verdict {verdict['verdict']} of validation suite {verdict['suite_version']}: {bundle / VERDICT_FILE}",
        ]
    )
