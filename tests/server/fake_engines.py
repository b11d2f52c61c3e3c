"""Servers on loopback that answer in the documented form of vLLM, SGLang and llama.cpp.

One small model behind them: words are tokens, a prefix cache as that engine keeps it, and a pass
over n fresh tokens that takes `base + step · v(n)` seconds by the clock that the engine tells.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BOS = 1
FIRST = 10
VLLM_BLOCK = 16


@dataclass
class Engine:
    """`verify` is v of n tokens; `step` and `base` in seconds. `probabilities` and `best` say what
    it gives to the id that follows some ids: (probability, most probable id).

    `drafts`: tokens that it drafts for each plain token, though it was asked for none. `dies` after
    so many requests, and `forgets` its cache. `details`: says how much of a prompt was cached
    (vLLM's switch).
    """

    name: str = "llama.cpp"
    step: float = 0.040
    base: float = 0.003
    verify: Callable[[int], float] = lambda n: 1.0 + 0.1 * (n - 1)
    bos: bool = True
    words: dict[str, int] = field(default_factory=dict)
    probability: Callable[[list[int], int], tuple[float, int]] = lambda before, token: (0.5, token)
    written: tuple[str, ...] = (" it", " was")
    drafts: int = 0
    caches: bool = True
    details: bool = True
    dies: int | None = None
    forgets: int | None = None
    key: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    address: str = ""
    seen: list[list[int]] = field(default_factory=list)
    hits: int = 0
    now: float = 0.0

    # ── the model ───────────────────────────────────────────────────────────────────────────

    def ids(self, text: str, special: bool) -> list[int]:
        parts = text.split(" ")
        words = [w for w in (parts[0], *(f" {part}" for part in parts[1:])) if w]
        found = [self.words.setdefault(word, FIRST + len(self.words)) for word in words]
        return [BOS, *found] if special and self.bos else found

    def text(self, ids: list[int]) -> str:
        by_id = {number: word for word, number in self.words.items()}
        return "".join(by_id.get(number, "") for number in ids)

    def cached(self, ids: list[int]) -> int:
        """Tokens of this prompt that some prompt before left in the cache; at least one is read."""
        if not self.caches or (self.forgets is not None and len(self.asked) > self.forgets):
            return 0
        known = self.seen[-1:] if self.name == "llama.cpp" else self.seen
        most = 0
        for other in known:
            same = next(
                (n for n, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b),
                min(len(ids), len(other)),
            )
            most = max(most, min(same, len(ids) - 1))
        return most - most % VLLM_BLOCK if self.name == "vllm" else most

    def read(self, ids: list[int]) -> tuple[int, float]:
        """(cached tokens, seconds of the pass over the others)."""
        cached = self.cached(ids)
        self.seen.append(list(ids))
        self.hits += cached
        return cached, self.base + self.step * self.verify(len(ids) - cached)

    def scores(self, ids: list[int]) -> list[tuple[float, int]]:
        """Of each id from the second on: its log-probability, and the most probable id."""
        return [
            (math.log(p), best)
            for p, best in (self.probability(ids[:at], ids[at]) for at in range(1, len(ids)))
        ]

    def output(self, count: int) -> list[int]:
        own = [self.words.setdefault(word, FIRST + len(self.words)) for word in self.written]
        return (own * (count // len(own) + 1))[:count]

    # ── as each engine answers ──────────────────────────────────────────────────────────────

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """llama.cpp, POST /completion."""
        prompt = body["prompt"]
        ids = self.ids(prompt, True) if isinstance(prompt, str) else prompt
        cached, seconds = self.read(ids)
        count = body["n_predict"]
        out = self.output(count)
        timings = {
            "cache_n": cached, "prompt_n": len(ids) - cached, "prompt_ms": 1e3 * seconds,
            "predicted_n": count, "predicted_ms": 1e3 * self.step * (count - 1),
        }  # fmt: skip
        if self.drafts and count > 1:
            timings |= {"draft_n": self.drafts, "draft_n_accepted": 0}
        answer = {
            "index": 0, "content": self.text(out),
            "tokens": out if body.get("return_tokens") else [],
            "id_slot": 0, "stop": True, "stop_type": "limit", "truncated": False,
            "tokens_predicted": count, "tokens_evaluated": len(ids), "timings": timings,
        }  # fmt: skip
        if listed := body.get("n_probs"):
            answer["completion_probabilities"] = [self._listed(ids, listed)]
        return answer

    def _listed(self, ids: list[int], listed: int) -> dict[str, Any]:
        rows = []
        for token in self.words.values():
            p, best = self.probability(ids, token)
            rows.append((token == best, p, token))
        rows.sort(reverse=True)
        top = [
            {"id": token, "token": self.text([token]), "bytes": [], "logprob": math.log(p)}
            for _, p, token in rows[:listed]
        ]
        return {**top[0], "top_logprobs": top}

    def generate(self, body: dict[str, Any]) -> dict[str, Any]:
        """SGLang, POST /generate."""
        ids = body.get("input_ids") or self.ids(body["text"], True)
        start = body.get("logprob_start_len", -1) if body.get("return_logprob") else -1
        cached, seconds = self.read(ids)
        if start >= 0:
            cached = min(cached, start)
        count = body["sampling_params"]["max_new_tokens"]
        out = self.output(count)
        info: dict[str, Any] = {
            "id": "0", "finish_reason": {"type": "length", "length": count},
            "prompt_tokens": len(ids), "completion_tokens": count, "cached_tokens": cached,
            "e2e_latency": seconds + self.step * (count - 1),
        }  # fmt: skip
        if self.drafts and count > 1:
            info["spec_verify_ct"] = self.drafts
        if start >= 0:
            scored = self.scores(ids)[max(start, 0) :]
            given = ids[start + 1 :]
            info["input_token_logprobs"] = [
                [None, ids[start], None],
                *([value, token, None] for (value, _), token in zip(scored, given, strict=True)),
            ]
            info["input_top_logprobs"] = [
                None,
                *([[value if best == token else value + 0.1, best, None]]
                  for (value, best), token in zip(scored, given, strict=True)),
            ]  # fmt: skip
            info["output_token_logprobs"] = [[-0.1, token, None] for token in out]
        return {"text": self.text(out), "output_ids": out, "meta_info": info}

    def completions(self, body: dict[str, Any]) -> dict[str, Any]:
        """vLLM, POST /v1/completions; `now` is the time that passed."""
        prompt = body["prompt"]
        ids = self.ids(prompt, True) if isinstance(prompt, str) else prompt
        scoring = body.get("prompt_logprobs") is not None
        if scoring:
            cached = 0
        else:
            cached, seconds = self.read(ids)
            self.now += seconds + self.step * (body["max_tokens"] - 1)
        out = self.output(body.get("max_tokens", 16))
        choice: dict[str, Any] = {
            "index": 0, "text": self.text(out), "logprobs": None, "finish_reason": "length",
            "stop_reason": None, "prompt_logprobs": None,
            "token_ids": out if body.get("return_token_ids") else None,
            "prompt_token_ids": ids if body.get("return_token_ids") else None,
        }  # fmt: skip
        if scoring:
            rows: list[dict[str, Any] | None] = [None]
            for token, (value, best) in zip(ids[1:], self.scores(ids), strict=True):
                row = {str(token): {"logprob": value, "rank": 1 if best == token else 2,
                                    "decoded_token": self.text([token])}}  # fmt: skip
                if best != token:
                    row[str(best)] = {"logprob": value + 0.1, "rank": 1, "decoded_token": "?"}
                rows.append(row)
            choice["prompt_logprobs"] = rows
        usage = {
            "prompt_tokens": len(ids), "total_tokens": len(ids) + len(out),
            "completion_tokens": len(out),
            "prompt_tokens_details": {"cached_tokens": cached} if self.details else None,
        }  # fmt: skip
        return {"id": "cmpl-0", "object": "text_completion", "model": "fake", "choices": [choice],
                "usage": usage}  # fmt: skip

    def metrics(self) -> str:
        if self.name == "vllm":
            drafted = self.drafts * len(self.asked)
            return (
                f'vllm:prefix_cache_hits_total{{engine="0"}} {self.hits}\n'
                f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafted}\n'
                f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafted}\n'
                f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} 0\n'
            )
        return ""


OWNERS = {"llama.cpp": "llamacpp", "vllm": "vllm", "sglang": "sglang"}


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None: ...

        def answer(self, found: Any, status: int = 200) -> None:
            data = (found if isinstance(found, str) else json.dumps(found)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self.answer({"data": [{"id": "fake", "owned_by": OWNERS[engine.name]}]})
            elif self.path == "/metrics" and engine.name == "vllm":
                self.answer(engine.metrics())
            else:
                self.answer("not here", 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            engine.asked.append((self.path, body))
            if engine.dies is not None and len(engine.asked) > engine.dies:
                self.close_connection = True
                self.connection.close()
            elif engine.key and self.headers.get("Authorization") != f"Bearer {engine.key}":
                self.answer({"error": {"message": "Unauthorized"}}, 401)
            elif self.path == "/tokenize":
                self.tokenize(body)
            elif self.path == "/completion" and engine.name == "llama.cpp":
                self.answer(engine.completion(body))
            elif self.path == "/apply-template" and engine.name == "llama.cpp":
                self.answer({"prompt": templated(body["messages"])})
            elif self.path == "/generate" and engine.name == "sglang":
                self.answer(engine.generate(body))
            elif self.path == "/v1/completions" and engine.name == "vllm":
                self.answer(engine.completions(body))
            else:
                self.answer("not here", 404)

        def tokenize(self, body: dict[str, Any]) -> None:
            if engine.name == "llama.cpp":
                self.answer({"tokens": engine.ids(body["content"], body["add_special"])})
                return
            if "messages" in body:
                ids = engine.ids(templated(body["messages"]), False)
            else:
                ids = engine.ids(body["prompt"], body.get("add_special_tokens", True))
            self.answer({"count": len(ids), "max_model_len": 4096, "tokens": ids})

    return Handler


def templated(messages: list[dict[str, str]]) -> str:
    """A chat template of this model."""
    said = "".join(f"<{message['role']}> {message['content']} " for message in messages)
    return f"{said}<assistant>"


@contextmanager
def running(engine: Engine) -> Iterator[Engine]:
    """The engine, listening on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(engine))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    engine.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield engine
    finally:
        server.shutdown()
        server.server_close()
