"""Games and batches over HTTP."""

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from app.base.clock import timestamp
from app.base.errors import Forbidden, InvalidRequest
from app.base.json_reader import MAX_RECORD
from app.base.problems import documented, in_text
from app.base.schemas import Cancelled
from app.edge.auth import Caller
from app.edge.bodies import BodyRoute, Bounds, takes
from app.edge.deps import CallerDep, IdempotencyKey, OnceDep, matches, needs
from app.edge.idempotency import KeptAnswer
from app.edge.lines import NDJSON, Lines
from app.games.access import Access, needs_or_watches
from app.games.deps import AccessDep, AuditDep, BatchId, FollowingDep, GameId, GamesDep, SeatTokensDep
from app.games.schemas import (
    BatchCreated,
    BatchView,
    Counted,
    DeletedView,
    ForkGame,
    GameForked,
    GameImported,
    GameView,
    InvalidateGame,
    InvalidView,
    NewGames,
    Paused,
    ResumeBatch,
    Resumed,
    Retried,
    RetryBatch,
    StepGame,
    Stepped,
)
from app.games.seat_tokens import NO_STORE, SeatTokens
from app.games.service import Games
from app.games.views import batch_view, game_view, invalid_view, open_requests
from app.seats.seating import REMOTE
from app.store.rows import GameRow, reading
from engine.events import payload, type_name
from engine.rules import pending
from engine.terms import FULL, PUBLIC, Viewer
from engine.view import stream, viewer_name

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)


def _ndjson(description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": in_text(NDJSON), "description": description}}


ViewerName = Annotated[
    str | None,
    Query(
        alias="viewer",
        pattern=r"^(public|full|seat:([1-9]|10))$",
        description="See less than your credential allows: as `public` or as `seat:3`.",
    ),
]
After = Annotated[
    int, Query(ge=0, le=2**53, description="Start after this position of the viewer's own stream.")
]


async def _with_new_tokens(kept: KeptAnswer, tokens: SeatTokens, caller: Caller) -> Response:
    """The answer to a repeated request. Its tokens are new ones, since no token is stored."""
    renewed = await tokens.with_tokens(kept.read(BatchCreated), caller)
    kept = kept._replace(body=renewed.model_dump(mode="json"))
    return kept.response("/batches/{batch_id}", **NO_STORE)


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
async def create_games(
    new: NewGames,
    games: GamesDep,
    caller: CallerDep,
    tokens: SeatTokensDep,
    once: OnceDep,
    key: IdempotencyKey,
    response: Response,
) -> Any:
    """Creates a batch of games. `{}` creates one five-player game of scripted seats, driven to its end.

    The status is 201 if all games exist, and 202 if a large batch is still being laid out; `GET /batches/{b}`
    shows how far it is.
    """
    created = await once(lambda: games.create(new, key, caller))
    if isinstance(created, KeptAnswer):
        return await _with_new_tokens(created, tokens, caller)
    response.status_code = 201 if new.count <= len(created.games) or new.count <= 200 else 202
    response.headers["Location"] = f"/batches/{created.batch_id}"
    response.headers.update(NO_STORE)
    remote = any(spec.agent == REMOTE for spec in new.seats)
    return await tokens.with_tokens(created, caller) if remote else created


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
    request: Request,
    games: GamesDep,
    caller: CallerDep,
    once: OnceDep,
    key: IdempotencyKey,
    response: Response,
) -> Any:
    """Replays an avalon-replay v1 record and stores it as a finished game.

    A record that breaks a rule is refused with the move and the rule. Its players' names keep to the rules
    for names (no control or invisible characters), which `replay check` does not ask of them.
    """
    if not await request.body():
        raise InvalidRequest("send an avalon-replay v1 record", "", "missing")
    record = await request.json()
    imported = await once(lambda: games.import_record(record, key, caller))
    if isinstance(imported, KeptAnswer):
        return imported.response("/games/{game_id}")
    response.headers["Location"] = f"/games/{imported.game_id}"
    return imported


def _etag(viewer: Viewer, head: int, row: GameRow, calls: int = 0) -> str:
    # Only this viewer's own count: a shared counter would reveal how often others think.
    mark = f".{row.invalid['at']}" if viewer == FULL and row.invalid is not None else ""
    asked = f".{calls}" if calls else ""
    return f'"{viewer_name(viewer)}.{head}.{row.status}{mark}{asked}"'


@router.get(
    "/games/{game_id}",
    summary="One game through the caller's eyes",
    response_model=GameView,
    responses=documented(
        404, also={304: {"description": "Unchanged since the state that `If-None-Match` names."}}
    ),
)
async def show_game(
    game_id: GameId,
    access: AccessDep,
    games: GamesDep,
    caller: CallerDep,
    response: Response,
    viewer_name: ViewerName = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Shows the public table; to a seat, its own hand too; to a key with `export:full`, its own games in
    full.

    While others play remote seats of the game, its owner and keys that have a seat there see it as their
    seat, or, without a seat, as everybody does.
    """
    row = await access.game(caller, game_id)
    viewer = (await access.sight(caller, row)).named(viewer_name, row.players)
    uses = await games.uses(row) if viewer == FULL else {}
    view = game_view(row, await games.state(game_id), viewer, uses)
    etag = _etag(viewer, view.head, row, sum(use.calls for use in uses.values()))
    if if_none_match is not None and matches(if_none_match, etag):
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    return view


@router.get(
    "/games/{game_id}/events",
    summary="A game's events",
    response_class=Lines,
    responses=documented(404, 416, also=_ndjson("One event per line, in the viewer's own numbering.")),
)
async def list_game_events(
    game_id: GameId,
    access: AccessDep,
    following: FollowingDep,
    caller: CallerDep,
    viewer_name: ViewerName = None,
    after: After = 0,
    limit: Annotated[
        int | None, Query(ge=1, le=200, description="The most events to send. If omitted: all.")
    ] = None,
    follow: Annotated[
        bool,
        Query(
            description="Keep the stream open until the game ends; a blank line is sent when nothing happens."
        ),
    ] = False,
) -> Lines:
    """The viewer's stream as NDJSON. To continue, set `after` to the last `seq` you have.

    An answer that ends holds every event it should. If the rest cannot be read, because the database is away
    or the credential was revoked, the connection breaks before the end: ask again, from the last event you
    have. With `follow`, an answer may also end before the game does, when you may read no more of the game or
    the service stops: then ask again, too.
    """
    row = await access.game(caller, game_id)
    viewer = (await access.sight(caller, row)).named(viewer_name, row.players)
    lines = await following.events(caller, row, viewer, after=after, limit=limit, follow=follow)
    return Lines(lines, headers={"Cache-Control": "no-store"})


@router.post(
    "/games/{game_id}/step",
    summary="Step a manual game",
    response_model=Stepped,
    dependencies=[Depends(needs("games:step", writes=True))],
    responses=documented(404, 409, 412, 413, 415),
)
async def step_game(
    game_id: GameId,
    step: StepGame,
    access: AccessDep,
    games: GamesDep,
    caller: CallerDep,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The `ETag` of the caller's own viewer: a stale one is refused.")
    ] = None,
) -> Stepped:
    """Has open requests answered, as far as `until` says, and appends the events that follow.

    The log is the same as if the service drove the game. The response shows what the caller sees in
    `GET /games/{g}`.
    """
    await access.game(caller, game_id, "games:step")
    head = None if if_match is None or if_match.strip() == "*" else partial(_head_of, if_match)
    viewer, appended, state, row = await games.stepper.step(game_id, step.until, caller, head)
    seen = len(stream(state, viewer))
    response.headers["ETag"] = _etag(viewer, seen, row)
    return Stepped(
        events=[
            {"seq": seq, "at": timestamp(at), "type": type_name(event), "game": game_id, **payload(event)}
            for seq, at, event in appended
        ],
        requests=open_requests(pending(state)) if viewer == FULL else None,
        status=row.status,
        head=seen,
    )


def _head_of(etag: str, viewer: Viewer) -> int:
    match = re.fullmatch(rf'"{viewer_name(viewer)}\.(\d{{1,9}})\.[a-z]+(\.\d+)?"', etag.strip())
    # An ETag of another viewer, or of another server, matches no state.
    return -1 if match is None else int(match[1])


@router.post(
    "/games/{game_id}/fork",
    status_code=201,
    summary="Fork a game",
    response_model=GameForked,
    dependencies=[Depends(needs("games:create", writes=True))],
    responses=documented(404, 413, 415),
)
async def fork_game(
    game_id: GameId,
    fork: ForkGame,
    access: AccessDep,
    games: GamesDep,
    tokens: SeatTokensDep,
    caller: CallerDep,
    response: Response,
    audit: AuditDep,
) -> GameForked:
    """Starts a new game with the same log up to a point, with the same or other agents from there on.

    Needs to see the game in full (`export:full`), unless the whole log is public: the game has finished and
    was created with `reveal: all`. The fork belongs to the caller; it has the source's labels only if that
    does, too. Tokens of its remote seats also need `tokens:mint`; without it they are null.
    """
    row = await access.game(caller, game_id)
    sight = await access.sight(caller, row)
    async with audit.noted(caller, "fork", game_id) as deed:
        forked = await games.fork(game_id, fork, caller, sight)
        deed["fork"] = forked.game_id
    response.headers["Location"] = f"/games/{forked.game_id}"
    response.headers.update(NO_STORE)
    if "tokens:mint" not in caller.scopes:
        return forked  # a seat's token would show the seat's past, which was played in another game
    return forked.model_copy(update={"seats": tokens.of_game(await games.row(forked.game_id), caller)})


@router.post(
    "/games/{game_id}/cancel",
    status_code=202,
    summary="Cancel a game",
    response_model=Cancelled,
    dependencies=[Depends(needs("games:cancel"))],
    responses=documented(404, 409, 412),
)
async def cancel_game(
    game_id: GameId, access: AccessDep, games: GamesDep, caller: CallerDep, audit: AuditDep
) -> Cancelled:
    """Ends a game now, and breaks off its calls to models. Its events stay."""
    await access.game(caller, game_id, "games:cancel")
    async with audit.noted(caller, "cancel", game_id):
        await games.canceller.cancel(game_id)
    return Cancelled()


@router.post(
    "/games/{game_id}/invalidate",
    summary="Exclude a game from reports and items",
    response_model=InvalidView,
    dependencies=[Depends(needs("admin"))],
    responses=documented(404, 413, 415),
)
async def invalidate_game(
    game_id: GameId,
    why: InvalidateGame,
    access: AccessDep,
    games: GamesDep,
    caller: CallerDep,
) -> InvalidView:
    """Marks a game as invalid, with time, caller and reason; an earlier mark is replaced. The game keeps its
    events, and exports keep the game. `DELETE` takes the mark away.
    """
    await access.game(caller, game_id, "admin")
    marked = invalid_view(await games.invalidate(game_id, why.reason, by=caller))
    assert marked is not None
    return marked


@router.delete(
    "/games/{game_id}/invalidate",
    summary="Take an excluded game in again",
    response_model=Counted,
    dependencies=[Depends(needs("admin"))],
    responses=documented(404),
)
async def validate_game(game_id: GameId, access: AccessDep, games: GamesDep, caller: CallerDep) -> Counted:
    """Takes the mark of `invalidate` away, whoever set it; a game without a mark stays as it is."""
    await access.game(caller, game_id, "admin")
    await games.invalidate(game_id, None, by=caller)
    return Counted()


@router.delete(
    "/games/{game_id}",
    summary="Delete a game",
    response_model=DeletedView,
    dependencies=[Depends(needs("admin", writes=True))],
    responses=documented(404, 409),
)
async def delete_game(
    game_id: GameId, access: AccessDep, games: GamesDep, caller: CallerDep, audit: AuditDep
) -> DeletedView:
    """Deletes a game for good: its events, answers of models and seats, and what raters said of it. Scores of
    evaluations stay, without texts. With its last game, a batch goes too.

    Refused while its batch is not over, and while a judge or an open fork needs the game. Who deleted it, and
    when, is kept.
    """
    await access.game(caller, game_id, "admin")
    async with audit.noted(caller, "delete", game_id):
        return await games.delete(game_id, by=caller)


@router.delete(
    "/batches/{batch_id}",
    summary="Delete a batch",
    response_model=DeletedView,
    dependencies=[Depends(needs("admin", writes=True))],
    responses=documented(404, 409),
)
async def delete_batch(
    batch_id: BatchId, access: AccessDep, games: GamesDep, caller: CallerDep, audit: AuditDep
) -> DeletedView:
    """Deletes a batch with all its games, as `DELETE /games/{g}` deletes one. A large batch takes a while;
    what was deleted before a call breaks off stays deleted, and the next call goes on.
    """
    await access.batch(caller, batch_id, "admin")
    await games.refuse_needed(batch_id)
    async with audit.noted(caller, "delete", batch_id) as deed:
        deed["broke_off"] = True  # what was deleted before that stays deleted
        deleted = await games.delete_batch(batch_id, by=caller)
        del deed["broke_off"]
        deed["games"] = deleted.games
    return deleted


@router.get(
    "/batches/{batch_id}",
    summary="A batch's progress and results",
    response_model=BatchView,
    responses=documented(404),
)
async def show_batch(batch_id: BatchId, access: AccessDep, games: GamesDep, caller: CallerDep) -> BatchView:
    """Counts by status, winners and endings so far, the use of models, and the expected time to the end."""
    return await _batch_view(access, games, batch_id, caller)


async def _batch_view(access: Access, games: Games, batch_id: str, caller: Caller) -> BatchView:
    row = await access.batch(caller, batch_id)
    tallied = await games.tally(batch_id)
    # The use of models tells how much was thought in private: spectators do not see it.
    with reading(row):
        spending = None if caller.grant is not None else await games.spending(row, tallied)
    is_bound = await access.is_bound(caller, row)
    sees_all = caller.may("export:full", row.owner) and not is_bound
    defaults = await games.defaults(row, tallied) if sees_all else None
    with reading(row):
        view = batch_view(row, tallied, spending, defaults, sees_all=sees_all)
    return view.model_copy(update={"tokens": None, "cost": None, "budget": None}) if is_bound else view


@router.get(
    "/batches/{batch_id}/events",
    summary="A batch's progress as it happens",
    response_class=Lines,
    responses=documented(404, also=_ndjson("The batch, one line for each change.")),
)
async def list_batch_events(
    batch_id: BatchId,
    access: AccessDep,
    games: GamesDep,
    following: FollowingDep,
    caller: CallerDep,
    follow: Annotated[bool, Query(description="Keep the stream open until the batch is over.")] = False,
) -> Lines:
    """The batch as in `GET /batches/{b}`, once or, with `follow`, whenever it changes. If that ends before
    the batch is over, since the credential has ended, the database is away or the service stops, ask again.
    """
    lines = await following.progress(
        caller, batch_id, lambda: _batch_view(access, games, batch_id, caller), follow=follow
    )
    return Lines(lines)


@router.get(
    "/batches/{batch_id}/export",
    summary="Export a batch",
    response_class=Lines,
    responses=documented(404, 409, also=_ndjson("Events, game by game; the last line holds their hash.")),
)
async def export_batch(
    batch_id: BatchId,
    access: AccessDep,
    games: GamesDep,
    caller: CallerDep,
    audit: AuditDep,
    view: Annotated[
        str, Query(pattern="^(public|full)$", description="The viewer of the events.")
    ] = "public",
    after: Annotated[
        int, Query(ge=0, le=2**53, description="The number of lines to leave out at the beginning.")
    ] = 0,
    partial: Annotated[bool, Query(description="Export even while the batch is still running.")] = False,
) -> Lines:
    """All events of all games, one per line, ordered by game and position.

    Each game opens with a line of the type `provenance`. With `view=full` it names, by seat, the agents with
    the models that were asked and that answered, presets, prompts and parameters; the seed; study, cell and
    labels; the version of the server, the hash of the catalogue, the prices, and how many decisions were
    played by default. In the public view it holds the profile, the names and the version. Thoughts have four
    more fields than in `GET /games/{g}/events`: `round`, `attempt`, `turn` and the `request_id` that they
    belong to.

    The last line is `{"t":"export.end","games":…,"events":…,"sha256":…}` over all lines before it, also those
    that `after` leaves out, so that truncation is detected. In place of a game whose log is damaged there is
    one line `{"t":"export.damaged","game":…}`, and the last line counts those games as `damaged`. A
    game that is lost has an empty `game`.
    """
    needs_or_watches("games:read", caller)
    viewer = FULL if view == "full" else PUBLIC
    if viewer == FULL:
        caller.needs("export:full")
    row = await access.batch(caller, batch_id)
    if viewer == FULL and not await access.sees_batch(caller, row):
        raise Forbidden("this needs export:full for the batch, and that others play none of its open games")
    exported = games.exporter.batch(caller, batch_id, viewer, after, partial=partial)
    first = await anext(exported)  # a refusal must come before the response begins
    if caller.grant is None:  # whoever watches reads nothing else there, and is under no quota
        await audit.note(caller, "export", batch_id, view=view, after=after or None)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"".join(first)
        async for lines in exported:
            yield b"".join(lines)

    return Lines(pieces())


@router.post(
    "/batches/{batch_id}/pause",
    status_code=202,
    summary="Pause a batch",
    response_model=Paused,
    dependencies=[Depends(needs("games:cancel"))],
    responses=documented(404, 409),
)
async def pause_batch(batch_id: BatchId, access: AccessDep, games: GamesDep, caller: CallerDep) -> Paused:
    """Stops every game of the batch between two steps, until somebody resumes it. Calls to models that are in
    flight end and are used later; deadlines of remote seats run on. A batch that is suspended stays so.
    """
    await access.batch(caller, batch_id, "games:cancel")
    await games.pause(batch_id, by=caller)
    return Paused()


@router.post(
    "/batches/{batch_id}/resume",
    summary="Resume a suspended batch",
    response_model=Resumed,
    dependencies=[Depends(needs("games:create"))],
    responses=documented(404, 409, 413, 415),
)
async def resume_batch(
    batch_id: BatchId,
    access: AccessDep,
    games: GamesDep,
    caller: CallerDep,
    resume: ResumeBatch | None = None,
) -> Resumed:
    """Lets the batch, and its games that were suspended alone, go on after the last stored event. The
    operator's endpoints and keys are read again; what was answered and paid for is used again.
    """
    await access.batch(caller, batch_id, "games:create")
    await games.resume(batch_id, (resume or ResumeBatch()).on_unusable, by=caller)
    return Resumed()


@router.post(
    "/batches/{batch_id}/retry",
    summary="Play failed games of a batch on, and excluded ones anew",
    response_model=Retried,
    dependencies=[Depends(needs("games:create"))],
    responses=documented(404, 409, 413, 415),
)
async def retry_batch(
    batch_id: BatchId,
    access: AccessDep,
    games: GamesDep,
    caller: CallerDep,
    retry: RetryBatch | None = None,
) -> Retried:
    """As `resume`, and failed games go on too: under the same id, after the last stored event, with the
    answers that were paid for.

    Finished games that reports exclude (marked as invalid, or with too many defaults of models) are played
    anew, once each, as further games of the batch with the same deal and agents; `forked_from` names the
    excluded game. In place of a game with too many defaults, the new game continues from the first default;
    in place of a marked game, it begins with the deal. The excluded game stays, and stays excluded. No game
    is played anew in a batch that is still being created, in forks and imports, or where `remote` seats know
    the deal.
    """
    await access.batch(caller, batch_id, "games:create")
    retry = retry or RetryBatch()
    return Retried(
        anew=await games.retry(batch_id, retry.on_unusable, exclude_above=retry.exclude_above, by=caller)
    )


@router.post(
    "/batches/{batch_id}/cancel",
    status_code=202,
    summary="Cancel a batch",
    response_model=Cancelled,
    dependencies=[Depends(needs("games:cancel"))],
    responses=documented(404, 409),
)
async def cancel_batch(
    batch_id: BatchId, access: AccessDep, games: GamesDep, caller: CallerDep, audit: AuditDep
) -> Cancelled:
    """Ends every open game of the batch, and breaks off their calls to models. Their events stay."""
    await access.batch(caller, batch_id, "games:cancel")
    async with audit.noted(caller, "cancel", batch_id):
        await games.cancel_batch(batch_id)
    return Cancelled()
