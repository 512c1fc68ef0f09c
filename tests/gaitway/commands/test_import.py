"""``gaitway import-isaaclab``: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import yaml
from gaitway_onboard.bundle.contract import Contract, verify_files
from sim2real.isaaclab.run_folder import agent_settings, env_settings, term, write_run

from gaitway.cli import main


def test_a_run_becomes_a_bundle(tmp_path, capsys):
    env = env_settings()
    env["observations"]["policy"]["base_lin_vel"] = term("base_lin_vel")
    agent = agent_settings(class_name="RNNModel", rnn_type="gru", rnn_hidden_dim=16, rnn_num_layers=1)
    write_run(tmp_path / "run", env, agent, width=48)
    out = tmp_path / "bundle"
    assert main(["import", str(tmp_path / "run"), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for part in (
        "task        isaaclab-go2_flat, 50 Hz",
        "model_42.pt, 42 iterations, rsl_rl 5.x: gru 1 x 16, MLP 32, 16, elu, observations normalised",
        "robot       go2, 12 joints",
        "joint order physx (sim.physx): FL_hip_joint, FR_hip_joint, RL_hip_joint",
        "isaaclab.envs.mdp.observations:joint_pos_rel",
        "not measured: the policy reads its base velocity",
        f"next: gaitway validate {out}",
    ):
        assert part in said
    total = next(line for line in said.splitlines() if line.startswith("total"))
    assert total.split() == ["total", "48"]

    contract = Contract.load(out)
    verify_files(out)
    assert contract.estimated == ("base_lin_vel",) and contract.robot == "go2"
    assert contract.joint_names[:4] == ("FL_hip_joint", "FR_hip_joint", "RL_hip_joint", "RR_hip_joint")
    written = yaml.safe_load((out / "import.yaml").read_text())
    assert written["checkpoint"]["sha256"] == contract.checkpoint_sha256
    assert written["joint_order"] == {"source": "physx (sim.physx)", "names": list(contract.joint_names)}
    assert sum(row["width"] for row in written["terms"]) == 48 and written["estimated"] == ["root_lin_vel_b"]


def test_refusals_exit_with_2_and_write_nothing(tmp_path, capsys):
    env = env_settings()
    env["observations"]["policy"]["joint_pos"]["func"] = "my.mdp:joint_pos_rel"
    write_run(tmp_path / "run", env)
    out = tmp_path / "bundle"
    assert main(["import", str(tmp_path / "run"), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "observation term 'joint_pos': my.mdp:joint_pos_rel is not known" in said and "Traceback" not in said
    assert main(["import", str(tmp_path / "nowhere"), "--out", str(out)]) == 2
    assert "no run folder at" in capsys.readouterr().err
    write_run(tmp_path / "run", env_settings(), width=44)
    assert main(["import", str(tmp_path / "run"), "--out", str(out)]) == 2
    assert "it reads 44 numbers, and env.yaml's terms give 45" in capsys.readouterr().err
    assert not out.exists()
