"""The state that a log folds to: the public table, each seat's own hand, and the full state.

``apply`` folds events in place and refuses no log that ``decide`` wrote; every handler gets only what it
needs. Public handlers get only the table; seat handlers get the seat's hand, and the table to read. So a
hidden fact cannot reach the state of a viewer who may not know it. Folding only what one viewer sees gives
the same table and the same hand of that viewer as folding the whole log.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from engine.errors import UNREADABLE, CorruptLog
from engine.events import (
    EVENT_TYPES,
    AssassinationDeclined,
    AssassinationMade,
    AssassinationOpened,
    CardPlayed,
    Event,
    GameCancelled,
    GameCreated,
    GameEnded,
    ProposalOpened,
    QuestResolved,
    RoleLearned,
    RolesDealt,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
)
from engine.profile import Profile
from engine.terms import SIDES, Ending, Phase, Role, Seat, Side

__all__ = ["Hand", "State", "Table", "Tally", "apply", "fold"]


# Module constants, since looking up a member in its enum costs as much as a handler (CPython 3.11).
_PROPOSE, _DISCUSS, _RECONSIDER = Phase.PROPOSE, Phase.DISCUSS, Phase.RECONSIDER
_VOTE, _QUEST, _SUMMARY = Phase.VOTE, Phase.QUEST, Phase.SUMMARY


class Tally(NamedTuple):
    """One proposal that was voted on, or went without a vote."""

    round: int
    attempt: int
    leader: Seat
    proposed: tuple[Seat, ...]
    """The team as first proposed."""
    team: tuple[Seat, ...]
    """The team as voted on."""
    votes: tuple[bool | None, ...]
    """Seat 1 first; empty when no vote was taken."""
    approved: bool
    """Whether the ballots approved the team."""
    forced: bool
    """Whether the team went on the quest although rejected, or without a vote."""


class Table:
    """The fold of the public events: everything that all seats know."""

    __slots__ = (
        "_tallies",
        "attempt",
        "cancelled",
        "ending",
        "failed",
        "leader",
        "missed",
        "names",
        "opening",
        "phase",
        "players",
        "profile",
        "proposed",
        "quests",
        "round",
        "succeeded",
        "tally_rows",
        "team",
        "turn",
        "winner",
    )

    profile: Profile
    names: tuple[str, ...]
    """Seat 1 first."""
    players: int
    phase: Phase
    round: int
    """1 to 5; 0 before the first proposal is opened."""
    attempt: int
    leader: Seat
    proposed: tuple[Seat, ...]
    """The team as first proposed in this attempt; empty before the proposal."""
    team: tuple[Seat, ...]
    """The current team; empty before the proposal."""
    turn: int
    """Utterances made in this attempt."""
    opening: int
    """Counts the openings at which several seats are asked at once (votes, cards, summaries). A hand whose
    ``answered`` equals this number has answered the present one, so no hidden answer has to be cleared."""
    succeeded: int
    """Quests that succeeded."""
    failed: int
    """Quests that failed."""
    missed: bool
    """Whether a shot has missed."""
    quests: list[QuestResolved]
    tally_rows: list[tuple[Any, ...]]
    """The fields of ``tallies`` as plain tuples, oldest first."""
    winner: Side | None
    ending: Ending | None
    cancelled: bool

    def __init__(self, created: GameCreated) -> None:
        self.profile = created.profile
        self.names = created.names
        self.players = created.profile.players
        self.phase = Phase.PROPOSE
        self.round = self.attempt = self.leader = self.turn = self.opening = 0
        self.proposed = self.team = ()
        self.succeeded = self.failed = 0
        self.missed = self.cancelled = False
        self.quests = []
        self.tally_rows = []
        self._tallies: list[Tally] = []
        self.winner = self.ending = None

    def __eq__(self, other: object) -> bool:
        # ``_tallies`` caches the rows of ``tally_rows`` at the last read.
        return isinstance(other, Table) and all(
            getattr(self, s) == getattr(other, s) for s in Table.__slots__ if s != "_tallies"
        )

    __hash__ = None  # type: ignore[assignment]  # folded in place

    @property
    def tallies(self) -> list[Tally]:
        """The proposals that were voted on, or went without a vote, oldest first."""
        tallies = self._tallies
        if len(tallies) < len(self.tally_rows):
            tallies += map(Tally._make, self.tally_rows[len(tallies) :])
        return tallies

    @property
    def over(self) -> bool:
        """Whether the game has ended or was cancelled: no seat will be asked again."""
        return self.phase is Phase.OVER

    @property
    def speaker(self) -> Seat:
        """The seat whose turn it is to speak in phase discuss; seats speak in order, from the leader on."""
        return (self.leader - 1 + self.turn) % self.players + 1

    def next_leader(self) -> Seat:
        """The leader after the present proposal."""
        return (self.leader - 1 + self.profile.leader_step) % self.players + 1

    def facts(self, seat: Seat) -> frozenset[str]:
        """The facts of ``intentions.FACTS`` that hold for this seat now."""
        held = {
            "earlier_vote": any(tally.votes for tally in self.tallies),
            "failed_quest": self.failed > 0,
            "last_quest_failed": bool(self.quests) and not self.quests[-1].succeeded,
            "leader_not_on_team": bool(self.team) and self.leader not in self.team,
            "seat_not_on_team": bool(self.team) and seat not in self.team,
        }
        return frozenset(fact for fact, holds in held.items() if holds)


WholeVote = tuple[int, int, tuple[bool | None, ...]]
"""A vote whose ballots all came in one step: the number of public events before the vote, the vote's opening,
and the votes, seat 1 first.

Revealed votes are no secret. They are kept once, in place of every seat's own ballot.
"""

# The ballots by seat minus 1 and by vote, made once for all games.
_BALLOTS: Final = tuple((VoteCast(seat, False), VoteCast(seat, True)) for seat in range(1, 11))


# Bounded: ten seats have 1,024 outcomes; only imported records add others, with unknown votes.
@cache
def ballots_of(votes: tuple[bool | None, ...]) -> tuple[VoteCast, ...]:
    """The ballots behind these votes, seat 1 first."""
    return tuple(VoteCast(seat, approve) for seat, approve in enumerate(votes, 1))  # type: ignore[arg-type]


class Hand:
    """The fold of the events that only one seat sees."""

    __slots__ = ("_answered", "_kept", "_whole", "role", "seat", "sees", "shoots", "side", "success")

    seat: Seat
    role: Role | None
    """None until ``role_learned``; always None in the fold of another viewer's stream."""
    side: Side | None
    sees: tuple[Seat, ...]
    """Seats shown at the start, without their roles."""
    shoots: bool
    success: bool | None
    """The seat's latest quest card; None before the first."""

    def __init__(self, seat: Seat, whole: list[WholeVote]) -> None:
        self.seat = seat
        self.role = self.side = self.success = None
        self.sees = ()
        self.shoots = False
        self._answered = 0
        # (public events before it, event) of the seat's own events, except its ballots in ``whole``.
        self._kept: list[tuple[int, Event]] = []
        self._whole = whole

    def _placed(self) -> list[tuple[int, Event]]:
        """(number of public events before it, event) for each of the seat's own events, in stream order."""
        if not self._whole:
            return self._kept
        at = self.seat - 1
        ballot = _BALLOTS[at]
        placed = self._kept + [(shown, ballot[votes[at]]) for shown, _, votes in self._whole]  # type: ignore[index]
        # Events kept at the same position came first: a whole vote's result follows it at once.
        placed.sort(key=_SHOWN)
        return placed

    def among(self, public: Sequence[Event]) -> list[Event]:
        """This seat's stream: the public events, and its own events in their positions."""
        events: list[Event] = []
        taken = 0
        for shown, event in self._placed():
            if taken < shown:
                events += public[taken:shown]
                taken = shown
            events.append(event)
        events += public[taken:]
        return events

    @property
    def own(self) -> list[tuple[int, Event]]:
        """(index in this seat's stream, event) for each event that only this seat and ``full`` see."""
        return [(shown + index, event) for index, (shown, event) in enumerate(self._placed())]

    @property
    def answered(self) -> int:
        """The opening that this seat answered last; 0 before the first answer."""
        return max(self._answered, self._whole[-1][1]) if self._whole else self._answered

    @property
    def vote(self) -> bool | None:
        """The seat's latest ballot, or None before the first. It belongs to the present vote if the phase is
        vote and ``answered`` equals the table's ``opening``.
        """
        return next((event.approve for _, event in reversed(self.own) if type(event) is VoteCast), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hand) and all(getattr(self, name) == getattr(other, name) for name in _SEEN)

    __hash__ = None  # type: ignore[assignment]  # folded in place


_SEEN: Final = ("seat", "role", "side", "sees", "shoots", "success", "answered", "own")
_SHOWN: Final = itemgetter(0)


class State:
    """Everything that the full viewer knows: the table, every hand, the deal, and the answers so far."""

    __slots__ = ("_whole", "answers", "hands", "log", "public", "roles", "seed", "shooter", "table")

    table: Table
    hands: tuple[Hand, ...]
    """Seat 1 first."""
    roles: tuple[Role, ...] | None
    """None in the fold of a viewer who does not see the deal."""
    seed: int | None
    shooter: Seat | None
    answers: int
    """How many seats have answered so far, when several are asked at once."""
    log: list[Event]
    """The full stream."""
    public: list[Event]
    """The public stream."""

    def __init__(self) -> None:
        self.roles = self.seed = self.shooter = None
        self.answers = 0
        self.log = []
        self.public = []
        self._whole: list[WholeVote] = []

    def hand(self, seat: Seat) -> Hand:
        """The hand of one seat, 1..n."""
        return self.hands[seat - 1]

    def __eq__(self, other: object) -> bool:
        # ``_whole`` is left out: the hands compare what it holds.
        return isinstance(other, State) and all(
            getattr(self, s) == getattr(other, s) for s in State.__slots__ if s != "_whole"
        )

    __hash__ = None  # type: ignore[assignment]  # folded in place


# --- public handlers: the table alone ---------------------------------------------------------


def _on_proposal_opened(table: Table, event: ProposalOpened) -> None:
    table.round = event.round
    table.attempt = event.attempt
    table.leader = event.leader
    table.proposed = table.team = ()
    table.turn = 0
    table.phase = _DISCUSS if table.profile.discussion == "before_proposal" else _PROPOSE


def _on_team_proposed(table: Table, event: TeamProposed) -> None:
    table.proposed = table.team = event.team
    profile = table.profile
    if profile.discussion == "after_proposal":
        table.phase = _DISCUSS
    elif profile.reconsideration:
        table.phase = _RECONSIDER
    else:
        _team_stands(table)


def _on_utterance_made(table: Table, event: UtteranceMade) -> None:
    table.turn += 1
    if table.phase is _DISCUSS and table.turn == table.players:
        if table.profile.discussion == "before_proposal":
            table.phase = Phase.PROPOSE
        elif table.profile.reconsideration:
            table.phase = _RECONSIDER
        else:
            _team_stands(table)


def _on_team_confirmed(table: Table, event: TeamConfirmed) -> None:
    table.team = event.team
    if table.phase is _RECONSIDER:
        _team_stands(table)


def _team_stands(table: Table) -> None:
    table.opening += 1
    table.phase = _QUEST if table.attempt == table.profile.unvoted_attempt else _VOTE


def _on_votes_revealed(table: Table, event: VotesRevealed) -> None:
    approved = event.approved
    forced = event.forced
    # A plain tuple: a named one costs a third of the whole step, and few games read it.
    table.tally_rows.append(
        (table.round, table.attempt, table.leader, table.proposed, table.team, event.votes, approved, forced)
    )
    if approved or forced:
        table.opening += 1
        table.phase = _QUEST
    elif table.profile.summaries and table.attempt < table.profile.max_rejections:
        table.opening += 1
        table.phase = _SUMMARY
    # Else the next events of the same append say how the game goes on.


def _on_quest_resolved(table: Table, event: QuestResolved) -> None:
    profile = table.profile
    if event.team and table.attempt == profile.unvoted_attempt:
        table.tally_rows.append(
            (table.round, table.attempt, table.leader, table.proposed, event.team, (), False, True)
        )
    table.quests.append(event)
    if event.succeeded:
        table.succeeded += 1
    else:
        table.failed += 1
    if profile.summaries and table.failed < 3 and table.succeeded < 3:
        shot_opens = profile.assassination == "after_any_quest" and not table.missed
        if not shot_opens:
            _open_summary(table)


def _open_summary(table: Table) -> None:
    table.opening += 1
    table.phase = _SUMMARY


def _on_assassination_opened(table: Table, event: AssassinationOpened) -> None:
    table.phase = Phase.ASSASSINATE


def _on_assassination_declined(table: Table, event: AssassinationDeclined) -> None:
    if table.profile.summaries and table.succeeded < 3:
        _open_summary(table)


def _on_assassination_made(table: Table, event: AssassinationMade) -> None:
    if event.hit:
        return
    table.missed = True
    if table.profile.summaries and table.succeeded < 3 and table.profile.missed_shot == "play_on":
        _open_summary(table)


def _on_game_ended(table: Table, event: GameEnded) -> None:
    table.winner = event.winner
    table.ending = event.ending
    table.phase = Phase.OVER


def _on_game_cancelled(table: Table, event: GameCancelled) -> None:
    table.cancelled = True
    table.phase = Phase.OVER


# --- seat handlers: the seat's hand, and the table to read -------------------------------------
# ``apply`` itself folds a ballot, a card and a summary: they mark the hand as having answered the table's
# present opening, and keep the answer.


def _on_role_learned(hand: Hand, table: Table, event: RoleLearned) -> None:
    hand.role = event.role
    hand.side = SIDES[event.role]
    hand.sees = event.sees
    hand.shoots = event.shoots


# The rarer public events; ``apply`` handles the others itself.
_PUBLIC: Final[dict[type[Any], Callable[[Table, Any], None]]] = {
    TeamConfirmed: _on_team_confirmed,
    AssassinationOpened: _on_assassination_opened,
    AssassinationDeclined: _on_assassination_declined,
    AssassinationMade: _on_assassination_made,
    GameEnded: _on_game_ended,
    GameCancelled: _on_game_cancelled,
}


_OWN: Final = frozenset(kind for kind in EVENT_TYPES.values() if kind.seen_by == "seat")


def apply(state: State, events: Iterable[Event]) -> None:
    """Folds ``events`` into ``state``, in place, and keeps every viewer's stream.

    Never refuses a log that ``decide`` wrote. Raises CorruptLog for a log that does not start with its only
    ``game_created``, or that names a seat that is not at the table; other damage may raise ``UNREADABLE``.
    """
    if type(events) is not tuple:
        events = tuple(events)
    log = state.log
    if not log:
        if not events:
            return
        _sit_down(state, events[0])
        events = events[1:]
    log += events
    table = state.table
    public = state.public
    players = table.players
    answers = state.answers
    # Nearly always all ballots come in one step with their result, and are folded for all seats together.
    if (
        len(events) > players
        and not answers
        and type(revealed := events[players]) is VotesRevealed
        and events[:players] == ballots_of(revealed.votes)
    ):
        state._whole.append((len(public), table.opening, revealed.votes))
        events = events[players:]
    for event in events:
        kind = type(event)
        # A chain of tests, the most frequent events first: a dict of handlers costs more.
        if kind is TeamProposed:
            public.append(event)
            _on_team_proposed(table, event)  # type: ignore[arg-type]
        elif kind is VotesRevealed:
            public.append(event)
            answers = 0
            _on_votes_revealed(table, event)  # type: ignore[arg-type]
        elif kind is ProposalOpened:
            public.append(event)
            answers = 0
            _on_proposal_opened(table, event)  # type: ignore[arg-type]
        elif kind in _OWN:
            seat = event.seat  # type: ignore[union-attr]
            if seat < 1 or seat > players:
                raise CorruptLog(f"{kind.__name__} of seat {seat}, but the table has {players} seats")
            hand = state.hands[seat - 1]
            hand._kept.append((len(public), event))
            if kind is CardPlayed:
                hand._answered = table.opening
                hand.success = event.success  # type: ignore[union-attr]
                answers += 1
            elif kind is VoteCast or kind is RoundSummarised:
                hand._answered = table.opening
                answers += 1
            elif kind is RoleLearned:
                _on_role_learned(hand, table, event)  # type: ignore[arg-type]
        elif kind is UtteranceMade:
            public.append(event)
            _on_utterance_made(table, event)  # type: ignore[arg-type]
        elif kind is QuestResolved:
            public.append(event)
            answers = 0
            _on_quest_resolved(table, event)  # type: ignore[arg-type]
        elif kind is RolesDealt:
            state.roles = event.roles  # type: ignore[union-attr]
            state.seed = event.seed  # type: ignore[union-attr]
            state.shooter = event.shooter  # type: ignore[union-attr]
        elif event.seen_by == "public":
            if kind is GameCreated:
                raise CorruptLog("a log holds one game_created, got a second")
            public.append(event)
            _PUBLIC[kind](table, event)
    state.answers = answers


def _sit_down(state: State, first: Event) -> None:
    if type(first) is not GameCreated:
        raise CorruptLog(f"a log starts with game_created, got {type(first).__name__}")
    state.table = Table(first)
    whole = state._whole
    state.hands = tuple([Hand(seat, whole) for seat in first.profile.seats])
    state.log.append(first)
    state.public.append(first)


def fold(events: Iterable[Event]) -> State:
    """The state that a log, or any viewer's part of one, adds up to; without a table if the log is empty.

    Raises CorruptLog for a log that cannot be folded. The message never quotes the log, which may hold a
    player's thoughts.
    """
    state = State()
    try:
        apply(state, events)
    except UNREADABLE as fault:
        raise CorruptLog(f"the log cannot be folded: {type(fault).__name__}") from None
    return state
