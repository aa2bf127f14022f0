"""The knowledge of a seat at one point of a finished game, as data and as text.

A context is cut from the seat's own stream, so it holds neither events that ``visible`` withholds from the
seat nor later events. The seat's own thoughts are left out; the seat never saw those of others. Earlier
rounds keep the public record, the seat's own cards and its own summaries; their speeches are kept only for
attempts that the seat did not summarise. Everything is built on demand.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    CardPlayed,
    Event,
    ProposalOpened,
    QuestResolved,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VotesRevealed,
    visible,
)
from engine.knowledge import sees
from engine.profile import Discussion, Profile
from engine.terms import EVIL_ROLES, Role, Seat, Side, side_of
from engine.thoughts import Unheard
from evaluators.ground.quoting import listed, quoted
from evaluators.ground.turns import Game

__all__ = [
    "Context",
    "Entry",
    "EntryKind",
    "History",
    "View",
    "entries_of",
    "game_lines",
    "line_of",
    "possible_roles",
]

History = Literal["all", "round"]
"""Whether a context holds all earlier rounds or only the current one."""

View = Literal["seat", "release"]
"""``seat`` shows the record as the seat saw it, with nothing later. ``release`` adds the later entries that
the authors' scripts show."""

EntryKind = Literal[
    "leads",
    "proposes",
    "says",
    "answers",
    "keeps",
    "changes",
    "votes",
    "goes",
    "quest",
    "card",
    "summary",
    "shot",
    "holds_fire",
]


class Entry(NamedTuple):
    """One line of a record. All kinds have the same fields, so that a table of entries has one type."""

    round: int
    attempt: int
    event: EntryKind
    seat: Seat
    """The seat that acted; 0 if it is no particular seat."""
    seats: tuple[Seat, ...] = ()
    """The team; for ``votes``, the seats that approved; for ``shot``, the target if it is known."""
    against: tuple[Seat, ...] = ()
    """For ``votes``: the seats that rejected. Seats without a recorded vote are in neither list."""
    number: int = 0
    """For ``quest``: the number of fail cards; -1 if it is not recorded."""
    about: str = ""
    """For ``summary``: the question. For ``votes``, ``quest``, ``card`` and ``shot``: the result."""
    text: str = ""
    """The spoken or written text, unchanged."""

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "seats": list(self.seats), "against": list(self.against)}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Context:
    """The knowledge of one seat of a finished game at one point.

    A context shares the game's log. Two contexts are equal if they show the same.
    """

    game: Game
    seat: Seat
    """The seat whose context this is."""
    end: int
    """The index in the log of the first event after the context."""
    _: KW_ONLY
    round: int
    attempt: int
    history: History = "all"
    view: View = "seat"
    knows: bool = True
    """Whether the context names the seats that the seat was shown at the start; the authors' guessing scripts
    name only the seat's role."""
    without: Unheard | None = None
    """The part of the record that the seat had not heard yet, although it had happened (with the timing
    ``eager`` of language models)."""
    unheard: range = range(0)
    """The indexes in the log of the events that the seat had not heard."""

    @property
    def profile(self) -> Profile:
        return self.game.profile

    @property
    def names(self) -> tuple[str, ...]:
        return self.game.names

    @property
    def role(self) -> Role:
        """The role of the seat."""
        return self.game.roles[self.seat - 1]

    @property
    def side(self) -> Side:
        return side_of(self.role)

    @property
    def sees(self) -> tuple[Seat, ...]:
        """The seats that the seat was shown at the start; empty if ``knows`` is false."""
        return self.game.learned[self.seat - 1].sees if self.knows else ()

    @property
    def shoots(self) -> bool:
        """Whether the seat holds the assassination."""
        return self.game.learned[self.seat - 1].shoots

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The record up to the point, oldest first."""
        record = _record(self.game, self.seat)
        known = record.entries[: bisect_left(record.indexes, self.end)]
        if self.unheard:
            indexes = record.indexes[: len(known)]
            known = [entry for index, entry in zip(indexes, known, strict=True) if index not in self.unheard]
        summed = {(e.round, e.attempt) for e in known if e.event == "summary"}
        if self.without == "summary":
            # Until the next attempt opens, the round that ends is not shortened to its summary.
            summed = {(round_, attempt) for round_, attempt in summed if round_ < known[-2].round}
        return tuple(
            entry
            for entry in known
            if entry.round == self.round
            or (
                self.history == "all"
                and (entry.event not in _SPOKEN or (entry.round, entry.attempt) not in summed)
            )
        )

    @property
    def later(self) -> tuple[Entry, ...]:
        """The entries that the ``release`` view adds from the rest of the round: the votes, the team that
        went on the quest (not for its leader), and the seat's own summaries. Empty in the ``seat`` view.
        """
        return tuple(self._later()) if self.view == "release" else ()

    def _later(self) -> Iterator[Entry]:
        record = _record(self.game, self.seat)
        leaders = {(e.round, e.attempt): e.seat for e in record.entries if e.event == "leads"}
        for entry in record.entries[bisect_left(record.indexes, self.end) :]:
            if entry.round != self.round:
                continue
            if entry.event in ("votes", "summary"):
                yield entry
            elif (
                entry.event == "quest"
                and entry.attempt == self.attempt
                and entry.seats
                and leaders[entry.round, entry.attempt] != self.seat
            ):
                yield Entry(entry.round, entry.attempt, "goes", 0, entry.seats)

    def as_json(self) -> dict[str, Any]:
        """The context as plain values, with the same keys and types in every game.

        ``seats`` has one entry per seat, so that the list is never empty.
        """
        return {
            "seat": self.seat,
            "role": self.role.value,
            "side": self.side.value,
            "shoots": self.shoots,
            "round": self.round,
            "attempt": self.attempt,
            "history": self.history,
            "view": self.view,
            "without": self.without or "",
            "roles": [role.value for role in self.profile.roles],
            "seats": [
                {"seat": seat, "name": name, "shown": seat in self.sees}
                for seat, name in enumerate(self.names, 1)
            ],
            "record": [
                *({**entry.as_json(), "later": False} for entry in self.entries),
                *({**entry.as_json(), "later": True} for entry in self.later),
            ],
        }

    @property
    def text(self) -> str:
        """The context as text: the game, the seat, the record. Text written by seats is quoted."""
        lines = (*game_lines(self.profile, self.names), *_seat_lines(self), *_record_lines(self))
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.as_json() == other.as_json()

    __hash__ = None  # type: ignore[assignment]  # too expensive for a key; items have ids

    def __repr__(self) -> str:
        where = f"{self.game.id} {self.round}.{self.attempt}"
        return f"<Context of seat {self.seat} in {where}, history {self.history}, view {self.view}>"


def possible_roles(game: Game, reader: Seat, other: Seat) -> tuple[Role, ...]:
    """The roles that ``other`` may hold, judged by what ``reader`` was shown at the start, in the order of
    the deck.

    Quests and votes are not taken into account.
    """
    return _could_be(game.profile.roles, game.roles[reader - 1], other in game.learned[reader - 1].sees)


@lru_cache(1024)
def _could_be(deck: tuple[Role, ...], own: Role, shown: bool) -> tuple[Role, ...]:
    return tuple(
        role
        for role in dict.fromkeys(deck)
        if deck.count(role) > (role is own) and bool(sees((own, role), 1)) is shown
    )


# --- the record of one seat, read once per game ---------------------------------------------------------

_SPOKEN: Final = frozenset({"says", "answers"})


class _Record(NamedTuple):
    indexes: list[int]
    """The index in the log of each entry's event, ascending."""
    entries: list[Entry]


def _record(game: Game, seat: Seat) -> _Record:
    record: _Record | None = game.records.get(seat)
    if record is None:
        record = game.records[seat] = _read(game.log, seat)
    return record


def _read(log: Sequence[Event], seat: Seat) -> _Record:
    record = _Record([], [])
    round_ = attempt = 0
    for index, event in enumerate(log):
        if not visible(event, seat):
            continue
        if type(event) is ProposalOpened:
            round_, attempt = event.round, event.attempt
        for entry in entries_of(event, round_, attempt):
            record.indexes.append(index)
            record.entries.append(entry)
    return record


def entries_of(event: Event, round_: int, attempt: int) -> Iterator[Entry]:
    """The entries that one event of this attempt adds to a record; most events add none."""
    match event:
        case ProposalOpened(leader=leader):
            yield Entry(round_, attempt, "leads", leader)
        case TeamProposed(leader=leader, team=team):
            yield Entry(round_, attempt, "proposes", leader, team)
        case UtteranceMade(seat=seat, phase=phase, text=text):
            yield Entry(round_, attempt, "says" if phase == "discuss" else "answers", seat, text=text)
        case TeamConfirmed(leader=leader, team=team, changed=changed):
            yield Entry(round_, attempt, "changes" if changed else "keeps", leader, team)
        case VotesRevealed(votes=votes, approved=approved, forced=forced):
            result = "approved" if approved else "rejected, goes all the same" if forced else "rejected"
            for_ = tuple(seat for seat, vote in enumerate(votes, 1) if vote)
            against = tuple(seat for seat, vote in enumerate(votes, 1) if vote is False)
            yield Entry(round_, attempt, "votes", 0, for_, against, about=result)
        case QuestResolved(team=team, fails=fails, succeeded=succeeded):
            number = -1 if fails is None else fails
            result = "succeeded" if succeeded else "failed"
            yield Entry(round_, attempt, "quest", 0, team, number=number, about=result)
        case CardPlayed(seat=seat, success=success):
            yield Entry(round_, attempt, "card", seat, about="success" if success else "failure")
        case RoundSummarised(seat=seat, answers=answers):
            for question, answer in answers:
                yield Entry(round_, attempt, "summary", seat, about=question, text=answer)
        case AssassinationMade(assassin=seat, target=target, hit=hit):
            at = () if target is None else (target,)
            yield Entry(round_, attempt, "shot", seat, at, about="merlin" if hit else "not merlin")
        case AssassinationDeclined():
            yield Entry(round_, attempt, "holds_fire", 0)


# --- in words ------------------------------------------------------------------------------------------


def game_lines(profile: Profile, names: Sequence[str]) -> Iterator[str]:
    """The rules of the game and the names of the seats, as lines of text, without the deal."""
    evil = [role.value for role in profile.roles if role in EVIL_ROLES]
    loyal = [role.value for role in profile.roles if role not in EVIL_ROLES]
    yield "=== THE GAME ==="
    yield (
        f"Avalon at a table of {profile.players} seats, each with a hidden role. "
        f"Loyal roles in this deal: {', '.join(loyal)}. Evil roles: {', '.join(evil)}."
    )
    fails = set(profile.fails_needed)
    needed = (
        "one failure card fails a quest"
        if fails == {1}
        else f"{', '.join(map(str, profile.fails_needed))} failure cards fail quests 1 to 5"
    )
    change = " The leader may then change the team once and says why." if profile.reconsideration else ""
    yield (
        f"Each round sends a team on one quest; the teams of quests 1 to 5 have "
        f"{', '.join(map(str, profile.team_sizes))} seats. {_ORDER[profile.discussion]}{change} "
        f"All vote at once; with {profile.yes_needed} of {profile.players} votes for it, the team goes and "
        f"plays its cards face down. Loyal seats play success, evil ones success or failure; {needed}."
    )
    last = {
        "evil_wins": "after the last rejection evil wins",
        "forced_team": "the last team goes without a vote",
        "last_team_goes": "the last team goes whatever the vote says",
        "quest_fails": "after the last rejection the quest fails",
    }[profile.on_max_rejections]
    most = profile.max_rejections
    yield (
        f"After a rejection the next leader proposes. A round has at most {most} "
        f"{'proposal' if most == 1 else 'proposals'}; {last}."
    )
    yield f"Three failed quests win for evil{_shot(profile)}."
    if Role.MERLIN in profile.roles:
        but = ", save mordred" if Role.MORDRED in profile.roles else ""
        yield f"merlin was shown the evil seats{but}, without their roles."
    shown = [role.value for role in (Role.MERLIN, Role.MORGANA) if role in profile.roles]
    if Role.PERCIVAL in profile.roles and shown:
        apart = ", without telling which is which" if len(shown) == 2 else ""
        yield f"percival was shown {' and '.join(shown)}{apart}."
    lonely = Role.OBERON in profile.roles
    if len(evil) > 1 + lonely:
        oberon = "; oberon sees none of them and is seen by none" if lonely else ""
        yield f"The evil seats were shown each other{oberon}."
    elif len(evil) > 1:
        yield "The evil seats were not shown each other."
    for seat, name in enumerate(names, 1):
        if name != f"Player {seat}":
            yield f"Seat {seat} is called {quoted(name)}."


_ORDER: Final[Mapping[Discussion, str]] = {
    "before_proposal": "All speak once, the leader first; then the leader proposes a team and says why.",
    "after_proposal": "The leader proposes a team with the first speech; then the others speak once each.",
    "none": "The leader proposes a team; nobody is asked to speak.",
}


def _shot(profile: Profile) -> str:
    """How three successful quests win, and what a shot at Merlin does: the end of a sentence."""
    if profile.assassination == "none" or Role.MERLIN not in profile.roles:
        return ", three successful ones for loyal"
    if profile.assassination == "after_three_successes":
        return ". After three successful ones an evil seat shoots: if it hits merlin evil wins, else loyal"
    missed = "loyal wins" if profile.missed_shot == "loyal_wins" else "the game goes on"
    return (
        ", three successful ones for loyal. Once, after a quest, also the last, an evil seat may shoot: if "
        f"it hits merlin, evil wins; if it misses, {missed}"
    )


def _seat_lines(context: Context) -> Iterator[str]:
    yield ""
    yield "=== YOUR SEAT ==="
    role, side = context.role.value, context.side.value
    yield f"You are seat {context.seat}. Your role is {role}, your side is {side}."
    if context.knows:
        yield _knowledge(context.role, context.sees, context.profile.roles)
    if context.shoots:
        yield "You hold the assassination."


def _knowledge(role: Role, shown: tuple[Seat, ...], deck: tuple[Role, ...]) -> str:
    if not shown:
        return "You were shown no other seat."
    seats = f"You were shown: {listed(shown)}."
    are, holds = ("It is", "it holds") if len(shown) == 1 else ("They are", "each holds")
    if role is Role.MERLIN:
        return f"{seats} {are} evil; you do not know which role {holds}."
    if role is Role.PERCIVAL:
        if Role.MERLIN in deck and Role.MORGANA in deck:
            return f"{seats} One is merlin, the other morgana; you do not know which."
        return f"{seats} It is {'merlin' if Role.MERLIN in deck else 'morgana'}."
    if sum(other in EVIL_ROLES for other in deck) == 2:
        return f"{seats} {are} evil like you."
    return f"{seats} {are} evil like you; you do not know which role {holds}."


def _record_lines(context: Context) -> Iterator[str]:
    yield ""
    yield "=== RECORD ==="
    if context.history == "round" and context.round > 1:
        yield f"(Rounds 1 to {context.round - 1} are not shown.)"
    for entry in context.entries:
        yield line_of(entry)
    if context.without is not None:
        yield _UNHEARD[context.without]
    if context.later:
        yield "Also known, from later in this round:"
        for entry in context.later:
            yield line_of(entry)
    yield "=== END OF RECORD ==="


_UNHEARD: Final[Mapping[Unheard, str]] = {
    "speech": "(The next speech was heard only after this.)",
    "summary": "(The seat summed this attempt up only after this.)",
}


def line_of(entry: Entry) -> str:
    """An entry as a line of text. Text written by seats is quoted."""
    who = f"Seat {entry.seat}"
    team = listed(entry.seats)
    match entry.event:
        case "leads":
            return f"Round {entry.round}, attempt {entry.attempt}: seat {entry.seat} leads."
        case "proposes":
            return f"{who} proposes the team {team}."
        case "says":
            return f"{who} says {quoted(entry.text)}" if entry.text else f"{who} says nothing."
        case "answers":
            return f"{who} says about the final team {quoted(entry.text)}"
        case "keeps":
            return f"{who} keeps the team {team}."
        case "changes":
            return f"{who} changes the team to {team}."
        case "votes":
            return f"Votes: for {team}; against {listed(entry.against)}. The team is {entry.about}."
        case "goes":
            return f"The team that went in the end: {team}."
        case "quest":
            if not entry.seats:
                return f"Quest {entry.round} {entry.about}: nobody went."
            cards = "not recorded" if entry.number < 0 else entry.number
            return f"Quest {entry.round} with the team {team} {entry.about}; failure cards: {cards}."
        case "card":
            return f"You played {entry.about}."
        case "summary":
            where = f"round {entry.round}, attempt {entry.attempt}"
            return f"You summed up {where}, {quoted(entry.about)}: {quoted(entry.text)}"
        case "shot":
            return f"{who} shot {f'seat {team}' if entry.seats else 'a seat not recorded'}: {entry.about}."
        case "holds_fire":
            return "The shooter held fire."
