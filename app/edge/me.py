"""Who the caller is, and what is left of its quotas."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.base.clock import timestamp
from app.base.problems import documented
from app.edge.auth import Caller
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, service
from app.edge.quotas import Quotas, QuotaUse
from engine.terms import FULL, PUBLIC, Viewer
from engine.view import viewer_name

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)


class QuotaView(BaseModel):
    """One quota of the caller's owner."""

    name: str
    per: Literal["second", "day", "request", "once"] = Field(
        description="What the limit covers: one second, one day of UTC, one request, or everything that "
        "exists at once."
    )
    counted: Literal["process", "server"] = Field(
        description="Whether each process of the service counts for itself, or all together."
    )
    limit: float | None = Field(description="Null: no limit.")
    used: float
    left: float | None = Field(description="Null: no limit.")
    resets_at: str | None = Field(description="When the count resets; null: never, or all the time.")


class MeView(BaseModel):
    """The caller, as the service knows it."""

    name: str = Field(description="The credential's name: stable, and not secret.")
    owner: str | None = Field(
        description="The owner of the games that this credential makes, and of the "
        "quotas that apply. Null: a token."
    )
    scopes: list[str]
    viewer: str = Field(
        description="The viewer as which it sees games of others: `public`, `full`, or for a token `seat:3`."
    )
    game: str | None = Field(description="The only game of a token.")
    batch: str | None = Field(description="The only batch of a token.")
    quotas: list[QuotaView] = Field(description="Empty for a token: the quotas are those of its owner.")


@router.get("/me", summary="The caller, and its quotas", response_model=MeView, responses=documented())
async def show_me(caller: CallerDep, quotas: Annotated[Quotas, service("quotas")]) -> MeView:
    """Says whose credential this is, and how much is left of each quota. A request beyond a quota is answered
    with 429 `quota-exceeded`, the quota's name, and `Retry-After`.

    What models use in a game in which others have seats counts at once, but a key is shown it when the game
    has finished or was cancelled: before, it would tell which seats are models.
    """
    grant = caller.grant
    used = [] if grant is not None else await quotas.used(caller.owner, shared=caller.key_id is None)
    return MeView(
        name=caller.name,
        owner=None if grant is not None else caller.owner,
        scopes=sorted(caller.scopes),
        viewer=viewer_name(_viewer(caller)),
        game=None if grant is None else grant.game,
        batch=None if grant is None else grant.batch,
        quotas=[_view(one) for one in used],
    )


def _viewer(caller: Caller) -> Viewer:
    if caller.grant is not None:
        return caller.grant.viewer
    return FULL if caller.sees_all else PUBLIC


def _view(used: QuotaUse) -> QuotaView:
    return QuotaView(
        name=used.quota.name,
        per=used.quota.per,
        counted=used.quota.counted,
        limit=used.limit,
        used=round(used.used, 6),
        left=None if used.limit is None else round(max(0.0, used.limit - used.used), 6),
        resets_at=None if used.resets_ms is None else timestamp(used.resets_ms),
    )
