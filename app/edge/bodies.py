"""Request bodies: the caller and its permission are checked before the first byte of a body is read. The
credential is checked again before the answer: nobody gets one, however long it took, whose key was revoked.

Every router uses `BodyRoute`. A route declares its body as usual in FastAPI; its caller is then checked even
if the route does not ask for one. `takes` sets bounds for one route.
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
from app.base.schemas import MAX_MEMBERS
from app.edge.auth import Caller, Keys
from app.edge.deps import Guard, caller_of, forget_caller
from app.edge.queries import check_query
from app.edge.quotas import Quotas
from app.settings import Settings
from engine.errors import AvalonError

__all__ = ["BodyRoute", "Bounds", "takes"]

_AT_ONCE: Final = 65_536
"""Bodies of at most this many bytes are parsed on the event loop, in a few milliseconds."""

_RECHECK_S: Final = 1.0
"""If a body took more seconds than this to arrive, the credential is checked again."""

# curl -d '{}' sends the form type.
_TAKEN_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded", ""})


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large and how deep a body may be, and which characters its texts may contain."""

    size: int = MAX_BODY
    depth: int = MAX_DEPTH
    record: bool = False
    """True: texts may contain control characters other than U+0000."""
    check_text: bool = True
    """False: the route checks the texts itself."""
    open: bool = False
    """True: anybody may send it, since the body itself says what the sender may do."""


_Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])

_BOUNDS: Final[MutableMapping[Callable[..., Any], Bounds]] = {}


def takes(bounds: Bounds) -> Callable[[_Endpoint], _Endpoint]:
    """A decorator that sets the bounds of an endpoint's body."""

    def remember(endpoint: _Endpoint) -> _Endpoint:
        _BOUNDS[endpoint] = bounds
        return endpoint

    return remember


class BodyRequest(Request):
    """A request whose body has been read and checked."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, _no_receive)
        self._raw = body
        self._value = value

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._value


async def _no_receive() -> Message:
    raise RuntimeError("BodyRoute alone reads a body, and only if the route declares one")


class BodyRoute(APIRoute):
    """A route that checks everything else before it reads its body."""

    @property
    def takes_body(self) -> bool:
        """Whether the route declares a body, by a parameter or in its OpenAPI entry."""
        return self.body_field is not None or "requestBody" in (self.openapi_extra or {})

    def get_route_handler(self) -> _Handler:
        handle = super().get_route_handler()
        if not self.takes_body:

            async def unread(request: Request) -> Response:
                return await _answer(handle, Request(request.scope, _no_receive))

            return unread
        guards = [
            depends.dependency for depends in self.dependencies if isinstance(depends.dependency, Guard)
        ]
        bounds = _BOUNDS.get(self.endpoint, Bounds())
        model = None if self.body_field is None else self.body_field._type_adapter
        path_params = self.dependant.path_params

        async def guarded(request: Request) -> Response:
            if bounds.open:
                caller = None
                check_query(request)
            else:
                caller = await caller_of(request)
            if faults := request_params_to_args(path_params, request.path_params)[1]:
                raise RequestValidationError(faults)
            for guard in guards:
                assert caller is not None, "an open route has no guards"
                await guard.check(request, caller)
            began = time.monotonic()
            body = await _read(request, bounds.size, request.app.state.settings)
            if caller is not None and body:
                quotas: Quotas = request.app.state.quotas
                quotas.receive(caller.owner, len(body), by_token=caller.grant is not None)
            if time.monotonic() - began > _RECHECK_S:
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
            # The scope is changed in place: the router writes the matched route to it, and Timed reads that.
            request.scope["headers"] = [
                *((name, value) for name, value in request.scope["headers"] if name != b"content-type"),
                (b"content-type", b"application/json"),
            ]
            return await _answer(handle, BodyRequest(request, body, value))

        return guarded


async def _answer(handle: _Handler, request: Request) -> Response:
    """The route's answer, or its refusal, for a caller whose credential has not ended meanwhile. Raises
    Unauthenticated.
    """
    try:
        answer = await handle(request)
    except AvalonError:
        _check_caller(request)
        raise
    _check_caller(request)
    return answer


def _check_caller(request: Request) -> None:
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is not None:
        keys: Keys = request.app.state.keys
        keys.check(caller)


async def _read(request: Request, limit: int, settings: Settings) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > limit:
        raise TooLarge(f"a body has at most {limit} bytes, got {announced[:20]}")
    try:
        async with asyncio.timeout(settings.body_within_s):
            return await _whole(request.receive, limit, settings.body_idle_s)
    except TimeoutError:
        raise TooSlow(
            f"a body must arrive within {settings.body_within_s:g} s, with no pause longer than "
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
            # No model has so many members, so this fails; it fails sooner than the whole object would.
            model.validate_python(beginning(value))
        return model.validate_python(value)
    except ValidationError as refused:
        raise BodyFaults(refused, value, model) from None


class BodyFaults(RequestValidationError):
    """The faults of a body that does not fit its model: the first faults, and how many there are."""

    def __init__(self, refused: ValidationError, value: Any, model: TypeAdapter[Any]) -> None:
        self.total = refused.error_count()
        self.at_least = isinstance(value, dict) and len(value) > MAX_MEMBERS
        faults = first_faults(refused, value, model)
        super().__init__([{**fault, "loc": ("body", *fault["loc"])} for fault in faults], body=value)
