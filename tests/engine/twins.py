"""Twin games that differ only in what a viewer may not know, and the differences that the viewer could
notice.

A twin set is one random game, played twice with the same public behaviour. The viewer's whole stream,
positions included, must be equal byte for byte, and so must the outcome of every action that the viewer
could try, and the text of every refusal. There are four kinds, since each finds leaks that the others
cannot: roles, hidden behaviour, an unrevealed vote, a hidden card.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from engine import rules, state, view
from engine.actions import (
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
from engine.events import Event, IntentionsSelected, VotesRevealed
from engine.knowledge import sees
from engine.profile import Profile
from engine.rules import Request
from engine.state import State
from engine.terms import EVIL_ROLES, Role, Seat, Viewer
from engine.thoughts import Choice
from tests.engine.games import (
    WORDS,
    canonical,
    new_game,
    numbered,
    random_profile,
    random_team,
    random_thoughts,
    served,
)

KINDS = ("roles", "behaviour", "vote", "card")


class Course(NamedTuple):
    """The hidden part of one twin: the roles, and what seats do unseen."""

    deal: tuple[Role, ...]
    think: int
    """The number that fixes the thoughts of every seat except the viewer's."""


def permuted(rng: Random, deal: Sequence[Role], viewer: Viewer) -> tuple[Role, ...] | None:
    """Another deal that looks the same to the viewer; None if a few hundred tries find none."""
    others = [seat for seat in range(1, len(deal) + 1) if seat != viewer]
    for _ in range(300):
        held = [deal[seat - 1] for seat in others]
        rng.shuffle(held)
        other = list(deal)
        for seat, role in zip(others, held, strict=True):
            other[seat - 1] = role
        same = viewer < 1 or sees(deal, viewer) == sees(other, viewer)
        if same and tuple(other) != tuple(deal):
            return tuple(other)
    return None


def twin_faults(kind: str, number: int) -> list[str]:
    """What one twin set of this kind reveals to each of its viewers; empty if nothing."""
    rng = Random(f"{kind}/{number}")
    profile = random_profile(rng, players=5 + number % 6)
    game = new_game(profile, number)
    deal = game.roles
    assert deal is not None
    faults: list[str] = []
    for viewer in range(profile.players + 1):
        twin = permuted(rng, deal, viewer) if kind == "roles" else deal
        if twin is None:
            continue
        think = number + 1 if kind in ("roles", "behaviour") else number
        pair = (Course(deal, number), Course(twin, think))
        faults += [f"viewer {viewer}: {fault}" for fault in _compare(kind, profile, number, viewer, pair)]
    return faults


def _compare(
    kind: str, profile: Profile, number: int, viewer: Viewer, pair: tuple[Course, Course]
) -> list[str]:
    one, other = (new_game(profile, number, deal=course.deal) for course in pair)
    scripts = [Script(number, viewer, course.think) for course in pair]
    public = Random(number * 1000 + viewer)
    battery = Random(number)
    faults: list[str] = []
    seen = 0
    while not faults and (asked := (rules.pending(one), rules.pending(other)))[0]:
        # What is new at every step, the whole stream now and then: served anew it costs the most.
        if difference := _news_differ(one, other, viewer, seen) or (
            public.random() < 0.04 and served_differ(one, other, viewer)
        ):
            faults.append(difference)
        seen = len(one.public)
        faults += refusals_differ(battery, one, other, viewer)
        if one.table.phase == "assassinate":
            # Who shoots is seen when the shot falls; until then all must be equal.
            if one.table.profile.assassination != "after_any_quest":
                break
            for each, requests in zip((one, other), asked, strict=True):
                state.apply(each, rules.decide(each, [(requests[0].seat, Assassinate(None))]))
            continue
        if [(r.kind, r.round, r.attempt, r.seat) for r in asked[0]] != [
            (r.kind, r.round, r.attempt, r.seat) for r in asked[1]
        ]:
            faults.append(f"others are asked: {asked[0]} and {asked[1]}")
            break
        plan = _plan(public, one, other, viewer, asked[0])
        answers = [
            [(r.seat, script.with_thoughts(game, r, plan[i][r.seat])) for r in asked[0]]
            for i, (game, script) in enumerate(zip((one, other), scripts, strict=True))
        ]
        if kind == "vote" and one.table.phase == "vote" and public.random() < 0.4:
            faults += _flip_a_vote(public, one, viewer, answers[0])
        if kind == "card" and one.table.phase == "quest":
            answers[1] = _swap_cards(public, one, viewer, answers[0])
        for each, given in zip((one, other), answers, strict=True):
            state.apply(each, rules.decide(each, given))
    if not faults and not rules.pending(one):
        if kind == "roles" and profile.reveal != "none":
            one, other = (state.fold(game.log[:-1]) for game in (one, other))  # the end tells the roles
        if difference := served_differ(one, other, viewer):
            faults.append(f"at the end: {difference}")
    return faults


def _news_differ(one: State, other: State, viewer: Viewer, since: int) -> str | None:
    """The first difference between the new events: public ones after the first ``since``, and the seat's
    own.
    """
    pairs = [[game.public[since:] for game in (one, other)]]
    if viewer > 0:
        pairs.append([[event for _, event in game.hand(viewer).own[-8:]] for game in (one, other)])
    return next((fault for pair in pairs if (fault := differ(*pair))), None)


def _plan(
    rng: Random, one: State, other: State, viewer: Viewer, asked: Sequence[Request]
) -> tuple[dict[Seat, SeatAction], dict[Seat, SeatAction]]:
    """What every seat does in both games: the same in public, and equally many fail cards."""
    table, kind = one.table, asked[0].kind
    text = rng.choice(WORDS)
    if kind == "card":
        return _cards(rng, one, other, viewer)
    same: dict[Seat, SeatAction] = {}
    for request in asked:
        if kind == "propose_team":
            same[request.seat] = ProposeTeam(random_team(rng, table), text)
        elif kind == "reconsider":
            same[request.seat] = Reconsider(random_team(rng, table), text)
        elif kind == "speak":
            same[request.seat] = Speak(text)
        elif kind == "vote":
            same[request.seat] = CastVote(rng.random() < 0.6)
        else:
            same[request.seat] = Summarise((("result", text),))
    return same, same


def _cards(
    rng: Random, one: State, other: State, viewer: Viewer
) -> tuple[dict[Seat, SeatAction], dict[Seat, SeatAction]]:
    team = one.table.team
    evil = [[seat for seat in team if game.hand(seat).role in EVIL_ROLES] for game in (one, other)]
    fails = rng.randint(0, min(map(len, evil)))
    # The viewer knows its own card: it plays the same in both.
    mine = viewer in evil[0] and fails > 0
    plans = []
    for able in evil:
        rest = [seat for seat in able if seat != viewer]
        failing = {viewer, *rest[: fails - 1]} if mine else set(rest[:fails])
        plans.append({seat: PlayCard(seat not in failing) for seat in team})
    if len({sum(not c.success for c in plan.values()) for plan in plans}) > 1:
        plans = [{seat: PlayCard(True) for seat in team}] * 2
    return plans[0], plans[1]  # type: ignore[return-value]


class Script:
    """The thoughts of one twin. The viewer's own are equal in both twins, those of others are not."""

    def __init__(self, number: int, viewer: Viewer, think: int) -> None:
        self.viewer = viewer
        self.mine = Random(number)
        self.hidden = Random(think)

    def with_thoughts(self, game: State, request: Request, action: SeatAction) -> SeatAction:
        rng = self.mine if request.seat == self.viewer else self.hidden
        thoughts = random_thoughts(rng, game.table, game.hand(request.seat), request)
        return type(action)(*(getattr(action, name) for name in action.__slots__[:-1]), thoughts)  # type: ignore[call-arg, attr-defined]


def _flip_a_vote(rng: Random, game: State, viewer: Viewer, answers: list[tuple[Seat, Any]]) -> list[str]:
    """Changes one other seat's ballot, which nobody else can see before the votes are revealed."""
    flipped = rng.choice([seat for seat, _ in answers if seat != viewer])
    turned = [(s, CastVote(not a.approve, a.thoughts) if s == flipped else a) for s, a in answers]
    written = [_before_reveal(rules.decide(game, given)) for given in (answers, turned)]
    faults = []
    games = [state.fold(game.log) for _ in range(2)]
    some = rng.randint(1, len(answers) - 1)  # all but the last of them are in, or fewer
    for each, given in zip(games, (answers, turned), strict=True):
        state.apply(each, rules.decide(each, given[:some]))
    if difference := served_differ(games[0], games[1], viewer):
        faults.append(f"after {some} ballots: {difference}")
    faults += refusals_differ(rng, games[0], games[1], viewer)
    seen = [view.project(events, viewer) for events in written]
    if difference := differ(*seen):
        faults.append(f"before the reveal: {difference}")
    return faults


def _before_reveal(events: Sequence[Event]) -> list[Event]:
    return list(events[: next(i for i, event in enumerate(events) if type(event) is VotesRevealed)])


def _swap_cards(
    rng: Random, game: State, viewer: Viewer, answers: list[tuple[Seat, Any]]
) -> list[tuple[Seat, Any]]:
    """Swaps the cards of two other evil seats on the team; the number of fails stays the same."""
    able = [(s, a) for s, a in answers if s != viewer and game.hand(s).role in EVIL_ROLES]
    failing = [pair for pair in able if not pair[1].success]
    passing = [pair for pair in able if pair[1].success]
    if not failing or not passing:
        return answers
    swapped = {
        failing[0][0]: PlayCard(True, failing[0][1].thoughts),
        passing[0][0]: PlayCard(False, passing[0][1].thoughts),
    }
    return [(seat, swapped.get(seat, action)) for seat, action in answers]


def served_differ(one: State, other: State, viewer: Viewer) -> str | None:
    """The first difference in what the two games show this viewer: in its stored stream, in the projection of
    the log, or in the public table.
    """
    left, right = served(one, viewer), served(other, viewer)
    if left != right:
        return _first(left, right)
    left, right = (numbered(view.project(game.log, viewer)) for game in (one, other))
    return _first(left, right) if left != right else None


def differ(one: Sequence[Event], other: Sequence[Event]) -> str | None:
    """The first line in which two streams differ."""
    left, right = canonical(one), canonical(other)
    return None if left == right else _first(left, right)


def _first(left: bytes, right: bytes) -> str:
    rows = zip(left.split(b"\n"), right.split(b"\n"), strict=False)
    return next((f"{a[:160]!r} against {b[:160]!r}" for a, b in rows if a != b), "one is longer")


BATTERY: tuple[Any, ...] = (
    CastVote(True),
    CastVote(False),
    PlayCard(True),
    PlayCard(False),
    Speak("so"),
    ProposeTeam((1, 2)),
    ProposeTeam((1, 2, 3)),
    ProposeTeam((1, 1, 2)),
    ProposeTeam((1, 99)),
    Reconsider((1, 2, 3)),
    Reconsider((2, 3)),
    Summarise(()),
    Assassinate(1),
    Assassinate(2),
    Assassinate(None),
)


def refusals_differ(rng: Random, one: State, other: State, viewer: Viewer) -> list[str]:
    """Invariant 6: whatever the viewer tries, both games respond with the same text."""
    if viewer < 1:
        return []
    tried = list(BATTERY)
    for name in ("share_concerns_evil", "cast_suspicion", "support_proposal"):
        tried.append(Speak("so", (IntentionsSelected(viewer, "first", (Choice(name),), False),)))
    faults = []
    for action in rng.sample(tried, 4):
        for ask in (_checked, _decided):
            said = [ask(game, viewer, action) for game in (one, other)]
            if said[0] != said[1]:
                faults.append(f"{action!r} is answered {said[0]} and {said[1]}")
    if rules.legal(one.table, one.hand(viewer)) != rules.legal(other.table, other.hand(viewer)):
        faults.append("other actions are legal")
    return faults


def _told(ask: Callable[[], Any]) -> tuple[str, str]:
    try:
        ask()
    except IllegalAction as refusal:
        return refusal.pointer, str(refusal)
    return "", "allowed"


def _checked(game: State, seat: Seat, action: Any) -> tuple[str, str]:
    return _told(lambda: rules.check(game.table, game.hand(seat), action))


def _decided(game: State, seat: Seat, action: Any) -> tuple[str, str]:
    return _told(lambda: rules.decide(game, [(seat, action)]))
