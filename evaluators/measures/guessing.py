"""Theory of mind at no extra cost: the beliefs that seats record while playing, scored as guesses.

Before it speaks, a seat records what it believes the others intend. Its belief about another seat is a guess
about that seat's latest speech: the same item that a rater is asked from that seat's point of view. Only the
first belief about a speech is a guess. If the speech belongs to an earlier attempt, later events may have
helped the guess. A belief about a speech out of sight is no guess: a seat whose memory is ``summaries``, the
paper's, sees its own summary of an attempt in later rounds, and no longer the speeches.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from engine.events import AgentsSeated, BeliefsFormed, RoundSummarised
from engine.terms import Seat
from evaluators.ground.answers import Guess
from evaluators.ground.items import Item, Variant, items, make_id
from evaluators.ground.turns import Game, Turn
from evaluators.measures.scoring import F1, RoleScores, Scores

__all__ = ["BELIEFS", "BeliefItems", "BeliefScores", "NoGuess", "Span", "believed"]

BELIEFS: Final = Variant(reader="all", options="roles")
"""The default variant for beliefs: a seat chooses from the lists of all roles that the speaker may hold."""

Span = Literal["game", "attempt"]
"""The speeches that beliefs are guesses about: the latest one in the game, or only one of the same
attempt."""

NoGuess = Literal[
    "not held when the seat began to speak",
    "of a turn for which a default was played",
    "about a seat that had not spoken",
    "about a speech of an earlier attempt",
    "about a speech that a summary has replaced",
    "about a speech about which the seat already had a belief",
]
"""Why a recorded belief is no guess."""


def believed(
    game: Game, span: Span = "game", left_out: Counter[tuple[Seat, NoGuess]] | None = None
) -> Iterator[Guess]:
    """The beliefs of a game as guesses, in the order in which they were formed.

    Each guess is about the other seat's latest speech before the believer's own turn and has the id of that
    guessing item; ``rater`` is ``belief``. ``left_out`` counts all other recorded beliefs by believer and
    reason, once every guess was taken.
    """
    latest: dict[Seat, Turn] = {}
    guessed: set[tuple[str, Seat]] = set()
    summed_up = _summed_up(game)
    seated = [(index, event) for index, event in enumerate(game.log) if isinstance(event, AgentsSeated)]
    left_out = Counter() if left_out is None else left_out
    for event in game.log:
        if isinstance(event, BeliefsFormed):
            left_out[event.seat, "not held when the seat began to speak"] += len(event.beliefs)
    for turn in game.turns:
        left_out[turn.seat, "not held when the seat began to speak"] -= len(turn.beliefs)
        for belief in turn.beliefs:
            speech = latest.get(belief.about)
            if turn.defaulted is not None:
                left_out[turn.seat, "of a turn for which a default was played"] += 1
            elif speech is None:
                left_out[turn.seat, "about a seat that had not spoken"] += 1
            elif span == "attempt" and (speech.round, speech.attempt) != (turn.round, turn.attempt):
                left_out[turn.seat, "about a speech of an earlier attempt"] += 1
            elif _out_of_sight(turn, speech, summed_up) and _memory(game, turn, seated) == "summaries":
                left_out[turn.seat, "about a speech that a summary has replaced"] += 1
            elif (speech.request_id, turn.seat) in guessed:
                left_out[turn.seat, "about a speech about which the seat already had a belief"] += 1
            else:
                guessed.add((speech.request_id, turn.seat))
                yield Guess(
                    make_id(game.id, "guessing", speech.request_id, "final", turn.seat),
                    frozenset(belief.intentions),
                    rater="belief",
                    role=belief.role,
                    confidence=belief.confidence,
                )
        latest[turn.seat] = turn


def _memory(game: Game, turn: Turn, seated: Sequence[tuple[int, AgentsSeated]]) -> str:
    """What the record of the seat that spoke keeps of earlier rounds, as its ``memory`` says. For a seat of
    which the log says nothing, as the profile has it.
    """
    usual = "summaries" if game.profile.name == "interintent" else "speeches"
    before = [event for index, event in seated if index < turn.opening]
    return str(before[-1].agents[turn.seat - 1].parameters.get("memory", usual)) if before else usual


def _summed_up(game: Game) -> frozenset[tuple[Seat, int, int]]:
    """(seat, round, attempt) of the attempts that a seat has summed up."""
    return frozenset(
        (event.seat, event.round, event.attempt)
        for event in game.log
        if isinstance(event, RoundSummarised) and event.answers
    )


def _out_of_sight(turn: Turn, speech: Turn, summed_up: frozenset[tuple[Seat, int, int]]) -> bool:
    """Whether the believer has a summary of its own instead of the speech."""
    if turn.without == "summary":
        # An opener that was asked before it summed up still has the speeches of the round before (timing
        # eager).
        return speech.round < turn.round - 1
    return speech.round < turn.round and (turn.seat, speech.round, speech.attempt) in summed_up


class BeliefItems(NamedTuple):
    """The beliefs of one game with the items that they answer."""

    guesses: Mapping[str, Guess]
    """By the id of the guessing item."""
    items: tuple[Item, ...]
    """With gold; not every speech gives an item."""
    left_out: Mapping[tuple[Seat, NoGuess], int]
    """The number of beliefs that are no guesses, by believer and reason."""

    def of(self, seats: Collection[Seat] | None) -> Iterator[Guess]:
        """The beliefs of these seats; None: of all."""
        for guess in self.guesses.values():
            if seats is None or int(guess.item_id.rpartition("/")[2]) in seats:
                yield guess


class BeliefScores:
    """Scores the beliefs of many games."""

    def __init__(self, variant: Variant = BELIEFS, span: Span = "game") -> None:
        """With impactful options, only intentions on that list count: the seat did not know the list."""
        self._variant = replace(variant, reader="all")
        self._span: Span = span
        self.intentions = Scores()
        self.roles = RoleScores()
        self.beliefs = 0
        """The number of beliefs that are guesses about a speech."""
        self.scored = 0
        """The number of these that are about a speech that gives an item."""
        self.left_out: Counter[NoGuess] = Counter()
        """The number of all other beliefs, by reason."""
        self.of_roles_alone = 0
        """The number of scored beliefs in games whose beliefs name no intention at all. Such records, as the
        authors' program writes them, hold only roles, so a missing intention does not count as silence."""

    def read(self, game: Game) -> BeliefItems:
        """The beliefs of a game, for ``add``: they are read once, however often they are counted."""
        left_out: Counter[tuple[Seat, NoGuess]] = Counter()
        guesses = {guess.item_id: guess for guess in believed(game, self._span, left_out)}
        every = items(game, "guessing", self._variant, with_gold=True)
        # A seat without a guess was not asked about the speech.
        return BeliefItems(guesses, tuple(item for item in every if item.id in guesses), +left_out)

    def add(
        self, game: Game, seats: Collection[Seat] | None = None, beliefs: BeliefItems | None = None
    ) -> list[tuple[Item, F1]]:
        """Counts the beliefs of these seats, or of all seats, in one game; ``beliefs``: what ``read`` gives,
        if it was read already. Returns the items whose intentions were scored, each with its F1.
        """
        scored = []
        beliefs = beliefs or self.read(game)
        guesses = {guess.item_id: guess for guess in beliefs.of(seats)}
        self.beliefs += len(guesses)
        for (seat, reason), n in beliefs.left_out.items():
            if seats is None or seat in seats:
                self.left_out[reason] += n
        # Of all seats: beside one that names an intention, a seat that names none is silent.
        named = any(guess.intentions for guess in beliefs.guesses.values())
        for item in beliefs.items:
            guess = guesses.get(item.id)
            if guess is None:
                continue
            self.scored += 1
            self.roles.add(item, guess)
            if not named:
                self.of_roles_alone += 1
                continue
            if self._variant.options == "impactful":
                guess = replace(guess, intentions=guess.intentions & self._variant.impactful)
            scored.append((item, self.intentions.add(item, guess)))
        return scored
