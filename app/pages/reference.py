"""Routes with reference data (intentions, profiles, schemas), and the state of the service."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from app.base import metrics
from app.base.clock import timestamp
from app.base.errors import NotFound, NotReady
from app.base.off_loop import off_loop
from app.base.problem_kinds import ProblemKind, problem_kinds
from app.base.problems import documented, in_text
from app.edge.bodies import BodyRoute
from app.edge.deps import LifecycleDep, caller_of, needs
from app.games.schemas import IntentionView, ProfileView
from app.models.endpoints import Endpoints
from app.protocol.asyncapi import document, standalone
from app.store.db import Database
from engine.intentions import CATALOGUE
from engine.profile import PROFILES, make_profile

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The OpenAPI document of the routes."""
    return JSONResponse(await off_loop(request.app.openapi))  # made at the first request


class Health(BaseModel):
    status: str


class EndpointState(BaseModel):
    """Whether a model's endpoint answers, as far as this process knows."""

    name: str
    answers: bool
    since: str | None = Field(description="Since when it does not answer.")
    cause: str | None = Field(description="Why its last call brought no answer.")


class Readiness(Health):
    endpoints: list[EndpointState] = Field([], description="With `verbose`: every configured endpoint.")


@router.get("/intentions", summary="The catalogue of intentions", response_model=list[IntentionView])
async def list_intentions() -> Any:
    """All intentions with their labels and categories, and when each role is offered them."""
    return [
        {
            "id": intention.id,
            "category": intention.category,
            "label": intention.label,
            "roles": sorted(intention.roles),
            "turn": dict(intention.turn),
            "first_quest": intention.first_quest,
            "requires": list(intention.requires),
            "impactful_release": intention.impactful_release,
            "aliases": list(intention.aliases),
        }
        for intention in CATALOGUE
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
    """What a problem of this `type` means, and what to do about it; `/docs/problems.md` has all of them."""
    for problem in problem_kinds():
        if problem.code == code:
            return problem
    raise NotFound("no problem has this code; /docs/problems.md lists them")


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
    schema = standalone(name)
    if schema is None:
        raise NotFound("no schema has this name; /asyncapi.json has them all")
    return SchemaResponse(schema)


@router.get("/livez", summary="Is the process alive?", response_model=Health)
async def show_liveness() -> Health:
    return Health(status="alive")


@router.get(
    "/readyz",
    summary="Can it take requests?",
    response_model=Readiness,
    response_model_exclude_unset=True,
    responses=documented(503),
)
async def show_readiness(
    lifecycle: LifecycleDep,
    request: Request,
    verbose: Annotated[
        bool,
        BeforeValidator(lambda value: value == "" or value),  # ?verbose, without a value
        Query(description="With the state of each endpoint (`metrics:read`)."),
    ] = False,
) -> Readiness:
    """200 when the schema is migrated, the database answers and takes writes, and the service is not
    stopping; else 503, and `detail` says in a sentence what is the matter. The service stays ready
    while a model's endpoint does not answer: that endpoint's games wait, and all others go on.
    """
    if verbose and lifecycle.ready:
        (await caller_of(request)).needs("metrics:read")
    if not lifecycle.ready:
        raise NotReady(lifecycle.reason)
    database: Database = request.app.state.database
    if (trouble := await database.trouble()) is not None:
        raise NotReady(trouble.words)
    if not verbose:
        return Readiness(status="ready")
    endpoints: Endpoints = request.app.state.models.endpoints
    away = {outage.endpoint: outage for outage in endpoints.outages(endpoints.settings)}
    return Readiness(
        status="ready",
        endpoints=[
            EndpointState(
                name=name,
                answers=name not in away,
                since=timestamp(away[name].since) if name in away else None,
                cause=away[name].cause if name in away else None,
            )
            for name in sorted(endpoints.settings)
        ],
    )


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    dependencies=[Depends(needs("metrics:read"))],
    response_class=Response,
    responses=documented(
        also={200: {"content": in_text("text/plain"), "description": "The exposition format."}}
    ),
)
async def show_metrics(request: Request) -> Response:
    """Metrics of this process for Prometheus, and the number of unfinished games in the database."""
    await request.app.state.gauges.refresh()
    return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)
