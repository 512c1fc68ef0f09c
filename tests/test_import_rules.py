"""Arrows point down only: who may import whom, and what must stay light."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

OURS = {
    "gaitway": ROOT / "gaitway",
    **{
        path.name: path
        for folder in ("tasks", "agents", "extensions", "sim2real")
        for path in (ROOT / folder).glob("gaitway_*")
    },
}
EXTENSIONS = {path.name for path in (ROOT / "extensions").glob("gaitway_*")}
INTERFACES = "gaitway_agents.interfaces"
"""The module of agents that extensions may import: contracts only."""
ALLOWED = {
    "gaitway_files": set(),
    "gaitway_tasks": {"gaitway_files"},
    "gaitway_agents": {"gaitway_files"},
    "gaitway_onboard": {"gaitway_files"},
    "gaitway_sim2real": {"gaitway_files", "gaitway_tasks", "gaitway_onboard"},
    "gaitway_velocity": {"gaitway_files", "gaitway_tasks", "gaitway_onboard", "gaitway_sim2real"},
    "gaitway_tracking": {"gaitway_files", "gaitway_tasks", "gaitway_onboard", "gaitway_sim2real"},
    "gaitway_reach": {"gaitway_files", "gaitway_tasks", "gaitway_onboard", "gaitway_sim2real"},
    "gaitway_lift": {"gaitway_files", "gaitway_tasks", "gaitway_onboard", "gaitway_sim2real"},
    **{name: {"gaitway_files", "gaitway_tasks", INTERFACES} for name in EXTENSIONS},
    "gaitway": {
        "gaitway_files",
        "gaitway_tasks",
        "gaitway_agents",
        "gaitway_onboard",
        "gaitway_sim2real",
        "gaitway_velocity",
        "gaitway_tracking",
        "gaitway_reach",
        "gaitway_lift",
        *EXTENSIONS,
    },
}
HEAVY = {
    "torch",
    "mujoco",
    "gymnasium",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "omegaconf",
    "rich",
    "matplotlib",
    "yaml",
    "numpy",
    "transformers",
    "peft",
    "math_verify",
    "huggingface_hub",
}


def imports_of(path: Path) -> list[tuple[int, str]]:
    """Line and absolute module name of every import in a file, those inside functions and TYPE_CHECKING included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.lineno, _absolute(path, node)))
    return found


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """Resolve a relative import against the package the file lies in."""
    if not node.level:
        return node.module or ""
    root = next(folder for folder in OURS.values() if path.is_relative_to(folder))
    package = [root.name, *path.relative_to(root).parts[:-1]]
    kept = package[: len(package) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def files(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found, f"no Python files under {folder}"
    return found


def offences(folder: Path, forbidden) -> list[str]:
    """``file:line imports module`` for every import whose module ``forbidden`` says yes to."""
    return [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files(folder)
        for line, module in imports_of(path)
        if forbidden(module)
    ]


def top(module: str) -> str:
    return module.partition(".")[0]


def test_every_package_has_a_rule():
    assert set(OURS) == set(ALLOWED)
    assert {"gaitway_tasks", "gaitway_agents", "gaitway_onboard", "gaitway_mujoco"} <= set(OURS)


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_arrows_point_down(name):
    own = ALLOWED[name] | {name}
    assert offences(OURS[name], lambda module: top(module) in OURS and not {top(module), module} & own) == []


def test_contracts_are_light():
    """Import of ``interfaces`` by extensions brings no other agents' module, and no networks."""
    imported = {module for _, module in imports_of(OURS["gaitway_agents"] / "interfaces.py")}
    foreign = {module for module in imported if top(module) not in sys.stdlib_module_names}
    assert foreign == {"torch", "gaitway_files.errors"}
    code = f"import sys, {INTERFACES}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {"gaitway_agents", INTERFACES, "gaitway_files", "gaitway_files.errors"}
    assert {name for name in loaded if name.startswith("gaitway_")} == ours
    assert "torch" not in loaded


LIBRARIES = {
    "gaitway_tasks": {"torch", "numpy", "gaitway_files"},
    "gaitway_files": {"numpy", "yaml"},
    "gaitway_onboard": {"numpy", "onnxruntime", "yaml", "gaitway_files"},
}
"""Modules that packages import anywhere, beside Python's own."""
MAY = {
    "gaitway_tasks": {
        "robots/mjcf.py": ("mujoco",), "robots/clock.py": ("mujoco",), "robots/check.py": ("mujoco",),
        "robots/anatomy.py": ("mujoco",), "robots/arms.py": ("mujoco",),
        "robots/source.py": ("mujoco",),
        "ground.py": ("mujoco",), "objects.py": ("mujoco",), "terrain/": ("mujoco",),
        "language/math_answers.py": ("math_verify",), "language/files.py": ("pyarrow",),
        "language/hub.py": ("datasets",), "language/gyms.py": ("gymnasium",),
        "language/reasoning_gym.py": ("reasoning_gym",), "language/verifiers_host/": ("verifiers", "mcp"),
    },
    "gaitway_files": {
        "checkpoints.py": ("torch",), "adapters.py": ("torch", "bitsandbytes"), "graphs.py": ("onnxruntime",),
        "packed.py": ("zstandard", "lz4"), "ray_cluster.py": ("ray",),
    },
    "gaitway_onboard": {"wire/": ("cyclonedds",), "flight/": ("mcap",), "bundle/signature.py": ("cryptography",)},
}  # fmt: skip
"""Modules that need a library of their subject, or of the ``robot`` extra, which is imported when they are used."""


@pytest.mark.parametrize("package", LIBRARIES)
def test_a_package_needs_few_libraries(package):
    free = {package, *LIBRARIES[package], *sys.stdlib_module_names}
    found = offences(OURS[package], lambda module: top(module) not in free)
    where = OURS[package].relative_to(ROOT)
    may = [(f"{where}/{file}", f" imports {lib}") for file, libs in MAY[package].items() for lib in libs]
    assert [line for line in found if not any(line.startswith(f) and lib in line for f, lib in may)] == []


def test_agents_know_no_simulator():
    assert offences(OURS["gaitway_agents"], lambda module: top(module) in {"mujoco", "isaaclab", "isaacsim"}) == []


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in ``sys.modules`` after ``statement`` ran in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import gaitway", "import gaitway.cli; gaitway.cli.build_parser()"])
def test_the_face_is_instant(statement):
    assert loaded_by(statement) & HEAVY == set()


def test_listing_tasks_loads_no_torch():
    assert "torch" not in loaded_by("from gaitway_tasks.registry import task_names; task_names()")


def test_gymnasium_finds_our_environments_and_stays_light():
    modules = loaded_by("import gymnasium; assert 'Gaitway/Velocity-Flat-Anymal-C-v0' in gymnasium.registry")
    assert not {"torch", "mujoco"} & modules


@pytest.mark.parametrize(
    "module",
    [
        "gaitway_onboard.bundle.policy",
        "gaitway_onboard.control.loop",
        "gaitway_onboard.safety.preflight",
        "gaitway_onboard.transports.open",
        "gaitway_tasks.robots",
        "gaitway_sim2real.lockstep.run",
        "gaitway_sim2real.trial",
    ],
)
def test_what_runs_beside_a_robot_loads_no_torch(module):
    assert "torch" not in loaded_by(f"import {module}")


def test_the_checker_sees_relative_and_nested_imports(tmp_path, monkeypatch):
    package = tmp_path / "gaitway_sim2real" / "bundle"
    package.mkdir(parents=True)
    (package / "bad.py").write_text("def f():\n    import torch.nn\nfrom ..export import x\nfrom . import good\n")
    monkeypatch.setitem(OURS, "gaitway_sim2real", tmp_path / "gaitway_sim2real")
    assert imports_of(package / "bad.py") == [
        (3, "gaitway_sim2real.export"),
        (4, "gaitway_sim2real.bundle"),
        (2, "torch.nn"),
    ]


def imported_within(package: str) -> dict[str, set[str]]:
    """Every module of a package and those of it that it imports, also inside functions and for types."""
    modules = {}
    for path in files(OURS[package]):
        parts = path.relative_to(OURS[package]).with_suffix("").parts
        modules[".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(path, node)
                names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        # A package is loaded before what lies in it: that its own modules need it is no circle.
        graph[module] = {name for name in names & modules.keys() if not f"{module}.".startswith(f"{name}.")}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules of which each leads to every other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, ahead = set(), [*graph[start]]
        while ahead:
            if (module := ahead.pop()) not in seen:
                seen.add(module)
                ahead += graph[module]
        reached[start] = seen
    found = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}
    return sorted(sorted(group) for group in found)


@pytest.mark.parametrize("package", sorted(OURS))
def test_no_modules_import_each_other_in_a_circle(package):
    assert circles(imported_within(package)) == []


def between_folders(package: str) -> dict[str, set[str]]:
    """The folders of a package, and those that their modules import from."""
    graph: dict[str, set[str]] = {}
    for module, imported in imported_within(package).items():
        here = _folder(package, module)
        graph.setdefault(here, set()).update(_folder(package, name) for name in imported)
    graph.pop("", None)  # modules that lie in none
    return {folder: others - {folder, ""} for folder, others in graph.items()}


def _folder(package: str, module: str) -> str:
    name = f"{module}.".split(".")[1]
    return name if (OURS[package] / name).is_dir() and name else ""


@pytest.mark.parametrize("package", sorted(OURS))
def test_no_folders_import_from_each_other_in_a_circle(package):
    assert circles(between_folders(package)) == []


def test_circles_are_seen():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == [["b", "c"], ["e"]]


def test_the_face_knows_isaac_lab_through_its_row_only():
    """Besides: whether it is installed, and its own scripts, which find Gaitway's tasks."""
    rooms = ("gaitway/backends/", "gaitway/catalogue.py:", "gaitway/gymnasium_plugin.py:")
    found = offences(OURS["gaitway"], lambda module: top(module) in {"gaitway_isaaclab", "isaaclab"})
    assert [line for line in found if not line.startswith(rooms)] == []


@pytest.mark.parametrize("package", sorted(OURS))
def test_what_is_wrong_is_told_by_an_error_of_ours(package):
    """A ValueError or RuntimeError as such would be taken for a bug. A script that imports nothing of ours may."""
    made = re.compile(r"raise ValueError\b|^ *class \w+\((ValueError|RuntimeError)\)", re.MULTILINE)
    known = {OURS["gaitway_files"] / "errors.py", OURS["gaitway_tasks"] / "language" / "confine.py"}
    assert [path for path in {*files(OURS[package])} - known if made.search(path.read_text("utf-8"))] == []


SHARED = {"bundle", "mujoco", "pages", "hardware"}
"""Parts that every part of the lab may use: bundles, the physics, pages, and robots as the onboard half knows them."""
CONTRACTS = {
    "rehearse": {
        "digital_twin.twin",
        "digital_twin.quirks",
        "digital_twin.faults",
        "digital_twin.side",
        "digital_twin.command",
    },
    "trial": {"population", "population.survey", "population.twin", "population.walk"},
    "diagnose": {
        "trial.scenario",
        "trial.suites",
        "digital_twin.twin",
        "digital_twin.quirks",
        "digital_twin.faults",
        "digital_twin.sensors",
        "digital_twin.drives",
        "identify.drive_log",
        "replay.motion",
        "replay.policy_check",
    },
    "identify": {"logs.reading"},
    "falsify": {"population.population", "population.twin", "population.walk", "trial.suites"},
}
"""Modules of its siblings that a part of the lab may use besides."""


def test_parts_of_the_lab_use_each_other_through_named_contracts():
    found = []
    for path in files(OURS["gaitway_sim2real"]):
        part, *rest = path.relative_to(OURS["gaitway_sim2real"]).parts
        for line, module in imports_of(path) if rest else ():
            package, _, inner = module.partition(".")
            allowed = SHARED | {part} | CONTRACTS.get(part, set())
            if package == "gaitway_sim2real" and inner not in allowed and top(inner) not in allowed:
                found.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert found == []


def test_a_validation_names_no_family():
    """But for the rows of its suites: commands, metrics and scenarios are a family's."""
    words = r"gaitway_velocity|base_velocity|TWIST|lin_vel_[xy]|ang_vel_z|yaw_vel|corner_falls|check_velocity"
    trial = OURS["gaitway_sim2real"] / "trial"
    assert [path.name for path in files(trial) if re.search(words, path.read_text("utf-8"))] == ["suites.py"]


def modules_after(statement: str) -> set[str]:
    """Modules in ``sys.modules`` after ``statement`` ran in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded ")[2].split())


def of_language(modules: set[str]) -> set[str]:
    return {name for name in modules if top(name).startswith("gaitway") and ("language" in name or ".texts" in name)}


LIST = "from gaitway.cli import main; assert main(['list', '{}']) == 0"
TRAIN = "from gaitway.train_config import resolve; resolve('{}')"


@pytest.mark.parametrize(
    "statement", [LIST.format(kind) for kind in ("robots", "worlds", "agents")] + ["import gaitway.train_config"]
)
def test_listing_loads_no_learner(statement):
    loaded = modules_after(statement)
    assert of_language(loaded) == set() and "torch" not in loaded


def test_tasks_without_texts_load_no_language_module():
    tasks = ("velocity-flat-anymal-c-blind", "cartpole", "pong")
    assert of_language(modules_after("\n".join(TRAIN.format(task) for task in tasks))) == set()


def test_a_look_for_free_memory_loads_no_language_model():
    """Every training takes one; the library of models costs it a second and a half."""
    assert "transformers" not in modules_after("from gaitway.training.memory import _free; assert _free()")
