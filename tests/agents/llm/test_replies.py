"""Answers read field by field: what is taken as it is, what is mapped, and what is never guessed."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from agents.llm.fields import LONGEST_TEXT, Fields, UnusableReply, close_intention
from agents.llm.options import SeatOptions
from agents.llm.replies import (
    FULL,
    belief_shape,
    card_shape,
    first_pass_shape,
    generated_shape,
    modification_shape,
    one_pass_shape,
    proposal_shape,
    readings_shape,
    second_pass_shape,
    selection_shape,
    speech_shape,
    summary_questions,
    summary_shape,
    target_shape,
    vote_shape,
)
from agents.model.request import can_be_strict
from engine.intentions import BY_ID, CATALOGUE
from engine.profile import make_profile
from engine.terms import Role, Side
from tests.agents.llm.models import noise, played

NAMES = ("Player 1", "Player 2", "Carla", "Dmitri", "Player 5")
MENU = ("defend_self", "support_proposal", "counter_evil_on_team")


def fields(value: object, *, loose: bool = False) -> Fields:
    return Fields(value, NAMES, loose=loose)


SELECTION = selection_shape(MENU, 2, 3)
BELIEF = belief_shape(4, (Role.MERLIN, Role.ASSASSIN), MENU, 2, 3)
READINGS = readings_shape((Role.MERLIN, Role.ASSASSIN))
FIRST_PASS = first_pass_shape(
    (2, 3),
    lambda seat: belief_shape(seat, (Role.MERLIN,), MENU, 2, 3),
    SELECTION,
    speech_shape("draft"),
)
SECOND_PASS = second_pass_shape((Role.MERLIN,), modification_shape(MENU, 2, 3), speech_shape("final"), FULL)
SHAPES: dict[str, Any] = {
    "belief": BELIEF,
    "belief without role": belief_shape(4, (), MENU, 2, 3),
    "selection": SELECTION,
    "modification": modification_shape(MENU, 2, 3),
    "generated": generated_shape("modification", 2, 3, lambda words: None),
    "formulation": speech_shape("formulation"),
    "refinement with a team": speech_shape("refinement", size=2, players=5),
    "readings": READINGS,
    "first pass": FIRST_PASS,
    "second pass": SECOND_PASS,
    "one pass": one_pass_shape(FIRST_PASS, SECOND_PASS),
    "proposal": proposal_shape("proposal", 3, 5, talks=True),
    "vote": vote_shape(),
    "card": card_shape(may_fail=True),
    "card of loyal": card_shape(may_fail=False),
    "assassination": target_shape((1, 2), may_hold=False),
    "assassination or not": target_shape((1, 2), may_hold=True),
    "summary": summary_shape(("leader", "team")),
}


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_form_is_a_schema_that_providers_take_strictly(name: str) -> None:
    form = SHAPES[name].form
    jsonschema.Draft202012Validator.check_schema(form.schema)
    assert can_be_strict(form.schema)
    assert form.name.replace("_", "").isalpha()


@pytest.mark.parametrize("name", list(SHAPES))
def test_the_sketch_names_every_field_of_the_form(name: str) -> None:
    sketch = SHAPES[name].sketch
    assert "\n" not in sketch
    for field in SHAPES[name].form.schema["properties"]:
        assert f'"{field}": ' in sketch


def test_sketches_read_like_the_answers_they_ask_for() -> None:
    assert vote_shape().sketch == '{"explanation": <why, privately>, "vote": "agree"|"disagree"}'
    assert proposal_shape("proposal", 2, 5, talks=False).sketch == (
        '{"explanation": <why, privately>, "team": <text with 2 seat numbers, ascending, such as "1 2">}'
    )


@pytest.mark.parametrize(
    ("said", "approves"),
    [("agree", True), ("Disagree.", False), (" AGREE ", True), ("yes", True), (True, True), (False, False),
     ("reject", False), ("approve!", True)],
)  # fmt: skip
def test_a_vote_is_read_from_its_words(said: object, approves: bool) -> None:
    assert vote_shape().read(fields({"vote": said, "explanation": "so"})).choice is approves


@pytest.mark.parametrize(
    ("said", "approves"),
    [("I agree", True), ("agre", True), ("I vote disagree on this", False), ("strongly disagree", False)],
)
def test_a_vote_that_is_nearly_a_word_is_mapped_only_when_asking_again_did_not_help(
    said: str, approves: bool
) -> None:
    with pytest.raises(UnusableReply):
        vote_shape().read(fields({"vote": said, "explanation": "so"}))
    assert vote_shape().read(fields({"vote": said}, loose=True)).choice is approves


@pytest.mark.parametrize(
    "said",
    ["I do not agree", "agree or disagree", "maybe", "", None, 1, ["agree"], {"agree": True}, "no way, yes"],
)
def test_a_vote_without_a_clear_meaning_is_never_guessed(said: object) -> None:
    for loose in (False, True):
        with pytest.raises(UnusableReply):
            vote_shape().read(fields({"vote": said, "explanation": "so"}, loose=loose))


@pytest.mark.parametrize("said", [4, 4.0, "4", "seat 4", "Seat 4", "Dmitri", "dmitri."])
def test_a_seat_is_read_by_number_or_by_name(said: object) -> None:
    shape = target_shape((1, 2, 4), may_hold=False)
    assert shape.read(fields({"target": said, "explanation": "so"})).choice == 4


@pytest.mark.parametrize("said", ["number 4", "Seat number 4!", "Dimitri", "I shoot seat 4"])
def test_a_seat_that_is_nearly_named_is_mapped_in_the_end(said: str) -> None:
    shape = target_shape((1, 2, 4), may_hold=False)
    assert shape.read(fields({"target": said, "explanation": "so"}, loose=True)).choice == 4


@pytest.mark.parametrize("said", [0, 3, 99, True, 4.5, "1 or 4", "nobody", None, "Merlin", "Player"])
def test_a_seat_that_is_not_open_or_not_clear_is_never_guessed(said: object) -> None:
    for loose in (False, True):
        with pytest.raises(UnusableReply, match="number of one of the seats 1, 2, 4"):
            target_shape((1, 2, 4), may_hold=False).read(fields({"target": said}, loose=loose))


@pytest.mark.parametrize("said", [None, "null", "none"])
def test_holding_fire_is_said_with_null(said: object) -> None:
    shape = target_shape((1, 2), may_hold=True)
    assert shape.read(fields({"target": said, "explanation": "so"})).choice is None


def test_a_missing_target_is_no_decision_to_hold_fire() -> None:
    for loose in (False, True):
        with pytest.raises(UnusableReply):
            target_shape((1, 2), may_hold=True).read(fields({"explanation": "so"}, loose=loose))


@pytest.mark.parametrize("said", ["1 3", "3, 1", [3, 1], ["Carla", "Player 1"], ["3", 1.0]])
def test_a_team_is_read_ascending(said: Any) -> None:
    shape = proposal_shape("proposal", 2, 5, talks=False)
    assert shape.read(fields({"team": said, "explanation": "so"})).team == (1, 3)


@pytest.mark.parametrize("said", ["1 and 3", "Player 1 and seat 3", [1, 3, 3]])
def test_a_team_whose_meaning_is_clear_is_mapped_in_the_end(said: Any) -> None:
    shape = proposal_shape("proposal", 2, 5, talks=False)
    with pytest.raises(UnusableReply):
        shape.read(fields({"team": said, "explanation": "so"}))
    assert shape.read(fields({"team": said}, loose=True)).team == (1, 3)


@pytest.mark.parametrize(
    "said",
    [[1], [1, 2, 3], [1, 1], [1, 9], [1, None], "us two", None, [], [0, 1], "1", "1 2 3", "1 1", "0 1", "12"],
)
def test_a_team_of_the_wrong_size_is_never_cut_or_filled(said: Any) -> None:
    for loose in (False, True):
        with pytest.raises(UnusableReply, match="a text with 2 different seat numbers"):
            proposal_shape("proposal", 2, 5, talks=False).read(fields({"team": said}, loose=loose))


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.id)
def test_an_intention_is_read_by_id_label_and_alias(one: Any) -> None:
    other = next(id_ for id_ in BY_ID if id_ != one.id)
    shape = selection_shape((one.id, other), 2, 2)
    for wording in (one.id, one.label, one.label.upper() + ".", *one.aliases):
        chosen = [{"intention": wording, "reason": "a"}, {"intention": other, "reason": "b"}]
        assert shape.read(fields({"intentions": chosen})).ids == {one.id, other}


def test_an_intention_is_mapped_by_a_close_match_alone() -> None:
    menu = tuple(BY_ID)
    close = "Counter the team proposal because I think that a player on the team is evil"
    assert close_intention(close, menu) == "counter_evil_on_team"
    assert close_intention("support the proposal of the team", menu) == "support_proposal"
    assert close_intention("Tell a joke about knights", menu) is None
    # Clear, but not on the menu.
    assert close_intention("Express you are a loyal player", ("defend_self",)) is None


def test_strictly_a_selection_has_its_number_and_no_doubles() -> None:
    for chosen in (["defend_self"], [*MENU, "defend_self"], ["defend_self", "defend_self"], ["fly", "hide"]):
        value = {"intentions": [{"intention": one, "reason": ""} for one in chosen]}
        with pytest.raises(UnusableReply):
            SELECTION.read(fields(value))


def test_a_selection_that_names_an_intention_twice_is_told_which() -> None:
    value = {"intentions": [{"intention": "defend_self", "reason": ""}] * 2}
    with pytest.raises(UnusableReply, match="different intentions, but defend_self is in it twice"):
        SELECTION.read(fields(value))


@pytest.mark.parametrize(
    ("given", "strictly", "in_the_end"),
    [("a b", "a b", "a b"), (None, "", ""), (["a", "b"], None, "a b"), (7, None, ""), ([7], None, "")],
)
def test_the_reason_of_a_first_selection_costs_no_turn(
    given: Any, strictly: str | None, in_the_end: str
) -> None:
    chosen = [{"intention": one, "reason": "a"} for one in MENU[:2]]
    value = {"situation": given, "intentions": chosen}
    if strictly is None:
        with pytest.raises(UnusableReply, match="situation"):
            SELECTION.read(fields(value))
    else:
        assert SELECTION.read(fields(value)).why == strictly
    assert SELECTION.read(fields(value, loose=True)).why == in_the_end


def test_reasons_in_a_list_are_kept_in_the_end() -> None:
    chosen = [{"intention": one, "reason": ["so", "it is"]} for one in MENU[:2]]
    read = modification_shape(MENU, 2, 3).read(fields({"intentions": chosen, "why": ["a", "b"]}, loose=True))
    assert read.why == "a b"
    assert {one.reason for one in read.choices} == {"so it is"}


def test_answers_to_the_first_version_of_the_prompts_are_read() -> None:
    chosen = [{"intention": one, "reason": "a"} for one in MENU[:2]]
    assert SELECTION.read(fields({"intentions": chosen})).why == ""
    told = {"readings": {"merlin": "a", "assassin": "b"}, "reveals_role": True}
    assert READINGS.read(fields(told)).reveals_role
    old = ("leader", "team", "why_team", "disagreed", "result", "protect", "next")
    shape = summary_shape(summary_questions(Side.EVIL, hunted=True))
    assert shape.read(fields(dict.fromkeys(old, "so"))) == tuple((name, "so") for name in old)
    with pytest.raises(UnusableReply, match="disagreed"):
        shape.read(fields({"leader": "so", "team": "so", "why_team": "so"}))


def test_in_the_end_a_selection_keeps_what_is_clear() -> None:
    value = {"intentions": ["defend self", {"intention": "fly"}, {"intention": "Support team proposal"}, 7]}
    assert SELECTION.read(fields(value, loose=True)).ids == {"defend_self", "support_proposal"}
    with pytest.raises(UnusableReply):
        SELECTION.read(fields({"intentions": ["fly", "hide"]}, loose=True))


def belief(**changed: Any) -> dict[str, Any]:
    return {
        "snippets": ["I am good"],
        "reasoning": "so",
        "role": "merlin",
        "intentions": ["defend_self", "support_proposal"],
        "confidence": 3,
        **changed,
    }


def test_a_belief_is_read() -> None:
    read = BELIEF.read(fields(belief()))
    assert (read.about, read.role, read.confidence) == (4, Role.MERLIN, 3)
    assert read.intentions == ("defend_self", "support_proposal")
    assert read.snippets == ("I am good",)


@pytest.mark.parametrize(
    "changed",
    [{"role": "percival"}, {"role": None}, {"confidence": 6}, {"confidence": -1}, {"confidence": "high"},
     {"confidence": True}, {"intentions": []}, {"intentions": "none"}],
)  # fmt: skip
def test_a_belief_that_was_not_asked_for_is_refused(changed: dict[str, Any]) -> None:
    for loose in (False, True):
        with pytest.raises(UnusableReply, match=next(iter(changed))):
            BELIEF.read(fields(belief(**changed), loose=loose))


def test_confidence_as_a_fraction_is_mapped_in_the_end() -> None:
    assert BELIEF.read(fields(belief(confidence="4/5"), loose=True)).confidence == 4
    assert (
        BELIEF.read(
            fields(belief(confidence="3")),
        ).confidence
        == 3
    )


@pytest.mark.parametrize("value", [None, "agree", [], 7, [{"vote": "agree"}, {"vote": "agree"}]])
def test_an_answer_without_an_object_is_none(value: object) -> None:
    with pytest.raises(UnusableReply, match="must be one JSON object"):
        vote_shape().read(fields(value))


def test_a_wrapped_object_is_unwrapped_in_the_end() -> None:
    for value in ([{"vote": "agree", "explanation": "so"}], {"answer": {"vote": "agree"}}):
        assert vote_shape().read(fields(value, loose=True)).choice is True


def test_field_names_are_read_whatever_their_case() -> None:
    value = {"Why": "so", "Intentions": [{"Intention": one, "Reason": "a"} for one in MENU[:2]]}
    assert modification_shape(MENU, 2, 3).read(fields(value)).ids == set(MENU[:2])


def test_a_text_far_too_long_is_refused_and_not_cut() -> None:
    shape = speech_shape("direct", thinks=False)
    assert shape.read(fields({"speak": "x" * LONGEST_TEXT})).speak == "x" * LONGEST_TEXT
    for loose in (False, True):
        with pytest.raises(UnusableReply, match="too long"):
            shape.read(fields({"speak": "x" * (LONGEST_TEXT + 1)}, loose=loose))


def test_what_no_text_may_hold_is_shown_as_a_replacement_character() -> None:
    speak = speech_shape("direct", thinks=False).read(fields({"speak": "a\x00b\ud800c\x1bd\te\nf"})).speak
    assert speak == "a\ufffdb\ufffdc\ufffdd\te\nf"


def test_a_fault_names_the_field_what_is_expected_and_what_came() -> None:
    with pytest.raises(UnusableReply) as fault:
        SELECTION.read(fields({"intentions": [{"intention": "fly\n<b>", "reason": ""}]}))
    assert str(fault.value) == (
        '"intentions/0/intention" must be an intention id out of defend_self, support_proposal, '
        'counter_evil_on_team, got "fly\\n\\u003cb\\u003e".'
    )


def longest(schema: Mapping[str, Any], root: Mapping[str, Any]) -> int:
    """Characters of the longest JSON of a form."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "enum" in schema:
        return max(len(json.dumps(one)) for one in schema["enum"])
    match schema["type"]:
        case "object":
            named = schema["properties"].items()
            return 2 + sum(len(json.dumps(name)) + 4 + longest(one, root) for name, one in named)
        case "array":
            return 2 + int(schema["maxItems"]) * (2 + longest(schema["items"], root))
        case "boolean":
            return 5
        case _:
            return int(schema["maxLength"]) + 2


@pytest.mark.parametrize("mechanism", ["paper", "one_pass", "two_pass"])
@pytest.mark.parametrize("selection", ["catalogue", "generated"])
@pytest.mark.parametrize("players", [5, 10])
async def test_no_answer_of_an_asked_form_can_be_cut_off(
    mechanism: str, selection: str, players: int
) -> None:
    # A server that keeps to the schema ends an answer within its bounds: whatever a model rambles, it has
    # to fit into the tokens that it is given, at four characters a token.
    options = {"mechanism": mechanism, "selection": selection}
    _, sessions = await played(make_profile("interintent", players), 3, noise(), options)
    schemas = [one.form.schema for session in sessions.values() for one in session.sent]
    assert max(longest(one, one) for one in schemas) <= 4 * SeatOptions().max_output_tokens


REASONS = {"explanation", "why_team", "why", "reason", "reasoning", "think"}
DECISIONS = {"team", "vote", "card", "target", "intention", "role"}


def objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object within a form."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("properties"), Mapping):
            yield schema["properties"]
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


@pytest.mark.parametrize("mechanism", ["paper", "one_pass", "two_pass", "direct"])
async def test_a_reason_stands_before_each_decision_and_a_hundred_words_have_room(mechanism: str) -> None:
    _, sessions = await played(make_profile("interintent", 5), 3, noise(), {"mechanism": mechanism})
    asked = {one.form.name: one.form.schema for session in sessions.values() for one in session.sent}
    decisions = 0
    for name, schema in asked.items():
        for properties in objects(schema):
            names = list(properties)
            for at, decision in enumerate(names):
                # What a summary says of the team is no decision.
                if decision in DECISIONS and "leader" not in properties:
                    decisions += 1
                    assert REASONS & set(names[:at]), (name, names)
            for one in properties.values():
                if "about 100 words" in one.get("description", ""):
                    assert one["maxLength"] >= (900 if mechanism == "one_pass" else 1000), name
    assert decisions >= 4
