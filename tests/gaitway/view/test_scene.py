"""The page shows the ground that a robot walks on."""

from __future__ import annotations

import socket

import mujoco
import numpy as np
import pytest
from gaitway_tasks.robots.mjcf import add_ground
from gaitway_tasks.terrain import read_ground

from gaitway.demo import bundle_of
from gaitway.view.scene import Scene, _surface, page
from gaitway.view.walkers import BundleWalker


@pytest.fixture(scope="module")
def server():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with page("test", "127.0.0.1", port, "URL") as server:
        yield server


@pytest.mark.parametrize(("text", "shown", "floor"), [("kerbs:0.1", 17, False), ("waves:0.2", 5, False),
                                                      ("slope:10", 0, True)])  # fmt: skip
def test_boxes_height_fields_and_slopes_are_drawn(server, text, shown, floor):
    server.scene.reset()
    ground = read_ground(text)
    walker = BundleWalker(bundle_of("anymal-c"), ground=ground)
    scene = Scene(walker.model, server, walker.base_qpos)
    assert len(scene.tiles) == shown and scene.floor.visible == floor and not scene.level
    qpos = walker.qpos.copy()
    qpos[:2] = [2.05, 0.3]
    for _ in range(100):
        scene.show(qpos, follow=True)
    np.testing.assert_allclose(scene.shift, [2.05, 0.3, ground.height(qpos[:2])], atol=1e-3)
    np.testing.assert_allclose(scene.ground.position, -scene.shift, atol=1e-4)
    scene.paint_floor((1, 2, 3))
    assert all(tuple(tile.color) == (1, 2, 3) for tile in scene.tiles)


def test_the_surface_of_a_height_field_is_that_of_the_ground():
    ground, spec = read_ground("waves:0.2"), mujoco.MjSpec()
    add_ground(spec, ground)
    model = spec.compile()
    vertices, faces = _surface(model, 0)
    low = model.geom_pos[model.ngeom - 1, 2]
    np.testing.assert_allclose(vertices[:, 2] + low, ground.height(0.999999 * vertices[:, :2]), atol=1e-4)
    middles = vertices[faces].mean(1)
    np.testing.assert_allclose(middles[:, 2] + low, ground.height(middles[:, :2]), atol=1e-6)
    edges = np.diff(vertices[faces], axis=1)
    assert (np.cross(edges[:, 0], edges[:, 1])[:, 2] > 0.0).all(), "faces look up"
