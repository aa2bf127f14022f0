"""How long a remote seat may take, and when its time is over."""

from collections.abc import Mapping
from typing import Final

from app.store.rows import BatchRow, GameRow
from engine.terms import Kind

__all__ = ["ALLOWANCE_S", "MAX_ALLOWANCE_S", "MIN_ALLOWANCE_S", "allowances", "deadline_ms"]

ALLOWANCE_S: Final[Mapping[Kind, float]] = {
    Kind.PROPOSE_TEAM: 120.0,
    Kind.SPEAK: 120.0,
    Kind.RECONSIDER: 120.0,
    Kind.VOTE: 60.0,
    Kind.CARD: 60.0,
    Kind.SUMMARISE: 120.0,
    Kind.ASSASSINATE: 120.0,
}
"""Where a batch says nothing else: a person can type a speech, a program can ask a slow model."""

MIN_ALLOWANCE_S: Final = 0.1
MAX_ALLOWANCE_S: Final = 7 * 24 * 3600.0


def allowances(game: GameRow, batch: BatchRow) -> Mapping[Kind, float] | None:
    """Seconds by kind of request, of a game's row and its batch's; None: stepped by hand, without end."""
    if game.drive != "auto":
        return None
    given = batch.spec.get("deadlines_s") or {}
    return {kind: float(given.get(kind.value, seconds)) for kind, seconds in ALLOWANCE_S.items()}


def deadline_ms(allowed: Mapping[Kind, float] | None, kind: Kind, opened_at: int) -> int | None:
    """When the default is played: so long after the commit that opened the request."""
    return None if allowed is None else opened_at + round(allowed[kind] * 1000)
