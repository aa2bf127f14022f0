"""The server of a fake model, and its counts."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from app.instruments.fake_model.behaviours import BEHAVIOURS, Behaviour
from app.instruments.fake_model.brains import noise
from app.instruments.fake_model.completions import (
    Brain,
    asked_schema,
    chunks,
    completion,
    key_of,
    limit_of,
    prompt_of,
    tokens,
    unreadable,
)
from app.instruments.fake_model.faults import (
    WIRE_FAULTS,
    ConnectionRefused,
    Fault,
    FaultyAnswer,
    change,
    refuse,
)
from app.instruments.fake_model.http import HttpConnection, HttpRequest, HttpServer, Response, encode
from app.instruments.fake_model.latency import AT_ONCE, Latency
from engine.chance import unit

__all__ = ["FakeModel", "FakeOptions"]

HOLD_S: Final = 600.0
"""Seconds for which a silent connection stays open."""

DRIP_S: Final = 0.05
"""Seconds between two bytes of a slow answer."""

REFUSE_S: Final = 0.3
"""Seconds for which new connections are refused."""

BLOCK: Final = 64
"""Characters of a block of the cache, as many as 16 tokens have."""

MOST_BLOCKS: Final = 4_000_000
"""The cache is emptied when it has this many blocks, about half a gigabyte."""

MOST_KEYS: Final = 1_000_000
"""The most keys that have a count of their own. All further keys share one count, ``other``."""

_ABOUT: Final = (
    b"interintent fake-model: a test instrument that speaks the OpenAI chat-completions protocol.\n"
    b"It is not a model; its answers mean nothing.\n\n"
    b"POST /v1/chat/completions   GET /v1/models   GET /stats?keys=false   POST /stats/reset\n"
)


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """How a fake model behaves."""

    brain: Brain | None = None
    """The brain that makes the answers; None: one that makes random JSON from the seed."""
    latency: Latency = AT_ONCE
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    """The seed of random answers, latency and faults. What happens to a request depends on the seed, on the
    request, and on how often it was sent before, but not on the order in which different requests arrive.
    """
    model: str = "fake"
    behave: str | None = None
    """The provider that the fake model imitates, one of ``BEHAVIOURS``; None: no provider."""
    count_file: Path | None = None
    """A file that gets a line of JSON for every request for a completion; None: no file."""


class PrefixCache:
    """Measures how much of a prompt's beginning was sent before, in blocks, as providers do."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def share(self, prompt: str) -> int:
        """The characters of the longest beginning that this prompt shares with an earlier one. Remembers the
        prompt.
        """
        if len(self._seen) > MOST_BLOCKS:
            self._seen.clear()
        chain, common, whole = 0, 0, True
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            if whole and chain in self._seen:
                common = start + BLOCK
            else:
                whole = False
                self._seen.add(chain)
        return common


@dataclass(slots=True)
class QuestionCounts:
    """Counts since the start, or since the last reset."""

    calls: int = 0
    """Requests for completions, whatever their outcome."""
    answered: int = 0
    """Answers sent completely, with status 200 and no fault in the bytes."""
    abandoned: int = 0
    """Requests whose client disconnected before the end."""
    in_flight: int = 0
    max_in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    by_key: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def begin(self, key: str) -> None:
        """Counts a request for a completion. ``key``: the key of its messages."""
        self.calls += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.by_key[key if key in self.by_key or len(self.by_key) < MOST_KEYS else "other"] += 1

    def reset(self) -> None:
        """Sets all counts to zero, except for the requests in flight."""
        fresh = QuestionCounts(in_flight=self.in_flight, max_in_flight=self.in_flight)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def as_json(self, *, keys: bool = True) -> dict[str, Any]:
        """All counts. ``by_key`` is included only with ``keys``."""
        counts: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        counts["distinct"] = len(self.by_key)
        counts["repeated"] = sum(self.by_key.values()) - len(self.by_key)
        if not keys:
            del counts["by_key"]
        return counts


class FakeModel:
    """Answers requests, and counts them in ``counts``."""

    def __init__(self, options: FakeOptions | None = None) -> None:
        self.options = options or FakeOptions()
        self.counts = QuestionCounts()
        self.faults = self.options.faults
        """The current faults, which a test may change."""
        self.url = ""
        """The running server's address; the API is under ``/v1``."""
        self._brain = self.options.brain or noise(self.options.seed)
        self._cache = PrefixCache()
        self._asked: dict[str, int] = {}
        self._fired: dict[str, int] = {}
        name = self.options.behave
        if name is not None and name not in BEHAVIOURS:
            raise ValueError(f"unknown provider {name!r}; choose one of {', '.join(BEHAVIOURS)}")
        self._behave = Behaviour() if name is None else BEHAVIOURS[name]
        self._http = HttpServer(self._handle)
        self._file: TextIO | None = None

    @property
    def connections(self) -> Set[HttpConnection]:
        """The open connections."""
        return frozenset(self._http.connections)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Begins to serve; port 0 takes a free one. Returns the address. Raises OSError."""
        if self.options.count_file is not None:
            self._file = self.options.count_file.open("a", buffering=1, encoding="utf-8")
        self.url = await self._http.start(host, port)
        return self.url

    async def stop(self) -> None:
        """Stops serving, and ends every connection."""
        await self._http.stop()
        if self._file is not None:
            self._file.close()

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator["FakeModel"]:
        """Serves while the block lasts."""
        await self.start(host, port)
        try:
            yield self
        finally:
            await self.stop()

    async def _handle(self, request: HttpRequest, connection: HttpConnection) -> None:
        match (request.method, request.path.rstrip("/")):
            case ("POST", path) if path.endswith("/chat/completions"):
                await self._counted(request, connection)
            case ("GET", "/v1/models"):
                model = {"id": self.options.model, "object": "model", "created": 0, "owned_by": "fake"}
                connection.send(_json(200, {"object": "list", "data": [model]}))
            case ("GET", "/stats"):
                keys = request.query.get("keys") != "false"
                connection.send(_json(200, self.counts.as_json(keys=keys)))
            case ("POST", "/stats/reset"):
                self.counts.reset()
                connection.send(_json(200, {}))
            case ("GET", ""):
                connection.send(Response(200, _ABOUT, "text/plain"))
            case _:
                connection.send(
                    _json(404, ConnectionRefused(404, f"no such route: {request.path}").as_json())
                )

    async def _counted(self, request: HttpRequest, connection: HttpConnection) -> None:
        try:
            asked = json.loads(request.body)
        except (ValueError, RecursionError):
            asked = None
        refused = unreadable(asked)
        if refused is not None:
            connection.send(_refusal(refused))
            return
        key = key_of(asked["messages"])
        self.counts.begin(key)
        line: dict[str, Any] = {"key": key, "faults": []}
        try:
            await self._complete(asked, key, line, connection)
        except asyncio.CancelledError:
            self.counts.abandoned += 1
            line["abandoned"] = True
            raise
        finally:
            self.counts.in_flight -= 1
            if self._file is not None:
                self._file.write(json.dumps(line) + "\n")

    async def _complete(
        self, asked: dict[str, Any], key: str, line: dict[str, Any], connection: HttpConnection
    ) -> None:
        count = self._asked[key] = self._asked.get(key, 0) + 1
        chance = random.Random(f"{self.options.seed}/{key}/{count}")
        firing = [fault for fault in self.faults if self._fires(fault, key, count)]
        await asyncio.sleep(self.options.latency.draw(chance))
        for fault in firing:
            refused = refuse(fault.name, asked)
            if refused is not None:
                self._count_fault(fault, line)
                line["status"] = refused.status
                connection.send(_refusal(refused))
                return
        turned_down = self._behave.refuse(asked)
        if turned_down is not None:
            line["status"] = turned_down.status
            connection.send(_refusal(turned_down))
            return
        if self._behave.ignores_format:
            asked = {name: value for name, value in asked.items() if name != "response_format"}
        answer = self._answer(asked, line)
        self._behave.reshape(answer)
        for fault in firing:
            if change(fault.name, answer, chance):
                self._count_fault(fault, line)
        line["status"] = 200
        wire = next((fault for fault in firing if fault.name in WIRE_FAULTS), None)
        if wire is not None:
            self._count_fault(wire, line)
            await self._misbehave(wire.name, answer, connection)
            return
        if asked.get("stream"):
            options = asked.get("stream_options") or {}
            counts = self._behave.always_counts or bool(options.get("include_usage"))
            connection.send(_stream([self._behave.before, *chunks(answer, usage=counts)]))
        else:
            connection.send(_json(200, completion(answer)))
        self.counts.answered += 1

    def _fires(self, fault: Fault, key: str, count: int) -> bool:
        if fault.times is not None and self._fired.get(fault.name, 0) >= fault.times:
            return False
        return fault.rate >= 1 or unit(self.options.seed, "fault", fault.name, key, count) < fault.rate

    def _count_fault(self, fault: Fault, line: dict[str, Any]) -> None:
        self._fired[fault.name] = self._fired.get(fault.name, 0) + 1
        self.counts.faults[fault.name] += 1
        line["faults"].append(fault.name)

    def _answer(self, asked: dict[str, Any], line: dict[str, Any]) -> FaultyAnswer:
        """The brain's answer, cut to the length limit, with its token usage."""
        messages = asked["messages"]
        content = self._brain(messages, asked_schema(asked))
        finish = "stop"
        limit = limit_of(asked)
        if limit is not None and tokens(content) > limit:
            content, finish = content[: limit * 4], "length"
        prompt = prompt_of(messages)
        usage = {
            "prompt": tokens(prompt),
            "cached": self._cache.share(prompt) // 4,
            "completion": tokens(content),
        }
        line |= usage
        self.counts.prompt_tokens += usage["prompt"]
        self.counts.cached_tokens += usage["cached"]
        self.counts.completion_tokens += usage["completion"]
        body = {
            "id": f"chatcmpl-fake-{self.counts.calls}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.options.model,
            "usage": {
                "prompt_tokens": usage["prompt"],
                "completion_tokens": usage["completion"],
                "total_tokens": usage["prompt"] + usage["completion"],
                "prompt_tokens_details": {"cached_tokens": usage["cached"]},
            },
        }
        return FaultyAnswer(content, finish, body)

    async def _misbehave(self, name: str, answer: FaultyAnswer, connection: HttpConnection) -> None:
        response = _json(200, completion(answer))
        head, body = encode(response)
        half = body[: len(body) // 2]
        match name:
            case "not_json":
                connection.send(Response(200, b"<html><body>Welcome</body></html>", "text/html"))
            case "malformed_body":
                connection.send(Response(200, half))
            case "truncated_body":
                connection.write(head + half)
                connection.close()
            case "truncated_silently":
                connection.write(encode(response, length=False)[0] + half)
                connection.close()
            case "reset_mid_body":
                connection.write(head + half)
                await asyncio.sleep(0.02)  # a reset discards bytes that were not sent yet
                connection.reset()
            case "silence":
                await asyncio.sleep(HOLD_S)
            case "silence_after_headers":
                connection.write(head)
                await asyncio.sleep(HOLD_S)
            case "slow_drip":
                connection.write(head)
                for byte in body:
                    connection.write(bytes([byte]))
                    await asyncio.sleep(DRIP_S)
            case "disconnect":
                connection.close()
            case "refused":
                self._http.refuse_for(REFUSE_S)
            case "stale_connection":
                connection.send(_refusal(ConnectionRefused(500, "The server had an error")))
                connection.stale = True
            case "stream_unasked":
                connection.send(_stream(chunks(answer, usage=True)))
            case "truncated_stream":
                events = list(chunks(answer, usage=True))
                connection.send(_stream(events[: max(1, len(events) // 2)]))


def _json(status: int, value: Any) -> Response:
    return Response(status, json.dumps(value).encode())


def _refusal(refused: ConnectionRefused) -> Response:
    body = refused.as_json()
    headers = tuple(refused.headers.items())
    if isinstance(body, str):
        return Response(refused.status, body.encode(), "text/html", headers)
    return Response(refused.status, json.dumps(body).encode(), headers=headers)


def _stream(events: Iterable[str]) -> Response:
    return Response(200, "".join(events).encode(), "text/event-stream")
