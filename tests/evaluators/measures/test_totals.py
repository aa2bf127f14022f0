"""Totals of scored items, whole and by group, counted by hand; and what of them may be told."""

from typing import Any

import pytest

from evaluators.ground.answers import Guess, Unmapped
from evaluators.ground.items import Item, Variant, items
from evaluators.measures.scoring import Totals
from tests.evaluators.talk import by_hand, chose

CONVINCE, SUPPORT, SUSPECT, LOYAL = "convince_leader", "support_proposal", "cast_suspicion", "express_loyalty"
NOTES = {"2.1.speak.4": chose(4, SUSPECT), "1.1.speak.2": chose(2, f"{CONVINCE} {SUPPORT}")}


def asked(game_id: str) -> list[Item]:
    """Percival's speech of round 1 and the assassin's of round 2, as seat 3 is asked about them."""
    variant = Variant(reader=3, options="roles")
    return list(items(by_hand(NOTES, game_id), "guessing", variant, with_gold=True))


def told_of_two_games() -> dict[str, Any]:
    """Round 2 is counted before round 1. Nobody answers about the assassin in the second game."""
    totals = Totals()
    for game_id, percival, assassin in (
        ("g", {CONVINCE, SUPPORT, LOYAL}, {SUSPECT, LOYAL}),
        ("h", {CONVINCE, SUSPECT}, None),
    ):
        first, second = asked(game_id)
        for item, named in ((second, assassin), (first, percival)):
            totals.add(item, None if named is None else Guess(item.id, frozenset(named)))
    return totals.as_json()


@pytest.mark.parametrize(
    ("table", "group", "matched", "predicted", "gold", "number"),
    [
        ("by_round", "1", 3, 5, 4, 2),
        ("by_round", "2", 1, 2, 2, 2),
        ("by_role", "percival", 3, 5, 4, 2),
        ("by_role", "assassin", 1, 2, 2, 2),
        ("by_side", "loyal", 3, 5, 4, 2),
        ("by_side", "evil", 1, 2, 2, 2),
        ("by_stage", "final", 4, 7, 6, 4),
        # Meant or named, an item counts once in a category.
        ("by_category", "teamwork", 1, 1, 2, 2),
        ("by_category", "persuasion", 2, 2, 2, 2),
        ("by_category", "confrontation", 1, 2, 2, 3),
        ("by_category", "deception", 0, 2, 0, 2),
    ],
)
def test_each_group_is_counted_and_has_its_shares(
    table: str, group: str, matched: int, predicted: int, gold: int, number: int
) -> None:
    found = told_of_two_games()[table][group]
    assert (found["matched"], found["predicted"], found["gold"]) == (matched, predicted, gold)
    assert found["items"] == number
    assert found["precision"]["value"] == matched / predicted
    assert found["recall"]["value"] == (matched / gold if gold else None)
    assert found["f1"]["value"] == 2 * matched / (predicted + gold)


def test_the_whole_says_what_it_rests_on() -> None:
    told = told_of_two_games()
    assert (told["items"], told["games"], told["silent"]) == (4, 2, 1)
    assert (told["micro"]["matched"], told["micro"]["predicted"], told["micro"]["gold"]) == (4, 7, 6)
    assert list(told["by_round"]) == ["1", "2"]
    assert list(told["by_category"]) == sorted(told["by_category"])


def test_what_was_said_of_nothing_has_no_precision_and_no_f1() -> None:
    totals = Totals()
    totals.add(asked("g")[0], None)
    micro = totals.as_json()["micro"]
    assert [micro[share]["value"] for share in ("precision", "recall", "f1")] == [None, 0.0, 0.0]
    assert [Totals().as_json()["micro"][share]["value"] for share in ("recall", "f1")] == [None, None]


def test_the_twenty_texts_that_name_no_intention_most_often_are_shown() -> None:
    totals = Totals()
    for game_id in ("g", "h"):
        texts = tuple(f"text {number}" for number in range(19 if game_id == "g" else 21))
        item = asked(game_id)[0]
        totals.add(item, Guess(item.id, frozenset({CONVINCE}), texts))
    told = totals.as_json()
    assert told["unmapped"]["most"] == {f"text {n}": 2 if n < 19 else 1 for n in range(20)}
    # They count as named, and belong to no category.
    assert told["micro"]["predicted"] == 42
    assert told["by_category"]["persuasion"]["predicted"] == 2


def test_texts_that_are_discarded_count_as_named_in_no_group_either() -> None:
    counted: list[tuple[Unmapped, int]] = [("count", 3), ("discard", 1)]
    for unmapped, predicted in counted:
        totals = Totals(unmapped)
        item = asked("g")[0]
        totals.add(item, Guess(item.id, frozenset({CONVINCE}), ("trust me", "follow me")))
        told = totals.as_json()
        whole = (told["micro"], told["by_round"]["1"], told["by_role"]["percival"], told["by_side"]["loyal"])
        assert [group["predicted"] for group in whole] == [predicted] * 4, unmapped
