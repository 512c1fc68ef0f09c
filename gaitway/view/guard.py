"""Access control of a page: only browsers that show the page itself may steer it, with values its controls allow.

A page of another site that is open in the same browser can reach a server on this computer. So requests must name this
computer as their host, which one that was rebound by DNS does not, and those that say where they come from must come
from the page. Other users of this computer, and whoever reaches it over a network, lack the token of the printed
address; a browser that has it once keeps it in a cookie. viser has no settings for it, so its calls are wrapped.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import math
import platform
from collections.abc import Iterator
from http.cookies import CookieError, SimpleCookie
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from .remote import Remote, file_of, is_socket, with_page

FORBIDDEN = 403
TOKEN = "token"
"""Name of the token in the address."""


@contextlib.contextmanager
def guarded(host: str, port: int, token: str, remote: Remote) -> Iterator[None]:
    """A server of viser's that is made within refuses what is not from its own page, or has no ``token``.

    It listens at ``host`` and ``port``, and its page has the ``remote``.
    """
    import websockets.asyncio.server as library

    open_server = library.serve

    def serve(handler: Any, *args: Any, process_request: Any = None, **options: Any) -> Any:
        def decide(connection: Any, request: Any) -> Any:
            reason, cookie = refusal(request.headers, host), f"gaitway-{port}"
            if reason is None and not _may(request, cookie, token):
                reason = "open the address that was printed, with its token"
            if reason is not None:
                return connection.respond(FORBIDDEN, f"{reason}\n")
            if is_socket(request.path):
                return None
            if "Accept-Encoding" in request.headers:
                del request.headers["Accept-Encoding"]  # with_page reads the answer
            answer = file_of(connection, request.path)
            if answer is None and process_request is not None and (answer := process_request(connection, request)):
                with_page(answer)
            if answer is not None:
                answer.headers["Set-Cookie"] = f"{cookie}={token}; HttpOnly; SameSite=Strict; Path=/"
            return answer

        async def listen(connection: Any) -> None:
            await (remote.listen if is_socket(connection.request.path) else handler)(connection)

        return open_server(listen, *args, process_request=decide, **options)

    with mock.patch.object(library, "serve", serve):
        yield


def _may(request: Any, cookie: str, token: str) -> bool:
    """True if a request has the token, in its address or in a cookie."""
    given = parse_qs(urlsplit(request.path).query).get(TOKEN, [])
    for text in request.headers.get_all("Cookie"):
        with contextlib.suppress(CookieError):
            given += [morsel.value for name, morsel in SimpleCookie(text).items() if name == cookie]
    return any(hmac.compare_digest(each.encode(), token.encode()) for each in given)


def refusal(headers: Any, host: str) -> str | None:
    """Reason to refuse a request with these headers, or None. Programs that are no browsers send no origin."""
    asked, origins = headers.get_all("Host"), headers.get_all("Origin")
    if len(asked) != 1 or not _is_here(name := _name(f"//{asked[0]}"), host):
        return "this server is not known by that name"
    if any(urlsplit(origin).netloc.lower() != asked[0].lower() for origin in origins):
        return f"only the page of http://{name} may connect"
    return None


def names_this(asked: str, host: str) -> bool:
    """True if the header ``Host`` of a request names this computer, or the ``host`` that a server listens at."""
    return _is_here(_name(f"//{asked}"), host)


def _name(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_here(name: str, host: str) -> bool:
    """True if ``name`` can only stand for this computer: no name that others can point here."""
    own = platform.node().lower()
    if name in ("localhost", host.lower(), own, f"{own}.local") and name:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def restrict(server: Any) -> None:
    """Let a page change its controls to values that they can have, and nothing else; nobody publishes it."""
    from viser import _messages as messages

    inbox = server._websock_server
    for kind in (messages.ShareUrlRequest, messages.ShareUrlDisconnect):
        inbox.unregister_handler(kind)  # it would go through a server of viser's makers
    (update,) = inbox._incoming_handlers[messages.GuiUpdateMessage]
    inbox.unregister_handler(messages.GuiUpdateMessage)

    async def checked(client: Any, message: Any) -> None:
        handle = server.gui._gui_input_handle_from_uuid.get(message.uuid)
        if handle is not None and set(message.updates) == {"value"} and can_be(handle, message.updates["value"]):
            await update(client, message)

    inbox.register_handler(messages.GuiUpdateMessage, checked)


def can_be(handle: Any, value: Any) -> bool:
    """True if a control of a page can have this value."""
    props, now = handle._impl.props, handle.value
    if isinstance(now, bool):
        return isinstance(value, bool)
    if isinstance(now, int | float):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return False
        low, high = getattr(props, "min", None), getattr(props, "max", None)
        return (low is None or value >= low) and (high is None or value <= high)
    options = getattr(props, "options", None)
    return value in options if options is not None else isinstance(value, type(now))
