"""Events: their wire form, who sees them, and which values are refused."""

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from random import Random
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events
from engine.errors import CorruptLog
from engine.events import (
    EVENT_TYPES,
    CardPlayed,
    Event,
    GameCreated,
    GameEnded,
    IntentionsSelected,
    RoundSummarised,
    VoteCast,
    VotesRevealed,
    audience,
    payload,
    read_event,
    type_name,
    visible,
)
from engine.profile import OFFICIAL, Profile
from engine.state import fold
from engine.terms import FULL, PUBLIC, Ending, Side
from engine.thoughts import Choice
from tests.engine.games import random_game, random_profile
from tests.engine.playing import Play

# Fields that logs of earlier versions lack: no other has a default, and no other may be missing.
LATER = {("IntentionsSelected", "reason")}

# Who sees what, by the house's table of events; kept by hand.
SEEN_BY = {
    "game_created": "public",
    "roles_dealt": "full",
    "agents_seated": "full",
    "role_learned": "seat",
    "proposal_opened": "public",
    "team_proposed": "public",
    "utterance_made": "public",
    "team_confirmed": "public",
    "vote_cast": "seat",
    "votes_revealed": "public",
    "card_played": "seat",
    "quest_resolved": "public",
    "round_summarised": "seat",
    "assassination_opened": "public",
    "assassination_declined": "public",
    "assassination_made": "public",
    "evil_conferred": "full",
    "game_ended": "public",
    "game_cancelled": "public",
    "beliefs_formed": "seat",
    "intentions_selected": "seat",
    "speech_drafted": "seat",
    "readings_imagined": "seat",
    "choice_explained": "seat",
    "action_refused": "seat",
    "action_defaulted": "seat",
    "selection_prepared": "seat",
    "reply_unusable": "full",
}

KINDS = list(EVENT_TYPES.values())


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type, as far as the wire form goes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Profile:
        return st.integers(0, 10_000).map(lambda number: random_profile(Random(number)))
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if hint == tuple[tuple[str, str], ...]:  # a mapping on the wire: questions are unique
        return st.dictionaries(st.text(), st.text(), max_size=4).map(lambda pairs: tuple(pairs.items()))
    if hint == Mapping[str, Any]:
        plainly = st.none() | st.booleans() | st.text() | st.integers(0, 9) | st.lists(st.text(), max_size=2)
        return st.dictionaries(st.text(), plainly, max_size=3)
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=10).map(tuple)
    if is_dataclass(hint):
        return built(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    plain = {bool: st.booleans(), int: st.integers(0, 2**128 - 1), str: st.text(), types.NoneType: st.none()}
    return plain[hint]


def built(kind: Any) -> st.SearchStrategy[Any]:
    """Any instance of a dataclass, from the types of its fields."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: values(hints[field.name]) for field in fields(kind) if field.init})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=60, derandomize=True)
@given(data=st.data())
def test_every_event_reads_back_from_its_wire_form(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(built(kind))
    wire = json.loads(json.dumps({"type": type_name(event), "payload": payload(event)}))
    again = read_event(wire["type"], wire["payload"])
    assert again == event
    assert repr(again) == repr(event)  # 1 equals True, its repr does not
    assert list(wire["payload"]) == [field.name for field in fields(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, derandomize=True)
@given(data=st.data())
def test_a_payload_with_a_key_too_many_or_too_few_is_corrupt(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(built(kind))
    name, good = type_name(event), payload(event)
    with pytest.raises(CorruptLog):
        read_event(name, {**good, "surprise": 1})
    for key in good:
        if (kind.__name__, key) not in LATER:
            with pytest.raises(CorruptLog):
                read_event(name, {k: v for k, v in good.items() if k != key})
        with pytest.raises(CorruptLog):
            read_event(name, {f"{k}_" if k == key else k: v for k, v in good.items()})


def test_a_selection_of_an_earlier_version_reads_as_one_without_a_reason_of_its_own() -> None:
    chosen = {"intentions": [{"id": "defend_self", "reason": "They doubt me."}], "changed": True}
    old = read_event("intentions_selected", {"seat": 1, "stage": "final", **chosen})
    new = read_event("intentions_selected", {"seat": 1, "stage": "final", **chosen, "reason": ""})
    assert old == new == IntentionsSelected(1, "final", (Choice("defend_self", "They doubt me."),), True, "")


@pytest.mark.parametrize(
    ("name", "good", "field"),
    [
        ("game_created", payload(Play().state.log[0]), "names"),
        ("votes_revealed", {"votes": {"1": True}, "approved": True, "forced": False}, "votes"),
        ("roles_dealt", {"roles": {"1": "merlin"}, "seed": None, "shooter": None}, "roles"),
    ],
)
def test_what_stands_by_seat_is_never_missing_or_of_another_kind(
    name: str, good: dict[str, Any], field: str
) -> None:
    read_event(name, good)
    for damage in (None, [], 7, "text", {"1": 7}, {"1": []}, {"2": next(iter(good[field].values()))}):
        with pytest.raises(CorruptLog):
            read_event(name, {**good, field: damage})
    with pytest.raises(CorruptLog):
        read_event("game_created", {**payload(Play().state.log[0]), "names": {"1": None}})


def test_an_invalid_event_is_corrupt() -> None:
    for name in ("", "VoteCast", "vote", "votes_revealed ", "event"):
        with pytest.raises(CorruptLog):
            read_event(name, {})
    created = payload(Play().state.log[0])
    ended = {"winner": "loyal", "ending": "merlin_survived", "roles": None, "seed": None}
    read_event("game_created", created)
    read_event("game_ended", ended)
    belief = {"about": 2, "role": None, "intentions": [], "confidence": 1, "snippets": [], "reasoning": ""}
    read_event("beliefs_formed", {"seat": 1, "beliefs": [belief]})
    wrong: list[tuple[str, Any]] = [
        ("vote_cast", None),
        ("vote_cast", [1, True]),
        ("game_created", {**created, "profile": {}}),
        ("game_created", {**created, "profile": None}),
        ("game_created", {**created, "profile": {**created["profile"], "players": 4}}),
        ("game_created", {**created, "profile": {**created["profile"], "roles": ["king"] * 5}}),
        ("game_created", {**created, "profile": {**created["profile"], "roles": None}}),
        ("game_created", {**created, "names": ["a", "b"]}),
        ("game_created", {**created, "names": {"1": "a", "3": "b"}}),
        ("game_ended", {**ended, "winner": "nobody"}),
        ("game_ended", {**ended, "ending": "boredom"}),
        ("game_ended", {**ended, "roles": {"1": "king"}}),
        ("game_ended", {**ended, "seed": "12x"}),
        ("team_proposed", {"leader": 1, "team": 3}),
        ("beliefs_formed", {"seat": 1, "beliefs": [{"about": 2}]}),
        ("beliefs_formed", {"seat": 1, "beliefs": [5]}),
        ("intentions_selected", {"seat": 1, "stage": "first", "intentions": [{}], "changed": False}),
        ("readings_imagined", {"seat": 1, "readings": None, "reveals_role": False}),
        ("round_summarised", {"seat": 1, "round": 1, "attempt": 1, "answers": 7}),
        ("choice_explained", {"seat": 1, "about": "war", "text": ""}),
        ("selection_prepared", {"seat": 1, "turn": "song"}),
        ("speech_drafted", {"seat": 1, "step": "song", "thinking": "", "text": ""}),
        ("action_defaulted", {"seat": 1, "request": "1.1.vote.1", "reason": 3}),
        ("beliefs_formed", {"seat": 1, "beliefs": [{**belief, "snippets": "No."}]}),
        ("beliefs_formed", {"seat": 1, "beliefs": [{**belief, "intentions": "No."}]}),
        ("beliefs_formed", {"seat": 1, "beliefs": [{**belief, "about": "2"}]}),
        ("team_proposed", {"leader": 1, "team": {"1": 2}}),
    ]
    for name, values_ in wrong:
        with pytest.raises(CorruptLog):
            read_event(name, values_)


def test_every_event_says_who_sees_it_as_the_house_does() -> None:
    assert {name: kind.seen_by for name, kind in EVENT_TYPES.items()} == SEEN_BY


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_visibility_is_written_where_the_event_is_and_nothing_has_a_default(kind: type[Event]) -> None:
    assert "seen_by" in vars(kind)
    assert "seen_by" in kind.__annotations__
    assert "seen_by" not in {field.name for field in fields(kind)}
    for field in fields(kind):
        later = (kind.__name__, field.name) in LATER
        assert field.default_factory is MISSING
        assert (field.default is MISSING) is not later
    if kind.seen_by == "seat":
        assert "seat" in {field.name for field in fields(kind)}


def test_events_do_not_change() -> None:
    vote = VoteCast(1, True)
    with pytest.raises(AttributeError):
        vote.approve = False  # type: ignore[misc]
    assert not hasattr(vote, "__dict__")


def test_all_events_of_the_union_have_a_name() -> None:
    assert set(get_args(Event)) == set(KINDS) == set(every_class())


def every_class() -> Iterator[type[Any]]:
    """The dataclasses that the module itself defines."""
    for value in vars(events).values():
        if isinstance(value, type) and is_dataclass(value) and value.__module__ == events.__name__:
            yield value


def test_an_event_of_a_seat_is_seen_by_it_and_by_full_alone() -> None:
    card = CardPlayed(3, False)
    assert [viewer for viewer in range(-1, 11) if visible(card, viewer)] == [FULL, 3]
    assert audience(card) == 3
    votes = VotesRevealed((True,) * 5, True, False)
    assert all(visible(votes, viewer) for viewer in range(-1, 11))
    assert audience(votes) == PUBLIC
    dealt = Play().state.log[1]
    assert [viewer for viewer in range(-1, 11) if visible(dealt, viewer)] == [FULL]
    assert audience(dealt) == FULL


def test_audience_and_visibility_agree() -> None:
    for number in range(10):
        for event in random_game(number).log:
            whom = audience(event)
            for viewer in range(-1, 11):
                assert visible(event, viewer) == (whom == PUBLIC or viewer in (FULL, whom))


def test_seats_are_keys_and_a_seed_is_a_string_on_the_wire() -> None:
    assert payload(GameEnded(Side.LOYAL, Ending.MERLIN_SURVIVED, OFFICIAL.roles, 2**100)) == {
        "winner": "loyal",
        "ending": "merlin_survived",
        "roles": {"1": "merlin", "2": "percival", "3": "servant", "4": "assassin", "5": "morgana"},
        "seed": "1267650600228229401496703205376",
    }
    assert payload(VotesRevealed((True, None, False), False, True))["votes"] == {
        "1": True,
        "2": None,
        "3": False,
    }


def test_ten_seats_read_back_in_order_whatever_the_order_of_the_keys() -> None:
    votes = tuple(seat % 3 == 0 for seat in range(1, 11))
    wire = payload(VotesRevealed(votes, False, False))
    shuffled = dict(sorted(wire["votes"].items()))  # "1", "10", "2", …
    assert list(shuffled)[1] == "10"
    assert read_event("votes_revealed", {**wire, "votes": shuffled}) == VotesRevealed(votes, False, False)


def test_a_log_starts_with_game_created_and_holds_one() -> None:
    log = Play().state.log
    with pytest.raises(CorruptLog, match="starts with game_created"):
        fold(log[1:])
    with pytest.raises(CorruptLog, match="one game_created"):
        fold([*log, log[0]])


@pytest.mark.parametrize("seat", [0, 6, -1, 99])
@pytest.mark.parametrize("kind", [VoteCast, CardPlayed, RoundSummarised])
def test_an_event_of_an_unknown_seat_is_corrupt(kind: type[Any], seat: int) -> None:
    event = RoundSummarised(seat, 1, 1, ()) if kind is RoundSummarised else kind(seat, True)
    with pytest.raises(CorruptLog, match=f"of seat {seat}, but the table has 5 seats"):
        fold([*Play().state.log, event])


def test_an_empty_log_folds_to_an_empty_state() -> None:
    assert fold([]).log == []
    assert type(Play().state.log[0]) is GameCreated
