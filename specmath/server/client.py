"""The HTTP client: loopback unless allowed, a key from the environment, no proxy, no redirect."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specmath.checks import InputError

if TYPE_CHECKING:
    import httpx

__all__ = ["KEY_NAME", "ServerError", "check_url", "get_text", "open_client", "post", "stream_post"]

KEY_NAME = "SPECMATH_API_KEY"
"""Environment variable with the bearer token; its value is never stored or printed."""

LONGEST_ERROR = 200
LARGEST_PAGE = 64 << 20


class ServerError(InputError):
    """A server that cannot be reached, refuses, or answers in a form that is not understood."""


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise InputError(
            "measuring a server needs httpx, which is not installed: pip install 'specmath[server]'"
        ) from error
    return httpx


def check_url(url: str, *, allow_remote: bool = False) -> str:
    """The base address without a trailing slash or /v1.

    Raises InputError for anything but http(s) with a host, for credentials in the address, and
    for a host that is not this machine unless `allow_remote`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"URL must be like http://127.0.0.1:8000, got {url!r}") from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InputError(f"URL must be like http://127.0.0.1:8000, got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"URL must hold no credentials: put the key into {KEY_NAME}")
    if not allow_remote and not _is_loopback(host):
        raise InputError(
            f"URL must be on this machine (127.0.0.1, ::1 or localhost), got {host}: add "
            "--allow-remote to put load on another machine, if it is yours"
        )
    shown = f"[{host}]" if ":" in host else host
    at = f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    return at + parts.path.rstrip("/").removesuffix("/v1")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_client(base: str, *, connections: int = 1, timeout: float = 300.0) -> httpx.AsyncClient:
    """A client of that base address; `async with` closes it.

    Proxies of the environment are not used and redirects are not followed: the key and the load
    go to the address given and nowhere else.
    """
    library = _httpx()
    key = os.environ.get(KEY_NAME, "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client: httpx.AsyncClient = library.AsyncClient(
        base_url=base,
        headers=headers,
        trust_env=False,
        follow_redirects=False,
        timeout=library.Timeout(timeout, connect=10.0),
        limits=library.Limits(max_connections=connections, max_keepalive_connections=connections),
    )
    return client


async def get_text(client: httpx.AsyncClient, path: str) -> str | None:
    """The text at `path`, or None where the server has none (404, 501, disabled)."""
    library = _httpx()
    try:
        answer = await client.get(path)
    except library.HTTPError as error:
        raise _unreachable(client, error) from error
    if answer.status_code != 200 or len(answer.content) > LARGEST_PAGE:
        return None
    return str(answer.text)


async def post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON object that the server answers; ServerError with its message otherwise."""
    library = _httpx()
    try:
        answer = await client.post(path, json=body)
    except library.HTTPError as error:
        raise _unreachable(client, error) from error
    if answer.status_code != 200:
        raise _refused(path, answer.status_code, answer.text)
    try:
        found = answer.json()
    except ValueError as error:
        raise ServerError(f"{path} answered something that is not JSON") from error
    if not isinstance(found, dict):
        raise ServerError(f"{path} answered a {type(found).__name__}, expected an object")
    return found


async def stream_post(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a server-sent-event stream, each as soon as its line is complete."""
    library = _httpx()
    try:
        async with client.stream("POST", path, json=body) as answer:
            if answer.status_code != 200:
                text = (await answer.aread()).decode("utf-8", "replace")
                raise _refused(path, answer.status_code, text)
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                data = line[5:].strip()
                if data == "[DONE]":
                    return
                try:
                    event = json.loads(data)
                except ValueError as error:
                    raise ServerError(f"{path} streamed a line that is not JSON") from error
                if isinstance(event, dict):
                    if "error" in event:
                        raise _refused(path, 200, json.dumps(event["error"]))
                    yield event
    except library.HTTPError as error:
        raise _unreachable(client, error) from error


def _refused(path: str, status: int, text: str) -> ServerError:
    """The server's message; should it repeat the key, the key is struck out."""
    key = os.environ.get(KEY_NAME, "")
    said = " ".join(text.split())
    if key:
        said = said.replace(key, "***")
    return ServerError(f"{path} answered {status}: {said[:LONGEST_ERROR] or 'nothing'}")


def _unreachable(client: httpx.AsyncClient, error: Exception) -> ServerError:
    kind = type(error).__name__
    return ServerError(f"cannot reach {client.base_url}: {kind} {error}".rstrip())
