"""Networks rebuilt from TorchScript: equal to what torch computes from the same archive; other code is refused."""

from __future__ import annotations

import io
import re

import numpy as np
import onnxruntime
import pytest
import torch
from gaitway_files.reading import FileError
from gaitway_sim2real.bundle.export import quiet_exporter
from gaitway_sim2real.imports.meaning import UnknownNetwork
from gaitway_sim2real.imports.networks import ACTIVATIONS, RecurrentActor, network_of
from gaitway_sim2real.imports.torchscript import read_torchscript
from sim2real.imports.isaaclab.run_folder import agent_settings, make_model
from sim2real.imports.scripted import (
    A,
    ActorCritic,
    D,
    EmpiricalNormalization,
    EncoderExporter,
    Flat,
    LateEncoderExporter,
    ObsNormalizer,
    PolicyExporter,
    RecurrentExporter,
    Winding,
    mlp,
    saved,
    with_member,
)
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


def network(content: bytes):
    return network_of(read_torchscript(content, "policy.pt"))


def rolled(content: bytes, actor, steps: int = 20):
    """The largest difference to torch's own actions, over steps with the memory carried on."""
    theirs = torch.jit.load(io.BytesIO(content))
    if isinstance(actor, RecurrentActor):
        theirs.reset()
        memory = torch.zeros(1, actor.memory_size)
    worst, spread = 0.0, []
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for _ in range(steps):
            x = torch.randn(1, actor.in_features, generator=generator)
            if isinstance(actor, RecurrentActor):
                action, memory = actor(x, memory)
            else:
                action = actor(x)
            expected = theirs(x)
            worst = max(worst, float((action - expected).abs().max()))
            spread.append(expected)
    assert torch.cat(spread).std(0).max() > 1e-3
    return worst


def rsl_rl(**changes):
    """rsl_rl's own exporter of a policy whose normaliser has seen observations."""
    model = make_model(agent_settings(obs_normalization=True, **changes), D, A)
    return model.as_jit()


LSTM = {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 6, "rnn_num_layers": 2}
FEEDFORWARD = {
    "sequential": lambda: saved(mlp()),
    "sequential, traced": lambda: saved(mlp(), torch.zeros(1, D)),
    "one layer": lambda: saved(nn.Linear(D, A, bias=False)),
    "exporter": lambda: saved(PolicyExporter(mlp(), nn.Identity())),
    "exporter, normalised": lambda: saved(PolicyExporter(mlp(), EmpiricalNormalization(D, 1e-2))),
    "exporter, traced": lambda: saved(PolicyExporter(mlp(), nn.Identity()), torch.zeros(1, D)),
    "normaliser of parameters": lambda: saved(PolicyExporter(mlp(), ObsNormalizer(D))),
    "rsl_rl": lambda: saved(rsl_rl()),
    "critic, traced": lambda: saved(ActorCritic(), torch.zeros(1, D)),
    "graph": lambda: saved(torch.fx.symbolic_trace(Flat())),
    "winding": lambda: saved(Winding()),
}


@pytest.mark.parametrize("kind", FEEDFORWARD)
def test_chains_of_layers(kind):
    content = FEEDFORWARD[kind]()
    actor = network(content)
    assert (actor.in_features, actor.num_actions) == (D, A) and not hasattr(actor, "memory_size")
    assert rolled(content, actor) < 1e-6
    assert actor(torch.randn(5, D)).shape == (5, A)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "layer",
    [nn.ELU(0.7), nn.SELU(), nn.ReLU(), nn.CELU(0.7), nn.LeakyReLU(0.2), nn.Tanh(), nn.Sigmoid(), nn.Softplus(2.0, 9.0),
     nn.SiLU(), nn.Mish()],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_activations_keep_their_numbers(layer, traced):
    content = saved(nn.Sequential(nn.Linear(D, A), layer), torch.zeros(1, D) if traced else None)
    actor = network(content)
    assert type(actor.layers[1]) is type(layer)
    assert rolled(content, actor) < 1e-6


def test_every_activation_is_tried():
    (mark,) = [mark for mark in test_activations_keep_their_numbers.pytestmark if mark.args[0] == "layer"]
    assert {type(layer) for layer in mark.args[1]} == {kind for kind, _ in ACTIVATIONS.values()}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("normalizer", [nn.Identity(), EmpiricalNormalization(D, 1e-2)], ids=["plain", "normalised"])
def test_memory_begins_at_zero_whatever_was_saved(layers, normalizer):
    module = RecurrentExporter(normalizer, layers).eval().requires_grad_(False)
    for _ in range(3):
        module(torch.randn(1, D))
    content = saved(module)
    assert torch.jit.load(io.BytesIO(content)).hidden_state.abs().max() > 0.01
    actor = network(content)
    assert (actor.in_features, actor.num_actions, actor.memory_size) == (D, A, 2 * 6 * layers)
    assert rolled(content, actor) < 1e-5


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_policies_of_rsl_rl(kind):
    content = saved(rsl_rl(**LSTM | {"rnn_type": kind}))
    actor = network(content)
    assert actor.rnn.kind == kind and actor.memory_size == 12 * (2 if kind == "lstm" else 1)
    assert rolled(content, actor) < 1e-5


@pytest.mark.parametrize(("module", "frames"), [(EncoderExporter(), 3), (LateEncoderExporter(), 4)])
def test_encoder_and_actor(module, frames):
    content = saved(module)
    actor = network(content)
    assert (actor.in_features, actor.num_actions) == (frames * D, A)
    assert rolled(content, actor) < 1e-6
    x = torch.randn(3, frames * D)
    assert torch.allclose(actor(x)[1:2], actor(x[1:2]), atol=1e-6)


class Side(nn.Module):
    """Two policies side by side."""

    def __init__(self, recurrent, encoder):
        super().__init__()
        self.recurrent, self.encoder = recurrent, encoder

    def forward(self, x, memory, history):
        return *self.recurrent(x, memory), self.encoder(history)


@pytest.mark.slow
def test_networks_can_be_exported_for_any_number_of_robots():
    recurrent, encoder = (network(saved(m)) for m in (RecurrentExporter(nn.Identity()), LateEncoderExporter()))
    actors = Side(recurrent, encoder)
    inputs = [torch.randn(3, width) for width in (recurrent.in_features, recurrent.memory_size, encoder.in_features)]
    shapes = tuple({0: torch.export.Dim("N")} for _ in inputs)
    with quiet_exporter():
        graph = torch.onnx.export(
            actors, tuple(x[:2] for x in inputs), dynamo=True, dynamic_shapes=shapes, verbose=False
        )
    session = onnxruntime.InferenceSession(graph.model_proto.SerializeToString())
    found = session.run(None, {each.name: x.numpy() for each, x in zip(session.get_inputs(), inputs, strict=True)})
    for ours, theirs in zip(found, actors(*inputs), strict=True):
        assert np.allclose(ours, theirs.numpy(), atol=1e-5)


def test_the_tree_has_attributes_children_and_code():
    module = PolicyExporter(mlp(), EmpiricalNormalization(D, 1e-2))
    root = read_torchscript(saved(module), "policy.pt")
    assert root.kind == "PolicyExporter" and list(root.children) == ["actor", "normalizer"]
    assert [child.kind for child in root.children["actor"].children.values()] == ["Linear", "ELU"] * 2 + ["Linear"]
    first = root.children["actor"].children["0"]
    assert first.where == "policy.pt: actor.0" and "torch.linear(input, weight, bias)" in first.code
    assert torch.equal(first.attributes["weight"], module.actor[0].weight)
    normalizer = root.children["normalizer"].attributes
    assert normalizer["eps"] == 1e-2 and normalizer["training"] is False and normalizer["count"].dtype == torch.int64
    assert torch.equal(normalizer["_std"], module.normalizer._std)


def refused(content: bytes) -> str:
    """Message about an archive that is read, and whose network is unknown."""
    root = read_torchscript(content, "policy.pt")
    with pytest.raises(UnknownNetwork) as error:
        network_of(root)
    said = str(error.value)
    assert said.startswith("policy.pt") and "torch.onnx.export" in said and "\n" not in said
    return said


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(D, D)

    def forward(self, x):
        for _ in range(int(x[0, 0])):
            x = self.layer(x)
        return x


class Depends(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(D, A)

    def forward(self, x):
        y = self.layer(x)
        if bool(x.sum() > 0):
            y = self.layer(-x)
        return y


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(D, A)

    def forward(self, x):
        x[:] = 0.0
        return self.layer(x)


class Counts(nn.Module):
    """Each call changes the next."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(D, A), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(D, D)

    def forward(self, x):
        return x + self.layer(x)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.Sequential(nn.Linear(D, A), Doubled()), "policy.pt: 1: Doubled is"),
        (Looped(), "for _2 in|for _0 in|range"),
        (Depends(), r"not read, bool\(torch.gt"),
        (InPlace(), "torch.tensor"),
        (Counts(), "self.calls = "),
        (Residual(), "torch.add"),
        (nn.Sequential(nn.Linear(D, A), nn.ReLU(inplace=True)), r"in place by torch.relu_"),
        (nn.Sequential(nn.Linear(D, A), nn.GELU()), "torch.gelu"),
        (nn.Sequential(nn.Linear(D, A), nn.LayerNorm(A)), "layer_norm"),
        (nn.Sequential(nn.Linear(D, A), nn.Dropout(0.1)), "1: Dropout is"),
        (nn.Identity(), "no weights"),
        (nn.LSTM(D, A), "no forward"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_other_computations_are_refused_with_class_and_advice(module, said):
    assert re.search(said, refused(saved(module)))


def code(content: bytes, file: str, old: str, new: str) -> bytes:
    """The archive with a text of its code replaced: in ``file``, or where torch numbers a class it has seen before."""
    done = []

    def change(text: bytes) -> bytes:
        if done or old.encode() not in text:
            return text
        done.append(file)
        return text.replace(old.encode(), new.encode())

    changed = with_member(content, ".py", change)
    assert done, (file, old)
    return changed


LINEAR = "return torch.linear(input, weight, bias)"
DOUBLED = "_0 = [input]\n    " + "".join(f"_{n + 1} = [_{n}, _{n}]\n    " for n in range(60))
"""Each list holds the one before it twice, so that the last has 10^18 elements."""


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("modules/linear.py", LINEAR, "return torch.linear(input, weight, None) ", None),
        ("modules/linear.py", LINEAR, "return torch.bilinear(input, weight, bias)", "torch.bilinear"),
        ("modules/linear.py", LINEAR, "return torch.linear(weight, input, bias)", "torch.linear"),
        ("modules/linear.py", LINEAR, "return torch.load(\"policy.pt\")", "torch.load"),
        ("modules/linear.py", LINEAR, "return __import__(\"os\").system(\"true\")", "os"),
        ("modules/linear.py", LINEAR, "return (lambda: input)()", "lambda"),
        ("modules/linear.py", LINEAR, "return torch.linear(input, *weight)", "weight"),
        ("modules/linear.py", LINEAR, "return self.forward(input, )", "self.forward"),
        ("modules/linear.py", LINEAR, "pass", "returns nothing"),
        ("modules/linear.py", LINEAR, "return torch.linear(input, self.other, bias)", "other"),
        ("modules/linear.py", LINEAR, "return " + "(" * 90 + "input" + ")" * 90, None),
        ("modules/linear.py", LINEAR, "return " + "-" * 50_000 + "1", "characters"),
        ("modules/linear.py", LINEAR, "return (input" + "\n.a" * 9_000 + ")", "not written as torch"),
        ("modules/linear.py", LINEAR, "return " + "[" * 150 + "input" + "]" * 150, "nested|not written"),
        ("modules/linear.py", LINEAR, "return (", "not written as torch writes"),
        ("modules/linear.py", LINEAR, DOUBLED + "return torch.linear(_60, weight, bias)", "not read"),
        ("modules/linear.py", LINEAR, "_9 = torch.copy_(input, weight)\n    " + LINEAR, "in place by torch.copy_"),
        ("modules/linear.py", LINEAR, "_9 = torch.copy_(weight, input)\n    " + LINEAR, "weight after"),
        ("nn/functional.py", "torch.elu(input, alpha)", "torch.relu(input)", None),
        ("nn/functional.py", "torch.elu(input, alpha)", "torch.elu(input, alpha, 2., 3.)", "in a way"),
        ("nn/functional.py", "torch.elu(input, alpha)", "torch.elu(alpha, input)", "in a way|torch.elu"),
        (
            "nn/functional.py", "torch.elu(input, alpha)",
            "__torch__.torch.nn.functional.elu(input, alpha, inplace, )", "it calls __torch__",
        ),
        ("modules/activation.py", "elu(input, 1., False, )", "elu(input, 1., True, )", "in place"),
        ("modules/activation.py", "elu(input, 1., False, )", "elu(input, 1., )", "arguments"),
        ("modules/activation.py", "functional.elu(", "functional.other(", "functional.other"),
    ],
)  # fmt: skip
def test_code_that_was_changed_is_followed_or_refused(file, old, new, said):
    """Never taken for the usual: as torch would compute it, or not at all."""
    good = saved(mlp())
    changed = code(good, file, old, new)
    if said is not None:
        assert re.search(said, refused(changed))
        return
    x = torch.randn(1, D)
    try:
        theirs = torch.jit.load(io.BytesIO(changed))(x)
    except RuntimeError:
        theirs = None
    try:
        ours = network(changed)(x)
    except (FileError, RuntimeError):
        ours = None
    assert (ours is None) == (theirs is None)
    if ours is not None:
        assert torch.allclose(ours, theirs, atol=1e-6) and not torch.allclose(ours, network(good)(x), atol=1e-4)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("modules/rnn.py", "hidden = (_22, _23)", "hidden = (_23, _22)", "is not that of torch's nn.LSTM"),
        ("modules/rnn.py", "weights, True, 1, 0.", "weights, True, 1, 0.1", "is not that of torch's nn.LSTM"),
        ("scripted.py", "(hidden_state, cell_state)", "(cell_state, hidden_state)", "another memory"),
        ("scripted.py", "(hidden_state, cell_state)", "(cell_state, cell_state)", "the memory that it left"),
        ("scripted.py", "torch.slice(hidden_state0), h)", "torch.slice(hidden_state0), c)", "another memory"),
        ("scripted.py", "torch.slice(cell_state0), c)", "torch.slice(hidden_state0), c)", "hidden_state after"),
        ("scripted.py", "torch.squeeze(out, 0)", "torch.squeeze(hidden_state, 0)", "hidden_state after"),
        ("scripted.py", "torch.squeeze(out, 0)", "torch.squeeze(c, 0)", "LSTM or GRU"),
        ("scripted.py", "torch.unsqueeze(x0, 0)", "torch.unsqueeze(x0, 1)", "LSTM or GRU"),
    ],
)  # fmt: skip
def test_a_memory_that_is_kept_in_another_way_is_refused(file, old, new, said):
    assert said in refused(code(saved(RecurrentExporter(nn.Identity())), file, old, new))


def test_calls_that_nothing_depends_on_are_left_out():
    """Their arguments are looked through once, whatever they hold."""
    good = saved(RecurrentExporter(nn.Identity()))
    idle = DOUBLED.replace("input", "c") + "actor = self.actor\n    _99 = (actor).forward(_60, )"
    ours, same = network(good), network(code(good, "scripted.py", "actor = self.actor", idle))
    x, memory = torch.randn(2, D), torch.zeros(2, ours.memory_size)
    assert torch.equal(ours(x, memory)[0], same(x, memory)[0])


def test_a_policy_in_a_policy_with_memory_is_refused():
    assert "outermost" in refused(saved(nn.Sequential(RecurrentExporter(nn.Identity()), nn.Linear(A, A))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.cat([_2, vel, z0], 1)", "torch.cat([vel, _2, z0], 1)"),
        ("torch.cat([_2, vel, z0], 1)", "torch.cat([_2, vel, z], 1)"),
        ("torch.cat([_2, vel, z0], 1)", "torch.cat([_2, vel, z0], 0)"),
        ("_0(z, 2., -1,", "_0(z, 1., -1,"),
        ("_0(z, 2., -1,", "_0(z, 2., 0,"),
        ("vel = torch.slice(parts, -1, None, 3)", "vel = torch.slice(parts, -1, None, 2)"),
        ("z = torch.slice(parts, -1, 3)", "z = torch.slice(parts, -1, 2)"),
    ],
)
def test_an_encoder_that_is_used_in_another_way_is_refused(old, new):
    refused(code(saved(EncoderExporter()), "scripted.py", old, new))


def test_weights_must_be_single_precision_and_finite():
    for dtype in (torch.float16, torch.float64):
        with pytest.raises(FileError, match=r"policy.pt: 4: .*float32.*policy\.float\(\)"):
            network(saved(mlp().to(dtype)))
    module = mlp()
    module[2].bias.data[1] = float("nan")
    with pytest.raises(FileError, match=r"policy.pt: 2: .*bias that are not finite"):
        network(saved(module))


def test_layers_must_fit():
    with pytest.raises(FileError, match="7 inputs after one of 8 outputs"):
        network(saved(nn.Sequential(nn.Linear(D, 8), nn.Linear(7, A))))
    normalized = PolicyExporter(mlp(), EmpiricalNormalization(D + 1, 1e-2))
    with pytest.raises(FileError, match="9 inputs after one of 10 outputs"):
        network(saved(normalized))


def test_a_policy_has_a_limited_number_of_layers():
    assert "more than 100 layers" in refused(saved(nn.Sequential(*[nn.Linear(3, 3) for _ in range(120)])))
