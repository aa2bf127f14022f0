"""Seat and watch tokens over HTTP."""

from fastapi import APIRouter, Depends, Response

from app.base.problems import documented
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, needs
from app.edge.tokens import MAX_WATCH_S
from app.games.deps import AccessDep, BatchId, GameId, SeatTokensDep
from app.games.schemas import NewBatchToken, NewGameToken, TokenView
from app.games.seat_tokens import NO_STORE

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)


@router.post(
    "/games/{game_id}/tokens",
    status_code=201,
    summary="Mint a token for a game",
    response_model=TokenView,
    dependencies=[Depends(needs("tokens:mint", writes=True))],
    responses=documented(404, 413, 415),
)
async def mint_game_token(
    game_id: GameId,
    new: NewGameToken,
    access: AccessDep,
    tokens: SeatTokensDep,
    caller: CallerDep,
    response: Response,
) -> TokenView:
    """A token that sees the game through one seat's eyes and answers for it, or a token for watching.

    Tokens are not stored and cannot be listed. `raise_epoch` revokes all of the seat's earlier tokens:
    use it when a token was lost.
    """
    row = await access.game(caller, game_id)
    response.headers.update(NO_STORE)
    return await tokens.for_game(row, new)


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
    access: AccessDep,
    tokens: SeatTokensDep,
    caller: CallerDep,
    response: Response,
    watch_token: NewBatchToken | None = None,
) -> TokenView:
    """A token that watches every game of the batch, its progress and its public export."""
    await access.batch(caller, batch_id, "tokens:mint")
    response.headers.update(NO_STORE)
    return tokens.for_batch(batch_id, MAX_WATCH_S if watch_token is None else watch_token.ttl_s)
