"""The numbers of a policy: actions as one discrete set, and the view of a seat as a row of small numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.actions import Assassinate, CastVote, PlayCard, ProposeTeam, SeatAction
from engine.events import AssassinationMade, CardPlayed, Event
from engine.profile import Profile
from engine.rules import legal
from engine.state import Hand, Table
from engine.terms import Phase, Role, Side

__all__ = ["HIGHEST", "LOWEST", "Actions", "Features"]


class Actions:
    """All actions of a game without talk, numbered: votes, cards, teams, targets.

    0 reject, 1 approve, 2 play fail, 3 play success; then every team of a size that a quest of the profile
    takes, by size and then ascending; then a shot at seat 1 to n; last, if the profile offers the shot after
    any quest, holding fire.
    """

    def __init__(self, profile: Profile) -> None:
        teams = dict(zip(profile.team_sizes, profile.teams, strict=True))
        hold = (Assassinate(None),) if profile.assassination == "after_any_quest" else ()
        self.all: Final[tuple[SeatAction, ...]] = (
            CastVote(False),
            CastVote(True),
            PlayCard(False),
            PlayCard(True),
            *(ProposeTeam(team) for size in sorted(teams) for team in teams[size]),
            *(Assassinate(seat) for seat in range(1, profile.players + 1)),
            *hold,
        )
        self.number: Final[Mapping[SeatAction, int]] = {
            action: number for number, action in enumerate(self.all)
        }

    def __len__(self) -> int:
        return len(self.all)

    def open(self, table: Table, hand: Hand) -> list[int]:
        """The numbers of the seat's legal actions, judged by what it sees. Empty if it is not being asked."""
        return [self.number[action] for action in legal(table, hand) or ()]

    def names(self) -> list[str]:
        """The meaning of each number, for people."""
        return [_name(action) for action in self.all]


def _name(action: SeatAction) -> str:
    match action:
        case CastVote(approve=approve):
            return "approve" if approve else "reject"
        case PlayCard(success=success):
            return "success" if success else "fail"
        case ProposeTeam(team=team):
            return f"team {','.join(map(str, team))}"
        case Assassinate(target=None):
            return "hold fire"
        case Assassinate(target=target):
            return f"shoot {target}"
        case _:
            raise TypeError(f"{type(action).__name__} needs talk")


LOWEST: Final = -1
HIGHEST: Final = 10
"""The bounds of the numbers in a row. Fail cards are at most ten; all other numbers are -1, 0 or 1."""

PHASES: Final = (Phase.PROPOSE, Phase.VOTE, Phase.QUEST, Phase.ASSASSINATE, Phase.OVER)
"""The phases of a game without talk."""

_ROLES: Final = tuple(Role)
_QUESTS: Final = 5


class Features:
    """The layout and the contents of a row, the numbers that one seat observes.

    A game without talk is short: a row holds everything that the seat has been shown so far, so that a policy
    needs no memory.
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
        """The slice of each part of a row, by name."""
        start = 0
        for name, size in sizes.items():
            self.layout[name] = slice(start, start + size)
            start += size
        self.length: Final = start

    def row(self, table: Table, hand: Hand, public: Sequence[Event], *, asked: bool) -> NDArray[np.int8]:
        """The row of one seat: its own hand, and what everybody knows."""
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
        # A card does not name its quest: the n-th card belongs to the n-th team with this seat.
        went = [quest.round for quest in table.quests if hand.seat in quest.team]
        played = [event.success for _, event in hand.own if type(event) is CardPlayed]
        for round_, success in zip([*went, table.round], played, strict=False):
            part[round_ - 1] = _sign(success)

    def _quests(self, part: NDArray[np.int8], table: Table) -> None:
        for quest in table.quests:
            cells = part[(quest.round - 1) * self._quest :]
            cells[:3] = 1, _sign(quest.succeeded), quest.fails or 0
            for seat in quest.team:
                cells[2 + seat] = 1

    def _proposals(self, part: NDArray[np.int8], table: Table) -> None:
        seats = table.players
        for tally in table.tallies:
            cells = part[((tally.round - 1) * self._attempts + tally.attempt - 1) * self._proposal :]
            cells[:2] = _sign(tally.approved), tally.forced
            cells[1 + tally.leader] = 1
            for seat in tally.team:
                cells[1 + seats + seat] = 1
            for seat, vote in enumerate(tally.votes, 1):
                cells[1 + 2 * seats + seat] = _sign(vote)


def _sign(value: Any) -> int:
    """1 or -1; 0 if the value is unknown."""
    return 0 if value is None else 1 if value else -1
