"""What routes ask for: who calls, what that caller may do, and through whose eyes."""

from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from app.base.errors import Draining, Forbidden, InvalidRequest, Unauthenticated
from app.base.lifecycle import Lifecycle
from app.edge.auth import Caller, Keys
from app.edge.idempotency import RequestKey
from app.edge.queries import check_query, dependant_of
from app.settings import Settings
from engine.errors import InvalidInput
from engine.terms import PUBLIC, Viewer
from engine.view import read_viewer

__all__ = [
    "CallerDep",
    "Guard",
    "IdempotencyKey",
    "KeysDep",
    "LifecycleDep",
    "SettingsDep",
    "caller_of",
    "forget_caller",
    "known_query",
    "matches",
    "needs",
    "needs_or_watches",
    "viewer_for",
]

_bearer = HTTPBearer(
    auto_error=False,
    description="An API key, a seat token or a watch token. Not asked for while no key is configured.",
)


def _keys(request: Request) -> Keys:
    keys: Keys = request.app.state.keys
    return keys


def _lifecycle(request: Request) -> Lifecycle:
    lifecycle: Lifecycle = request.app.state.lifecycle
    return lifecycle


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


KeysDep = Annotated[Keys, Depends(_keys)]
LifecycleDep = Annotated[Lifecycle, Depends(_lifecycle)]
SettingsDep = Annotated[Settings, Depends(_settings)]


async def caller_of(request: Request) -> Caller:
    """Who calls, looked up once for a request. Raises Unauthenticated, and InvalidRequest for a query that
    the route does not take.
    """
    known: Caller | None = getattr(request.state, "caller", None)
    if known is None:
        credential = await _bearer(request)
        headers = request.headers.getlist("authorization")
        if headers and (credential is None or len(headers) > 1):
            # Nobody who shows something is taken for somebody who shows nothing.
            raise Unauthenticated("send one header Authorization: Bearer <key or token>")
        known = await _keys(request).caller(None if credential is None else credential.credentials)
        check_query(request)
        request.state.caller = known
    return known


def forget_caller(request: Request) -> None:
    """Has the caller looked up anew."""
    request.state.caller = None


async def _caller(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    return await caller_of(request)


CallerDep = Annotated[Caller, Depends(_caller)]


async def known_query(connection: HTTPConnection) -> None:
    """The dependency of every route: refuses a query that the route does not take.

    Where a route asks who calls, nothing is said of the query before that is clear: ``caller_of`` checks it
    then. So does a socket's handshake.
    """
    dependant = dependant_of(connection)
    if connection.scope["type"] == "http" and not (dependant and _asks_who_calls(dependant)):
        check_query(connection)


def _asks_who_calls(dependant: Dependant) -> bool:
    return dependant.call is _caller or any(map(_asks_who_calls, dependant.dependencies))


class Guard:
    """A dependency of a route that looks at the caller and the address: it is asked before a body is read."""

    async def check(self, request: Request, caller: Caller) -> None:
        """Raises AvalonError for who may not call."""
        raise NotImplementedError

    async def __call__(self, request: Request, caller: CallerDep) -> None:
        await self.check(request, caller)


class needs(Guard):  # reads as a word where routes list their dependencies
    """A dependency that lets only callers with a scope through; writing also ends when draining."""

    def __init__(self, scope: str, *, writes: bool = False) -> None:
        self._scope = scope
        self._writes = writes

    async def check(self, request: Request, caller: Caller) -> None:
        caller.needs(self._scope)
        if self._writes and _lifecycle(request).draining:
            raise Draining("the service is stopping; try again in a moment")


def needs_or_watches(scope: str, caller: Caller) -> None:
    """Raises Forbidden for a key without the scope, and for a token that is not for a whole batch."""
    if caller.grant is None or caller.grant.batch is None:
        caller.needs(scope)


def viewer_for(caller: Caller, name: str | None, players: int) -> Viewer:
    """Whose eyes the caller looks through: its own, or by ``?viewer=`` lower ones.

    Raises InvalidRequest for a name that is none, Forbidden for eyes that are not the caller's.
    """
    if name is None:
        return caller.viewer
    try:
        viewer = read_viewer(name, players)
    except InvalidInput:
        # The rules' own message repeats what was sent.
        raise InvalidRequest(f"a viewer is public, full or seat:1 to seat:{players}", "/viewer") from None
    if viewer not in (PUBLIC, caller.viewer) and not caller.sees_all:
        raise Forbidden("only a caller with export:full looks through other eyes")
    return viewer


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
    """Whether ``If-Match`` or ``If-None-Match`` names this tag, or any at all."""
    return header.strip() == "*" or etag in [
        listed.strip().removeprefix("W/") for listed in header.split(",")
    ]
