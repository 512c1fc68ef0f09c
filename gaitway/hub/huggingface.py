"""``hf:OWNER/NAME``: a model repository of the Hugging Face hub, by its own library."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import read_bytes, size
from gaitway_onboard.bundle.published import PublishedError, check_names
from gaitway_onboard.bundle.signature import INDEX_FILE

from ..catalogue import HUB, require
from .place import Heard, PlaceError, Unreachable

THEIRS = (".gitattributes", ".gitignore")
"""Files that the hub puts into every repository; they are not fetched."""
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9])?"
_REPOSITORY = re.compile(rf"({_PART})/({_PART})(?:@([A-Za-z0-9][\w./-]{{0,99}}))?")


class HuggingFacePlace:
    """Files are those of one commit: the one that the branch or tag named when the place was opened first."""

    def __init__(self, text: str, *, private: bool = False):
        require("hf:", HUB)
        if not (found := _REPOSITORY.fullmatch(text)):
            raise PlaceError(
                f"hf:{text} is no repository: use hf:OWNER/NAME, or hf:OWNER/NAME@REVISION to pull a fixed one"
            )
        self.group, self.name, self.revision = found[1], found[2], found[3]
        if self.revision is not None:
            self.name += f"@{self.revision.replace('/', '+')}"
        self.repository, self.private = f"{found[1]}/{found[2]}", private

    def __str__(self) -> str:
        return f"hf:{self.repository}"

    @cached_property
    def _api(self) -> Any:
        from huggingface_hub import HfApi

        from .. import __version__

        return HfApi(library_name="gaitway", library_version=__version__)

    @cached_property
    def _info(self) -> Any:
        with _told(self):
            return self._api.model_info(self.repository, revision=self.revision, files_metadata=True, timeout=20)

    @property
    def _files(self) -> tuple[str, dict[str, int]]:
        """The commit, and the size of each file in it."""
        return str(self._info.sha), {file.rfilename: int(file.size or 0) for file in self._info.siblings or ()}

    def names(self) -> list[str] | None:
        return sorted(name for name in self._files[1] if name not in THEIRS)

    def fetch(self, name: str, most: int, heard: Heard = lambda count: None) -> bytes:
        commit, sizes = self._files
        if name not in sizes:
            raise PlaceError(f"{self} has no {name}: is it what 'gaitway push' wrote?")
        if sizes[name] > most:
            raise PlaceError(f"{self}: {name} has {size(sizes[name])}; at most {size(most)} are fetched")
        with _told(self), tempfile.TemporaryDirectory(prefix="gaitway-") as private, _quiet():
            path = self._api.hf_hub_download(self.repository, name, revision=commit, local_dir=private)
            content = read_bytes(path, most)
        heard(len(content))
        return content

    def put(self, folder: Path, note: str) -> str:
        if self.revision is not None:
            raise PlaceError(f"{self}@{self.revision}: a bundle is pushed to the newest revision: leave @ out")
        with _told(self), _quiet():
            self._api.create_repo(self.repository, private=self.private or None, exist_ok=True)
            self._check_replaceable()
            commit = self._api.upload_folder(
                repo_id=self.repository, folder_path=folder, commit_message=note, delete_patterns="*"
            )
        return str(commit.repo_url)

    def _check_replaceable(self) -> None:
        """The repository may have been there: with other files, which would be lost, or for everybody to see."""
        try:
            check_names((name for name in self.names() or () if name != INDEX_FILE), self)
        except PublishedError as error:
            raise PlaceError(f"{error}; it would be lost: push to another repository") from None
        if self.private and not self._info.private:
            raise PlaceError(f"{self} is public already: leave --private out, or push to another repository")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Context without the library's own progress bars."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()


@contextlib.contextmanager
def _told(place: HuggingFacePlace) -> Iterator[None]:
    """The library's errors as ours."""
    from huggingface_hub import errors

    try:
        yield
    except UserError:
        raise
    except errors.RevisionNotFoundError:
        raise PlaceError(f"{place} has no revision {place.revision}") from None
    except errors.RepositoryNotFoundError:
        raise PlaceError(
            f"no repository {place}, or not for you: if it is private or yours, 'hf auth login' first"
        ) from None
    except errors.HFValidationError as error:
        raise PlaceError(f"{place}: {error}") from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError):
        raise Unreachable(f"{place} is out of reach: check the network, and that HF_HUB_OFFLINE is not set") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise PlaceError(
                f"{place} refuses you (status {status}): 'hf auth login' with a token that may do this"
            ) from None
        raise Unreachable(f"{place} answers with status {status}: try again later") from None
    except (errors.HTTPError, OSError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise Unreachable(f"{place} is out of reach: {reason}: try again later") from None
