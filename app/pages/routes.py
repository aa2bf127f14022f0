"""Routes for people. Nothing here needs a credential, and nothing is loaded from anywhere else."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment

from app.base.errors import NotFound
from app.base.problems import documented
from app.edge.bodies import BodyRoute
from app.edge.headers import PAGE_POLICY, SWAGGER_POLICY
from app.pages.files import served_files, text_of
from app.pages.links import LINKS, Home

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

_NAME: Final = "InterIntent Server"


@router.get(
    "/",
    summary="Where to begin",
    response_model=Home,
    responses={200: {"content": {"text/html": {}}, "description": "Links: as JSON, to a browser as a page."}},
)
async def show_home(request: Request) -> Response:
    """Documentation, contracts and the first things to look at; `Accept: text/html` asks for the page."""
    varying = {"Vary": "Accept"}
    if not _prefers_page(request.headers.get("accept", "")):
        body = Home(name=_NAME, socket="/ws", links=list(LINKS))
        return JSONResponse(body.model_dump(mode="json"), headers=varying)
    environment = Environment(autoescape=True, trim_blocks=True)
    page = environment.from_string(text_of("home.html.j2")).render(name=_NAME, links=LINKS)
    return HTMLResponse(page, headers={**varying, "Content-Security-Policy": PAGE_POLICY})


@router.get(
    "/docs",
    summary="The API, to read and to try out",
    response_class=HTMLResponse,
)
async def show_swagger() -> HTMLResponse:
    """Swagger UI on `/openapi.json`."""
    return HTMLResponse(text_of("swagger.html"), headers={"Content-Security-Policy": SWAGGER_POLICY})


@router.get(
    "/docs/{name}",
    summary="A guide, or a file of the page",
    response_class=Response,
    responses=documented(
        404,
        also={
            200: {
                "content": {
                    kind: {} for kind in ("text/markdown", "text/css", "text/javascript", "image/png")
                },
                "description": "`bots.md` tells how to write a bot.",
            }
        },
    ),
)
async def show_guide(name: Annotated[str, Path(max_length=64, description="`bots.md`, say.")]) -> Response:
    """The guides as Markdown: `bots.md`, `websocket.md`, `evaluation.md` and others, which `/` lists."""
    file = served_files().get(name)
    if file is None:
        raise NotFound("no guide has this name; / lists them")
    return Response(file.content, media_type=file.media_type, headers={"Cache-Control": "no-cache"})


def _prefers_page(accept: str) -> bool:
    """Whether HTML is wanted rather than JSON; a caller without a preference, as ``curl``, gets JSON."""
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
