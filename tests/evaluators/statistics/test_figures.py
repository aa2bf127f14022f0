"""Figures of counts by game: each kind by hand, and what is counted in parts."""

from collections.abc import Mapping

import pytest

from evaluators.statistics.figures import BLOCKS, Figure, FigureKey, FigureTally, Kind
from evaluators.statistics.intervals import (
    RATE,
    SCORE,
    SHARE,
    Counts,
    Statistic,
    estimate,
    pooled_f1,
    pooled_recall,
    ratio,
    share,
    wilson,
)

KEY = FigureKey("table", "", "all", "all", "column")


def tallied(games: Mapping[str, Counts], *, items: int = 0) -> FigureTally:
    tally = FigureTally()
    for game, counts in games.items():
        tally.begin(game)
        tally.count(KEY, counts, items=items)
    return tally


def figure(games: Mapping[str, Counts], kind: Kind) -> Figure:
    return tallied(games).figure(KEY, kind, "nothing counted")


# (matched, predicted, gold)
MATCHES = {"a": (1, 2, 4), "b": (2, 3, 2), "c": (0, 1, 3)}


@pytest.mark.parametrize(
    ("kind", "value", "num", "den"),
    [
        ("f1", 6 / 15, 6, 15),  # twice 3 matched, of 6 predicted and 9 gold
        ("precision", 3 / 6, 3, 6),
        ("recall", 3 / 9, 3, 9),
        ("mean", 3 / 6, 3, 6),
    ],
)
def test_a_figure_tells_what_it_was_divided_from(kind: Kind, value: float, num: int, den: int) -> None:
    found = figure(MATCHES, kind)
    assert (found.value, found.num, found.den, found.games) == (pytest.approx(value), num, den, 3)


def test_the_interval_is_that_of_the_figure_s_own_statistic() -> None:
    rules: dict[Kind, tuple[Statistic, tuple[float, float] | None]] = {
        "f1": (pooled_f1, SHARE),
        "recall": (pooled_recall, SHARE),
        "precision": (ratio, SHARE),
        "fraction": (ratio, SHARE),
        "score": (ratio, SCORE),
        "rate": (ratio, RATE),
        "mean": (ratio, None),
    }
    scores = {"a": (7, 2), "b": (13, 4), "c": (9, 2), "d": (5, 1)}
    for kind, (statistic, within) in rules.items():
        games: Mapping[str, Counts] = scores if kind in ("score", "rate", "mean") else MATCHES
        expected = estimate(games, statistic, within=within)
        assert expected.interval is not None
        found = figure(games, kind)
        assert (found.low, found.high, found.method) == (*expected.interval, expected.method)


def in_trials(games: Mapping[str, Counts]) -> FigureTally:
    """Each game twice, as one trial."""
    tally = FigureTally()
    for seating in "ab":
        for game, counts in games.items():
            tally.begin(f"{game} {seating}", f"deal {game}")
            tally.count(KEY, counts)
    return tally


@pytest.mark.parametrize(
    ("kind", "games"),
    [
        ("f1", MATCHES),
        ("mean", MATCHES),
        ("share", {"a": (3, 4), "b": (0, 5), "c": (4, 4)}),
        ("share", {"a": (4, 4), "b": (5, 5)}),
    ],
)
def test_games_of_one_trial_that_are_alike_are_no_evidence_twice(
    kind: Kind, games: Mapping[str, Counts]
) -> None:
    once, twice = figure(games, kind), in_trials(games).figure(KEY, kind, "")
    assert (twice.value, twice.low, twice.high) == pytest.approx((once.value, once.low, once.high))
    assert twice.games == 2 * len(games)


def test_who_won_in_games_of_one_trial_is_no_single_trial() -> None:
    won = {str(n): (n % 3 > 0, 1) for n in range(15)}
    once, twice = figure(won, "share"), in_trials(won).figure(KEY, "share", "")
    assert None not in (once.low, once.high, twice.low, twice.high)
    assert twice.low <= once.low < once.high <= twice.high  # type: ignore[operator]
    assert in_trials({"a": (1, 2)}).figure(KEY, "mean", "").note == "games of one deal: no interval"


@pytest.mark.parametrize("games", [15, 2 * BLOCKS])
def test_games_of_one_trial_may_be_counted_in_different_parts(games: int) -> None:
    whole, parts = FigureTally(), [FigureTally() for _ in range(8)]
    for seating in "ab":
        for n in range(games):
            part = parts[(n // BLOCKS) + 4 * (seating == "b")]
            for tally in (whole, part):
                tally.begin(f"{n} {seating}", f"deal {n}")
                tally.count(KEY, (n % 4, 3 + n % 2))
    merged = FigureTally()
    for part in parts:
        merged.merge(part)
    assert (merged.games, merged.trials) == (2 * games, games)
    assert merged.figure(KEY, "mean", "") == whole.figure(KEY, "mean", "")


def test_a_share_tells_its_design_effect_and_intraclass_correlation() -> None:
    counts = {"a": (3, 4), "b": (0, 5), "c": (4, 4), "d": (1, 3)}
    found = figure(counts, "share")
    assert (found.design_effect, found.icc) == pytest.approx(share(counts).clustering)
    assert figure({"a": (1, 1), "b": (0, 1)}, "share").icc is None
    assert figure(counts, "mean").design_effect is None


def test_items_of_many_games_hang_together_as_those_of_few() -> None:
    # 600 games of 4 items that are all alike: each game tells as much as one item.
    alike = {f"g{game}": (4 * (game % 3 == 0), 4) for game in range(600)}
    found = figure(alike, "share")
    assert found.design_effect == pytest.approx(4, rel=0.25)
    assert found.icc == pytest.approx(1, abs=0.35)
    parts = tallied(dict(list(alike.items())[:200])), tallied(dict(list(alike.items())[200:]))
    parts[0].merge(parts[1])
    assert parts[0].figure(KEY, "share", "") == found


def test_a_mean_of_shares_counts_each_pair_alike_and_leaves_out_what_did_not_occur() -> None:
    # 1 of 2 and 3 of 3; the third pair never occurs: (1/2 + 1) / 2.
    found = figure({"a": (1, 1, 2, 2, 0, 0), "b": (0, 1, 1, 1, 0, 0)}, "mean_of_shares")
    assert (found.value, found.num, found.den) == (0.75, None, None)


def test_a_mean_of_shares_of_nothing_has_no_value() -> None:
    found = figure({"a": (1, 0), "b": (2, 0)}, "mean_of_shares")
    assert (found.value, found.note) == (None, "nothing counted")


def test_counts_that_grow_longer_are_filled_up_with_noughts() -> None:
    found = figure({"a": (1, 2), "b": (1, 2, 3, 3)}, "mean_of_shares")
    assert found.value == (2 / 4 + 3 / 3) / 2
    tally = FigureTally()
    tally.begin("a")
    tally.count(KEY, (1, 2))
    tally.count(KEY, (1, 2, 3, 3))
    assert tally.clusters(KEY).counts == {"a": (2, 4, 3, 3)}


def test_a_sum_has_no_interval_and_is_nought_where_nothing_was_counted() -> None:
    counted, none = figure({"a": (2,), "b": (3,)}, "sum"), figure({}, "sum")
    assert (counted.value, counted.num, counted.games, counted.low) == (5, 5, 2, None)
    assert (none.value, none.num, none.games, none.note) == (0.0, 0.0, 0, counted.note)
    assert "no interval" in counted.note


def test_where_nothing_was_counted_the_note_says_why() -> None:
    assert figure({}, "share") == Figure(None, note="nothing counted")
    assert list(FigureTally().clusters(KEY).counts) == []


def test_games_that_count_nothing_are_no_games_of_a_figure() -> None:
    tally = tallied({"a": (1, 2), "b": (0, 0)}, items=3)
    clusters = tally.clusters(KEY)
    assert (tally.games, clusters.games, clusters.items) == (2, 1, 3)
    assert KEY in tally
    assert KEY not in tallied({"a": (0, 0)})


def test_a_figure_without_an_interval_says_why() -> None:
    assert figure({"a": (1, 2)}, "mean").note == "one game: no interval over games"
    assert figure({"a": (1, 2), "b": (2, 4)}, "mean").note == "no game differs: no interval"
    differing = figure({"a": (1, 2), "b": (3, 4)}, "mean")
    assert differing.note == ""
    assert differing.low is not None


def test_a_share_has_wilson_s_interval_where_each_game_is_one_trial() -> None:
    found = figure({"a": (1, 1), "b": (0, 1), "c": (0, 1)}, "share")
    assert (found.low, found.high, found.method) == (*wilson(1, 3), "wilson")


def some(first: int, games: int) -> dict[str, Counts]:
    return {f"g{number}": (number % 3, 3) for number in range(first, first + games)}


@pytest.mark.parametrize(
    ("here", "there"),
    [(10, 10), (BLOCKS - 10, 10), (BLOCKS - 9, 10), (BLOCKS + 5, 10), (10, BLOCKS + 5), (300, 300)],
)
def test_two_tallies_of_different_games_merge_into_what_one_would_have_counted(here: int, there: int) -> None:
    one, first, second = tallied(some(0, here + there)), tallied(some(0, here)), tallied(some(here, there))
    first.merge(second)
    assert first.clusters(KEY) == one.clusters(KEY)
    assert first.games == one.games == here + there
    assert first.figure(KEY, "mean", "") == one.figure(KEY, "mean", "")
    # And counts on as that one would have.
    for tally in (first, one):
        for number in range(10):
            tally.begin(f"later{number}")
            tally.count(KEY, (1, 3))
    assert first.clusters(KEY) == one.clusters(KEY)


def test_up_to_250_games_each_game_is_its_own_cluster() -> None:
    assert set(tallied(some(0, BLOCKS)).clusters(KEY).counts) == {f"g{number}" for number in range(BLOCKS)}
    assert all(name.startswith("block ") for name in tallied(some(0, BLOCKS + 1)).clusters(KEY).counts)


def test_what_rounding_leaves_of_a_difference_is_nought() -> None:
    games = {"a": (0.1, 1), "b": (0.2, 1), "c": (-0.3, 1)}
    assert sum(counts[0] for counts in games.values()) != 0
    changed = figure(games, "mean")
    assert (changed.value, changed.num) == (0, 0)
    assert changed.low is not None
    assert changed.low < 0
    alone = figure({"a": (0.1 + 0.2 - 0.3, 1), "b": (0, 1)}, "mean")
    assert (alone.value, alone.num) == (0, 0)
