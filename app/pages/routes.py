"""Pages for people: where to begin, the guides, and the API to try out.

Nothing here needs a credential, and no page loads anything from another server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment
from markupsafe import Markup
from pydantic import BaseModel

from app.base.errors import NotFound
from app.base.off_loop import off_loop
from app.base.problems import documented
from app.edge.headers import PAGE_POLICY, SCRIPT_POLICY
from app.pages.guide_pages import guide_html
from app.pages.ui import PageRoute, prefers_page

__all__ = ["LINKS", "router", "served_files"]

router = APIRouter(route_class=PageRoute)

_NAME: Final = "InterIntent Server"


class PageLink(BaseModel):
    href: str
    title: str
    media_type: str


class Home(BaseModel):
    """Where to begin."""

    name: str
    socket: str
    links: list[PageLink]


def _guide(name: str, title: str) -> PageLink:
    return PageLink(href=f"/docs/{name}.md", title=title, media_type="text/markdown")


def _data(href: str, title: str) -> PageLink:
    return PageLink(href=href, title=title, media_type="application/json")


LINKS: Final = (
    PageLink(href="/ui/", title="Watch, play, judge, compare", media_type="text/html"),
    PageLink(href="/docs", title="The API, to read and to try out", media_type="text/html"),
    _guide("pages", "Games in the browser: watch, read, share"),
    _guide("first-study", "A first study: from a key to a table of models"),
    _guide("study", "A study: from one file to a report and a pack"),
    _guide("concepts", "Game, turn, thought, item, score: what the words mean"),
    _guide("bots", "Write a bot, in any language"),
    _guide("websocket", "Watch games live"),
    _guide("evaluation", "Items, scores, raters and judges"),
    _guide("raters", "For people who judge"),
    _guide("reports", "Reports of your own games"),
    _guide("ratings", "Ratings of bots and models"),
    _guide("datasets", "Games as tables: data sets"),
    _guide("models", "Language models as players"),
    _guide("operating", "Settings, databases, metrics, containers"),
    _guide("problems", "Every error, and what to do about it"),
    _guide("glossary", "What each word means"),
    _guide("architecture", "Where things are in the source"),
    _guide("performance", "How fast it is, and how that is measured"),
    _guide("scale", "What a core, a process and a database carry"),
    _data("/openapi.json", "OpenAPI document of the HTTP API"),
    _data("/asyncapi.json", "AsyncAPI document of the socket"),
    _data("/intentions", "The catalogue of intentions"),
    _data("/profiles", "The rule sets"),
    _data("/games", "Games, the newest first"),
    _data("/readyz", "Can the service take requests?"),
)

_PAGES: Final = files("app") / "pages"
_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "png": "image/png",
}


@dataclass(frozen=True, slots=True)
class ServedFile:
    content: bytes
    media_type: str


@cache
def served_files() -> Mapping[str, ServedFile]:
    """The files of ``/docs/{name}`` by name: guides, Swagger UI, and our own style and script."""
    swagger = files("fastapi_swagger") / "resources"
    paths = [swagger / name for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")]
    paths += [_PAGES / name for name in ("page.css", "swagger-start.js")]
    paths += [path for path in (_PAGES / "guides").iterdir() if path.name.endswith(".md")]
    return {
        path.name: ServedFile(path.read_bytes(), _MEDIA_TYPES[path.name.rpartition(".")[2]]) for path in paths
    }


@cache
def _template(name: str) -> str:
    return (_PAGES / name).read_text("utf-8")


def _render(name: str, /, **values: object) -> str:
    environment = Environment(autoescape=True, trim_blocks=True)
    return environment.from_string(_template(name)).render(values)


@router.get(
    "/",
    summary="Where to begin",
    response_model=Home,
    responses={303: {"description": "To a browser: the pages are at `/ui/`."}},
)
async def show_home(request: Request) -> Response:
    """Documentation, contracts and the first things to look at; a browser is led to the pages."""
    varying = {"Vary": "Accept"}
    if prefers_page(request.headers.get("accept", "")):
        # Relative: behind a proxy the service may stand under a prefix.
        return Response(status_code=303, headers={**varying, "Location": "ui/"})
    body = Home(name=_NAME, socket="/ws", links=list(LINKS))
    return JSONResponse(body.model_dump(mode="json"), headers=varying)


@router.get(
    "/docs",
    summary="The API, to read and to try out",
    response_class=HTMLResponse,
)
async def show_swagger() -> HTMLResponse:
    """Swagger UI on `/openapi.json`."""
    return HTMLResponse(_template("swagger.html"), headers={"Content-Security-Policy": SCRIPT_POLICY})


@router.get(
    "/docs/index.html",
    summary="Links to guides and documents",
    response_class=HTMLResponse,
)
async def show_links() -> HTMLResponse:
    """The links of `/` as a page, which needs no JavaScript."""
    page = _render("links.html.j2", name=_NAME, links=LINKS)
    return HTMLResponse(page, headers={"Content-Security-Policy": PAGE_POLICY})


@router.get(
    "/docs/{name}",
    summary="A guide, or a file of the page",
    response_class=Response,
    responses=documented(
        404,
        also={
            200: {
                "content": {
                    kind: {}
                    for kind in ("text/markdown", "text/html", "text/css", "text/javascript", "image/png")
                },
                "description": "`bots.md` explains how to write a bot.",
            }
        },
    ),
)
async def show_guide(
    request: Request, name: Annotated[str, Path(max_length=64, description="E.g. `bots.md`.")]
) -> Response:
    """The guides as Markdown, to a browser as pages: `bots.md`, `websocket.md`, `evaluation.md` and others,
    which `/` lists.
    """
    file = served_files().get(name)
    if file is None:
        raise NotFound("no guide has this name; / lists them")
    headers = {"Cache-Control": "no-cache"}
    if name.endswith(".md"):
        headers["Vary"] = "Accept"
        if prefers_page(request.headers.get("accept", "")):
            page = await off_loop(_guide_page, name)
            return HTMLResponse(page, headers={**headers, "Content-Security-Policy": PAGE_POLICY})
    return Response(file.content, media_type=file.media_type, headers=headers)


def _guide_page(name: str) -> str:
    text = served_files()[name].content.decode()
    heading = text.partition("\n")[0].removeprefix("# ")
    return _render("guide.html.j2", title=f"{heading} · {_NAME}", text=Markup(guide_html(text)))
