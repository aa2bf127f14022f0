"""Whose requests are taken: which name this machine is called by, and which web pages may call.

As long as no credential is asked for, whoever reaches the service may do everything. Then only this machine
may call, and a page in this machine's browser is not this machine.
"""

import re
from collections.abc import Collection
from typing import Final

from starlette.types import Scope

from app.errors import Forbidden

__all__ = ["check_caller"]

_THIS_MACHINE: Final = re.compile(
    r"(?:localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?", re.ASCII | re.IGNORECASE
)

_MAX_PORT: Final = 65_535

_FOR_PEOPLE: Final = frozenset({"/", "/docs", "/reports"})
"""Pages that a link on another site may lead to. Some other GETs change what a caller is taken to know."""


def check_caller(scope: Scope, *, keyless: bool, origins: Collection[str]) -> None:
    """Raises Forbidden for a page of another origin; while ``keyless`` also for a name that was bent to this
    machine, and for what another site's page makes a browser send.
    """
    hosts = _values(scope, b"host")
    if keyless and not (len(hosts) == 1 and _is_this_machine(hosts[0])):
        raise Forbidden("without an API key the service answers to localhost only")
    given = _values(scope, b"origin")
    if given:
        if len(given) > 1 or not (_is_same(given[0], hosts) or _is_listed(given[0], origins)):
            raise Forbidden("this web origin is not on the list; INTERINTENT_ORIGINS names those that are")
    elif keyless and _comes_from_elsewhere(scope) and not _follows_a_link(scope):
        raise Forbidden("without an API key the service takes nothing that a page of another site sends")


def _is_this_machine(host: str) -> bool:
    found = _THIS_MACHINE.fullmatch(host)
    return found is not None and int(found[1] or 0) <= _MAX_PORT


def _is_same(origin: str, hosts: list[str]) -> bool:
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name != "" and hosts == [name]


def _is_listed(origin: str, origins: Collection[str]) -> bool:
    # Anybody's sandboxed frame is "null", whatever list it stands on.
    return origin != "null" and origin in origins


def _comes_from_elsewhere(scope: Scope) -> bool:
    # Browsers say so themselves, and let no page say otherwise; programs send nothing of the kind.
    return any(site not in ("same-origin", "none") for site in _values(scope, b"sec-fetch-site"))


def _follows_a_link(scope: Scope) -> bool:
    """Whether a whole page is asked for, which the site that links to it can neither read nor frame."""
    return (
        scope["type"] == "http"
        and scope["method"] in ("GET", "HEAD")
        and (scope["path"] in _FOR_PEOPLE or scope["path"].startswith("/docs/"))
        and _values(scope, b"sec-fetch-mode") == ["navigate"]
        and _values(scope, b"sec-fetch-dest") == ["document"]
    )


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
