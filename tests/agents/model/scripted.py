"""A server that answers as written down, request by request, and a client of it."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, Message, ModelUnavailable, Reply
from app.instruments.fake_model.http import HttpConnection, HttpRequest, HttpServer, Response
from tests.agents.model.serving import ASKED, KEY, VOTE

__all__ = ["USABLE", "Said", "Scripted", "answering", "completion", "error", "events", "streamed"]

USABLE = json.dumps({"approve": True, "reason": "They played well.", "seats": [1, 2]})
"""An answer to ``VOTE``."""

Said = Response | Callable[[dict[str, Any]], Response]
"""What the server says, or how it makes that from the request."""


def completion(
    content: Any = USABLE,
    *,
    finish: str | None = "stop",
    usage: Any = ...,
    message: Mapping[str, Any] | None = None,
    content_type: str = "application/json",
    **more: Any,
) -> Response:
    """A whole answer in one JSON body."""
    body: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "model": "served",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **(message or {})},
                "finish_reason": finish,
            }
        ],
    }
    body["usage"] = (
        {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30} if usage is ... else usage
    )
    return Response(200, json.dumps(body | more).encode(), content_type)


def error(
    status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """OpenAI's form of an error."""
    body = json.dumps({"error": {"message": message, **more}}).encode()
    return Response(status, body, headers=tuple((headers or {}).items()))


def events(
    *chunks: Any, content_type: str = "text/event-stream; charset=utf-8", end: str = "\n\n"
) -> Response:
    """A stream: a dictionary is the data of an event, a text a line of its own."""
    lines = [chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}" for chunk in chunks]
    return Response(200, "".join(line + end for line in lines).encode(), content_type)


def streamed(
    *pieces: str,
    field: str = "content",
    finish: str | None = "stop",
    usage: Any = ...,
    done: bool = True,
    before: Sequence[Any] = (),
) -> Response:
    """An answer in these pieces, as OpenAI streams it."""

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"model": "served", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    used = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30} if usage is ... else usage
    return events(
        *before,
        *(chunk({field: piece}) for piece in pieces),
        *([chunk({}, finish)] if finish else []),
        *([{"model": "served", "choices": [], "usage": used}] if used else []),
        *(["data: [DONE]"] if done else []),
    )


@dataclass
class Scripted:
    """What was asked, and how to ask."""

    model: OpenAIModel
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def ask(self, max_tokens: int = 400, messages: Sequence[Message] = ASKED, **more: Any) -> Reply:
        return await self.model.complete(messages, VOTE, temperature=0.8, max_tokens=max_tokens, **more)

    async def fails(self, max_tokens: int = 400) -> ModelUnavailable:
        """The failure of a call. Raises AssertionError for a reply."""
        try:
            reply = await self.ask(max_tokens)
        except ModelUnavailable as fault:
            return fault
        raise AssertionError(f"a reply came: {reply}")


@contextlib.asynccontextmanager
async def answering(*said: Said, **settings: Any) -> AsyncIterator[Scripted]:
    """A server that says this, the last of it for ever, and a client that hardly pauses."""

    async def answer(request: HttpRequest, connection: HttpConnection) -> None:
        body = json.loads(request.body)
        script = said[min(len(here.requests), len(said) - 1)]
        here.requests.append(body)
        here.headers.append(request.headers)
        connection.send(script if isinstance(script, Response) else script(body))

    server = HttpServer(answer)
    url = await server.start("127.0.0.1", 0)
    values = {"timeout_s": 10.0, "total_s": 30.0, "api_key": KEY, "attempts": 2} | settings
    model = OpenAIModel(Endpoint("here", f"{url}/v1", "some-model", **values), jitter=lambda: 0.001)
    here = Scripted(model)
    try:
        yield here
    finally:
        await model.aclose()
        await server.stop()
