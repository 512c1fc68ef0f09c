"""The error of this package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gaitway_files.errors import UserError


class PolicyImportError(UserError):
    """A policy of others that cannot become a bundle: the cause and the fix."""


@contextmanager
def in_form(path: Path, source: str, keys: Iterable[str]) -> Iterator[None]:
    """Around what reads the values of ``keys`` in the file ``path`` as ``source`` writes them.

    Where one is missing or of another kind: :class:`PolicyImportError`.
    """
    try:
        yield
    except UserError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise PolicyImportError(
            f"{path} is not as {source} writes it ({type(error).__name__}: {error}): it needs {', '.join(keys)}. Mend "
            f"it, or describe the policy in a file of your own, with --describe"
        ) from error
