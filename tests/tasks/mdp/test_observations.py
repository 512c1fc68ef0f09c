"""Observation terms by hand, and the signals they declare."""

import inspect

import torch
from gaitway_tasks.mdp import observations as obs
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.signals import MEASURED, signals_of
from gaitway_tasks.vocabulary import MIRROR_KINDS, OBSERVATIONS, SIGNALS
from tensor_world import TensorWorld, close

Z_90 = torch.tensor([[0.5**0.5, 0.0, 0.0, 0.5**0.5]])


def test_base_velocities_are_in_the_base_frame():
    world = TensorWorld(ANYMAL_C)
    # Facing world y, moving along world x and turning about the world's z and x axes.
    world.set_root(Z_90, torch.tensor([[2.0, 0.0, 0.5]]), torch.tensor([[0.3, 0.0, 1.0]]))
    close(obs.base_lin_vel(world), [[0.0, -2.0, 0.5]])
    close(obs.base_ang_vel(world), [[0.0, -0.3, 1.0]])
    close(obs.projected_gravity(world), [[0.0, 0.0, -1.0]])


def test_projected_gravity_of_a_robot_on_its_side():
    world = TensorWorld(ANYMAL_C)
    world.set_root(torch.tensor([[0.5**0.5, 0.5**0.5, 0.0, 0.0]]), torch.zeros(1, 3), torch.zeros(1, 3))
    close(obs.projected_gravity(world), [[0.0, -1.0, 0.0]])


def test_joints_are_relative_to_the_default_pose():
    world = TensorWorld(ANYMAL_C, 2)
    close(obs.joint_pos_rel(world), torch.zeros(2, 12))
    world.robot.joint_pos[1, 4] = 0.1  # LH_HFE, whose default is -0.4
    expected = torch.zeros(2, 12)
    expected[1, 4] = 0.5
    close(obs.joint_pos_rel(world), expected)
    world.robot.joint_vel[0, 11] = -2.0
    assert obs.joint_vel_rel(world)[0, 11] == -2.0


def test_command_and_action_are_passed_through():
    world = TensorWorld(ANYMAL_C, 2)
    world.commands["base_velocity"] = torch.tensor([[1.0, -0.5, 0.2], [0.0, 0.0, 0.0]])
    world.action = torch.arange(24.0).reshape(2, 12)
    world.previous_action = torch.full((2, 12), 7.0)
    close(obs.generated_commands(world, "base_velocity"), [[1.0, -0.5, 0.2], [0.0, 0.0, 0.0]])
    close(obs.last_action(world), torch.arange(24.0).reshape(2, 12))


def test_heights_and_contacts():
    world = TensorWorld(ANYMAL_C)
    world.scans["scan"] = torch.tensor([[0.6, 0.5, 0.45]])
    close(obs.height_scan(world, "scan"), [[0.1, 0.0, -0.05]])
    close(obs.height_scan(world, "scan", offset=0.6), [[0.0, -0.1, -0.15]])
    close(obs.base_pos_z(world), [[0.6]])
    world.set_force("LF_FOOT", [0.0, 0.0, 1.5])
    world.set_force("RH_FOOT", [0.8, 0.0, 0.8])  # 1.13 N in all, though no component exceeds 1 N
    world.set_force("RF_FOOT", [0.0, 0.0, 1.0])  # not above the threshold
    world.set_force("LH_SHANK", [0.0, 0.0, 50.0])  # not a foot
    close(obs.feet_contact(world), [[1.0, 0.0, 0.0, 1.0]])


def test_declared_signals():
    measured = (
        obs.base_ang_vel, obs.projected_gravity, obs.generated_commands, obs.joint_pos_rel, obs.joint_vel_rel,
        obs.last_action, obs.gait_phase,
    )  # fmt: skip
    unmeasured = (obs.base_lin_vel, obs.height_scan, obs.base_pos_z, obs.feet_contact)
    assert all(signals_of(term) <= MEASURED for term in measured)
    assert all(not signals_of(term) <= MEASURED for term in unmeasured)


def test_every_term_has_its_row_and_every_row_its_term():
    terms = {
        name: term for name, term in inspect.getmembers(obs, inspect.isfunction) if term.__module__ == obs.__name__
    }
    assert set(terms) == set(OBSERVATIONS)
    for name, row in OBSERVATIONS.items():
        assert signals_of(terms[name]) == {row.signal} and terms[name].mirror == row.mirror
        assert row.mirror in (None, *MIRROR_KINDS) and row.signal in SIGNALS
        assert (row.inverse is None) == (SIGNALS[row.signal].input is None and not SIGNALS[row.signal].measured)


def test_an_undeclared_term_counts_as_unmeasurable():
    def private_term(world):
        return world.robot.root_pos_w

    assert signals_of(private_term) == {"undeclared:private_term"}
