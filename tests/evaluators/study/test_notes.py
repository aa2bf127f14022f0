"""What a report tells of the study behind it."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from evaluators.study.notes import completed, look_levels, notes_of


def told(**changed: Any) -> dict[str, Any]:
    return {"planned": 20, "games": 20, "frozen": {"at": "2026-01-01", "sha256": "a" * 64}, **changed}


def test_a_study_as_it_was_frozen_says_only_that() -> None:
    (note,) = notes_of(told())
    assert note.startswith("The study was frozen on 2026-01-01, before its first game")


def test_a_study_that_was_never_frozen_says_so() -> None:
    (note,) = notes_of(told(frozen=None))
    assert "never frozen" in note


def test_deviations_are_told_and_those_that_change_no_result_are_told_as_such() -> None:
    changed = {"at": "2026-01-02", "frozen": 4, "found": 6}
    notes = notes_of(told(deviations=[{**changed, "pointer": "/design/games"},
                                      {**changed, "pointer": "/budget/max_cost"}]))  # fmt: skip
    assert "/design/games was 4, is 6." in notes[1]
    assert "/budget/max_cost was 4, is 6 (this changes no result)." in notes[2]


def test_models_that_a_provider_changed_are_named() -> None:
    cell = {"name": "preset=paper", "served": {"small": ["m-1", "m-2"], "large": ["l-1"]}}
    (_, note) = notes_of(told(cells=[cell]))
    assert note == "preset=paper: small was served by several models: m-1, m-2."


def test_looks_at_the_same_games_are_one_and_the_last_is_the_reports_own() -> None:
    levels = look_levels([{"games": 10}, {"games": 10}], 20, 20)
    assert [one["games"] for one in levels] == [10, 20]
    assert levels[0]["level"] < 0.01 < levels[1]["level"] < 0.05
    notes = notes_of(told(looks=[{"games": 10}], levels=levels))
    assert "early looks at 10 of 20 games" in notes[1]
    # It was half of what was planned then: an extension does not take back what it spent.
    (first, _) = look_levels([{"games": 10, "planned": 20}], 40, 40)
    assert first["level"] == levels[0]["level"]
    early = notes_of(told(games=10, looks=[{"games": 10}], levels=look_levels([{"games": 10}], 20, 10)))
    assert any(note.startswith("EARLY LOOK: 10 of 20 games") for note in early)


def test_a_plan_that_is_cut_after_a_look_gives_nothing_back() -> None:
    looks = [{"games": 20, "planned": 80}, {"games": 20, "planned": 20}]
    early = look_levels(looks[:1], 80, 20)
    assert look_levels(looks[:1], 20, 20) == look_levels(looks, 20, 20) == early
    notes = notes_of(told(looks=looks, levels=early))
    assert "early looks at 20 of 80 games, corrected" in notes[1]
    assert "now a difference counts only with p below 1e-05" in notes[1]
    assert "The plan was cut from 80 to 20 games after a look." in notes[2]
    # The games that were cut may come back: the study was never complete, and the rest is still to be spent.
    assert completed(looks, 80) == completed(looks, 40) == 0
    whole = look_levels(looks, 80, 80)
    assert [one["games"] for one in whole] == [20, 80]
    assert whole == look_levels(looks[:1], 80, 80)
    assert completed([{"games": 20, "planned": 20}], 80) == 20


def test_a_look_at_games_that_were_cut_is_told() -> None:
    looks = [{"games": 40, "planned": 80}]
    levels = {one["games"]: one["level"] for one in look_levels(looks, 20, 20)}
    assert levels[20] == pytest.approx(look_levels([], 80, 20)[0]["level"], rel=1e-3)
    assert "early looks at 40 of 80 games" in notes_of(told(looks=looks))[1]


def test_whoever_cuts_the_plan_where_a_difference_shows_errs_in_five_per_cent() -> None:
    at, planned = np.array([20, 40, 60, 80]), 80
    looks = [{"games": int(games), "planned": planned} for games in at]
    cut = [look_levels(looks[: n + 1], look["games"], look["games"]) for n, look in enumerate(looks)]
    steps = np.random.default_rng(5).normal(size=(200_000, 4)) * np.sqrt(np.diff(at / planned, prepend=0.0))
    p = 2 * ndtr(-np.abs(np.cumsum(steps, axis=1) / np.sqrt(at / planned)))
    found = p <= np.array([levels[-1]["level"] for levels in cut])
    assert found.any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
