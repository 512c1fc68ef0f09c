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


def test_a_run_of_isaac_lab_2_is_refused_with_the_way_to_use_it(tmp_path):
    """``play`` has the folder of the checkpoint as ``log_dir``, and validates the configuration before all else."""
    from gaitway_isaaclab.compat import IsaacLabError

    cfg = env_cfgs.VelocityFlatGo2EnvCfg(log_dir=str(tmp_path))
    cfg.validate()
    settings = tmp_path / "params" / "agent.yaml"
    settings.parent.mkdir()
    for text in ("seed: 1\nactor:\n  hidden_dims: [8]\n", "student:\n  hidden_dims: [8]\n", "policy: MlpPolicy\n"):
        settings.write_text(text)
        cfg.validate()
    settings.write_text("seed: 1\npolicy:\n  class_name: ActorCritic\n")
    with pytest.raises(IsaacLabError, match=rf"{tmp_path} is a run of Isaac Lab 2 .*gaitway import {tmp_path} --out"):
        cfg.validate()
