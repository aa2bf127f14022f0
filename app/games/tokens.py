"""Seat and watch tokens over HTTP, and those that come with new games."""

from typing import Final

from fastapi import APIRouter, Depends, Response

from app.auth import epoch_of
from app.bodies import BodyRoute
from app.deps import BatchId, CallerDep, GameId, ServicesDep, batch_for, game_for, needs
from app.errors import InvalidRequest
from app.games.schemas import BatchCreated, NewBatchToken, NewGameToken, SeatSpec, SeatView, TokenView
from app.outside import now_ms
from app.problems import documented
from app.seating import REMOTE, remote_seats
from app.services import Services
from app.store.games import Row
from app.store.log import timestamp
from app.tokens import MAX_WATCH_S, SEAT_S, Grant
from engine.errors import InvalidInput
from engine.terms import PUBLIC
from engine.view import read_viewer, viewer_name

__all__ = ["NO_STORE", "is_remote", "router", "seats_with_tokens", "with_tokens"]

router = APIRouter(route_class=BodyRoute)

NO_STORE: Final = {"Cache-Control": "no-store"}
"""Of answers that hold tokens."""


def is_remote(spec: SeatSpec) -> bool:
    """Whether the seat is played from outside."""
    return spec.agent == REMOTE


async def with_tokens(services: Services, created: BatchCreated) -> BatchCreated:
    """The same with a new token for each remote seat. They are minted for every answer, never stored."""
    rows = await services.store.games_of(game.game_id for game in created.games)
    games = [
        game.model_copy(update={"seats": seats_with_tokens(services, rows[game.game_id])})
        for game in created.games
    ]
    return created.model_copy(update={"games": games})


def seats_with_tokens(services: Services, row: Row) -> list[SeatView]:
    """Every seat of a game, the remote ones with a new token."""
    expires = _now_s() + SEAT_S
    remote = remote_seats(row["seats"])
    return [
        SeatView(
            seat=seat,
            token=services.keys.mint(
                Grant.for_seat(row["game_id"], seat, epoch_of(row["epochs"], seat), expires)
            )
            if seat in remote
            else None,
        )
        for seat in range(1, len(row["seats"]) + 1)
    ]


def _now_s() -> int:
    return now_ms() // 1000


def _shown(services: Services, grant: Grant) -> TokenView:
    return TokenView(
        viewer=viewer_name(grant.viewer),
        token=services.keys.mint(grant),
        expires_at=timestamp(grant.expires * 1000),
    )


@router.post(
    "/games/{game_id}/tokens",
    status_code=201,
    summary="Mint a token for a game",
    response_model=TokenView,
    dependencies=[Depends(needs("tokens:mint", writes=True))],
    responses=documented(404, 413, 415),
)
async def mint_game_token(
    game_id: GameId, wish: NewGameToken, services: ServicesDep, caller: CallerDep, response: Response
) -> TokenView:
    """A token that shows one seat's part of the game and answers for it, or one for watching.

    Tokens are not kept and cannot be listed. `raise_epoch` makes all earlier ones of a seat void: mint
    the new one so when one was lost.
    """
    row = await game_for(services, caller, game_id)
    try:
        viewer = read_viewer(wish.viewer, row["players"])
    except InvalidInput:
        raise InvalidRequest(f"a token is for public or seat:1 to seat:{row['players']}", "/viewer") from None
    response.headers.update(NO_STORE)
    if viewer == PUBLIC:
        if wish.raise_epoch:
            raise InvalidRequest("only a seat has an epoch; watch tokens end by themselves", "/raise_epoch")
        if wish.ttl_s is not None and wish.ttl_s > MAX_WATCH_S:
            raise InvalidRequest(f"a watch token lasts {MAX_WATCH_S} s at most", "/ttl_s")
        return _shown(services, Grant.to_watch(_now_s() + (wish.ttl_s or MAX_WATCH_S), game=game_id))
    if wish.raise_epoch:
        epoch = await services.keys.raise_epoch(game_id, viewer)
        # Whoever holds the seat with an older one looks again, and goes.
        services.feed.hint(game_id)
    else:
        epoch = epoch_of(row["epochs"], viewer)
    return _shown(services, Grant.for_seat(game_id, viewer, epoch, _now_s() + (wish.ttl_s or SEAT_S)))


@router.post(
    "/batches/{batch_id}/tokens",
    status_code=201,
    summary="Mint a token for watching a batch",
    response_model=TokenView,
    dependencies=[Depends(needs("tokens:mint", writes=True))],
    responses=documented(404, 413, 415),
)
async def mint_batch_token(
    batch_id: BatchId,
    services: ServicesDep,
    caller: CallerDep,
    response: Response,
    wish: NewBatchToken | None = None,
) -> TokenView:
    """A token that watches every game of the batch, its progress and its public export."""
    await batch_for(services, caller, batch_id, "tokens:mint")
    ttl_s = MAX_WATCH_S if wish is None else wish.ttl_s
    response.headers.update(NO_STORE)
    return _shown(services, Grant.to_watch(_now_s() + ttl_s, batch=batch_id))
