"""Mirrors: declarations checked against kinematics, and against what the simulated robot does."""

import dataclasses
import time

import pytest
import torch
from gaitway_agents.symmetry import Symmetry
from gaitway_mujoco import make_env
from gaitway_mujoco.mirrors import verify_mirrors
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.symmetry import joint_mirror, mirror_group
from quiet import quiet_task

LEFT_RIGHT, FRONT_BACK = ANYMAL_C.mirrors["left-right"], ANYMAL_C.mirrors["front-back"]


def with_mirror(name, **changes):
    return ANYMAL_C.replace(mirrors={**ANYMAL_C.mirrors, name: dataclasses.replace(ANYMAL_C.mirrors[name], **changes)})


def test_anymal_passes_and_quickly():
    verify_mirrors(ANYMAL_C)
    start = time.process_time()
    verify_mirrors(ANYMAL_C)
    assert time.process_time() - start < 0.05


@pytest.mark.parametrize(
    ("robot", "message"),
    [
        (
            with_mirror("left-right", flip=()),
            r"'left-right'.*LF_HAA by 0\.3 rad and its image RF_HAA by 0\.3.*\d m from",
        ),
        (with_mirror("left-right", flip=("HAA", "KFE")), r"'left-right'.*LF_KFE by 0\.3 rad.*RF_KFE by -0\.3"),
        (with_mirror("front-back", flip=("HFE",)), r"'front-back'.*LF_KFE"),
        (with_mirror("front-back", axis="y"), r"'front-back'.*all joints at zero.*LF_FOOT \d\.\d+ m"),
        (with_mirror("left-right", pairs={"LF": "RH", "LH": "RF"}), r"'left-right'.*all joints at zero"),
        (with_mirror("left-right", pairs={"LF": "XX"}), r"'XX_HAA', which robot 'anymal-c' does not have"),
    ],
)
def test_wrong_declarations_are_named(robot, message):
    with pytest.raises(ValueError, match=message):
        verify_mirrors(robot)


def test_default_pose_and_limits_must_be_mirror_images():
    pose = list(ANYMAL_C.default_joint_pos)
    pose[ANYMAL_C.joint_names.index("RF_HFE")] = 0.5
    with pytest.raises(ValueError, match=r"'left-right'.*default position of LF_HFE is 0\.4 rad.*RF_HFE asks for 0\.5"):
        verify_mirrors(ANYMAL_C.replace(default_joint_pos=tuple(pose)))
    limits = list(ANYMAL_C.joint_limits)
    limits[0] = (-0.72, 0.6)
    with pytest.raises(ValueError, match=r"upper limit of LF_HAA is 0\.6 rad.*RF_HAA asks for 0\.49"):
        verify_mirrors(ANYMAL_C.replace(joint_limits=tuple(limits)))


def test_a_model_that_is_not_symmetric_is_noticed(tmp_path):
    text = ANYMAL_C.mjcf.read_text()
    assert '"RH_SHANK" pos="0 -0.1003 -0.285"' in text
    lopsided = tmp_path / "lopsided.xml"
    lopsided.write_text(text.replace('"RH_SHANK" pos="0 -0.1003 -0.285"', '"RH_SHANK" pos="0 -0.1003 -0.295"'))
    with pytest.raises(ValueError, match=r"_FOOT 0\.010 m from the mirror image.*lopsided\.xml"):
        verify_mirrors(ANYMAL_C.replace(mjcf=lopsided))


def mirrored_start(env, generator):
    """Row 0 in a random state in the air or touching the ground, row g its image under element g of the group."""
    joints, n = ANYMAL_C.num_joints, env.num_envs
    elements = [(torch.arange(joints), torch.ones(joints), torch.ones(3))]
    for mirror in ANYMAL_C.mirrors.values():
        perm, sign = joint_mirror(ANYMAL_C, mirror)
        polar = torch.ones(3)
        polar["xyz".index(mirror.axis)] = -1.0
        elements += [(p[perm], sign * s[perm], polar * f) for p, s, f in elements]
    quat = torch.nn.functional.normalize(
        torch.tensor([1.0, 0.0, 0.0, 0.0]) + 0.1 * torch.randn(4, generator=generator), dim=0
    )
    pos = torch.tensor([0.2, -0.1, 0.55])
    lin, ang = 0.5 * torch.randn(3, generator=generator), torch.randn(3, generator=generator)
    joint_pos = env.world.default_joint_pos + 0.2 * torch.randn(joints, generator=generator)
    joint_vel = torch.randn(joints, generator=generator)
    rows = [
        (
            pos * f,
            torch.cat((quat[:1], quat[1:] * f.prod() * f)),  # an axial vector: polar under rotations only
            lin * f,
            ang * f.prod() * f,
            joint_pos[p] * s,
            joint_vel[p] * s,
        )
        for p, s, f in elements
    ]
    pos, quat, lin, ang, joint_pos, joint_vel = (torch.stack(column) for column in zip(*rows, strict=True))
    ids = torch.arange(n)
    env.world.write_root_state(ids, pos, quat, lin, ang)
    env.world.write_joint_state(ids, joint_pos, joint_vel)
    env.world.finish_events()


@pytest.mark.parametrize("start", range(3))
def test_mirrored_state_and_action_give_the_mirrored_next_state(start):
    """All observations of one second of random actions; rows 1, 2, 3 are left-right, front-back and both."""
    task = quiet_task("velocity-flat-anymal-c-blind", history_length=3)
    group = mirror_group(task)
    symmetry = Symmetry(group.observations, group.actions, group.selectors)
    env = make_env(task, 4, num_threads=1)
    env.reset()
    generator = torch.Generator().manual_seed(start)
    mirrored_start(env, generator)
    command = env.managers.commands["base_velocity"].command
    command[:] = torch.tensor([0.5, -0.3, 0.7]) * torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    element = torch.arange(4)
    for step in range(25):
        action = torch.randn(1, 12, generator=generator).expand(4, -1)
        observation, reward, terminated, _, _ = env.step(symmetry.apply_to("action", action, element))
        assert not terminated.any()
        close_to(reward[1], reward[0], 1e-4)
        if step < 2:
            continue  # the histories still hold a frame from before the state was written
        for name, value in observation.items():
            image = symmetry.apply_to(name, value[:1].expand(4, -1), element)
            close_to(value[1], image[1], 5e-3)  # left-right: hips are not mirror images to the last 0.1 mm
            if step < 8:  # the base's centre of mass is 2.5 mm in front of its middle, and contacts amplify
                close_to(value[2:], image[2:], 0.05)


def close_to(actual, expected, tolerance):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
