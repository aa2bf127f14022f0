"""Every error as one problem (RFC 9457), for HTTP and for sockets alike."""

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
    "Problem",
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
"""Characters of a message that is not ours: some name what was sent."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem: stable code, constant title, HTTP status."""

    code: str
    title: str
    status: int


PROBLEMS: Final[Mapping[type[AvalonError], Problem]] = {
    rules.InvalidProfile: Problem("invalid-profile", "These settings make no game", 422),
    rules.InvalidAction: Problem("invalid-action", "The action cannot be read", 422),
    rules.InvalidRecord: Problem("invalid-record", "The record does not follow its schema", 422),
    rules.IllegalAction: Problem("illegal-action", "The rules do not allow this action now", 409),
    rules.IllegalRecord: Problem("illegal-record", "The record breaks a rule", 422),
    rules.CorruptLog: Problem("corrupt-log", "This game cannot be continued", 500),
    InvalidAgent: Problem("invalid-agent", "No agent can be made from this", 422),
    UnknownItem: Problem("unknown-item", "No such item is scored", 422),
    InvalidRun: Problem("invalid-run", "The run folder cannot be read", 422),
    Unmeasurable: Problem("unmeasurable", "This game has nothing to measure yet", 409),
    ModelUnavailable: Problem("model-unavailable", "No model answered in time", 503),
    edge.InvalidRequest: Problem("invalid-request", "The request cannot be read", 422),
    edge.CredentialInUrl: Problem("credential-in-url", "A credential has no place in an address", 400),
    edge.Unparsable: Problem("unparsable", "The body is not clean JSON", 400),
    edge.NotFound: Problem("not-found", "Nothing here for this caller", 404),
    edge.Unauthenticated: Problem("unauthenticated", "A valid credential is needed", 401),
    edge.Forbidden: Problem("forbidden", "This credential does not reach so far", 403),
    edge.DrivenAutomatically: Problem("driven-automatically", "This game steps itself", 409),
    edge.Stale: Problem("stale", "The game has moved on", 412),
    edge.BeyondHead: Problem("beyond-head", "No event at that position yet", 416),
    edge.Unfinished: Problem("unfinished", "The batch is still running", 409),
    edge.AlreadyOver: Problem("already-over", "It has already ended", 409),
    edge.UnknownRequest: Problem("unknown-request", "No such request is open for this seat", 404),
    edge.AlreadyAnswered: Problem("already-answered", "Another answer was accepted before", 409),
    edge.TooLate: Problem("too-late", "That request is closed", 410),
    edge.RateLimited: Problem("rate-limited", "Too many in too short a time", 429),
    edge.NotAnswered: Problem("not-answered", "A remote seat has not answered yet", 409),
    edge.AlreadyGraded: Problem("already-graded", "This was graded before", 409),
    edge.AlreadyJudged: Problem("already-judged", "This rater has judged it before", 409),
    edge.AlreadySeen: Problem("already-seen", "The answer was shown to this credential", 409),
    edge.NotComparable: Problem("not-comparable", "These two cannot be compared", 409),
    edge.BudgetSpent: Problem("budget-spent", "The budget for models is spent", 409),
    edge.MissingAnswer: Problem("missing-answer", "The recorded answers do not fit this game", 409),
    edge.KeyReused: Problem("idempotency-key-reused", "This key came with another body before", 422),
    edge.KeyInUse: Problem("idempotency-key-in-use", "A request with this key is being worked on", 409),
    edge.TooLarge: Problem("too-large", "The body is larger than we read", 413),
    edge.TooSlow: Problem("too-slow", "The body came too slowly", 408),
    edge.WrongMediaType: Problem("wrong-media-type", "The body must be JSON", 415),
    edge.NotAllowed: Problem("method-not-allowed", "This address takes other methods", 405),
    edge.UpgradeRequired: Problem("upgrade-required", "This address speaks WebSocket", 426),
    edge.Draining: Problem("draining", "The service is stopping", 503),
    edge.NotReady: Problem("not-ready", "The service cannot take requests now", 503),
}

INTERNAL: Final = Problem("internal", "Something broke on our side", 500)


class ProblemResponse(JSONResponse):
    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def problem_of(error: AvalonError) -> Problem:
    """The problem an error maps to. A leaf without a row is our bug, and a test finds it."""
    return PROBLEMS[type(error)]


def problem_body(
    problem: Problem, detail: str, fields: Sequence[Mapping[str, str]] = (), /, **more: Any
) -> dict[str, Any]:
    """The problem as JSON values. For 500 the detail is constant: what broke stays inside."""
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


def _more(error: AvalonError) -> dict[str, Any]:
    if isinstance(error, rules.IllegalRecord):
        return {
            "record": error.record,
            "quest": error.quest,
            "attempt": error.attempt,
            "move": error.move,
            "rule": error.rule,
            "expected": error.expected,
            "found": error.found,
        }
    return {}


def problem_response(error: AvalonError, /, **more: Any) -> ProblemResponse:
    """The response for one of our own errors. ``more``: members that only this kind of problem has."""
    problem = problem_of(error)
    body = problem_body(problem, str(error) or problem.title, _fields(error), **_more(error), **more)
    headers = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 426:
        headers |= {"Upgrade": "websocket", "Connection": "Upgrade"}
    if problem.status == 408:
        headers["Connection"] = "close"
    if problem.status == 503:
        headers["Retry-After"] = "5"
    if isinstance(error, edge.RateLimited):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if problem.status == 500:
        log.error("request failed", code=problem.code, trace_id=body["trace_id"], exc_info=error)
    return ProblemResponse(body, problem.status, headers)


def _pointer(location: Sequence[str | int], kind: str, body: object) -> str:
    # RFC 6901: the body's own path, without FastAPI's leading "body"; a parameter is named plainly.
    parts = list(location)
    place = parts.pop(0) if location and location[0] in ("body", "query", "path", "header") else None
    if place == "body":
        parts = _found_in(body, parts, missing=kind == "missing")
    return json_pointer(parts)


def _found_in(body: object, parts: Sequence[str | int], *, missing: bool) -> list[str | int]:
    # Pydantic's path also names the alternatives it tried and marks keys: neither is part of the body.
    path: list[str | int] = []
    here = body
    for index, part in enumerate(parts):
        try:
            here = here[part]  # type: ignore[index]
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
    # Message and place, never the value: it may be a secret, or an attack on whoever reads the log.
    faults = [
        {
            "pointer": _pointer(fault["loc"], str(fault["type"]), error.body),
            "code": str(fault["type"]),
            "message": str(fault["msg"])[:_MAX_MESSAGE],
        }
        for fault in error.errors()
    ]
    problem = PROBLEMS[edge.InvalidRequest]
    places = ", ".join(fault["pointer"] or "/" for fault in faults[:5])
    total = getattr(error, "total", len(faults))
    things = "1 thing" if total == 1 else f"{total} things"
    first = f", the first {len(faults)} of them named here" if total > len(faults) else ""
    if getattr(error, "at_least", False):
        things = f"at least {things}"
    return ProblemResponse(problem_body(problem, f"{things} to mend{first}: {places}", faults), 422)


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


_NOWHERE: Final = "nothing is at this address; / lists what there is, and the socket is at /ws"


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = _BY_STATUS.get(error.status_code, INTERNAL)
    detail = _NOWHERE if error.status_code == 404 else problem.title
    return ProblemResponse(problem_body(problem, detail), problem.status, dict(error.headers or {}))


async def _on_anything_else(request: Request, error: Exception) -> Response:
    body = problem_body(INTERNAL, INTERNAL.title)
    log.error("request broke", trace_id=body["trace_id"], path=request.url.path, exc_info=error)
    return ProblemResponse(body, 500)


class ProblemField(BaseModel):
    """One thing to mend."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into what was sent; empty: all of it.")
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
    errors: list[ProblemField] = Field(default_factory=list, description="Of what could not be read.")


_ALWAYS: Final = (400, 401, 403, 422)


def documented(
    *statuses: int, also: Mapping[int | str, dict[str, Any]] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The problems a route may answer with, and ``also`` what it adds, for its OpenAPI entry."""
    return {
        **(also or {}),
        **_documented(*statuses),
    }


def _documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {
            "description": ", ".join(sorted({p.title for p in PROBLEMS.values() if p.status == status})),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
        }
        # Whatever can be too large can be too slow.
        for status in sorted({*_ALWAYS, *statuses, *({408} if 413 in statuses else ())})
    }


def in_text(*media: str) -> dict[str, Any]:
    """The ``content`` of an answer that is text in one of these media types, for its OpenAPI entry."""
    return {media_type: {"schema": {"type": "string"}} for media_type in media}


def define(document: dict[str, Any]) -> None:
    """Adds the schema that ``documented`` refers to: FastAPI knows only the models of its own fields."""
    schema = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs")
    document["components"]["schemas"] |= {**inner, ProblemView.__name__: schema}


def install(app: FastAPI) -> None:
    """Hands every error of the application to its problem."""
    app.add_exception_handler(AvalonError, _on_avalon_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_anything_else)
