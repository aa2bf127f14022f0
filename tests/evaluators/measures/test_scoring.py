"""F1 over sets of intentions: worked values, groups, and what chance gives."""

import json
import pickle
from dataclasses import replace
from itertools import permutations
from math import comb, isnan
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.terms import Role, Side
from evaluators.errors import UnknownItem
from evaluators.ground.answers import Guess
from evaluators.ground.items import Item, Variant, items
from evaluators.measures.scoring import F1, Counts, Scores, Totals, micro_f1, per_item, score
from evaluators.statistics.intervals import SHARE, estimate, pooled_f1
from evaluators.statistics.resampling import paired
from tests.evaluators.talk import by_hand, chose, scripted

ALL = Variant(reader="all", options="roles")


# --- the public functions -----------------------------------------------------------------------------


def test_micro_f1_pools_over_items() -> None:
    # matched 1, predicted 2, gold 3: precision 1/2, recall 1/3, F1 = 2/5
    gold = {"a": frozenset("xy"), "b": frozenset("z")}
    result = micro_f1(gold, {"a": frozenset("xw")})
    assert result == 2 / 5
    assert (result.precision, result.recall, result.f1) == (1 / 2, 1 / 3, 2 / 5)
    assert (result.matched, result.predicted, result.gold) == (1, 2, 3)


def test_pooling_is_not_the_mean_of_the_items() -> None:
    # a: 1 of 1 and 1; b: 0 of 3 and 1. Pooled 1 matched, 4 predicted, 2 gold: 2/6. The mean is 1/2.
    gold = {"a": {"x"}, "b": {"y"}}
    guessed = {"a": {"x"}, "b": {"u", "v", "w"}}
    assert micro_f1(gold, guessed) == pytest.approx(1 / 3)
    assert [float(one) for one in per_item(gold, guessed).values()] == [1, 0]


def test_always_answering_gold_scores_one() -> None:
    gold = {"a": {"x", "y"}, "b": {"z"}}
    assert micro_f1(gold, gold) == 1.0


def test_silence_costs_recall_and_not_precision() -> None:
    gold = {"a": {"x"}, "b": {"y"}, "c": {"z"}}
    half = micro_f1(gold, {"a": {"x"}})
    assert (half.precision, half.recall) == (1.0, 1 / 3)
    assert half == 0.5
    assert micro_f1(gold, {"a": {"x"}, "b": ()}) == half


def test_saying_nothing_at_all_scores_nought_with_undefined_precision() -> None:
    nothing = micro_f1({"a": {"x"}}, {})
    assert nothing == 0.0
    assert isnan(nothing.precision)
    assert nothing.recall == 0.0
    assert nothing.as_json() == {
        "precision": None,
        "recall": 0.0,
        "f1": 0.0,
        "matched": 0,
        "predicted": 0,
        "gold": 1,
    }


def test_neither_gold_nor_guess_is_undefined() -> None:
    nothing = micro_f1({}, {})
    assert isnan(nothing)
    assert (nothing.matched, nothing.predicted, nothing.gold) == (0, 0, 0)
    assert nothing.as_json()["f1"] is None


def test_an_id_named_twice_counts_once() -> None:
    assert micro_f1({"a": ["x", "x"]}, {"a": ["x", "x", "y"]}).counts == Counts(1, 2, 1)


def test_a_guess_about_an_item_without_gold_is_refused_by_name() -> None:
    for scored in (micro_f1, per_item):
        with pytest.raises(UnknownItem, match="no gold for 'b'"):
            scored({"a": {"x"}}, {"b": {"x"}})
        with pytest.raises(ValueError, match="and 2 more"):
            scored({}, {name: set() for name in "abcde"})


def test_an_f1_is_a_number_and_keeps_its_counts_when_copied() -> None:
    one = F1(2, 3, 5)
    assert one == pytest.approx(0.5)
    assert sorted([F1(1, 1, 1), one])[0] is one
    again = pickle.loads(pickle.dumps(one))
    assert (again, again.counts) == (one, one.counts)


def test_the_counts_agree_with_another_library_on_random_tables() -> None:
    # f1_known.json: scikit-learn's precision_recall_fscore_support over label indicators.
    known = json.loads((Path(__file__).parent / "f1_known.json").read_text())
    for case in known["cases"]:
        result = micro_f1(case["gold"], case["guessed"])
        assert (result.precision, result.recall, result.f1) == pytest.approx(case["micro"], abs=1e-12)
        each = per_item(case["gold"], case["guessed"])
        assert sum(each.values()) / len(each) == pytest.approx(case["samples_f1"], abs=1e-12)


# --- tables -------------------------------------------------------------------------------------------


def gold_items(count: int = 6, variant: Variant = ALL) -> list[Item]:
    games = map(scripted, range(count))
    return [item for game in games for item in items(game, "guessing", variant, with_gold=True)]


def answer(item: Item, named: Any, **how: Any) -> Guess:
    return Guess(item.id, frozenset(named), **how)


def test_a_guesser_that_always_answers_gold_scores_one_everywhere() -> None:
    made = gold_items()
    scores = score(made, [answer(item, item.gold) for item in made])
    assert (scores.micro, scores.macro, scores.mean_item) == (1.0, 1.0, 1.0)
    for table in (scores.by_round, scores.by_role, scores.by_side, scores.by_category, scores.by_game):
        assert {counts.f1 for counts in table.values()} == {1.0}
    assert not scores.confusion
    assert scores.items == len(made)


@pytest.mark.parametrize("variant", [Variant("all"), ALL], ids=["impactful", "roles"])
@pytest.mark.parametrize("size", [2, 3])
def test_guessing_at_random_scores_what_chance_predicts(variant: Variant, size: int) -> None:
    # k of n options drawn without replacement hit g right ones k g / n times on average, with the
    # variance of the hypergeometric distribution, k (g/n) (1 - g/n) (n - k) / (n - 1).
    made = gold_items(12, variant)
    rng = Random(f"{size}")
    scores = score(made, [answer(i, rng.sample([o.id for o in i.options], size)) for i in made])
    predicted, gold = size * len(made), sum(len(item.gold or ()) for item in made)
    mean = variance = 0.0
    for item in made:
        n, g = len(item.options), len(item.gold or ())
        mean += size * g / n
        variance += size * (g / n) * (1 - g / n) * (n - size) / (n - 1)
    expected = 2 * mean / (predicted + gold)
    assert scores.chance == pytest.approx(expected)
    spread = 2 * variance**0.5 / (predicted + gold)
    assert abs(scores.micro - expected) < 4 * spread
    # The bound means something: it lies far from what a reader of speech reaches.
    assert expected + 4 * spread < 0.25


def test_an_empty_guess_is_no_silence_and_the_ceiling_is_what_so_many_names_reach() -> None:
    first, second, third, *_ = gold_items(1)
    assert first.gold is not None
    scores = Scores()
    scores.add(first, answer(first, []))
    scores.add(second, None)
    assert (scores.items, scores.silent, scores.limits["all", "all"].ceiling) == (2, 1, 0)
    scores.add(third, answer(third, [third.options[0].id]))
    assert (scores.items, scores.silent, scores.limits["all", "all"].ceiling) == (3, 1, 1)


def test_chance_is_exact_on_a_small_set() -> None:
    # One item, gold 1 of the impactful 15. Every pair: 14 of the 105 hold the right one.
    (item,) = items(
        by_hand({"1.1.speak.2": chose(2, "convince_leader")}), "guessing", Variant(), with_gold=True
    )
    pairs = [(a.id, b.id) for n, a in enumerate(item.options) for b in item.options[n + 1 :]]
    assert len(pairs) == comb(15, 2)
    f1s = [score([item], [answer(item, pair)]).micro for pair in pairs]
    assert score([item], [answer(item, pairs[0])]).chance == pytest.approx(sum(f1s) / len(f1s))


def test_who_names_nothing_scores_what_chance_would_with_as_little() -> None:
    item = gold_items(1)[0]
    assert score([item], []).chance == 0.0
    assert score([item], []).micro == 0.0
    assert Scores().chance is None


def two_speeches() -> list[Item]:
    """Percival in seat 2 and the assassin in seat 4 speak in round 1, seat 2 again in round 2."""
    game = by_hand(
        {
            "1.1.speak.2": chose(2, "support_proposal convince_leader"),
            "1.1.speak.4": chose(4, "cast_suspicion"),
            "2.1.propose_team.2": chose(2, "convince_leader"),
        }
    )
    return list(items(game, "guessing", Variant(reader=3, options="roles"), with_gold=True))


def test_scores_by_round_role_side_and_category() -> None:
    made = two_speeches()
    guesses = [
        answer(made[0], ["support_proposal", "cast_suspicion"]),
        answer(made[1], ["cast_suspicion", "express_loyalty"]),
    ]
    scores = score(made, guesses)
    assert scores.total == Counts(2, 4, 4)
    assert scores.by_round == {1: Counts(2, 4, 3), 2: Counts(0, 0, 1)}
    assert scores.by_role == {Role.PERCIVAL: Counts(1, 2, 3), Role.ASSASSIN: Counts(1, 2, 1)}
    assert scores.by_side == {Side.LOYAL: Counts(1, 2, 3), Side.EVIL: Counts(1, 2, 1)}
    assert scores.by_stage == {"final": Counts(2, 4, 4)}
    assert scores.by_category == {
        "teamwork": Counts(1, 1, 1),
        "persuasion": Counts(0, 0, 2),
        "confrontation": Counts(1, 2, 1),
        "deception": Counts(0, 1, 0),
    }
    assert (scores.items, scores.silent) == (3, 1)
    # By intention: support_proposal 1, convince_leader 0, cast_suspicion 2/3, express_loyalty 0.
    assert scores.macro == pytest.approx((1 + 0 + 2 / 3 + 0) / 4)
    # By item: 1/2, 2/3, 0.
    assert scores.mean_item == pytest.approx((1 / 2 + 2 / 3) / 3)


def test_macro_does_not_depend_on_the_order_in_which_intentions_were_counted() -> None:
    # A set of names has another order in every process.
    counted = {"defend_self": Counts(1, 5, 5), "defend_team": Counts(3, 6, 3), "stay_hidden": Counts(3, 4, 6)}
    macros = set()
    for order in permutations(counted):
        scores = Scores()
        scores.by_intention = {intention: counted[intention] for intention in order}
        macros.add(scores.macro)
    assert len(macros) == 1


def test_macro_is_a_mean_over_intentions_also_where_they_share_a_category() -> None:
    game = by_hand(
        {
            "1.1.speak.2": chose(2, "convince_leader reveal_percival"),
            "3.1.speak.2": chose(2, "convince_leader support_proposal"),
        }
    )
    made = list(items(game, "guessing", Variant(reader=3, options="roles"), with_gold=True))
    guesses = [
        answer(made[0], ["convince_leader", "support_proposal"]),
        answer(made[1], ["reveal_percival", "support_proposal"]),
    ]
    scores = score(made, guesses)
    assert scores.by_intention == {
        "convince_leader": Counts(1, 1, 2),  # F1 = 2/3
        "reveal_percival": Counts(0, 1, 1),  # 0: missed in the one item, named in the other
        "support_proposal": Counts(1, 2, 1),  # 2/3
    }
    assert scores.macro == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)  # 4/9
    # Within a category counts pool: of persuasion 1 of 2 named is right and 1 of 3 gold, F1 = 2/5; of
    # teamwork 1 of 2 and 1 of 1, 2/3. Their mean would be 8/15, and all pooled is 2 * 2 / (4 + 4).
    assert scores.by_category == {"persuasion": Counts(1, 2, 3), "teamwork": Counts(1, 2, 1)}
    assert scores.micro == 1 / 2
    told = scores.as_json()
    assert told["macro"] == pytest.approx(4 / 9)
    assert told["by_category"]["persuasion"]["f1"] == pytest.approx(2 / 5)
    assert told["by_category"]["teamwork"]["f1"] == pytest.approx(2 / 3)
    # Totals count an item once in a category, whatever it names of it.
    totals = Totals()
    for item, guess in zip(made, guesses, strict=True):
        totals.add(item, guess)
    shown = totals.as_json()
    assert shown["macro"] == pytest.approx(4 / 9)
    assert {name: one["items"] for name, one in shown["by_category"].items()} == {
        "persuasion": 2,
        "teamwork": 2,
    }
    assert shown["by_category"]["persuasion"]["f1"]["value"] == pytest.approx(2 / 5)
    assert shown["by_category"]["teamwork"]["f1"]["value"] == pytest.approx(2 / 3)


def test_confusion_counts_what_was_named_where_something_else_was_missed() -> None:
    made = two_speeches()
    scores = score(made, [answer(made[0], ["support_proposal", "cast_suspicion", "stay_hidden"])])
    assert dict(scores.confusion) == {
        ("convince_leader", "cast_suspicion"): 1,
        ("convince_leader", "stay_hidden"): 1,
    }


def test_confusions_are_told_the_most_frequent_first_then_by_name() -> None:
    scores = score([], [])
    scores.confusion.update({("b", "x"): 1, ("a", "z"): 1, ("a", "y"): 1, ("c", "w"): 3})
    told = [(one["missed"], one["named"], one["items"]) for one in scores.as_json()["confusion"]]
    assert told == [("c", "w", 3), ("a", "y", 1), ("a", "z", 1), ("b", "x", 1)]


def test_groups_are_told_in_order_however_they_were_counted() -> None:
    scores = score([], [])
    scores.by_round.update({3: Counts(1, 1, 1), 1: Counts(0, 1, 1)})
    assert list(scores.as_json()["by_round"]) == ["1", "3"]


def test_unmapped_text_counts_as_predicted_and_is_shown_or_is_discarded() -> None:
    made = two_speeches()
    guess = answer(made[1], ["cast_suspicion"], unmapped=("win the game", "be nice"))
    counted = score(made[1:2], [guess])
    discarded = score(made[1:2], [guess], "discard")
    assert counted.total == Counts(1, 3, 1)
    assert discarded.total == Counts(1, 1, 1)
    for scores in (counted, discarded):
        assert dict(scores.unmapped_texts) == {"win the game": 1, "be nice": 1}
    for scores, are_counted in ((counted, True), (discarded, False)):
        scores.add(made[1], answer(made[1], [], unmapped=("be nice",)))
        assert scores.as_json()["unmapped"] == {"counted": are_counted, "texts": 3, "different": 2}


def test_words_that_name_no_intention_are_not_confused_with_the_one_that_was_missed() -> None:
    (item,) = two_speeches()[1:2]
    scores = score([item], [answer(item, [], unmapped=("win the game",))])
    assert scores.total == Counts(0, 1, 1)
    assert dict(scores.confusion) == {}


@pytest.mark.parametrize("hidden", [{"gold": None}, {"speaker_role": None}])
def test_an_item_without_its_gold_or_its_speakers_role_is_not_scored(hidden: dict[str, None]) -> None:
    item = replace(two_speeches()[0], **hidden)
    with pytest.raises(ValueError, match="lacks one"):
        Scores().add(item, None)


def test_the_counts_of_the_games_add_up_to_the_total() -> None:
    made = gold_items(4)
    scores = score(made, [answer(item, list(item.gold or ())[:1]) for item in made])
    total = Counts(0, 0, 0)
    for counts in scores.by_game.values():
        total = total.plus(counts)
    assert (total, len(scores.by_game)) == (scores.total, 4)


def test_scores_are_what_the_interval_and_the_comparison_take() -> None:
    made = gold_items(15, Variant())
    better = score(made, [answer(item, item.gold) for item in made if item.round < 3])
    worse = {item.id: frozenset({"stay_hidden"}) for item in made}
    found = estimate(better.by_game, pooled_f1, within=SHARE)
    assert found.value == pytest.approx(better.micro)
    assert found.interval is not None
    assert found.interval.low < better.micro < found.interval.high
    gold = {item.id: item.gold or frozenset() for item in made}
    one, other = ({id_: f1.counts for id_, f1 in per_item(gold, given).items()} for given in (gold, worse))
    compared = paired(one, other, {item.id: item.game_id for item in made}, pooled_f1, resamples=200)
    assert (compared.first, compared.second) == (1.0, 0.0)


def test_a_sealed_item_cannot_be_scored() -> None:
    (item, *_) = items(scripted(1), "guessing", ALL)
    with pytest.raises(ValueError, match="lacks one"):
        Scores().add(item, None)


def test_a_guess_about_another_item_or_a_second_one_is_refused() -> None:
    made = two_speeches()
    with pytest.raises(UnknownItem, match=r"1\.1\.speak\.4"):
        score(made[:1], [answer(made[1], [])])
    with pytest.raises(UnknownItem, match="twice"):
        score(made, [answer(made[0], []), answer(made[0], [])])
    with pytest.raises(UnknownItem):
        Scores().add(made[0], answer(made[1], []))


def test_each_group_says_how_many_items_are_behind_it() -> None:
    # Percival meant two intentions in round 1 and one in round 2, unanswered; the assassin one in round 1.
    made = two_speeches()
    named = [["support_proposal", "cast_suspicion"], ["cast_suspicion", "express_loyalty"]]
    scores = score(made, [answer(item, ids) for item, ids in zip(made, named, strict=False)])
    expected = {
        ("round", "1"): 2,
        ("round", "2"): 1,
        ("stage", "final"): 3,
        ("role", "percival"): 2,
        ("role", "assassin"): 1,
        ("side", "loyal"): 2,
        ("side", "evil"): 1,
        # Meant or named: what was suspected, by both guesses; whom to convince, in both of Percival's items.
        ("intention", "support_proposal"): 1,
        ("intention", "convince_leader"): 2,
        ("intention", "cast_suspicion"): 2,
        ("intention", "express_loyalty"): 1,
        ("category", "teamwork"): 1,
        ("category", "persuasion"): 2,
        ("category", "confrontation"): 2,
        ("category", "deception"): 1,
    }
    assert dict(scores.behind) == expected


def test_guesses_without_gold_are_named_up_to_three() -> None:
    unknown = {name: {"x"} for name in "bcde"}
    with pytest.raises(UnknownItem, match=r"no gold for 'b', 'c', 'd' and 1 more$"):
        micro_f1({"a": {"x"}}, unknown)
    del unknown["e"]
    with pytest.raises(UnknownItem, match=r"no gold for 'b', 'c', 'd'$"):
        micro_f1({"a": {"x"}}, unknown)
