"""Dependencies of this room's routes: its services, and the ids in a path."""

from typing import Annotated

from fastapi import Path

from app.edge.deps import service
from app.games.access import Access
from app.games.following import Following
from app.games.seat_tokens import SeatTokens
from app.games.service import Games
from app.store.audit import Audit

__all__ = [
    "AccessDep",
    "AuditDep",
    "BatchId",
    "FollowingDep",
    "GameId",
    "GamesDep",
    "SeatTokensDep",
    "TokenId",
]

GameId = Annotated[str, Path(pattern=r"^g_[a-z0-9]{1,32}$", description="The game.")]
BatchId = Annotated[str, Path(pattern=r"^b_[a-z0-9]{1,32}$", description="The batch.")]
TokenId = Annotated[str, Path(pattern=r"^t_[a-z0-9]{1,32}$", description="The token's id.")]

AccessDep = Annotated[Access, service("access")]
AuditDep = Annotated[Audit, service("audit")]
GamesDep = Annotated[Games, service("games")]
FollowingDep = Annotated[Following, service("following")]
SeatTokensDep = Annotated[SeatTokens, service("seat_tokens")]
