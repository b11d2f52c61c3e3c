"""The HTTP client: loopback unless allowed, a key from the environment, no proxy, no redirect."""

from __future__ import annotations

import ipaddress
import os
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specmath.checks import InputError, plain_text, short
from specmath.foreign import json_of

if TYPE_CHECKING:
    import httpx

__all__ = [
    "KEY_NAME", "ServerError", "check_url", "get_text", "is_loopback", "open_client", "post",
    "stream_post", "without_key",
]  # fmt: skip

KEY_NAME = "SPECMATH_API_KEY"
"""Environment variable with the bearer token; its value is never stored or printed."""

LONGEST_ERROR = 200
LARGEST_PAGE = 64 << 20
PIECE = 1 << 20


class ServerError(InputError):
    """A server that cannot be reached, refuses, or answers in a form that is not understood.

    `status` is the HTTP status of a refusal; `unreachable` where no answer came at all.
    """

    def __init__(self, message: str, *, status: int = 0, unreachable: bool = False) -> None:
        super().__init__(message)
        self.status, self.unreachable = status, unreachable

    @property
    def declined(self) -> bool:
        """Whether the server has no such question or no such field (4xx)."""
        return 400 <= self.status < 500


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise InputError(
            "measuring a server needs httpx, which is not installed: pip install httpx"
        ) from error
    return httpx


def check_url(url: str, *, allow_remote: bool = False) -> str:
    """The base address without a trailing slash or /v1.

    Raises InputError for anything but http(s) with a host, for credentials in the address, and
    for a host that is not this machine unless `allow_remote`.
    """
    wrong = f"URL must be like http://127.0.0.1:8000, got {short(url, quoted=True)}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if re.fullmatch(r"\d+(\.\d+){3}", host):
            ipaddress.ip_address(host)
    except ValueError as error:
        raise InputError(wrong) from error
    # A name in other letters is given as a browser's address bar copies it: xn--….
    plain = re.fullmatch("[!-~]{1,2000}", url) and re.fullmatch(r"[a-z0-9._:-]+", host)
    if parts.scheme not in ("http", "https") or parts.query or parts.fragment or not plain:
        raise InputError(wrong)
    if parts.username is not None or parts.password is not None:
        raise InputError(f"URL must hold no credentials: put the key into {KEY_NAME}")
    if not allow_remote and not is_loopback(host):
        raise InputError(
            f"URL must be on this machine (127.0.0.1, ::1 or localhost), got {host}: add "
            "--allow-remote to put load on another machine, if it is yours"
        )
    shown = f"[{host}]" if ":" in host else host
    at = f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    return at + parts.path.rstrip("/").removesuffix("/v1")


def is_loopback(host: str) -> bool:
    """Whether that name or address is this machine to itself, so that no other reaches it."""
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
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
    client: httpx.AsyncClient = library.AsyncClient(
        base_url=base, headers=headers, trust_env=False, follow_redirects=False,
        verify=base.startswith("https:"),  # else certificates would be read for nothing
        timeout=library.Timeout(timeout, connect=10.0),
        limits=library.Limits(max_connections=connections, max_keepalive_connections=connections),
    )  # fmt: skip
    return client


async def get_text(client: httpx.AsyncClient, path: str) -> str | None:
    """The text at `path`, or None where the server has none (404, 501, disabled, over 64 MiB)."""
    status, text = await _body(client, "GET", path)
    return without_key(text) if status == 200 else None


async def post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON object that the server answers; ServerError with its message otherwise."""
    status, text = await _body(client, "POST", path, json=body)
    if status != 200:
        raise _refused(path, status, text or "")
    if text is None:
        raise ServerError(f"{path} answered more than {LARGEST_PAGE >> 20} MiB")
    found = without_key(json_of(f"the answer of {path}", text, ServerError))
    if not isinstance(found, dict):
        raise ServerError(f"{path} answered a {type(found).__name__}, expected an object")
    return found


async def _body(
    client: httpx.AsyncClient, method: str, path: str, **request: Any
) -> tuple[int, str | None]:
    """(status, text); None in place of a text over LARGEST_PAGE.

    Counted while it is decompressed: a few MB can unpack to any size.
    """
    data = bytearray()
    async with _asked(client, method, path, **request) as answer:
        async for piece in _pieces(answer):
            data += piece
            if len(data) > LARGEST_PAGE:
                return answer.status_code, None
        return answer.status_code, data.decode("utf-8", "replace")


@asynccontextmanager
async def _asked(
    client: httpx.AsyncClient, method: str, path: str, **request: Any
) -> AsyncIterator[httpx.Response]:
    """The answer as it comes; ServerError where it does not, or breaks off."""
    library = _httpx()
    try:
        async with client.stream(method, path, **request) as answer:
            yield answer
    except (library.HTTPError, library.StreamError) as error:
        message = f"cannot reach {client.base_url}: {type(error).__name__} {error}".rstrip()
        raise ServerError(message, unreachable=True) from error


async def stream_post(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a server-sent-event stream, each as soon as its line is complete."""
    async with _asked(client, "POST", path, json=body) as answer:
        if answer.status_code != 200:
            raise _refused(path, answer.status_code, await _start_of(answer))
        async for line in _lines(answer, path):
            if not line.startswith("data:"):
                continue
            data = line[5:].strip()
            if data == "[DONE]":
                return
            event = without_key(json_of(f"a line streamed by {path}", data, ServerError))
            if isinstance(event, dict):
                if "error" in event:
                    raise _refused(path, 200, short(event["error"], LONGEST_ERROR))
                yield event


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """What was sent, unpacked a MiB at a time: whoever has enough stops asking."""
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise ServerError(f"the server answered packed as {short(encoding)}, asked for plain text")
    unpacker = zlib.decompressobj(wbits=31)
    async for chunk in answer.aiter_raw():
        if encoding == "identity":
            yield chunk
            continue
        while chunk:
            try:
                yield unpacker.decompress(chunk, PIECE)
            except zlib.error as error:
                raise ServerError(f"the server's gzip answer is damaged: {error}") from error
            chunk = unpacker.unconsumed_tail


async def _start_of(answer: httpx.Response) -> str:
    """Enough of a refusal to say what it says."""
    async for piece in _pieces(answer):
        return piece.decode("utf-8", "replace")
    return ""


async def _lines(answer: httpx.Response, path: str) -> AsyncIterator[str]:
    """The lines of a stream; ServerError for one that does not end."""
    rest = b""
    async for piece in _pieces(answer):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if len(rest) > PIECE:
            raise ServerError(f"{path} streamed a line of more than {PIECE >> 20} MiB")
    yield rest.decode("utf-8", "replace")


def without_key(said: Any) -> Any:
    """What a server said, JSON or text; should it repeat the key, the key is struck out."""
    key = os.environ.get(KEY_NAME, "")
    return _struck(said, key) if key else said


def _struck(said: Any, key: str) -> Any:
    if isinstance(said, str):
        return said.replace(key, "***")
    if isinstance(said, list):
        return [_struck(item, key) for item in said]
    if isinstance(said, dict):
        return {_struck(name, key): _struck(item, key) for name, item in said.items()}
    return said


def _refused(path: str, status: int, text: str) -> ServerError:
    said = plain_text(without_key(text))[:LONGEST_ERROR] or "nothing"
    return ServerError(f"{path} answered {status}: {said}", status=status)
