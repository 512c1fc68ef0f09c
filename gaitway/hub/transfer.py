"""Pull and push: a bundle arrives whole and checked, or not at all, and leaves only if it would arrive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.writing import whole_folder, write_file, write_text
from gaitway_onboard.bundle.contract import sha256
from gaitway_onboard.bundle.published import INDEX_BYTES as INDEX_MOST
from gaitway_onboard.bundle.published import (
    Checked,
    Index,
    check_listing,
    check_names,
    check_published,
    index_of,
    parse_index,
    write_index,
)
from gaitway_onboard.bundle.reading import one_reading
from gaitway_onboard.bundle.signature import CARD_FILE, INDEX_FILE

from ..runs.files import disk_error
from .card import card
from .folder import check_replaceable
from .place import Place, PlaceError

Told = Callable[[str, int, int], None]
"""Called with the file, the bytes so far of the whole bundle, and all of them."""


def pull(place: Place, out: Path, trusted: tuple[Any, ...] = (), told: Told = lambda *_: None) -> Checked:
    """Fetch a bundle into the folder ``out``, which appears only after every check of it."""
    check_replaceable(out)
    listed = place.names()
    if listed is not None:
        check_names((name for name in listed if name != INDEX_FILE), place)
    index = parse_index(place.fetch(INDEX_FILE, INDEX_MOST), place)
    if listed is not None and (strange := sorted({*listed} - {*index, INDEX_FILE})):
        raise PlaceError(f"{place}: {strange[0]!r} is not in its {INDEX_FILE}: publish the bundle again, gaitway push")
    try:
        with whole_folder(out) as new, _named(new, place):
            _fetch(place, index, new, told)
            write_index(new, index)
            checked = check_published(new, index, trusted)
            check_replaceable(out)
            new.chmod(0o755)
            return checked
    except OSError as error:
        raise disk_error(out, error) from None


def _fetch(place: Place, index: Index, folder: Path, told: Told) -> None:
    total, done = sum(listed.bytes for listed in index.values()), 0

    def heard(count: int) -> None:
        nonlocal done
        done += count
        told(name, done, total)

    for name, listed in index.items():
        content = place.fetch(name, listed.bytes, heard)
        if len(content) != listed.bytes or sha256(content) != listed.sha256:
            raise PlaceError(
                f"{place}: {name} is not the file that its {INDEX_FILE} names: do not use it, pull again later"
            )
        write_file(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]


def push(bundle: Path, place: Place, *, without_verdict: bool = False) -> tuple[str, Checked]:
    """Publish a bundle that would arrive; returns where it is now, and what it says of itself."""
    with one_reading(bundle) as copy:
        for written in (CARD_FILE, INDEX_FILE):
            (copy / written).unlink(missing_ok=True)
        check_listing(copy, bundle)
        checked = check_published(copy, index_of(copy))
        if checked.verdict is None and not without_verdict:
            raise UserError(
                f"{bundle} has no verdict: 'gaitway validate {bundle}' first, or publish it as it is, --without-verdict"
            )
        write_text(copy / CARD_FILE, card(copy, checked, str(place)))
        write_index(copy, index_of(copy))
        verdict = "without a verdict" if checked.verdict is None else f"verdict {checked.verdict['verdict']}"
        return place.put(copy, f"{checked.contract.task}, {verdict}"), checked


@contextlib.contextmanager
def _named(folder: Path, place: Place) -> Iterator[None]:
    """Errors name the place, not the private folder that its files are checked in."""
    try:
        yield
    except UserError as error:
        error.args = tuple(
            part.replace(str(folder), str(place)) if isinstance(part, str) else part for part in error.args
        )
        raise
