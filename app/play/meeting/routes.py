"""Seeks, games with open seats, and claims over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.base.problems import documented
from app.edge.auth import Caller
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, IdempotencyKey, OnceDep, needs, service
from app.edge.idempotency import KeptAnswer
from app.games.deps import GameId
from app.games.seat_tokens import NO_STORE
from app.play.meeting.schemas import (
    ClaimSeat,
    KeptSeek,
    LobbyView,
    NewOpenGame,
    NewSeek,
    OpenGameView,
    SeekView,
)
from app.play.meeting.service import Meeting

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

MeetingDep = Annotated[Meeting, service("meeting")]
# Seeks of earlier releases begin with s_, as sets do.
SeekId = Annotated[str, Path(pattern=r"^[qs]_[a-z0-9]{1,32}$", description="The seek.")]

PLAYS = [Depends(needs("bots:play"))]
SEEKS = [Depends(needs("bots:play", writes=True))]
HOSTS = [Depends(needs("games:create", writes=True))]


@router.post(
    "/seeks",
    status_code=201,
    summary="Seek a game",
    response_model=SeekView,
    dependencies=SEEKS,
    responses=documented(404, 409, 413, 415, 429),
)
async def seek_game(
    new: NewSeek,
    meeting: MeetingDep,
    caller: CallerDep,
    once: OnceDep,
    key: IdempotencyKey,
    response: Response,
) -> SeekView:
    """Seeks a seat. The server makes a game as soon as enough seeks have the same terms, or when the time of
    one of them is up, and draws its roles, seats and names. The answer to a repeated seek is the open one. It
    may have been paired before you repeat it: with an `Idempotency-Key` the answer is this seek all the same,
    without one it is a second seek.

    The socket `/ws/lobby` tells your bot about its game; or ask `GET /seeks/{seek}?wait_s=30`. The server
    leaves out a bot that has no socket and has not asked for a seek of its own for 45 s, until it comes back.
    """
    response.headers.update(NO_STORE)
    return await _now(await once(lambda: meeting.seek(new, caller, key)), meeting, caller, response)


@router.get("/seeks", summary="Who waits for a game", response_model=LobbyView, dependencies=PLAYS)
async def show_lobby(meeting: MeetingDep, caller: CallerDep, response: Response) -> LobbyView:
    """Shows how many seeks wait for which game, games with open seats, and your own open seeks. Nobody learns
    who waits. This does not tell the server that your bot is there; `GET /seeks/{seek}` does.
    """
    response.headers.update(NO_STORE)
    return await meeting.lobby(caller)


@router.get(
    "/seeks/{seek_id}",
    summary="One of your seeks",
    response_model=SeekView,
    dependencies=PLAYS,
    responses=documented(404),
)
async def show_seek(
    seek_id: SeekId,
    meeting: MeetingDep,
    caller: CallerDep,
    response: Response,
    wait_s: Annotated[
        float, Query(ge=0, le=30, description="Answer when it is paired or has ended, at most so much later.")
    ] = 0.0,
) -> SeekView:
    """Shows a seek of yours. Once it is paired, `game` has your seat and its token. Asking also tells the
    server that your bot is there.
    """
    response.headers.update(NO_STORE)
    return await meeting.show(seek_id, caller, wait_s)


@router.delete(
    "/seeks/{seek_id}",
    summary="Withdraw a seek",
    response_model=SeekView,
    dependencies=SEEKS,
    responses=documented(404),
)
async def withdraw_seek(
    seek_id: SeekId, meeting: MeetingDep, caller: CallerDep, response: Response
) -> SeekView:
    """Ends a seek. If it was paired at this moment, the answer says so: then the game is on."""
    response.headers.update(NO_STORE)
    return await meeting.withdraw(seek_id, caller)


@router.post(
    "/games/open",
    status_code=201,
    summary="Make a game with open seats",
    response_model=OpenGameView,
    dependencies=HOSTS,
    responses=documented(413, 415, 429),
)
async def open_game(new: NewOpenGame, meeting: MeetingDep, caller: CallerDep) -> OpenGameView:
    """Makes a game as `POST /games` does, but others may claim the seats whose agent is `open`. The game
    begins when all of these are claimed, or after `wait_s`, when scripted players take the rest.
    """
    return await meeting.open_game(new, caller)


@router.delete(
    "/games/{game_id}/seats/open",
    summary="Give up a game with open seats",
    response_model=OpenGameView,
    dependencies=HOSTS,
    responses=documented(404),
)
async def withdraw_open_game(game_id: GameId, meeting: MeetingDep, caller: CallerDep) -> OpenGameView:
    """Gives up a game that has not begun; the seeks of those who claimed a seat expire. To end a game that
    has begun, use `POST /games/{game}/cancel`.
    """
    return await meeting.withdraw_game(game_id, caller)


@router.post(
    "/games/{game_id}/seats/open/claim",
    status_code=201,
    summary="Claim an open seat",
    response_model=SeekView,
    dependencies=SEEKS,
    responses=documented(404, 409, 413, 415, 429),
)
async def claim_open_seat(
    game_id: GameId,
    meeting: MeetingDep,
    caller: CallerDep,
    once: OnceDep,
    key: IdempotencyKey,
    response: Response,
    claim: ClaimSeat | None = None,
) -> SeekView:
    """Takes one of the game's open seats, drawn at random. The claim is a seek that waits for the game to
    begin; then your bot's socket, or `GET /seeks/{seek}`, has the seat's token.
    """
    response.headers.update(NO_STORE)
    claimed = await once(lambda: meeting.claim(game_id, claim or ClaimSeat(), caller, key))
    return await _now(claimed, meeting, caller, response)


async def _now(
    sought: SeekView | KeptAnswer, meeting: Meeting, caller: Caller, response: Response
) -> SeekView:
    """The seek; one that an earlier request led to, as it is now. Raises NotFound."""
    if isinstance(sought, SeekView):
        return sought
    response.headers["Idempotent-Replayed"] = "true"
    return await meeting.show(sought.read(KeptSeek).seek_id, caller)
