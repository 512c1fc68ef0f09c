"""MJCF files of strangers: repetitions, sizes, files elsewhere, and what only a compilation shows."""

import os

import pytest
from gaitway_files.mjcf_files import check_mjcf
from gaitway_files.reading import FileError
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots import mjcf as robot_files
from gaitway_tasks.robots.mjcf import ModelError, load_spec

pytestmark = pytest.mark.hostile("untrusted files")

BODY = '<body><freejoint/><geom size=".1"/>{}</body>'
REFUSED = {
    "replicate": ('<replicate count="100000000"><geom size=".1"/></replicate>', "more than 50000 elements"),
    "nested": ('<replicate count="300"><replicate count="300"><geom size=".1"/></replicate></replicate>', "50000"),
    "not a number": ('<replicate count="nan"><geom size=".1"/></replicate>', "50000"),
    "grid": ('<flexcomp count="1000 1000 1000" type="grid" spacing="1 1 1"><joint/></flexcomp>', "50000"),
    "levels": ("<frame>" * 300 + "</frame>" * 300, "more than 200 elements within each other"),
    "entities": ("<![CDATA[ ]]>", "declares entities"),
    "cut": ("<body>", "is not XML, or cut off"),
}
HEADS = {
    "plugin": ('<extension><plugin plugin="mujoco.pid"/></extension>', "without plugins"),
    "field": ('<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>', "nrow x ncol 1e"),
    "texture": (
        '<asset><texture builtin="flat" type="2d" width="1000000" height="100000"/></asset>', "width x height"
    ),
    "arena": ('<size memory="3T"/>', "reserves 3 TiB; at most 4 GiB"),
    "users": ('<size nuser_geom="1000000"/>', "nuser_geom 1e[+]06; at most 1000"),
    "keys": ('<size nkey="1000000000"/>', "nkey 1e[+]09"),
    "delay": ('<default><position nsample="1000000000"/></default>', "nsample 1e[+]09"),
    "elsewhere": ('<include file="../../etc/passwd"/>', "which is not in its folder"),
    "absolute": ('<include file="/etc/passwd"/>', "which is not in its folder"),
    "entity": ("<!DOCTYPE mujoco [<!ENTITY a 'aaaa'>]>", "declares entities"),
}  # fmt: skip


HIDDEN = '<replicate count="99999999"><geom size=".1"/></replicate>'
DIFFERENT = {
    "comment in a value": ('<text name="a<!--" data="b"/>' + HIDDEN + '<text name="-->" data="b"/>').encode(),
    "tag in a value": b'<text name="<worldbody>" data="b"/>',
    "open": b'<text name="a" data="b"',
    "NUL": b"<!--\0-->",
    "UTF-16": "<custom/>".encode("utf-16"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_two_readers_of_xml_take_for_different_things(name, tmp_path):
    path = tmp_path / "robot.xml"
    path.write_bytes(b"<mujoco><custom>" + DIFFERENT[name] + b"</custom></mujoco>")
    with pytest.raises(FileError, match=r"holds a NUL|an open tag or comment, in line 1"):
        check_mjcf(path)


def test_a_file_is_read_as_utf_8_whatever_it_calls_itself(tmp_path):
    """In EBCDIC, the bytes of ``count`` would be another word."""
    path = tmp_path / "robot.xml"
    begin = b'<?xml version="1.0" encoding="cp037"?>'
    path.write_bytes(begin + b"<mujoco><worldbody>" + HIDDEN.encode() + b"</worldbody></mujoco>")
    with pytest.raises(FileError, match="more than 50000 elements"):
        check_mjcf(path)
    path.write_bytes(begin + b"<mujoco>\n<!-- a > b -- c\n-->\n<size nuser_geom='1000000'/></mujoco>")
    with pytest.raises(FileError, match=r"nuser_geom 1e[+]06; at most 1000 are read in line 4"):
        check_mjcf(path)


@pytest.mark.parametrize("name", [*REFUSED, *HEADS])
def test_models_that_are_refused_before_mujoco_sees_them(name, tmp_path):
    inner, said = REFUSED.get(name, ("", None))
    head, said = HEADS.get(name, ("", said))
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco>{head}<worldbody>{BODY.format(inner)}</worldbody></mujoco>")
    with pytest.raises(FileError, match=said) as error:
        check_mjcf(path)
    assert str(error.value).startswith(f"{path}: ")


def test_what_is_included_is_looked_through_and_counted_too(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><worldbody><replicate count="300"><include file="legs.xml"/></replicate></worldbody></mujoco>'
    )
    legs = tmp_path / "legs.xml"
    legs.write_text('<mujocoinclude><replicate count="300"><geom size=".1"/></replicate></mujocoinclude>')
    with pytest.raises(FileError, match=f"{legs}: more than 50000"):
        check_mjcf(path)
    legs.write_text('<mujocoinclude><include file="legs.xml"/></mujocoinclude>')
    with pytest.raises(FileError, match="more than 50 files"):
        check_mjcf(path)
    legs.unlink()
    os.mkfifo(legs)
    with pytest.raises(FileError, match="is a pipe"):
        check_mjcf(path)
    legs.unlink()
    (tmp_path / "sub").mkdir()
    legs.symlink_to("/etc/passwd")
    with pytest.raises(FileError, match="which is not in its folder"):
        check_mjcf(path)


def test_a_mesh_that_never_ends_costs_a_child_process_only(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "hull.stl")
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><asset><mesh name="m" file="hull.stl"/></asset>'
        "<worldbody>" + BODY.format('<geom type="mesh" mesh="m"/>') + "</worldbody></mujoco>"
    )
    real = robot_files.contained
    monkeypatch.setattr(robot_files, "contained", lambda *a, **k: real(*a, **k, seconds=0.5))
    with pytest.raises(ModelError, match=r"took more than 0\.5 s"):
        load_spec(path)


@pytest.mark.hostile("untrusted files")
def test_taking_a_model_apart_costs_a_child_process_only(tmp_path, monkeypatch):
    keys = "".join(f'<key name="k{k}"/>' for k in range(20_000))  # each takes a while to delete
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco><worldbody>{BODY.format('')}</worldbody><keyframe>{keys}</keyframe></mujoco>")
    real = robot_files.contained
    monkeypatch.setattr(robot_files, "contained", lambda *a, **k: real(*a, **k, seconds=0.5))
    with pytest.raises(ModelError, match=r"took more than 0\.5 s"):
        load_spec(path)


def test_robots_of_ours_are_compiled_once_and_others_are_tried_before(tmp_path, monkeypatch):
    ours = next(iter(ROBOTS.values())).mjcf
    path = tmp_path / "robot.xml"
    path.write_bytes(ours.read_bytes().replace(b"</mujoco>", b"<!-- mine -- --></mujoco>"))
    load_spec(path)
    monkeypatch.setattr(robot_files, "contained", None)
    load_spec(path)
    load_spec(ours)
