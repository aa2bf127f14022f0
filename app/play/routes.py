"""A seat over HTTP: its open request and its answers, with the same outcomes as over the socket."""

import time
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from app.base.errors import Forbidden, InvalidRequest, RateLimited, Unauthenticated, UnknownRequest
from app.base.json_reader import MAX_ANSWER, MAX_ANSWER_DEPTH
from app.base.problems import documented, problem_response
from app.edge.auth import Caller, Keys
from app.edge.bodies import BodyRoute, Bounds, takes
from app.edge.deps import CallerDep, Guard, LifecycleDep, service
from app.games.access import Access, Sight
from app.games.deps import AccessDep, GameId
from app.games.routes import ViewerName
from app.protocol.messages import ActAck, Answer, OpenRequests, SentAnswer, read_answer
from app.seats.remote_seat import RemoteSeat
from app.seats.seats import Refused, Seats, check_answers_for
from app.store.games import OPEN
from app.store.rows import GameRow
from app.stream.feed import ANY_SEAT, Feed, held_name
from engine.errors import InvalidAction
from engine.terms import FULL, PUBLIC, Seat

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

MAX_WAIT_S: Final = 60.0

SeatsDep = Annotated[Seats, service("seats")]

RequestId = Annotated[str, Path(description="The request's id, e.g. `2.1.vote.3`.", examples=["2.1.vote.3"])]


class _AnswersForSeats(Guard):
    """Refuses callers who may not answer for any seat, as the route would. The route checks which seat."""

    async def check(self, request: Request, caller: Caller) -> None:
        if caller.seat is None and not caller.has_any("tokens:mint"):
            game_id, viewer = request.path_params["game_id"], request.query_params.get("viewer")
            state = request.app.state
            _, seat, _, sight = await _seat(state.access, state.seats, caller, game_id, viewer)
            check_answers_for(seat, sight.answers)


async def _seat(
    access: Access, seats: Seats, caller: Caller, game_id: str, viewer_name: str | None
) -> tuple[GameRow, Seat, RemoteSeat | None, Sight]:
    """The game, the seat that the caller views as, the seat's view, which is None if no remote agent plays
    it, and what the caller sees of the game. Raises InvalidRequest when no seat is named, Forbidden for the
    public viewer, and NotFound.
    """
    row = await access.game(caller, game_id)
    sight = await access.sight(caller, row)
    viewer = sight.named(viewer_name, row.players)
    if viewer == FULL:
        raise InvalidRequest("name the seat, e.g. ?viewer=seat:2", "/viewer", "missing")
    if viewer == PUBLIC:
        raise Forbidden("only a seat has requests: use its token")
    return row, viewer, await seats.view(row, viewer, comes_back=True), sight


@router.get(
    "/games/{game_id}/requests",
    summary="A seat's open request",
    response_model=OpenRequests,
    responses=documented(404),
)
async def list_open_requests(
    game_id: GameId,
    access: AccessDep,
    seats: SeatsDep,
    feed: Annotated[Feed, service("feed")],
    keys: Annotated[Keys, service("keys")],
    lifecycle: LifecycleDep,
    caller: CallerDep,
    response: Response,
    viewer_name: ViewerName = None,
    wait_s: Annotated[
        float,
        Query(
            ge=0,
            le=MAX_WAIT_S,
            description="Wait for a request, or the end of the game, for at most this many seconds.",
        ),
    ] = 0,
) -> OpenRequests:
    """The open request of the caller's seat, or none. `status` shows whether the game is over."""
    row, seat, view, _ = await _seat(access, seats, caller, game_id, viewer_name)
    response.headers["Cache-Control"] = "no-store"
    until, has_waited = time.monotonic() + wait_s, False
    hint = held_name(game_id, ANY_SEAT if caller.seat is None else caller.seat)
    with feed.watch(game_id, hint) as watch:
        while True:
            # Read the status first, so that the request is at least as new as the status.
            status = await seats.status(row, view)
            asked = await seats.open(view, live=has_waited) if view is not None and status in OPEN else None
            left = until - time.monotonic()
            answers = asked is not None or status not in OPEN or left <= 0 or lifecycle.draining
            if has_waited or not answers:
                keys.check(caller)
                # Read once after the watch has begun, then at hints: most events change nobody's seat.
                if not has_waited or answers or watch.rung_by(hint):
                    row = await access.game(replace(caller, row=None), game_id)
                    if not caller.is_current(row.epochs):
                        raise Unauthenticated("this seat has got another token while the request waited")
                    if asked is not None or row.status in OPEN:
                        (await access.sight(caller, row)).named(f"seat:{seat}", row.players)
            if answers:
                return OpenRequests(status=status, requests=[] if asked is None else [asked])
            has_waited = True
            await watch.wait(min(left, keys.left_s(caller)))


@router.post(
    "/games/{game_id}/requests/{request_id}/action",
    summary="Answer a request",
    response_model=ActAck,
    dependencies=[Depends(_AnswersForSeats())],
    responses=documented(404, 409, 410, 413, 415, 429),
    openapi_extra={"requestBody": {"required": True}},
)
@takes(Bounds(size=MAX_ANSWER, depth=MAX_ANSWER_DEPTH, check_text=False))
async def answer_request(
    game_id: GameId,
    request_id: RequestId,
    access: AccessDep,
    seats: SeatsDep,
    caller: CallerDep,
    # A missing body is refused like any other that is no answer.
    sent: SentAnswer = None,  # type: ignore[assignment]
    viewer_name: ViewerName = None,
) -> Any:
    """Takes the answer of the caller's seat. Send it again as often as you like: it counts once.

    A refusal says in `attempts_left` how many answers may still be given, and in `request` what is
    still open. 409 `illegal-action` and 422 `invalid-action` use up an attempt. A wrong thought does not cost
    the action: `thoughts_refused` says what was left out.
    """
    _, seat, view, sight = await _seat(access, seats, caller, game_id, viewer_name)
    check_answers_for(seat, sight.answers)
    if view is None:
        return _problem(Refused(UnknownRequest(f"seat {seat} is not a remote seat"), None, None))
    answer: Answer | InvalidAction
    try:
        seats.spend(game_id, seat)
        answer = read_answer(sent)
    except InvalidAction as fault:
        answer = fault
    except (RateLimited, InvalidRequest) as fault:
        return _problem(await seats.refuse(view, fault))
    outcome = await seats.act(view, request_id, answer, via="http")
    if isinstance(outcome, Refused):
        return _problem(outcome)
    if not outcome.duplicate:
        seats.give_back(game_id, seat)
    return ActAck(
        re=None,
        request_id=outcome.request_id,
        duplicate=outcome.duplicate,
        thoughts_refused=list(outcome.thoughts_refused),
    )


def _problem(outcome: Refused) -> Response:
    asked = None if outcome.request is None else outcome.request.model_dump(mode="json", by_alias=True)
    return problem_response(outcome.error, attempts_left=outcome.attempts_left, request=asked)
