"""Every file that may come from a stranger goes through the readers: what parses past them stands here, with why."""

import ast
from pathlib import Path

from tree import ROOT

PACKAGES = [
    ROOT / "gaitway",
    *(p for f in ("tasks", "agents", "extensions", "sim2real") for p in (ROOT / f).glob("g*_*")),
]

RAW = (
    "yaml.load", "yaml.safe_load", "OmegaConf.load", "json.load", "json.loads", "pickle.load", "pickle.loads",
    "np.load", "np.fromfile", "torch.load", "torch.jit.load", "zipfile.ZipFile", "InferenceSession",
    "MjSpec.from_file", "MjModel.from_xml_path", "onnx.load", "onnx.load_from_string", "ElementTree.parse",
    "gzip.open", "ParquetFile", "make_reader", "GGUFReader",
)  # fmt: skip
"""Calls that read as much as a file says."""

READERS = {
    "extensions/gaitway_language/gguf_files.py": {"GGUFReader"},
    "tasks/gaitway_files/archives.py": {"zipfile.ZipFile"},
    "tasks/gaitway_files/checkpoints.py": {"torch.load"},
    "tasks/gaitway_files/graphs.py": {"InferenceSession"},
    "tasks/gaitway_files/json_files.py": {"json.loads"},
    "tasks/gaitway_files/yaml_files.py": {"yaml.load"},
    "tasks/gaitway_tasks/robots/mjcf.py": {"MjSpec.from_file"},
    "tasks/gaitway_tasks/language/files.py": {"gzip.open", "ParquetFile"},
}
"""Files in which such a call stands behind the limits."""

OURS = {
    "gaitway/config/overrides.py": {"json.loads"},  # of what it has just written
    "gaitway/runs/lock.py": {"json.loads"},  # 4 kB of a lock
    "gaitway/sweep/journal.py": {"json.loads"},  # what it has just written
    "gaitway/sweep/space.py": {"json.loads"},  # likewise
    "gaitway/training/events.py": {"json.loads"},  # likewise
    "gaitway/training/lookout.py": {"json.loads"},  # from processes of the same training
    "gaitway/view/remote.py": {"json.loads"},  # messages of a limited length
    "tasks/gaitway_tasks/actuator_network.py": {"zipfile.ZipFile", "torch.jit.load", "json.loads"},  # own old files
    "tasks/gaitway_tasks/language/confine.py": {"json.loads"},  # from the parent process
    "tasks/gaitway_tasks/language/constraints.py": {"json.loads"},  # answers of a model, as long as it may speak
    "tasks/gaitway_tasks/language/records.py": {"json.loads"},  # likewise
    "tasks/gaitway_tasks/language/math_answers.py": {"json.loads"},  # from the parent process
    "tasks/gaitway_tasks/language/reasoning_gym.py": {"json.loads"},  # problems that it has just written
    "tasks/gaitway_tasks/language/remote.py": {"json.loads"},  # bodies of a limited length
    "tasks/gaitway_tasks/language/tools.py": {"json.loads"},  # answers of a model, as long as it may speak
    "tasks/gaitway_tasks/language/verifiers.py": {"json.loads"},  # from a process of its own, which the user trusts
    "tasks/gaitway_tasks/language/verifiers_host/host.py": {"json.loads"},  # from the parent process
    "agents/gaitway_agents/language/asynchronous.py": {"pickle.loads"},  # from the parent process
    "agents/gaitway_agents/core/together.py": {"pickle.loads"},  # from processes of the same training
    "extensions/gaitway_language/engines/serve.py": {"json.loads"},  # of the user's own machines
    "extensions/gaitway_language/engines/vllm_serve.py": {"json.loads"},  # of the user's own machines
    "extensions/gaitway_language/engines/vllm_server.py": {"json.loads"},  # of the user's own machines
    "sim2real/gaitway_sim2real/mujoco/own_model.py": {"MjModel.from_xml_path"},  # what it has just written
    "sim2real/gaitway_sim2real/mujoco/standalone.py": {"MjModel.from_xml_path"},  # likewise
    "gaitway/backends/mujoco.py": {"MjModel.from_xml_path"},  # likewise
    "agents/gaitway_agents/on_policy.py": {"torch.load"},  # likewise
    "sim2real/gaitway_sim2real/imports/graph.py": {"onnx.load_from_string"},  # after check_graph
    "sim2real/gaitway_sim2real/imports/readers/onnx_metadata.py": {"onnx.load_from_string"},  # after check_graph
    "sim2real/gaitway_sim2real/imports/weights.py": {"onnx.load_from_string"},  # after check_graph
    "sim2real/gaitway_sim2real/imports/leapp/graph.py": {"onnx.load_from_string"},  # after check_graph
    "sim2real/gaitway_onboard/bundle/schema.py": {"json.loads"},  # a file of the package
    "sim2real/gaitway_onboard/safety/guardian.py": {"json.loads"},  # from the parent process
    "sim2real/gaitway_onboard/flight/recorder.py": {"json.loads"},  # from the parent process
}
"""Files in which such a call reads our own data, or no file."""


def raw_reads(path: Path) -> set[str]:
    """Names of the calls in a file that read without limits."""
    called = {
        ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)
    }
    return {name for name in RAW if any(call == name or call.endswith(f".{name}") for call in called)}


def test_everything_else_of_ours_reads_through_the_readers():
    found = {str(path.relative_to(ROOT)): raw_reads(path) for package in PACKAGES for path in package.rglob("*.py")}
    assert {file: calls for file, calls in found.items() if calls} == READERS | OURS


def test_the_rule_sees_calls_by_any_name(tmp_path):
    (tmp_path / "a.py").write_text(
        "import onnxruntime as ort\nx = yaml.safe_load(open(p))\ny = ort.InferenceSession(p)\n"
    )
    assert raw_reads(tmp_path / "a.py") == {"yaml.safe_load", "InferenceSession"}
