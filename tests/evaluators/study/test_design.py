"""Cells and their games: balance, pairs, and what identifies a cell."""

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.terms import side_of
from evaluators.study.design import Design, designed, imbalances, unpaired
from evaluators.study.file import InvalidStudy
from tests.evaluators.study.studies import study

NAMES = ("a", "b", "c", "d")


def design(**changed: Any) -> Design:
    return designed(study(**changed), {})


def only(**changed: Any) -> str:
    """The id of the only cell of a study without conditions."""
    (cell,) = design(**{"conditions": {}, **changed}).cells
    return cell.id


@settings(max_examples=40)
@given(st.data())
def test_mirrored_models_hold_each_seat_role_and_side_equally_often(data: Any) -> None:
    models = NAMES[: data.draw(st.integers(2, 4))]
    seats = data.draw(
        st.one_of(
            st.lists(st.sampled_from(models), min_size=5, max_size=5),
            st.fixed_dictionaries({"loyal": st.sampled_from(models), "evil": st.sampled_from(models)}),
            st.fixed_dictionaries({"merlin": st.sampled_from(models), "others": st.sampled_from(models)}),
        )
    )
    sitting = set(seats.values() if isinstance(seats, dict) else seats)
    made = design(
        models={name: {} for name in models},
        table={"seats": seats},
        design={"games": 3 * len(sitting), "seed": data.draw(st.integers(0, 2**40))},
    )
    for cell in made.cells:
        held: dict[Any, Counter[str]] = {}
        for game in made.games(cell):
            for seat, (name, role) in enumerate(zip(game.models, game.roles, strict=True), 1):
                for place in (seat, role, side_of(role)):
                    held.setdefault(place, Counter())[name] += 1
        for counts in held.values():
            assert set(counts) == sitting
            assert len(set(counts.values())) == 1
    assert imbalances(made) == []


def test_cells_are_paired_by_seed_and_seating() -> None:
    made = design()
    first, second = (list(made.games(cell)) for cell in made.cells)
    assert [(game.seed, game.models, game.roles) for game in first] == [
        (game.seed, game.models, game.roles) for game in second
    ]
    assert [game.seed for game in first] == [1, 1, 2, 2]
    assert not {game.id for game in first} & {game.id for game in second}


def test_half_a_mirror_is_told() -> None:
    told = [str(one) for one in imbalances(design(design={"games": 3}, conditions={}))]
    assert "all games: loyal is held unequally often (small 5, large 4)" in told


def test_who_always_holds_a_side_is_told() -> None:
    fixed = design(
        table={"seats": {"loyal": "small", "evil": "large"}},
        design={"games": 2, "seating": "fixed"},
        conditions={},
    )
    assert "all games: evil is held unequally often (small 0, large 4)" in map(str, imbalances(fixed))


def test_rotation_moves_everybody_by_one_seat() -> None:
    made = design(design={"games": 6, "seating": "rotated"}, conditions={})
    games = list(made.games(made.cells[0]))
    assert games[1].models == (games[0].models[-1], *games[0].models[:-1])
    assert games[5].models == games[0].models
    assert [game.id.rpartition("_")[2] for game in games] == ["1", "2r1", "3r2", "4r3", "5r4", "6"]


def test_conditions_change_the_seats_of_a_side_a_role_or_a_model() -> None:
    made = design(conditions={"preset": ["paper"], "evil.preset": ["direct"], "merlin.memory": ["speeches"],
                              "large.temperature": [0.1]})  # fmt: skip
    game = next(made.games(made.cells[0]))
    for spec, name, role in zip(game.seats, game.models, game.roles, strict=True):
        assert spec["model"] == name
        assert spec["mechanism"] == ("direct" if side_of(role) == "evil" else "paper")
        assert ("memory" in spec["options"]) == (role == "merlin")
        assert ("temperature" in spec["options"]) == (name == "large")


def test_a_condition_of_a_side_counts_before_one_of_a_model() -> None:
    made = design(conditions={"evil.temperature": [0.2], "small.temperature": [0.1]})
    given = {
        (name, side_of(role).value, spec["options"].get("temperature"))
        for game in made.games(made.cells[0])
        for spec, name, role in zip(game.seats, game.models, game.roles, strict=True)
    }
    assert given == {
        ("small", "loyal", 0.1),
        ("small", "evil", 0.2),
        ("large", "loyal", None),
        ("large", "evil", 0.2),
    }


@pytest.mark.parametrize(
    "condition",
    [{"evil.model": ["large", "small"]}, {"model": [{"loyal": "small", "evil": "large"}, "small"]}],
)
def test_a_condition_sets_the_model_of_a_side_in_every_game(condition: dict[str, Any]) -> None:
    # Models do not pass on their seats here, though they would if nothing was said of it.
    made = design(table={"seats": "small"}, conditions=condition)
    for game in made.games(made.cells[0]):
        expected = {"loyal": "small", "evil": "large"}
        assert game.models == tuple(expected[side_of(role)] for role in game.roles)
    deals = [[game.seed for game in made.games(cell)] for cell in made.cells]
    assert deals == [[1, 2, 3, 4]] * 2
    assert unpaired(made) == ""


def test_deals_that_only_some_cells_play_are_told() -> None:
    made = design(conditions={"model": ["small", ["small", "large", "small", "large", "small"]]})
    assert "2 of 4 deals are played in every cell" in unpaired(made)
    assert unpaired(design()) == ""


def test_a_mechanism_with_steps_of_its_own_is_refused() -> None:
    with pytest.raises(InvalidStudy, match="one_pass has its own steps"):
        design(conditions={"preset": ["one_pass"], "steps": [["formulation"]]})


def test_two_cells_that_play_the_same_games_are_refused() -> None:
    with pytest.raises(InvalidStudy, match="play the same games"):
        design(conditions={"discussion": ["after_proposal", "after_proposal"]})


def test_cells_that_differ_in_what_no_seat_takes_are_refused() -> None:
    scripts = {"clever": {"agent": "scripted"}}
    with pytest.raises(InvalidStudy, match="changes no seat and no rule"):
        design(models=scripts, table={"seats": "clever"}, conditions={"temperature": [0, 1]})
    with pytest.raises(InvalidStudy, match="changes no seat and no rule"):
        design(conditions={"mordred.memory": ["summaries", "speeches"]})


# --- identity -----------------------------------------------------------------------------------------


def test_the_identity_of_a_cell_is_the_same_as_ever() -> None:
    # If this fails, every study's paid games are lost to it: raise IDENTITY on purpose, or mend the change.
    assert [cell.id for cell in design().cells] == GOLDEN


GOLDEN = ["07e1140fcb5a", "2867d7ead338"]


@pytest.mark.parametrize(
    "changed",
    [
        {"title": "Another", "about": "words"},
        {"design": {"games": 400}},
        {"design": {"games": 4, "seed": 9, "seating": "fixed"}},
        {"budget": {"max_cost": 5.0, "parallel": 2}},
        {"exclusions": {"defaults_above": 0.2}},
        {"questions": [{"text": "?", "contrast": "preset=a,b"}]},
        {"evaluations": [{"kind": "judge", "dimension": "selection", "model": "x"}]},
        {"models": {"small": {}, "large": {}, "unused": {"options": {"temperature": 1}}}},
        {"models": {"tiny": {"endpoint": "small"}, "big": {"endpoint": "large"}},
         "table": {"seats": ["tiny", "big", "tiny", "big", "tiny"]}},
        {"table": {"seats": ["small", "large", "small", "large", "small"], "rules": {"summaries": True}}},
        {"conditions": {"profile": ["interintent"]}},
    ],
)  # fmt: skip
def test_what_changes_no_result_leaves_the_identity(changed: dict[str, Any]) -> None:
    assert only(**changed) == only()


def test_what_changes_results_changes_the_identity() -> None:
    seats = ["small", "large", "small", "large", "small"]
    ids = [
        only(),
        only(models={"small": {"options": {"temperature": 0.1}}, "large": {}}),
        only(models={"small": {"preset": "direct"}, "large": {}}),
        only(models={"small": {"model": "tiny-1"}, "large": {}}),
        only(table={"seats": seats, "options": {"memory": "speeches"}}),
        only(table={"seats": seats, "rules": {"summaries": False}}),
        only(table={"seats": seats, "profile": "official"}),
        only(table={"seats": ["large", *seats[1:]]}),
        only(table={"seats": "small"}),
        only(table={"seats": seats, "roles": ["merlin", "servant", "servant", "morgana", "assassin"]}),
        only(conditions={"preset": ["direct"]}),
        only(conditions={"evil.preset": ["direct"]}),
        only(conditions={"small.preset": ["direct"]}),
    ]
    assert len(set(ids)) == len(ids)


def test_other_words_of_own_prompts_are_another_cell() -> None:
    own = study(conditions={"prompts": ["mine"]}, prompts={"mine": "prompts"})
    ids = {designed(own, {"mine": words}).cells[0].id for words in ("0011", "0022")}
    assert len(ids) == 2


def test_more_games_begin_with_the_same_ones() -> None:
    few, many = design(), design(design={"games": 40})
    for one, other in zip(few.cells, many.cells, strict=True):
        games = list(many.games(other))
        assert games[: len(list(few.games(one)))] == list(few.games(one))
        assert len({game.id for game in games}) == 40


def test_games_of_all_cells_come_side_by_side() -> None:
    made = design()
    order = [cell.id for cell, _ in made.all_games()]
    assert order in [list(pair) * 4 for pair in permutations(cell.id for cell in made.cells)]
    assert made.size == 8
