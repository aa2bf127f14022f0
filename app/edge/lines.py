"""Answers of many lines of JSON, sent as they are read."""

from typing import Final

import structlog
from starlette.responses import AsyncContentStream, StreamingResponse
from starlette.types import Send

from app.store.trouble import trouble_of
from engine.errors import AvalonError

__all__ = ["NDJSON", "BrokenOff", "Lines"]

log = structlog.get_logger()

NDJSON: Final = "application/x-ndjson"


class BrokenOff(Exception):
    """The rest of an answer cannot be sent. The log says why, and the client's next request is told."""


class Lines(StreamingResponse):
    """Lines of JSON. An answer that ends holds all of them: whatever keeps one from being sent breaks the
    answer off, which any HTTP client tells from its end.
    """

    media_type = NDJSON

    async def stream_response(self, send: Send) -> None:
        self.body_iterator = _or_broken_off(self.body_iterator)
        try:
            await super().stream_response(send)
        except BrokenOff:
            return  # without the last message, so that the server closes the connection


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
