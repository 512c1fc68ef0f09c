"""Meaning of a forward's text as a term: its steps are put into one expression, and nothing of it is run.

TorchScript has Python's syntax, and torch writes one computation in several ways, traced or scripted. As terms they
are equal: ``_0 = self.actor; return (_0).forward(x, )`` and ``return (self.actor).forward(x, )`` are both
``Child("actor", "forward", (Input(),))``. Only straight code is read: no loops, no conditions on tensors, and no change
in place but that of a memory.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gaitway_files.reading import FileError

from .torchscript import Module

CODE_LENGTH = 32 * 1024
"""Most characters of a class or function; 500 are usual, and an LSTM has 9,000."""
CALLS, NESTED_CALLS = 50, 3
"""Most calls of the archive's functions by one forward, and by each other; activations make one."""
DEPTH = 60
"""Most levels of a term."""

ADVICE = "export the policy as ONNX (torch.onnx.export) where it was trained, and import that file"


class UnknownNetwork(FileError):
    """A module whose computation is none of those that are read."""

    def __init__(self, module: Module, reason: str):
        super().__init__(module.where, f"{module.kind[:60]} is no network that is known: {reason}; {ADVICE}")


@dataclass(frozen=True)
class Input:
    """The argument of the forward."""


@dataclass(frozen=True)
class Attribute:
    """A tensor of the module, or its list of tensors."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function of torch, such as ``torch.linear``."""

    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Child:
    """A method of a child module."""

    name: str
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Item:
    """An element of what a function or method returns."""

    of: Any
    index: int


Term = Any
"""One of the five above, a plain value, or a tuple of terms, which stands for a list as well."""


@dataclass(frozen=True)
class Meaning:
    result: Term
    writes: dict[str, Term]
    """Tensors of the module that the forward writes, by their names: the memory of a recurrent policy."""


@dataclass(frozen=True)
class _Itself:
    """The module, one of its children, or the name of a function."""

    kind: str
    name: str = ""


def meaning_of(module: Module) -> Meaning:
    """Meaning of ``module.forward``. Raises :class:`UnknownNetwork`."""
    return _Reading(module).forward()


class _Reading:
    def __init__(self, module: Module):
        self.module = module
        self.writes: dict[str, Term] = {}
        self.calls = self.nested = 0
        self.step: ast.AST = ast.Pass()

    def forward(self) -> Meaning:
        body = self._parsed(self.module.code).body
        definition = body[0] if len(body) == 1 else None
        found = [
            step for step in definition.body if isinstance(step, ast.FunctionDef) and step.name == "forward"
        ] if isinstance(definition, ast.ClassDef) else []  # fmt: skip
        if len(found) != 1:
            raise self._refused("it has no forward")
        return Meaning(self._result(found[0], [_Itself("self"), Input()]), self.writes)

    def _parsed(self, text: str) -> ast.Module:
        if len(text) > CODE_LENGTH:
            raise self._refused(f"its code has {len(text)} characters; at most {CODE_LENGTH} are read")
        try:
            return _parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._refused("its code is not written as torch writes code") from None

    def _refused(self, reason: str) -> UnknownNetwork:
        return UnknownNetwork(self.module, reason)

    def _unknown(self) -> UnknownNetwork:
        try:
            shown = " ".join(ast.unparse(self.step).split())
        except RecursionError:
            shown = type(self.step).__name__
        return self._refused(f"its code has a step that is not read, {shown[:120]}")

    def _result(self, function: ast.FunctionDef, arguments: Sequence[Term]) -> Term:
        if len(function.args.args) != len(arguments) or function.args.kwonlyargs or function.args.vararg:
            raise self._refused(f"{function.name[:60]} takes {len(function.args.args)} arguments")
        names = {argument.arg: value for argument, value in zip(function.args.args, arguments, strict=True)}
        if not (returned := self._run(function.body, names)):
            raise self._refused(f"{function.name[:60]} returns nothing")
        return returned[0]

    def _run(self, steps: Sequence[ast.stmt], names: dict[str, Term]) -> tuple[Term, ...]:
        """Return value of the steps: a term, or nothing."""
        for step in steps:
            self.step = step
            match step:
                case ast.Return(value=ast.expr() as value):
                    return (self._read(value, names),)
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, self._read(value, names), names)
                case ast.If(test=test, body=body, orelse=otherwise):
                    self.step = test
                    if not isinstance(chosen := self._read(test, names), bool):
                        raise self._unknown()
                    if returned := self._run(body if chosen else otherwise, names):
                        return returned
                case ast.Pass():
                    pass
                case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
                    pass
                case _:
                    raise self._unknown()
        return ()

    def _assign(self, target: ast.expr, value: Term, names: dict[str, Term]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple):
            if isinstance(value, tuple) and len(value) != len(target.elts):
                raise self._unknown()
            for index, part in enumerate(target.elts):
                self._assign(part, value[index] if isinstance(value, tuple) else Item(value, index), names)
        else:  # an attribute of the module
            raise self._unknown()

    def _read(self, node: ast.expr, names: dict[str, Term], depth: int = 0) -> Term:
        def read(part: ast.expr) -> Term:
            return self._read(part, names, depth + 1)

        if depth > DEPTH:
            raise self._refused("its code is nested too deeply")
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(read(part) for part in parts)
            case ast.Subscript(value=of, slice=ast.Constant(value=int() as index)):
                whole = read(of)
                if isinstance(whole, tuple) and index >= len(whole):
                    raise self._unknown()
                return whole[index] if isinstance(whole, tuple) else Item(whole, index)
            case ast.Attribute() if function := self._function_name(node):
                return _Itself("function", function)
            case ast.Attribute(value=of, attr=name) if read(of) == _Itself("self"):
                return self._attribute(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=str() as name)], keywords=[]) if (
                read(of) == _Itself("self")
            ):
                return self._attribute(name)
            case ast.Call(func=called, keywords=[]) if function := self._function_name(called):
                return self._call(_Itself("function", function), node, read)
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in names:
                return self._call(names[name], node, read)
            case ast.Call(func=ast.Attribute(value=of, attr=method), keywords=[]):
                return self._method(read(of), method, node, read)
        raise self._unknown()

    def _function_name(self, node: ast.expr) -> str | None:
        """The full name of a function of torch or of the archive."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in ("torch", "__torch__"):
            return ".".join([node.id, *reversed(parts)])
        return None

    def _attribute(self, name: str) -> Term:
        if name in self.module.children:
            return _Itself("child", name)
        value = self.module.attributes.get(name, NotImplemented)
        if value is NotImplemented:
            raise self._refused(f"its code reads {name[:60]}, which it does not have")
        return value if value is None or isinstance(value, bool | int | float | str) else Attribute(name)

    def _method(self, owner: Term, method: str, node: ast.Call, read: Callable[[ast.expr], Term]) -> Term:
        if not isinstance(owner, _Itself) or owner.kind != "child":
            raise self._unknown()
        given = tuple(read(part) for part in node.args)
        self._check_unwritten(given)
        return Child(owner.name, method, given)

    def _call(self, function: Term, node: ast.Call, read: Callable[[ast.expr], Term]) -> Term:
        if not isinstance(function, _Itself) or function.kind != "function":
            raise self._unknown()
        name, given = function.name, tuple(read(part) for part in node.args)
        if name == "torch.copy_":
            return self._write(given)
        self._check_unwritten(given)
        if name.startswith("torch."):
            if name.endswith("_") and not name.endswith("__"):
                raise self._refused(f"it changes tensors in place by {name[:60]}")
            return simplified(name, given)
        self.calls += 1
        if self.calls > CALLS or self.nested == NESTED_CALLS or name not in self.module.functions:
            raise self._refused(f"it calls {name[:90]}")
        body = self._parsed(self.module.functions[name]).body
        if not isinstance(body[0], ast.FunctionDef) or any(isinstance(value, _Itself) for value in given):
            raise self._unknown()
        self.nested += 1
        result = self._result(body[0], given)
        self.nested -= 1
        return result

    def _write(self, given: tuple[Term, ...]) -> Term:
        match given:
            case (Attribute(name), value) if name not in self.writes:
                self._check_unwritten((value,))
                self.writes[name] = value
                return None
        raise self._refused("it changes tensors in place by torch.copy_")

    def _check_unwritten(self, given: Sequence[Term]) -> None:
        """A tensor that was written to has another value from then on, and no term for it."""
        ahead, seen = list(given) if self.writes else [], set()
        while ahead:
            value = ahead.pop()
            if isinstance(value, tuple) and id(value) not in seen:
                seen.add(id(value))
                ahead += value
            elif isinstance(value, Attribute) and value.name in self.writes:
                raise self._refused(f"it reads {value.name[:60]} after it changed it")


@lru_cache(maxsize=64)
def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def simplified(function: str, given: tuple[Term, ...]) -> Term:
    """A call of torch, or what it amounts to."""
    match function, given:
        case "torch.detach", (x,):
            return x
        case "torch.slice", (x, dim, begin, end, 1):  # an older torch also writes the step
            return simplified(function, (x, dim, begin, end))
        case "torch.slice", (x,) | (x, int()):  # all of a dimension
            return x
        case "torch.slice", (x, int(), 0 | None, int(end)) if end >= 2**63 - 1:
            return x
        case "torch.slice", (Call("torch.view", (_, tuple(sizes))) as x, int(dim), 0 | None, int(end)) if (
            0 <= dim < len(sizes) and sizes[dim] == end
        ):
            return x
        case "torch.size", (Call("torch.view", (_, tuple(sizes))),) if all(
            type(length) is int and length > 0 for length in sizes
        ):
            return sizes
        case "torch.__is__", (x, None):
            return x is None
        case "torch.__isnot__", (x, None):
            return x is not None
        case "torch.__not__", (bool(x),):
            return not x
    return Call(function, given)
