"""Files of a LEAPP package that are missing, edited or none; bundles that are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import yaml
from gaitway_sim2real.imports.leapp.bundle import bundle_of_package
from gaitway_sim2real.imports.leapp.package import LeappError, LeappPackage, find_description
from leapp_packages import default_pose, simple, write

pytest.importorskip("leapp")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only; its policy remembers."""

    def policy(x: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> tuple:
        target, _ = simple(x, state)
        return target + state["memory"].sum(), {"memory": 0.5 * state["memory"] + default_pose()[:, :4]}

    return write(tmp_path_factory.mktemp("leapp"), policy, ("robot_joint_pos",), state={"memory": torch.ones(1, 4)})


@pytest.fixture
def copy(package: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(package, tmp_path / package.name))


def test_a_bundle_made_of_this_package_is_kept(copy: Path) -> None:
    bundle = bundle_of_package(copy)
    assert (bundle / "robot_license.txt").stat().st_size > 1000
    before = (bundle / "contract.yaml").stat().st_mtime_ns
    assert bundle_of_package(copy) == bundle
    assert (bundle / "contract.yaml").stat().st_mtime_ns == before


def test_an_edited_model_is_refused(copy: Path) -> None:
    path = next(copy.glob("*.onnx"))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(LeappError, match=r"is not the file that .*yaml describes"):
        bundle_of_package(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    next(copy.glob("*.safetensors")).unlink()
    with pytest.raises(LeappError, match=r"lacks .*_initial_values.safetensors"):
        bundle_of_package(copy)


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("models: 3\n")
    assert find_description(tmp_path) is None
    with pytest.raises(LeappError, match="is no LEAPP package"):
        LeappPackage.load(tmp_path)


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(("key", "value"), [("name", None), ("name", {}), ("dtype", {}), ("kind", {})])
def test_a_tensor_that_is_not_described_in_words_is_refused(copy: Path, key: str, value: object) -> None:
    path = next(copy.glob("*.yaml"))
    data = yaml.safe_load(path.read_text())
    next(iter(data["models"].values()))["inputs"][0][key] = value
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(LeappError, match=rf"{key} of tensor .* expected text|not as leapp writes it"):
        bundle_of_package(copy)
