"""Every figure of a run folder equals its expectation: the sample's, and that of a plain recount."""

import json
import random
from copy import deepcopy
from typing import Any

import pytest

from evaluators.authors import compare, figures
from evaluators.authors.figures import NOT_KNOWN
from evaluators.measures.scoring import micro_f1
from tests.evaluators.authors.differences import DOCUMENT, filled, printed
from tests.evaluators.authors.folders import (
    differing,
    needs_sample,
    sample_expected,
    sample_files,
    taken,
)
from tests.evaluators.authors.making import make_run, spoilt
from tests.evaluators.authors.plainly import expected_of

# (seed, games, raters, with annotators, with answers); `python -m tests.evaluators.authors 130` runs more.
RUNS = [(1, 3, 3, True, True), (2, 1, 2, True, False), (3, 2, 4, True, True), (4, 2, 0, False, True)]


@needs_sample
def test_no_figure_of_the_sample_differs() -> None:
    compared, faults = differing(sample_files(), sample_expected())
    assert compared > 700
    assert faults == []


@needs_sample
def test_the_plain_recount_is_that_of_the_sample() -> None:
    # Else the made runs below would be compared with a mistake.
    assert [one for one in compare(sample_expected(), expected_of(sample_files())) if not one.agrees] == []


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"run {run[0]}")
def test_no_figure_of_a_made_run_differs(run: tuple[int, int, int, bool, bool]) -> None:
    seed, games, raters, agreement, answers = run
    files = make_run(seed, games, raters, agreement=agreement, answers=answers)
    compared, faults = differing(files, expected_of(files))
    assert compared > 100
    assert faults == []


def test_other_line_ends_marks_and_files_beside_change_no_figure() -> None:
    files = make_run(5, 2)
    other = spoilt(files, random.Random(5))
    assert other != files
    assert differing(other, expected_of(files))[1] == []


def test_made_runs_hold_every_kind_of_game() -> None:
    endings, lengths, odd = set(), set(), set()
    rejected = forced = 0
    for seed in range(4):
        _, games = taken(make_run(seed, 4, agreement=False, answers=False))
        for game in games:
            table = game.state.table
            endings.add(table.ending)
            lengths.add(len(table.quests))
            odd |= {"never acted" for one in game.odd if "never acted" in one}
            odd |= {"fewer scores" for one in game.odd if "taken in their order" in one}
            rejected += sum(tally.attempt == 2 for tally in table.tallies)
            forced += sum(tally.forced for tally in table.tallies)
    assert {str(ending) for ending in endings} == {
        "three_quests_failed",
        "merlin_assassinated",
        "merlin_survived",
    }
    assert lengths == {3, 4, 5}
    assert odd == {"never acted", "fewer scores"}
    assert rejected > 5
    assert forced > 0


# --- a difference is found --------------------------------------------------------------------------


def paths(value: Any, keys: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every count in the expectation."""
    if isinstance(value, dict):
        return [path for key, inner in value.items() for path in paths(inner, (*keys, key))]
    return [keys] if type(value) is int else []


def test_each_count_that_is_wrong_is_found_alone() -> None:
    files = make_run(6, 1, 2)
    right = expected_of(files)
    run, games = taken(files)
    found = figures(run, games)
    for path in random.Random(6).sample(paths(right), 40):
        wrong = deepcopy(right)
        place = wrong
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] += 1
        faults = [one for one in compare(wrong, found) if not one.agrees]
        assert len(faults) == 1, path
        assert "/".join(path).startswith(faults[0].name)


def test_a_figure_without_a_rule_is_not_known_and_differs() -> None:
    (one,) = compare({"pooled": {"figures": {"luck": {"num": 1, "den": 2, "value": 0.5}}}}, {"pooled": {}})
    assert (one.name, one.found, one.agrees) == ("pooled/figures/luck", NOT_KNOWN, False)
    (one,) = compare({"mood": 3}, {})
    assert (one.name, one.found, one.agrees) == ("mood", NOT_KNOWN, False)


@pytest.mark.parametrize(
    ("expected", "found", "agrees"),
    [
        ({"num": 0, "den": 0, "value": None}, {"num": 0, "den": 0, "value": None}, True),
        ({"num": 0, "den": 0, "value": float("nan")}, {"num": 0, "den": 0, "value": None}, True),
        ({"num": 0, "den": 0, "value": 0.0}, {"num": 0, "den": 0, "value": None}, True),
        ({"num": 0, "den": 3, "value": 0.0}, {"num": 0, "den": 3, "value": None}, False),
        ({"num": 1, "den": 3, "value": 0.333333}, {"num": 1, "den": 3, "value": 1 / 3}, True),
        ({"num": 1, "den": 3, "value": 0.333335}, {"num": 1, "den": 3, "value": 1 / 3}, False),
        ({"value": 0.5, "labels": {"1": 4}}, {"value": 0.5, "labels": {"0": 0, "1": 4}}, True),
        ({"value": 0.5, "labels": {"1": 4}}, {"value": 0.5, "labels": {"0": 1, "1": 4}}, False),
        (["a", "b"], ["b", "a"], True),
        (["a", "b"], ["a"], False),
        (True, 1, False),
    ],
)
def test_what_counts_as_equal(expected: Any, found: Any, agrees: bool) -> None:
    (one,) = compare({"x": expected}, {"x": found})
    assert one.agrees is agrees


def test_counting_by_sets_is_the_score_of_the_service() -> None:
    files = make_run(7, 2)
    run, games = taken(files)
    found: Any = figures(run, games)
    counted = found["pooled"]["f1"]["guesses_vs_chosen"]["canonical"]["pooled"]["as_sets"]
    items = run.items["guesses.json"]
    gold = {item.id: frozenset(item.gold) for item in items}
    # The labels of the gold made canonical, as the answers are.
    chosen = {one["id"]: frozenset(one["intents_canonical"]) for one in _told(files)}
    assert gold.keys() == chosen.keys()
    answers = {item.id: frozenset(item.canonical or ()) for item in items}
    assert counted["f1"] == pytest.approx(micro_f1(chosen, answers), abs=1e-6)


def _told(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return list(json.loads(files["guesses.json"]).values())


# --- the released scripts ---------------------------------------------------------------------------


@needs_sample
def test_the_tables_of_the_differences_are_those_of_the_sample() -> None:
    document = DOCUMENT.read_text("utf-8")
    assert filled(document) == document


@needs_sample
def test_the_released_rounds_are_ours_with_everything_before_carried_over() -> None:
    found: Any = figures(*taken(sample_files()))
    scopes = found["pooled"]["f1"]["second_order_vs_guesses"]["canonical"]
    carried = dict(scopes["pooled"]["as_released_counting"])
    for number in range(1, 5):
        for key in ("hits", "selected", "guessed"):
            carried[key] += scopes[f"round_{number}"]["as_released_counting"][key]
        precision, recall = carried["hits"] / carried["guessed"], carried["hits"] / carried["selected"]
        f1 = 2 * precision * recall / (precision + recall)
        (said,) = printed("calc_guess_model_released", rf"Round: {number} => f1score=(\S+)")
        assert f"{f1:.2f}" == said
