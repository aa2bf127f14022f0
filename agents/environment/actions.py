"""The numbers by which a policy names actions: one discrete set for everything a seat may be asked."""

from collections.abc import Mapping
from typing import Final

from engine.actions import Assassinate, CastVote, PlayCard, ProposeTeam, SeatAction
from engine.profile import Profile
from engine.rules import legal
from engine.state import Hand, Table

__all__ = ["Actions"]


class Actions:
    """All actions of a game without talk, numbered: votes, cards, teams, targets.

    0 reject, 1 approve, 2 play fail, 3 play success; then every team of a size that some quest of the
    profile takes, smaller sizes first and ascending within one; then a shot at seat 1 to n; last, where
    the profile offers the shot after any quest, holding fire.
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
        """The numbers of what this seat may do now, by what it sees itself. Empty: it is not asked."""
        return [self.number[action] for action in legal(table, hand) or ()]

    def names(self) -> list[str]:
        """What each number means, for people."""
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
