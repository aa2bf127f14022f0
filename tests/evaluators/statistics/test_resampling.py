"""Permutation tests over games: values by hand, what theory predicts, and determinism."""

from itertools import product
from math import isnan
from random import Random

import pytest

from evaluators.statistics import resampling
from evaluators.statistics.intervals import SIGNED, ratio
from evaluators.statistics.resampling import by_game, compared, paired


def test_items_are_summed_within_their_games() -> None:
    counts = {"a": (1, 2), "b": (0, 3), "c": (5, 5)}
    assert by_game(counts, {"a": "g1", "b": "g1", "c": "g2"}) == {"g1": (1, 5), "g2": (5, 5)}
    with pytest.raises(KeyError):
        by_game(counts, {"a": "g1"})


def test_an_exact_p_value_counted_by_hand() -> None:
    # Three games, one item each, the first rater right everywhere, the second nowhere: the difference is
    # 1, and of 8 ways to exchange them only all and none give as much: 2/8.
    game_of = {"x": "g1", "y": "g2", "z": "g3"}
    found = paired(dict.fromkeys(game_of, (1, 1)), dict.fromkeys(game_of, (0, 1)), game_of)
    assert (found.first, found.second, found.difference.value) == (1.0, 0.0, 1.0)
    assert (found.p_value, found.exact, found.items, found.left_out) == (0.25, True, 3, 0)


def test_a_game_is_exchanged_whole() -> None:
    # The same three differences within one game are one trial: 2 of 2 ways are as extreme.
    game_of = dict.fromkeys("xyz", "g1")
    found = paired(dict.fromkeys("xyz", (1, 1)), dict.fromkeys("xyz", (0, 1)), game_of)
    assert found.p_value == 1.0
    assert found.difference.interval is None


def test_the_exact_p_value_equals_enumeration_by_the_definition() -> None:
    rng = Random(7)
    items = {f"i{item}": f"g{item % 6}" for item in range(30)}
    first = {item: (rng.randint(0, 3), 3) for item in items}
    second = {item: (rng.randint(0, 4), 4) for item in items}
    found = paired(first, second, items)
    a, b = by_game(first, items), by_game(second, items)

    def difference(swapped: tuple[bool, ...]) -> float:
        one = [b[g] if swap else a[g] for g, swap in zip(sorted(a), swapped, strict=True)]
        two = [a[g] if swap else b[g] for g, swap in zip(sorted(a), swapped, strict=True)]
        return ratio([sum(c) for c in zip(*one, strict=True)]) - ratio(
            [sum(c) for c in zip(*two, strict=True)]
        )

    seen = abs(difference((False,) * 6))
    ways = [abs(difference(way)) >= seen - 1e-12 for way in product((False, True), repeat=6)]
    assert found.p_value == sum(ways) / 64


def test_up_to_12_games_every_exchange_is_tried() -> None:
    for games, exact in ((12, True), (13, False)):
        items = {f"i{item}": f"g{item}" for item in range(games)}
        found = paired(dict.fromkeys(items, (1, 1)), dict.fromkeys(items, (0, 1)), items)
        assert found.exact is exact
        # All or none of the games exchanged give as much.
        assert found.p_value == (2 / 2**12 if exact else pytest.approx(0, abs=0.005))


def test_an_exchange_that_was_drawn_at_random_counts_the_observed_one_too() -> None:
    # Phipson and Smyth: with games that all differ so, none of 100 random exchanges is as large, but the
    # observed one is.
    items = {f"i{item}": f"g{item}" for item in range(40)}
    counts = [dict.fromkeys(items, (hit, 1)) for hit in (1, 0)]
    assert paired(counts[0], counts[1], items, resamples=100).p_value == 1 / 101


def test_equal_raters_do_not_differ() -> None:
    counts = {f"i{item}": (item % 2, 1) for item in range(40)}
    game_of = {item: f"g{place % 20}" for place, item in enumerate(counts)}
    found = paired(counts, counts, game_of)
    assert found.difference.value == 0
    assert found.p_value == 1.0


def test_raters_change_places_with_the_sign() -> None:
    first = {f"i{item}": (item % 3 == 0, 1) for item in range(90)}
    second = {f"i{item}": (item % 2 == 0, 1) for item in range(90)}
    game_of = {item: f"g{place % 30}" for place, item in enumerate(first)}
    here, there = paired(first, second, game_of), paired(second, first, game_of)
    assert here.difference.value == -there.difference.value
    assert here.p_value == pytest.approx(there.p_value, abs=0.03)
    assert here.p_value > 0.01
    assert not here.exact


def test_a_clear_difference_has_a_small_p_value_and_an_interval_beside_zero() -> None:
    rng = Random(2)
    first = {f"i{item}": (int(rng.random() < 0.7), 1) for item in range(400)}
    second = {f"i{item}": (int(rng.random() < 0.4), 1) for item in range(400)}
    game_of = {item: f"g{place % 40}" for place, item in enumerate(first)}
    found = paired(first, second, game_of)
    assert found.p_value < 0.005
    assert found.difference.interval is not None
    assert found.difference.interval.low > 0.1


def test_only_items_that_both_answered_are_compared() -> None:
    game_of = {"x": "g1", "y": "g2", "z": "g3"}
    found = paired({"x": (1, 1), "y": (1, 1)}, {"y": (0, 1), "z": (0, 1)}, game_of)
    assert (found.items, found.left_out, found.first, found.second) == (1, 2, 1.0, 0.0)
    nothing = paired({"x": (1, 1)}, {"z": (0, 1)}, game_of)
    assert nothing.items == 0
    assert isnan(nothing.p_value)
    assert isnan(nothing.first)


def test_many_games_are_dealt_into_blocks_of_equal_size() -> None:
    games = {f"g{game}": (1, 1) for game in range(2500)}
    blocks = resampling._clusters(games)
    assert len(blocks) == resampling.BLOCKS
    assert {tuple(block) for block in blocks} == {(2, 2), (3, 3)}


def test_a_permutation_test_takes_100_resamples_or_more() -> None:
    with pytest.raises(ValueError, match="100 resamples or more, got 99"):
        compared({}, items=0, left_out=0, resamples=99)


def test_counts_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equally long in every game, got lengths \[2, 4\]"):
        compared({"a": (1, 2), "b": (1, 2, 3, 4)}, items=2, left_out=0)


def test_the_difference_of_two_shares_stays_between_minus_one_and_one() -> None:
    # 19 of 20 games as different as can be, and one where both are alike: it alone carries the variance.
    games = {f"g{game}": (1, 1, int(game == 0), 1) for game in range(20)}
    low, high = compared(games, items=20, left_out=0, within=SIGNED).difference.interval or (0, 0)
    assert 0.2 < low < 0.95 < high <= 1
