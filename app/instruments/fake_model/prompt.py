"""Reads a prompt of one of our language-model seats, and gives the seat's view of the game.

Only the lines that docs/models.md defines are read, so the rest of a template may be worded in any way. The
prompt is the only input.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from agents.llm.context import END_OF_RECORD, RECORD, RECORD_GOES_ON, read_names, read_settings
from engine.errors import AvalonError
from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    AssassinationOpened,
    CardPlayed,
    Event,
    GameCreated,
    ProposalOpened,
    QuestResolved,
    RoleLearned,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
    payload,
)
from engine.intentions import IntentionId
from engine.rules import Request, check, default
from engine.state import State, apply, fold
from engine.terms import Kind, Phase, Role, Seat
from engine.view import Observation, observe

__all__ = ["NotOurs", "Prompt", "PromptQuestion", "read_prompt", "seen"]


class NotOurs(Exception):
    """The messages are not a prompt of our seats, or are a prompt of an unknown form."""


@dataclass(frozen=True, slots=True)
class PromptQuestion:
    """The last question of a prompt."""

    request: Request
    step: str
    about: Seat | None
    """The seat that the question is about; None if its step does not have a question for each seat."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The parts of a conversation, without the earlier answers."""

    seat: str
    """Table, seat, role and what the role sees, in one text that does not depend on the templates."""
    preamble: str
    """Everything before the record; it is the same in all prompts of one seat in one game."""
    record: str
    question: PromptQuestion
    menu: frozenset[IntentionId]
    """The intentions that the conversation offers; empty if it offers none."""
    form: str
    """The sketch of the form of the last question, and the sketches in the preamble."""


_QUESTION: Final = re.compile(
    r"^=== QUESTION (\d{1,3})\.(\d{1,3})\.([a-z_]+)\.(\d{1,3}) ([a-z_+]+) ===$", re.M
)
_ABOUT: Final = re.compile(r"^This question is about: seat (\d{1,3})$", re.M)
_FORM: Final = re.compile(r"^Answer with this JSON: (.*)$", re.M)
_GOES_ON: Final = re.compile(rf"^{RECORD_GOES_ON}\n(.*?)\n{END_OF_RECORD}$", re.M | re.S)
_EARLIER_FORM: Final = re.compile(r"^form: (.*)$", re.M)
_MENU: Final = re.compile(r"Your menu: ([a-z_, ]+)\.")


def read_prompt(messages: Sequence[Mapping[str, Any]]) -> Prompt:
    """The parts of a conversation. Raises NotOurs."""
    texts = [message.get("content") for message in messages if message.get("role") != "assistant"]
    # A server that accepts no system message gets its text inside the first user message.
    whole = "\n".join(text for text in texts if isinstance(text, str))
    preamble, begun, rest = whole.partition(f"\n{RECORD}\n")
    record, ended, asked = rest.partition(f"\n{END_OF_RECORD}\n")
    record = "\n".join([record, *_GOES_ON.findall(asked)])
    questions = list(_QUESTION.finditer(asked))
    forms = _FORM.findall(asked)
    if not (begun and ended and questions and forms):
        raise NotOurs("the record, the question or the form is missing")
    about = _ABOUT.findall(asked, questions[-1].end())
    menu = _MENU.search(asked)
    preamble = preamble.strip()
    return Prompt(
        _start(preamble).text,
        preamble,
        record,
        _question(preamble, questions[-1], int(about[-1]) if about else None),
        frozenset(menu[1].split(", ")) if menu else frozenset(),
        " ".join([forms[-1], *_EARLIER_FORM.findall(preamble)]),
    )


def _question(preamble: str, header: re.Match[str], about: Seat | None) -> PromptQuestion:
    round_, attempt, kind, seat, step = header.groups()
    start = _start(preamble)
    sizes = start.created.profile.team_sizes
    if kind not in _KINDS or int(seat) != start.learned.seat or not 1 <= int(round_) <= len(sizes):
        raise NotOurs(f"the seat is asked for {kind}, seat {seat}, round {round_}")
    size = sizes[int(round_) - 1] if kind in (Kind.PROPOSE_TEAM, Kind.RECONSIDER) else None
    request = Request(int(seat), Kind(kind), int(round_), int(attempt), size)
    return PromptQuestion(request, step, about)


_KINDS: Final = frozenset(kind.value for kind in Kind)


# --- the stable part ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Start:
    created: GameCreated
    learned: RoleLearned

    @property
    def text(self) -> str:
        return json.dumps([payload(self.created), payload(self.learned)])


@lru_cache(maxsize=512)
def _start(preamble: str) -> _Start:
    def line(name: str) -> str:
        values = re.findall(rf"^{name}: (.*)$", preamble, re.M)
        if len(values) != 1:
            raise NotOurs(f"{len(values)} lines begin with {name!r}")
        return str(values[0])

    try:
        profile = read_settings(json.loads(line("settings")))
        names = read_names(line("names"), profile.players)
        shoots = line("you hold the assassination") == "yes"
        learned = RoleLearned(
            int(line("your seat")), Role(line("your role")), _seats(line("you see")), shoots
        )
    except (ValueError, TypeError, AttributeError, AvalonError) as fault:
        raise NotOurs(f"the preamble cannot be read: {fault}") from None
    in_range = all(1 <= seat <= profile.players for seat in (learned.seat, *learned.sees))
    if len(names) != profile.players or learned.role not in profile.roles or not in_range:
        raise NotOurs("the preamble contradicts itself")
    return _Start(GameCreated(profile, names), learned)


def _seats(text: str) -> tuple[Seat, ...]:
    return () if text == "none" else tuple(map(int, text.split()))


# --- the record --------------------------------------------------------------------------------------


def seen(preamble: str, record: str, request: Request, *, asked: bool = True) -> Observation:
    """The seat's observation, as far as its prompt shows it, without its private notes.

    Speeches that the record leaves out of closed attempts become empty speeches. With the timing ``eager``, a
    record may end before the request. If ``asked`` is true, the question is about the turn itself, and the
    missing events are added: empty speeches, and the first possible team.

    Raises NotOurs if the record is invalid, or does not lead to the request.
    """
    try:
        state = _state(preamble, record)
        if asked and (request.kind is Kind.SPEAK or request.kind is Kind.PROPOSE_TEAM):
            state = _filled_up(preamble, record, request)
    except (ValueError, LookupError, TypeError, AttributeError, AvalonError) as fault:
        raise NotOurs(f"the record cannot be read: {fault}") from None
    table = state.table
    observation = observe(state, request)
    if (table.round, table.attempt) > (request.round, request.attempt):
        raise NotOurs(f"the record ends in round {table.round}, attempt {table.attempt}")
    if asked:
        try:
            check(table, observation.hand, default(table, request))
        except AvalonError as refusal:
            raise NotOurs(f"the record does not lead to the request: {refusal}") from None
    return observation


@lru_cache(maxsize=256)
def _state(preamble: str, record: str) -> State:
    start = _start(preamble)
    reader = _Reader(start)
    for line in record.split("\n"):
        reader.read(line)
    return reader.state


@lru_cache(maxsize=256)
def _filled_up(preamble: str, record: str, request: Request) -> State:
    """A possible state at the time of the request, from a record that ends a little earlier."""
    reader = _Reader(_start(preamble))
    for line in record.split("\n"):
        reader.read(line)
    state, table, asked = reader.state, reader.table, (request.round, request.attempt)
    if (table.round, table.attempt) < asked:
        reader.apply(ProposalOpened(*asked, request.seat))
    if table.phase is Phase.PROPOSE and request.kind is Kind.SPEAK:
        size = table.profile.team_sizes[table.round - 1]
        reader.apply(TeamProposed(table.leader, tuple(range(1, size + 1))))
        reader.apply(reader.utterance(table.leader, "discuss", ""))
    if table.phase is Phase.DISCUSS and request.kind is Kind.SPEAK:
        while table.speaker != request.seat and table.turn < table.players - 1:
            reader.apply(reader.utterance(table.speaker, "discuss", ""))
    return state


_OWN_NOTES: Final = ("you believed ", "you intended ", "you thought ", "you explained ")
_SEATS: Final = r"(none|\d+(?: \d+)*)"
_VERDICTS: Final = "approved|rejected|rejected, goes all the same"


class _Reader:
    """Folds a record line by line, since the meaning of a line may depend on the state of the game."""

    def __init__(self, start: _Start) -> None:
        self.state = fold([start.created, start.learned])
        self.table = self.state.table
        self.me = start.learned.seat
        self.hand = self.state.hand(self.me)

    def read(self, line: str) -> None:
        if line.startswith(_OWN_NOTES):
            return
        for pattern, make in _LINES:
            match = pattern.fullmatch(line)
            if match:
                self.apply(make(self, *match.groups()))
                return
        raise NotOurs(f"not a line of a record: {line[:80]!r}")

    def apply(self, event: Event) -> None:
        """Folds the event, after adding any earlier events that the record leaves out."""
        self._fill_up(event)
        apply(self.state, [event])

    def _fill_up(self, event: Event) -> None:
        """Adds the events before this one that the record leaves out: the speeches of a shortened attempt,
        the seat's own ballot, and an empty summary.
        """
        table = self.table
        while table.phase is Phase.DISCUSS and type(event) in _AFTER_TALK:
            if table.turn >= table.players:
                raise NotOurs("more speeches than seats")
            apply(self.state, [self.utterance(table.speaker, "discuss", "")])
        if type(event) is VotesRevealed:
            own = event.votes[self.me - 1]
            if own is not None:
                apply(self.state, [VoteCast(self.me, own)])
        elif type(event) is ProposalOpened and self._owes_summary():
            apply(self.state, [RoundSummarised(self.me, table.round, table.attempt, ())])

    def _owes_summary(self) -> bool:
        return self.table.phase is Phase.SUMMARY and self.hand.answered != self.table.opening

    def utterance(self, seat: Seat, phase: Any, text: str) -> UtteranceMade:
        table = self.table
        return UtteranceMade(seat, table.round, table.attempt, table.turn, phase, text)

    def seat(self, text: str | Seat) -> Seat:
        """A seat at this table. Raises NotOurs."""
        seat = int(text)
        if not 1 <= seat <= self.table.players:
            raise NotOurs(f"no seat {seat}")
        return seat

    def seats(self, text: str) -> tuple[Seat, ...]:
        """Different seats at this table. Raises NotOurs."""
        seats = tuple(map(self.seat, _seats(text)))
        if len(set(seats)) != len(seats):
            raise NotOurs(f"a seat appears twice: {text}")
        return seats

    # --- one event a kind of line ----------------------------------------------------------------

    def opened(self, round_: str, attempt: str, leader: str) -> Event:
        if not 1 <= int(round_) <= len(self.table.profile.team_sizes):
            raise NotOurs(f"no round {round_}")
        return ProposalOpened(int(round_), int(attempt), self.seat(leader))

    def proposed(self, leader: str, team: str) -> Event:
        return TeamProposed(self.seat(leader), self.seats(team))

    def spoke(self, seat: str, on_team: str | None, text: str) -> Event:
        words = "" if text == "nothing" else json.loads(text)
        return self.utterance(self.seat(seat), "reconsider" if on_team else "discuss", words)

    def confirmed(self, leader: str, verb: str, team: str) -> Event:
        return TeamConfirmed(self.seat(leader), self.seats(team), changed=verb == "changes to")

    def voted(self, yes: str, no: str, unknown: str | None, result: str) -> Event:
        votes: dict[Seat, bool | None] = dict.fromkeys(self.seats(yes), True)
        votes |= dict.fromkeys(self.seats(no), False)
        votes |= dict.fromkeys(self.seats(unknown or "none"))
        ballots = tuple(votes[seat] for seat in range(1, self.table.players + 1))
        return VotesRevealed(ballots, result == "approved", result == "rejected, goes all the same")

    def resolved(self, round_: str, team: str, fails: str, result: str) -> Event:
        count = None if fails == "unknown" else int(fails)
        if int(round_) != self.table.round:
            raise NotOurs(f"quest {round_} in round {self.table.round}")
        return QuestResolved(int(round_), self.seats(team), count, result == "succeeded")

    def shot(self, assassin: str, target: str, result: str) -> Event:
        at = None if target == "an unknown seat" else self.seat(target.removeprefix("seat "))
        return AssassinationMade(self.seat(assassin), at, result == "Merlin")

    def played(self, card: str) -> Event:
        return CardPlayed(self.me, card == "success")

    def summed_up(self, answers: str) -> Event:
        pairs = tuple(json.loads(answers).items())
        return RoundSummarised(self.me, self.table.round, self.table.attempt, pairs)


_AFTER_TALK: Final = frozenset({TeamProposed, TeamConfirmed, VotesRevealed, QuestResolved})

_LINES: Final[Sequence[tuple[re.Pattern[str], Callable[..., Event]]]] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r'seat (\d+) says( on the team)? (nothing|".*")', _Reader.spoke),
        (r"round (\d+) attempt (\d+): seat (\d+) leads", _Reader.opened),
        (rf"seat (\d+) proposes team {_SEATS}", _Reader.proposed),
        (rf"seat (\d+) (keeps|changes to) team {_SEATS}", _Reader.confirmed),
        (rf"votes: yes {_SEATS}; no {_SEATS}(?:; unknown {_SEATS})?; ({_VERDICTS})", _Reader.voted),
        (rf"quest (\d+): team {_SEATS}; fail cards (\d+|unknown); (succeeded|failed)", _Reader.resolved),
        (r"you played (success|failure)", _Reader.played),
        (r"you summed up (\{.*\})", _Reader.summed_up),
        (r"the assassination is open", lambda reader: AssassinationOpened()),
        (r"the shooter holds fire", lambda reader: AssassinationDeclined()),
        (r"seat (\d+) shoots (seat \d+|an unknown seat): (Merlin|not Merlin)", _Reader.shot),
    )
)
