"""TorchScript of strangers: what claims, hides or would run something gets one sentence, and nothing runs."""

import io
import os
import pickle
import re
import struct
import zipfile

import numpy as np
import pytest
import torch
from gaitway_files.reading import FileError
from gaitway_files.torchscript import ScriptObject, parse_torchscript
from sim2real.imports.scripted import mlp, saved, with_member
from torch import nn

pytestmark = [
    pytest.mark.hostile("untrusted files"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def good() -> bytes:
    torch.manual_seed(0)
    return saved(mlp())


def refused(content: bytes) -> str:
    with pytest.raises(FileError) as error:
        parse_torchscript(content, "policy.pt")
    said = str(error.value)
    assert said.startswith("policy.pt: ") and "\n" not in said and len(said) < 500
    return said


def described(good: bytes, data: bytes) -> str:
    return refused(with_member(good, "/data.pkl", lambda _: data))


class Odd(nn.Module):
    """Arrays of every kind, views, and other attributes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())
        self.register_buffer("part", torch.arange(9.0)[2:8:3])
        self.register_buffer("scalar", torch.tensor(3.5))
        self.register_buffer("nothing", torch.zeros(0, 3))
        self.register_buffer("spread", torch.ones(1).expand(5))
        for name in ("float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"):
            self.register_buffer(name, torch.tensor([0, 1, 1]).to(getattr(torch, name)))
        self.number, self.text, self.flag, self.large = 2.5, "a", True, 2**40
        self.numbers = [1, 2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.number + self.numbers[0] + self.large + len(self.text) + int(self.flag)


def test_objects_come_back_as_they_were_saved():
    module = Odd()
    archive = parse_torchscript(saved(module), "odd.pt")
    found = archive.root.attributes
    for name, buffer in module.named_buffers():
        assert found[name].dtype == buffer.numpy().dtype and np.array_equal(found[name], buffer.numpy()), name
    assert (found["number"], found["text"], found["flag"], found["large"]) == (2.5, "a", True, 2**40)
    assert found["numbers"] == [1, 2]
    assert archive.root.name.endswith(".Odd") and list(archive.code) == [archive.root.name.rpartition(".")[0]]
    assert "def forward" in archive.code[archive.root.name.rpartition(".")[0]]


class Runs:
    def __init__(self, function, *arguments):
        self.made = function, arguments

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("function", [os.system, exec, eval, __import__, getattr, open], ids=lambda f: f.__name__)
def test_no_function_is_called(good, tmp_path, function, protocol):
    mark = tmp_path / "ran"
    text = f"touch {mark}" if function is os.system else f"open({str(mark)!r}, 'w')"
    argument = (str(mark), "w") if function is open else (text,)
    said = described(good, pickle.dumps(Runs(function, *argument), protocol))
    assert "calls" in said or "step" in said
    assert not mark.exists()


CALL = "c{module}\n{name}\n("


@pytest.mark.parametrize(
    "name",
    ["torch load", "torch.jit load", "torch._utils _rebuild_qtensor", "torch._utils _rebuild_parameter",
     "torch._tensor _rebuild_from_type_v2", "torch.storage _load_from_bytes", "torch.jit._pickle build_othertlist",
     "torch.hub load", "numpy.core.multiarray _reconstruct", "collections Counter", "builtins bytearray",
     "__torch__.policy Actor", "torch FloatStorage"],
)  # fmt: skip
def test_no_other_name_is_called(good, name):
    module, _, function = name.partition(" ")
    assert f"calls {module}.{function}" in described(good, f"\x80\x02c{module}\n{function}\n(tR.".encode("latin1"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80\x02(S'true'\nios\nsystem\n.", "the step STRING"),
        (b"\x80\x02(X\4\0\0\0trueios\nsystem\n.", "the step INST"),
        (b"\x80\x02(cos\nsystem\nX\4\0\0\0trueo.", "the step OBJ"),
        (b"\x80\x04X\2\0\0\0osX\6\0\0\0system\x93.", "the step STACK_GLOBAL"),
        (b"\x80\x02\x82\x01.", "the step EXT1"),
        (b"\x80\x02c__torch__\nA\n)}\x92.", "the step NEWOBJ_EX"),
        (b"\x80\x02cpathlib\nPath\n)\x81.", "makes an object of pathlib.Path"),
        (b"\x80\x02c__torch__x\nA\n)\x81.", "makes an object of __torch__x.A"),
        (b"\x80\x02c__torch__\nA\nK\x01\x85\x81.", "makes an object of __torch__.A"),
        (b"\x80\x02K\x01)\x81.", "makes an object of int"),
        (b"\x80\x02c__torch__\nA\n)\x81K\x01b.", "packs the state of __torch__.A in a way of its own"),
        (b"\x80\x02c__torch__\nA\n)\x81}K\x01K\x02sb.", "packs the state"),
        (b"\x80\x02}}b.", "fills a dict like a ScriptObject"),
        (b"\x80\x02)K\x01a.", "fills a tuple like a list"),
        (b"\x80\x02}]K\x01s.", "a key that is neither"),
        (b"\x80\x02}(K\x01u.", "cannot be read"),
        (b"\x80\x02h\x07.", "cannot be read"),
        (b"\x80\x02t.", "cannot be read"),
        (b"\x80\x02R.", "cannot be read"),
        (b"\x80\x02K\x01Q.", "cannot be read"),
        (b"\x80\x02X\xff\xff\xff\x7fa.", "cannot be read"),
        (b"\x80\x02r\xff\xff\xff\x7f.", "cannot be read"),
        (b"\x80\x02\x8a\x20" + b"\x7f" * 32 + b".", "more than 64 bits"),
        (b"\x80\x02}.", "describes no module"),
        (b"\x80\x02.", "describes no module"),
        (b"\x80\x02c__torch__\nA\n)\x81}X\1\0\0\0acos\nsystem\nsb.", "has a class or a mark where a value belongs"),
        (b"\x80\x02c__torch__\nA\n)\x81}X\1\0\0\0a(sb.", "has a class or a mark where a value belongs"),
        (b"\x80\x02c__torch__\nA\n)\x81q\0}X\1\0\0\0ah\0sb.", "over more than 32 levels"),
        (b"\x80\x02c__torch__\nA\n)\x81}X\1\0\0\0a]q\0h\0asb.", "over more than 32 levels"),
        (b"\x80\x02c__torch__\nA\n)\x81}X\1\0\0\0a" + b"]" * 40 + b"a" * 39 + b"sb.", "over more than 32 levels"),
        (b"", "cannot be read"),
        (b"\x80\x02", "cannot be read"),
    ],
)
def test_descriptions_that_are_refused(good, data, said):
    assert said in described(good, data)


def test_what_is_shared_a_billion_times_is_counted_once(good):
    """Thirty levels, each with the one below it twice."""
    data = b"\x80\x02c__torch__.torch.nn.modules.container\nSequential\n)\x81}X\1\0\0\0a]"
    for level in range(29):
        data += b"q" + bytes([level]) + b"h" + bytes([level]) + b"\x86"  # a tuple of two
    archive = parse_torchscript(with_member(good, "/data.pkl", lambda _: data + b"sb."), "policy.pt")
    assert len(archive.root.attributes["a"]) == 2


def text(words: str) -> bytes:
    return b"X" + struct.pack("<I", len(words)) + words.encode()


def number(value: int) -> bytes:
    packed = value.to_bytes(9, "little", signed=True)
    return b"\x8a\x09" + packed


def tensor(shape, strides, offset=0, storage="FloatStorage", key="0", count=None, place="cpu") -> bytes:
    """A description of a module with one tensor, of the 144 numbers of the first layer's weight if nothing is said."""

    def numbers(values) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    persistent = b"(" + text("storage") + f"ctorch\n{storage}\n".encode() + text(key) + text(place)
    persistent += number(144 if count is None else count) + b"tQ"
    arguments = persistent + number(offset) + numbers(shape) + numbers(strides) + b"\x89ccollections\nOrderedDict\n)R"
    return (
        b"\x80\x02c__torch__.torch.nn.modules.container\nSequential\n)\x81}"
        + text("a") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tRsb."
    )  # fmt: skip


def test_a_tensor_of_this_kind_is_read(good):
    def array(data: bytes):
        return parse_torchscript(with_member(good, "/data.pkl", lambda _: data), "policy.pt").root.attributes["a"]

    whole = array(tensor((16, 9), (9, 1)))
    assert whole.shape == (16, 9) and whole.std() > 0.01
    assert np.array_equal(array(tensor((9, 16), (1, 9), place="cuda:0")), whole.T)
    assert np.array_equal(array(tensor((3,), (0,), offset=143)), whole[15, 8].repeat(3))
    assert array(tensor((0, 9), (9, 1))).shape == (0, 9)
    assert array(tensor((), ())).shape == ()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (tensor((17, 9), (9, 1)), "shape [17, 9] and strides [9, 1] from number 0 on, and has 144"),
        (tensor((16, 9), (9, 1), offset=1), "from number 1 on, and has 144"),
        (tensor((16, 9), (10, 1)), "strides [10, 1]"),
        (tensor((1,), (1,), offset=144), "from number 144"),
        (tensor((1,), (1,), offset=-1), "not possible"),
        (tensor((16, 9), (-9, 1), offset=140), "not possible"),
        (tensor((-1,), (1,)), "not possible"),
        (tensor((2**62, 2**62), (0, 0)), "not possible"),
        (tensor((2**40, 2**40), (0, 0)), "more than 256 MiB"),
        (tensor((2**20, 2**20), (0, 0)), "more than 256 MiB"),
        (tensor((0, 2**40), (1, 1)), "shape [0, 1099511627776]"),
        (tensor((1,) * 9, (1,) * 9), "not possible"),
        (tensor((16, 9), (9,)), "not possible"),
        (tensor((1,), (1,), count=10**9), "claims 1000000000 numbers of data/0, and has 576 bytes"),
        (tensor((1,), (1,), count=-1), "claims -1 numbers"),
        (tensor((1,), (1,), storage="DoubleStorage"), "claims 144 numbers of data/0, and has 576 bytes"),
        (tensor((1,), (1,), storage="BFloat16Storage"), "numbers in a torch.BFloat16Storage"),
        (tensor((1,), (1,), storage="QInt8Storage"), "numbers in a torch.QInt8Storage"),
        (tensor((1,), (1,), key="99"), "no numbers under data/99"),
        (tensor((1,), (1,), key="../version"), "no numbers under data/../version"),
        (tensor((1,), (1,), key="/etc/passwd"), "no numbers under data//etc/passwd"),
        (tensor((1,), (1,)).replace(text("storage"), text("other")), "names a tensor in a way"),
        (tensor((1,), (1,)).replace(number(1), b"N"), "not possible"),
        (tensor((1,), (1,)).replace(number(1), b"\x88"), "not possible"),
    ],
)
def test_claims_of_tensors_are_checked(good, data, said):
    assert said in described(good, data)


def many(count: int) -> bytes:
    """A list of as many copies of one tensor of 64 MiB."""
    body = tensor((2**24,), (0,))
    start, end = body.index(b"ctorch._utils"), body.index(b"sb.")
    return body[:start] + b"](" + body[start:end] * count + b"e" + body[end:]


def test_copies_of_a_tensor_count(good):
    parse_torchscript(with_member(good, "/data.pkl", lambda _: many(4)), "policy.pt")
    assert "more than 256 MiB" in described(good, many(5))


def renamed(name: str):
    return lambda good: with_member(good, "/constants.pkl", lambda data: data, rename=name)


def with_code(size: int, kind: int):
    return lambda good: with_member(good, ".py", lambda text: text + b"#" * size, kind)


def appended(name: str, data: bytes, kind: int = zipfile.ZIP_STORED):
    def change(good: bytes) -> bytes:
        out = io.BytesIO(good)
        with zipfile.ZipFile(out, "a", kind) as archive:
            archive.writestr(name, data)
        return out.getvalue()

    return change


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (renamed("archive/../constants.pkl"), "'archive/../constants.pkl' does not lie in its folder"),
        (renamed("archive/code/../../../evil.py"), "does not lie in its folder"),
        (renamed("/etc/cron.d/x"), "does not lie in its folder"),
        (renamed("archive\\..\\x"), "does not lie in its folder"),
        (renamed("archive//x"), "does not lie in its folder"),
        (renamed("archive/a\\b"), "does not lie in its folder"),
        (renamed("constants.pkl"), "does not lie in its folder"),
        (renamed("other/constants.pkl"), "2 folders"),
        (renamed("archive/data.pkl"), "lists 1 of its members twice"),
        (with_code(3 * 2**20, zipfile.ZIP_DEFLATED), "MiB of code; at most 2 MiB"),
        (appended("archive/x", bytes(320 * 2**20), zipfile.ZIP_DEFLATED), "unpacks to 320 MiB; at most 256 MiB"),
        (appended("archive/code/x.py", b"\xff"), "no text in UTF-8"),
        (appended("archive/x", b"x", zipfile.ZIP_BZIP2), "is compressed"),
        (lambda good: with_member(good, "/data.pkl", lambda data: data + b"N" * 2**18), "of description"),
        (lambda good: with_member(good, "/data/0", lambda data: data, zipfile.ZIP_DEFLATED), "no numbers under data/0"),
        (lambda good: with_member(good, "/data/0", lambda data: data[:-4]), "claims 144 numbers of data/0"),
        (lambda good: with_member(good, "/byteorder", lambda _: b"big"), "big-endian"),
        (lambda good: with_member(good, "/data.pkl", lambda d: d, rename="archive/data.txt"), "no data.pkl"),
        (lambda good: b"", "does not begin as an archive"),
        (lambda good: b"\x80\x02}.", "does not begin as an archive"),
        (lambda good: good[: len(good) // 2], "cut short after"),
        (lambda good: good[:-1], "cut short after|damaged"),
        (lambda good: good[:40] + b"?" + good[41:], ""),
    ],
)
def test_archives_that_are_refused(good, change, said):
    found = refused(change(good))
    assert any(part in found for part in said.split("|")), found


def test_members_are_limited(good):
    out = io.BytesIO(good)
    with zipfile.ZipFile(out, "a") as archive:
        for index in range(10_000):
            archive.writestr(f"archive/{index}", b"")
    assert "at most 10000 are read" in refused(out.getvalue())


def test_every_cut_is_refused(good):
    for length in range(0, len(good), 97):
        refused(good[:length])


def test_a_checkpoint_is_told_from_a_network():
    out = io.BytesIO()
    torch.save(mlp().state_dict(), out)
    assert "save the policy with torch.jit.save" in refused(out.getvalue())


def test_the_root_is_an_object_of_a_scripted_class(good):
    root = parse_torchscript(good, "policy.pt").root
    assert isinstance(root, ScriptObject)  # torch numbers what it has scripted before
    assert re.sub(r"___torch_mangle_\d+\.", "", root.name) == "__torch__.torch.nn.modules.container.Sequential"
