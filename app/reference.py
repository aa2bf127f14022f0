"""What never changes while the service runs: the catalogue, the profiles, how the service feels."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, JsonValue
from sqlalchemy import text

from app import metrics
from app.asyncapi import document, standalone
from app.auth import Caller
from app.bodies import BodyRoute
from app.deps import CallerDep, ServicesDep
from app.errors import NotFound, NotReady
from app.games.schemas import IntentionView, ProfileView
from app.problems import INTERNAL, PROBLEMS, documented, in_text
from engine.intentions import CATALOGUE
from engine.profile import PROFILES, make_profile

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The OpenAPI document of the routes."""
    return JSONResponse(request.app.openapi())


class Health(BaseModel):
    status: str


class ProblemKind(BaseModel):
    code: str
    title: str
    status: int


@router.get("/intentions", summary="The catalogue of intentions", response_model=list[IntentionView])
async def list_intentions() -> Any:
    """All intentions with their labels, categories, and when which role is offered them."""
    return [
        {
            "id": one.id,
            "category": one.category,
            "label": one.label,
            "roles": sorted(one.roles),
            "turn": dict(one.turn),
            "first_quest": one.first_quest,
            "requires": list(one.requires),
            "impactful_release": one.impactful_release,
            "aliases": list(one.aliases),
        }
        for one in CATALOGUE
    ]


@router.get("/profiles", summary="The rule sets", response_model=list[ProfileView])
async def list_profiles() -> Any:
    """Every profile with its settings for 5 to 10 players."""
    return [
        {"name": name, "players": {str(n): make_profile(name, n).settings() for n in range(5, 11)}}
        for name in PROFILES
    ]


@router.get(
    "/problems/{code}", summary="What a problem means", response_model=ProblemKind, responses=documented(404)
)
async def show_problem(code: str) -> Any:
    """The kind that a problem's `type` names."""
    for one in (*PROBLEMS.values(), INTERNAL):
        if one.code == code:
            return {"code": one.code, "title": one.title, "status": one.status}
    raise NotFound("no problem has this code")


@router.get(
    "/asyncapi.json",
    summary="What passes over the socket",
    response_model=dict[str, JsonValue],
)
async def show_asyncapi() -> Response:
    """The AsyncAPI 3.0 document of `/ws`: every frame both ways, close codes, examples."""
    return Response(document(), media_type="application/json")


class SchemaResponse(JSONResponse):
    media_type = "application/schema+json"


@router.get(
    "/schemas/{name}",
    summary="One schema of the socket",
    response_class=SchemaResponse,
    responses=documented(404),
)
async def show_schema(
    name: Annotated[str, Path(max_length=64, description="A frame, action, thought or event: `VoteCast`.")],
) -> Any:
    """A frame, an action, a thought or an event as JSON Schema 2020-12, with all that it refers to."""
    found = standalone(name)
    if found is None:
        raise NotFound("no schema has this name; they are those of /asyncapi.json")
    return SchemaResponse(found)


@router.get("/livez", summary="Is the process alive?", response_model=Health)
async def show_liveness() -> Health:
    return Health(status="alive")


@router.get(
    "/readyz",
    summary="Can it take requests?",
    response_model=Health,
    responses=documented(503),
)
async def show_readiness(services: ServicesDep) -> Health:
    """200 when the schema is migrated, the database answers and the service is not stopping."""
    if not services.ready:
        raise NotReady("it is stopping" if services.draining else "it is starting")
    try:
        async with services.database.read_engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except Exception:
        raise NotReady("the database does not answer") from None
    return Health(status="ready")


def _may_scrape(caller: CallerDep) -> Caller:
    caller.needs("metrics:read")
    return caller


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses=documented(
        also={200: {"content": in_text("text/plain"), "description": "The exposition format."}}
    ),
)
async def show_metrics(_: Annotated[Caller, Depends(_may_scrape)]) -> Response:
    return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)
