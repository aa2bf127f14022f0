"""Checks from which hosts and web origins requests may come.

As long as no credential is needed, every caller may do everything. Only this machine may call then, and a
web page of another site in this machine's browser may not.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final
from urllib.parse import unquote_plus

from starlette.types import ASGIApp, Receive, Scope, Send

from app.base.errors import CredentialInUrl, Forbidden
from app.base.problems import problem_response
from engine.errors import AvalonError

__all__ = ["CallerCheck", "check_caller", "check_url"]

_THIS_MACHINE: Final = re.compile(
    r"(?:localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?", re.ASCII | re.IGNORECASE
)

_MAX_PORT: Final = 65_535

_OF_PROXIES: Final = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")
"""Headers in which proxies and tunnels name the client, or themselves. Programs on this machine send none."""

_FOR_PEOPLE: Final = frozenset({"/", "/docs", "/reports"})
"""Pages that other sites may link to. Links to any other page are refused, since a GET may record what its
caller has seen.
"""


def check_caller(scope: Scope, *, keyless: bool, origins: Collection[str]) -> None:
    """Raises Forbidden for a request by a web page of another origin. If ``keyless`` (no credential is
    needed), also for a host name other than localhost (DNS rebinding), for requests that a page of another
    site causes, and for those that another machine sent through a proxy or a tunnel.
    """
    hosts = _values(scope, b"host")
    if keyless and not (len(hosts) == 1 and _is_this_machine(hosts[0])):
        raise Forbidden("without an API key the service answers to localhost only")
    if keyless and any(_values(scope, name) for name in _OF_PROXIES):
        raise Forbidden(
            "without an API key the service refuses what comes through a proxy: everybody behind it could do "
            "everything; make a key (interintent keys create)"
        )
    named = _values(scope, b"origin")
    if named:
        if len(named) > 1 or not (_is_same(named[0], hosts) or _is_listed(named[0], origins)):
            raise Forbidden("this web origin is not allowed; INTERINTENT_ORIGINS lists those that are")
    elif keyless and _comes_from_elsewhere(scope) and not _follows_a_link(scope):
        raise Forbidden("without an API key the service refuses requests from pages of other sites")


def _is_this_machine(host: str) -> bool:
    match = _THIS_MACHINE.fullmatch(host)
    return match is not None and int(match[1] or 0) <= _MAX_PORT


def _is_same(origin: str, hosts: list[str]) -> bool:
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name != "" and hosts == [name]


def _is_listed(origin: str, origins: Collection[str]) -> bool:
    # "null" is the origin of every sandboxed frame: never allowed, even if it is listed.
    return origin != "null" and origin in origins


def _comes_from_elsewhere(scope: Scope) -> bool:
    # Browsers set this header and let no page change it; other programs do not send it.
    return any(site not in ("same-origin", "none") for site in _values(scope, b"sec-fetch-site"))


def _follows_a_link(scope: Scope) -> bool:
    """Whether the browser opens a whole page, which the linking site can neither read nor frame."""
    return (
        scope["type"] == "http"
        and scope["method"] in ("GET", "HEAD")
        and (scope["path"] in _FOR_PEOPLE or scope["path"].startswith(("/docs/", "/ui/")))
        and _values(scope, b"sec-fetch-mode") == ["navigate"]
        and _values(scope, b"sec-fetch-dest") == ["document"]
    )


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


_CREDENTIAL: Final = re.compile(
    r"\bik_[A-Za-z0-9_-]{43}|\beyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\."
    r"|[?&](?:access_|auth_|seat_|watch_)?(?:token|key|api[_-]?key|authorization|bearer|jwt)=",
    re.IGNORECASE,
)


class CallerCheck:
    """Middleware for ``check_caller`` and ``check_url``. ``keyless``: whether no credential is needed now."""

    def __init__(self, app: ASGIApp, *, keyless: Callable[[], bool], origins: Sequence[str]) -> None:
        self._app = app
        self._keyless = keyless
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                check_caller(scope, keyless=self._keyless(), origins=self._origins)
                check_url(scope)
            except AvalonError as refusal:
                await problem_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_url(scope: Scope) -> None:
    """Raises CredentialInUrl for a key or a token in the path or the query, recognised by form or by name."""
    url = unquote_plus(f"{scope['path']}?{scope['query_string'].decode('latin-1')}")
    if _CREDENTIAL.search(url):
        raise CredentialInUrl(
            "send a credential as Authorization: Bearer, or as the token of identify; and replace this one: "
            "addresses end up in logs"
        )
