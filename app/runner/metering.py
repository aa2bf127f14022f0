"""Metrics and log lines of a driven game: how long the game and its phases took, its defaults, its beginning
and its end.
"""

import time
from collections.abc import Sequence
from typing import Final

import structlog

from app.base import metrics
from app.store.rows import GameRow
from engine.events import (
    ActionDefaulted,
    AssassinationMade,
    Event,
    GameCancelled,
    GameEnded,
    QuestResolved,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    VotesRevealed,
)
from engine.terms import Phase

__all__ = ["GameMeter"]

log = structlog.get_logger()

_ENDS: Final[dict[type, Phase]] = {
    TeamProposed: Phase.PROPOSE,
    TeamConfirmed: Phase.RECONSIDER,
    VotesRevealed: Phase.VOTE,
    QuestResolved: Phase.QUEST,
    RoundSummarised: Phase.SUMMARY,
    AssassinationMade: Phase.ASSASSINATE,
}
"""The phase that an event ends. The speeches after a proposal are in the phase that ends next."""


class GameMeter:
    """Counts what one process appends to one game."""

    def __init__(self, game: GameRow, *, timed: bool) -> None:
        """``timed``: whether the game's phases take time; scripts answer at once."""
        self._game = game
        self._timed = timed
        self._since = time.monotonic()

    def begin(self, events: int) -> None:
        """Notes that this process drives the game from here on. Games that end at once are not noted."""
        if self._timed:
            log.info(
                "a game is driven", batch=self._game.batch_id, game=self._game.game_id, after_events=events
            )

    def count(self, events: Sequence[Event], at: int) -> None:
        """Counts events that were committed together at this time, in ms."""
        last = events[-1]
        if isinstance(last, GameEnded | GameCancelled):
            status = "finished" if isinstance(last, GameEnded) else "cancelled"
            seconds = max(0, at - self._game.created_at) / 1000
            metrics.game_seconds.labels(status).observe(seconds)
            log.info(
                "a game is over",
                batch=self._game.batch_id,
                game=self._game.game_id,
                status=status,
                after_s=seconds,
            )
        if not self._timed:
            return
        ended = None
        for event in events:
            ended = _ENDS.get(type(event), ended)
            if isinstance(event, ActionDefaulted):
                metrics.decisions_defaulted.labels(event.cause).inc()
        if ended is not None:
            now = time.monotonic()
            metrics.phase_seconds.labels(ended).observe(now - self._since)
            self._since = now
