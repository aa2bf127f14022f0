"""Random games for the proofs: random settings, thoughts and play, all from one number.

All randomness comes from ``random.Random`` with this number, so the number of a failing game is enough to
play it again. The engine is called through its modules, so that planted faults take effect.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

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
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    BeliefsFormed,
    ChoiceExplained,
    Event,
    IntentionsSelected,
    Note,
    ReadingsImagined,
    ReplyUnusable,
    SelectionPrepared,
    SpeechDrafted,
    payload,
    type_name,
)
from engine.intentions import BY_ID
from engine.profile import PROFILES, Profile, default_roles, make_profile
from engine.rules import Request
from engine.state import Hand, State, Table
from engine.terms import EVIL_ROLES, FULL, PUBLIC, Role, Seat, Viewer
from engine.thoughts import Belief, Choice, Reading

WORDS = ("I trust seat 2.", "That quest failed.", "", "Warum Platz 3?", "“No.” — she said", "再见", "a\tb\nc")

Answer = tuple[Seat, SeatAction]
Choose = Callable[[State, Request], SeatAction]


def canonical(events: Iterable[Event]) -> bytes:
    """One line of JSON an event, as bytes: what 'equal' means for logs and streams."""
    return b"\n".join(
        json.dumps({"type": type_name(event), **payload(event)}, ensure_ascii=False).encode()
        for event in events
    )


def viewers(players: int) -> tuple[Viewer, ...]:
    """All viewers: public, full and every seat."""
    return (PUBLIC, FULL, *range(1, players + 1))


def random_deck(rng: Random, players: int) -> tuple[Role, ...]:
    """A deck the profile allows: evil outnumbered, at most one of each named role."""
    if rng.random() < 0.3:
        return default_roles(players)
    evil = rng.randint(1, (players - 1) // 2)
    named_evil = rng.sample(
        [Role.ASSASSIN, Role.MORGANA, Role.MORDRED, Role.OBERON], rng.randint(0, min(4, evil))
    )
    if rng.random() < 0.6 and Role.ASSASSIN not in named_evil:
        named_evil = [Role.ASSASSIN, *named_evil[1:]]
    loyal = [role for role in (Role.MERLIN, Role.PERCIVAL) if rng.random() < 0.8]
    deck = named_evil + [Role.MINION] * (evil - len(named_evil)) + loyal
    return tuple(deck + [Role.SERVANT] * (players - len(deck)))


def random_profile(rng: Random, players: int | None = None, **fixed: Any) -> Profile:
    """A random rule set, except for the ``fixed`` rules."""
    n = players or rng.randint(5, 10)
    choices: dict[str, Sequence[Any]] = {
        "approval": ("strict_majority", "at_least_half"),
        "max_rejections": (1, 2, 3, 4, 5),
        "on_max_rejections": ("evil_wins", "forced_team", "last_team_goes", "quest_fails"),
        "discussion": ("none", "before_proposal", "after_proposal"),
        "reconsideration": (True, False),
        "summaries": (True, False),
        "assassination": ("after_three_successes", "after_any_quest", "none"),
        "missed_shot": ("loyal_wins", "play_on"),
        "first_leader": (None, 1, n),
        "leader_step": (1, -1),
        "fails_needed": ((1, 1, 1, 1, 1), (1, 1, 1, 2, 1), (2, 1, 2, 1, 2)),
    }
    settings = {name: rng.choice(options) for name, options in choices.items() if rng.random() < 0.7}
    return make_profile(
        rng.choice(PROFILES),
        n,
        roles=random_deck(rng, n),
        rules={**settings, **fixed},
        reveal=rng.choice(("none", "roles", "all")),
    )


def random_thoughts(rng: Random, table: Table, hand: Hand, request: Request) -> tuple[Note, ...]:
    """Legal notes of one seat: any number of them, of any kind that the request allows."""
    seat, notes = hand.seat, list[Note]()
    if rng.random() < 0.6:
        return ()
    for _ in range(rng.randint(0, 2)):
        notes.append(
            rng.choice(
                (
                    ActionRefused(seat, request.id, rng.choice(WORDS)),
                    ReplyUnusable(seat, request.id, "formulation", rng.choice(WORDS) * 3),
                    ChoiceExplained(seat, request.kind, rng.choice(WORDS)),
                    SpeechDrafted(seat, "formulation", rng.choice(WORDS), rng.choice(WORDS)),
                    ReadingsImagined(seat, (Reading("seat 1", rng.choice(WORDS)),), rng.random() < 0.5),
                    ActionDefaulted(seat, request.id, "deadline"),
                    SelectionPrepared(seat, rng.choice(("speech", "summary"))),
                )
            )
        )
    if rng.random() < 0.5:
        about = rng.choice([other for other in range(1, table.players + 1) if other != seat])
        spare = [role for role in table.profile.roles if role != hand.role] or [None]
        belief = Belief(
            about, rng.choice(spare), tuple(rng.sample(sorted(BY_ID), 2)), rng.randint(0, 5), ("so",), "why"
        )
        notes.append(BeliefsFormed(seat, (belief,)))
    if on_offer := rules.offered(table, hand, request.kind):
        ids = rng.sample(on_offer, min(len(on_offer), rng.randint(1, 3)))
        notes.append(
            IntentionsSelected(seat, "first", tuple(Choice(one, rng.choice(WORDS)) for one in ids), False)
        )
    return tuple(notes)


def random_action(
    rng: Random, table: Table, hand: Hand, request: Request, *, think: bool = True
) -> SeatAction:
    """A legal answer, with thoughts or without."""
    thoughts = random_thoughts(rng, table, hand, request) if think else ()
    if not thoughts and rng.random() < 0.5 and (listed := rules.legal(table, hand)):
        # The very objects that ``legal`` lists take a short way through the rules; equal ones a long one.
        return rng.choice(listed)
    text = rng.choice(WORDS)
    if request.kind == "propose_team":
        return ProposeTeam(random_team(rng, table), text, thoughts)
    if request.kind == "reconsider":
        return Reconsider(random_team(rng, table) if rng.random() < 0.5 else table.team, text, thoughts)
    if request.kind == "speak":
        return Speak(text, thoughts)
    if request.kind == "vote":
        return CastVote(rng.random() < 0.55, thoughts)
    if request.kind == "card":
        return PlayCard(hand.role not in EVIL_ROLES or rng.random() < 0.5, thoughts)
    if request.kind == "summarise":
        return Summarise((("result", text), ("leader", "2"))[: rng.randint(0, 2)], thoughts)
    others: list[Seat | None] = [seat for seat in range(1, table.players + 1) if seat != hand.seat]
    if table.profile.assassination == "after_any_quest":
        others += [None] * (2 * len(others))
    return Assassinate(rng.choice(others), thoughts)


def random_team(rng: Random, table: Table) -> tuple[Seat, ...]:
    """A legal team in any order, sometimes as a list."""
    kind = list if rng.random() < 0.1 else tuple
    return kind(rng.sample(range(1, table.players + 1), table.profile.team_sizes[table.round - 1]))  # type: ignore[return-value]


def chooser(rng: Random, *, think: bool = True) -> Choose:
    """Answers every request at random."""
    return lambda now, request: random_action(rng, now.table, now.hand(request.seat), request, think=think)


def new_game(profile: Profile, seed: int, **create: Any) -> State:
    """A game with its first events only."""
    return state.fold(rules.create(profile, seed, **create))


def step(game: State, choose: Choose) -> tuple[Event, ...]:
    """Plays one step, in which all seats that are asked answer together."""
    events = rules.decide(game, [(request.seat, choose(game, request)) for request in rules.pending(game)])
    state.apply(game, events)
    return events


def play(game: State, choose: Choose) -> State:
    """The same game, played to its end."""
    while rules.pending(game):
        step(game, choose)
    return game


def random_game(number: int, *, think: bool = True, **fixed: Any) -> State:
    """The finished random game of that number."""
    rng = Random(number)
    profile = random_profile(rng, **fixed)
    return play(new_game(profile, number), chooser(rng, think=think))


def served(game: State, viewer: Viewer) -> bytes:
    """What a viewer gets over the wire, positions included."""
    return numbered(view.stream(game, viewer))


def numbered(events: Sequence[Event]) -> bytes:
    """A stream with its positions, counted from 1 in the viewer's own stream."""
    return b"\n".join(b"%d %s" % (seq, canonical([event])) for seq, event in enumerate(events, 1))


def snapshot(value: Any) -> Any:
    """A deep copy of a state as plain values, to notice any change of the state."""
    if isinstance(value, State | Table | Hand):
        # What a private slot caches is in a property: a cache that is cold is no difference.
        names = [name for name in type(value).__slots__ if not name.startswith("_")]
        names += [name for name, one in vars(type(value)).items() if isinstance(one, property)]
        return {name: snapshot(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [snapshot(one) for one in value]
    return _picture(value)


_PICTURES: dict[int, tuple[Any, str]] = {}


def _picture(value: Any) -> str:
    if type(value).__hash__ is None:
        return repr(value)
    # Values do not change, and the same ones come again at every step: by identity, since 1 equals True.
    known = _PICTURES.get(id(value))
    if known is None or known[0] is not value:
        if len(_PICTURES) > 50_000:
            _PICTURES.clear()
        known = _PICTURES[id(value)] = (value, repr(value))
    return known[1]
