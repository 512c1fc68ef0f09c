"""Actors of every rsl_rl, rebuilt: equal to rsl_rl's own where it is installed; what does not fit is named."""

from __future__ import annotations

import copy

import pytest
import torch
from gaitway_sim2real.imports.isaaclab.checkpoint import actor_config, build_actor, newest_checkpoint, read_weights
from gaitway_sim2real.imports.isaaclab.config import Settings
from gaitway_sim2real.imports.isaaclab.errors import IsaacLabImportError
from sim2real.imports.isaaclab.run_folder import agent_settings, make_model, save_model
from tensordict import TensorDict

WIDTHS = {"gyro": 3, "joint_pos": 5, "height_scan": 7}
D, A, N = 15, 4, 6


def settings(**actor):
    return agent_settings(**actor)


def config_of(agent):
    return actor_config(Settings(agent, "agent.yaml"))


def saved(tmp_path, agent):
    """rsl_rl's model, and ours from its file."""
    model = make_model(agent, D, A)
    save_model(model, tmp_path / "model_7.pt")
    return model, build_actor(config_of(agent), read_weights(tmp_path / "model_7.pt"), WIDTHS, A)


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh", "swish", "crelu"])
@pytest.mark.parametrize("normalized", [True, False])
def test_mlp_of_rsl_rl_5(tmp_path, activation, normalized):
    model, ours = saved(tmp_path, settings(activation=activation, obs_normalization=normalized))
    x = torch.randn(N, D)
    with torch.inference_mode():
        expected = model(TensorDict({"policy": x}, batch_size=[N]))
        assert torch.allclose(ours(x), expected, atol=1e-6)
    assert expected.std() > 0.01
    assert read_weights(tmp_path / "model_7.pt").version == "5.x"


def test_a_standard_deviation_from_the_network_is_left_out(tmp_path):
    model, ours = saved(
        tmp_path, settings(distribution_cfg={"class_name": "HeteroscedasticGaussianDistribution", "init_std": 1.0})
    )
    x = torch.randn(N, D)
    with torch.inference_mode():
        assert torch.allclose(ours(x), model(TensorDict({"policy": x}, batch_size=[N])), atol=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_of_rsl_rl_5(tmp_path, kind, layers):
    agent = settings(class_name="RNNModel", rnn_type=kind, rnn_hidden_dim=9, rnn_num_layers=layers)
    model, ours = saved(tmp_path, agent)
    memory = torch.zeros(N, ours.memory_size)
    assert ours.memory_size == layers * 9 * (2 if kind == "lstm" else 1)
    with torch.inference_mode():
        for _ in range(5):
            x = torch.randn(N, D)
            action, memory = ours(x, memory)
            assert torch.allclose(action, model(TensorDict({"policy": x}, batch_size=[N])), atol=1e-6)


def test_older_formats(tmp_path):
    """The same weights under the names of 4.x and 3.x; the settings of 3.x may say "normalised" in an older way."""
    agent = settings()
    model = make_model(agent, D, A)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("distribution.")}
    mlp = {k.replace("mlp.", "actor."): v for k, v in state.items() if k.startswith("mlp.")}
    norm = {k.removeprefix("obs_normalizer."): v for k, v in state.items() if k.startswith("obs_normalizer.")}
    others = {"std": torch.ones(A), "critic.0.weight": torch.zeros(1, D)}
    inside = {f"actor_obs_normalizer.{k}": v for k, v in norm.items()}
    policy = {"class_name": "ActorCritic", "actor_hidden_dims": [32, 16], "activation": "elu"}
    old = {**agent, "actor": {}, "policy": {**policy, "actor_obs_normalization": True}}
    older = {**agent, "actor": {}, "policy": policy, "empirical_normalization": True}
    files = {
        "4.x": ({"actor_state_dict": {**state, "std": torch.ones(A)}}, agent),
        "3.x": ({"model_state_dict": {**mlp, **others, **inside}}, old),
    }
    x = torch.randn(N, D)
    with torch.inference_mode():
        expected = model(TensorDict({"policy": x}, batch_size=[N]))
        for version, (data, described) in [*files.items(), ("3.x", (files["3.x"][0], older))]:
            torch.save({**data, "iter": 3, "infos": None}, tmp_path / "model_3.pt")
            weights = read_weights(tmp_path / "model_3.pt")
            assert weights.version == version and weights.iteration == 3
            assert torch.allclose(build_actor(config_of(described), weights, WIDTHS, A)(x), expected, atol=1e-6)


def test_a_file_of_rsl_rl_2_is_refused(tmp_path):
    state = {"actor.0.weight": torch.zeros(1, D)}
    torch.save({"model_state_dict": state, "obs_norm_state_dict": {"_mean": torch.zeros(1, D)}}, tmp_path / "m.pt")
    with pytest.raises(IsaacLabImportError, match=r"rsl_rl 3 to 5"):
        read_weights(tmp_path / "m.pt")


def mismatch(tmp_path, trained, described, widths=WIDTHS, actions=A):
    save_model(make_model(trained, sum(WIDTHS.values()), A), tmp_path / "model_0.pt")
    with pytest.raises(IsaacLabImportError) as error:
        build_actor(config_of(described), read_weights(tmp_path / "model_0.pt"), widths, actions)
    return str(error.value)


def test_another_observation_names_tensor_term_and_widths(tmp_path):
    agent = settings()
    said = mismatch(tmp_path, agent, agent, {**WIDTHS, "velocity": 6})
    assert "actor_state_dict['mlp.0.weight'] has shape [32, 15], but the settings need [32, 21]" in said
    assert "it reads 15 numbers, and env.yaml's terms give 21 (gyro 3, joint_pos 5, height_scan 7, velocity 6)" in said
    assert "without velocity they would fit" in said
    recurrent = settings(class_name="RNNModel", rnn_hidden_dim=8)
    assert "rnn.rnn.weight_ih_l0'] has shape [32, 15]" in mismatch(tmp_path, recurrent, recurrent, {"a": 14})
    assert "history length" in mismatch(tmp_path, agent, agent, {"a": 45})
    assert "1 numbers too few" in mismatch(tmp_path, agent, agent, {"a": 14})


def test_other_mismatches_name_the_tensor(tmp_path):
    agent = settings()
    without = mismatch(tmp_path, settings(obs_normalization=False), agent)
    assert "no normaliser (actor_state_dict['obs_normalizer._mean'] is missing)" in without
    surplus = mismatch(tmp_path, agent, settings(obs_normalization=False))
    assert "actor_state_dict['obs_normalizer._mean'], but agent.yaml says that observations are not norm" in surplus
    hidden = mismatch(tmp_path, agent, settings(hidden_dims=[32, 24]))
    assert "actor_state_dict['mlp.2.weight'] has shape [16, 32], but the settings need [24, 32]" in hidden
    deeper = mismatch(tmp_path, agent, settings(hidden_dims=[32, 16, 8]))
    assert "the checkpoint has no actor_state_dict['mlp.6.weight']" in deeper
    assert "actions take 5 numbers" in mismatch(tmp_path, agent, agent, actions=5)
    memory = mismatch(tmp_path, agent, settings(class_name="RNNModel"))
    assert "has no actor_state_dict['rnn.rnn.weight_ih_l0']" in memory and "recurrent lstm" in memory


def test_a_diverged_training_is_noticed(tmp_path):
    agent = settings()
    model = make_model(agent, D, A)
    model.mlp[0].bias.data[0] = float("nan")
    save_model(model, tmp_path / "model_0.pt")
    with pytest.raises(IsaacLabImportError, match=r"mlp.0.bias'\] holds numbers that are not finite"):
        build_actor(config_of(agent), read_weights(tmp_path / "model_0.pt"), WIDTHS, A)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"class_name": "CNNModel"}, "agent.yaml.actor.class_name is CNNModel"),
        ({"activation": "sine"}, "activation is 'sine'; rsl_rl has elu"),
        ({"class_name": "RNNModel", "rnn_type": "rnn"}, "rnn_type is 'rnn'"),
        ({"distribution_cfg": {"class_name": "BetaDistribution"}}, "BetaDistribution"),
        ({"hidden_dims": 128}, "hidden_dims is 128; expected list"),
    ],
)
def test_actors_that_cannot_be_read(change, said):
    agent = copy.deepcopy(settings())
    agent["actor"] |= change
    with pytest.raises(IsaacLabImportError) as error:
        config_of(agent)
    assert said in str(error.value)


def test_files_that_are_no_checkpoints(tmp_path):
    with pytest.raises(IsaacLabImportError, match=r"neither 'policy'.*nor 'actor'.*skrl.*rl_games"):
        config_of({"models": {"policy": {}}})
    with pytest.raises(IsaacLabImportError, match=r"no model_<iteration>.pt"):
        newest_checkpoint(tmp_path)
    (tmp_path / "model_1.pt").write_bytes(b"nonsense")
    with pytest.raises(IsaacLabImportError, match="not a checkpoint of tensors"):
        read_weights(tmp_path / "model_1.pt")
    torch.save({"policy": {}}, tmp_path / "model_1.pt")
    with pytest.raises(IsaacLabImportError, match=r"neither actor_state_dict .* it has policy"):
        read_weights(tmp_path / "model_1.pt")
    for number in (2, 10, 9):
        (tmp_path / f"model_{number}.pt").touch()
    assert newest_checkpoint(tmp_path).name == "model_10.pt"


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def test_no_code_is_unpickled(tmp_path):
    torch.save({"model_state_dict": {}, "infos": Evil()}, tmp_path / "model_1.pt")
    with pytest.raises(IsaacLabImportError, match="not a checkpoint of tensors"):
        read_weights(tmp_path / "model_1.pt")
