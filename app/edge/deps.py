"""Dependencies of routes: services, the caller, and what the caller may do."""

from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from app.base.errors import Draining, InvalidRequest, Unauthenticated
from app.base.lifecycle import Lifecycle
from app.base.off_loop import whose
from app.edge.auth import Caller, Keys
from app.edge.idempotency import Repeats, RequestKey
from app.edge.queries import check_query, dependant_of
from app.edge.quotas import Quotas

__all__ = [
    "CallerDep",
    "Guard",
    "IdempotencyKey",
    "LifecycleDep",
    "RepeatsDep",
    "caller_of",
    "forget_caller",
    "known_query",
    "matches",
    "needs",
    "service",
]

_bearer = HTTPBearer(
    auto_error=False,
    description="An API key, a seat token or a watch token. Not needed as long as no key is configured.",
)


def service(name: str) -> Any:
    """A dependency that passes the service of this name, an attribute of ``app.state``, to a route."""

    # Without async, FastAPI would run it in a thread, which takes longer than most queries.
    async def read(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(read)


LifecycleDep = Annotated[Lifecycle, service("lifecycle")]
RepeatsDep = Annotated[Repeats, service("repeats")]


async def caller_of(request: Request) -> Caller:
    """The caller, looked up once per request. Raises Unauthenticated, and InvalidRequest for a query that
    the route does not take.
    """
    known: Caller | None = getattr(request.state, "caller", None)
    if known is None:
        credential = await _bearer(request)
        headers = request.headers.getlist("authorization")
        if headers and (credential is None or len(headers) > 1):
            # An invalid header must not count as none: without one, a keyless service allows everything.
            raise Unauthenticated("send one header Authorization: Bearer <key or token>")
        keys: Keys = request.app.state.keys
        known = await keys.caller(None if credential is None else credential.credentials)
        check_query(request)
        if "counted" not in request.scope:
            request.scope["counted"] = True
            quotas: Quotas = request.app.state.quotas
            quotas.admit(known.owner, by_token=known.grant is not None)
        request.state.caller = known
        whose.set(known.owner)
    return known


def forget_caller(request: Request) -> None:
    """Makes the next ``caller_of`` look the caller up again."""
    request.state.caller = None


async def _caller(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    return await caller_of(request)


CallerDep = Annotated[Caller, Depends(_caller)]


async def known_query(connection: HTTPConnection) -> None:
    """A dependency of every route. It refuses a query that the route does not take.

    A route that needs a caller must say nothing about the query before it knows the caller, so there
    ``caller_of`` checks the query. The socket's handshake checks its query itself.
    """
    dependant = dependant_of(connection)
    if connection.scope["type"] == "http" and not (dependant and _needs_caller(dependant)):
        check_query(connection)


def _needs_caller(dependant: Dependant) -> bool:
    return dependant.call is _caller or any(map(_needs_caller, dependant.dependencies))


class Guard:
    """A dependency of a route that checks the caller and the address before the body is read."""

    async def check(self, request: Request, caller: Caller) -> None:
        """Raises AvalonError for a caller that is not allowed."""
        raise NotImplementedError

    async def __call__(self, request: Request, caller: CallerDep) -> None:
        await self.check(request, caller)


class needs(Guard):  # in lower case, since routes use it as a function
    """Lets only callers with a scope through; with ``writes``, only while the service is not draining."""

    def __init__(self, scope: str, *, writes: bool = False) -> None:
        self._scope = scope
        self._writes = writes

    async def check(self, request: Request, caller: Caller) -> None:
        caller.needs(self._scope)
        if self._writes and request.app.state.lifecycle.draining:
            raise Draining("the service is stopping; try again in a moment")


async def _idempotency_key(
    request: Request,
    caller: CallerDep,
    idempotency_key: Annotated[
        str | None,
        Header(description="1 to 128 printable ASCII characters: repeat a request without a second effect."),
    ] = None,
) -> RequestKey | None:
    if idempotency_key is None:
        return None
    if not (1 <= len(idempotency_key) <= 128 and idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidRequest(
            "an Idempotency-Key has 1 to 128 printable ASCII characters",
            "/idempotency-key",
            "idempotency_key",
        )
    return RequestKey.of(
        caller.name, f"{request.method} {request.url.path}", idempotency_key, await request.body()
    )


IdempotencyKey = Annotated[RequestKey | None, Depends(_idempotency_key)]


def matches(header: str, etag: str) -> bool:
    """Whether ``If-Match`` or ``If-None-Match`` names this tag, or is ``*``, which stands for any."""
    return header.strip() == "*" or etag in [
        listed.strip().removeprefix("W/") for listed in header.split(",")
    ]
