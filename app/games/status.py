"""The status of a batch, and how many of its games have which, from the counts of the stored ones."""

from typing import get_args

from app.base.schemas import GameStatus
from app.store.games import OPEN, Tallied
from app.store.rows import BatchRow

__all__ = ["batch_status", "games_by_status", "lost_games"]


def batch_status(row: BatchRow, tallied: Tallied) -> str:
    """The batch's status; ``tallied``: its games, counted."""
    stored = sum(tallied.status.values())
    open_games = sum(tallied.status.get(name, 0) for name in OPEN)
    if row.cancelled:
        return "running" if open_games else "cancelled"
    if tallied.laid < row.count or open_games:
        if row.suspended is not None or open_games == tallied.status.get("suspended", 0) > 0:
            return "suspended"
        begun = stored - tallied.status.get("created", 0)
        return "running" if begun else "queued"
    if tallied.status.get("failed", 0):
        return "failed"
    return "cancelled" if tallied.status.get("cancelled", 0) == stored else "done"


def games_by_status(row: BatchRow, tallied: Tallied) -> dict[str, int]:
    """How many games of the batch have each status, none left out; together all of its games.

    Games of a large batch that are not stored yet count as created; as cancelled if the batch was cancelled,
    since then they never will be. Games whose status is damaged, and games that are lost, count as
    ``damaged``, if there are any.
    """
    found = {name: tallied.status.get(name, 0) for name in get_args(GameStatus)}
    lost = lost_games(row, tallied)
    if damaged := tallied.status.get("damaged", 0) + lost:
        found["damaged"] = damaged
    found["cancelled" if row.cancelled else "created"] += max(0, row.count - sum(found.values()))
    return found


def lost_games(row: BatchRow, tallied: Tallied) -> int:
    """How many games the batch had that are not found any more: their rows are gone, or it cannot be read
    whose they are. Games that somebody deleted are none of them.
    """
    return max(0, row.count - tallied.status.total()) if tallied.laid >= row.count else 0
