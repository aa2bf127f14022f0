"""Errors as problems (RFC 9457), for HTTP and the socket alike."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.base import errors as edge
from app.base.clock import random_name
from app.base.faults import json_pointer
from app.base.problem_kinds import INTERNAL, PROBLEMS, ProblemKind
from engine import errors as rules
from engine.errors import AvalonError

__all__ = [
    "ProblemResponse",
    "ProblemView",
    "define",
    "documented",
    "in_text",
    "install",
    "problem_of",
    "problem_response",
]

log = structlog.get_logger()

MEDIA_TYPE: Final = "application/problem+json"

_MAX_MESSAGE: Final = 500
"""The most characters that are kept of a library's message, since some messages quote the value."""


class ProblemResponse(JSONResponse):
    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def problem_of(error: AvalonError) -> ProblemKind:
    """The kind of problem for an error. Raises KeyError for an error without a row in PROBLEMS."""
    return PROBLEMS[type(error)]


def problem_body(
    problem: ProblemKind, detail: str, fields: Sequence[Mapping[str, str]] = (), /, **more: Any
) -> dict[str, Any]:
    """The body of a problem."""
    body = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        "code": problem.code,
        "trace_id": random_name(),
        **more,
    }
    if fields:
        body["errors"] = list(fields)
    return body


def _fields(error: AvalonError) -> list[dict[str, str]]:
    pointer = getattr(error, "pointer", None)
    if pointer is None or (not pointer and not isinstance(error, rules.InvalidInput)):
        return []
    code = getattr(error, "code", problem_of(error).code)
    return [{"pointer": pointer, "code": code, "message": str(error)}]


_RECORD_MEMBERS: Final = ("record", "quest", "attempt", "move", "rule", "expected", "found")


def problem_response(error: AvalonError, /, **more: Any) -> ProblemResponse:
    """The response for one of our own errors. ``more``: further members of the response's body."""
    problem = problem_of(error)
    if isinstance(error, rules.IllegalRecord):
        more |= {name: getattr(error, name) for name in _RECORD_MEMBERS}
    if isinstance(error, edge.QuotaExceeded):
        more |= {"quota": error.quota, "limit": error.limit}
    # Only the words of refusals are meant for callers: the cause of a fault of our own must not leak.
    leaks = problem.status == 500 and not isinstance(error, edge.RefusedRequest)
    detail = problem.title if leaks else str(error) or problem.title
    body = problem_body(problem, detail, _fields(error), **more)
    headers = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 426:
        headers |= {"Upgrade": "websocket", "Connection": "Upgrade"}
    if problem.status == 408:
        headers["Connection"] = "close"
    if problem.status == 503:
        headers["Retry-After"] = "5"
    if isinstance(error, edge.RefusedForNow):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if problem.status == 500:
        log.error("request failed", code=problem.code, trace_id=body["trace_id"], exc_info=error)
    return ProblemResponse(body, problem.status, headers)


def _pointer(location: Sequence[str | int], kind: str, body: object) -> str:
    # FastAPI's location begins with the part of the request, which the pointer leaves out.
    parts = list(location)
    place = parts.pop(0) if location and location[0] in ("body", "query", "path", "header") else None
    if place == "body":
        parts = _path_in(body, parts, missing=kind == "missing")
    return json_pointer(parts)


def _path_in(body: object, parts: Sequence[str | int], *, missing: bool) -> list[str | int]:
    # Pydantic's path also names the alternatives that it tried, and marks keys: neither is part of the body.
    path: list[str | int] = []
    value = body
    for index, part in enumerate(parts):
        try:
            value = value[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            if not missing or index < len(parts) - 1:
                continue
        path.append(part)
    return path


async def _on_avalon_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AvalonError)
    return problem_response(error)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # Never the value itself: it may be a secret, or an attack on readers of logs.
    faults = [
        {
            "pointer": _pointer(fault["loc"], str(fault["type"]), error.body),
            "code": str(fault["type"]),
            "message": str(fault["msg"])[:_MAX_MESSAGE],
        }
        for fault in error.errors()
    ]
    problem = PROBLEMS[edge.InvalidRequest]
    pointers = ", ".join(fault["pointer"] or "/" for fault in faults[:5])
    total = getattr(error, "total", len(faults))
    things = "1 thing" if total == 1 else f"{total} things"
    first = f", of which the first {len(faults)} are listed" if total > len(faults) else ""
    if getattr(error, "at_least", False):
        things = f"at least {things}"
    return ProblemResponse(problem_body(problem, f"{things} to correct{first}: {pointers}", faults), 422)


_BY_STATUS: Final = {
    problem.status: problem
    for problem in (
        PROBLEMS[edge.Unparsable],
        PROBLEMS[edge.NotFound],
        PROBLEMS[edge.NotAllowed],
        PROBLEMS[edge.Unauthenticated],
        PROBLEMS[edge.Forbidden],
    )
}

_NO_SUCH_ADDRESS: Final = "there is nothing at this address; / lists the addresses, and the socket is at /ws"


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = _BY_STATUS.get(error.status_code, INTERNAL)
    detail = _NO_SUCH_ADDRESS if error.status_code == 404 else problem.title
    return ProblemResponse(problem_body(problem, detail), problem.status, dict(error.headers or {}))


async def _on_other_error(request: Request, error: Exception) -> Response:
    body = problem_body(INTERNAL, INTERNAL.title)
    log.error("request broke", trace_id=body["trace_id"], path=request.url.path, exc_info=error)
    return ProblemResponse(body, 500)


class ProblemField(BaseModel):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the request; empty: the whole request.")
    code: str
    message: str


class ProblemView(BaseModel):
    """A problem (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    trace_id: str
    errors: list[ProblemField] = Field(
        default_factory=list, description="The faults of the request that have a place in it."
    )


_ALWAYS: Final = (400, 401, 403, 422, 429, 503)


def documented(
    *statuses: int, also: Mapping[int | str, dict[str, Any]] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The responses of a route's OpenAPI entry: those in ``also``, and a problem for each of these statuses
    and for 400, 401, 403, 422, 429 and 503. If 413 is among them, 408 is added.
    """
    responses = dict(also or {})
    # A body that can be too large can be too slow.
    for status in sorted({*_ALWAYS, *statuses, *({408} if 413 in statuses else ())}):
        responses[status] = {
            "description": ", ".join(sorted({p.title for p in PROBLEMS.values() if p.status == status})),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
        }
    return responses


def in_text(*media: str) -> dict[str, Any]:
    """The ``content`` of a text response with one of these media types, for its OpenAPI entry."""
    return {media_type: {"schema": {"type": "string"}} for media_type in media}


def define(document: dict[str, Any]) -> None:
    """Adds the schema that ``documented`` refers to, since FastAPI adds only the models of routes."""
    schema = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs")
    document["components"]["schemas"] |= {**inner, ProblemView.__name__: schema}


def install(app: FastAPI) -> None:
    """Adds the handlers that answer every error with a problem."""
    app.add_exception_handler(AvalonError, _on_avalon_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_other_error)
