"""Bundles that ``gaitway demo`` shows: those that come with Gaitway, and those that were pulled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gaitway_files.errors import UserError

from ..hub.library import find, pulled

BUNDLES = Path(__file__).parent / "bundles"
MADE_FILE = "made.yaml"
OURS = "as Gaitway"
"""Licence of the bundles that come with Gaitway."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One bundle as ``gaitway demo --list`` shows it."""

    name: str
    robot: str
    verdict: str
    licence: str
    place: Path


def shipped() -> list[str]:
    """Names of the bundles here."""
    return sorted(path.name for path in BUNDLES.iterdir() if path.is_dir())


def bundle_of(name: str) -> Path:
    """Folder of the bundle called ``name``, or of a pulled one; :class:`UserError` if there is none."""
    if name in (names := shipped()):
        return BUNDLES / name
    if (found := find(name)) is not None:
        return found
    raise UserError(
        f"no bundle for {name!r} comes with Gaitway or was pulled: choose {' or '.join([*names, *pulled()])}, "
        "fetch one with 'gaitway pull SOURCE', or watch a bundle of your own with 'gaitway play BUNDLE'"
    )


def rows() -> list[Row]:
    """Every bundle that can be shown; one that is damaged says so in place of its verdict, and why with --about."""
    known = {name: BUNDLES / name for name in shipped()} | pulled()
    return [_row(name, bundle) for name, bundle in known.items()]


def _row(name: str, bundle: Path) -> Row:
    from gaitway_onboard.bundle.contract import Contract, verify_files
    from gaitway_onboard.bundle.verdict import VERDICT_FILE, read_verdict

    from ..hub.card import licence_of

    robot, licence = "", ""
    try:
        contract = Contract.load(bundle)
        licence = OURS if bundle.parent == BUNDLES else licence_of(contract, [path.name for path in bundle.iterdir()])
        robot, said = contract.robot, "none"
        verify_files(bundle)
        if (bundle / VERDICT_FILE).exists():
            said = read_verdict(bundle / VERDICT_FILE, policy=bundle / "policy.onnx")["verdict"]
    except UserError:
        said = "damaged"
    return Row(name=name, robot=robot, verdict=said, licence=licence, place=bundle)


def about(bundle: Path) -> str:
    """Description of a bundle in lines for a terminal: its origin, as far as recorded, and its verdict."""
    from gaitway_files.yaml_files import read_yaml
    from gaitway_onboard.bundle.contract import Contract, verify_files
    from gaitway_onboard.bundle.verdict import VERDICT_FILE, read_verdict

    verify_files(bundle)
    lines = [f"{Contract.load(bundle).task} in {bundle}"]
    if bundle.is_relative_to(BUNDLES):
        made = read_yaml(bundle / MADE_FILE)
        lines += [
            "made by",
            *(f"  {command}" for command in made["commands"]),
            f"  {made['steps']:,} steps in {made['cpu_seconds'] / 60:.0f} CPU-minutes ({made['machine']})",
        ]
    else:
        lines.append(f"licence {_row(bundle.name, bundle).licence}")
    if not (bundle / VERDICT_FILE).exists():
        return "\n".join([*lines, f"no verdict: gaitway validate {bundle}"])
    verdict = read_verdict(bundle / VERDICT_FILE, policy=bundle / "policy.onnx")
    said = f"verdict {verdict['verdict']} of validation suite {verdict['suite_version']}: {bundle / VERDICT_FILE}"
    return "\n".join([*lines, said])
