"""What routes ask for: the services, the caller, the caller's viewer."""

from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.auth import Caller
from app.errors import Draining, Forbidden, InvalidRequest
from app.services import Services
from app.store.idempotency import Key
from engine.errors import InvalidInput
from engine.terms import FULL, PUBLIC, Viewer
from engine.view import read_viewer

__all__ = ["CallerDep", "IdempotencyKey", "ServicesDep", "needs", "viewer_for"]

_bearer = HTTPBearer(auto_error=False, description="An API key. Not asked for where none is configured.")


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]


def _caller(
    services: ServicesDep, credential: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    return services.keys.caller(None if credential is None else credential.credentials)


CallerDep = Annotated[Caller, Depends(_caller)]


class needs:  # reads as a word where routes list their dependencies
    """A dependency that lets only callers with a scope through; writing also ends when draining."""

    def __init__(self, scope: str, *, writes: bool = False) -> None:
        self._scope = scope
        self._writes = writes

    def __call__(self, caller: CallerDep, services: ServicesDep) -> None:
        caller.needs(self._scope)
        if self._writes and services.draining:
            raise Draining("the service is stopping; try again in a moment")


def viewer_for(caller: Caller, name: str | None, players: int) -> Viewer:
    """Whose eyes the caller looks through: its own, or by ``?viewer=`` lower ones.

    Raises InvalidRequest for a name that is none, Forbidden for eyes that are not the caller's.
    """
    if name is None:
        return FULL if caller.sees_all else PUBLIC
    try:
        viewer = read_viewer(name, players)
    except InvalidInput:
        # The rules' own message repeats what was sent.
        raise InvalidRequest(f"a viewer is public, full or seat:1 to seat:{players}", "/viewer") from None
    if viewer != PUBLIC and not caller.sees_all:
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
