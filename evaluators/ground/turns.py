"""A finished game, read in one pass: its speaking turns, and what each seat recorded in them.

A speaking turn is a turn of the intention mechanism: an opening proposal with its speech, or a speech of the
discussion. A leader's reconsideration is not a speaking turn. All measures of intentions start from these
turns. The log is kept, and contexts are cut from it on demand.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.events import (
    ActionDefaulted,
    BeliefsFormed,
    Cause,
    Event,
    GameCreated,
    GameEnded,
    IntentionsSelected,
    ProposalOpened,
    RoleLearned,
    RolesDealt,
    RoundSummarised,
    SelectionPrepared,
    SpeechDrafted,
    TeamProposed,
    UtteranceMade,
)
from engine.intentions import IntentionId
from engine.profile import Profile
from engine.terms import Kind, Role, Seat, Side, side_of
from engine.thoughts import Belief, Choice, SelectionStage, Unheard
from evaluators.errors import Unmeasurable
from evaluators.ground.provenance import Provenance

__all__ = ["Game", "Stage", "Turn", "read_game"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One selection and the speech that acts on it."""

    name: SelectionStage
    chosen: tuple[Choice, ...]
    draft: SpeechDrafted | None
    """None if the seat recorded no draft of this stage."""
    reason: str = ""
    """The reason for the selection as a whole."""

    @property
    def intentions(self) -> frozenset[IntentionId]:
        return frozenset(choice.id for choice in self.chosen)


@dataclass(frozen=True, slots=True)
class Turn:
    """One speaking turn of one seat."""

    request_id: str
    round: int
    attempt: int
    seat: Seat
    opening: int
    """The index in the log of the first event of the turn's action: the proposal of an opening turn, else the
    utterance. The turn's thoughts come before that event."""
    utterance: int
    """The index in the log of the turn's utterance."""
    position: int
    """The position of the utterance in the public stream, from 1: the ``seq`` that spectators see."""
    text: str
    first: Stage | None
    """None if the seat recorded no first selection."""
    final: Stage | None
    """If the seat recorded only a first selection, this is that selection with the final speech. None if the
    seat recorded no selection."""
    modified: bool
    """Whether the seat recorded a separate final selection, even one that equals the first."""
    beliefs: tuple[Belief, ...]
    """The seat's beliefs about the others when it began to speak."""
    without: Unheard | None
    """The part of its record that the seat had not heard when it made the first selection; None if it had
    heard everything."""
    unheard: range
    """The indexes in the log of the events that the seat had not heard; empty if it had heard everything."""
    defaulted: Cause | None
    """The reason why a default was played; None if the seat spoke itself."""
    opens: bool
    """Whether the turn opens the discussion of its attempt, which its leader does."""
    repeated: bool
    """Whether the seat had already spoken in this attempt, which happens only in foreign records."""

    @property
    def changed(self) -> bool:
        """Whether modification chose another set than the first selection; the order does not matter."""
        return (
            self.first is not None
            and self.final is not None
            and self.first.intentions != self.final.intentions
        )

    def stage(self, name: SelectionStage) -> Stage | None:
        return self.first if name == "first" else self.final


@dataclass(slots=True, eq=False)
class Game:
    """One finished game. The game and every context cut from it keep the log."""

    id: str
    log: Sequence[Event]
    profile: Profile
    names: tuple[str, ...]
    roles: tuple[Role, ...]
    """Seat 1 first."""
    learned: tuple[RoleLearned, ...]
    """The events that told each seat its role and showed it other seats, seat 1 first."""
    winner: Side
    turns: tuple[Turn, ...]
    """Every speaking turn, in order, including defaulted turns and turns without thoughts."""
    records: dict[Seat, Any] = field(default_factory=dict, repr=False)
    """A cache for ``contexts``: the record of each seat whose context was read."""
    provenance: Provenance | None = None
    """Where the game comes from; None: its source says no more than its log."""

    def role(self, seat: Seat) -> Role:
        return self.roles[seat - 1]

    @property
    def tells_roles(self) -> bool:
        """Whether the end of the game revealed the roles to everybody."""
        ended = next((event for event in reversed(self.log) if isinstance(event, GameEnded)), None)
        return ended is not None and ended.roles is not None

    def side(self, seat: Seat) -> Side:
        return side_of(self.roles[seat - 1])

    def only(self, request_id: str) -> "Game":
        """The same game with only one speaking turn, for questions about a single item."""
        return replace(self, turns=tuple(turn for turn in self.turns if turn.request_id == request_id))

    def of(self, seats: Collection[Seat]) -> "Game":
        """The same game with only the speaking turns of these seats."""
        return replace(self, turns=tuple(turn for turn in self.turns if turn.seat in seats))


def read_game(game_id: str, log: Iterable[Event], provenance: Provenance | None = None) -> Game:
    """Reads a game from its whole log in one pass. A log that is a sequence is kept, not copied.

    Raises Unmeasurable for a game that is not finished or whose deal is not in the log.
    """
    events = log if isinstance(log, Sequence) else list(log)
    reader = _TurnReader()
    for index, event in enumerate(events):
        reader.read(index, event)
    return replace(reader.game(game_id, events), provenance=provenance)


@dataclass(slots=True)
class _Notes:
    """The records of one seat since its last turn."""

    selected: dict[str, IntentionsSelected] = field(default_factory=dict)
    drafts: dict[str, SpeechDrafted] = field(default_factory=dict)
    beliefs: tuple[Belief, ...] = ()
    defaulted: dict[str, Cause] = field(default_factory=dict)
    without: Unheard | None = None


class _TurnReader:
    def __init__(self) -> None:
        self._created: GameCreated | None = None
        self._roles: tuple[Role, ...] | None = None
        self._learned: dict[Seat, RoleLearned] = {}
        self._winner: Side | None = None
        self._public = 0
        self._notes: dict[Seat, _Notes] = {}
        self._proposal: tuple[int, Seat] | None = None
        self._spoken: set[Seat] = set()
        self._summaries: dict[Seat, int] = {}
        self._turns: list[Turn] = []

    def read(self, index: int, event: Event) -> None:
        if event.seen_by == "public":
            self._public += 1
        match event:
            case UtteranceMade():
                self._uttered(index, event)
            case SpeechDrafted():
                self._notes_of(event.seat).drafts[event.stage] = event
            case IntentionsSelected():
                self._notes_of(event.seat).selected[event.stage] = event
            case BeliefsFormed():
                self._notes_of(event.seat).beliefs = event.beliefs
            case SelectionPrepared():
                self._notes_of(event.seat).without = event.without
            case ActionDefaulted():
                self._notes_of(event.seat).defaulted[event.request_id] = event.cause
            case ProposalOpened():
                self._notes.clear()
                self._spoken.clear()
            case TeamProposed():
                self._proposal = index, event.leader
            case RoundSummarised():
                self._summaries[event.seat] = index
            case GameCreated():
                self._created = event
            case RolesDealt():
                self._roles = event.roles
            case RoleLearned():
                self._learned[event.seat] = event
            case GameEnded():
                self._winner = event.winner

    def _uttered(self, index: int, event: UtteranceMade) -> None:
        notes = self._notes.pop(event.seat, None) or _Notes()
        if event.phase != "discuss":
            return
        opens = self._proposal == (index - 1, event.seat)
        # In other profiles the proposal ends the discussion, and its speech is not a turn of the mechanism.
        if opens and self._created and self._created.profile.discussion != "after_proposal":
            return
        kind = Kind.PROPOSE_TEAM if opens else Kind.SPEAK
        request_id = f"{event.round}.{event.attempt}.{kind}.{event.seat}"
        first, final = _stages(notes)
        self._turns.append(
            Turn(
                request_id=request_id,
                round=event.round,
                attempt=event.attempt,
                seat=event.seat,
                opening=index - 1 if opens else index,
                utterance=index,
                position=self._public,
                text=event.text,
                first=first,
                final=final,
                modified="final" in notes.selected,
                beliefs=notes.beliefs,
                without=notes.without,
                unheard=self._unheard(event.seat, notes.without, index - opens),
                defaulted=notes.defaulted.get(request_id),
                opens=not self._spoken,
                repeated=event.seat in self._spoken,
            )
        )
        self._spoken.add(event.seat)

    def _unheard(self, seat: Seat, without: Unheard | None, opening: int) -> range:
        if without == "speech" and self._spoken:
            return range(self._turns[-1].opening, opening)
        if without == "summary" and seat in self._summaries:
            return range(self._summaries[seat], self._summaries[seat] + 1)
        return range(0)

    def _notes_of(self, seat: Seat) -> _Notes:
        return self._notes.setdefault(seat, _Notes())

    def game(self, game_id: str, log: Sequence[Event]) -> Game:
        created, roles, winner = self._created, self._roles, self._winner
        if created is None or roles is None or winner is None:
            raise Unmeasurable(f"items need a finished game with its deal in the log, {game_id} is not one")
        learned = tuple(self._learned[seat] for seat in range(1, created.profile.players + 1))
        turns = tuple(self._turns)
        return Game(game_id, log, created.profile, created.names, roles, learned, winner, turns)


def _stages(notes: _Notes) -> tuple[Stage | None, Stage | None]:
    selected, drafts = notes.selected, notes.drafts
    first = final = None
    if (chosen := selected.get("first")) is not None:
        first = Stage("first", chosen.intentions, drafts.get("formulation"), chosen.reason)
    last = selected.get("final", chosen)
    if last is not None:
        final = Stage("final", last.intentions, drafts.get("refinement"), last.reason)
    return first, final
