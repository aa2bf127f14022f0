"""Answers of many lines of JSON, sent as they are read."""

from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import AsyncContentStream, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.edge.auth import Caller, Keys
from app.store.trouble import trouble_of
from engine.errors import AvalonError

__all__ = ["NDJSON", "BrokenOff", "Lines"]

log = structlog.get_logger()

NDJSON: Final = "application/x-ndjson"


class BrokenOff(Exception):
    """The rest of an answer cannot be sent. The log says why, and the client's next request is told."""


class Lines(StreamingResponse):
    """Lines of JSON. An answer that ends holds all of them: whatever keeps one from being sent breaks the
    answer off, which any HTTP client tells from its end. So does the end of the caller's credential. Only
    what follows a game or batch may also end before that does.
    """

    media_type = NDJSON

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body_iterator = _or_broken_off(_while_valid(self.body_iterator, Request(scope)))
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except BrokenOff:
            return  # without the last message, so that the server closes the connection


async def _while_valid(lines: AsyncContentStream, request: Request) -> AsyncContentStream:
    keys: Keys = request.app.state.keys
    caller: Caller | None = getattr(request.state, "caller", None)
    async for line in lines:
        if caller is not None and not keys.is_valid(caller):
            raise BrokenOff("the caller's credential has ended")
        yield line


async def _or_broken_off(lines: AsyncContentStream) -> AsyncContentStream:
    try:
        async for line in lines:
            yield line
    except Exception as fault:
        trouble = trouble_of(fault)
        if trouble is None and not isinstance(fault, AvalonError | BrokenOff):
            raise
        log.warning("an answer of many lines breaks off", cause=trouble.advice if trouble else str(fault))
        raise BrokenOff from fault
