"""A finished game, read in one pass: its speaking turns, and what each seat recorded in them.

A speaking turn is a turn of the intention mechanism: an opening proposal with its speech, or a speech
of the discussion. A leader's reconsideration is not one. All measures of intentions start from these turns.
The log is kept, and contexts are cut from it on demand.
"""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

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

__all__ = ["Game", "Stage", "Turn", "read_game"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One selection and the speech that acts on it."""

    name: SelectionStage
    chosen: tuple[Choice, ...]
    draft: SpeechDrafted | None
    """None: the seat recorded no draft of this stage."""
    reason: str = ""
    """Of the selection as a whole."""

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
    """Place in the log of the first event of its action: the proposal of an opening turn, else the
    utterance. The turn's thoughts stand before it."""
    utterance: int
    """Place in the log of its utterance."""
    public: int
    """Public events up to the utterance, itself included."""
    own: tuple[int, ...]
    """Events that only one seat sees, up to the utterance, by seat, seat 1 first."""
    text: str
    first: Stage | None
    """None: the seat recorded no first selection."""
    final: Stage | None
    """Where the seat recorded a first selection alone, that one with the final speech: nothing was
    modified. None: the seat recorded no selection."""
    modified: bool
    """Whether the seat recorded a final selection of its own, another than the first or not."""
    beliefs: tuple[Belief, ...]
    """What it believed of the others when it began to speak."""
    without: Unheard | None
    """What the seat had not heard of its record when it made the first selection; None: nothing."""
    unheard: range
    """The places in the log of what it had not heard; empty where nothing was missing."""
    defaulted: Cause | None
    """Why a default was played for it; None: the seat spoke itself."""
    repeated: bool
    """Whether the seat had spoken in this attempt before, which only a foreign record has."""

    @property
    def changed(self) -> bool:
        """Whether modification chose another set than the first selection; the order says nothing."""
        return (
            self.first is not None
            and self.final is not None
            and self.first.intentions != self.final.intentions
        )

    def stage(self, name: SelectionStage) -> Stage | None:
        return self.first if name == "first" else self.final

    def position(self, viewer: Seat) -> int:
        """The utterance's place in this seat's own stream, from 1: its ``seq``."""
        return self.public + self.own[viewer - 1]


class Game:
    """One finished game. It keeps the log it was read from, and so does every context cut from it."""

    __slots__ = ("_records", "id", "learned", "log", "names", "profile", "roles", "turns", "winner")

    id: str
    log: Sequence[Event]
    profile: Profile
    names: tuple[str, ...]
    roles: tuple[Role, ...]
    """Seat 1 first."""
    learned: tuple[RoleLearned, ...]
    """What each seat was shown at the start, seat 1 first."""
    winner: Side
    turns: tuple[Turn, ...]
    """Every speaking turn, in order; defaulted ones and ones without thoughts too."""

    def __init__(
        self,
        id_: str,
        log: Sequence[Event],
        created: GameCreated,
        roles: tuple[Role, ...],
        learned: tuple[RoleLearned, ...],
        winner: Side,
        turns: tuple[Turn, ...],
    ) -> None:
        self.id = id_
        self.log = log
        self.profile = created.profile
        self.names = created.names
        self.roles = roles
        self.learned = learned
        self.winner = winner
        self.turns = turns
        # Records of seats, made when a context is first looked at; contexts.py keeps them here.
        self._records: dict[Seat, Any] = {}

    def role(self, seat: Seat) -> Role:
        return self.roles[seat - 1]

    def side(self, seat: Seat) -> Side:
        return side_of(self.roles[seat - 1])

    def only(self, request_id: str) -> "Game":
        """The same game with one speaking turn alone, for questions about a single item."""
        one = copy(self)
        one.turns = tuple(turn for turn in self.turns if turn.request_id == request_id)
        return one

    def of(self, seats: Collection[Seat]) -> "Game":
        """The same game with the speaking turns of these seats alone."""
        some = copy(self)
        some.turns = tuple(turn for turn in self.turns if turn.seat in seats)
        return some


def read_game(game_id: str, log: Iterable[Event]) -> Game:
    """The game that a whole log tells, in one pass. The log is kept, not copied, where it is a sequence.

    Raises Unmeasurable for a game that is not finished or whose deal is not in the log.
    """
    events = log if isinstance(log, Sequence) else list(log)
    reader = _TurnReader()
    for place, event in enumerate(events):
        reader.read(place, event)
    return reader.game(game_id, events)


class _Notes:
    """What one seat recorded since its last turn."""

    __slots__ = ("beliefs", "defaulted", "drafts", "selected", "without")

    def __init__(self) -> None:
        self.selected: dict[str, IntentionsSelected] = {}
        self.drafts: dict[str, SpeechDrafted] = {}
        self.beliefs: tuple[Belief, ...] = ()
        self.defaulted: dict[str, Cause] = {}
        self.without: Unheard | None = None


class _TurnReader:
    __slots__ = (
        "_created",
        "_learned",
        "_notes",
        "_own",
        "_proposal",
        "_public",
        "_roles",
        "_spoken",
        "_summaries",
        "_turns",
        "_winner",
    )

    def __init__(self) -> None:
        self._created: GameCreated | None = None
        self._roles: tuple[Role, ...] | None = None
        self._learned: dict[Seat, RoleLearned] = {}
        self._winner: Side | None = None
        self._public = 0
        self._own: list[int] = []
        self._notes: dict[Seat, _Notes] = {}
        self._proposal: tuple[int, Seat] | None = None
        self._spoken: set[Seat] = set()
        self._summaries: dict[Seat, int] = {}
        self._turns: list[Turn] = []

    def read(self, place: int, event: Event) -> None:
        seen_by = event.seen_by
        if seen_by == "public":
            self._public += 1
        elif seen_by == "seat":
            self._own[event.seat - 1] += 1  # type: ignore[union-attr]
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, place, event)

    def created(self, place: int, event: GameCreated) -> None:
        self._created = event
        self._own = [0] * event.profile.players

    def dealt(self, place: int, event: RolesDealt) -> None:
        self._roles = event.roles

    def learned(self, place: int, event: RoleLearned) -> None:
        self._learned[event.seat] = event

    def opened(self, place: int, event: ProposalOpened) -> None:
        self._notes.clear()
        self._spoken.clear()

    def proposed(self, place: int, event: TeamProposed) -> None:
        self._proposal = place, event.leader

    def uttered(self, place: int, event: UtteranceMade) -> None:
        notes = self._notes.pop(event.seat, None) or _Notes()
        if event.phase != "discuss":
            return
        opens = self._proposal == (place - 1, event.seat)
        # Elsewhere the proposal ends the talk, and what is said with it is no turn of the mechanism.
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
                opening=place - 1 if opens else place,
                utterance=place,
                public=self._public,
                own=tuple(self._own),
                text=event.text,
                first=first,
                final=final,
                modified="final" in notes.selected,
                beliefs=notes.beliefs,
                without=notes.without,
                unheard=self._unheard(event.seat, notes.without, place - opens),
                defaulted=notes.defaulted.get(request_id),
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

    def summarised(self, place: int, event: RoundSummarised) -> None:
        self._summaries[event.seat] = place

    def prepared(self, place: int, event: SelectionPrepared) -> None:
        self._of(event.seat).without = event.without

    def believed(self, place: int, event: BeliefsFormed) -> None:
        self._of(event.seat).beliefs = event.beliefs

    def selected(self, place: int, event: IntentionsSelected) -> None:
        self._of(event.seat).selected[event.stage] = event

    def drafted(self, place: int, event: SpeechDrafted) -> None:
        self._of(event.seat).drafts[event.stage] = event

    def defaulted(self, place: int, event: ActionDefaulted) -> None:
        self._of(event.seat).defaulted[event.request_id] = event.cause

    def ended(self, place: int, event: GameEnded) -> None:
        self._winner = event.winner

    def _of(self, seat: Seat) -> _Notes:
        return self._notes.setdefault(seat, _Notes())

    def game(self, game_id: str, log: Sequence[Event]) -> Game:
        created, roles, winner = self._created, self._roles, self._winner
        if created is None or roles is None or winner is None:
            raise Unmeasurable(f"items come of finished games whose deal is in the log, {game_id} is not one")
        learned = tuple(self._learned[seat] for seat in range(1, created.profile.players + 1))
        return Game(game_id, log, created, roles, learned, winner, tuple(self._turns))


def _stages(notes: _Notes) -> tuple[Stage | None, Stage | None]:
    selected, drafts = notes.selected, notes.drafts
    first = final = None
    if (chosen := selected.get("first")) is not None:
        first = Stage("first", chosen.intentions, drafts.get("formulation"), chosen.reason)
    stands = selected.get("final", chosen)
    if stands is not None:
        final = Stage("final", stands.intentions, drafts.get("refinement"), stands.reason)
    return first, final


_HANDLERS: Final[dict[type[Any], Any]] = {
    GameCreated: _TurnReader.created,
    RolesDealt: _TurnReader.dealt,
    RoleLearned: _TurnReader.learned,
    ProposalOpened: _TurnReader.opened,
    TeamProposed: _TurnReader.proposed,
    UtteranceMade: _TurnReader.uttered,
    RoundSummarised: _TurnReader.summarised,
    SelectionPrepared: _TurnReader.prepared,
    BeliefsFormed: _TurnReader.believed,
    IntentionsSelected: _TurnReader.selected,
    SpeechDrafted: _TurnReader.drafted,
    ActionDefaulted: _TurnReader.defaulted,
    GameEnded: _TurnReader.ended,
}
