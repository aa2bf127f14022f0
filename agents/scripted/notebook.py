"""The conclusions that one seat has drawn from its record so far.

A notebook is a cache: a new one that reads the same observation gives the same answers, so an agent made in
the middle of a game plays as the agent before it would have played.
"""

from collections.abc import Sequence
from functools import lru_cache
from re import Pattern, escape
from re import compile as pattern
from typing import Final, NamedTuple

from agents.scripted.belief import Deals, own_cards
from agents.scripted.phrases import ACTS
from engine.events import AssassinationMade, QuestResolved, UtteranceMade, VotesRevealed
from engine.state import Tally
from engine.terms import EVIL_ROLES, Role, Seat, Side
from engine.view import Observation

__all__ = ["Notebook", "NotedMove", "NotedSpeech", "moves_in"]


class NotedMove(NamedTuple):
    """One recognised move in a speech."""

    act: str
    sentence: str
    """The sentence as spoken, cut after ``LONGEST_QUOTE`` characters."""
    seats: tuple[Seat, ...]
    """The seats that the move names, in the order of the sentence."""


class NotedSpeech(NamedTuple):
    """One speech."""

    seat: Seat
    round: int
    attempt: int
    text: str


LONGEST_QUOTE: Final = 200
"""The most characters of a quoted sentence, since any agent may speak at any length."""

_SENTENCE_ENDS: Final = pattern(r"(?<=[.!?])\s+")
_CUES: Final = tuple((cue, act) for act, entry in ACTS.items() for cue in entry.cues)


@lru_cache(maxsize=16)
def _names_in(names: tuple[str, ...]) -> tuple[Pattern[str], dict[str, Seat]]:
    by_name = {name.casefold(): seat for seat, name in reversed(list(enumerate(names, 1)))}
    longest_first = sorted(by_name, key=lambda name: (-len(name), name))
    return pattern(rf"(?<!\w)(?:{'|'.join(map(escape, longest_first))})(?!\w)"), by_name


@lru_cache(maxsize=1024)
def moves_in(text: str, names: tuple[str, ...]) -> tuple[NotedMove, ...]:
    """The moves in a speech, by the cues of ``phrases``; empty if none is recognised."""
    finder, by_name = _names_in(names)
    moves = []
    for sentence in _SENTENCE_ENDS.split(text):
        plain = sentence.casefold()
        for cue, act in _CUES:
            if cue in plain:
                named = dict.fromkeys(by_name[name] for name in finder.findall(plain))
                moves.append(NotedMove(act, sentence[:LONGEST_QUOTE], tuple(named)))
                break
    return tuple(moves)


class Notebook:
    """Reads a seat's record as it grows."""

    def __init__(self, observation: Observation) -> None:
        hand = observation.hand
        table = observation.table
        assert hand.role is not None, "a seat is asked after it has learned its role"
        self.seat = hand.seat
        self.role: Role = hand.role
        self.side = Side.EVIL if hand.role in EVIL_ROLES else Side.LOYAL
        self.mates: tuple[Seat, ...] = hand.sees if self.side is Side.EVIL else ()
        """The evil seats that this evil seat was shown."""
        self.players = table.players
        self.profile = table.profile
        self.names = table.names
        self.deals = Deals(table.profile, hand.seat, hand.role, hand.sees)
        # A seat that knows more than others must also know how things look to them.
        knows = self.side is Side.EVIL or hand.role is Role.MERLIN
        self._public_deals = Deals(table.profile, None, None, ()) if knows else self.deals
        self.speeches: list[NotedSpeech] = []
        self.went: dict[int, Tally] = {}
        """The proposal whose team went on the quest, by round."""
        self._read = 0
        self._first = observation.public[0]
        self._last = self._first
        self._tallies = 0
        self._evil: list[float] | None = None
        self._looks: list[float] | None = None
        self._roles: list[dict[Role, float]] | None = None

    def continues(self, observation: Observation) -> bool:
        """Whether the observation is of the notebook's game, at the notebook's position or later."""
        public = observation.public
        hand = observation.hand
        return (
            self._read <= len(public)
            and public[0] == self._first
            and public[max(self._read - 1, 0)] == self._last
            and hand.seat == self.seat
            and hand.role is self.role
        )

    def read(self, observation: Observation) -> None:
        """Reads the new events of the public record one by one: weights are products of floats, and the order
        of factors changes the result.
        """
        public = observation.public
        if self._read == len(public):
            return
        tallies = observation.table.tallies
        # A seat's own card tells it more than the public count only while it does not know all evil seats.
        remembers = self.side is Side.EVIL and len(self.deals.masks) > 1
        cards: dict[int, bool] | None = None
        for event in public[self._read :]:
            kind = type(event)
            if kind is UtteranceMade:
                if event.text:  # type: ignore[union-attr]
                    self.speeches.append(NotedSpeech(event.seat, event.round, event.attempt, event.text))  # type: ignore[union-attr]
            elif kind is VotesRevealed:
                self._take_tally(tallies[self._tallies])
            elif kind is QuestResolved:
                if self._tallies < len(tallies) and not tallies[self._tallies].votes:
                    self._take_tally(tallies[self._tallies])
                if remembers and cards is None:
                    cards = own_cards(observation.events)
                self._take_quest(event, (cards or {}).get(event.round))  # type: ignore[arg-type, union-attr]
            elif kind is AssassinationMade and not event.hit:  # type: ignore[union-attr]
                for deals in self._both():
                    deals.take_miss(event.assassin, event.target)  # type: ignore[union-attr]
                self._forget()
        self._read = len(public)
        self._last = public[-1]

    def _both(self) -> tuple[Deals, ...]:
        return (self.deals,) if self._public_deals is self.deals else (self.deals, self._public_deals)

    def _take_tally(self, tally: Tally) -> None:
        for deals in self._both():
            deals.take_tally(tally)
        self._tallies += 1
        if tally.approved or tally.forced:
            self.went[tally.round] = tally
        self._forget()

    def _take_quest(self, quest: QuestResolved, own_card: bool | None) -> None:
        self.deals.take_quest(quest, own_card)
        if self._public_deals is not self.deals:
            self._public_deals.take_quest(quest)
        self._forget()

    def _forget(self) -> None:
        self._evil = self._looks = self._roles = None

    # --- conclusions, cached until the record grows --------------------------------------------------

    def evil(self) -> list[float]:
        """The probability that each seat is evil, seat 1 first."""
        if self._evil is None:
            self._evil = self.deals.evil()
        return self._evil

    def roles(self) -> list[dict[Role, float]]:
        """The probability that each seat holds each role, seat 1 first."""
        if self._roles is None:
            self._roles = self.deals.roles()
        return self._roles

    def looks(self) -> list[float]:
        """The probability that each seat is evil, seat 1 first, as it looks to a seat without private
        knowledge; if this seat is neither Merlin nor evil, this is its own belief.
        """
        if self._looks is None:
            self._looks = self._public_deals.evil()
        return self._looks

    def safe_looking(self, team: Sequence[Seat], needed: int) -> float:
        """The probability that evil cannot fail a team, as it looks to a seat without private knowledge."""
        return self._public_deals.safe(team, needed)
