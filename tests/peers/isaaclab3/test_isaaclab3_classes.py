"""On Isaac Lab 3.0, also its presets of engines."""

import pytest
from gaitway_isaaclab import env_cfgs
from isaac_classes import *  # noqa: F403
from isaaclab_tasks.utils import resolve_presets

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("engine", "kind"),
    [("newton_mjwarp", "MJWarpSolverCfg"), ("newton_kamino", "KaminoPADMMSolverCfg"), ("ovphysx", None)],
)
def test_presets_choose_the_engine(engine, kind):
    physics = resolve_presets(env_cfgs.VelocityRoughGo2EnvCfg(), {engine}).sim.physics
    assert type(getattr(physics, "solver_cfg", None)).__name__ == (kind or "NoneType")
    assert ("OvPhysx" in type(physics).__name__) == (kind is None)
