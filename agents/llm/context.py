"""Writes a seat's observation as text for its model, with the stable part first.

A prompt is a conversation. The system message holds what never changes in a game; the first user message
holds the record and then the question; each step of a turn appends its messages. The record only grows
while a round lasts, so an earlier prompt is nearly always a prefix of a later one.

The lines of the record are a small language of their own, described in docs/models.md: regular enough
for a program to rebuild the seat's view from them. A text that somebody wrote appears as one JSON string,
within one line.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final, Literal
from unicodedata import category

from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    AssassinationOpened,
    BeliefsFormed,
    CardPlayed,
    ChoiceExplained,
    Event,
    IntentionsSelected,
    ProposalOpened,
    QuestResolved,
    RoundSummarised,
    SpeechDrafted,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VotesRevealed,
)
from engine.intentions import CATALOGUE, CATEGORIES, plain
from engine.profile import PROFILES, Profile, make_profile, profile_from_settings
from engine.rules import usual_names
from engine.state import Hand, Table
from engine.terms import EVIL_ROLES, Phase, Role, Seat
from engine.thoughts import Belief

__all__ = [
    "END_OF_RECORD",
    "NOT_FOUND",
    "RECORD",
    "RECORD_GOES_ON",
    "Memory",
    "believed",
    "catalogue",
    "how_many",
    "hunted",
    "listed",
    "looked_up",
    "menus",
    "named",
    "one_line",
    "other_roles",
    "quoted",
    "read_names",
    "read_settings",
    "record",
    "record_lines",
    "seats_in_words",
    "situation",
    "speeches_in_sight",
    "table_settings",
]

RECORD: Final = "=== RECORD ==="
END_OF_RECORD: Final = "=== END OF RECORD ==="
RECORD_GOES_ON: Final = "=== THE RECORD GOES ON ==="
"""The header of events that happened after the conversation began (timing eager)."""

# Control, format, private, surrogate and unassigned characters, and the separators that end lines. They are
# escaped, since nobody can judge a text that nobody can see.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
# Letters without a visible form, and selectors that alter the preceding letter.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
# Chat templates write roles and turns with brackets, and some servers read them out of the content.
_SUSPECT: Final = re.compile(r"[<>\[\]]|[^ -~]")


@lru_cache(4096)
def quoted(text: str) -> str:
    """The text as one JSON string on one line; parsing the string gives the text back.

    More is escaped than JSON requires: every invisible character, and the brackets with which chat templates
    mark roles. So the text can neither end its quotes nor begin a line or a turn.
    """
    return _SUSPECT.sub(_escaped, json.dumps(text, ensure_ascii=False))


def _escaped(match: re.Match[str]) -> str:
    c = match[0]
    if c > "~" and category(c) not in _HIDDEN and c not in _BLANK:
        return c
    units = c.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def one_line(value: Any) -> str:
    """A JSON value on one line, with every text and every name in it quoted by ``quoted``."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(str(name))}: {one_line(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(one_line, value)) + "]"
    return json.dumps(value)


def listed(seats: Iterable[Seat]) -> str:
    """The numbers of the seats with spaces between them; ``none`` if there are no seats."""
    return " ".join(map(str, seats)) or "none"


def seats_in_words(seats: Sequence[Seat]) -> str:
    """The seats in words: ``seat 2``, ``seats 2 and 5``, ``seats 2, 4 and 5``, or ``no seat``."""
    if not seats:
        return "no seat"
    *most, last = map(str, seats)
    return f"seats {', '.join(most)} and {last}" if most else f"seat {last}"


# --- the stable part ---------------------------------------------------------------------------------


@cache
def catalogue() -> list[tuple[str, list[tuple[str, str, str]]]]:
    """(category, [(id, who may choose it, label)]) for each category, in the catalogue's order."""
    return [
        (
            name,
            [
                (intention.id, _holders(intention.roles), intention.label)
                for intention in CATALOGUE
                if intention.category == name
            ],
        )
        for name in CATEGORIES
    ]


@cache
def menus() -> list[tuple[str, list[tuple[str, str]]]]:
    """(heading, [(id, label)]) for each group of intentions. The first group holds the intentions that any
    role may choose. A group for each set of roles that share several intentions follows. The last group holds
    all others, each id followed by the roles that may choose it.
    """
    by_holders: dict[str, list[tuple[str, str]]] = {}
    for intention in CATALOGUE:
        by_holders.setdefault(_holders(intention.roles), []).append((intention.id, intention.label))
    groups = []
    rest: list[tuple[str, str]] = []
    for holders, entries in sorted(by_holders.items(), key=lambda item: item[0] != "any"):
        if len(entries) > 1:
            groups.append(("any role" if holders == "any" else f"only {holders}", entries))
        else:
            rest += [(f"{id_} ({holders})", label) for id_, label in entries]
    return [*groups, ("only who is named", rest)]


def _holders(roles: frozenset[Role]) -> str:
    if roles == frozenset(Role):
        return "any"
    evil = ["evil"] if roles >= EVIL_ROLES else []
    rest = roles - EVIL_ROLES if evil else roles
    return ", ".join([*evil, *(role.value for role in Role if role in rest)])


def table_settings(profile: Profile) -> dict[str, Any]:
    """The profile as plain values: its name and its size, and all settings that differ from the usual ones
    of the profile with that name.
    """
    whole = profile.settings()
    usual = make_profile(profile.name, profile.players).settings() if profile.name in PROFILES else {}
    return {
        name: value for name, value in whole.items() if name in _ALWAYS or usual.get(name, _NONE) != value
    }


_ALWAYS: Final = ("name", "players")
_NONE: Final = object()


def read_settings(values: Mapping[str, Any]) -> Profile:
    """The profile that ``table_settings`` wrote, read back. Raises InvalidProfile."""
    name, players = values.get("name"), values.get("players")
    usual = make_profile(name, players).settings() if name in PROFILES and isinstance(players, int) else {}
    return profile_from_settings({**usual, **values})


def named(names: Sequence[str]) -> str:
    """The seats' names in seat order, quoted; in a short form if the names are the usual ones."""
    usual = usual_names(len(names))
    if tuple(names) == usual:
        return f"{quoted(usual[0])} to {quoted(usual[-1])}"
    return ", ".join(map(quoted, names))


def read_names(text: str, players: int) -> tuple[str, ...]:
    """The names that ``named`` wrote, read back. Raises ValueError."""
    usual = usual_names(players)
    return usual if text == named(usual) else tuple(json.loads(f"[{text}]"))


# --- the record --------------------------------------------------------------------------------------


Memory = Literal["summaries", "speeches"]
"""What a seat's record keeps of earlier rounds. ``summaries``: the seat's own summary instead of the
speeches. ``speeches``: all speeches."""


def record(events: Sequence[Event], seat: Seat, *, brief: bool = False, memory: Memory = "summaries") -> str:
    """The seat's stream as lines, oldest first, under the header ``RECORD``. ``END_OF_RECORD`` is left out,
    so that an earlier record is a prefix of a later one.

    An attempt of an earlier round is shortened: the record keeps its public facts and the seat's own card,
    summary and beliefs (their roles and confidence), and with the memory ``speeches`` also its speeches. An
    attempt that the seat has not summarised stays whole. ``brief``: beliefs are short in every round,
    summaries do not repeat the record, and drafts are left out.
    """
    lines = [RECORD]
    for event, short in _shortened(events):
        if brief and type(event) in _OWN:
            lines += _brief(event)
        else:
            is_speech = memory == "speeches" and type(event) is UtteranceMade
            lines += _lines(event, short=short and not is_speech)
    return "\n".join(lines) + "\n"


def _shortened(events: Sequence[Event]) -> Iterator[tuple[Event, bool]]:
    """Each event, and whether it belongs to an attempt of an earlier round that the seat has summarised."""
    now = max((event.round for event in events if type(event) is ProposalOpened), default=0)
    summed = {
        (event.round, event.attempt) for event in events if type(event) is RoundSummarised and event.answers
    }
    short = False
    for event in events:
        if type(event) is ProposalOpened:
            short = event.round < now and (event.round, event.attempt) in summed
        yield event, short


def speeches_in_sight(events: Sequence[Event], about: Seat, memory: Memory) -> list[str]:
    """The speeches of the seat ``about`` that the record of these events shows, oldest first."""
    return [
        event.text
        for event, short in _shortened(events)
        if type(event) is UtteranceMade
        and event.seat == about
        and event.text
        and (memory == "speeches" or not short)
    ]


def looked_up(belief: Belief, speeches: Sequence[str]) -> Belief:
    """The belief, in which ``NOT_FOUND`` marks each snippet that none of these speeches contains. Case,
    punctuation and blanks do not matter.
    """
    texts = [f" {plain(speech)} " for speech in speeches]

    def stands(snippet: str) -> bool:
        words = plain(snippet)
        return bool(words) and any(f" {words} " in text for text in texts)

    snippets = tuple(one if stands(one) else f"{NOT_FOUND}{one}" for one in belief.snippets)
    return replace(belief, snippets=snippets)


NOT_FOUND: Final = "(not found) "
"""The mark before a snippet that the seat's model gave, but that no speech in its record contains."""


def record_lines(events: Sequence[Event]) -> list[str]:
    """The full lines of these events."""
    return [line for event in events for line in _lines(event, short=False)]


_OWN: Final = frozenset({BeliefsFormed, SpeechDrafted, RoundSummarised})

_ON_RECORD: Final = frozenset({"leader", "team", "result"})
"""The questions of a summary whose answers only repeat lines of the record."""


def _brief(event: Event) -> list[str]:
    if type(event) is BeliefsFormed and event.beliefs:
        return [f"you believed {'; '.join(map(_in_short, event.beliefs))}"]
    if type(event) is RoundSummarised and event.answers:
        answers = {question: text for question, text in event.answers if question not in _ON_RECORD}
        return [f"you summed up {one_line(answers)}"]
    return []


def _in_short(belief: Belief) -> str:
    """The belief in short: the likeliest role, or the likeliest intention if no role was asked for."""
    taken = belief.role.value if belief.role is not None else next(iter(belief.intentions), "unknown")
    sure = "" if belief.confidence is None else f" {belief.confidence}/5"
    return f"seat {belief.about} {taken}{sure}"


def _lines(event: Event, *, short: bool) -> list[str]:
    match event:
        case ProposalOpened(round=round_, attempt=attempt, leader=leader):
            return [f"round {round_} attempt {attempt}: seat {leader} leads"]
        case TeamProposed(leader=leader, team=team):
            return [f"seat {leader} proposes team {listed(team)}"]
        case TeamConfirmed(leader=leader, team=team, changed=changed):
            return [f"seat {leader} {'changes to' if changed else 'keeps'} team {listed(team)}"]
        case VotesRevealed():
            return [_votes(event)]
        case QuestResolved(round=round_, team=team, fails=fails, succeeded=succeeded):
            result = "succeeded" if succeeded else "failed"
            cards = "unknown" if fails is None else fails
            return [f"quest {round_}: team {listed(team)}; fail cards {cards}; {result}"]
        case AssassinationOpened():
            return ["the assassination is open"]
        case AssassinationDeclined():
            return ["the shooter holds fire"]
        case AssassinationMade(assassin=assassin, target=target, hit=hit):
            at = "an unknown seat" if target is None else f"seat {target}"
            return [f"seat {assassin} shoots {at}: {'Merlin' if hit else 'not Merlin'}"]
        case CardPlayed(success=success):
            return [f"you played {'success' if success else 'failure'}"]
        case RoundSummarised(answers=answers) if answers:
            return [f"you summed up {one_line(dict(answers))}"]
        case BeliefsFormed(beliefs=beliefs):
            return _brief(event) if short else [believed(belief) for belief in beliefs]
        case _:
            return [] if short else _of_this_round(event)


def _of_this_round(event: Event) -> list[str]:
    match event:
        case UtteranceMade(seat=seat, phase=phase, text=text):
            on = " on the team" if phase == "reconsider" else ""
            return [f"seat {seat} says{on} {quoted(text)}" if text else f"seat {seat} says{on} nothing"]
        case IntentionsSelected(stage="final", intentions=chosen):
            return [f"you intended {' '.join(choice.id for choice in chosen) or 'none'}"]
        case SpeechDrafted(stage="refinement", think=think):
            return [f"you thought {quoted(think)}"]
        case ChoiceExplained(about=about, text=text):
            return [f"you explained {about.value} {quoted(text)}"]
        case _:
            return []


def believed(belief: Belief) -> str:
    """One of the seat's own beliefs on one line."""
    values: dict[str, Any] = {"seat": belief.about}
    if belief.role is not None:
        values["role"] = belief.role.value
    if belief.confidence is not None:
        values["confidence"] = belief.confidence
    values |= {"intentions": belief.intentions, "reasoning": belief.reasoning}
    return f"you believed {one_line(values)}"


def _votes(event: VotesRevealed) -> str:
    by = {vote: [seat for seat, v in enumerate(event.votes, 1) if v is vote] for vote in (True, False, None)}
    unknown = f"; unknown {listed(by[None])}" if by[None] else ""
    result = "approved" if event.approved else "rejected, goes all the same" if event.forced else "rejected"
    return f"votes: yes {listed(by[True])}; no {listed(by[False])}{unknown}; {result}"


def _needed(table: Table) -> str:
    loyal, evil = _WINS - table.succeeded, _WINS - table.failed
    if not loyal or not evil:
        return "no more are needed"
    successes = "success" if loyal == 1 else "successes"
    failures = "failure" if evil == 1 else "failures"
    return f"loyal needs {loyal} more {successes}, evil needs {evil} more {failures}"


_WINS: Final = 3
"""Quests that decide the game."""

_BEFORE_THE_VOTE: Final = frozenset({Phase.PROPOSE, Phase.DISCUSS, Phase.RECONSIDER, Phase.VOTE})

_IF_REJECTED: Final = {
    "evil_wins": ", the last: if its team is rejected, evil wins",
    "last_team_goes": ", the last: its team goes whatever the vote says",
    "forced_team": ", the last: its team goes without a vote",
    "quest_fails": ", the last: if its team is rejected, the quest fails",
}


def situation(table: Table, hand: Hand) -> str:
    """The state of the game in a few sentences, for the head of a question."""
    leads = "you lead" if hand.seat == table.leader else f"seat {table.leader} leads"
    team = f" The team is {listed(table.team)}." if table.team else " No team is proposed yet."
    last = table.attempt == table.profile.max_rejections and table.phase in _BEFORE_THE_VOTE
    return (
        f"Round {table.round}, attempt {table.attempt} of {table.profile.max_rejections}"
        f"{_IF_REJECTED[table.profile.on_max_rejections] if last else ''}; {leads}. "
        f"Quests: {table.succeeded} succeeded, {table.failed} failed; {_needed(table)}.{team}"
    )


def hunted(profile: Profile) -> bool:
    """Whether evil may shoot Merlin."""
    return profile.assassination != "none" and Role.MERLIN in profile.roles


def how_many(fewest: int, most: int) -> str:
    """A range of numbers in words: ``2``, ``2 or 3``, ``1 to 3``."""
    if fewest == most:
        return str(fewest)
    return f"{fewest} {'or' if most == fewest + 1 else 'to'} {most}"


def other_roles(profile: Profile, role: Role) -> tuple[Role, ...]:
    """The roles that others may hold, in deck order. The seat's own role is left out, unless the deck has it
    twice.
    """
    deck = profile.roles
    return tuple(other for other in dict.fromkeys(deck) if deck.count(other) > (other is role))
