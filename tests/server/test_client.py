"""Whose machine may be loaded, and where the key may go."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import tracemalloc
from typing import Any

import httpx
import pytest
from fake import Fake, serving

from specmath.checks import InputError
from specmath.measure.server.client import (
    KEY_NAME,
    LARGEST_PAGE,
    ServerError,
    check_url,
    get_text,
    open_client,
    post,
    stream_post,
)
from specmath.measure.server.load import identify


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://127.9.9.9:1", "http://localhost:8000/", "http://[::1]:80/v1",
     "https://localhost/some/path/v1/"],
)  # fmt: skip
def test_this_machine_is_allowed(url: str) -> None:
    assert not check_url(url).endswith(("/", "/v1"))


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.1:8000", "http://example.org", "http://0.0.0.0:8000", "http://127.0.0.1.nip.io",
     "http://localhost.example.org", "http://2130706433"],
)  # fmt: skip
def test_another_machine_needs_a_word(url: str) -> None:
    with pytest.raises(InputError, match="on this machine"):
        check_url(url)
    assert check_url(url, allow_remote=True) == url


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://user:word@127.0.0.1",
     "http://127.0.0.1/?key=1", "http://127.0.0.1:99999999", "http://127.0.0.1/\x00",
     "http://\ufffd", "http://127.0.0.18000", "http://a b", "http://127.0.0.1/" + "x" * 5000],
)  # fmt: skip
def test_other_addresses_are_refused_even_when_remote_is_allowed(url: str) -> None:
    with pytest.raises(InputError, match="URL must"):
        check_url(url, allow_remote=True)


async def _ask(address: str) -> None:
    async with open_client(address) as client:
        await post(client, "/v1/completions", {"prompt": "a b", "echo": True, "max_tokens": 1})


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Fake(key="right")) as fake:
        monkeypatch.setenv(KEY_NAME, "sesame-12345")
        with pytest.raises(ServerError, match="401") as caught:
            asyncio.run(_ask(fake.address))
        # The server repeats the key in its message; we do not.
        assert fake.headers[-1]["Authorization"] == "Bearer sesame-12345"
        assert "sesame" not in str(caught.value)
        assert "***" in str(caught.value)
        monkeypatch.setenv(KEY_NAME, "right")
        asyncio.run(_ask(fake.address))


def test_no_key_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_NAME, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "another-service")
    with serving(Fake()) as fake:
        asyncio.run(_ask(fake.address))
        assert "Authorization" not in fake.headers[-1]


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serving(Fake()) as fake:
        asyncio.run(_ask(fake.address))
        assert fake.asked


def test_nobody_there() -> None:
    with pytest.raises(ServerError, match=r"cannot reach http://127.0.0.1:9") as raised:
        asyncio.run(_ask("http://127.0.0.1:9"))
    assert (raised.value.unreachable, raised.value.declined) == (True, False)


def test_without_httpx_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(InputError, match="needs httpx, which is not installed") as raised:
        open_client("http://127.0.0.1:9")
    remedy = str(raised.value).rpartition(": ")[2]
    assert remedy.startswith("pip install ")
    # Run as it is printed; nothing is fetched where it is there already.
    done = subprocess.run([sys.executable, "-m", *remedy.split(), "--dry-run", "--no-index"])
    assert done.returncode == 0


def answering(body: bytes, **headers: str) -> httpx.AsyncClient:
    """A client of a server that answers everything with `body`."""
    answer = lambda _: httpx.Response(200, stream=httpx.ByteStream(body), headers=headers)  # noqa: E731
    return httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://here")


def test_a_page_is_capped_while_it_is_unpacked() -> None:
    packed = {"Content-Encoding": "gzip"}
    assert (
        asyncio.run(get_text(answering(gzip.compress(b"a 1\n"), **packed), "/metrics")) == "a 1\n"
    )
    bomb = gzip.compress(bytes(8 * LARGEST_PAGE), 1)
    tracemalloc.start()
    assert asyncio.run(get_text(answering(bomb, **packed), "/metrics")) is None
    with pytest.raises(ServerError, match="more than 64 MiB"):
        asyncio.run(post(answering(bomb, **packed), "/x", {}))
    with pytest.raises(ServerError, match="a line of more than 1 MiB"):
        asyncio.run(stream_of(answering(bomb, **packed)))
    assert tracemalloc.get_traced_memory()[1] < 3 * LARGEST_PAGE
    tracemalloc.stop()
    with pytest.raises(ServerError, match="packed as gzip, gzip"):
        asyncio.run(get_text(answering(bomb, **{"Content-Encoding": "gzip, gzip"}), "/metrics"))
    with pytest.raises(ServerError, match="damaged"):
        asyncio.run(get_text(answering(b"plain", **packed), "/metrics"))


async def stream_of(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    return [event async for event in stream_post(client, "/x", {})]


def test_a_key_that_the_server_repeats_is_struck_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands: in an answer, in the escapes of JSON, in a stream, in metrics."""
    monkeypatch.setenv(KEY_NAME, "se/same-12345")
    said = b'{"text": ["se\\/same-12345"], "se/same-12345": {"id": "x se/same-12345"}}'
    events = answering(b"data: " + said + b"\n\ndata: [DONE]\n\n")
    whole = asyncio.run(post(answering(said), "/x", {}))
    assert whole == {"text": ["***"], "***": {"id": "x ***"}}
    assert asyncio.run(stream_of(events)) == [whole]
    assert asyncio.run(get_text(answering(b"se/same-12345 1\n"), "/metrics")) == "*** 1\n"
    listed = json.dumps({"data": [{"id": "m se/same-12345"}]}).replace("/", "\\/").encode()
    assert asyncio.run(identify(answering(listed))) == ("unknown", "m ***")
