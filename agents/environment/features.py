"""What a seat sees as one row of small whole numbers, of the same length all game long."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.events import AssassinationMade, CardPlayed, Event
from engine.profile import Profile
from engine.state import Hand, Table
from engine.terms import Phase, Role, Side

__all__ = ["HIGHEST", "LOWEST", "Features"]

LOWEST: Final = -1
HIGHEST: Final = 10
"""Fail cards are counted; ten seats can play no more."""

PHASES: Final = (Phase.PROPOSE, Phase.VOTE, Phase.QUEST, Phase.ASSASSINATE, Phase.OVER)
"""The phases of a game without talk."""

_ROLES: Final = tuple(Role)
_QUESTS: Final = 5


class Features:
    """The layout of a row, and how it is filled.

    A game without talk is short: a row holds everything that the seat has ever been shown, so a
    policy needs no memory of its own.
    """

    def __init__(self, profile: Profile) -> None:
        seats = profile.players
        quest = 3 + seats
        proposal = 2 + 3 * seats
        self._attempts = profile.max_rejections
        self._proposal = proposal
        self._quest = quest
        sizes = {
            "seat": seats,
            "role": len(_ROLES),
            "sees": seats,
            "shoots": 1,
            "asked": 1,
            "vote": 1,
            "cards": _QUESTS,
            "phase": len(PHASES),
            "round": _QUESTS,
            "attempt": profile.max_rejections,
            "leader": seats,
            "team": seats,
            "quests": _QUESTS * quest,
            "proposals": _QUESTS * profile.max_rejections * proposal,
            "shot": seats,
            "winner": len(Side),
        }
        self.layout: Final[dict[str, slice]] = {}
        """Where each part stands in a row, by its name."""
        start = 0
        for name, size in sizes.items():
            self.layout[name] = slice(start, start + size)
            start += size
        self.length: Final = start

    def row(self, table: Table, hand: Hand, public: Sequence[Event], *, asked: bool) -> NDArray[np.int8]:
        """One seat's row: its own hand and what everybody knows."""
        row = np.zeros(self.length, np.int8)
        start = {name: part.start for name, part in self.layout.items()}

        def mark(name: str, *offsets: int) -> None:
            for offset in offsets:
                row[start[name] + offset] = 1

        mark("seat", hand.seat - 1)
        if hand.role is not None:
            mark("role", _ROLES.index(hand.role))
        mark("sees", *(seat - 1 for seat in hand.sees))
        row[start["shoots"]] = hand.shoots
        row[start["asked"]] = asked
        if table.phase is Phase.VOTE and hand.answered == table.opening:
            row[start["vote"]] = _sign(hand.vote)
        self._cards(row[self.layout["cards"]], table, hand)
        mark("phase", PHASES.index(table.phase))
        mark("round", table.round - 1)
        mark("attempt", table.attempt - 1)
        mark("leader", table.leader - 1)
        mark("team", *(seat - 1 for seat in table.team))
        self._quests(row[self.layout["quests"]], table)
        self._proposals(row[self.layout["proposals"]], table)
        if table.missed or table.over:
            shots = (event.target for event in public if type(event) is AssassinationMade)
            mark("shot", *(target - 1 for target in shots if target is not None))
        if table.winner is not None:
            mark("winner", tuple(Side).index(table.winner))
        return row

    def _cards(self, part: NDArray[np.int8], table: Table, hand: Hand) -> None:
        # A card does not tell its quest: the n-th card belongs to the n-th team with this seat on it.
        went = [quest.round for quest in table.quests if hand.seat in quest.team]
        played = [event.success for _, event in hand.own if type(event) is CardPlayed]
        for round_, success in zip([*went, table.round], played, strict=False):
            part[round_ - 1] = _sign(success)

    def _quests(self, part: NDArray[np.int8], table: Table) -> None:
        for quest in table.quests:
            at = part[(quest.round - 1) * self._quest :]
            at[:3] = 1, _sign(quest.succeeded), quest.fails or 0
            for seat in quest.team:
                at[2 + seat] = 1

    def _proposals(self, part: NDArray[np.int8], table: Table) -> None:
        seats = table.players
        for tally in table.tallies:
            at = part[((tally.round - 1) * self._attempts + tally.attempt - 1) * self._proposal :]
            at[:2] = _sign(tally.approved), tally.forced
            at[1 + tally.leader] = 1
            for seat in tally.team:
                at[1 + seats + seat] = 1
            for seat, vote in enumerate(tally.votes, 1):
                at[1 + 2 * seats + seat] = _sign(vote)


def _sign(value: Any) -> int:
    """1, -1, or 0 for what is not known."""
    return 0 if value is None else 1 if value else -1
