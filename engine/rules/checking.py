"""The legal actions of the seat being asked, judged by what it sees, and the refusals of other actions."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, get_args

from engine.actions import (
    APPROVE,
    FAIL,
    NOTHING,
    REJECT,
    SILENCE,
    SUCCESS,
    Action,
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.errors import IllegalAction
from engine.events import BeliefsFormed, IntentionsSelected, Note
from engine.intentions import BY_ID, opening_menu
from engine.profile import Profile
from engine.rules.asking import KIND_IN, Request, everybody, is_asked, offered
from engine.rules.members import (
    ASSASSINATE,
    DISCUSS,
    EVIL,
    PROPOSE,
    QUEST,
    RECONSIDER,
    SUMMARY,
    TO_PROPOSE,
    TO_SPEAK,
    TO_SUMMARISE,
    TO_VOTE,
    VOTE,
)
from engine.state import Hand, Table
from engine.terms import Kind, Role, Seat

__all__ = ["check", "check_note", "check_target", "check_team", "default", "legal", "not_asked"]


def check(table: Table, hand: Hand, action: Action, *, foreign: bool = False) -> None:
    """Checks whether this seat may take this action now, judged by what it sees. Raises IllegalAction.

    ``foreign``: the thoughts come from a record, which may leave out a confidence, and may hold an
    intention of the catalogue that our menus do not offer at that point.
    """
    # The most common actions come first, with the fewest checks: this runs for every ballot.
    kind = type(action)
    if kind is CastVote:
        if table.phase is not VOTE or hand.answered == table.opening:
            raise not_asked(table, hand, action)
        # Compared by identity, since 1 equals True, and an interned event would keep the 1 for all later
        # games.
        if action.approve is not True and action.approve is not False:  # type: ignore[union-attr]
            raise _neither(hand, "approve", action.approve)  # type: ignore[union-attr]
    elif kind is PlayCard:
        if table.phase is not QUEST or hand.answered == table.opening or hand.seat not in table.team:
            raise not_asked(table, hand, action)
        if action.success is not True and action.success is not False:  # type: ignore[union-attr]
            raise _neither(hand, "success", action.success)  # type: ignore[union-attr]
        if hand.side is not EVIL and not action.success:  # type: ignore[union-attr]
            raise IllegalAction(hand.seat, "a loyal seat plays success, got fail", "/success")
    elif kind is Speak and table.phase is DISCUSS:
        if hand.seat != table.speaker:
            raise not_asked(table, hand, action)
        if not isinstance(action.text, str):  # type: ignore[union-attr]
            raise _no_text(hand, action.text)  # type: ignore[union-attr]
    elif kind is Summarise and table.phase is SUMMARY:
        if hand.answered == table.opening:
            raise not_asked(table, hand, action)
        if action is not NOTHING:
            _check_summary(hand, action.answers)  # type: ignore[union-attr]
    else:
        expected = KIND_IN.get(table.phase)
        if expected is None or kind is not expected[1] or not is_asked(table, hand):
            raise not_asked(table, hand, action)
        if kind is ProposeTeam or kind is Reconsider:
            check_team(table, hand, action.team)  # type: ignore[union-attr]
        elif kind is Assassinate:
            check_target(table, hand, action.target)  # type: ignore[union-attr]
        if kind in _SPOKEN and not isinstance(action.text, str):  # type: ignore[union-attr]
            raise _no_text(hand, action.text)  # type: ignore[union-attr]
    if action.thoughts:
        _check_notes(table, hand, action.thoughts, foreign)


_SPOKEN: Final = frozenset({ProposeTeam, Speak, Reconsider})


def _no_text(hand: Hand, text: object) -> IllegalAction:
    return IllegalAction(hand.seat, f"text must be a string, got {text!r}", "/text")


def _neither(hand: Hand, name: str, value: object) -> IllegalAction:
    return IllegalAction(hand.seat, f"{name} is true or false, got {value!r}", f"/{name}")


def not_asked(table: Table, hand: Hand, action: Action) -> IllegalAction:
    name = type(action).__name__
    if table.over:
        return IllegalAction(hand.seat, f"the game is over, got {name} of seat {hand.seat}")
    if not is_asked(table, hand):
        return IllegalAction(
            hand.seat,
            f"seat {hand.seat} is not asked in round {table.round}, attempt {table.attempt}, "
            f"phase {table.phase}, got {name}",
        )
    return IllegalAction(
        hand.seat,
        f"seat {hand.seat} is asked for {KIND_IN[table.phase][0]} in phase {table.phase}, got {name}",
    )


def check_team(table: Table, hand: Hand, team: tuple[Seat, ...]) -> None:
    size = table.profile.team_sizes[table.round - 1]
    # Looking up the team among the legal teams is fast; the other checks only word the refusal. Types count
    # too, since (True, 2.0) equals (1, 2), and an interned event would keep the wrong types.
    if (
        type(team) is tuple
        and _ONLY_INT.issuperset(map(type, team))
        and team in table.profile.legal_team[table.round - 1]
    ):
        return
    if not isinstance(team, tuple | list):
        raise IllegalAction(hand.seat, f"a team is a list of seats, got {team!r}", "/team")
    if len(team) != size:
        raise IllegalAction(hand.seat, f"round {table.round} takes {size} seats, got {list(team)}", "/team")
    for seat in team:
        if type(seat) is not int or not 1 <= seat <= table.players:
            raise IllegalAction(hand.seat, f"seats are 1 to {table.players}, got {seat!r}", "/team")
    if len(set(team)) != size:
        raise IllegalAction(hand.seat, f"a team names each seat once, got {list(team)}", "/team")


_ONLY_INT: Final = frozenset({int})


def check_target(table: Table, hand: Hand, target: Seat | None) -> None:
    if target is None:
        if table.profile.assassination != "after_any_quest":
            raise IllegalAction(hand.seat, "the shot must name a seat, got null", "/target")
        return
    if type(target) is not int or not 1 <= target <= table.players:
        raise IllegalAction(hand.seat, f"seats are 1 to {table.players}, got {target!r}", "/target")
    if target == hand.seat:
        raise IllegalAction(hand.seat, f"the shot must name another seat, got {target}", "/target")


def _check_summary(hand: Hand, answers: Any) -> None:
    pairs = isinstance(answers, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in answers)
    if not pairs or not all(isinstance(text, str) for pair in answers for text in pair):
        raise IllegalAction(
            hand.seat, f"a summary is pairs of question and answer, got {answers!r}", "/answers"
        )
    questions = [question for question, _ in answers]
    if len(set(questions)) != len(questions):
        # The wire form is a mapping, which would lose one of two equal questions.
        raise IllegalAction(hand.seat, f"a summary answers each question once, got {questions}", "/answers")


_NOTES: Final = frozenset(get_args(Note))


def _check_notes(table: Table, hand: Hand, notes: Sequence[Note], foreign: bool) -> None:
    for index, note in enumerate(notes):
        check_note(table, hand, note, f"/thoughts/{index}", foreign=foreign)


def check_note(table: Table, hand: Hand, note: Note, where: str, *, foreign: bool = False) -> None:
    """Checks whether this seat may record this note with its answer, judged by what it sees. Raises
    IllegalAction, whose pointer begins with ``where``. ``foreign`` as in ``check``.
    """
    kind = type(note)
    if kind not in _NOTES:
        raise IllegalAction(hand.seat, f"a seat records thoughts, got {kind.__name__}", where)
    if note.seat != hand.seat or type(note.seat) is not int:
        raise IllegalAction(
            hand.seat, f"seat {hand.seat} records its own thoughts, got seat {note.seat}'s", where
        )
    if kind is IntentionsSelected:
        _check_selection(table, hand, note, where, foreign)  # type: ignore[arg-type]
    elif kind is BeliefsFormed:
        _check_beliefs(table, hand, note, where, foreign)  # type: ignore[arg-type]


def _check_selection(table: Table, hand: Hand, note: IntentionsSelected, where: str, foreign: bool) -> None:
    on_offer = offered(table, hand, KIND_IN[table.phase][0])
    if on_offer is None:
        raise IllegalAction(hand.seat, f"no intentions are chosen in phase {table.phase}", where)
    if foreign:
        on_offer = tuple(BY_ID)
    elif (table.phase is PROPOSE or table.turn == 0) and hand.role is not None:
        # A seat that opens may choose by either menu.
        proposes = table.phase is PROPOSE
        sensible = opening_menu(hand.role, first_quest=table.round == 1, proposes=proposes)
        on_offer = tuple(dict.fromkeys((*on_offer, *sensible)))
    if len({choice.id for choice in note.intentions}) != len(note.intentions):
        raise IllegalAction(hand.seat, "an intention may be selected only once", f"{where}/intentions")
    for place, choice in enumerate(note.intentions):
        if choice.id not in on_offer:
            raise IllegalAction(
                hand.seat,
                f"{choice.id!r} is not offered to this seat now; the menu is {', '.join(on_offer)}",
                f"{where}/intentions/{place}/id",
            )


def _check_beliefs(table: Table, hand: Hand, note: BeliefsFormed, where: str, foreign: bool) -> None:
    deck = table.profile.roles
    for place, belief in enumerate(note.beliefs):
        at = f"{where}/beliefs/{place}"
        if (
            type(belief.about) is not int
            or belief.about == hand.seat
            or not 1 <= belief.about <= table.players
        ):
            raise IllegalAction(
                hand.seat,
                f"a belief is about another seat 1 to {table.players}, got {belief.about!r}",
                f"{at}/about",
            )
        if belief.role is not None:
            # A plain "merlin" equals the role, but has no wire form.
            known = isinstance(belief.role, Role)
            spare = known and deck.count(belief.role) - (belief.role == hand.role)
            if spare < 1:
                raise IllegalAction(
                    hand.seat, f"no other seat can hold {belief.role} in this deal", f"{at}/role"
                )
        confidence = belief.confidence
        if confidence is None and foreign:
            pass
        elif type(confidence) is not int or not 0 <= confidence <= 5:
            raise IllegalAction(hand.seat, f"confidence is 0 to 5, got {confidence!r}", f"{at}/confidence")
        for unknown in belief.intentions:
            if unknown not in BY_ID:
                raise IllegalAction(hand.seat, f"no intention is called {unknown!r}", f"{at}/intentions")


def legal(table: Table, hand: Hand) -> tuple[SeatAction, ...] | None:
    """All legal actions of this seat, without texts and thoughts; None when the action is a text.

    Empty when the seat is not being asked.
    """
    if not is_asked(table, hand):
        return ()
    phase = table.phase
    if phase is VOTE:
        return _VOTES
    if phase is QUEST:
        return _CARDS if hand.side is EVIL else _CARDS[:1]
    if phase is PROPOSE:
        return _proposals(table.profile, table.round)
    if phase is RECONSIDER:
        return tuple(Reconsider(team) for team in table.profile.teams[table.round - 1])
    if phase is ASSASSINATE:
        targets = tuple(Assassinate(seat) for seat in everybody(table.players) if seat != hand.seat)
        hold = (Assassinate(None),) if table.profile.assassination == "after_any_quest" else ()
        return targets + hold
    return None


@lru_cache(256)
def _proposals(profile: Profile, round_: int) -> tuple[ProposeTeam, ...]:
    return tuple(ProposeTeam(team) for team in profile.teams[round_ - 1])


_VOTES: Final = (APPROVE, REJECT)


_CARDS: Final = (SUCCESS, FAIL)


def default(table: Table, request: Request) -> SeatAction:
    """The default action, played for a seat that gives no usable answer.

    It depends only on public facts, never on a role or the seed: reject, play success, say nothing, propose
    the leader and the seats after it, keep the team, hold fire where that is legal or else shoot the next
    seat.
    """
    kind = request.kind
    if kind is TO_VOTE:
        return REJECT
    if kind is Kind.CARD:
        return SUCCESS
    if kind is TO_SPEAK:
        return SILENCE
    if kind is TO_SUMMARISE:
        return NOTHING
    if kind is Kind.RECONSIDER:
        return Reconsider(table.team)
    following = [(request.seat - 1 + step) % table.players + 1 for step in range(table.players)]
    if kind is TO_PROPOSE:
        size = table.profile.team_sizes[table.round - 1]
        return ProposeTeam(tuple(sorted(following[:size])))
    return Assassinate(None if table.profile.assassination == "after_any_quest" else following[1])
