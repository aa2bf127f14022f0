"""Seat and watch tokens over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from app.base.problems import documented
from app.edge.bodies import BodyRoute, Bounds, takes
from app.edge.deps import CallerDep, needs
from app.edge.tokens import MAX_WATCH_S, SEAT_S
from app.games.deps import AccessDep, BatchId, GameId, SeatTokensDep
from app.games.schemas import (
    Claim,
    ClaimCodeView,
    ClaimedSeat,
    NewBatchToken,
    NewClaimCode,
    NewGameToken,
    TokenView,
)
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


@router.post(
    "/games/{game_id}/seats/{seat}/claim-code",
    status_code=201,
    summary="Make a code for a seat",
    response_model=ClaimCodeView,
    dependencies=[Depends(needs("tokens:mint", writes=True))],
    responses=documented(404, 413, 415),
)
async def make_claim_code(
    game_id: GameId,
    seat: Annotated[int, Path(ge=1, le=10, description="A remote seat.")],
    access: AccessDep,
    tokens: SeatTokensDep,
    caller: CallerDep,
    response: Response,
    new: NewClaimCode | None = None,
) -> ClaimCodeView:
    """A one-time code by which a person takes the seat, e.g. as a link for a friend. Whoever exchanges it
    first, at `POST /claims`, gets the seat's token. A new code replaces one that nobody has used.
    """
    row = await access.game(caller, game_id)
    response.headers.update(NO_STORE)
    return await tokens.claim_code(row, seat, SEAT_S if new is None else new.ttl_s)


@router.post(
    "/claims",
    summary="Exchange a code for a seat's token",
    response_model=ClaimedSeat,
    responses=documented(404, 410, 413, 415, 429),
)
@takes(Bounds(size=1_024, open=True))
async def claim_seat(
    request: Request, claim: Claim, tokens: SeatTokensDep, response: Response
) -> ClaimedSeat:
    """Needs no credential: the code is one, and it works once. Sixty wrong codes a minute from one address
    are answered; the next ones have to wait.
    """
    response.headers.update(NO_STORE)
    return await tokens.claim(claim.code, request.client.host if request.client is not None else "")
