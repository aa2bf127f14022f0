"""Each known leak or loss is planted once, and its detector must find it.

Every test breaks the engine in one way and calls the very functions that the invariants' tests call.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engine import rules, state
from engine.actions import PlayCard
from engine.errors import IllegalAction
from engine.events import CardPlayed, Event, UtteranceMade, VoteCast, VotesRevealed, payload, visible
from engine.rules import asking, creating, deciding, effects
from engine.state import Hand, State, Table
from engine.terms import EVIL_ROLES, Phase, Role, Side, Viewer
from tests.engine.checks import fold_faults, position_faults, purity_faults, view_faults
from tests.engine.games import canonical, chooser, new_game, random_game, random_profile
from tests.engine.test_model import one_game
from tests.engine.twins import permuted, refusals_differ, twin_faults

SETS = range(24)


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    """Events interned before the test would hide a fault; those interned in it must not outlive it."""
    forget()
    yield
    forget()


def forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("engine.rules."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def found(kind: str) -> bool:
    """Whether any of the first twin sets of that kind gives something away."""
    return any(twin_faults(kind, number) for number in SETS)


# --- leaks, each found by the kind of twin that can see it ---


def test_the_unbroken_engine_gives_nothing_away() -> None:
    assert not any(
        twin_faults(kind, number) for kind in ("roles", "behaviour", "vote", "card") for number in range(3)
    )


def test_a_public_vote_is_found_by_the_vote_twins_and_by_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VoteCast, "seen_by", "public")
    assert found("vote")
    assert any(view_faults(random_game(number)) for number in range(3))


def test_a_public_card_is_found_by_the_card_twins_and_by_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CardPlayed, "seen_by", "public")
    assert found("card")
    assert any(view_faults(random_game(number)) for number in range(3))


def test_a_shared_sequence_number_is_found_by_the_behaviour_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_log(game: State, viewer: Viewer) -> bytes:
        seen = [(place, event) for place, event in enumerate(game.log, 1) if visible(event, viewer)]
        return b"\n".join(b"%d %s" % (place, canonical([event])) for place, event in seen)

    monkeypatch.setattr("tests.engine.twins.served", by_log)
    monkeypatch.setattr("tests.engine.checks.served", by_log)
    assert found("behaviour")
    assert any(position_faults(random_game(number)) for number in range(3))


def test_an_order_of_speaking_by_role_is_found_by_the_roles_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    create = rules.create

    def merlin_first(*args: Any, **kwargs: Any) -> tuple[Event, ...]:
        *before, opened = create(*args, **kwargs)
        roles = next(event for event in before if hasattr(event, "shooter")).roles
        leader = roles.index(Role.MERLIN) + 1 if Role.MERLIN in roles else 1
        return (*before, replace(opened, leader=leader))

    monkeypatch.setattr(rules, "create", merlin_first)
    assert found("roles")


def test_a_length_of_speech_by_role_is_found_by_the_roles_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    speak = effects.ALONE[Phase.DISCUSS]

    def longer_for_evil(game: State, seat: int, action: Any) -> tuple[Event, ...]:
        padding = " " * (game.hand(seat).side is Side.EVIL)
        return speak(game, seat, replace(action, text=action.text + padding))

    monkeypatch.setitem(effects.ALONE, Phase.DISCUSS, longer_for_evil)
    assert found("roles")


def test_a_refusal_that_names_a_role_is_found_by_the_roles_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = rules.decide

    def telling(game: State, answers: Any, **options: Any) -> tuple[Event, ...]:
        try:
            return decide(game, answers, **options)
        except IllegalAction as refusal:
            raise IllegalAction(refusal.seat, f"{refusal}; seat 1 is {game.hand(1).role}") from None

    monkeypatch.setattr(rules, "decide", telling)
    assert found("roles")


def test_legality_that_asks_for_the_truth_is_found_by_the_roles_twins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A refusal of every team with evil on it would tell the leader who is evil.
    decide = rules.decide

    def knowing(game: State, answers: Any, **options: Any) -> tuple[Event, ...]:
        for seat, action in answers:
            team = getattr(action, "team", ())
            if all(type(s) is int and 1 <= s <= game.table.players for s in team) and any(
                game.hand(s).role in EVIL_ROLES for s in team if s != seat
            ):
                raise IllegalAction(seat, "that team would fail", "/team")
        return decide(game, answers, **options)

    monkeypatch.setattr(rules, "decide", knowing)
    assert refusals_tell()


def refusals_tell() -> bool:
    """Whether some seat of a game just opened is refused otherwise where only hidden roles differ."""
    for number in range(40):
        rng = Random(number)
        game = new_game(random_profile(rng, discussion="none"), number)
        for viewer in range(1, game.table.players + 1):
            twin = permuted(rng, game.roles or (), viewer)
            if twin and refusals_differ(rng, game, new_game(game.table.profile, number, deal=twin), viewer):
                return True
    return False


def test_how_much_others_think_is_found_by_the_behaviour_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    speak = effects.ALONE[Phase.DISCUSS]

    def counting(game: State, seat: int, action: Any) -> tuple[Event, ...]:
        return speak(game, seat, replace(action, text=f"{action.text} ({len(game.log)})"))

    monkeypatch.setitem(effects.ALONE, Phase.DISCUSS, counting)
    assert found("behaviour")


# --- folds that hold a secret, or lose something ---


def test_an_apply_that_reads_roles_is_found_by_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = state.apply

    def naming(game: State, events: Iterable[Event]) -> None:
        apply(game, events)
        if game.roles is not None:
            game.table.names = tuple(str(role) for role in game.roles)

    monkeypatch.setattr(state, "apply", naming)
    assert any("table" in fault for fault in view_faults(random_game(1)))


def test_a_secret_in_another_hand_is_found_by_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = state._on_role_learned

    def by_name_only(hand: Hand, table: Table, event: Any) -> None:
        learned(hand, table, event)
        table.names = (*table.names, str(event.role))

    monkeypatch.setattr(state, "_on_role_learned", by_name_only)
    assert view_faults(random_game(1))


def test_a_ballot_turned_round_in_its_seats_stream_is_found_by_the_views(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turned = tuple((reject, approve)[::-1] for reject, approve in state._BALLOTS)
    monkeypatch.setattr(state, "_BALLOTS", turned)
    assert any("stream" in fault for fault in view_faults(random_game(1, think=False)))


def test_a_fold_that_counts_calls_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = state.apply

    def per_call(game: State, events: Iterable[Event]) -> None:
        apply(game, events)
        game.table.turn += 1

    monkeypatch.setattr(state, "apply", per_call)
    assert fold_faults(random_game(1, discussion="none", reconsideration=False))


def test_an_event_that_loses_a_field_on_the_wire_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_text(event: Event) -> dict[str, Any]:
        values = payload(event)
        return {**values, "text": ""} if type(event) is UtteranceMade else values

    monkeypatch.setattr("tests.engine.checks.payload", without_text)
    assert any(fold_faults(random_game(number, discussion="after_proposal")) for number in range(3))


def test_a_decide_that_changes_the_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = deciding.vote_all

    def counting(game: State, answers: Any) -> tuple[Event, ...]:
        events = votes(game, answers)
        game.table.turn += 1
        return events

    monkeypatch.setattr(deciding, "vote_all", counting)
    assert impure()


def test_an_order_of_arrival_in_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "sorted", lambda answers, key=None: list(answers), raising=False)
    monkeypatch.setattr(deciding, "_refuse_doubles", lambda answers: None)
    assert impure()


def impure() -> bool:
    """Whether deciding shows in the state, or the answers' order in the log, in some random game."""
    for number in range(12):
        rng = Random(number)
        if purity_faults(new_game(random_profile(rng), number), chooser(rng)):
            return True
    return False


# --- rules gone wrong, found by the referee ---


def referee_objects() -> bool:
    """Whether some random game goes on otherwise than the referee says."""
    for number in range(120):
        try:
            one_game(number)
        except AssertionError:
            return True
    return False


def test_the_referee_finds_a_tie_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    after = effects.after_vote

    def ties_pass(game: State, votes: Sequence[bool], approved: bool) -> tuple[Event, ...]:
        return after(game, tuple(votes), approved or votes.count(True) * 2 >= len(votes))

    monkeypatch.setattr(effects, "after_vote", ties_pass)
    assert referee_objects()


def test_the_referee_finds_a_leader_who_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "next_leader", lambda table: table.leader)
    assert referee_objects()


def test_the_referee_finds_a_fail_card_of_a_loyal_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    check = deciding.check

    def lenient(table: Table, hand: Hand, action: Any, **options: Any) -> None:
        if type(action) is PlayCard and action.success is False and hand.side is Side.LOYAL:
            action = replace(action, success=True)
        check(table, hand, action, **options)

    monkeypatch.setattr(deciding, "check", lenient)
    assert referee_objects()


def test_the_referee_finds_a_fail_that_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = effects.resolve

    def one_free(game: State, team: Any, fails: int | None, succeeded: bool) -> tuple[Event, ...]:
        return resolve(game, team, fails, succeeded or fails == 1)

    monkeypatch.setattr(effects, "resolve", one_free)
    assert referee_objects()


def test_the_referee_finds_a_summary_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = state._on_votes_revealed

    def always(table: Table, event: VotesRevealed) -> None:
        opened(table, event)
        if table.profile.summaries and not event.approved:
            state._open_summary(table)

    monkeypatch.setattr(state, "_on_votes_revealed", always)
    assert referee_objects()


def test_the_referee_finds_a_menu_of_the_wrong_role(monkeypatch: pytest.MonkeyPatch) -> None:
    menu = asking.menu
    monkeypatch.setattr(asking, "menu", lambda role, **turn: menu(Role.MERLIN, **turn))
    assert referee_objects()


def test_the_referee_finds_a_merlin_who_sees_mordred(monkeypatch: pytest.MonkeyPatch) -> None:
    sees = creating.sees

    def sees_mordred(roles: Sequence[Role], seat: int) -> tuple[int, ...]:
        if roles[seat - 1] is not Role.MERLIN:
            return sees(roles, seat)
        return tuple(other for other, role in enumerate(roles, 1) if role in EVIL_ROLES)

    monkeypatch.setattr(creating, "sees", sees_mordred)
    assert referee_objects()
