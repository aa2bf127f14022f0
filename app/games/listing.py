"""Lists of games and batches, as far as the caller may see them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, get_args

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime

from app.base.clock import timestamp
from app.base.problems import documented
from app.base.schemas import GameStatus
from app.edge.auth import Caller
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, service
from app.edge.queries import comma_list, link_next, listed
from app.games.access import needs_or_watches
from app.games.schemas import OVER, BatchPage, BatchSummary, GamePage, GameSummary
from app.games.status import batch_status, games_by_status
from app.store.games import ENDED, GameStore, Tallied
from app.store.listing import GAME_ORDERS, GameFilter, GameLine, Listing
from app.store.rows import BatchRow, Damaged
from engine.errors import UNREADABLE, CorruptLog
from engine.terms import Side

__all__ = ["Lists", "router"]

router = APIRouter(route_class=BodyRoute)

LABEL: Final = r"^[^=\x00]{1,64}=[^\x00\n]{0,256}$"
"""No label holds U+0000, and no database takes it."""

Label = Annotated[
    str | None,
    Query(pattern=LABEL, description="Only of batches with this label, as `name=value`."),
]
Since = Annotated[AwareDatetime | None, Query(description="Only what was created then or later.")]
Until = Annotated[AwareDatetime | None, Query(description="Only what was created before.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="The most to list.")]
Cursor = Annotated[
    str | None,
    Query(max_length=400, pattern=r"^[A-Za-z0-9_-]+$", description="The `next` of the previous page."),
]


class Lists:
    """Pages of what a caller may see."""

    def __init__(self, listing: Listing, store: GameStore) -> None:
        self._listing = listing
        self._store = store

    async def games(
        self, caller: Caller, wanted: GameFilter, *, sort: str, limit: int, cursor: str | None
    ) -> GamePage:
        """A page of the caller's games, of everybody's with ``games:read:any``. Where the caller does not see
        games in full, it leaves out forks of games that still run, and games whose origin cannot be read.
        """
        if caller.grant is None:
            by_seat = bool(wanted.agents or wanted.models)
            if not caller.has_any("games:read") or (by_seat and not caller.sees_all):
                wanted = replace(wanted, owner=caller.owner)
            # Who sits where, only of games that the caller sees in full.
            wanted = replace(wanted, shared=caller.key_id is None or not by_seat)
        # Words are found in what is shown alone: see _game_summary.
        in_seats = None if caller.sees_all else caller.owner if "export:full" in caller.scopes else ""
        wanted = replace(
            wanted, in_labels=caller.grant is None, in_seats=in_seats, in_shared_seats=caller.key_id is None
        )
        lines, following = await self._listing.games(
            wanted,
            order=sort.removeprefix("-"),
            descending=sort.startswith("-"),
            limit=limit,
            cursor=cursor,
            with_seats="export:full" in caller.scopes,
        )
        if caller.grant is None:
            unseen = [line for line in lines if not caller.may("export:full", line.values["owner"])]
            unknown = {line.game_id for line in unseen if isinstance(line.forked_from, Damaged)}
            forks = [line.game_id for line in unseen if line.game_id not in unknown and line.forked_from]
            hidden = unknown | await self._store.ahead(forks)
            lines = [line for line in lines if line.game_id not in hidden]
        shown = {line.game_id: _game_summary(line, caller) for line in lines}
        return GamePage(
            games=[summary for summary in shown.values() if summary is not None],
            damaged=[game_id for game_id, summary in shown.items() if summary is None],
            next=following,
        )

    async def batches(
        self,
        caller: Caller,
        *,
        label: tuple[str, str] | None,
        since: int | None,
        until: int | None,
        limit: int,
        cursor: str | None,
    ) -> BatchPage:
        """A page of the caller's batches, of everybody's with ``games:read:any``; without those of forks of
        games that still run, unless the caller sees them in full.
        """
        rows, damaged, following = await self._listing.batches(
            owner=None if caller.has_any("games:read") else caller.owner,
            label=label,
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )
        tallies = await self._store.tallies([row.batch_id for row in rows])
        shown = []
        for row in rows:
            try:
                if not caller.may("export:full", row.owner) and await self._store.is_ahead(row):
                    continue
                shown.append(_batch_summary(row, tallies[row.batch_id]))
            except UNREADABLE:
                damaged.append(row.batch_id)
        return BatchPage(batches=shown, damaged=damaged, next=following)


def title_of(labels: Any) -> str:
    """What to call a batch with these labels; empty without labels, and for labels that cannot be read."""
    if isinstance(labels, Damaged) or not labels:
        return ""
    if title := labels.get("title"):
        return str(title)
    named = [str(labels[name]) for name in ("study", "cell") if labels.get(name)]
    return " / ".join(named) or ", ".join(f"{name}={value}" for name, value in labels.items())


def _agents(seats: Any) -> list[str]:
    names = []
    for seat in seats:
        agent, model = seat["agent"], seat.get("model") or ""
        if not (isinstance(agent, str) and isinstance(model, str)):
            raise TypeError("an agent or a model is no text")
        names.append(f"{agent} {model}".rstrip())
    return list(dict.fromkeys(names))


def _game_summary(line: GameLine, caller: Caller) -> GameSummary | None:
    if not line.readable:
        return None
    values = line.values
    sees_agents = caller.may("export:full", values["owner"]) and (
        caller.key_id is None or values["taken"] is None or values["status"] in ENDED
    )
    try:
        return GameSummary(
            game_id=line.game_id,
            batch_id=values["batch_id"],
            position=values["position"],
            status=values["status"],
            profile=values["profile"],
            players=values["players"],
            created_at=timestamp(values["created_at"]),
            finished_at=None if values["finished_at"] is None else timestamp(values["finished_at"]),
            winner=values["winner"],
            ending=values["ending"],
            title=None if caller.grant is not None else title_of(values["labels"]),
            agents=_agents(values["seats"]) if sees_agents else None,
        )
    except (CorruptLog, *UNREADABLE):
        return None


def _batch_summary(row: BatchRow, tallied: Tallied) -> BatchSummary:
    status = batch_status(row, tallied)
    found = games_by_status(row, tallied)
    finished = tallied.last_finished if status in OVER else None
    return BatchSummary(
        batch_id=row.batch_id,
        title=title_of(row.labels),
        labels={} if isinstance(row.labels, Damaged) else dict(row.labels),
        status=status,  # type: ignore[arg-type]
        count=sum(found.values()),
        created_at=timestamp(row.created_at),
        finished_at=None if finished is None else timestamp(finished),
        games=found,  # type: ignore[arg-type]
        winners=dict(tallied.winners),  # type: ignore[arg-type]
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def _pair(label: str | None) -> tuple[str, str] | None:
    name, _, value = (label or "").partition("=")
    return None if label is None else (name, value)


def _answer(request: Request, page: GamePage | BatchPage) -> Response:
    """The page, as it was checked when it was made: FastAPI would check it again."""
    response = Response(page.model_dump_json(), media_type="application/json")
    link_next(request, response, page.next)
    return response


def _any_of(values: Sequence[str]) -> str:
    return f"({'|'.join(values)})"


ListsDep = Annotated[Lists, service("lists")]


@router.get("/games", summary="List games", response_model=GamePage, responses=documented())
async def list_games(
    lists: ListsDep,
    caller: CallerDep,
    request: Request,
    status: Annotated[
        str | None, comma_list(_any_of(get_args(GameStatus)), "Only games of this status.")
    ] = None,
    batch: Annotated[str | None, comma_list("b_[a-z0-9]{1,32}", "Only games of this batch.")] = None,
    profile: Annotated[str | None, comma_list("[a-z0-9_-]{1,40}", "Only games of this profile.")] = None,
    winner: Annotated[str | None, comma_list(_any_of([*Side]), "Only games that this side has won.")] = None,
    label: Label = None,
    agent: Annotated[
        str | None,
        comma_list("[A-Za-z0-9_.-]{1,64}", "Only games with a seat of this agent (`export:full`)."),
    ] = None,
    model: Annotated[
        str | None,
        comma_list(
            "[A-Za-z0-9_.-]{1,64}",
            "Only games with a seat that names this model, as it was named in the request (`export:full`).",
        ),
    ] = None,
    find: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=r"^[^\x00]*$",
            description="Only games whose line in the list contains all of these words, each anywhere in an "
            "id, the profile, the status, the winner, the ending, a label of the batch, an agent or a model.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    sort: Annotated[
        str,
        Query(
            pattern=f"^-?{_any_of(list(GAME_ORDERS))}$",
            description="With `-`, the largest or latest first. Games that are equal in it come newest batch "
            "first, and in their order within it.",
        ),
    ] = "-created",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The caller's own games, everybody's with `games:read:any`. Newest batches first, games in their order
    within a batch. A batch's watch token lists that batch.
    """
    needs_or_watches("games:read", caller)
    of_batches = listed(batch, "batch")
    if not of_batches or not all(map(caller.reaches_batch, of_batches)):
        caller.needs("games:read")
    if label is not None:
        caller.needs("games:read")  # watchers of a batch are not shown its labels
    if agent is not None or model is not None:
        caller.needs("export:full")  # who sits where
    wanted = GameFilter(
        statuses=listed(status, "status"),
        batches=of_batches,
        profiles=listed(profile, "profile"),
        winners=listed(winner, "winner"),
        label=_pair(label),
        agents=listed(agent, "agent"),
        models=listed(model, "model"),
        since=_ms(since),
        until=_ms(until),
        words=tuple(dict.fromkeys((find or "").split())),
    )
    return _answer(request, await lists.games(caller, wanted, sort=sort, limit=limit, cursor=cursor))


@router.get("/batches", summary="List batches", response_model=BatchPage, responses=documented())
async def list_batches(
    lists: ListsDep,
    caller: CallerDep,
    request: Request,
    label: Label = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The caller's own, everybody's with `games:read:any`. The newest first, with how many of their games
    have which status and winner.
    """
    caller.needs("games:read")
    page = await lists.batches(
        caller, label=_pair(label), since=_ms(since), until=_ms(until), limit=limit, cursor=cursor
    )
    return _answer(request, page)
