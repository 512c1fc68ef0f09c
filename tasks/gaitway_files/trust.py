"""Code that files name: only that of modules which the user of this process named is imported.

A configuration says ``module:function``. Gaitway's own terms are always there; any other module runs with the rights
of the user, who may have the file from a stranger. So a module must be named by the user: on the command line, in a
setting or with ``--trust``, or by :func:`trust`. None is ever taken from a folder that a run or bundle brought.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import UserError

OWN_TERMS = ("gaitway_tasks.mdp", "gaitway_tracking.mdp", "gaitway_tasks.language", "gaitway.domains.texts.rewards")
"""Modules of ours whose functions a configuration may name."""
ARGUMENTS = ({"world"}, {"prompts", "completions"})
"""Arguments of terms of robots and of rewards of texts."""
BROUGHT = ("run.json", "contract.yaml")
"""Files of run folders and bundles, whose modules are never imported."""

_trusted: set[str] = set()
_named_folders: set[Path] = set()
"""Packages that the user named by their folder, and that Python would not find again without that."""
_added: set[str] = set()
"""Folders that a module was looked for in, and that no program is installed in."""


class TrustError(UserError):
    """Code that a file names and that is not run, with the fix."""


def trust(*modules: str) -> None:
    """Let files name functions of ``modules`` and of those below them; ``module:function`` means its module."""
    _trusted.update(name.partition(":")[0] for name in modules)


def trusted() -> list[str]:
    """Modules that the user named so far."""
    return sorted(_trusted)


@functools.cache
def is_own(module: str) -> bool:
    """True if ``module`` is one of ours that has terms."""
    return any(module == name or module.startswith(f"{name}.") for name in OWN_TERMS)


def require_trust(module: str, where: str) -> None:
    """Raise :class:`TrustError` unless the user named ``module``; ``where`` is what names it now, for the message."""
    top = module.partition(".")[0]
    if not all(part.isidentifier() for part in module.split(".")):
        raise TrustError(f"{where}: {module[:60]!r} is not the name of a module")
    if top in sys.stdlib_module_names or top == "gaitway" or top.startswith("gaitway_"):
        raise TrustError(
            f"{where}: {module} is Python's or Gaitway's own and has nothing that a configuration may name; terms are "
            f"in {', '.join(OWN_TERMS)}"
        )
    if not any(module == name or module.startswith(f"{name}.") for name in _trusted):
        raise TrustError(
            f"{where} names code of the module {module!r}{_place(top)}, which would run with your rights: if you know "
            f"it and want that, add --trust {top}"
        )


def import_trusted(module: str, where: str) -> ModuleType:
    """The module, imported after :func:`require_trust`; it may lie in the folder that the user is in.

    Raises :class:`TrustError`, and :class:`ImportError` as an import does.
    """
    require_trust(module, where)
    top = module.partition(".")[0]
    here = os.getcwd()
    if here not in sys.path and _brought(Path(here)) is None:
        _load_plug_ins()
        sys.path.append(here)  # last, so that nothing there stands before an installed module
        _added.add(here)
    for place in _places(top):
        if (folder := _brought(place)) is not None:
            raise TrustError(f"{where}: the module {top!r} lies in {folder}, a run or bundle; move it out to use it")
    if module not in sys.modules and _places(top) and not _is_worker():
        print(f"importing {module}{_place(top)}", file=sys.stderr)
    try:
        return importlib.import_module(module)
    except ImportError:
        raise
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        at = f" in {frame.filename}, line {frame.lineno}" * (not isinstance(error, SyntaxError))  # which says it itself
        raise ImportError(f"{type(error).__name__}: {error}{at}", name=module) from error


def _is_worker() -> bool:
    """True in a process that works for another, which has said what is imported."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def installed_entry_points(group: str) -> list[EntryPoint]:
    """The entry points of installed packages: a folder that one module was trusted from has none, whatever it says."""
    found: dict[str, Distribution] = {}
    for each in distributions(path=[place for place in sys.path if place not in _added]):
        found.setdefault(str(each.metadata["Name"]), each)  # as Python does: the first of a name counts
    return [point for each in found.values() for point in each.entry_points if point.group == group]


def _load_plug_ins() -> None:
    """Let libraries load their plug-ins while the current folder is not among the places where they look for them."""
    with contextlib.suppress(ImportError):
        importlib.import_module("gymnasium")


def function_named(name: str, where: str) -> Callable[..., Any]:
    """The function, or the class of text environments or of terms with memory, of ``module:function``.

    Raises :class:`TrustError`, :class:`ImportError` or :class:`LookupError`.
    """
    module_name, _, function = name.partition(":")
    own = is_own(module_name)
    module = importlib.import_module(module_name) if own else import_trusted(module_name, where)
    found = getattr(module, function, None)
    if found is None:
        raise LookupError(f"no function {function!r} there")
    plays = inspect.isclass(found) and hasattr(found, "reset") and hasattr(found, "step") and not own
    remembers = inspect.isclass(found) and "world" in inspect.signature(found.__call__).parameters
    if (
        not plays
        and not remembers
        and (not inspect.isfunction(inspect.unwrap(found)) or (own and not _is_term(found, module)))
    ):
        raise TrustError(f"{where}: {name} is no term: a term is a Python function of (world, ...), or for texts of "
                         "(prompts, completions, ...)")  # fmt: skip
    return found


def object_named(name: str) -> Any:
    """Task or robot of another package that the user named as ``module:object``.

    Raises :class:`TrustError` unless the user named the module, and ValueError if there is no such object.
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = import_trusted(module_name, name)
    except ImportError as error:
        raise UserError(f"{name}: cannot import {module_name!r}: {error}") from None
    if not hasattr(module, attribute):
        known = [key for key in vars(module) if not key.startswith("_")]
        near = difflib.get_close_matches(attribute, known, 1)
        raise UserError(
            f"{name}: {module_name} has no {attribute!r}" + (f": did you mean {near[0]!r}?" if near else "")
        )
    return getattr(module, attribute)


def trust_folder(folder: Path) -> str:
    """Trust and import the package in ``folder``, which the user named; returns its name.

    Raises :class:`UserError` if it is no package, or if Python has another one of its name.
    """
    folder = Path(os.path.abspath(folder))
    name = folder.name
    if not name.isidentifier():
        raise UserError(f"{folder}: a package's folder is named in letters, digits and _: rename it")
    trust(name)
    with _here_too():
        places = _places(name)
    if places and folder.resolve() not in places and (folder / "__init__.py").resolve() not in places:
        raise UserError(f"{folder}: Python has another package {name!r}, in {places[0]}: rename the folder")
    if not places:
        _named_folders.add(folder.resolve())
    sys.path.insert(0, str(folder.parent))
    try:
        import_trusted(name, str(folder))
    except ImportError as error:
        raise UserError(f"{folder}: cannot import it: {error}") from None
    finally:
        sys.path.remove(str(folder.parent))
    return name


PACKAGE = "package:"


def packaged(path: Path) -> str | None:
    """``package:name/file`` for a file in a package that Python finds; None for others. Nothing is imported."""
    top = None
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            break
        top = folder
    if top is None or top.resolve() in _named_folders:
        return None
    with _here_too():
        return f"{PACKAGE}{path.relative_to(top.parent).as_posix()}" if top.resolve() in _places(top.name) else None


def packaged_file(name: str) -> Path:
    """The file that :func:`packaged` named so. Raises :class:`LookupError`. Nothing is imported."""
    top, _, file = name.removeprefix(PACKAGE).partition("/")
    with _here_too():
        folders = [place for place in _places(top) if place.is_dir()] if top.isidentifier() else []
    if not folders:
        raise LookupError(f"Python finds no package {top!r}: install it, or run in the folder that has it")
    path = folders[0] / file
    if not path.resolve().is_relative_to(folders[0]) or not path.is_file():
        raise LookupError(f"the package {top!r} in {folders[0]} has no file {file!r}")
    return path


def _is_term(found: Any, module: ModuleType) -> bool:
    """True if a function of ours is one that tasks call, and not one of its helpers."""
    known = found.__module__ == module.__name__ and not found.__name__.startswith("_")
    return known and any(arguments <= set(inspect.signature(found).parameters) for arguments in ARGUMENTS)


def _place(top: str) -> str:
    """Origin of the module, for messages."""
    with _here_too():
        places = _places(top)
    return f" ({places[0]})" if places else " (not installed here)"


@contextlib.contextmanager
def _here_too() -> Iterator[None]:
    here = os.getcwd()
    if here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _places(top: str) -> list[Path]:
    """Files and folders of a module or package, which is not imported for it."""
    try:
        spec = importlib.util.find_spec(top)
    except (ValueError, ImportError):
        return []
    if spec is None:
        return []
    named = [spec.origin] if spec.has_location and spec.origin else []
    return [Path(place).resolve() for place in (*named, *(spec.submodule_search_locations or ()))]


def _brought(place: Path) -> Path | None:
    """The run or bundle that ``place`` lies in."""
    return next(
        (folder for folder in (place, *place.parents) if any((folder / name).is_file() for name in BROUGHT)), None
    )
