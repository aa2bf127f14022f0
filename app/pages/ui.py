"""The built pages at ``/ui/``: watch, play, judge, compare. They are made in ``web/`` and committed in
``app/pages/ui/``, so that a service needs no Node.
"""

import gzip
import hashlib
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Request, Response

from app.base.errors import NotFound
from app.base.problems import documented
from app.edge.bodies import BodyRoute
from app.edge.deps import matches
from app.edge.headers import SCRIPT_POLICY

__all__ = ["PageRoute", "prefers_page", "router", "ui_files"]


class PageRoute(BodyRoute):
    """A page whose address people pass on. What messengers add to it (`?fbclid=…`) is taken off again; the
    browser keeps what stands behind `#`. Programs are told that the address takes no query.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def without_query(request: Request) -> Response:
            if request.scope["query_string"] and prefers_page(request.headers.get("accept", "")):
                name = request.scope["path"].rpartition("/")[2]
                return Response(status_code=303, headers={"Location": f"./{quote(name)}", "Vary": "Accept"})
            return await handle(request)

        return without_query


router = APIRouter(route_class=PageRoute)

_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
_TEXTS: Final = ("text/", "application/json", "application/manifest+json", "image/svg+xml")

_FOR_EVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"

_VIEW: Final = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*/?")


@dataclass(frozen=True, slots=True)
class UiFile:
    """A file of the build."""

    content: bytes
    packed: bytes | None
    """The content in gzip; None where that would not be smaller."""
    etag: str
    media_type: str
    caching: str


def _read(place: Traversable, name: str = "") -> Iterator[tuple[str, UiFile]]:
    if place.is_dir():
        for inner in place.iterdir():
            yield from _read(inner, f"{name}/{inner.name}".lstrip("/"))
        return
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    content = place.read_bytes()
    packed = gzip.compress(content, mtime=0) if media_type.startswith(_TEXTS) else None
    yield (
        name,
        UiFile(
            content,
            packed if packed is not None and len(packed) < len(content) else None,
            hashlib.sha256(content).hexdigest()[:32],
            media_type,
            # The build puts a hash of its content into the name of each of these files.
            _FOR_EVER if name.startswith("assets/") else _ASK_AGAIN,
        ),
    )


@cache
def ui_files() -> Mapping[str, UiFile]:
    """The files of the build by their path below ``/ui/``."""
    return dict(_read(files("app") / "pages" / "ui"))


_BUILT: Final = documented(
    404,
    also={
        200: {
            "content": {kind.partition(";")[0]: {} for kind in sorted(_MEDIA_TYPES.values())},
            "description": "The page, or a file of its build.",
        },
        303: {"description": "`/ui/play` leads to `/ui/#/play`: the page itself finds its views."},
        304: {"description": "The file has the `ETag` that the caller knows."},
    },
)


@router.get("/ui", summary="To the pages for people", response_class=Response, status_code=303)
async def lead_to_ui() -> Response:
    """Leads to `/ui/`."""
    return Response(status_code=303, headers={"Location": "ui/"})


@router.get("/ui/{path:path}", summary="The pages for people", response_class=Response, responses=_BUILT)
async def show_ui(
    path: Annotated[str, Path(max_length=200, description="A file of the build; empty: the page itself.")],
    if_none_match: Annotated[str | None, Header(max_length=200)] = None,
    accept_encoding: Annotated[str, Header(max_length=200)] = "",
) -> Response:
    """Watch, play, judge and compare in a browser. Needs no credential: what is shown comes over the API."""
    file = ui_files().get(path or "index.html")
    if file is None:
        if _VIEW.fullmatch(path):
            return Response(
                status_code=303,
                headers={"Location": f"{'../' * path.count('/') or './'}#/{path.rstrip('/')}"},
            )
        raise NotFound("the pages have no file of this name; they begin at /ui/")
    packed = file.packed if _takes_gzip(accept_encoding) else None
    headers = {
        "Cache-Control": file.caching,
        "Content-Security-Policy": SCRIPT_POLICY,
        "ETag": f'"{file.etag}{"-gzip" if packed is not None else ""}"',
    }
    if file.packed is not None:
        headers["Vary"] = "Accept-Encoding"
    if if_none_match is not None and matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if packed is not None:
        headers["Content-Encoding"] = "gzip"
    return Response(file.content if packed is None else packed, media_type=file.media_type, headers=headers)


def prefers_page(accept: str) -> bool:
    """Whether the caller prefers HTML to JSON; one without a preference, such as ``curl``, gets JSON."""
    wanted: dict[str, float] = {}
    for part in accept.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        quality = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
        try:
            wanted[kind] = float(quality)
        except ValueError:
            wanted[kind] = 0.0

    def quality_of(kind: str) -> float:
        group = f"{kind.partition('/')[0]}/*"
        return next((wanted[name] for name in (kind, group, "*/*") if name in wanted), 0.0)

    return quality_of("text/html") > quality_of("application/json")


def _takes_gzip(accepted: str) -> bool:
    """Whether a caller with this ``Accept-Encoding`` takes gzip."""
    for part in accepted.lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        if coding == "gzip":
            return not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters)
    return False
