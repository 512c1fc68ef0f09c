"""The service over HTTP: who may ask, how much, and which path is which endpoint."""

from __future__ import annotations

import hmac
import json
import os
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from gaitway_files.errors import UserError
from gaitway_files.json_files import parse_json
from gaitway_language.engines.serve import is_loopback

from ..view.guard import names_this
from .messages import read_training_request
from .service import Service
from .work import Busy, Ended, Job, Unknown

KEY = "GAITWAY_SERVE_KEY"
"""Environment variable with the secret that clients send as their API key."""
PREFIX = "tml-"
"""Tinker's client refuses API keys that begin otherwise."""
ANY_KEY = "tml-local"
REQUEST_BYTES = 2**26
SILENCE = 120.0
"""Longest time between two requests of a connection [s]."""
MOST_CONNECTIONS = 512
HELD = 30.0
"""Longest time that a request for a result waits for it [s]; the client asks again after 45 s without an answer."""
PROTOBUF = "application/x-protobuf"
ROOT = "/api/v1"

CLIENT_CONFIG = {
    "pjwt_auth_enabled": False,
    "use_pyqwest_transport": False,
    "proto_compress_fwdbwd": False,
    "sample_max_concurrent_requests": 128,
    "sample_enable_stuck_detection": False,
}
"""Switches of Tinker's client: plain HTTP with the API key as it is."""


def key_for(host: str) -> str:
    """The API key that clients need at ``host``. Raises UserError for a host that others reach without a secret."""
    key = os.environ.get(KEY, "")
    if key and (not key.startswith(PREFIX) or len(key) < 16):
        raise UserError(f"{KEY}: must begin with {PREFIX!r}, as the client demands, and have 16 characters or more")
    if not key and not is_loopback(host):
        raise UserError(f"others reach {host}: set {KEY} to a secret that begins with {PREFIX!r}, or leave --host out")
    return key


class ServiceServer(ThreadingHTTPServer):
    """``service`` at ``address``, (host, port); port 0 takes a free one, ``server_port`` says which."""

    daemon_threads = True
    request_queue_size = 256  # a client opens many connections at once; those beyond wait a second to try again

    def __init__(self, service: Service, address: tuple[str, int]):
        self.host, self.key = address[0], key_for(address[0])
        self.service = service
        self.connections = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()


class _Handler(BaseHTTPRequestHandler):
    server: ServiceServer
    protocol_version = "HTTP/1.1"
    timeout = SILENCE
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        service = self.server.service
        self._answer(
            {
                "healthz": lambda: {"status": "ok"},
                "get_server_capabilities": service.server_capabilities,
                "training_runs": service.training_runs,
                "training_runs/([^/]+)": service.training_run,
                "training_runs/([^/]+)/checkpoints": service.checkpoints,
                "samplers/([^/]+)": service.get_sampler,
                "sessions/([^/]+)": service.get_session,
            }
        )

    def do_DELETE(self) -> None:
        self._answer({"training_runs/([^/]+)/checkpoints/(.+)": self.server.service.delete_checkpoint})

    def do_POST(self) -> None:
        service = self.server.service
        training = service.training
        simple: dict[str, Callable[[Any], Any]] = {
            "client/config": lambda body: CLIENT_CONFIG,
            "client/dynamic_config": lambda body: {"sample_cancel_enabled": True},
            "telemetry": lambda body: {"status": "accepted"},
            "create_session": service.create_session,
            "session_heartbeat": service.session_heartbeat,
            "create_model": training.create_model,
            "get_info": training.get_info,
            "optim_step": training.optim_step,
            "load_weights": training.load_weights,
            "save_weights": training.save_weights,
            "save_weights_for_sampler": training.save_weights_for_sampler,
            "weights_info": service.weights_info,
            "create_sampling_session": service.create_sampling_session,
            "join_sampling_session": service.join_sampling_session,
        }
        routes: dict[str, Callable[..., Any]] = {
            name: (lambda act=act: act(self._json())) for name, act in simple.items()
        }
        self._answer(
            {
                **routes,
                "asample": self._asample,
                "forward_backward": self._forward_backward,
                "retrieve_future": self._retrieve,
                "cancel_future": self._cancel,
                "sessions/([^/]+)/finish": self._finish,
            }
        )

    def _asample(self) -> Any:
        body = self._json()
        return self.server.service.asample(body, self._length())

    def _forward_backward(self) -> Any:
        kind, content = self.headers.get_content_type(), self._content()
        if kind != PROTOBUF or self.headers["Content-Encoding"]:
            raise UserError(f"forward_backward of the type {kind}: {PROTOBUF} is needed, not compressed")
        request = read_training_request(content)
        size = sum(d.tokens.nbytes + sum(t.nbytes for t in d.inputs.values()) for d in request.data)
        return self.server.service.training.forward_backward(request, max(size, len(content)))

    def _retrieve(self) -> Any:
        name = self._json().get("request_id")
        job = self.server.service.work.fetch(str(name), HELD)
        if job is None:
            return _Status(408, {"type": "try_again", "request_id": name, "queue_state": "active"})
        return _Status(200, _outcome(job))

    def _cancel(self) -> Any:
        self.server.service.work.cancel(str(self._json().get("request_id")))
        return {}

    def _finish(self, session: str) -> Any:
        self._json()
        return self.server.service.finish_session(session)

    def _length(self) -> int:
        length = int(self.headers["Content-Length"] or 0)
        if not 0 <= length <= REQUEST_BYTES:
            raise UserError(f"a request of {length} bytes: at most {REQUEST_BYTES} are read; send fewer data at once")
        return length

    def _content(self) -> bytes:
        length = self._length()
        content = self.rfile.read(length)
        if len(content) < length:
            raise UserError("the request was cut off")
        self.unread = False
        return content

    def _json(self) -> dict[str, Any]:
        kind = self.headers.get_content_type()
        if kind != "application/json":
            raise UserError(f"a request of the type {kind}: application/json is needed")
        body = parse_json(self._content(), self.path, limit=REQUEST_BYTES)
        if not isinstance(body, dict):
            raise UserError("a request must be an object")
        return body

    def _answer(self, routes: dict[str, Callable[..., Any]]) -> None:
        self.unread = self.command == "POST"
        path = urlsplit(self.path).path
        try:
            found = self._called(routes, path)
        except Unknown as error:
            found = _Status(404, {"error": str(error)})
        except Ended as error:
            found = _Status(410, {"error": str(error)})
        except Busy as error:
            found = _Status(429, {"error": str(error)})
        except ValueError as error:
            found = _Status(400, {"error": str(error)})
        except Exception as error:
            found = _Status(500, {"error": f"{type(error).__name__}: {error}"})
        status = found if isinstance(found, _Status) else _Status(200, found)
        self._send(status)

    def _called(self, routes: dict[str, Callable[..., Any]], path: str) -> Any:
        if self.headers["Origin"] is not None:
            return _Status(403, {"error": f"a page of {self.headers['Origin']} asks, and only programs may"})
        if not self.server.key and not names_this(self.headers["Host"] or "", self.server.host):
            return _Status(403, {"error": "this server is not known by that name"})  # a page whose name leads here
        given = (self.headers["X-API-Key"] or "").encode()
        if self.server.key and not hmac.compare_digest(given, self.server.key.encode()):
            return _Status(401, {"error": f"api_key: must be the secret of {KEY} that the server was started with"})
        for pattern, act in routes.items():
            if match := re.fullmatch(f"{ROOT}/{pattern}", path):
                return act(*map(unquote, match.groups()))
        return _Status(404, {"error": f"no {self.command} {path[:200]} here: docs/serve.md lists what this server has"})

    def _send(self, status: _Status) -> None:
        binary = isinstance(status.content, bytes)
        content = status.content if binary else json.dumps(status.content).encode()
        self.send_response(status.code)
        self.send_header("Content-Type", PROTOBUF if binary else "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.unread:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""


class _Status:
    """An answer with a status of its own."""

    def __init__(self, code: int, content: Any):
        self.code, self.content = code, content


def _outcome(job: Job) -> Any:
    if job.error is not None:
        message, category = job.error
        return {"error": message, "category": category}
    return job.result
