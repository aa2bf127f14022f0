"""Requests that bring a body: who calls, and whether he may, is settled before a byte of it is read.

Each router makes its routes of `BodyRoute`. A route declares a body as FastAPI has it; a credential is then
asked for whether or not the route thinks of it. `takes` gives a route other bounds than those of most.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.dependencies.utils import request_params_to_args
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.types import Message, Receive

from app.base.errors import TooLarge, TooSlow, Unparsable, WrongMediaType
from app.base.faults import beginning, first_faults
from app.base.json_reader import MAX_BODY, MAX_DEPTH, read_json
from app.base.off_loop import off_loop
from app.edge.deps import Guard, caller_of, forget_caller
from app.settings import Settings

__all__ = ["BodyRoute", "Bounds", "takes"]

_AT_ONCE: Final = 65_536
"""Bytes that are read on the loop: a few milliseconds."""

MAX_MEMBERS: Final = 100
"""Members of a body's own object that are looked at first."""

_STANDS_S: Final = 1.0
"""A body that took longer has its credential looked at once more."""

# curl -d sends this type by itself, and a newcomer types curl -d '{}'.
_TAKEN_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded", ""})


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large and how deep a body may be, and what its texts may hold."""

    size: int = MAX_BODY
    depth: int = MAX_DEPTH
    record: bool = False
    """Control characters are kept."""
    check_text: bool = True
    """False: what is wrong with texts is the route's to say."""


DEFAULT: Final = Bounds()

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])

_BOUNDS: Final[MutableMapping[Callable[..., Any], Bounds]] = {}


def takes(bounds: Bounds) -> Callable[[_Endpoint], _Endpoint]:
    """The bounds of the body that the endpoint below takes."""

    def remember(endpoint: _Endpoint) -> _Endpoint:
        _BOUNDS[endpoint] = bounds
        return endpoint

    return remember


class BodyRequest(Request):
    """A request whose body was read and checked."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, _nothing_more)
        self._raw = body
        self._value = value

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._value


async def _nothing_more() -> Message:
    raise RuntimeError("a body is read by its route alone, and only where the route declares one")


class BodyRoute(APIRoute):
    """A route that reads its body last."""

    @property
    def takes_body(self) -> bool:
        """Whether the route declares a body, by a parameter or in its OpenAPI entry."""
        return self.body_field is not None or "requestBody" in (self.openapi_extra or {})

    def get_route_handler(self) -> _Handler:
        handle = super().get_route_handler()
        if not self.takes_body:
            return self._without_body(handle)
        guards = [
            depends.dependency for depends in self.dependencies if isinstance(depends.dependency, Guard)
        ]
        bounds = _BOUNDS.get(self.endpoint, DEFAULT)
        model = None if self.body_field is None else self.body_field._type_adapter
        path_params = self.dependant.path_params

        async def guarded(request: Request) -> Response:
            caller = await caller_of(request)
            if faults := request_params_to_args(path_params, request.path_params)[1]:
                raise RequestValidationError(faults)
            for guard in guards:
                await guard.check(request, caller)
            began = time.monotonic()
            body = await _read(request, bounds.size, request.app.state.settings)
            if time.monotonic() - began > _STANDS_S:
                forget_caller(request)
            value = None
            if body:
                media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if media_type not in _TAKEN_TYPES and not media_type.endswith("+json"):
                    raise WrongMediaType("send application/json")
                if len(body) > _AT_ONCE:
                    value = await off_loop(_value, body, bounds, model)
                else:
                    value = _value(body, bounds, model)
            # In place: the router writes the matched route into the scope, and the timing outside reads it.
            request.scope["headers"] = [
                *((name, value) for name, value in request.scope["headers"] if name != b"content-type"),
                (b"content-type", b"application/json"),
            ]
            return await handle(BodyRequest(request, body, value))

        return guarded

    @staticmethod
    def _without_body(handle: _Handler) -> _Handler:
        async def unread(request: Request) -> Response:
            return await handle(Request(request.scope, _nothing_more))

        return unread


async def _read(request: Request, limit: int, settings: Settings) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > limit:
        raise TooLarge(f"a body has at most {limit} bytes, got {announced[:20]}")
    try:
        async with asyncio.timeout(settings.body_within_s):
            return await _whole(request.receive, limit, settings.body_idle_s)
    except TimeoutError:
        raise TooSlow(
            f"a body has to be whole within {settings.body_within_s:g} s, and to go on every "
            f"{settings.body_idle_s:g} s"
        ) from None


async def _whole(receive: Receive, limit: int, idle_s: float) -> bytes:
    body = bytearray()
    more = True
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_s) as idle:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Unparsable("the body ended before its length")
            if part := message.get("body", b""):
                idle.reschedule(loop.time() + idle_s)
            if len(body) + len(part) > limit:
                raise TooLarge(f"a body has at most {limit} bytes")
            body += part
            more = message.get("more_body", False)
    return bytes(body)


def _value(body: bytes, bounds: Bounds, model: TypeAdapter[Any] | None) -> Any:
    value = read_json(body, max_depth=bounds.depth, record=bounds.record, check_text=bounds.check_text)
    if model is None:
        return value
    try:
        if isinstance(value, dict) and len(value) > MAX_MEMBERS:
            # No model has so many: those of the beginning say as well what is wrong, and cost less.
            model.validate_python(beginning(value))
        return model.validate_python(value)
    except ValidationError as refused:
        raise BodyFaults(refused, value, model) from None


class BodyFaults(RequestValidationError):
    """A body that does not fit its model: its first faults, and how many there are."""

    def __init__(self, refused: ValidationError, value: Any, model: TypeAdapter[Any]) -> None:
        self.total = refused.error_count()
        self.at_least = isinstance(value, dict) and len(value) > MAX_MEMBERS
        faults = first_faults(refused, value, model)
        super().__init__([{**fault, "loc": ("body", *fault["loc"])} for fault in faults], body=value)
