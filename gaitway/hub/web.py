"""``https:``: a plain file server. It is asked for one file after the other, and trusted with nothing."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from gaitway_files.reading import KIB, MIB, NAME, VALUE, printable, size

from .place import LOOPBACK, Heard, PlaceError, Unreachable, numbered, own_name

SILENCE = 20.0
"""Longest silence of a server [s]."""
PATIENCE, SLOWEST = 30.0, 100 * KIB
"""A file may take so long [s], and longer by its most bytes over the slowest rate [bytes/s]."""


class WebPlace:
    def __init__(self, address: str, *, silence: float = SILENCE, patience: float = PATIENCE, slowest: float = SLOWEST):
        self.address, self.silence, self.patience, self.slowest = address, silence, patience, slowest
        parts = urlsplit(address)
        self.group = numbered(parts.netloc, address.rpartition("/")[0])
        self.name = own_name(parts.path.rpartition("/")[2])
        self._watch = _Watch()
        handlers: list[Any] = [_SamePlace(address), *_watched(self._watch)]
        if parts.hostname in LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def __str__(self) -> str:
        return self.address

    def names(self) -> list[str] | None:
        return None

    def fetch(self, name: str, most: int, heard: Heard = lambda count: None) -> bytes:
        address, seconds = f"{self.address}/{name}", self.patience + most / self.slowest
        request = urllib.request.Request(address, headers={"Accept-Encoding": "identity"})
        parts, count = [], 0
        try:
            with self._watch.within(seconds), self._opener.open(request, timeout=self.silence) as answer:
                while part := answer.read1(min(MIB, most + 1 - count)):
                    parts.append(part)
                    count += len(part)
                    if count > most:
                        raise PlaceError(
                            f"{address} has more than {size(most)}, the most of it: do not use this server"
                        )
                    heard(len(part))
                if answer.length and not self._watch.expired:  # what is left of the length that the server told
                    raise Unreachable(f"{address} ended after {size(count)}, {size(answer.length)} early: try again")
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(address, error.code) from None
        except (OSError, http.client.HTTPException) as error:
            if self._watch.expired:
                raise Unreachable(f"{address} took more than {seconds:.3g} s: try again later") from None
            why = getattr(error, "reason", None) or error
            raise Unreachable(
                f"{address} does not answer: {printable(why, VALUE) or type(why).__name__}: try again later"
            ) from None
        if self._watch.expired:
            raise Unreachable(f"{address} took more than {seconds:.3g} s: try again later")
        return b"".join(parts)

    def put(self, folder: Path, note: str) -> str:
        raise PlaceError(f"a file server takes no bundles: push to file:path, and let {self.address} serve that folder")


def _refusal(address: str, code: int) -> Exception:
    if code in (404, 410):
        return PlaceError(f"no {address}: is it the folder that 'gaitway push' wrote?")
    if 300 <= code < 400:
        return PlaceError(f"{address} leads to another server, or in a circle: name the place itself")
    return Unreachable(f"{address} is refused with status {code}")


class _SamePlace(urllib.request.HTTPRedirectHandler):
    """Redirects stay with the scheme, host and port that the user named."""

    max_redirections = 5

    def __init__(self, address: str):
        self.origin = urlsplit(address)[:2]

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        target = urljoin(req.full_url, newurl)
        if urlsplit(target)[:2] != self.origin:
            fp.close()
            raise PlaceError(
                f"{req.full_url} leads to another server, {printable(target, NAME)}: name that one if you trust it"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Watch:
    """Ends a connection that takes too long, whether a server drips its headers or its file."""

    def __init__(self) -> None:
        self.expired = False
        self.socket: socket.socket | None = None

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        self.expired, self.socket = False, None
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def connected(self, found: socket.socket) -> None:
        self.socket = found
        if self.expired:
            self._end()

    def _end(self) -> None:
        self.expired = True
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


def _watched(watch: _Watch) -> tuple[Any, Any]:
    """Handlers of http and https whose connections ``watch`` can end."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            watch.connected(self.sock)

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            watch.connected(self.sock)

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: Any) -> Any:
            return self.do_open(Plain, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: Any) -> Any:
            return self.do_open(Secure, req)

    return PlainHandler(), SecureHandler()
