"""What routes ask for: the services, the caller, the game it reaches, the viewer it is there."""

from typing import Annotated

from fastapi import Depends, Header, Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from app.auth import Caller
from app.errors import Draining, Forbidden, InvalidRequest, NotFound, Unauthenticated
from app.queries import check_query, dependant_of
from app.services import Services
from app.store.games import Row
from app.store.idempotency import Key
from engine.errors import InvalidInput
from engine.terms import PUBLIC, Viewer
from engine.view import read_viewer

__all__ = [
    "BatchId",
    "CallerDep",
    "GameId",
    "Guard",
    "IdempotencyKey",
    "ServicesDep",
    "batch_for",
    "caller_of",
    "forget_caller",
    "game_for",
    "known_query",
    "matches",
    "needs",
    "needs_or_watches",
    "reaches",
    "viewer_for",
]

GameId = Annotated[str, Path(pattern=r"^g_[a-z0-9]{1,32}$", description="The game.")]
BatchId = Annotated[str, Path(pattern=r"^b_[a-z0-9]{1,32}$", description="The batch.")]

_bearer = HTTPBearer(
    auto_error=False,
    description="An API key, a seat token or a watch token. Not asked for while no key is configured.",
)


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]


async def caller_of(request: Request, services: Services) -> Caller:
    """Who calls, looked up once for a request. Raises Unauthenticated, and InvalidRequest for a query that
    the route does not take.
    """
    known: Caller | None = getattr(request.state, "caller", None)
    if known is None:
        credential = await _bearer(request)
        given = request.headers.getlist("authorization")
        if given and (credential is None or len(given) > 1):
            # Nobody who shows something is taken for somebody who shows nothing.
            raise Unauthenticated("send one header Authorization: Bearer <key or token>")
        known = await services.keys.caller(None if credential is None else credential.credentials)
        check_query(request)
        request.state.caller = known
    return known


def forget_caller(request: Request) -> None:
    """Has the caller looked up anew."""
    request.state.caller = None


async def _caller(
    request: Request,
    services: ServicesDep,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    return await caller_of(request, services)


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

    async def check(self, request: Request, caller: Caller, services: Services) -> None:
        """Raises AvalonError for who may not call."""
        raise NotImplementedError

    async def __call__(self, request: Request, caller: CallerDep, services: ServicesDep) -> None:
        await self.check(request, caller, services)


class needs(Guard):  # reads as a word where routes list their dependencies
    """A dependency that lets only callers with a scope through; writing also ends when draining."""

    def __init__(self, scope: str, *, writes: bool = False) -> None:
        self._scope = scope
        self._writes = writes

    async def check(self, request: Request, caller: Caller, services: Services) -> None:
        caller.needs(self._scope)
        if self._writes and services.draining:
            raise Draining("the service is stopping; try again in a moment")


def needs_or_watches(scope: str, caller: Caller) -> None:
    """Raises Forbidden for a key without the scope, and for a token that is not for a whole batch."""
    if caller.grant is None or caller.grant.batch is None:
        caller.needs(scope)


async def reaches(services: Services, caller: Caller, game: Row) -> bool:
    """Whether the credential is one for this game, which a key without ``export:full`` is not while the
    game tells more of another's past than that other one, which still runs.
    """
    if caller.grant is not None or caller.sees_all or game["forked_from"] is None:
        return caller.reaches(game)
    return not await services.store.ahead([game["game_id"]])


async def game_for(services: Services, caller: Caller, game_id: str) -> Row:
    """The row of a game that the credential reaches.

    Raises NotFound where there is none, or none for this caller: alike, and from equal work.
    """
    row = await services.games.row(game_id)
    if not await reaches(services, caller, row):
        raise NotFound("no such game for this caller")
    return row


async def batch_for(services: Services, caller: Caller, batch_id: str, scope: str = "games:read") -> Row:
    """The row of a batch that the caller reaches. Raises Forbidden, or NotFound as game_for does."""
    needs_or_watches(scope, caller)
    row = await services.games.batch_row(batch_id)
    if not caller.reaches_batch(batch_id) or (
        caller.grant is None and not caller.sees_all and await services.store.is_ahead(row)
    ):
        raise NotFound("no such batch for this caller")
    return row


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
) -> Key | None:
    if idempotency_key is None:
        return None
    if not (1 <= len(idempotency_key) <= 128 and idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidRequest(
            "an Idempotency-Key has 1 to 128 printable ASCII characters",
            "/idempotency-key",
            "idempotency_key",
        )
    return Key.of(caller.name, f"{request.method} {request.url.path}", idempotency_key, await request.body())


IdempotencyKey = Annotated[Key | None, Depends(_idempotency_key)]


def matches(header: str, etag: str) -> bool:
    """Whether ``If-Match`` or ``If-None-Match`` names this tag, or any at all."""
    return header.strip() == "*" or etag in [one.strip().removeprefix("W/") for one in header.split(",")]
