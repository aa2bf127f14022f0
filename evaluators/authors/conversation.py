"""``conversation.csv``: the data that no other file has.

These are the proposed and the reconsidered teams, also of rejected attempts; the readings that others would
have of a speech; the leader's answers while reconsidering; and the shot. Rows of the Moderator may be
missing.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.terms import Role, Seat
from engine.thoughts import Reading
from evaluators.authors.files import Cells, literal, read_table
from evaluators.authors.labels import role_of, seat_of

__all__ = [
    "ATTEMPT_OPENS",
    "NEEDED",
    "PROPOSED",
    "ROUND_OPENS",
    "Conversation",
    "ConversationShot",
    "Names",
    "read_conversation",
]

NEEDED: Final = ("agent_name", "visible_to", "content", "turn", "msg_type")

PROPOSED: Final = "The proposed team is -"
ROUND_OPENS: Final = "This is round"
ATTEMPT_OPENS: Final = "Now the leader of this round is"
"""The first words of the Moderator's messages that open a round, and its second attempt."""

Attempt = tuple[int, int, Seat]
"""Round, attempt in it (1 or 2), and a seat."""

Names = tuple[str, ...]
"""A team's names as written: order and blanks count."""


@dataclass(frozen=True, slots=True)
class ConversationShot:
    target: Seat | None
    """None if the answer names no seat."""
    hit: bool | None
    """Whether the Moderator announced a hit; None if there is no announcement."""


@dataclass(frozen=True, slots=True)
class Conversation:
    file: str
    teams: Mapping[Attempt, Sequence[Names]]
    """The leader's proposals in order, before and after the discussion."""
    readings: Mapping[Attempt, tuple[Reading, ...]]
    answers: Mapping[Attempt, str]
    """The leader's answers while reconsidering."""
    shot: ConversationShot | None


def read_conversation(name: str, content: bytes, roles: Mapping[Seat, Role]) -> Conversation:
    """Reads the conversation of one game. Raises InvalidRun."""
    teams: dict[Attempt, list[Names]] = defaultdict(list)
    readings: dict[Attempt, tuple[Reading, ...]] = {}
    answers: dict[Attempt, str] = {}
    rows = read_table(name, content, NEEDED)
    attempt = 1
    for cells in rows:
        text = cells.text("content")
        seat = seat_of(cells.text("agent_name"))
        if seat is None:
            if text.startswith((ROUND_OPENS, ATTEMPT_OPENS)):
                attempt = 1 if text.startswith(ROUND_OPENS) else 2
            continue
        kind = cells.text("msg_type").strip()
        proposes = text.startswith(PROPOSED) and cells.text("visible_to").strip() == "all"
        if proposes or kind in ("second_order", "answer"):
            key = (cells.whole("turn"), attempt, seat)
            if proposes:
                teams[key].append(_names(text))
            elif kind == "answer":
                answers[key] = text
            else:
                readings[key] = _readings(text)
    return Conversation(name, dict(teams), readings, answers, _shot(rows, roles))


def _names(text: str) -> Names:
    line = text.partition("\n")[0].removeprefix(PROPOSED).strip()
    return tuple(line.removesuffix(".").split(","))


def _readings(text: str) -> tuple[Reading, ...]:
    """The reading of the speech by each reader (a role, a seat, or a name as written). A text that is not a
    dict literal is kept whole, under ``everybody``.
    """
    by_reader = literal(text.strip())
    if not isinstance(by_reader, dict):
        return (Reading("everybody", text),)
    return tuple(Reading(_reader(str(by)), str(seen)) for by, seen in by_reader.items())


def _reader(name: str) -> str:
    role = role_of(name)
    if role is not None:
        return role.value
    seat = seat_of(name)
    return name if seat is None else f"seat {seat}"


_ANNOUNCED: Final = ("Assassin succe", "Assassin failed")
_LEADING_NAME: Final = re.compile(r"\s*(player\s*\d+)", re.IGNORECASE)


def _shot(rows: Sequence[Cells], roles: Mapping[Seat, Role]) -> ConversationShot | None:
    """The assassin's last message after the discussion (of no kind, ``text`` or ``assassin``), and the
    Moderator's announcement of the result. None if there is neither.
    """
    hit: bool | None = None
    for cells in reversed(rows):
        text = cells.text("content")
        if cells.text("agent_name") == "Moderator":
            if text.startswith(_ANNOUNCED):
                hit = text.startswith(_ANNOUNCED[0])
            continue
        seat = seat_of(cells.text("agent_name"))
        kind = cells.text("msg_type").strip()
        if seat and roles.get(seat) is Role.ASSASSIN and kind in ("", "text", "assassin"):
            named = _LEADING_NAME.match(text)
            return ConversationShot(seat_of(named[1]) if named else None, hit)
        if kind == "discussion":
            break
    return None if hit is None else ConversationShot(None, hit)
