"""Kappa and alpha: published tables, other people's libraries, values by hand, and what is undefined."""

import json
from math import isnan, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.ground.judgements import Judgement
from evaluators.statistics.agreement import (
    BAR,
    GROUPINGS,
    Bar,
    Grouping,
    all_raters,
    alpha_of,
    fleiss_kappa,
    grouped,
    judge_agreement,
    krippendorff_alpha,
    pairwise,
    ratings_of,
)
from tests.evaluators.statistics.known import known
from tests.records import REAL

AUTHORS = REAL.parent / "authors-run" / "expected.json"

# The worked example of 14 raters, 10 subjects and 5 categories that textbooks and encyclopaedias print.
FOURTEEN_RATERS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]

# Fleiss (1971), table 1: 30 patients, 6 psychiatrists, 5 diagnoses.
PATIENTS = [
    [0, 0, 0, 6, 0],
    [0, 3, 0, 0, 3],
    [0, 1, 4, 0, 1],
    [0, 0, 0, 0, 6],
    [0, 3, 0, 3, 0],
    [2, 0, 4, 0, 0],
    [0, 0, 4, 0, 2],
    [2, 0, 3, 1, 0],
    [2, 0, 0, 4, 0],
    [0, 0, 0, 0, 6],
    [1, 0, 0, 5, 0],
    [1, 1, 0, 4, 0],
    [0, 3, 3, 0, 0],
    [1, 0, 0, 5, 0],
    [0, 2, 0, 3, 1],
    [0, 0, 5, 0, 1],
    [3, 0, 0, 1, 2],
    [5, 1, 0, 0, 0],
    [0, 2, 0, 4, 0],
    [1, 0, 2, 0, 3],
    [0, 0, 0, 0, 6],
    [0, 1, 0, 5, 0],
    [0, 2, 0, 1, 3],
    [2, 0, 0, 4, 0],
    [1, 0, 0, 4, 1],
    [0, 5, 0, 1, 0],
    [4, 0, 0, 0, 2],
    [0, 2, 0, 4, 0],
    [1, 0, 5, 0, 0],
    [0, 0, 0, 0, 6],
]

N = None
# Krippendorff (2011), section C: four observers, twelve units, values missing.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]


def test_kappa_of_the_published_tables() -> None:
    assert round(fleiss_kappa(FOURTEEN_RATERS), 3) == 0.210
    assert round(fleiss_kappa(PATIENTS), 3) == 0.430


def test_alpha_of_the_published_tables() -> None:
    assert round(krippendorff_alpha(OBSERVERS, "nominal"), 3) == 0.743
    assert round(krippendorff_alpha(OBSERVERS, "ordinal"), 3) == 0.815
    # The same paper, section A (two observers, ten binary units) and B (two observers, five letters).
    binary = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]
    assert round(krippendorff_alpha(binary, "nominal"), 3) == 0.095
    letters = [list("aabbdcccedda"), list("babbbccceddd")]
    assert round(krippendorff_alpha(letters, "nominal"), 3) == 0.692
    # The much printed table of three coders and fifteen units.
    coders = [
        [N, N, N, N, N, 3, 4, 1, 2, 1, 1, 3, 3, N, 3],
        [1, N, 2, 1, 3, 3, 4, 3, N, N, N, N, N, N, N],
        [N, N, 2, 1, 3, 4, 4, N, 2, 1, 1, 3, 3, N, 4],
    ]
    assert round(krippendorff_alpha(coders, "nominal"), 3) == 0.691
    assert round(krippendorff_alpha(coders, "ordinal"), 3) == 0.807


def test_kappa_counted_by_hand() -> None:
    # Subjects (2,0), (1,1), (0,2), (2,0): agreeing pairs 1, 0, 1, 1 of 1: observed 3/4. Shares 5/8 and
    # 3/8: by chance 34/64. Kappa = (3/4 - 34/64) / (1 - 34/64) = (14/64) / (30/64) = 7/15.
    assert fleiss_kappa([[2, 0], [1, 1], [0, 2], [2, 0]]) == 7 / 15


def test_alpha_counted_by_hand() -> None:
    # Units (1,1), (1,2), (2,2), (1,3): coincidences off the diagonal: 1-2 twice, 1-3 twice; of 8 values
    # n1 = 4, n2 = 3, n3 = 1. Nominal: observed 4/8, expected (64 - 16 - 9 - 1)/(8 * 7) = 38/56.
    table = [[1, 1, 2, 1], [1, 2, 2, 3]]
    assert krippendorff_alpha(table, "nominal") == pytest.approx(1 - (4 / 8) / (38 / 56))
    # Ordinal: places of 1, 2, 3 are 2, 5.5, 7.5; squared distances 12.25 (1-2), 30.25 (1-3), 4 (2-3).
    # Observed (2 * 12.25 + 2 * 30.25)/8 = 85/8; expected 2(12*12.25 + 4*30.25 + 3*4)/56 = 560/56 = 10.
    assert krippendorff_alpha(table, "ordinal") == pytest.approx(1 - (85 / 8) / 10)


@pytest.mark.parametrize("one", known()["fleiss_kappa"])
def test_kappa_equals_statsmodels(one: dict[str, Any]) -> None:
    assert fleiss_kappa(one["counts"]) == pytest.approx(one["value"], abs=1e-12)


@pytest.mark.parametrize("one", known()["krippendorff_alpha"])
@pytest.mark.parametrize("level", ["nominal", "ordinal"])
def test_alpha_equals_the_krippendorff_package(one: dict[str, Any], level: Any) -> None:
    assert krippendorff_alpha(one["ratings"], level) == pytest.approx(one[level], abs=1e-12)


def test_what_chance_cannot_explain_is_undefined() -> None:
    # One category only, and no subject: 0/0.
    assert isnan(fleiss_kappa([[3, 0], [3, 0]]))
    assert isnan(fleiss_kappa([]))
    # One value only, no unit with two ratings, nothing at all.
    assert isnan(krippendorff_alpha([[1, 1], [1, 1]], "nominal"))
    assert isnan(krippendorff_alpha([[1, N, 2], [N, 3, N]], "ordinal"))
    assert isnan(krippendorff_alpha([], "nominal"))
    assert isnan(krippendorff_alpha([[], []], "nominal"))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[2, 0], [2, 1]], "row 1 has 3 ratings, row 0 has 2"),
        ([[2, 0], [2]], "row 1 has 1 categories, row 0 has 2"),
        ([[1, 0], [0, 1]], "row 0 has 1 ratings, kappa needs at least 2"),
        ([[3, -1], [2, 0]], "row 0 has a negative number of ratings"),
    ],
)
def test_a_table_that_is_none_is_refused_by_its_row(counts: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fleiss_kappa(counts)


def test_alpha_refuses_what_it_cannot_read() -> None:
    with pytest.raises(ValueError, match="nominal or ordinal, got 'interval'"):
        krippendorff_alpha([[1], [2]], "interval")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="row 1 has 1 units, row 0 has 2"):
        krippendorff_alpha([[1, 2], [2]], "nominal")
    with pytest.raises(ValueError, match="must be ordered"):
        krippendorff_alpha([[1, "a"], ["a", 1]], "ordinal")


def test_nan_is_a_missing_rating_too() -> None:
    holes = [[nan if value is None else value for value in row] for row in OBSERVERS]
    assert krippendorff_alpha(holes, "ordinal") == krippendorff_alpha(OBSERVERS, "ordinal")


@given(st.data())
def test_kappa_knows_neither_the_order_of_subjects_nor_of_categories(data: st.DataObject) -> None:
    categories = data.draw(st.integers(1, 4))
    raters = data.draw(st.integers(2, 5))
    rows = data.draw(
        st.lists(st.lists(st.integers(0, categories - 1), min_size=raters, max_size=raters), max_size=6)
    )
    counts = [[row.count(category) for category in range(categories)] for row in rows]
    kappa = fleiss_kappa(counts)
    order = data.draw(st.permutations(range(categories)))
    turned = [[row[place] for place in order] for row in data.draw(st.permutations(counts))]
    assert fleiss_kappa(turned) == pytest.approx(kappa, nan_ok=True)
    # Its least value is -1/(raters - 1), when all categories are used alike and nobody agrees.
    assert isnan(kappa) or -1 / (raters - 1) - 1e-12 <= kappa <= 1


@given(
    st.integers(1, 6).flatmap(
        lambda units: st.lists(
            st.lists(st.sampled_from([None, 1, 2, 3, 5]), min_size=units, max_size=units),
            min_size=1,
            max_size=4,
        )
    ),
    st.sampled_from(["nominal", "ordinal"]),
    st.randoms(use_true_random=False),
)
def test_alpha_knows_neither_the_order_of_raters_nor_of_units(
    table: list[list[int | None]], level: Any, rng: Any
) -> None:
    alpha = krippendorff_alpha(table, level)
    turned = [list(unit) for unit in zip(*table, strict=True)]
    rng.shuffle(turned)
    again = [list(row) for row in zip(*turned, strict=True)]
    rng.shuffle(again)
    assert krippendorff_alpha(again, level) == pytest.approx(alpha, nan_ok=True)
    assert isnan(alpha) or alpha <= 1
    # Ordered values may be renamed as long as their order stays.
    renamed = [[None if value is None else value * value for value in row] for row in table]
    assert krippendorff_alpha(renamed, level) == pytest.approx(alpha, nan_ok=True)


def test_scores_fall_into_the_papers_groups() -> None:
    assert [one.name for one in GROUPINGS] == ["1-3|4-5", "1-4|5", "1-2|3-5"]
    assert [[one.group(score) for score in range(1, 6)] for one in GROUPINGS] == [
        [0, 0, 0, 1, 1],
        [0, 0, 0, 0, 1],
        [0, 0, 1, 1, 1],
    ]
    assert grouped({"a": {"x": 3, "y": 4}}) == {"a": {"x": 0, "y": 1}}
    with pytest.raises(ValueError, match="1 to 5, got 6"):
        Grouping("odd", 4).group(6)


def test_pairs_share_the_items_that_both_rated() -> None:
    ratings = {
        "ann": {"1": 1, "2": 1, "3": 0, "4": 1},
        "bea": {"1": 1, "2": 0, "3": 0, "4": 1, "9": 0},
        "cid": {"1": 1, "2": 1, "3": 1},
        "dan": {"8": 1},
    }
    found = pairwise(ratings)
    by_name = {pair.raters: pair for pair in found.pairs}
    assert len(by_name) == 6
    one = by_name["ann", "bea"]
    # Rows (2,0), (1,1), (0,2), (2,0) as above.
    assert (one.value, one.items, one.agreed, one.labels) == (7 / 15, 4, 3, ((0, 3), (1, 5)))
    # ann and cid: (2,0), (2,0), (1,1): observed 2/3, by chance 26/36, kappa (-2/36)/(10/36) = -1/5.
    assert by_name["ann", "cid"].value == pytest.approx(-1 / 5)
    # bea and cid: (2,0), (1,1), (1,1): observed 1/3, by chance 20/36, kappa (-8/36)/(16/36) = -1/2.
    assert by_name["bea", "cid"].value == pytest.approx(-1 / 2)
    assert isnan(by_name["ann", "dan"].value)
    assert by_name["ann", "dan"].items == 0
    assert found.undefined == 3
    values = [7 / 15, -1 / 5, -1 / 2]
    mean = sum(values) / 3
    assert found.mean == pytest.approx(mean)
    assert found.deviation == pytest.approx((sum((v - mean) ** 2 for v in values) / 3) ** 0.5)
    assert all_raters({name: ratings[name] for name in ("ann", "bea", "cid")}).items == 3


def test_answers_of_several_types_are_categories_of_one_table() -> None:
    ratings: dict[str, dict[str, Any]] = {
        "ann": {"1": True, "2": "no", "3": 2},
        "bea": {"1": True, "2": "no", "3": 2},
    }
    assert all_raters(ratings).value == 1.0


def test_a_fraction_is_a_rating_and_nan_is_none() -> None:
    # Two of two units agree; the third has one rating left.
    assert krippendorff_alpha([[2.5, 3.5, 1.0], [2.5, 3.5, nan]], "ordinal") == 1.0
    assert krippendorff_alpha([[2.5, 3.5], [3.5, 2.5]], "nominal") < 0


def test_nobody_agrees_with_nobody() -> None:
    assert isnan(pairwise({"ann": {"1": 1}}).mean)
    assert isnan(all_raters({}).value)
    assert all_raters({"ann": {"1": 1}}).items == 0
    assert isnan(alpha_of({}, "nominal"))


def test_alpha_takes_every_item_that_two_rated() -> None:
    columns = [f"u{unit}" for unit in range(12)]
    ratings = {
        f"observer {row}": {
            unit: value for unit, value in zip(columns, values, strict=True) if value is not None
        }
        for row, values in enumerate(OBSERVERS)
    }
    assert alpha_of(ratings, "ordinal") == pytest.approx(krippendorff_alpha(OBSERVERS, "ordinal"))


def digits(values: str) -> dict[str, int]:
    return {str(place): int(value) for place, value in enumerate(values) if value != "."}


def test_a_judge_that_agrees_is_shown() -> None:
    people = {"ann": digits("1101" * 15), "bea": digits("1100" * 15)}
    found = judge_agreement(digits("1101" * 15), people)
    assert found.items == 60
    assert found.shown
    assert found.lacking == ()
    assert [pair.value for pair in found.with_people.pairs] == [1.0, pytest.approx(7 / 15)]
    # Where the two people differ there is no majority: 45 items are left, on which all agree.
    assert (found.with_majority.items, found.with_majority.value) == (45, 1.0)


@pytest.mark.parametrize(
    ("judge", "bar", "reason"),
    [
        ("1101" * 5, BAR, "20 items rated by the judge and by people, 50 are needed"),
        ("0110" * 15, BAR, "mean kappa with people -0.300, 0.4 is needed"),
        ("1111" * 15, BAR, "mean kappa with people -0.238"),
        ("...." * 15, BAR, "the judge's kappa with people is undefined"),
        ("0110" * 15, Bar(10, -1.0, 0.1), "people among themselves 0.467: more than 0.1 below"),
    ],
)
def test_a_judge_that_lacks_something_is_not_shown_and_it_says_what(
    judge: str, bar: Bar, reason: str
) -> None:
    people = {"ann": digits("1101" * 15), "bea": digits("1100" * 15)}
    found = judge_agreement(digits(judge), people, bar=bar)
    assert not found.shown
    assert any(reason in lack for lack in found.lacking), found.lacking


def test_a_judge_is_not_measured_against_itself() -> None:
    with pytest.raises(ValueError, match="against itself"):
        judge_agreement({}, {"judge": {}})


def test_judgements_are_ratings_by_rater_and_intention() -> None:
    said = [
        Judgement("g", "1.1.speak.2", "first", "defend_self", True, 3, None, "ann"),
        Judgement("g", "1.1.speak.2", "first", "defend_self", False, 4, 5, "bea"),
        Judgement("g", "1.1.speak.2", "final", "defend_self", None, None, 2, "bea"),
        Judgement("g", "1.1.speak.2", "final", "defend_self", None, None, 1, "bea"),
    ]
    first, final = (f"g/1.1.speak.2/{stage}/defend_self" for stage in ("first", "final"))
    assert ratings_of(said, "reasonable") == {"ann": {first: 1}, "bea": {first: 0}}
    assert ratings_of(said, "think") == {"ann": {first: 3}, "bea": {first: 4}}
    assert ratings_of(said, "speak") == {"bea": {first: 5, final: 1}}


@pytest.mark.skipif(not AUTHORS.is_file(), reason="../shared/authors-run is absent")
def test_the_authors_pairwise_figures_are_mean_and_population_deviation() -> None:
    figures = json.loads(AUTHORS.read_text())["kappa"]["pooled"]
    for what in ("selection", "following_think", "following_speak"):
        pairs = [figures[f"{what}.{pair}"]["value"] for pair in ("ann1_ann2", "ann1_ann3", "ann2_ann3")]
        mean = sum(pairs) / 3
        assert mean == pytest.approx(figures[f"{what}.pair_mean"]["value"], abs=1e-6)
        sd = (sum((value - mean) ** 2 for value in pairs) / 3) ** 0.5
        assert sd == pytest.approx(figures[f"{what}.pair_mean"]["sd"], abs=1e-6)


def test_a_judge_exactly_at_the_bar_is_shown() -> None:
    # It says what both people say: kappa 1 with each and among them, on 4 items.
    people = {"ann": digits("1100"), "bea": digits("1100")}
    found = judge_agreement(digits("1100"), people, bar=Bar(items=4, kappa=1.0, shortfall=0.0))
    assert found.lacking == ()


def test_a_judge_a_little_below_people_is_shown_and_one_further_below_is_not() -> None:
    # The people agree on all, the judge differs on one of 50: its kappa is 1 - 0.02 / 0.5 = 0.96.
    people = {"ann": digits("10" * 25), "bea": digits("10" * 25)}
    judge = digits("10" * 24 + "11")
    assert judge_agreement(judge, people, bar=Bar(50, 0.4, 0.05)).lacking == ()
    assert len(judge_agreement(judge, people, bar=Bar(50, 0.4, 0.03)).lacking) == 1


def test_one_person_alone_sets_no_bar_among_people() -> None:
    found = judge_agreement(
        digits("1100"), {"ann": digits("1100")}, bar=Bar(items=4, kappa=1.0, shortfall=0.0)
    )
    assert isnan(found.among_people.mean)
    assert found.lacking == ()


def test_the_majority_of_people_is_their_most_frequent_answer_and_none_where_two_tie() -> None:
    # Majorities of three, item by item: 1, 0, 0, 1; then one person's word alone, 1; then a tie.
    people = {"ann": digits("1001.1"), "bea": digits("1101.0"), "cle": digits("00001.")}
    found = judge_agreement(digits("100111"), people)
    assert (found.with_majority.items, found.with_majority.value) == (5, 1.0)


@pytest.mark.parametrize("score", [0, 6])
def test_a_score_below_one_or_above_five_has_no_group(score: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 5, got {score}"):
        Grouping("any", 3).group(score)
