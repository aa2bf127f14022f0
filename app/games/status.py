"""The status of a batch, from the counts of its games."""

from app.store.games import OPEN, Tallied
from app.store.rows import BatchRow

__all__ = ["batch_status"]


def batch_status(row: BatchRow, tallied: Tallied) -> str:
    """The batch's status; ``tallied``: its games, counted."""
    stored = sum(tallied.status.values())
    open_games = sum(tallied.status.get(name, 0) for name in OPEN)
    if row.cancelled:
        return "running" if open_games else "cancelled"
    if stored < row.count or open_games:
        if row.suspended is not None or open_games == tallied.status.get("suspended", 0) > 0:
            return "suspended"
        begun = stored - tallied.status.get("created", 0)
        return "running" if begun else "queued"
    if tallied.status.get("failed", 0):
        return "failed"
    return "cancelled" if tallied.status.get("cancelled", 0) == stored else "done"
