"""Errors as problems (RFC 9457), for HTTP and the socket alike."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from agents.errors import InvalidAgent
from agents.model.model import ModelUnavailable
from app.base import errors as edge
from app.base.clock import random_name
from app.base.faults import json_pointer
from engine import errors as rules
from engine.errors import AvalonError
from evaluators.errors import InvalidRun, UnknownItem, Unmeasurable

__all__ = [
    "INTERNAL",
    "PROBLEMS",
    "ProblemKind",
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


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: a stable code, a constant title, and the HTTP status."""

    code: str
    title: str
    status: int


PROBLEMS: Final[Mapping[type[AvalonError], ProblemKind]] = {
    rules.InvalidProfile: ProblemKind("invalid-profile", "These settings make no game", 422),
    rules.InvalidAction: ProblemKind("invalid-action", "The action cannot be read", 422),
    rules.InvalidRecord: ProblemKind("invalid-record", "The record does not follow its schema", 422),
    rules.IllegalAction: ProblemKind("illegal-action", "The rules do not allow this action now", 409),
    rules.IllegalRecord: ProblemKind("illegal-record", "The record breaks a rule", 422),
    rules.CorruptLog: ProblemKind("corrupt-log", "This game cannot be continued", 500),
    InvalidAgent: ProblemKind("invalid-agent", "No agent can be made from this", 422),
    UnknownItem: ProblemKind("unknown-item", "There is no such item to score", 422),
    InvalidRun: ProblemKind("invalid-run", "The run folder cannot be read", 422),
    Unmeasurable: ProblemKind("unmeasurable", "This game has nothing to measure yet", 409),
    ModelUnavailable: ProblemKind("model-unavailable", "No model answered in time", 503),
    edge.InvalidRequest: ProblemKind("invalid-request", "The request cannot be read", 422),
    edge.CredentialInUrl: ProblemKind("credential-in-url", "A credential has no place in an address", 400),
    edge.Unparsable: ProblemKind("unparsable", "The body is not clean JSON", 400),
    edge.NotFound: ProblemKind("not-found", "Nothing here for this caller", 404),
    edge.Unauthenticated: ProblemKind("unauthenticated", "A valid credential is needed", 401),
    edge.Forbidden: ProblemKind("forbidden", "This credential does not allow that", 403),
    edge.DrivenAutomatically: ProblemKind("driven-automatically", "This game steps itself", 409),
    edge.Stale: ProblemKind("stale", "The game has moved on", 412),
    edge.BeyondHead: ProblemKind("beyond-head", "No event at that position yet", 416),
    edge.Unfinished: ProblemKind("unfinished", "The batch is still running", 409),
    edge.AlreadyOver: ProblemKind("already-over", "It has already ended", 409),
    edge.NotSuspended: ProblemKind("not-suspended", "There is nothing to resume", 409),
    edge.StillNeeded: ProblemKind("still-needed", "It is not over, or something open needs it", 409),
    edge.UnknownRequest: ProblemKind("unknown-request", "No such request is open for this seat", 404),
    edge.AlreadyAnswered: ProblemKind("already-answered", "Another answer was accepted before", 409),
    edge.TooLate: ProblemKind("too-late", "That request is closed", 410),
    edge.CodeSpent: ProblemKind("code-spent", "This claim code is no longer good", 410),
    edge.RateLimited: ProblemKind("rate-limited", "Too many requests in too short a time", 429),
    edge.QuotaExceeded: ProblemKind("quota-exceeded", "More than your quota allows", 429),
    edge.NotAnswered: ProblemKind("not-answered", "A remote seat has not answered yet", 409),
    edge.AlreadyJudged: ProblemKind("already-judged", "This rater has judged it before", 409),
    edge.AlreadySeen: ProblemKind("already-seen", "Too much of this was shown to a key of yours", 409),
    edge.SetSealed: ProblemKind("set-sealed", "The set is sealed until its date", 409),
    edge.SetClosed: ProblemKind("set-closed", "The set takes no answers any more", 410),
    edge.TooManyRaters: ProblemKind("too-many-raters", "An owner answers a set as three raters", 409),
    edge.NotComparable: ProblemKind("not-comparable", "These two cannot be compared", 409),
    edge.BudgetSpent: ProblemKind("budget-spent", "The budget for models is spent", 409),
    edge.MissingAnswer: ProblemKind("missing-answer", "The recorded answers do not fit this game", 409),
    edge.TrialRunning: ProblemKind("trial-running", "This model is being tried already", 409),
    edge.KeyReused: ProblemKind("idempotency-key-reused", "This key was used with another body before", 422),
    edge.KeyInUse: ProblemKind("idempotency-key-in-use", "A request with this key is being worked on", 409),
    edge.TooLarge: ProblemKind("too-large", "The body is larger than we read", 413),
    edge.TooSlow: ProblemKind("too-slow", "The body came too slowly", 408),
    edge.WrongMediaType: ProblemKind("wrong-media-type", "The body must be JSON", 415),
    edge.NotAllowed: ProblemKind("method-not-allowed", "This address takes other methods", 405),
    edge.UpgradeRequired: ProblemKind("upgrade-required", "This address speaks WebSocket", 426),
    edge.Draining: ProblemKind("draining", "The service is stopping", 503),
    edge.NotReady: ProblemKind("not-ready", "The service cannot take requests now", 503),
}

INTERNAL: Final = ProblemKind("internal", "Something broke on our side", 500)


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
    """The body of a problem. For status 500 the detail is constant, since the cause must not leak."""
    body = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.title if problem.status == 500 else detail,
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
    body = problem_body(problem, str(error) or problem.title, _fields(error), **more)
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
