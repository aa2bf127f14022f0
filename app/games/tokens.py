"""Seat and watch tokens over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from app.base.problems import documented
from app.edge.auth import ANYBODY, Caller
from app.edge.bodies import BodyRoute, Bounds, takes
from app.edge.deps import CallerDep, caller_of, needs
from app.edge.queries import comma_list, link_next, listed
from app.edge.tokens import MAX_WATCH_S, SEAT_S
from app.games.access import Access
from app.games.deps import AccessDep, BatchId, GameId, SeatTokensDep, TokenId
from app.games.listing import Cursor, Limit
from app.games.schemas import (
    Claim,
    ClaimCodeView,
    ClaimedSeat,
    NewBatchToken,
    NewClaimCode,
    NewGameToken,
    TokenPage,
    TokenRevoked,
    TokenView,
)
from app.games.seat_tokens import NO_STORE
from app.store.rows import GameRow

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

    For own games, and in others' for seats that are the key's own. `GET /tokens` lists it and
    `DELETE /tokens/{t}` revokes it. `raise_epoch` revokes all of the seat's earlier tokens: use it when a
    token was lost.
    """
    row = await _own(access, caller, game_id, new.viewer)
    response.headers.update(NO_STORE)
    return await tokens.for_game(row, new, caller)


async def _own(access: Access, caller: Caller, game_id: str, viewer: str) -> GameRow:
    """A game for which the caller mints tokens, or of which it has this seat. Raises NotFound."""
    row = await access.game(caller, game_id)
    sight = await access.sight(caller, row)
    has_seat = viewer.removeprefix("seat:") in map(str, sight.answers)
    return row if has_seat else await access.game(caller, game_id, "tokens:mint")


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
    return await tokens.for_batch(batch_id, MAX_WATCH_S if watch_token is None else watch_token.ttl_s, caller)


@router.get(
    "/tokens",
    summary="List minted tokens",
    response_model=TokenPage,
    dependencies=[Depends(needs("tokens:mint"))],
    responses=documented(),
)
async def list_tokens(
    tokens: SeatTokensDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    game: Annotated[str | None, comma_list("g_[a-z0-9]{1,32}", "Only tokens for this game.")] = None,
    batch: Annotated[
        str | None, comma_list("b_[a-z0-9]{1,32}", "Only tokens for this batch, or a game of it.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TokenPage:
    """The caller's own, everybody's with `tokens:mint:any`; the newest first. The list has the tokens that
    were minted on demand. To revoke tokens that came with a new game or for a code, use `raise_epoch`. A row
    is kept for 30 days after the token's end.
    """
    within = [*listed(game, "game"), *listed(batch, "batch")]
    page = await tokens.page(caller, within, limit=limit, cursor=cursor)
    link_next(request, response, page.next)
    return page


@router.delete(
    "/tokens/{token_id}",
    summary="Revoke a token",
    response_model=TokenRevoked,
    dependencies=[Depends(needs("tokens:mint"))],
    responses=documented(404),
)
async def revoke_token(token_id: TokenId, tokens: SeatTokensDep, caller: CallerDep) -> TokenRevoked:
    """Revokes one token: its connections close within two seconds, on every replica."""
    await tokens.revoke(token_id, caller)
    return TokenRevoked()


@router.post(
    "/games/{game_id}/seats/{seat}/claim-code",
    status_code=201,
    summary="Make a code for a seat",
    response_model=ClaimCodeView,
    dependencies=[Depends(needs("tokens:mint", writes=True))],
    responses=documented(404, 409, 413, 415),
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
    first, at `POST /claims`, gets the seat's token. A new code replaces one that nobody has used. A game
    that is over takes no code: none is made (409), and none is exchanged (410).

    In a key's game the seat is no longer the key's own from then on: its tokens are revoked, and until the
    game ends the key sees the table as a seat of its own, or, without one, as everybody does.
    """
    row = await access.game(caller, game_id, "tokens:mint")
    response.headers.update(NO_STORE)
    return await tokens.claim_code(row, seat, SEAT_S if new is None else new.ttl_s, caller)


@router.post(
    "/claims",
    summary="Exchange a code for a seat's token",
    response_model=ClaimedSeat,
    responses=documented(401, 404, 410, 413, 415, 429),
)
@takes(Bounds(size=1_024, open=True))
async def claim_seat(
    request: Request, claim: Claim, tokens: SeatTokensDep, response: Response
) -> ClaimedSeat:
    """Needs no credential: the code is one, and it works once. In a key's game, a key that is sent with it
    has the seat from then on, and sees the game as that seat until it ends. Sixty wrong codes a minute of
    one owner's keys, or without a key from one address, are answered; the next ones have to wait.
    """
    caller = await caller_of(request) if "authorization" in request.headers else ANYBODY
    response.headers.update(NO_STORE)
    address = request.client.host if request.client is not None else ""
    return await tokens.claim(claim.code, address, caller)
