"""The study file: each fault is named with its place and what is allowed there."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluators.study.file import InvalidStudy, label_of, read_study, schema, study_from
from tests.evaluators.study.studies import study, values

ROOT = Path(__file__).parents[3]


def fault_of(**changed: Any) -> tuple[str, str]:
    with pytest.raises(InvalidStudy) as caught:
        study_from(values(**changed))
    return caught.value.faults[0]


@pytest.mark.parametrize(
    ("changed", "pointer", "words"),
    [
        ({"modles": {}}, "/modles", "allowed are title, about, models"),
        ({"design": {"games": 0}}, "/design/games", "greater than or equal to 1"),
        ({"design": {"games": 4, "seating": "shuffled"}}, "/design/seating", "'rotated' or 'mirrored'"),
        ({"design": {}}, "/design/games", "missing"),
        ({"design": {"games": 4, "seating": "mirrored"}, "conditions": {"evil.model": ["small", "large"]}},
         "/design/seating", "mirrored seats would take it away: write fixed"),
        ({"table": {"seats": "tiny"}}, "/table/seats", "no model of this study; they are small, large"),
        ({"table": {"seats": ["small"]}}, "/table/seats", "5 players take 5 seats"),
        ({"table": {"seats": {"loyal": "small"}}}, "/table/seats", "name both sides, or add others"),
        ({"table": {"seats": {"wizard": "small", "others": "small"}}}, "/table/seats/wizard", "merlin"),
        ({"table": {"seats": "small", "rules": {"talk": 1}}}, "/table/rules", "the rules are team_sizes"),
        ({"conditions": {"preset": []}}, "/conditions/preset", "at least 1"),
        ({"conditions": {"Preset!": ["a"]}}, "/conditions/Preset!", "not a name"),
        ({"conditions": {"villain.preset": ["paper"]}}, "/conditions/villain.preset", "no side, role"),
        ({"conditions": {"evil.discussion": ["none"]}}, "/conditions/evil.discussion", "rule of the whole"),
        ({"conditions": {"discussion": ["loud"]}}, "/conditions/discussion", "none, before_proposal"),
        ({"conditions": {"players": [5, 6]}, "table": {"seats": ["small"] * 6}}, "/table/seats", "5 players"),
        ({"conditions": {"model": ["tiny"]}}, "/conditions/model", "'tiny' is no model"),
        ({"conditions": {"profile": ["chess"]}}, "/conditions/profile", "interintent, official"),
        ({"conditions": {"cell": ["a"]}}, "/conditions/cell", "labels every game already"),
        ({"cells": [{"preset": "paper"}]}, "/cells", "not both"),
        ({"conditions": {}, "cells": [{"preset": "paper"}, {"memory": "all"}]}, "/cells", "same factors"),
        ({"exclusions": {"cells": [{"preset": "loud"}]}}, "/exclusions/cells/0/preset", "no condition has"),
        ({"models": {"evil": {}}, "table": {"seats": "evil"}}, "/models/evil", "name of a side"),
        ({"models": {"small": {"agent": "random", "preset": "x"}, "large": {}}}, "/models/small", "for llm"),
        ({"evaluations": [{"kind": "judge", "dimension": "guessing", "model": "large"}]}, "/evaluations/0",
         "selection, following or statements, got guessing"),
        ({"evaluations": [{"kind": "raters"}]}, "/evaluations/0", "file"),
        ({"questions": [{"text": "?", "contrast": "preset"}]}, "/questions/0/contrast",
         "a column and the values compared, such as preset=paper,direct"),
        ({"conditions": {"evil": {"preset": ["paper"]}}}, "/conditions/evil",
         'a name with a dot is quoted: "evil.preset"'),
        ({"budget": {"max_cost": -1}}, "/budget/max_cost", "greater than 0"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place_and_what_is_allowed(
    changed: dict[str, Any], pointer: str, words: str
) -> None:
    at, said = fault_of(**changed)
    assert at == pointer
    assert words in said


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(InvalidStudy) as caught:
        study_from(values(design={"games": "four", "seating": "none"}, title=""))
    assert {pointer for pointer, _ in caught.value.faults} == {"/title", "/design/games", "/design/seating"}


def test_text_that_is_not_toml_is_told_with_its_line() -> None:
    with pytest.raises(InvalidStudy, match=r"not TOML: .*line 2"):
        read_study('title = "a"\nmodels = \n')


def test_conditions_are_crossed_and_combinations_left_out() -> None:
    crossed = study(
        conditions={"preset": ["paper", "direct"], "memory": ["summaries", "speeches"]},
        exclusions={"cells": [{"preset": "direct", "memory": "speeches"}]},
    )
    assert crossed.settings() == [
        {"preset": "paper", "memory": "summaries"},
        {"preset": "paper", "memory": "speeches"},
        {"preset": "direct", "memory": "summaries"},
    ]


def test_values_of_factors_become_labels() -> None:
    assert [label_of(value) for value in ("paper", True, 3, 0.5, ["a", "b"], [], {"loyal": "a"})] == [
        "paper", "true", "3", "0.5", "a+b", "none", "loyal:a",
    ]  # fmt: skip


def test_the_published_schema_is_that_of_the_reader() -> None:
    published = json.loads((ROOT / "openapi" / "study.json").read_text("utf-8"))
    assert published == schema(), "write it anew: interintent study schema > openapi/study.json"


def test_a_question_may_name_a_condition_as_the_file_does() -> None:
    question = {"text": "?", "contrast": "evil.preset=paper,direct x small.memory=a,b", "where": "side=evil"}
    (asked,) = study_from(values(questions=[question])).questions
    assert asked.contrast == "evil_preset=paper,direct x small_memory=a,b"
    assert asked.where == "side=evil"


def test_a_question_may_quote_the_values_compared() -> None:
    for contrast in ('mood="a=b",c', 'mood=c,"a=b"', 'mood="a, b","c x d"'):
        (asked,) = study_from(values(questions=[{"text": "?", "contrast": contrast}])).questions
        assert asked.contrast == contrast


def test_a_file_that_would_take_all_time_and_memory_is_refused_at_once() -> None:
    table = 'title = "T"\n[models.a]\n[table]\nseats = "a"\n[design]\ngames = 100_000\n'
    values = ", ".join(map(str, range(40)))
    for text, why in (
        ("steps = " + "[" * 3_000 + "]" * 3_000, "nested too deeply"),
        ("\n".join(f"option_{one} = [{values}]" for one in "abc"), "6,400,000,000 games|64,000 cells"),
        ("\n".join(f"option_{one} = [{values}]" for one in "abcdef"), "4,096,000,000 combinations"),
        (f"option_a = [{values}]", "4,000,000 games of all cells"),
    ):
        with pytest.raises(InvalidStudy, match=why):
            read_study(f"{table}[conditions]\n{text}\n")
