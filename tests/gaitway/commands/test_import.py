"""``gaitway import``: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import yaml
from gaitway_onboard.bundle.contract import Contract, verify_files
from sim2real.imports.isaaclab.run_folder import agent_settings, env_settings, term, write_run
from sim2real.imports.published import holosoma

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
        "task          isaaclab-go2_flat, 50 Hz",
        "model_42.pt, 42 iterations, rsl_rl 5.x: gru 1 x 16, MLP 32, 16, elu, observations normalised",
        "robot         go2, 12 joints",
        "joint order   physx (sim.physx): FL_hip_joint, FR_hip_joint, RL_hip_joint",
        "joint_pos, 12 numbers: isaaclab.envs.mdp.observations:joint_pos_rel",
        "not measured  the policy reads its base velocity",
        f"next: gaitway validate {out}",
    ):
        assert part in said

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
    assert "there is nothing at" in capsys.readouterr().err
    write_run(tmp_path / "run", env_settings(), width=44)
    assert main(["import", str(tmp_path / "run"), "--out", str(out)]) == 2
    assert "it reads 44 numbers, and env.yaml's terms give 45" in capsys.readouterr().err
    assert not out.exists()


def test_a_policy_of_another_family_becomes_a_bundle_and_its_description_does_too(tmp_path, capsys):
    source = holosoma(tmp_path)
    assert main(["import", str(source), "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    for part in ("holosoma walk", "amazon-far/holosoma; licence Apache-2.0", "guessed", "phase_sin 2"):
        assert part in said
    assert main(["import", str(source), "--show"]) == 0
    mine = tmp_path / "mine.yaml"
    mine.write_text(capsys.readouterr().out)
    assert main(["import", str(source), "--describe", str(mine), "--show"]) == 0
    assert capsys.readouterr().out == mine.read_text() == (tmp_path / "a/description.yaml").read_text()


def test_other_commands_import_a_policy_of_others_first(tmp_path, capsys):
    source = holosoma(tmp_path)
    assert main(["run", str(source), "--seconds", "0.1"]) in (0, 1)
    said = capsys.readouterr().out
    assert "guessed" in said and f"bundle: {tmp_path / 'walk-bundle'}" in said and "29 joints" in said
    assert Contract.load(tmp_path / "walk-bundle").origin["family"] == "holosoma"


def test_a_template_is_printed_and_a_source_is_needed(capsys):
    assert main(["import", "--template"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["observation"][0]["term"] == "base_ang_vel"
    assert main(["import", "--out", "b"]) == 2
    assert "SOURCE" in capsys.readouterr().err
