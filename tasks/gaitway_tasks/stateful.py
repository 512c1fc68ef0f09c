"""Terms with memory: classes in the place of functions, as Isaac Lab's ``ManagerTermBase``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from .world import World

T = TypeVar("T")


class StatefulTerm(ABC):
    """A term that remembers. A task names the class; each world makes one object for each term that does.

    Observations cannot be such terms: they run on robots, and their memory is ``history_length``.
    """

    STATE: ClassVar[tuple[str, ...]] = ()
    """The tensors that a checkpoint keeps."""

    @abstractmethod
    def __init__(self, term: Any, world: World):
        """``term`` is the task's, with its ``params``."""

    @abstractmethod
    def __call__(self, world: World, *args: Any, **params: Any) -> Tensor:
        """Value of the term, as a function of its kind gives it."""

    def reset(self, env_ids: Tensor) -> None:  # noqa: B027, a curriculum's memory outlives episodes
        """Forget the episodes of ``env_ids`` (K,), which have ended."""

    def state_dict(self) -> dict[str, Tensor]:
        return {name: getattr(self, name).clone() for name in self.STATE}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            getattr(self, name).copy_(value)


def bound(terms: Mapping[str, T], world: World) -> dict[str, T]:
    """``terms`` of a task with an object of this ``world`` in the place of each class."""
    return {name: _bound(term, world) for name, term in terms.items()}


def _bound(term: Any, world: World) -> Any:
    return replace(term, func=term.func(term, world)) if isinstance(term.func, type) else term
