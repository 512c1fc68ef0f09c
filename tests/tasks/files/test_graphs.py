"""ONNX graphs of strangers: other files, endless loops, and memory that a few bytes ask for."""

import numpy as np
import onnx
import pytest
from gaitway_files import graphs
from gaitway_files.graphs import check_graph, open_graph
from gaitway_files.reading import FileError
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.hostile("untrusted files")
FLOAT = TensorProto.FLOAT


def model(nodes, initializers=(), functions=(), domains=()) -> onnx.ModelProto:
    """A graph from ``x`` (1,) to ``y``."""
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("x", FLOAT, ["N"])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def number(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.array(value, dtype), name)


def doubled() -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "x"], ["y"])])


def external() -> onnx.ModelProto:
    tensor = number("w", [1.0], np.float32)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret.bin")
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])


def external_inside() -> onnx.ModelProto:
    """In the constant of a branch, without the mark of its place."""
    tensor = number("w", [1.0], np.float32)
    tensor.external_data.add(key="location", value="../secret.bin")
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=tensor)],
        "branch",
        [],
        [helper.make_tensor_value_info("z", FLOAT, [1])],
    )
    return model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], [number("c", True, np.bool_)]
    )


def loop() -> onnx.ModelProto:
    """Graph with an endless loop that depends on no input, so that onnxruntime runs it while it loads the graph."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w", FLOAT, [1])],
    )
    return model(
        [helper.make_node("Loop", ["n", "c", "s"], ["l"], body=body), helper.make_node("Add", ["x", "l"], ["y"])],
        [number("n", 2**62), number("c", True, np.bool_), number("s", [0.0], np.float32)],
    )


def petabyte() -> onnx.ModelProto:
    tensor = number("w", [1.0], np.float32)
    tensor.dims[:] = [10**15]
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])


def stranger() -> onnx.ModelProto:
    return model([helper.make_node("Shell", ["x"], ["y"], domain="org.evil")], domains=["org.evil"])


def functions(*bodies: list[str]) -> onnx.ModelProto:
    """Function k calls those that are listed."""
    made = [
        helper.make_function(
            "ours", f"f{k}", ["a"], [f"b{len(calls)}"],
            [helper.make_node("Identity", ["a"], ["b0"])]
            + [helper.make_node(c, [f"b{n}"], [f"b{n + 1}"], domain="ours") for n, c in enumerate(calls)],
            [helper.make_opsetid("", 17), helper.make_opsetid("ours", 1)],
        )
        for k, calls in enumerate(bodies)
    ]  # fmt: skip
    return model([helper.make_node("f0", ["x"], ["y"], domain="ours")], functions=made, domains=["ours"])


REFUSED = {
    "another file": (external, "keeps weights in another file"),
    "another file inside": (external_inside, "keeps weights in another file"),
    "loop": (loop, "has a Loop"),
    "petabyte": (petabyte, r"claims a tensor of shape \[1000000000000000\]"),
    "domain": (stranger, "'Shell' of 'org.evil'"),
    "itself": (lambda: functions(["f1"], ["f0"]), "calls itself"),
    "bomb": (lambda: functions(*([f"f{k + 1}"] * 10 for k in range(6)), []), "operations; at most 100000"),
    "levels": (lambda: functions(*([f"f{k + 1}"] for k in range(20)), []), "more than 10 levels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_graphs_that_are_refused_before_onnxruntime_sees_them(name):
    make, said = REFUSED[name]
    with pytest.raises(FileError, match=said) as error:
        check_graph(make().SerializeToString(), "policy.onnx")
    assert str(error.value).startswith("policy.onnx: ")


@pytest.mark.parametrize("content", [b"", b"not a graph", b"\x3a\xff\xff\xff\x7f", b"\x08", b"\xff" * 20, b"\x0b"])
def test_bytes_that_are_no_graph(content):
    with pytest.raises(FileError, match="no ONNX graph"):
        check_graph(content, "policy.onnx")


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def message(*fields: tuple[bytes, bytes]) -> bytes:
    """Fields of bytes, each with its tag as it is to be written."""
    return b"".join(tag + varint(len(content)) + content for tag, content in fields)


@pytest.mark.parametrize("tag", [b"\xa2\x80\x80\x80\x10", b"\xa2\x00", b"\xa2\x80\x80\x80\x80\x80\x80\x80\x80\x40"])
def test_a_name_behind_a_tag_that_readers_cut_off_differently(tag):
    node = message((b"\x0a", b"x"), (b"\x12", b"y"), (tag, b"Loop"))  # 22 is the type of an operation
    content = b"\x08\x09" + message((b"\x3a", message((b"\x0a", node), (b"\x12", b"policy"))))
    with pytest.raises(FileError, match="no ONNX graph"):
        check_graph(content, "policy.onnx")


def test_a_graph_that_is_also_a_file_of_onnxruntimes_own_format():
    """Its bytes 4 to 8 are the mark of that format, in the name of who made it."""
    content = message((b"\x12", b"  ORTM")) + doubled().SerializeToString()
    assert content[4:8] == b"ORTM"
    assert open_graph(content, "policy.onnx").run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [2.0, 2.0]


def grown() -> onnx.ModelProto:
    """A tenth of a terabyte of ones, from three hundred bytes, while it is loaded."""
    return model(
        [helper.make_node("ConstantOfShape", ["n"], ["c"]), helper.make_node("ReduceSum", ["c"], ["s"]),
         helper.make_node("Add", ["x", "s"], ["y"])],
        [number("n", [25, 10**9])],
    )  # fmt: skip


def squared() -> onnx.ModelProto:
    """Outer sums of outer sums: no single number in it is large."""
    rows = helper.make_node("Unsqueeze", ["w", "last"], ["r"]), helper.make_node("Add", ["w", "r"], ["q"])
    flat = helper.make_node("Reshape", ["q", "all"], ["f"]), helper.make_node("Unsqueeze", ["f", "last"], ["g"])
    big = helper.make_node("Add", ["f", "g"], ["h"]), helper.make_node("ReduceSum", ["h"], ["s"])
    return model(
        [*rows, *flat, *big, helper.make_node("Add", ["x", "s"], ["y"])],
        [number("w", np.ones(600), np.float32), number("last", [1]), number("all", [-1])],
    )


@pytest.mark.parametrize("make", [grown, squared])
def test_memory_that_only_a_run_shows_is_asked_for_in_a_child_process(make):
    check_graph(make().SerializeToString(), "policy.onnx")
    with pytest.raises(FileError, match=r"loading and running it once failed within 2 GiB of memory"):
        open_graph(make().SerializeToString(), "policy.onnx")


def test_an_honest_graph_is_tried_once_and_opened(monkeypatch):
    content = functions(["f1"] * 3, []).SerializeToString()
    for _ in range(2):
        session = open_graph(content, "policy.onnx")
        assert session.run(None, {"x": np.ones(3, np.float32)})[0].tolist() == [1.0] * 3
        monkeypatch.setattr(graphs, "contained", None)
    assert open_graph(doubled().SerializeToString(), "ours", own=True)
