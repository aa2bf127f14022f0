"""Query parameters: the route must take each of them, and none may be repeated. Links to the next page."""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import Query
from fastapi.dependencies.models import Dependant
from starlette.requests import HTTPConnection
from starlette.responses import Response

from app.base.errors import InvalidRequest

__all__ = ["MAX_LISTED", "check_query", "comma_list", "dependant_of", "link_next", "listed"]

MAX_LISTED: Final = 20
"""The most elements of a comma-separated list."""


def check_query(connection: HTTPConnection) -> None:
    """Raises InvalidRequest for a parameter that the matched route does not take, or that is repeated.

    The result depends on the address alone, not on the caller or on stored data.
    """
    if not connection.scope["query_string"]:
        return
    dependant = dependant_of(connection)
    known = [] if dependant is None else sorted(set(_names(dependant)))
    seen: set[str] = set()
    for name, _ in connection.query_params.multi_items():
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        if name not in known:
            only = f"only {', '.join(known)}" if known else "none at all"
            raise InvalidRequest(f"no such query parameter: this address takes {only}", pointer, "unknown")
        if name in seen:
            raise InvalidRequest(
                "a query parameter may be given only once; if it takes several values, separate them "
                "with commas",
                pointer,
                "repeated",
            )
        seen.add(name)


def dependant_of(connection: HTTPConnection) -> Dependant | None:
    """FastAPI's description of the matched route; None if no FastAPI route matched."""
    return getattr(connection.scope.get("route"), "dependant", None)


def _names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for inner in dependant.dependencies:
        yield from _names(inner)


def comma_list(element: str, description: str) -> Any:
    """A query parameter that takes up to 20 different elements, each matching ``element``."""
    more = f"(,{element}){{0,{MAX_LISTED - 1}}}"
    return Query(
        pattern=f"^{element}{more}$",
        description=f"{description} Several are separated by commas, at most {MAX_LISTED}.",
    )


def listed(value: str | None, name: str) -> tuple[str, ...]:
    """The elements of a comma-separated list; () for None. Raises InvalidRequest for a repeated element."""
    elements = () if value is None else tuple(value.split(","))
    if len(set(elements)) < len(elements):
        raise InvalidRequest("a list names each element once", f"/{name}", "repeated")
    return elements


def link_next(connection: HTTPConnection, response: Response, cursor: str | None) -> None:
    """Adds the link to the next page, which this cursor begins; None: this page is the last."""
    if cursor is not None:
        url = connection.url.include_query_params(cursor=cursor)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
