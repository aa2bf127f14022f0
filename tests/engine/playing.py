"""A game that is played by hand, for examples of rules: a known deal, and a short method for each action."""

from typing import Any, Self

from engine.actions import Assassinate, CastVote, PlayCard, ProposeTeam
from engine.events import Event, payload, type_name
from engine.profile import make_profile
from engine.rules import create, default, pending
from engine.state import State, apply, fold
from engine.terms import EVIL_ROLES, Role
from tests.engine.ways import both_ways

FIVE = "merlin percival servant assassin morgana"
"""Seats 1 to 3 are loyal, seats 4 and 5 are evil."""
SEVEN = "merlin percival servant servant assassin morgana mordred"


class Play:
    """One game. Every method that acts returns the new events, as names and payloads."""

    def __init__(self, deal: str = FIVE, profile: str = "official", **rules: Any) -> None:
        """By default official rules without talk, and seat 1 as the first leader; ``rules`` overrides
        them.
        """
        roles = [Role(name) for name in deal.split()]
        quiet = (
            {"discussion": "none", "reconsideration": False, "summaries": False}
            if profile == "official"
            else {}
        )
        reveal = rules.pop("reveal", None)
        self.profile = make_profile(
            profile, len(roles), roles=roles, rules={**quiet, "first_leader": 1, **rules}, reveal=reveal
        )
        self.state: State = fold(create(self.profile, 7, deal=roles))

    def do(self, *answers: tuple[int, Any]) -> list[tuple[str, dict[str, Any]]]:
        events = both_ways(self.state, answers)
        apply(self.state, events)
        return [said(event) for event in events]

    @property
    def asked(self) -> list[tuple[str, int]]:
        """(kind, seat) of every open request."""
        return [(str(request.kind), request.seat) for request in pending(self.state)]

    @property
    def kind(self) -> str:
        """The kind of the open requests; empty when the game is over."""
        return self.asked[0][0] if self.asked else ""

    @property
    def leader(self) -> int:
        return self.state.table.leader

    def skip(self, *kinds: str) -> Self:
        """Plays defaults as long as the open requests are of one of these kinds."""
        while self.kind in kinds:
            self.do(*((r.seat, default(self.state.table, r)) for r in pending(self.state)))
        return self

    def propose(self, *team: int, text: str = "") -> list[tuple[str, dict[str, Any]]]:
        """Proposes this team; by default the first seats."""
        size = self.profile.team_sizes[self.state.table.round - 1]
        return self.do((self.leader, ProposeTeam(team or tuple(range(1, size + 1)), text)))

    def vote(self, yes: int) -> list[tuple[str, dict[str, Any]]]:
        """The first ``yes`` seats approve, the others do not."""
        return self.do(*((seat, CastVote(seat <= yes)) for _, seat in self.asked))

    def quest(self, fails: int = 0) -> list[tuple[str, dict[str, Any]]]:
        """Plays the quest with this many fails, by the last evil seats of the team."""
        evil = [seat for _, seat in self.asked if self.state.hand(seat).role in EVIL_ROLES]
        failing = evil[len(evil) - fails :]
        return self.do(*((seat, PlayCard(seat not in failing)) for _, seat in self.asked))

    def reject(self) -> list[tuple[str, dict[str, Any]]]:
        """A proposal that everybody rejects."""
        self.skip("speak")
        self.propose()
        self.skip("speak", "reconsider")
        return self.vote(0)

    def round(self, *, fails: int = 0) -> list[tuple[str, dict[str, Any]]]:
        """A quest that everybody approves. Its team is the first seats, or the last ones if it must fail."""
        self.skip("speak")
        table = self.state.table
        size = self.profile.team_sizes[table.round - 1]
        self.propose(*(range(table.players - size + 1, table.players + 1) if fails else range(1, size + 1)))
        self.skip("speak", "reconsider")
        self.vote(table.players)
        return self.quest(fails)

    def shoot(self, target: int | None) -> list[tuple[str, dict[str, Any]]]:
        return self.do((self.asked[0][1], Assassinate(target)))


def said(event: Event) -> tuple[str, dict[str, Any]]:
    """An event's name and payload."""
    return type_name(event), payload(event)


def names(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """The names of the events."""
    return [name for name, _ in events]
