"""Games and batches over HTTP (PROTOCOL, section 3)."""

import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from sqlalchemy.exc import IntegrityError

from app.auth import Caller
from app.bodies import BodyRoute, Bounds, takes
from app.deps import (
    BatchId,
    CallerDep,
    GameId,
    IdempotencyKey,
    ServicesDep,
    batch_for,
    game_for,
    matches,
    needs,
    needs_or_watches,
    viewer_for,
)
from app.door import MAX_RECORD
from app.errors import BeyondHead, InvalidRequest, KeyInUse
from app.games.schemas import (
    BatchCreated,
    BatchView,
    Cancelled,
    ForkGame,
    GameForked,
    GameImported,
    GamePage,
    GameStatus,
    GameView,
    NewGames,
    StepGame,
    Stepped,
)
from app.games.tokens import NO_STORE, is_remote, seats_with_tokens, with_tokens
from app.games.views import batch_view, game_view, open_requests, readable_summary
from app.problems import documented, in_text
from app.queries import comma_list, listed
from app.services import Services
from app.store.games import OPEN
from app.store.idempotency import Key, kept
from app.store.json_column import Damaged
from app.store.log import Line, line_text, timestamp
from engine.errors import UNREADABLE, CorruptLog
from engine.events import payload, type_name
from engine.rules import pending
from engine.terms import FULL, PUBLIC, Viewer
from engine.view import stream, viewer_name

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

NDJSON = "application/x-ndjson"
PAGE = 500
"""Events read from the database at a time."""


def _ndjson(description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": in_text(NDJSON), "description": description}}


ViewerName = Annotated[
    str | None,
    Query(
        alias="viewer",
        pattern=r"^(public|full|seat:([1-9]|10))$",
        description="Look through lower eyes than your own: `public` or `seat:3`.",
    ),
]
After = Annotated[
    int, Query(ge=0, le=2**53, description="Go on behind this position of the viewer's own stream.")
]


def _location(created: Mapping[str, Any]) -> str:
    return f"/games/{created['game_id']}" if "game_id" in created else f"/batches/{created['batch_id']}"


async def _replayed(services: Services, key: Key | None) -> Response | None:
    if key is None:
        return None
    answer = await kept(services.database, key)
    if answer is None:
        return None
    status, body = answer
    try:
        headers = {"Idempotent-Replayed": "true", "Location": _location(body)}
        created = BatchCreated(**body) if "games" in body else None
    except UNREADABLE:
        raise CorruptLog("an answer that was kept for this Idempotency-Key does not read") from None
    if created is not None:
        body = (await with_tokens(services, created)).model_dump(mode="json")
        headers |= NO_STORE
    return JSONResponse(body, status, headers)


async def _settled(services: Services, key: Key) -> Response:
    """The answer of the request that was faster with the same key."""
    answer = await _replayed(services, key)
    if answer is None:
        raise KeyInUse("a request with this Idempotency-Key is being worked on; ask again")
    return answer


@router.post(
    "/games",
    status_code=201,
    summary="Create games",
    response_model=BatchCreated,
    dependencies=[Depends(needs("games:create", writes=True))],
    responses=documented(
        409,
        413,
        415,
        also={202: {"model": BatchCreated, "description": "The batch is large and still being laid out."}},
    ),
)
async def create_games(wish: NewGames, services: ServicesDep, key: IdempotencyKey, response: Response) -> Any:
    """Creates a batch of games. `{}` is one five-player game of scripted seats, driven to its end.

    201 when all games exist, 202 when a large batch is still being laid out; follow `GET /batches/{b}`.
    """
    if (replayed := await _replayed(services, key)) is not None:
        return replayed
    try:
        created = await services.games.create(wish, key)
    except IntegrityError:
        if key is None:
            raise
        return await _settled(services, key)
    response.status_code = 201 if wish.count <= len(created.games) or wish.count <= 200 else 202
    response.headers["Location"] = f"/batches/{created.batch_id}"
    response.headers.update(NO_STORE)
    return await with_tokens(services, created) if any(map(is_remote, wish.seats)) else created


@router.post(
    "/games/import",
    status_code=201,
    summary="Import a foreign record",
    response_model=GameImported,
    dependencies=[Depends(needs("games:create", writes=True))],
    responses=documented(409, 413, 415, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "description": "An avalon-replay v1 record.",
                        "required": ["schema"],
                    }
                }
            },
        }
    },
)
@takes(Bounds(size=MAX_RECORD, record=True))
async def import_game(
    request: Request, services: ServicesDep, key: IdempotencyKey, response: Response
) -> Any:
    """Replays an avalon-replay v1 record and stores it as a finished game.

    A record that breaks a rule is refused with the move and the rule.
    """
    if (replayed := await _replayed(services, key)) is not None:
        return replayed
    if not await request.body():
        raise InvalidRequest("send an avalon-replay v1 record", "", "missing")
    try:
        imported = await services.games.import_record(await request.json(), key)
    except IntegrityError:
        if key is None:
            raise
        return await _settled(services, key)
    response.headers["Location"] = _location({"game_id": imported.game_id})
    return imported


@router.get(
    "/games",
    summary="List games",
    response_model=GamePage,
    responses=documented(),
)
async def list_games(
    services: ServicesDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    status: Annotated[
        str | None, comma_list(f"({'|'.join(get_args(GameStatus))})", "Only games of this status.")
    ] = None,
    batch: Annotated[str | None, comma_list("b_[a-z0-9]{1,32}", "Only games of this batch.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Games a page.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=200, pattern=r"^[A-Za-z0-9_-]+$", description="From `next` of a page.")
    ] = None,
) -> GamePage:
    """Newest batches first, games in their order within a batch. A batch's watch token lists that batch."""
    needs_or_watches("games:read", caller)
    statuses, batches = listed(status, "status"), listed(batch, "batch")
    if not batches or not all(map(caller.reaches_batch, batches)):
        caller.needs("games:read")
    rows, following = await services.store.page(
        statuses=statuses, of_batches=batches, limit=limit, cursor=cursor
    )
    if caller.grant is None and not caller.sees_all:
        # A fork of which it cannot be told what it was taken from may tell of a game that is not over.
        lost = {row["game_id"] for row in rows if isinstance(row["forked_from"], Damaged)}
        forks = [row["game_id"] for row in rows if row["game_id"] not in lost and row["forked_from"]]
        hidden = lost | await services.store.ahead(forks)
        rows = [row for row in rows if row["game_id"] not in hidden]
    if following is not None:
        url = request.url.include_query_params(cursor=following)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    shown = {row["game_id"]: readable_summary(row) for row in rows}
    return GamePage(
        games=[one for one in shown.values() if one is not None],
        damaged=[game_id for game_id, one in shown.items() if one is None],
        next=following,
    )


def _etag(viewer: Viewer, head: int, status: str) -> str:
    # Nothing but what this viewer sees: a shared counter would tell of others' thinking.
    return f'"{viewer_name(viewer)}.{head}.{status}"'


@router.get(
    "/games/{game_id}",
    summary="One game through the caller's eyes",
    response_model=GameView,
    responses=documented(404, also={304: {"description": "It is as `If-None-Match` has it."}}),
)
async def show_game(
    game_id: GameId,
    services: ServicesDep,
    caller: CallerDep,
    response: Response,
    viewer_name: ViewerName = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Any:
    """The public table, a seat's own hand, or everything, by who calls."""
    row = await game_for(services, caller, game_id)
    viewer = viewer_for(caller, viewer_name, row["players"])
    view = game_view(row, await services.games.state(game_id), viewer)
    etag = _etag(viewer, view.head, row["status"])
    if if_none_match is not None and matches(if_none_match, etag):
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    return view


@router.get(
    "/games/{game_id}/events",
    summary="A game's events",
    response_class=StreamingResponse,
    responses=documented(404, 416, also=_ndjson("One event a line, in the viewer's own numbering.")),
)
async def list_game_events(
    game_id: GameId,
    services: ServicesDep,
    caller: CallerDep,
    viewer_name: ViewerName = None,
    after: After = 0,
    limit: Annotated[
        int | None, Query(ge=1, le=200, description="At most so many; left out: all there are.")
    ] = None,
    follow: Annotated[
        bool, Query(description="Stay until the game ends; a blank line when nothing happens.")
    ] = False,
) -> StreamingResponse:
    """The viewer's stream as NDJSON. Read on with `after` set to the last `seq` you have."""
    row = await game_for(services, caller, game_id)
    viewer = viewer_for(caller, viewer_name, row["players"])
    head, place = await services.places.place(game_id, viewer, after) if after else (0, 0)
    if place is None:
        raise BeyondHead(f"the stream has {head} events, after is {after}")
    # A log that does not read is refused before the response begins.
    if not await services.reader.whole(game_id):
        raise CorruptLog(f"the log of {game_id} has holes")
    first = await services.reader.lines(game_id, viewer, place, min(PAGE, limit or PAGE))
    lines = _lines(services, caller, game_id, viewer, after, place, limit, follow, first)
    return StreamingResponse(lines, media_type=NDJSON, headers={"Cache-Control": "no-store"})


async def _lines(
    services: Services,
    caller: Caller,
    game_id: str,
    viewer: Viewer,
    seq: int,
    place: int,
    limit: int | None,
    follow: bool,
    found: Sequence[Line],
) -> AsyncIterator[bytes]:
    left = limit
    # Not what a wait says: where others write too, it wakes several times a second for nothing.
    sent = time.monotonic()
    with services.feed.watch(game_id) as watch:
        while True:
            # The status first: what is read after it holds everything that it speaks of.
            row = await services.games.row(game_id)
            if not (services.keys.stands(caller) and caller.is_current(row["epochs"])):
                return  # who asks for more is told why
            over = row["status"] not in OPEN
            while found := found or await services.reader.lines(
                game_id, viewer, place, min(PAGE, left or PAGE)
            ):
                texts = []
                for line in found:
                    seq += 1
                    texts.append(line_text(game_id, seq, line))
                yield ("\n".join(texts) + "\n").encode()
                sent = time.monotonic()
                place = found[-1].seq
                if left is not None:
                    left -= len(found)
                    if left == 0:
                        return
                found = ()
            if not follow or over or services.draining:
                return
            await watch.wait(services.settings.follow_blank_s)
            if time.monotonic() - sent >= services.settings.follow_blank_s:
                sent = time.monotonic()
                yield b"\n"


@router.post(
    "/games/{game_id}/step",
    summary="Walk a manual game on",
    response_model=Stepped,
    dependencies=[Depends(needs("games:step", writes=True))],
    responses=documented(404, 409, 412, 413, 415),
)
async def step_game(
    game_id: GameId,
    wish: StepGame,
    services: ServicesDep,
    caller: CallerDep,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The `ETag` of the caller's own viewer: refuse when stale.")
    ] = None,
) -> Stepped:
    """Answers open requests and appends what follows, as far as `until` says.

    The log comes out as that of the same game driven automatically. The answer shows what the caller may
    see: all of it with `export:full`, else what is public.
    """
    await game_for(services, caller, game_id)
    viewer = caller.viewer
    head = None if if_match is None or if_match.strip() == "*" else _head_of(if_match, viewer)
    appended, state = await services.games.step(game_id, wish.until, viewer, head)
    row = await services.games.row(game_id)
    seen = len(stream(state, viewer))
    response.headers["ETag"] = _etag(viewer, seen, row["status"])
    return Stepped(
        events=[
            {"seq": seq, "at": timestamp(at), "type": type_name(event), "game": game_id, **payload(event)}
            for seq, at, event in appended
        ],
        requests=open_requests(pending(state)) if viewer == FULL else None,
        status=row["status"],
        head=seen,
    )


def _head_of(etag: str, viewer: Viewer) -> int:
    found = re.fullmatch(rf'"{viewer_name(viewer)}\.(\d{{1,9}})\.[a-z]+"', etag.strip())
    # An ETag of another viewer, or none of ours, matches no state.
    return -1 if found is None else int(found[1])


@router.post(
    "/games/{game_id}/fork",
    status_code=201,
    summary="Fork a game",
    response_model=GameForked,
    dependencies=[Depends(needs("games:create", writes=True))],
    responses=documented(404, 413, 415),
)
async def fork_game(
    game_id: GameId, wish: ForkGame, services: ServicesDep, caller: CallerDep, response: Response
) -> GameForked:
    """Starts a new game with the same log up to a point, with the same or other agents from there on.

    Needs `export:full`, unless the whole log is public: the game has finished and was created with
    `reveal: all`. Tokens of its remote seats also need `tokens:mint`; without it they are null.
    """
    await game_for(services, caller, game_id)
    forked = await services.games.fork(game_id, wish, caller)
    response.headers["Location"] = f"/games/{forked.game_id}"
    response.headers.update(NO_STORE)
    if not caller.mints:
        return forked  # a seat's token shows the seat's past, which was played in another game
    return forked.model_copy(
        update={"seats": seats_with_tokens(services, await services.games.row(forked.game_id))}
    )


@router.post(
    "/games/{game_id}/cancel",
    status_code=202,
    summary="Cancel a game",
    response_model=Cancelled,
    dependencies=[Depends(needs("games:cancel"))],
    responses=documented(404, 409, 412),
)
async def cancel_game(game_id: GameId, services: ServicesDep, caller: CallerDep) -> Cancelled:
    """Ends a game now. What it has written stays."""
    await game_for(services, caller, game_id)
    await services.games.cancel(game_id)
    return Cancelled()


@router.get(
    "/batches/{batch_id}",
    summary="A batch's progress and results",
    response_model=BatchView,
    responses=documented(404),
)
async def show_batch(batch_id: BatchId, services: ServicesDep, caller: CallerDep) -> BatchView:
    """Counts by status, winners and endings so far, what models took, and when it will be done."""
    return await _batch_view(services, batch_id, caller)


async def _batch_view(services: Services, batch_id: str, caller: Caller) -> BatchView:
    row = await batch_for(services, caller, batch_id)
    tallied = await services.games.tally(batch_id)
    # What it took tells how much was thought unseen: spectators are not shown it.
    paid = None if caller.grant is not None else await services.games.paid(row)
    return batch_view(row, tallied, paid, sees_all=caller.sees_all)


@router.get(
    "/batches/{batch_id}/events",
    summary="A batch's progress as it happens",
    response_class=StreamingResponse,
    responses=documented(404, also=_ndjson("The batch, a line each time it has changed.")),
)
async def list_batch_events(
    batch_id: BatchId,
    services: ServicesDep,
    caller: CallerDep,
    follow: Annotated[bool, Query(description="Stay until the batch is over.")] = False,
) -> StreamingResponse:
    """The batch as in `GET /batches/{b}`, once or, with `follow`, whenever it changes."""
    await batch_for(services, caller, batch_id)
    return StreamingResponse(_progress(services, batch_id, follow, caller), media_type=NDJSON)


async def _progress(services: Services, batch_id: str, follow: bool, caller: Caller) -> AsyncIterator[bytes]:
    last = None
    sent = time.monotonic()
    with services.feed.watch(batch_id) as watch:
        while True:
            if not services.keys.stands(caller):
                return
            view = await _batch_view(services, batch_id, caller)
            if (view.status, view.games) != last:
                last = (view.status, view.games)
                sent = time.monotonic()
                yield view.model_dump_json().encode() + b"\n"
            if not follow or services.draining or view.status not in ("queued", "running"):
                return
            await watch.wait(services.settings.follow_blank_s)
            if time.monotonic() - sent >= services.settings.follow_blank_s:
                sent = time.monotonic()
                yield b"\n"


@router.get(
    "/batches/{batch_id}/export",
    summary="Export a batch",
    response_class=StreamingResponse,
    responses=documented(404, 409, also=_ndjson("Events, game by game; the last line signs them.")),
)
async def export_batch(
    batch_id: BatchId,
    services: ServicesDep,
    caller: CallerDep,
    view: Annotated[str, Query(pattern="^(public|full)$", description="Whose eyes.")] = "public",
    after: Annotated[int, Query(ge=0, le=2**53, description="Leave out the first so many lines.")] = 0,
    partial: Annotated[bool, Query(description="Also while the batch still runs.")] = False,
) -> StreamingResponse:
    """All events of all games, one a line, ordered by game and position.

    The last line is `{"t":"export.end","games":…,"events":…,"sha256":…}` over all event lines, those
    left out by `after` included, so that truncation shows. A game whose log is damaged is one line
    `{"t":"export.damaged","game":…}` in its place, and the last line counts those games as `damaged`.
    """
    needs_or_watches("games:read", caller)
    viewer = FULL if view == "full" else PUBLIC
    if viewer == FULL:
        caller.needs("export:full")
    await batch_for(services, caller, batch_id)
    lines = services.games.export(batch_id, viewer, after, partial=partial)
    first = await anext(lines)  # what is to be refused is refused before the response begins

    async def all_lines() -> AsyncIterator[bytes]:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(all_lines(), media_type=NDJSON)


@router.post(
    "/batches/{batch_id}/cancel",
    status_code=202,
    summary="Cancel a batch",
    response_model=Cancelled,
    dependencies=[Depends(needs("games:cancel"))],
    responses=documented(404, 409),
)
async def cancel_batch(batch_id: BatchId, services: ServicesDep, caller: CallerDep) -> Cancelled:
    """Ends every open game of the batch. What they have written stays."""
    await batch_for(services, caller, batch_id, "games:cancel")
    await services.games.cancel_batch(batch_id)
    return Cancelled()
