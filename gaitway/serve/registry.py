"""Sessions of clients, and the models and samplers that belong to them; what is silent makes room for others."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gaitway_files.errors import UserError

from .base import Adapters
from .checkpoints import Checkpoints, Place
from .learner import Learner
from .work import Ended, Unknown, Work

SILENT = 120.0
"""Silence of a session [s] after which its models make room for others; a client says something every 10 s."""
MOST_SESSIONS, MOST_SAMPLERS = 1000, 4096


@dataclass
class Session:
    """A ``ServiceClient``."""

    name: str
    heard: float
    """When it was heard of, on the monotonic clock."""
    metadata: Any = None
    display_name: Any = None
    finished: bool = False


@dataclass
class Client:
    """The model of a ``TrainingClient``."""

    name: str
    session: str
    learner: Learner | None = None
    """None until it is made."""

    @property
    def made(self) -> Learner:
        if self.learner is None:
            raise UserError(f"model {self.name} was not made: see the error of its creation")
        return self.learner

    @property
    def adapters(self) -> Adapters:
        return self.made.adapters


@dataclass
class SamplerEntry:
    """A ``SamplingClient``."""

    name: str
    session: str
    place: Place | None
    """Its checkpoint; None: the base model."""
    inflight: str | None = None
    """Model whose every later save it follows."""
    clones: int = 0


Entry = TypeVar("Entry", Client, SamplerEntry)


class Registry:
    """Methods may be called from any thread. Raises :class:`Unknown` for a name that is not there."""

    def __init__(self, work: Work, store: Checkpoints, most_models: int):
        self.work, self.store, self.most_models = work, store, most_models
        self._lock = threading.RLock()
        self._sessions: dict[str, Session] = {}
        self._clients: dict[str, Client] = {}
        self._samplers: dict[str, SamplerEntry] = {}

    def new_session(self, metadata: Any, display_name: Any) -> Session:
        with self._lock:
            if len(self._sessions) >= MOST_SESSIONS:
                gone = min(self._sessions.values(), key=lambda session: session.heard)
                self._empty(gone.name)
                del self._sessions[gone.name]
            session = Session(uuid.uuid4().hex, time.monotonic(), metadata, display_name)
            self._sessions[session.name] = session
            return session

    def session(self, name: str) -> Session:
        """The session, which was heard of now."""
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                raise Unknown(f"session {name} is not known: the server was started anew; make a new ServiceClient")
            if session.finished:
                raise Ended(f"session {name} has ended; make a new ServiceClient")
            session.heard = time.monotonic()
            return session

    def finish(self, name: str) -> None:
        with self._lock:
            self.session(name).finished = True
            self._empty(name)

    def belongings(self, session: str) -> tuple[list[str], list[str]]:
        """Names of a session's models and samplers."""
        with self._lock:
            models = [client.name for client in self._clients.values() if client.session == session]
            return models, [entry.name for entry in self._samplers.values() if entry.session == session]

    def new_client(self, session: str, number: int) -> Client:
        """The model ``number`` of a session, new unless it was asked for before. UserError if there is no room."""
        name = f"{self.session(session).name}:train:{number}"
        with self._lock:
            if name in self._clients:
                return self._clients[name]
            while len(self._clients) >= self.most_models:
                before = time.monotonic() - SILENT
                silent = [client for client in self._clients.values() if self._heard(client) < before]
                if not silent:
                    raise UserError(
                        f"this server trains {self.most_models} models at a time, and all are in use: close a "
                        "ServiceClient, or start the server with a larger --max-models"
                    )
                self._give_up(min(silent, key=self._heard))
            self._clients[name] = Client(name, session)
            self.work.open_line(name, 0)
            return self._clients[name]

    def client(self, name: str) -> Client:
        remedy = "go on with create_training_client_from_state_with_optimizer(path)"
        return self._known(self._clients, "model", name, remedy)

    def add_sampler(self, entry: SamplerEntry) -> None:
        """Add a sampler; others that follow the same model get its weights."""
        with self._lock:
            for other in self._samplers.values():
                if entry.inflight is not None and other.inflight == entry.inflight:
                    other.place = entry.place
            self._samplers[entry.name] = entry
            while len(self._samplers) > MOST_SAMPLERS:
                del self._samplers[next(iter(self._samplers))]

    def sampler(self, name: str) -> SamplerEntry:
        remedy = "make another with create_sampling_client(model_path=...)"
        return self._known(self._samplers, "sampler", name, remedy)

    def clone(self, name: str) -> int:
        """The number of a further client of a sampler."""
        with self._lock:
            entry = self.sampler(name)
            entry.clones += 1
            return entry.clones

    def _known(self, entries: Mapping[str, Entry], kind: str, name: str, remedy: str) -> Entry:
        """The entry ``name``, whose session was heard of now."""
        with self._lock:
            entry = entries.get(name)
        if entry is None:
            raise Unknown(
                f"{kind} {name} is not known: its session ended or was silent for long, or the server was started "
                f"anew; {remedy}"
            )
        self.session(entry.session)
        return entry

    def _heard(self, client: Client) -> float:
        return self._sessions[client.session].heard

    def _empty(self, session: str) -> None:
        for client in [client for client in self._clients.values() if client.session == session]:
            self._give_up(client)
        self._samplers = {name: entry for name, entry in self._samplers.items() if entry.session != session}
        self.work.drop_owner(session)

    def _give_up(self, client: Client) -> None:
        del self._clients[client.name]
        self.work.close_line(client.name)
        self.store.drop_ephemeral(client.name, 0)
