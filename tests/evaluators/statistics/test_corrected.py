"""A judge's share corrected by people's: worked values, and intervals that hold."""

from collections.abc import Mapping
from math import isnan
from random import Random

import pytest

from evaluators.statistics.corrected import LEAST_GAMES, Overlap, corrected

Games = dict[str, dict[str, Overlap]]


def games_of(*rows: Mapping[str, Overlap]) -> Games:
    return {f"g{number}": dict(row) for number, row in enumerate(rows)}


def test_what_the_judge_gets_wrong_is_taken_off_its_share() -> None:
    # 100 items, of which the judge calls 80 good. People judged 10 of the 80 and find 8 of them good, and 10
    # of the 20, and find 1 good: 0.8 * 8/10 + 0.2 * 1/10 = 0.66.
    one = Overlap(20, 16, 4, 2, 1.8, 1.6)
    found = corrected(games_of(*[{"all": one}] * 8))
    assert found.raw.value == pytest.approx(0.8)
    assert found.value.value == pytest.approx(0.66)
    assert (found.items, found.games, found.strata, found.lacking) == (32, 8, 1, "")
    # Of 9 that people call good the judge calls 8 good; of 11 that they do not, 9 not.
    assert found.sensitivity.value == pytest.approx(8 / 9)
    assert found.specificity.value == pytest.approx(9 / 11)
    assert found.rogan_gladen == pytest.approx((0.8 + 9 / 11 - 1) / (8 / 9 + 9 / 11 - 1))
    # The slope of people's verdicts on the judge's: 8/10 - 1/10.
    assert found.tuning == pytest.approx(0.7)


def test_a_stratum_of_which_people_judged_little_weighs_as_much_as_it_has_items() -> None:
    # People find all of a's and none of b's good; the judge calls everything good, so its share says nothing.
    a, b = Overlap(1, 1, 1, 1, 1, 1), Overlap(9, 9, 1, 1, 0, 0)
    found = corrected(games_of(*[{"a": a, "b": b}] * 8))
    assert found.value.value == pytest.approx(0.1)
    assert (found.tuning, found.strata) == (0.0, 2)
    assert isnan(found.rogan_gladen)


def test_strata_that_people_judged_in_one_game_are_pooled() -> None:
    whole = Overlap(4, 2, 2, 1, 1, 1)
    rows: list[dict[str, Overlap]] = [{"a": whole, "b": Overlap(4, 2, 0, 0, 0, 0)} for _ in range(8)]
    rows[0]["b"] = whole
    rows[1]["c"] = whole
    found = corrected(games_of(*rows))
    assert found.strata == 2
    assert found.value.interval is not None
    del rows[1]["c"]
    assert corrected(games_of(*rows)).strata == 1


def test_without_enough_games_of_both_nothing_is_corrected() -> None:
    both, alone = Overlap(4, 2, 2, 1, 1, 1), Overlap(4, 2, 0, 0, 0, 0)
    for n in (0, LEAST_GAMES - 1):
        found = corrected(games_of(*[{"all": both}] * n, *[{"all": alone}] * 10))
        assert found.lacking == f"people judged the judge's items in {n} games, 8 are needed"
        assert found.raw.value == 0.5
        assert isnan(found.value.value)
        assert found.value.interval is None
    assert corrected(games_of(*[{"all": both}] * LEAST_GAMES)).lacking == ""
    assert isnan(corrected({}).raw.value)


def test_where_all_agree_the_interval_knows_only_the_games_of_both() -> None:
    rows = [{"all": Overlap(10, 10, 2, 2, 2, 2)}] * 8 + [{"all": Overlap(10, 10, 0, 0, 0, 0)}] * 92
    found = corrected(games_of(*rows))
    assert found.value.value == 1
    assert found.value.interval is not None
    # Wilson's of 8 of 8, not of 100 of 100.
    assert found.value.interval.low == pytest.approx(1 / (1 + 1.959964**2 / 8), abs=1e-6)


def study(rng: Random, games: int, with_people: int, *, sensitive: float, specific: float) -> Games:
    """Two strata: a with a share of 0.9, b with 0.5, three times as many items in a; people judge as many of
    b as of a. Games differ in both shares and in how good the judge is.
    """
    found: Games = {}
    for number in range(games):
        better, quality = rng.gauss(0, 0.05), rng.gauss(0, 0.05)
        found[f"g{number}"] = of_game = {}
        for name, share, size in (("a", 0.9, 18), ("b", 0.5, 6)):
            overlap = Overlap(0, 0, 0, 0, 0, 0)
            for place in range(size):
                people = rng.random() < min(share + better, 1)
                right = rng.random() < (sensitive if people else specific) + quality
                judge = people if right else not people
                both = number < with_people and place < 2
                overlap = overlap.plus(
                    Overlap(1, judge, both, both and judge, both and people, both and people and judge)
                )
            of_game[name] = overlap
    return found


TRUTH = 0.75 * 0.9 + 0.25 * 0.5


def coverage(studies: int, games: int, with_people: int, **judge: float) -> tuple[float, float, float]:
    """How often the corrected and the raw interval hold the truth, and the mean corrected value."""
    held = raw = 0
    values = 0.0
    for seed in range(studies):
        found = corrected(study(Random(seed), games, with_people, **judge))
        assert found.value.interval is not None
        assert found.raw.interval is not None
        held += found.value.interval.low <= TRUTH <= found.value.interval.high
        raw += found.raw.interval.low <= TRUTH <= found.raw.interval.high
        values += found.value.value
    return held / studies, raw / studies, values / studies


def test_the_interval_holds_where_the_raw_one_does_not() -> None:
    held, raw, value = coverage(60, 40, 15, sensitive=0.95, specific=0.5)
    assert held >= 0.88  # of 60, 0.95 less two and a half standard errors
    assert raw <= 0.3
    assert abs(value - TRUTH) < 0.02


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("sensitive", "specific", "with_people"),
    [(0.95, 0.5, 8), (0.95, 0.5, 15), (0.95, 0.5, 30), (0.85, 0.8, 15), (0.6, 0.55, 8)],
)
def test_intervals_cover_in_92_to_99_percent(sensitive: float, specific: float, with_people: int) -> None:
    held, _, value = coverage(1000, 60, with_people, sensitive=sensitive, specific=specific)
    assert 0.92 <= held <= 0.99
    assert abs(value - TRUTH) < 0.02


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, got 95"):
        corrected({}, 95)
