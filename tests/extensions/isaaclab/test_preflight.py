"""Checks of installations, made up from metadata folders on the path; nothing of Isaac Lab is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gaitway_isaaclab import preflight
from gaitway_isaaclab.preflight import Installation, IsaacLabError

GOOD_23 = {"isaaclab": "0.54.2", "isaacsim": "5.1.0.0", "numpy": "1.26.4", "torch": "2.7.0", "gymnasium": "1.2.0"}
GOOD_30 = {"isaaclab": "3.0.0", "newton": "1.6.1", "numpy": "2.4.0", "torch": "2.11.0", "gymnasium": "1.2.1"}
OV = {"ovphysx": "0.6.4.72118723"}
SIM_6 = {"isaacsim": "6.2.0.0"}
PYTHON = {"2.3": (3, 11), "3.0": (3, 12)}


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """This system has what ovphysx loads."""
    monkeypatch.setattr(preflight, "SHARED", {"libc.so.6": "libc6"})


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


def test_libraries_that_physx_loads_and_the_system_lacks_are_named(install, monkeypatch):
    here = install(GOOD_30 | OV, PYTHON["3.0"])
    monkeypatch.setattr(preflight, "SHARED", {"libc.so.6": "libc6", "libmissing.so.9": "libmissing9"})
    assert "PhysX loads libmissing.so.9, which this system lacks: apt install libmissing9," in refusal(here)
    assert preflight.check("newton", here) == "newton"


@pytest.mark.parametrize(
    ("packages", "release", "physics", "chosen"),
    [
        (GOOD_23, "2.3", None, "physx"),
        (GOOD_23, "2.3", "physx", "physx"),
        (GOOD_23 | {"isaaclab": "2.3.2.post1"}, "2.3", None, "physx"),
        (GOOD_30, "3.0", None, "newton"),
        (GOOD_30, "3.0", "newton", "newton"),
        (GOOD_30 | {"isaaclab": "28.0.0"}, "3.0", None, "newton"),
        (GOOD_30 | {"isaaclab": "3.0.1"}, "3.0", None, "newton"),
        (GOOD_30 | OV, "3.0", None, "physx"),
        (GOOD_30 | OV, "3.0", "newton", "newton"),
        (GOOD_30 | SIM_6, "3.0", None, "physx"),
        (GOOD_30 | SIM_6, "3.0", "newton", "newton"),
    ],
)
def test_good_installations_pass(install, packages, release, physics, chosen):
    here = install(packages, PYTHON[release])
    assert here.release == release and preflight.check(physics, here) == chosen


def test_without_isaac_sim_any_python_will_do_that_gaitway_takes(install):
    assert preflight.check("newton", here := install(GOOD_30 | OV | SIM_6, (3, 11))) == "newton"
    assert preflight.check("physx", here) == "physx"  # by itself


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
        (GOOD_30, (3, 12), "physx", "pip install 'isaaclab[ovphysx]==3.0.0', or Isaac Sim: pip install"),
        (GOOD_30, (3, 12), "physx", "--physics newton does without"),
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


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.47.2", "isaaclab[isaacsim,all]==2.3.2.post1"),
        ("2.3.0", "isaaclab[isaacsim,all]==2.3.2.post1"),
        ("2.3.1", "isaaclab[isaacsim,all]==2.3.2.post1"),
        ("6.1.16", "isaaclab[ovphysx,rsl-rl]==3.0.0"),
        ("3.0.0b2", "isaaclab[ovphysx,rsl-rl]==3.0.0"),
        ("1.0.0", "==2.3.2.post1"),
        ("2.2.0", "==3.0.0"),
        ("3.1.0", "==3.0.0"),
        ("unknown", "==3.0.0"),
    ],
)
def test_other_versions_are_refused_with_the_one_to_install(install, version, said):
    message = refusal(install(GOOD_30 | {"isaaclab": version}, (3, 12)))
    assert f"isaaclab {version} is unknown to Gaitway, which knows 2.3.2 and 3.0" in message and said in message
    assert ("==2.3.2" in message) == (version not in ("6.1.16", "3.0.0b2"))


def test_what_may_stop_isaac_sim_is_said_before_it_starts(install, monkeypatch):
    monkeypatch.setattr(preflight, "gpu_names", lambda: ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    monkeypatch.delenv(preflight.EULA, raising=False)
    here = install(GOOD_30 | SIM_6, (3, 12))
    card, licence = preflight.advice("physx", here)
    assert "not supported on NVIDIA H100 80GB HBM3, which cannot trace rays" in card and "--physics newton" in card
    assert "OMNI_KIT_ACCEPT_EULA=YES" in licence
    monkeypatch.setenv(preflight.EULA, "YES")
    monkeypatch.setattr(preflight, "gpu_names", lambda: ["NVIDIA L40S", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 5090"])
    assert preflight.advice("physx", here) == []


def test_nothing_is_said_where_isaac_sim_does_not_start(install, monkeypatch):
    monkeypatch.setattr(preflight, "gpu_names", lambda: ["NVIDIA A100-SXM4-80GB"])
    here = install(GOOD_30 | SIM_6 | OV, (3, 12))
    assert preflight.advice("physx", here) == preflight.advice("newton", here) == []


@pytest.mark.parametrize(
    ("name", "traces"),
    [
        *((name, False) for name in ("A100-SXM4-40GB", "NVIDIA H200", "Tesla V100-SXM2-16GB", "NVIDIA GB200", "A30")),
        *((name, True) for name in ("NVIDIA A10G", "Tesla T4", "NVIDIA L4", "NVIDIA A40", "NVIDIA RTX PRO 6000 B")),
    ],
)
def test_which_cards_trace_rays(name, traces):
    assert (preflight.NO_RAY_TRACING.search(name) is None) == traces


def test_an_unknown_engine_is_refused(install):
    assert "'bullet': use one of physx, newton" in refusal(install(GOOD_30, (3, 12)), "bullet")


def test_a_source_tree_on_the_path_has_to_be_installed(install, tmp_path, monkeypatch):
    package = tmp_path / "tree" / "isaaclab"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    install(without(GOOD_30, "isaaclab"), (3, 12))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(package.parent)])
    assert "isaaclab not installed, but on the path is unknown" in refusal(preflight.find())


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


def installed(folder: Path, version: str, *, editable: bool = False) -> Path:
    """A folder of packages with the metadata of an Isaac Lab, and with its module unless it is editable."""
    metadata = folder / f"isaaclab-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: isaaclab\nVersion: {version}\n")
    if editable:
        (metadata / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///somewhere"}')
    else:
        (folder / "isaaclab").mkdir()
        (folder / "isaaclab" / "__init__.py").touch()
    return folder


def source_tree(folder: Path, version: str) -> Path:
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "extension.toml").write_text(f'[package]\n\n# Note\nversion = "{version}"\n')
    (folder / "isaaclab").mkdir()
    (folder / "isaaclab" / "__init__.py").touch()
    return folder


@pytest.mark.parametrize("first", ["wheel", "tree"])
def test_a_source_tree_beside_another_releases_wheel_is_named(tmp_path, monkeypatch, capsys, first):
    places = {"wheel": installed(tmp_path / "wheel", "3.0.0"), "tree": source_tree(tmp_path / "tree", "0.54.2")}
    other = "tree" if first == "wheel" else "wheel"
    versions = {"wheel": "3.0.0", "tree": "0.54.2"}
    monkeypatch.syspath_prepend(places[other])
    monkeypatch.syspath_prepend(places[first])
    if first == "wheel":  # the tree is never imported, and nothing but its folder says that it is there
        assert preflight.find().two_releases is None
        return
    with pytest.raises(IsaacLabError, match="Python sees 2 Isaac Labs") as caught:
        preflight.check()
    said = str(caught.value)
    assert f"it imports {versions[first]} in {places[first]}, beside {versions[other]} in {places[other]}" in said
    assert "PYTHONPATH" in said


def test_the_metadata_of_two_releases_is_named_by_doctor_too(tmp_path, monkeypatch):
    from gaitway.catalogue import WORLDS

    monkeypatch.syspath_prepend(installed(tmp_path / "b", "3.0.0"))
    monkeypatch.syspath_prepend(installed(tmp_path / "a", "2.3.2.post1"))
    found = preflight.find()
    assert found.labs == (("2.3.2.post1", str(tmp_path / "a")), ("3.0.0", str(tmp_path / "b")))
    with pytest.raises(IsaacLabError, match=r"it imports 2\.3\.2\.post1 in .*a, beside 3\.0\.0 in .*b"):
        preflight.check("physx")
    assert "Python sees 2 Isaac Labs" in (WORLDS["isaaclab"].trouble() or "")


def test_one_release_in_two_places_is_one(tmp_path, monkeypatch):
    """A tree that was installed to be edited, and its metadata twice."""
    monkeypatch.syspath_prepend(installed(tmp_path / "packages", "28.0.1", editable=True))
    tree = source_tree(tmp_path / "tree", "28.0.1")
    installed(tree / "eggs", "28.0.1", editable=True)
    monkeypatch.syspath_prepend(tree)
    assert preflight.find().two_releases is None
    monkeypatch.syspath_prepend(installed(tmp_path / "wheel", "3.0.0"))
    assert preflight.find().two_releases is None
