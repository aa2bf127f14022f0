"""Two raters on the same items, against values counted by hand."""

from math import isnan, nan

import pytest

from evaluators.ground.answers import Guess
from evaluators.ground.items import Variant, items
from evaluators.ground.judgements import Judgement
from evaluators.measures.comparing import MEASURES, Pairing, Part, answer_counts, holm, judged_counts
from evaluators.measures.scoring import micro_f1
from evaluators.report.raters import Rated, count_pairs, raters_compared
from evaluators.statistics.figures import FigureTally
from tests.evaluators.scripted_games import scripted_game
from tests.evaluators.talk import by_hand, chose

F1, PRECISION, RECALL = MEASURES["guessing"]


def test_a_difference_of_f1_counted_by_hand() -> None:
    # (matched, predicted, gold) of two raters on four items of three games; u is the first's alone.
    first = {
        "g1": {"a": (2, 2, 2), "b": (1, 2, 2)},
        "g2": {"c": (1, 1, 1), "u": (0, 5, 1)},
        "g3": {"d": (1, 2, 2)},
    }
    second = {"g1": {"a": (1, 2, 2), "b": (0, 2, 2)}, "g2": {"c": (1, 1, 1)}, "g3": {"d": (1, 2, 2)}}
    pairing = Pairing("guessing")
    for game in first:
        pairing.add(game, first[game], second[game])
    assert (pairing.units, pairing.items, pairing.left_out) == (4, 4, 1)
    found = pairing.compared(F1)
    # The first: 5 of 7 named, 7 gold, F1 = 10/14. The second: 3 of 7, 7 gold, 6/14.
    assert (found.first, found.second) == (10 / 14, 6 / 14)
    assert found.difference.value == pytest.approx(4 / 14)
    # Only in g1 do they differ, so each of the 8 exchanges leaves 4/14 or turns it round: all are as large.
    assert (found.p_value, found.exact) == (1.0, True)
    assert found.difference.games == 3
    told = pairing.as_json()["measures"]
    assert told["precision"]["difference"]["value"] == pytest.approx(5 / 7 - 3 / 7)
    assert told["recall"]["first"]["value"] == 5 / 7
    assert told["f1"]["first"]["low"] < 10 / 14 <= told["f1"]["first"]["high"]


def test_the_mean_score_is_the_sum_of_scores_by_their_number() -> None:
    # (good, scored, sum of scores)
    for part in ("think", "speak"):
        good, mean = MEASURES[part]
        assert (good.statistic((3, 4, 14)), mean.statistic((3, 4, 14))) == (0.75, 3.5)
        assert isnan(mean.statistic((0, 0, 0)))


@pytest.mark.parametrize(
    ("part", "measure", "sums", "value"),
    [
        # (matched, predicted, gold): who names nothing has no precision, who was asked nothing no recall.
        ("guessing", "f1", (1, 2, 4), 1 / 3),
        ("guessing", "precision", (1, 2, 4), 1 / 2),
        ("guessing", "recall", (1, 2, 4), 1 / 4),
        ("guessing", "precision", (0, 0, 4), nan),
        ("guessing", "recall", (0, 2, 0), nan),
        # (reasonable, judged) and (good, judged, sum of the scores).
        ("reasonable", "accuracy", (3, 4), 3 / 4),
        ("reasonable", "accuracy", (0, 0), nan),
        ("think", "good", (1, 4, 14), 1 / 4),
        ("think", "mean", (1, 4, 14), 7 / 2),
        ("speak", "mean", (0, 0, 0), nan),
    ],
)
def test_each_measure_by_hand(part: Part, measure: str, sums: tuple[int, ...], value: float) -> None:
    (one,) = (one for one in MEASURES[part] if one.name == measure)
    assert one.statistic(sums) == pytest.approx(value, nan_ok=True)


def test_intentions_of_one_stage_belong_to_one_item() -> None:
    said = {f"g/1.1.speak.2/{unit}": (1, 1) for unit in ("first/a", "first/b", "first/c", "final/a")}
    pairing = Pairing("reasonable")
    pairing.add("g", said, said)
    assert (pairing.units, pairing.items) == (4, 2)


def test_what_one_of_the_two_alone_has_is_left_out_and_counted() -> None:
    pairing = Pairing("guessing")
    pairing.add("g", {"a": (1, 1, 1), "b": (1, 1, 1)}, {"a": (1, 1, 1), "c": (0, 1, 1), "d": (0, 1, 1)})
    assert pairing.compared(F1).left_out == 3
    told = pairing.as_json()["measures"]["f1"]
    assert (told["p_value"], told["difference"]["value"]) == (1.0, 0.0)


def test_six_games_that_all_say_the_same_have_a_p_value_of_one_in_thirty_two() -> None:
    pairing = Pairing("reasonable")
    for game in "abcdef":
        pairing.add(game, {f"{game}/1.1.speak.2/first/x": (1, 1)}, {f"{game}/1.1.speak.2/first/x": (0, 1)})
    found = pairing.compared(MEASURES["reasonable"][0])
    # Of 64 exchanges only none and all of them give a difference of 1.
    assert (found.difference.value, found.p_value) == (1.0, 2 / 64)


def test_two_raters_with_nothing_in_common_have_no_difference() -> None:
    pairing = Pairing("guessing")
    pairing.add("g", {"a": (1, 1, 1)}, {"b": (1, 1, 1)})
    assert (pairing.units, pairing.left_out, pairing.games) == (0, 2, {})
    found = pairing.compared(F1)
    assert isnan(found.difference.value)
    told = pairing.as_json()
    assert told["games"] == 0
    assert told["measures"]["f1"]["p_value"] is None


def test_answers_are_counted_as_their_scores_count_them() -> None:
    game = scripted_game(0)
    variant = Variant(reader="all")
    gold = {item.id: item.gold or frozenset() for item in items(game, "guessing", variant, with_gold=True)}
    right = {item: Guess(item, frozenset(sorted(named)[:1])) for item, named in gold.items()}
    beside = {**right, "elsewhere/guessing/1.1.speak.2/final/1": Guess("elsewhere", frozenset())}
    counts = answer_counts(game, "guessing", beside, variant)
    assert counts.keys() == gold.keys()
    pairing = Pairing("guessing")
    silent = {item: Guess(item, frozenset()) for item in gold}
    pairing.add(game.id, counts, answer_counts(game, "guessing", silent, variant))
    found = pairing.compared(F1)
    assert found.first == micro_f1(gold, {item: one.intentions for item, one in right.items()})
    assert found.second == 0.0


def test_judgements_of_what_was_not_chosen_or_not_changed_are_not_compared() -> None:
    game = scripted_game(0)
    turn = next(one for one in game.turns if one.first and one.final and not one.changed)
    chosen = sorted(turn.first.intentions)[0]  # type: ignore[union-attr]

    def word(
        intention: str, stage: str, reasonable: bool | None = None, think: int | None = None
    ) -> Judgement:
        return Judgement(game.id, turn.request_id, stage, intention, reasonable, think, None, "ann")  # type: ignore[arg-type]

    said = [
        word(chosen, "first", True, 5),
        word(chosen, "final", False, 2),
        word("never_chosen", "first", True),
    ]
    unit = f"{game.id}/{turn.request_id}/first/{chosen}"
    assert judged_counts(game, said, "reasonable") == {"ann": {unit: (1, 1)}}
    thought = judged_counts(game, said, "think")["ann"]
    assert thought == {unit: (1, 1, 5), unit.replace("/first/", "/final/"): (0, 1, 2)}


def test_judgements_of_all_that_was_chosen_and_asked_about_are_compared() -> None:
    # Seat 2 changes its choice; seat 3 recorded a final selection alone.
    alone = [
        one for one in chose(3, "", "defend_self") if getattr(one, "stage", "") in ("final", "refinement")
    ]
    game = by_hand({"1.1.speak.2": chose(2, "stay_hidden", "defend_self"), "1.1.speak.3": alone})
    said = [
        Judgement("g", "1.1.speak.2", "first", "stay_hidden", None, 4, None, "ann"),
        Judgement("g", "1.1.speak.2", "final", "defend_self", True, None, 3, "ann"),
        Judgement("g", "1.1.speak.3", "final", "defend_self", False, 1, 5, "ann"),
    ]
    first, final, other = (f"g/{one.request_id}/{one.stage}/{one.intention}" for one in said)
    assert judged_counts(game, said, "reasonable") == {"ann": {final: (1, 1), other: (0, 1)}}
    assert judged_counts(game, said, "think") == {"ann": {first: (1, 1, 4), other: (0, 1, 1)}}
    assert judged_counts(game, said, "speak") == {"ann": {final: (0, 1, 3), other: (1, 1, 5)}}


def test_an_item_that_nobody_answered_is_not_counted() -> None:
    game = by_hand({"1.1.speak.2": chose(2, "convince_leader")})
    asked = [item.id for item in items(game, "guessing", Variant(reader="all"))]
    answered = {asked[0]: Guess(asked[0], frozenset({"convince_leader", "stay_hidden"}))}
    assert answer_counts(game, "guessing", answered, Variant(reader="all")) == {asked[0]: (1, 2, 1)}


def test_holm_s_values_counted_by_hand() -> None:
    # Of 4: 0.01 * 4, then 0.02 * 3, then 0.03 * 2 which is no more than the one before, then 0.5 * 1.
    assert holm([0.5, 0.01, nan, 0.03, 0.02])[:2] == [0.5, 0.04]
    assert holm([0.5, 0.01, nan, 0.03, 0.02])[3:] == pytest.approx([0.06, 0.06])
    assert isnan(holm([nan])[0])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.01, nan, 0.02], 4)[::2] == pytest.approx([0.04, 0.06])


def test_of_very_many_pairs_those_with_most_in_common_are_told_and_the_others_counted() -> None:
    tally = FigureTally()
    tally.begin("g")
    # 16 raters make 120 pairs; the last has one item alone, so that its 15 pairs have least in common.
    rated = [
        Rated(f"r{n:02}", units := {str(item): (1, 1, 1) for item in range(1 if n == 15 else 3)}, units)
        for n in range(16)
    ]
    count_pairs(tally, {"guessing": rated})
    table = raters_compared(tally, lambda rater, part: "")
    assert len(table.rows) == 100
    assert "Left out: 20 pairs" in table.caption
    assert all(row.figures["difference"].items == 3 for row in table.rows)
    assert table.figure(("guessing F1", "r00", "r01"), "p, Holm").note.endswith("of 100 pairs")
