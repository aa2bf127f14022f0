"""Theory of mind for nothing: the beliefs that seats record while playing, scored as guesses.

A seat that begins to speak says what it takes the others to intend. Of each other seat that is a guess
about its latest speech: the same item that an outside rater is given from that seat. A belief repeated
later about the same speech is not a second guess; what is later than the speech may have helped the
first one, where the speech lies in an earlier attempt.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final, Literal

from engine.terms import Seat
from evaluators.answers import Guess
from evaluators.calibration import RoleScores
from evaluators.items import Variant, items, make_id, parse_id
from evaluators.scoring import Scores
from evaluators.turns import Game, Turn

__all__ = ["BELIEFS", "BeliefScores", "Span", "believed"]

BELIEFS: Final = Variant(reader="all", options="roles")
"""How beliefs are scored unless told otherwise: a seat chooses from the lists of every role."""

Span = Literal["game", "attempt"]
"""Which speeches a belief is a guess about: the other's latest, or only one of the same attempt."""


def believed(game: Game, span: Span = "game") -> Iterator[Guess]:
    """The beliefs of a game as guesses, in the order in which they were formed.

    Each is about the other seat's latest speech before the believer's own turn, by its guessing item's
    id; ``rater`` is ``belief``. Left out are beliefs of a turn for which a default was played, beliefs
    about a seat that has not spoken, and every later belief of the same seat about the same speech.
    """
    latest: dict[Seat, Turn] = {}
    told: set[str] = set()
    for turn in game.turns:
        if turn.defaulted is None:
            for belief in turn.beliefs:
                speech = latest.get(belief.about)
                if speech is None or (span == "attempt" and not _together(speech, turn)):
                    continue
                item_id = make_id(game.id, "guessing", speech.request_id, "final", turn.seat)
                if item_id in told:
                    continue
                told.add(item_id)
                yield Guess(
                    item_id,
                    frozenset(belief.intentions),
                    rater="belief",
                    role=belief.role,
                    confidence=belief.confidence,
                )
        latest[turn.seat] = turn


def _together(one: Turn, other: Turn) -> bool:
    return (one.round, one.attempt) == (other.round, other.attempt)


class BeliefScores:
    """The beliefs of many games, scored."""

    __slots__ = ("_span", "_variant", "beliefs", "intentions", "of_roles_alone", "roles", "scored")

    def __init__(self, variant: Variant = BELIEFS, span: Span = "game") -> None:
        """With the impactful options a belief counts by what it names of them: nobody told the seat."""
        self._variant = replace(variant, reader="all")
        self._span: Span = span
        self.intentions = Scores()
        self.roles = RoleScores()
        self.beliefs = 0
        """Beliefs that are guesses about some speech."""
        self.scored = 0
        """Of these, the ones about a speech that gives an item."""
        self.of_roles_alone = 0
        """Of the scored ones, those of games whose beliefs name no intention at all: the record holds roles
        alone, as the authors' program writes it, which is no silence about intentions."""

    def add(self, game: Game, seats: Collection[Seat] | None = None) -> None:
        """Counts the beliefs of one game: of these seats, or of all."""
        guesses = {
            guess.item_id: guess
            for guess in believed(game, self._span)
            if seats is None or parse_id(guess.item_id).reader in seats
        }
        self.beliefs += len(guesses)
        named = any(guess.intentions for guess in guesses.values())
        for item in items(game, "guessing", self._variant, with_gold=True):
            guess = guesses.get(item.id)
            if guess is None:
                continue  # the seat was not asked about this speech: that is no silence
            self.scored += 1
            if not named:
                self.of_roles_alone += 1
                self.roles.add(item, guess)
                continue
            if self._variant.options == "impactful":
                guess = replace(guess, intentions=guess.intentions & self._variant.impactful)
            self.intentions.add(item, guess)
            self.roles.add(item, guess)

    def merge(self, other: "BeliefScores") -> None:
        """Adds the counts of ``other``, of other games scored the same way, to these."""
        self.beliefs += other.beliefs
        self.scored += other.scored
        self.of_roles_alone += other.of_roles_alone
        self.intentions.merge(other.intentions)
        self.roles.merge(other.roles)

    def as_json(self) -> dict[str, Any]:
        return {
            "variant": self._variant.as_json(),
            "span": self._span,
            "beliefs": self.beliefs,
            "scored": self.scored,
            "of_roles_alone": self.of_roles_alone,
            "intentions": self.intentions.as_json(),
            "roles": self.roles.as_json(),
        }
