"""Rewards that somebody else computes: a server that speaks JSON over HTTP, or a function named on the command line."""

from __future__ import annotations

import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from gaitway_files.errors import NotDone, UserError
from gaitway_files.trust import function_named, trust

from .spec import TextReward

_MAX_BODY = 1 << 28


class RemoteRewardError(NotDone):
    """A server that gives no rewards; the message names its address and what it did instead."""


def remote_reward(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    url: str,
    timeout: float = 120.0,
    retries: int = 3,
    batch: int = 64,
    **columns: Sequence[Any],
) -> list[float | None]:
    """Scores from the server at ``url``.

    It gets ``{"prompts": [...], "completions": [...], "columns": {name: [...]}}`` of at most ``batch`` completions by
    POST, and answers ``{"scores": [...]}``, a number or null for each. A request that fails to arrive, gets no answer
    within ``timeout`` [s] or meets an error of the server's (5xx) is sent ``retries`` more times, after 1, 2, 4, ... s.
    """
    scores: list[float | None] = []
    for start in range(0, len(completions), batch):
        part = slice(start, start + batch)
        body = {
            "prompts": list(prompts[part]),
            "completions": list(completions[part]),
            "columns": {name: list(values[part]) for name, values in columns.items()},
        }
        found = _ask(url, json.dumps(body).encode(), timeout, retries)
        if len(found) != len(completions[part]):
            raise RemoteRewardError(f"{url} returned {len(found)} scores for {len(completions[part])} completions")
        scores += found
    return scores


def load_reward(where: str) -> TextReward:
    """The reward at ``http://host:port`` or ``module:function``; ``ValueError`` names what is wrong with it.

    Modules are also looked for in the current folder. The module is trusted from then on, as one that the user named.
    """
    if where.startswith(("http://", "https://")):
        try:
            url = urllib.parse.urlsplit(where)
            complete = bool(url.hostname) and url.port != 0  # .port raises for an invalid port
        except ValueError:
            complete = False
        if not complete or where != urllib.parse.quote(where, safe="/:?&=#%[]@+,;~!$'()*"):
            raise UserError(f"reward {where!r}: no address, use http://host:port")
        return TextReward(func=remote_reward, params={"url": where})
    module, colon, name = where.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), name]):
        raise UserError(f"reward {where!r}: use http://host:port or module:function")
    trust(module)
    try:
        return TextReward(func=function_named(where, "reward"))
    except ImportError as error:
        raise UserError(f"reward {where!r}: {error}") from error
    except LookupError:
        raise UserError(f"reward {where!r}: {module} has no {name!r}") from None


def _ask(url: str, body: bytes, timeout: float, retries: int) -> list[float | None]:
    for attempt in range(retries + 1):
        if attempt:
            time.sleep(2.0 ** (attempt - 1))
        try:
            return _post(url, body, timeout)
        except urllib.error.HTTPError as error:
            problem = f"status {error.code}: {error.read(200).decode('utf-8', 'replace')}"
            if error.code < 500:
                break
        except OSError as error:  # not reached, cut off, or too slow
            problem = str(getattr(error, "reason", "") or error or type(error).__name__)
    raise RemoteRewardError(f"no rewards from {url} ({problem}): is the server running, and its address right?")


def _post(url: str, body: bytes, timeout: float) -> list[float | None]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    proxies: dict[str, str] | None = {} if _is_local(url) else None
    with urllib.request.build_opener(urllib.request.ProxyHandler(proxies)).open(request, timeout=timeout) as response:
        answer = response.read(_MAX_BODY)
    try:
        scores: list[float | None] = json.loads(answer)["scores"]
    except (ValueError, TypeError, KeyError) as error:
        raise RemoteRewardError(f"{url} answered {answer[:80]!r} instead of a JSON object with 'scores'") from error
    if not isinstance(scores, list):
        raise RemoteRewardError(f"{url} answered scores that are no list: {answer[:80]!r}")
    return scores


def _is_local(url: str) -> bool:
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
