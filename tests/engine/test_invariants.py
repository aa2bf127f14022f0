"""Invariants 1, 2, 3, 4 and 7, over random games with thoughts. For 5 and 6, see test_twins.py."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from engine import rules, state, view
from engine.actions import ProposeTeam, Remark
from engine.errors import IllegalAction
from engine.terms import PUBLIC
from tests.engine.checks import fold_faults, position_faults, purity_faults, seed_faults, view_faults
from tests.engine.games import (
    canonical,
    chooser,
    new_game,
    random_game,
    random_profile,
    served,
    snapshot,
    step,
)
from tests.tiers import few_quickly

ROOT = Path(__file__).parents[2]
GAMES = int(os.environ.get("REPLAY_GAMES", "200"))
"""Games of the replay figure; the night sets it to 20,000."""

SHARES = 4


def numbers(share: int) -> range:
    return range(share, GAMES, SHARES)


# --- 1: state is the fold of the log ---


@pytest.mark.parametrize("share", few_quickly(range(SHARES), 2))
def test_a_state_is_the_fold_of_its_log_in_one_go_by_events_and_from_the_wire_form(share: int) -> None:
    for number in numbers(share):
        assert fold_faults(random_game(number), every=1 if number < 8 else 7) == [], f"game {number}"


def test_every_prefix_that_was_stored_folds_to_the_state_as_it_was_then() -> None:
    for number in range(20):
        rng = Random(number)
        game = new_game(random_profile(rng), number)
        then = [(len(game.log), snapshot(game))]
        choose = chooser(rng)
        while rules.pending(game):
            step(game, choose)
            then.append((len(game.log), snapshot(game)))
        for length, picture in then:
            assert snapshot(state.fold(game.log[:length])) == picture, f"game {number}, first {length} events"


def test_a_game_goes_on_from_any_stored_prefix_to_the_same_end() -> None:
    for number in range(20):
        rng = Random(number)
        game = new_game(random_profile(rng), number)
        steps = []
        while requests := rules.pending(game):
            answers = [(request.seat, chooser(rng)(game, request)) for request in requests]
            steps.append((len(game.log), answers))
            state.apply(game, rules.decide(game, answers))
        start = rng.randrange(len(steps))
        again = state.fold(game.log[: steps[start][0]])
        for _, answers in steps[start:]:
            state.apply(again, rules.decide(again, answers))
        assert canonical(again.log) == canonical(game.log), f"game {number} from step {start}"


# --- 2: one step, one append, and deciding changes nothing ---


@pytest.mark.parametrize("share", few_quickly(range(SHARES), 2))
def test_deciding_changes_nothing_and_one_by_one_equals_all_at_once(share: int) -> None:
    for number in range(share, 80, SHARES):
        rng = Random(number)
        game = new_game(random_profile(rng), number)
        assert purity_faults(game, chooser(rng)) == [], f"game {number}"


def test_a_refusal_changes_nothing() -> None:
    for number in range(20):
        game = random_game(number)
        middle = state.fold(game.log[: len(game.log) // 2])
        before = snapshot(middle)
        for seat in range(1, middle.table.players + 1):
            with pytest.raises(IllegalAction):
                rules.decide(middle, [(seat, Remark("psst"))])
        assert snapshot(middle) == before


# --- 3: equal seed and answers, equal log ---

_PRINT_HASH = """
import hashlib, sys
from tests.engine.games import canonical, random_game
for number in range(12):
    sys.stdout.write(hashlib.sha256(canonical(random_game(number).log)).hexdigest() + "\\n")
"""


def test_equal_seeds_give_equal_logs_in_one_process() -> None:
    for number in range(30):
        assert seed_faults(number) == []


@pytest.mark.parametrize("hash_seed", ["0", "1", "424242", "random"])
def test_equal_seeds_give_equal_logs_in_other_processes_whatever_their_hash_seed(hash_seed: str) -> None:
    here = [hashlib.sha256(canonical(random_game(number).log)).hexdigest() for number in range(12)]
    there = subprocess.run(
        [sys.executable, "-c", _PRINT_HASH],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == here


def test_a_game_leaves_no_trace_in_the_next_one() -> None:
    # Events are interned across games, and 1 equals True: what one seat sends wrongly must never
    # come out of another game's log.
    profile = random_profile(Random(3), players=5, discussion="none", reconsideration=False)
    fresh = canonical(random_game(5, players=5).log)
    game = new_game(profile, 3)
    leader = game.table.leader
    for team in ((True, 2), (1.0, 2), (1, 2.0), (True, 2, 3), (1.0, 2, 3)):
        with pytest.raises(IllegalAction):
            rules.decide(game, [(leader, ProposeTeam(team))])  # type: ignore[arg-type]
    with pytest.raises(IllegalAction):
        rules.decide(game, [(float(leader), ProposeTeam((1, 2)))])  # type: ignore[list-item]
    assert canonical(random_game(5, players=5).log) == fresh


# --- 4: what a seat folds from what it sees equals the full state ---


@pytest.mark.parametrize("share", few_quickly(range(SHARES), 2))
def test_every_viewer_folds_the_full_table_and_every_seat_its_hand(share: int) -> None:
    for number in numbers(share):
        game = random_game(number)
        rng = Random(number)
        for length in {len(game.log), rng.randint(1, len(game.log)), rng.randint(1, len(game.log))}:
            assert view_faults(state.fold(game.log[:length])) == [], f"game {number}, first {length} events"


def test_an_observation_holds_the_seats_own_stream_and_nothing_more() -> None:
    for number in range(20):
        rng = Random(number)
        game = new_game(random_profile(rng), number)
        while requests := rules.pending(game):
            for request in requests:
                seen = view.observe(game, request)
                assert canonical(seen.events) == canonical(view.project(game.log, request.seat))
                assert canonical(seen.public) == canonical(view.project(game.log, PUBLIC))
                assert seen.hand.seat == request.seat
            step(game, chooser(rng))


# --- 7: positions are dense for each viewer ---


def test_positions_are_dense_for_each_viewer_and_do_not_count_what_is_hidden() -> None:
    for number in range(60):
        assert position_faults(random_game(number)) == [], f"game {number}"


def test_a_stream_only_grows_at_its_end() -> None:
    for number in range(10):
        rng = Random(number)
        game = new_game(random_profile(rng), number)
        before = {viewer: served(game, viewer) for viewer in range(-1, game.table.players + 1)}
        choose = chooser(rng)
        while rules.pending(game):
            step(game, choose)
            for viewer, earlier in before.items():
                now = served(game, viewer)
                assert now.startswith(earlier)
                before[viewer] = now
