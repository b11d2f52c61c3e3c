"""Whose machine may be loaded, and where the key may go."""

from __future__ import annotations

import asyncio
import sys

import pytest
from fake import Fake, serving

from specmath.checks import InputError
from specmath.server.client import KEY_NAME, ServerError, check_url, open_client, post


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
     "http://127.0.0.1/?key=1", "http://127.0.0.1:99999999"],
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
    with pytest.raises(ServerError, match=r"cannot reach http://127.0.0.1:9"):
        asyncio.run(_ask("http://127.0.0.1:9"))


def test_without_httpx_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(InputError, match=r"pip install 'specmath\[server\]'"):
        open_client("http://127.0.0.1:9")
