"""What is installed, made up from metadata folders on the path; nothing of Isaac Lab is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gaitway_isaaclab import preflight
from gaitway_isaaclab.preflight import Installation, IsaacLabError

GOOD_23 = {"isaaclab": "0.54.2", "isaacsim": "5.1.0.0", "numpy": "1.26.4", "torch": "2.7.0", "gymnasium": "1.2.0"}
GOOD_30 = {"isaaclab": "6.1.16", "newton": "1.2.1", "numpy": "2.4.0", "torch": "2.10.0", "gymnasium": "1.2.1"}
SIM_6 = {"isaacsim": "6.0.1.0"}
PYTHON = {"2.3": (3, 11), "3.0": (3, 12)}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes this the whole installation: a folder of package metadata, and a Python."""

    def put(packages: dict[str, str], python: tuple[int, int]) -> Installation:
        for name, version in packages.items():
            folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        found = preflight.find()
        return Installation(versions=found.versions, python=python)

    return put


def refusal(installation: Installation, physics: str | None = None) -> str:
    with pytest.raises(IsaacLabError) as caught:
        preflight.check(physics, installation)
    return str(caught.value)


@pytest.mark.parametrize(
    ("packages", "release", "physics", "chosen"),
    [
        (GOOD_23, "2.3", None, "physx"),
        (GOOD_23, "2.3", "physx", "physx"),
        (GOOD_23 | {"isaaclab": "2.3.2.post1"}, "2.3", None, "physx"),
        (GOOD_30, "3.0", None, "newton"),
        (GOOD_30, "3.0", "newton", "newton"),
        (GOOD_30 | {"isaaclab": "3.0.0"}, "3.0", None, "newton"),
        (GOOD_30 | SIM_6, "3.0", None, "physx"),
        (GOOD_30 | SIM_6, "3.0", "newton", "newton"),
    ],
)
def test_good_installations_pass(install, packages, release, physics, chosen):
    here = install(packages, PYTHON[release])
    assert here.release == release and preflight.check(physics, here) == chosen


def test_newton_takes_any_python_that_gaitway_takes(install):
    assert preflight.check(None, install(GOOD_30, (3, 11))) == "newton"


def test_nothing_installed_names_every_way_to_install_it(install):
    message = refusal(install({"numpy": "2.4.0", "torch": "2.13.0"}, (3, 11)))
    assert "Isaac Lab is not installed here" in message and "isaaclab missing" in message and "numpy 2.4.0" in message
    assert all(line in message for line in preflight.INSTALL.values())


def without(packages: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in packages.items() if key != name}


@pytest.mark.parametrize(
    ("packages", "python", "physics", "said"),
    [
        (
            without(GOOD_23, "isaacsim"),
            (3, 11),
            None,
            "PhysX needs Isaac Sim: pip install 'isaacsim[all,extscache]==5.1",
        ),
        (GOOD_23 | {"numpy": "2.1.0"}, (3, 11), None, "needs numpy<2: pip install 'numpy<2'"),
        (GOOD_23, (3, 12), None, "python3.11"),
        (GOOD_23, (3, 11), "newton", "Newton came with 3.0"),
        (without(GOOD_23, "torch"), (3, 11), None, "torch is missing"),
        (GOOD_30, (3, 12), "physx", "or use --physics newton"),
        (GOOD_30 | SIM_6, (3, 11), "physx", "python3.12"),
        (GOOD_30 | {"numpy": "1.26.4"}, (3, 12), None, "needs numpy>=2"),
        (without(GOOD_30, "newton"), (3, 12), None, "Newton is missing"),
    ],
)
def test_what_is_wrong_is_named_with_the_line_that_mends_it(install, packages, python, physics, said):
    message = refusal(install(packages, python), physics)
    assert said in message
    assert f"isaaclab {packages['isaaclab']}" in message and f"Python {python[0]}.{python[1]}" in message


def test_everything_that_is_wrong_is_told_at_once(install):
    message = refusal(install({"isaaclab": "0.54.2", "numpy": "2.1.0", "torch": "2.7.0"}, (3, 12)))
    assert all(part in message for part in ("PhysX needs Isaac Sim", "numpy<2", "python3.11"))


@pytest.mark.parametrize("version", ["0.47.1", "1.0.0", "2.2.0", "6.0.0", "7.0.0", "unknown"])
def test_versions_that_nobody_tried_are_refused(install, version):
    message = refusal(install(GOOD_30 | {"isaaclab": version}, (3, 12)))
    assert version in message and "0.54.x (Isaac Lab 2.3)" in message and "6.1.x (Isaac Lab 3.0)" in message


def test_an_unknown_engine_is_refused(install):
    assert "'bullet': use one of physx, newton" in refusal(install(GOOD_30, (3, 12)), "bullet")


def test_a_source_tree_on_the_path_tells_its_version(install, tmp_path, monkeypatch):
    package = tmp_path / "tree" / "isaaclab"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    config = tmp_path / "tree" / "config"
    config.mkdir()
    (config / "extension.toml").write_text('[package]\nversion = "6.1.16"\n')
    install(without(GOOD_30, "isaaclab"), (3, 12))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(package.parent)])
    assert preflight.find().release == "3.0"


def test_isaac_sim_from_an_archive_is_found_on_the_path(install, tmp_path, monkeypatch):
    (tmp_path / "isaacsim").mkdir()
    (tmp_path / "isaacsim" / "__init__.py").write_text("raise SystemExit('imported')\n")
    here = install(without(GOOD_23, "isaacsim"), (3, 11))
    assert here.versions["isaacsim"] == "unpacked" and preflight.check(None, here) == "physx"


def test_looking_imports_nothing_heavy():
    code = (
        "import sys; from gaitway_isaaclab import preflight; before = set(sys.modules); preflight.find()\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new & {'isaaclab', 'isaacsim', 'torch', 'warp', 'newton', 'numpy', 'omni', 'carb'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
