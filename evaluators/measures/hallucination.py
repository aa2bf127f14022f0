"""Hallucination in games: the speeches of a game, and how often they state what the public record refutes.

A speech is what a seat said of its own accord, in the discussion or about its final team; defaulted and empty
speeches do not count. The record is the public one: it holds no card, no summary and nobody's thoughts.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.events import ActionDefaulted, Event, GameCreated, ProposalOpened, TeamProposed, UtteranceMade
from engine.state import State, apply
from engine.terms import Kind, Role, Seat, Side, side_of
from evaluators.errors import Unmeasurable
from evaluators.ground.contexts import entries_of, game_lines, line_of
from evaluators.measures.statements import Finding, read_statements, sentences
from evaluators.statistics.rates import Rate

__all__ = ["Hallucinations", "Speech", "SpeechKey", "answered_by", "speeches", "statements_of"]


class SpeechKey(NamedTuple):
    """Identifies a speech."""

    game_id: str
    request_id: str
    """The request that the speech answers, e.g. ``2.1.reconsider.3``."""
    turn: int
    """The number of utterances before it in the attempt: in a foreign record a seat may answer a request
    twice. Negative for a control speech, which no seat made."""


@dataclass(frozen=True, slots=True)
class Speech:
    """One speech with the statements that the rules find in it."""

    key: SpeechKey
    index: int
    """The index of the speech's utterance in the log."""
    seat: Seat
    text: str
    findings: tuple[Finding, ...]
    sentences: tuple[tuple[int, int], ...]
    """The start and end of each sentence."""
    game: tuple[str, ...]
    """The rules of the game and the seats' names, one line each."""
    record: tuple[str, ...]
    """The lines of the public record before the speech, oldest first."""


def speeches(game_id: str, log: Sequence[Event]) -> Iterator[Speech]:
    """The speeches of a log, in order."""
    state = State()
    game: tuple[str, ...] = ()
    record: list[str] = []
    defaulted: set[str] = set()
    round_ = attempt = 0
    for index, event in enumerate(log):
        if isinstance(event, GameCreated):
            game = tuple(game_lines(event.profile, event.names))
        elif isinstance(event, ActionDefaulted):
            defaulted.add(event.request_id)
        elif isinstance(event, ProposalOpened):
            round_, attempt = event.round, event.attempt
        elif isinstance(event, UtteranceMade):
            request_id = answered_by(event, log[index - 1])
            if any(c.isalnum() for c in event.text) and request_id not in defaulted:
                yield Speech(
                    SpeechKey(game_id, request_id, event.turn),
                    index,
                    event.seat,
                    event.text,
                    read_statements(event.text, event.seat, state.table),
                    sentences(event.text, state.table.names),
                    game,
                    tuple(record),
                )
        if event.seen_by == "public":
            record += map(line_of, entries_of(event, round_, attempt))
        apply(state, (event,))


def answered_by(event: UtteranceMade, before: Event | None) -> str:
    """The request that an utterance answers; ``before`` is the event directly before it in the log."""
    if event.phase == "reconsider":
        kind = Kind.RECONSIDER
    elif isinstance(before, TeamProposed) and before.leader == event.seat:
        kind = Kind.PROPOSE_TEAM
    else:
        kind = Kind.SPEAK
    return f"{event.round}.{event.attempt}.{kind}.{event.seat}"


def statements_of(log: Iterable[Event]) -> Iterator[tuple[UtteranceMade, tuple[Finding, ...]]]:
    """Every speech of a log with its findings, in order; defaulted and empty speeches are left out."""
    state = State()
    defaulted: set[str] = set()
    before: Event | None = None
    for event in log:
        if isinstance(event, ActionDefaulted):
            defaulted.add(event.request_id)
        elif (
            isinstance(event, UtteranceMade)
            and event.text.strip()
            and answered_by(event, before) not in defaulted
        ):
            yield event, read_statements(event.text, event.seat, state.table)
        apply(state, (event,))
        before = event


class Hallucinations:
    """Counts how often speeches state what the record refutes, over finished games, by role."""

    def __init__(self) -> None:
        self._by_role: dict[Role, Counter[str]] = {}
        """Speeches, speeches with a refuted statement, and statements by verdict."""

    def add(
        self,
        by_speech: Iterable[tuple[UtteranceMade, tuple[Finding, ...]]],
        roles: tuple[Role, ...],
        seats: Collection[Seat] | None = None,
    ) -> None:
        """Counts one game's speeches (``statements_of``), or only what ``seats`` said; ``roles`` is its deal,
        seat 1 first. Raises Unmeasurable if the deal is empty.
        """
        if not roles:
            raise Unmeasurable("speeches are counted by role, and the deal is not in the log")
        for event, findings in by_speech:
            if seats is not None and event.seat not in seats:
                continue
            counts = self._by_role.setdefault(roles[event.seat - 1], Counter())
            verdicts = [finding.verdict for finding in findings]
            counts.update(["speeches", *(["refuting"] if "refuted" in verdicts else []), *verdicts])

    def speeches(self, whose: Role | Side | None = None) -> Rate:
        """Speeches with at least one refuted statement, of all speeches by a role, a side, or everybody."""
        return Rate(self._sum("refuting", whose), self._sum("speeches", whose))

    def statements(self, whose: Role | Side | None = None) -> Rate:
        """Refuted statements, of all decided ones."""
        refuted = self._sum("refuted", whose)
        return Rate(refuted, refuted + self._sum("supported", whose))

    def unparsed(self, whose: Role | Side | None = None) -> int:
        """Statements about the record that the rules could not decide."""
        return self._sum("unparsed", whose)

    def per_speech(self, whose: Role | Side | None = None) -> float | None:
        """Refuted statements per speech; None without speeches."""
        speeches = self._sum("speeches", whose)
        return self._sum("refuted", whose) / speeches if speeches else None

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that spoke."""
        return tuple(role for role in Role if role in self._by_role)

    def _sum(self, name: str, whose: Role | Side | None) -> int:
        return sum(
            counts[name] for role, counts in self._by_role.items() if whose in (None, role, side_of(role))
        )

    def as_json(self) -> dict[str, Any]:
        """All counts, overall, by side and by role."""
        groups: list[tuple[str, Role | Side | None]] = [
            ("all", None),
            *((side.value, side) for side in Side),
            *((role.value, role) for role in self.roles),
        ]
        return {
            name: {
                "speeches": self.speeches(whose).as_json(),
                "statements": self.statements(whose).as_json(),
                "unparsed": self.unparsed(whose),
                "refuted_per_speech": self.per_speech(whose),
            }
            for name, whose in groups
        }
