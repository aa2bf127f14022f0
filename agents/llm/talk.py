"""How one request is put to a model: its conversations, its repeated questions, and its notes."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

from agents.llm.context import (
    END_OF_RECORD,
    RECORD,
    RECORD_GOES_ON,
    believed,
    catalogue,
    hunted,
    listed,
    menus,
    named,
    one_line,
    quoted,
    record,
    record_lines,
    situation,
    speeches_in_sight,
    table_settings,
)
from agents.llm.fields import Fields, UnusableReply
from agents.llm.instructions import common_instructions
from agents.llm.options import SeatOptions
from agents.llm.preparation import events_about
from agents.llm.question import Question
from agents.llm.replies import THEN, Schema, Shape, outline
from agents.llm.session import CallKey, TurnSession, defaulted
from agents.llm.templates import NOW, Templates
from agents.model.model import Message, Reply
from engine.actions import SeatAction
from engine.errors import IllegalAction
from engine.events import Event, Note, ReadingsImagined, ReplyUnusable, UtteranceMade
from engine.profile import Profile
from engine.rules import check
from engine.state import fold
from engine.terms import Kind, Role, Seat, side_of
from engine.thoughts import Belief
from engine.view import Observation

__all__ = ["LONGEST_RAW", "NOTES", "UNUSABLE", "ModelTurn", "StepFailed", "Talk", "unusable"]

T = TypeVar("T")

NOTES: Final = "=== YOUR NOTES IN THIS TURN ==="
UNUSABLE: Final = "=== THAT CANNOT BE USED ==="

LONGEST_RAW: Final = 4000
"""The most characters of an unusable answer that are recorded and repeated to the model."""

_CUT: Final = frozenset({"length", "max_tokens"})


class StepFailed(Exception):
    """A step got no usable answer, although its question was repeated. The agent always catches it."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step


class ModelTurn:
    """One request to one seat. The constructor reads everything that the questions need, so that the actions
    of others do not affect the questions while the model thinks.
    """

    def __init__(
        self,
        observation: Observation,
        options: SeatOptions,
        session: TurnSession,
        templates: Templates,
        voice: str = "",
    ) -> None:
        """``voice``: the manner of speaking that was drawn for the seat; empty if none was drawn."""
        table, hand = observation.table, observation.hand
        assert hand.role is not None, "a seat is asked after it has learned its role"
        assert hand.side is not None
        self.observation = observation
        self.request = observation.request
        self.refusals = observation.refusals
        self.options = options
        self.session = session
        self.table = table
        self.hand = hand
        self.seat: Seat = hand.seat
        self.role = hand.role
        self.side = hand.side
        self.events: Sequence[Event] = observation.events
        self.system, known_forms = _system(observation, options, templates, voice)
        self.known_forms: Mapping[str, Schema] = known_forms
        """The forms of the steps that the system message explains, by step."""
        self.memory = options.memory_in(table.profile)
        self.record = record(self.events, self.seat, brief=options.one_pass, memory=self.memory)
        self.situation = situation(table, hand)
        self.notes: list[Note] = []
        at_hand = (table.round, table.attempt) == (self.request.round, self.request.attempt)
        self.leader: Seat = table.leader if at_hand else self.seat
        """The leader of the request's attempt. Before the attempt opens, only its leader prepares for it, so
        the leader is then this seat."""
        self.opens = self.seat == self.leader and (
            self.request.kind is Kind.PROPOSE_TEAM or table.profile.discussion == "before_proposal"
        )
        """Whether the request is for the speech that opens the attempt's discussion."""
        self.reply: Reply | None = None
        """The last usable answer."""
        self._templates = templates
        self._voice = voice

    @property
    def rejected(self) -> str:
        """The team that the attempt before in this round rejected, as text; empty if there was none."""
        tallies = self.table.tallies
        return listed(tallies[-1].team) if self.request.attempt > 1 and tallies else ""

    @property
    def talks(self) -> bool:
        """Whether anybody speaks in this game."""
        return self.table.profile.discussion != "none"

    @property
    def _forced(self) -> bool:
        """Whether the team of this attempt goes on the quest whatever the vote says."""
        profile = self.table.profile
        goes = profile.on_max_rejections in ("last_team_goes", "forced_team")
        return goes and self.request.attempt == profile.max_rejections

    @property
    def others_spoke(self) -> bool:
        """Whether anybody else has said anything in this game."""
        return any(
            type(event) is UtteranceMade and event.seat != self.seat and event.text for event in self.events
        )

    @property
    def was_read(self) -> bool:
        """Whether readings of the draft were imagined in this turn."""
        return any(type(note) is ReadingsImagined for note in self.notes)

    @cached_property
    def _secret(self) -> str:
        """The text that says what a speech of this seat must not betray."""
        return self._templates.render(
            "secret", role=self.role, sees=self.hand.sees, hunted=hunted(self.table.profile)
        )

    def render(self, template: str, **values: Any) -> str:
        """The text of a question. Every template may use ``values`` and the turn's own values: situation,
        seat, role, side, round, attempt and so on; ``values`` take precedence. If the system message already
        explains the step, only the template's block ``NOW`` is rendered.
        """
        common = {
            "situation": self.situation,
            "seat": self.seat,
            "role": self.role,
            "side": self.side,
            "round": self.request.round,
            "attempt": self.request.attempt,
            "intends": self.options.selects,
            "generated": self.options.selection == "generated",
            "early": False,
            "rejected": self.rejected,
            "sees": self.hand.sees,
            "secret": self._secret,
            "memory": self.memory,
            "forced": self._forced,
            "talks": self.talks,
        }
        values = common | values
        if template in self.known_forms:
            words = self._templates.part(template, NOW, **values)
            assert words is not None, "a step of the system message has a template in two parts"
            return words
        return self._templates.render(template, **values)

    def sketch(self, question: Question[Any]) -> str:
        """A short form of the answer's schema, without the parts that the system message explains."""
        first, _, second = question.step.replace("compact", "one_pass").partition("+")
        known = {**self.known_forms.get(first, {}).get("properties", {})}
        if second in self.known_forms:
            known[THEN] = self.known_forms[second]
        return outline(question.shape.form.schema, known)

    def at(self, observation: Observation, session: TurnSession | None = None) -> "ModelTurn":
        """The same seat at another point of its game. ``session``: another session; None: the same one."""
        return ModelTurn(observation, self.options, session or self.session, self._templates, self._voice)

    def talk(self, beliefs: Iterable[Belief] = ()) -> "Talk":
        """A conversation that begins with the record, and with beliefs formed in this turn."""
        lines = [believed(belief) for belief in beliefs]
        return Talk(self, _head(self.record, lines))

    def talk_about(self, seat: Seat) -> tuple["Talk", str, list[str]]:
        """A conversation about one other seat, the state of the game at the end of the conversation's record,
        and that seat's speeches in that record.
        """
        if self.options.timing == "exact":
            return Talk(self, _head(self.record, ())), self.situation, self.speeches_of(seat)
        part = events_about(self.events, self.request, self.opens, seat)
        speeches = speeches_in_sight(part, seat, self.memory)
        return self.talk_through(part), situation(fold(part).table, self.hand), speeches

    def speeches_of(self, seat: Seat) -> list[str]:
        """The speeches of the other seat in the turn's record."""
        return speeches_in_sight(self.events, seat, self.memory)

    def talk_through(self, part: Sequence[Event], beliefs: Iterable[Belief] = ()) -> "Talk":
        """A conversation that begins with an earlier record, and with beliefs formed meanwhile."""
        lines = [believed(belief) for belief in beliefs]
        return Talk(self, _head(record(part, self.seat, memory=self.memory), lines))

    def legal(self, action: SeatAction) -> SeatAction:
        """The action itself. Raises UnusableReply if the rules do not allow it."""
        try:
            check(self.table, self.hand, action)
        except IllegalAction as refusal:
            raise UnusableReply(f"The rules do not allow it: {refusal}.") from None
        return action

    def defaulted(self) -> SeatAction:
        """The default action, for a request without a usable answer. It is marked as such, and has the
        thoughts so far.
        """
        return defaulted(self.observation, self.notes)


def _head(record_: str, lines: Sequence[str]) -> str:
    return f"{record_}{END_OF_RECORD}\n\n{_notes(lines)}"


def _notes(lines: Sequence[str]) -> str:
    return "\n".join([NOTES, *lines, "", ""]) if lines else ""


def _system(
    observation: Observation, options: SeatOptions, templates: Templates, voice: str
) -> tuple[str, Mapping[str, Schema]]:
    table, hand = observation.table, observation.hand
    assert hand.role is not None
    known = (hand.seat, hand.role, hand.sees, hand.shoots)
    return _rendered_system(templates, table.profile, table.names, known, options, voice)


# The result is the same for every request of a seat in a game.
@lru_cache(1024)
def _rendered_system(
    templates: Templates,
    profile: Profile,
    names: tuple[str, ...],
    known: tuple[Seat, Role, tuple[Seat, ...], bool],
    options: SeatOptions,
    voice: str,
) -> tuple[str, Mapping[str, Schema]]:
    """The system message, and the forms of the steps that it explains, by step."""
    seat, role, sees, shoots = known
    steps, known_forms = common_instructions(templates, profile, options)
    system = templates.render(
        "system",
        profile=profile,
        names=named(names),
        settings=json.dumps(table_settings(profile)),
        catalogue=catalogue(),
        menus=menus(),
        intentions=options.intends,
        generated=options.selection == "generated",
        steps=steps,
        seat=seat,
        role=role,
        side=side_of(role),
        sees=listed(sees),
        shoots=shoots,
        own_name=quoted(names[seat - 1]),
        summarises=profile.summaries and options.memory_in(profile) == "summaries",
        voice=voice,
        brief=templates.render("brief", profile=profile, role=role, sees=sees, shoots=shoots),
    )
    if not steps or steps not in system:
        # Other templates may leave the steps out; each question then explains itself.
        return system, {}
    return system, known_forms


class Talk:
    """One conversation. Messages that were sent in it never change."""

    def __init__(self, turn: ModelTurn, head: str) -> None:
        assert head.startswith(RECORD)
        self._turn = turn
        self._head = head
        self._messages: list[Message] = [Message("system", turn.system)]

    def continue_in(self, turn: ModelTurn) -> None:
        """Continues with the questions of this turn, at a later point of the same seat's game."""
        self._turn = turn

    def add_to_record(self, events: Sequence[Event] = (), beliefs: Iterable[Belief] = ()) -> None:
        """Adds new events and beliefs before the next question, as a continuation of the record."""
        lines = record_lines(events)
        goes_on = "\n".join([RECORD_GOES_ON, *lines, END_OF_RECORD, "", ""]) if lines else ""
        self._head = goes_on + _notes([believed(belief) for belief in beliefs])

    async def ask(
        self, step: str, words: str, shape: Shape[T], *, about: str = "", notes: list[Note] | None = None
    ) -> T:
        """Returns a usable answer to one question. Raises StepFailed or ModelUnavailable.

        Unusable answers are recorded in ``notes``, by default the turn's own.
        """
        return await self._ask(step, words, shape.read, shape, shape.sketch, about, 0, notes)

    async def ask_action(self, question: Question[Any]) -> SeatAction:
        """Returns a usable and legal action, built from the answer. Raises as ``ask`` does."""
        turn = self._turn
        words = question.words
        for refusal in turn.refusals:
            words += f"\nAn earlier answer of yours was refused: {' '.join(refusal.split())}."
        # A refused answer is stored under its attempt: the next answer needs another attempt.
        before = len(turn.refusals) * (turn.options.repairs + 1)

        def read(fields: Fields) -> SeatAction:
            return turn.legal(question.build(question.shape.read(fields)))

        form = question.shape.form
        # What becomes the action is said to all; a draft is not.
        shape = replace(question.shape, form=replace(form, aloud=True))
        return await self._ask(question.step, words, read, shape, turn.sketch(question), "", before, None)

    async def _ask(
        self,
        step: str,
        words: str,
        read: Callable[[Fields], T],
        shape: Shape[Any],
        sketch: str,
        about: str,
        before: int,
        notes: list[Note] | None,
    ) -> T:
        turn = self._turn
        options = turn.options
        header = f"=== QUESTION {turn.request.id} {step} ==="
        form = f"Answer with this JSON: {sketch}"
        if about:
            # Last, so that the questions of one step are the same up to here.
            form += f"\nThis question is about: {about}"
        messages = [*self._messages, Message("user", f"{self._head}{header}\n{words}\n{form}")]
        recorded = turn.notes if notes is None else notes
        for attempt in range(1, options.repairs + 2):
            key = CallKey(turn.request.id, step, about, before + attempt)
            reply = await turn.session.ask(
                key,
                messages,
                shape.form,
                temperature=options.temperature,
                max_tokens=options.max_output_tokens,
            )
            try:
                value = read(Fields(reply.value, turn.table.names, loose=False))
            except UnusableReply as fault:
                recorded.append(unusable(turn, step, reply))
                turn.session.read(key, usable=False)
                if attempt > options.repairs:
                    value = self._read_loosely(reply, read, step)
                else:
                    repair = turn.render("repair", wrong=_wrong(reply, fault))
                    messages += [
                        Message("assistant", _spoken_back(reply)),
                        Message("user", f"{UNUSABLE}\n{repair}\n{form}"),
                    ]
                    continue
            else:
                turn.session.read(key, usable=True)
            self._messages = [*messages, Message("assistant", _spoken_back(reply))]
            self._head = ""
            turn.reply = reply
            return value
        raise AssertionError("the last attempt returns or raises")

    def _read_loosely(self, reply: Reply, read: Callable[[Fields], T], step: str) -> T:
        try:
            return read(Fields(reply.value, self._turn.table.names, loose=True))
        except UnusableReply:
            raise StepFailed(step) from None


def unusable(turn: ModelTurn, step: str, reply: Reply) -> ReplyUnusable:
    """The note which says that this answer could not be used."""
    return ReplyUnusable(turn.seat, turn.request.id, step, bounded(reply.text, LONGEST_RAW))


def _wrong(reply: Reply, fault: UnusableReply) -> str:
    if reply.finish in _CUT and reply.value is None:
        return "The answer was cut off before its end. Write less in every text."
    return str(fault)


def bounded(text: str, most: int) -> str:
    """The text for the log: cut after ``most`` characters, with U+FFFD for lone surrogates."""
    whole = text[:most].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    kept = whole.replace("\0", "\ufffd")
    return kept if len(text) <= most else f"{kept}… ({len(text)} characters)"


def _spoken_back(reply: Reply) -> str:
    """An answer as the conversation repeats it: on one line, with hidden characters escaped."""
    value = reply.value
    if isinstance(value, dict) and len(reply.text) <= 4 * LONGEST_RAW:
        return one_line(value)
    return quoted(bounded(" ".join(reply.text.split()), LONGEST_RAW))[1:-1] or "-"
