"""Records of datasets on the Hugging Face hub, or in the cache that an earlier download left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .files import Record
from .rows import RowError


def load_records(dataset: str, split: str, subset: str | None = None) -> Iterator[tuple[int, Record]]:
    """Number, from 1, and record of each row of a split of ``owner/name``; ``RowError`` if it cannot be had."""
    try:
        import datasets
    except ImportError as error:
        raise RowError(f"dataset {dataset!r} needs datasets: pip install 'gaitway[language]'") from error
    try:
        found: Any = datasets.load_dataset(dataset, subset, split=split)
    except Exception as error:  # datasets raises whatever its back ends do
        raise RowError(
            f"split {split!r} of dataset {dataset!r} cannot be loaded from the hub or its cache "
            f"({type(error).__name__}: {(str(error) or 'no reason given').splitlines()[0]}): connect to a network "
            "once, correct the name, or give local files"
        ) from error
    return ((number, record) for number, record in enumerate(found, start=1))
