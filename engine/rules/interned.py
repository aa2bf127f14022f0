"""Recurring events, made once and shared: an interned event costs a fifth of a new one, which makes up for
the cost of frozen dataclasses (measured in ``bench/``).
"""

from functools import cache, lru_cache
from typing import Final

from engine.events import (
    AssassinationOpened,
    CardPlayed,
    GameEnded,
    ProposalOpened,
    QuestResolved,
    RoundSummarised,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
)

__all__ = [
    "ASSASSINATION_OPENED",
    "card_played",
    "game_ended",
    "nothing_summarised",
    "proposal_opened",
    "quest_resolved",
    "silence",
    "team_proposed",
    "vote_cast",
    "votes_revealed",
]

vote_cast = cache(VoteCast)
card_played = cache(CardPlayed)
proposal_opened = cache(ProposalOpened)
team_proposed = cache(TeamProposed)
quest_resolved = cache(QuestResolved)
silence = lru_cache(4096)(UtteranceMade)
nothing_summarised = lru_cache(4096)(RoundSummarised)
game_ended = lru_cache(1024)(GameEnded)
ASSASSINATION_OPENED: Final = AssassinationOpened()


# Bounded: ten seats have 3,072 outcomes; only imported records add others, with unknown ballots.
@cache
def votes_revealed(votes: tuple[bool | None, ...], approved: bool, forced: bool) -> VotesRevealed:
    return VotesRevealed(votes, approved, forced)
