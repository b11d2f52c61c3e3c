"""A small OpenAI-compatible server on loopback that answers as told and keeps what was asked."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GAP = 0.02
METRICS = """\
vllm:spec_decode_num_drafts_total{{model_name="fake"}} {drafts}
vllm:spec_decode_num_draft_tokens_total{{model_name="fake"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{model_name="fake"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="fake",position="0"}} {accepted}
"""


@dataclass
class Fake:
    """How it answers. `chunks` are the tokens of each streamed chunk; `tells` the counts it adds:
    "usage" (cumulative), "timings" (llama.cpp), "logprobs", "end" (only at the end), "nothing".

    `probabilities` maps a token (one word with its space) to its probability and whether it is the
    most probable; `scores` names how it scores text: "echo", "no". It `dies` after so many streams;
    `after` so many something is called. `models`: what /v1/models answers, if it `lists` any.
    `bos` stands before an echo; `strips`: its tokens have lost their spaces.
    """

    owner: str = "vllm"
    chunks: tuple[int, ...] = (1, 3, 1, 4)
    tells: str = "usage"
    refuses_extras: bool = False
    key: str = ""
    metrics: bool = True
    scores: str = "echo"
    probabilities: dict[str, tuple[float, bool]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    streams: int = 0
    running: int = 0
    most_running: int = 0
    drafts: int = 100
    drafting: bool = True
    address: str = ""
    dies: int | None = None
    after: tuple[int, Callable[[], None]] | None = None
    models: str = ""
    lists: bool = True
    bos: str = ""
    strips: bool = False

    def events(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """(seconds to wait, event)."""
        total = 0
        for number, count in enumerate(self.chunks):
            total += count
            event: dict[str, Any] = {"choices": [{"delta": {"content": "x " * count}}]}
            if self.tells == "usage":
                event["usage"] = {"completion_tokens": total}
            elif self.tells == "timings":
                event["timings"] = {"predicted_n": total, "prompt_n": 3}
            elif self.tells == "logprobs":
                event["choices"][0]["logprobs"] = {"content": [{"token": "x"}] * count}
            yield (GAP if number else GAP / 2), event
        last: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "length"}]}
        if self.tells != "nothing":
            last["usage"] = {"completion_tokens": total}
        yield 0.0, last


def cut(text: str) -> list[str]:
    """Tokens: each word with the space before it."""
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]


def handler_of(fake: Fake) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def _answer(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            if self.path == "/v1/models" and fake.models:
                self._answer(200, fake.models)
            elif self.path == "/v1/models" and fake.lists:
                listed = {"data": [{"id": "fake", "owned_by": fake.owner}]}
                self._answer(200, json.dumps(listed))
            elif self.path == "/metrics" and fake.metrics:
                accepted = round(0.7 * fake.drafts)
                self._answer(
                    200, METRICS.format(drafts=fake.drafts, drafted=fake.drafts, accepted=accepted)
                )
            else:
                self._answer(404, "not here")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.asked.append(body)
            fake.headers.append(dict(self.headers))
            if fake.key and self.headers.get("Authorization") != f"Bearer {fake.key}":
                sent = self.headers.get("Authorization", "")
                self._answer(401, f"wrong key: {sent}")
            elif fake.refuses_extras and "continuous_usage_stats" in json.dumps(body):
                self._answer(400, "unknown field continuous_usage_stats")
            elif body.get("stream"):
                self._stream()
            elif self.path == "/v1/completions":
                self._answer(*self._scored(body))
            else:
                self._answer(404, "not here")

        def _stream(self) -> None:
            fake.streams += 1
            if fake.dies is not None and fake.streams > fake.dies:
                self.close_connection = True
                self.connection.close()
                return
            if fake.after is not None and fake.streams == fake.after[0]:
                fake.after[1]()
            fake.running += 1
            fake.most_running = max(fake.most_running, fake.running)
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            for wait, event in fake.events():
                time.sleep(wait)
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
            fake.drafts += 10 * fake.drafting
            fake.running -= 1
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _scored(self, body: dict[str, Any]) -> tuple[int, str]:
            tokens = cut(body["prompt"])
            known = [fake.probabilities.get(token.strip(), (0.5, True)) for token in tokens]
            logs = [math.log(p) if p > 0 else -1e9 for p, _ in known]
            if fake.scores == "echo" and body.get("echo"):
                offsets = [0]
                for token in tokens[:-1]:
                    offsets.append(offsets[-1] + len(token))
                best = [{t: v} | ({} if top else {"other": v + 0.1})
                        for t, v, (_, top) in zip(tokens, logs, known, strict=True)]  # fmt: skip
                shown = [token.strip() for token in tokens] if fake.strips else tokens
                echoed = {
                    "tokens": [fake.bos, *shown, " new"],
                    "token_logprobs": [None, *logs, -0.1],
                    "top_logprobs": [None, *best, {" new": -0.1}],
                    "text_offset": [0, *offsets, len(body["prompt"])],
                }  # fmt: skip
                return 200, json.dumps({"choices": [{"text": "", "logprobs": echoed}]})
            if body.get("echo") or body.get("prompt_logprobs"):
                return 400, "no scoring here"
            return 200, json.dumps({"choices": [{"text": " written by me"}]})

    return Handler


@contextmanager
def serving(fake: Fake) -> Iterator[Fake]:
    """The fake, listening on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(fake))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
