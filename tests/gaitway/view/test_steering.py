"""The page of a bundle: what is set on it reaches the robot, and what the robot does is shown."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from gaitway_sim2real.mujoco.floors import FIRM
from gaitway_sim2real.mujoco.physics import NOMINAL_PHYSICS

from gaitway.demo import bundle_of
from gaitway.view.gait_diagram import GaitDiagram
from gaitway.view.scene import Scene, page
from gaitway.view.steering import AS_MODELLED, BundlePanel, Dial, Panel, floors, panel_of
from gaitway.view.walkers import BundleWalker


@pytest.fixture(scope="module")
def walker():
    return BundleWalker(bundle_of("anymal-c"))


@pytest.fixture(scope="module")
def server():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with page("test", "127.0.0.1", port, "URL") as server:
        yield server


@pytest.fixture
def panel(walker, server):
    walker.reset()
    server.gui.reset()
    server.scene.reset()
    panel = panel_of(walker, server, Scene(walker.model, server, walker.base_qpos), touring=True)
    assert isinstance(panel, BundlePanel)
    yield panel
    walker.surroundings.lay_floor(NOMINAL_PHYSICS)
    walker.surroundings.friction = 0.8
    walker.surroundings.set_payload(0.0)


def steps(panel, count):
    for _ in range(count):
        panel.do()
        panel.walker.step(panel.command())
        panel.look()


def test_it_walks_by_itself_until_a_slider_is_moved(panel, walker):
    steps(panel, 100)
    assert walker.qpos[0] > 0.5
    panel.sliders[0].value = -0.3
    steps(panel, 1)
    assert not panel.touring.value
    assert panel.command().tolist() == [-0.3, 0.0, 0.0]


def test_stop_ends_the_tour(panel):
    steps(panel, 1)
    panel.asked.append(panel._stop)
    steps(panel, 1)
    assert panel.command().tolist() == [0.0, 0.0, 0.0] and not panel.touring.value


def test_a_push_moves_the_robot_to_its_own_left(panel, walker):
    walker.robot.data.qpos[3:7] = [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]  # looks along y
    assert walker.heading() == pytest.approx(np.pi / 2)
    panel.strength.value = 1.5
    panel._push("left")
    assert walker.robot.data.qvel[:2] == pytest.approx([-1.5, 0.0], abs=1e-6)


def test_a_floor_of_the_suite_takes_effect(panel, walker):
    option, soles = walker.model.opt, walker.robot.plant.soles
    before = option.timestep, option.cone, walker.model.geom_solref[soles].copy()
    panel.floors["hard"] = FIRM
    panel.floor.options = tuple(panel.floors)
    panel.floor.value = "hard"
    panel._lay_floor()
    assert option.timestep == pytest.approx(0.0025) and option.impratio == 100.0
    steps(panel, 20)
    assert walker.robot.clock() == pytest.approx(0.4)
    panel.floor.value = AS_MODELLED
    panel._lay_floor()
    assert (option.timestep, option.cone) == before[:2]
    np.testing.assert_array_equal(walker.model.geom_solref[soles], before[2])


def test_ice_is_slippery(panel, walker):
    panel.friction.value = 0.05
    panel._lay_floor()
    steps(panel, 60)
    assert walker.surroundings.friction == pytest.approx(0.05)
    force = panel.contacts.force
    assert (np.hypot(force[:, 0], force[:, 1]) <= 0.0501 * force[:, 2]).all()
    assert panel.contacts.sliding.any()


def test_a_payload_is_carried(panel, walker):
    before = walker.surroundings.weight
    panel.payload.value = 10.0
    panel._load()
    assert walker.surroundings.weight - before == pytest.approx(98.1)
    panel.touring.value = False
    steps(panel, 100)
    loads = [panel.walker.contacts().force[:, 2].sum() for _ in range(20) if steps(panel, 1) is None]
    assert np.mean(loads) == pytest.approx(before + 98.1, rel=0.1)


def test_feet_and_velocity_are_shown(panel):
    steps(panel, 150)
    panel.scene.show(panel.walker.qpos, follow=True)
    panel.show()
    assert "steps/s per foot" in panel.gait.content and ">LF<" in panel.gait.content
    assert "| forward | +0.60 |" in panel.measured.content
    assert panel.arrows.handle.points.shape[1:] == (2, 3)
    panel.forces.value = False
    panel.show()
    assert not panel.arrows.handle.visible


def test_a_robot_that_lies_starts_again(panel, walker):
    data = walker.robot.data
    data.qpos[:3] = [5.0, 0.0, 0.05]
    walker.robot.data.qpos[walker.robot.plant.joint_qpos] = [0.0, 1.5, -2.6] * 4
    walker._lying = 0.99
    steps(panel, 2)
    assert walker.qpos[0] == pytest.approx(0.0, abs=0.1)


def test_every_floor_on_offer_can_be_laid(walker):
    offered = floors()
    assert {"Hard floor", "Soft floor", "Pyramidal friction"} <= set(offered)
    assert not any(title.startswith("Gait") for title in offered)
    assert offered.pop(AS_MODELLED) == NOMINAL_PHYSICS
    for physics in offered.values():
        walker.surroundings.lay_floor(physics)
    walker.surroundings.lay_floor(NOMINAL_PHYSICS)


def test_impossible_surroundings_are_refused(walker):
    with pytest.raises(ValueError, match=r"friction 0\.0: must be above 0"):
        walker.surroundings.friction = 0.0
    with pytest.raises(ValueError, match=r"payload -60 kg: the base weighs .* must keep a mass"):
        walker.surroundings.set_payload(-60)


def test_the_figures_of_a_gait():
    diagram = GaitDiagram(("LEFT_FOOT", "RIGHT_FOOT"), 0.1)
    for down in [(1, 1), (0, 1), (0, 1), (1, 1), (1, 0), (1, 0), (1, 1), (0, 1)]:
        feet = np.flatnonzero(down)
        diagram.add(feet, np.full(len(feet), 50.0))
    rate, swing = diagram.figures()
    assert (rate, swing) == (pytest.approx(1 / 0.8), pytest.approx(0.2))
    assert diagram.html(100.0).count("<rect") == 4  # two rows of contact for each foot
    assert "loads in % of its weight" in diagram.html(100.0) and ">50 %</text>" in diagram.html(100.0)


def test_an_arm_has_a_dial_for_each_number_of_its_command(server):
    walker = BundleWalker(bundle_of("reach"))
    server.gui.reset()
    server.scene.reset()
    panel = panel_of(walker, server, Scene(walker.model, server, walker.base_qpos), touring=True)
    assert type(panel) is Panel and not panel.moves and not walker.steers
    assert walker.labels[0] == "x [m]" and len(panel.sliders) == 6
    steps(panel, 60)
    low, high = walker.command_ranges[0]
    assert panel.sliders[0].value == pytest.approx(low, abs=(high - low) / 100), "the tour's first end"
    assert abs(walker.qpos[1] - walker.policy.contract.default_joint_pos[1]) > 0.1
    panel.asked.append(panel._stop)
    steps(panel, 1)
    np.testing.assert_allclose(panel.command(), walker.still, atol=0.02)
    panel.scene.show(walker.qpos, follow=True)
    panel.show()


@pytest.mark.parametrize(
    ("limits", "told", "shown"),
    [((0.0, 1.0), 0.8, 1.0), ((0.3, 0.5), 0.4009, 0.4), ((3.14, 3.14), 1.0, 3.14)],
    ids=["a box", "a slider", "nothing to change"],
)
def test_a_dial(server, limits, told, shown):
    dial = Dial(server.gui, "number", limits, limits[0], step=None)
    dial.value = told
    assert dial.value == pytest.approx(shown, abs=0.0011)
