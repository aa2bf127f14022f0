"""What a report tells of the study behind it."""

from typing import Any

from evaluators.study.notes import look_levels, notes_of


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
