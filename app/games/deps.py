"""What routes ask of this room: its services."""

from typing import Annotated

from fastapi import Depends, Path, Request

from app.games.access import Access
from app.games.following import Following
from app.games.seat_tokens import SeatTokens
from app.games.service import Games

__all__ = ["AccessDep", "BatchId", "FollowingDep", "GameId", "GamesDep", "SeatTokensDep", "access_of"]

GameId = Annotated[str, Path(pattern=r"^g_[a-z0-9]{1,32}$", description="The game.")]
BatchId = Annotated[str, Path(pattern=r"^b_[a-z0-9]{1,32}$", description="The batch.")]


def access_of(request: Request) -> Access:
    """What finds games for callers."""
    access: Access = request.app.state.access
    return access


def _games(request: Request) -> Games:
    games: Games = request.app.state.games
    return games


def _following(request: Request) -> Following:
    following: Following = request.app.state.following
    return following


def _seat_tokens(request: Request) -> SeatTokens:
    tokens: SeatTokens = request.app.state.seat_tokens
    return tokens


AccessDep = Annotated[Access, Depends(access_of)]
GamesDep = Annotated[Games, Depends(_games)]
FollowingDep = Annotated[Following, Depends(_following)]
SeatTokensDep = Annotated[SeatTokens, Depends(_seat_tokens)]
