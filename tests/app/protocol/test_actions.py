"""The reader of seats' actions, without a server: what it accepts and refuses, and which place it reports."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.protocol.actions import (
    MAX_THOUGHTS,
    AssassinateAction,
    CardAction,
    ProposeTeamAction,
    ReconsiderAction,
    SpeakAction,
    SummariseAction,
    ThoughtsRead,
    VoteAction,
    action_schema,
    engine_action,
    legal_actions,
    pointer_of,
    read_action,
    read_thoughts,
    shown_action,
    stored_action,
    text_fault,
    thoughts_schema,
)
from engine.actions import (
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.errors import InvalidAction
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    SpeechDrafted,
    Thought,
)
from engine.profile import make_profile
from engine.rules import Request, check_note, create, default, pending
from engine.state import State, fold
from engine.terms import Kind, Role
from engine.thoughts import Belief, Choice, Reading

Sent = dict[str, Any]

WHY: Sent = {"type": "choice_explained", "text": "Because."}
BELIEFS: Sent = {"type": "beliefs_formed", "beliefs": []}
READINGS: Sent = {"type": "readings_imagined", "readings": [], "reveals_role": False}
CHOSEN: Sent = {"type": "intentions_selected", "stage": "first", "intentions": []}
DRAFT: Sent = {"type": "speech_drafted", "stage": "formulation", "think": "Hm.", "speak": "Us."}


@pytest.fixture(scope="module")
def asked() -> tuple[State, Request]:
    """Five seats, the first of which speaks beside its proposal, and so has a menu of intentions."""
    state = fold(create(make_profile("interintent", 5), 1))
    [request] = pending(state)
    return state, request


def read(asked: tuple[State, Request], *thoughts: Any) -> ThoughtsRead:
    state, request = asked

    def check(thought: Thought, pointer: str) -> None:
        check_note(state.table, state.hand(request.seat), thought, pointer)

    return read_thoughts(request, list(thoughts), check)


def refused(asked: tuple[State, Request], *thoughts: Any) -> list[str]:
    return [fault.pointer for fault in read(asked, *thoughts).refused]


# --- actions --------------------------------------------------------------------------------------

ACTIONS: list[tuple[Kind, Sent, Any, SeatAction]] = [
    (
        Kind.PROPOSE_TEAM,
        {"team": [3, 1], "text": "Us."},
        ProposeTeamAction(team=[3, 1], text="Us."),
        ProposeTeam((3, 1), "Us."),
    ),
    (Kind.PROPOSE_TEAM, {"team": [3, 1]}, ProposeTeamAction(team=[3, 1]), ProposeTeam((3, 1), "")),
    (Kind.SPEAK, {"text": "Well."}, SpeakAction(text="Well."), Speak("Well.")),
    (Kind.RECONSIDER, {"team": [10]}, ReconsiderAction(team=[10]), Reconsider((10,), "")),
    (Kind.VOTE, {"approve": True}, VoteAction(approve=True), CastVote(True)),
    (Kind.VOTE, {"approve": False}, VoteAction(approve=False), CastVote(False)),
    (Kind.CARD, {"success": True}, CardAction(success=True), PlayCard(True)),
    (Kind.CARD, {"success": False}, CardAction(success=False), PlayCard(False)),
    (
        Kind.SUMMARISE,
        {"answers": {"b": "1", "a": ""}},
        SummariseAction(answers={"b": "1", "a": ""}),
        Summarise((("b", "1"), ("a", ""))),
    ),
    (Kind.ASSASSINATE, {"target": 3}, AssassinateAction(target=3), Assassinate(3)),
    (Kind.ASSASSINATE, {"target": None}, AssassinateAction(target=None), Assassinate(None)),
]


@pytest.mark.parametrize(("kind", "sent", "model", "action"), ACTIONS)
def test_an_action_is_read_as_it_was_sent_and_shown_as_it_was_read(
    kind: Kind, sent: Sent, model: Any, action: SeatAction
) -> None:
    found = read_action(kind, sent)
    assert found == model
    assert engine_action(found) == action
    assert shown_action(action) == sent


@pytest.mark.parametrize(
    ("kind", "sent", "pointer"),
    [
        (Kind.VOTE, {"approve": 1}, "/approve"),
        (Kind.VOTE, {}, "/approve"),
        (Kind.VOTE, [True], ""),
        (Kind.CARD, {"success": True, "approve": True}, "/approve"),
        (Kind.PROPOSE_TEAM, {"team": []}, "/team"),
        (Kind.PROPOSE_TEAM, {"team": list(range(1, 12))}, "/team"),
        (Kind.PROPOSE_TEAM, {"team": [1, 0]}, "/team/1"),
        (Kind.PROPOSE_TEAM, {"team": [1, 11]}, "/team/1"),
        (Kind.PROPOSE_TEAM, {"team": [True, 2]}, "/team/0"),
        (Kind.SPEAK, {"text": "x" * 4_001}, "/text"),
        (Kind.SPEAK, {"text": "x", "~/": 1}, "/~0~1"),
        (Kind.SPEAK, {"text": "x", "~1": 1}, "/~01"),
        (Kind.ASSASSINATE, {}, "/target"),
        (Kind.SUMMARISE, {"answers": {"~/a": 1}}, "/answers/~0~1a"),
        (Kind.SUMMARISE, {"answers": {"x" * 65: "y"}}, f"/answers/{'x' * 65}"),
        (Kind.SUMMARISE, {"answers": {"": "y"}}, "/answers/"),
        (Kind.SUMMARISE, {"answers": {str(n): "" for n in range(21)}}, "/answers"),
        (Kind.SUMMARISE, {"answers": {"a\n": "1", "a\r\n": "2"}}, "/answers"),
        # Two faults: the first is told. A name is a name, also where thoughts have a type of it.
        (Kind.PROPOSE_TEAM, {"team": [0, 11], "text": 1}, "/team/0"),
        (Kind.VOTE, {"approve": True, "beliefs_formed": 1}, "/beliefs_formed"),
        # The way goes on to a key that is no text, and ends before it.
        (Kind.SUMMARISE, {"answers": {"\0": "y"}}, "/answers"),
    ],
)
def test_an_invalid_action_is_refused_with_its_place(kind: Kind, sent: Any, pointer: str) -> None:
    with pytest.raises(InvalidAction) as refusal:
        read_action(kind, sent)
    assert refusal.value.pointer == pointer


def test_a_key_that_comes_twice_is_refused_in_our_own_words() -> None:
    with pytest.raises(InvalidAction, match=r"^an object repeats a key; CRLF counts as LF$"):
        read_action(Kind.SUMMARISE, {"answers": {"a\n": "1", "a\r\n": "2"}})


def test_limits_of_an_action_are_within_it() -> None:
    answers = {"x" * 64: "y" * 4_000, **{str(n): "" for n in range(19)}}
    assert read_action(Kind.SUMMARISE, {"answers": answers}) == SummariseAction(answers=answers)
    seats = list(range(1, 11))
    assert read_action(Kind.PROPOSE_TEAM, {"team": seats}) == ProposeTeamAction(team=seats)


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ((), ""),
        (("team", 0), "/team/0"),
        # RFC 6901: ~ is ~0 and / is ~1, in this order; an empty name is a part too.
        (("a~b/c", "~1", ""), "/a~0b~1c/~01/"),
        (("answers", "who", "[key]"), "/answers/who"),
        # By itself, or as the name of a member, it is a name as others are.
        (("[key]",), "/[key]"),
        (("answers", "[key]"), "/answers/[key]"),
        (("team", "\ud800", 1), "/team"),
    ],
)
def test_a_pointer_is_written_as_rfc_6901_has_it(path: tuple[str | int, ...], pointer: str) -> None:
    assert pointer_of(path) == pointer


@pytest.mark.parametrize(
    ("character", "kind"),
    [
        ("\0", "control character"),
        ("\x08", "control character"),
        ("\t", None),
        ("\n", None),
        ("\x0b", "control character"),
        ("\r", "control character"),
        ("\x1f", "control character"),
        (" ", None),
        ("~", None),
        ("\x7f", "control character"),
        ("\x80", None),
        ("\ud7ff", None),
        ("\ud800", "lone surrogate"),
        ("\udfff", "lone surrogate"),  # noqa: PT014
        ("\ue000", None),
        ("\U0010ffff", None),
    ],
)
def test_a_text_holds_no_control_character_and_no_half_of_a_pair(character: str, kind: str | None) -> None:
    fault = text_fault(f"a{character}b")
    assert fault == (None if kind is None else f"text takes no {kind}, got U+{ord(character):04X}")


def test_every_team_is_listed_as_a_legal_action_once() -> None:
    # Without words beside it, a team is the whole action: three of ten seats, 10 * 9 * 8 / 6 = 120 ways.
    state = fold(create(make_profile("official", 10, rules={"discussion": "none"}), 1))
    [request] = pending(state)
    found = legal_actions(state.table, state.hand(request.seat))
    assert found is not None
    assert len(found) == 120
    assert {tuple(sorted(action["team"])) for action in found} == {  # type: ignore[arg-type]
        (a, b, c) for a in range(1, 11) for b in range(a + 1, 11) for c in range(b + 1, 11)
    }


def test_the_largest_choice_of_teams_is_listed_too() -> None:
    # Five of ten seats: more teams than for any other size.
    rules = {"discussion": "none", "team_sizes": [5, 4, 4, 5, 5]}
    state = fold(create(make_profile("official", 10, rules=rules), 1))
    [request] = pending(state)
    found = legal_actions(state.table, state.hand(request.seat))
    assert found is not None
    assert len(found) == 252


def test_words_have_no_list_of_legal_actions() -> None:
    state = fold(create(make_profile("official", 5), 1))
    request = pending(state)[0]
    assert request.kind is Kind.SPEAK
    assert legal_actions(state.table, state.hand(request.seat)) is None


# --- the schemas of a request ---------------------------------------------------------------------


def test_the_schema_of_notes_takes_twenty_answers_under_names_of_64_characters() -> None:
    state = fold(create(make_profile("interintent", 5), 1))
    request = Request(1, Kind.SUMMARISE, 1, 1, None)
    schema = Draft202012Validator(action_schema(state.table, state.hand(1), request))
    for count, longest, fits in ((20, 64, True), (21, 64, False), (20, 65, False), (0, 0, True)):
        answers = {f"{n:0{longest}}": "x" * 4_000 for n in range(count)}
        assert schema.is_valid({"answers": answers}) is fits, (count, longest)
    assert not schema.is_valid({"answers": {"": "x"}})
    assert not schema.is_valid({"answers": {"a": "x" * 4_001}})


def test_the_schema_of_a_team_takes_seats_of_the_table_alone(asked: tuple[State, Request]) -> None:
    state, request = asked
    schema = Draft202012Validator(action_schema(state.table, state.hand(request.seat), request))
    for team, fits in (([1, 5], True), ([5, 6], False), ([0, 1], False), ([1, 1], False), ([1, 2, 3], False)):
        assert schema.is_valid({"team": team}) is fits, team


def test_the_schema_of_thoughts_names_the_other_seats_and_each_stage_once(
    asked: tuple[State, Request],
) -> None:
    state, request = asked
    schema = thoughts_schema(state.table, state.hand(1), request)
    assert schema["$defs"]["BeliefModel"]["properties"]["about"] == {"enum": [2, 3, 4, 5]}
    thoughts = Draft202012Validator(schema)
    for one in (
        BELIEFS,
        READINGS,
        CHOSEN,
        DRAFT,
        {**CHOSEN, "stage": "final"},
        {**DRAFT, "stage": "refinement"},
    ):
        assert thoughts.is_valid([one, WHY, WHY])
        assert not thoughts.is_valid([one, WHY, one])
    assert thoughts.is_valid([WHY] * 20)
    assert not thoughts.is_valid([WHY] * 21)


def test_the_schema_of_thoughts_without_a_menu_knows_no_selection(asked: tuple[State, Request]) -> None:
    state, _ = asked
    schema = thoughts_schema(state.table, state.hand(1), Request(1, Kind.VOTE, 1, 1, None))
    assert sorted(name for name in schema["$defs"] if name.endswith(("Thought", "Model"))) == [
        *("BeliefModel", "BeliefsThought", "ExplanationThought", "ReadingModel", "ReadingsThought"),
        "SpeechThought",
    ]
    thoughts = Draft202012Validator(schema)
    assert thoughts.is_valid([WHY, BELIEFS, DRAFT, READINGS])
    assert not thoughts.is_valid([CHOSEN])


# --- thoughts -------------------------------------------------------------------------------------


def test_a_thought_is_read_as_it_was_sent(asked: tuple[State, Request]) -> None:
    _, request = asked
    seat = request.seat
    menu = "support_proposal"
    belief = {"about": seat % 5 + 1, "role": "merlin", "intentions": [menu], "confidence": 5}
    belief |= {"snippets": ["I know."], "reasoning": "So."}
    sent: list[Any] = [
        {"type": "beliefs_formed", "beliefs": [belief, {"about": (seat + 1) % 5 + 1}]},
        {**CHOSEN, "seat": seat, "changed": False},
        {**CHOSEN, "stage": "final", "changed": True, "reason": "Better."},
        {"type": "speech_drafted", "stage": "refinement", "think": "Hm.", "speak": "Us."},
        {"type": "readings_imagined", "readings": [{"by": "seat 3", "text": "Oh."}], "reveals_role": True},
        WHY,
        {**WHY, "about": "vote"},
    ]
    expected = (
        BeliefsFormed(
            seat,
            (
                Belief(seat % 5 + 1, Role.MERLIN, (menu,), 5, ("I know.",), "So."),
                Belief((seat + 1) % 5 + 1, None, (), 0, (), ""),
            ),
        ),
        IntentionsSelected(seat, "first", (), False, ""),
        IntentionsSelected(seat, "final", (), True, "Better."),
        SpeechDrafted(seat, "refinement", "Hm.", "Us."),
        ReadingsImagined(seat, (Reading("seat 3", "Oh."),), True),
        # What it is about: the request that is answered, unless another is named.
        ChoiceExplained(seat, Kind.PROPOSE_TEAM, "Because."),
        ChoiceExplained(seat, Kind.VOTE, "Because."),
    )
    found = read(asked, *sent)
    assert found.refused == ()
    assert found.kept == expected
    # What is stored is what was sent, and makes the same thoughts again.
    assert list(found.sent) == sent
    stored = stored_action(request, shown_action(default(asked[0].table, request)), found.sent)
    assert stored.thoughts == expected


def test_a_final_selection_is_changed_if_the_seat_says_so(asked: tuple[State, Request]) -> None:
    for said, changed in (({}, False), ({"changed": False}, False), ({"changed": True}, True)):
        (thought,) = read(asked, {**CHOSEN, "stage": "final", **said}).kept
        assert isinstance(thought, IntentionsSelected)
        assert thought.changed is changed, said


def test_a_thought_of_one_type_and_stage_is_sent_once_and_the_first_is_kept(
    asked: tuple[State, Request],
) -> None:
    final, refined = {**CHOSEN, "stage": "final"}, {**DRAFT, "stage": "refinement"}
    assert refused(asked, BELIEFS, READINGS, CHOSEN, DRAFT, final, refined) == []
    for again in (BELIEFS, READINGS, CHOSEN, DRAFT, final, refined):
        found = read(asked, BELIEFS, READINGS, CHOSEN, DRAFT, final, refined, again)
        assert [fault.pointer for fault in found.refused] == ["/thoughts/6"], again
        assert len(found.kept) == len(found.sent) == 6
    other = {**DRAFT, "speak": "Them."}
    found = read(asked, DRAFT, other)
    assert found.sent == (DRAFT,)
    assert "speech_drafted may be sent once per stage" in found.refused[0].message


def test_a_choice_is_explained_as_often_as_thoughts_fit(asked: tuple[State, Request]) -> None:
    found = read(asked, *[WHY] * 20)
    assert (len(found.kept), found.refused) == (20, ())
    for sent in (21, 22):
        found = read(asked, *[WHY] * sent)
        assert (MAX_THOUGHTS, len(found.kept)) == (20, 20)
        [fault] = found.refused
        assert (fault.pointer, f"got {sent}" in fault.message) == ("/thoughts/20", True)


def test_a_refused_thought_does_not_use_up_its_type(asked: tuple[State, Request]) -> None:
    wrong = {**BELIEFS, "beliefs": [{"about": 99}]}
    others = {**BELIEFS, "seat": asked[1].seat % 5 + 1}
    found = read(asked, wrong, others, BELIEFS, BELIEFS)
    assert [fault.pointer for fault in found.refused] == [
        "/thoughts/0/beliefs/0/about", "/thoughts/1", "/thoughts/3"
    ]  # fmt: skip
    assert found.sent == (BELIEFS,)


def test_a_thought_is_its_own_seats(asked: tuple[State, Request]) -> None:
    own = asked[1].seat
    for seat in range(1, 6):
        for thought in (WHY, BELIEFS, READINGS, CHOSEN, DRAFT):
            found = read(asked, {**thought, "seat": seat})
            if seat == own:
                assert found.refused == ()
                assert found.kept[0].seat == own
            else:
                assert found.kept == ()
                assert found.sent == ()
                assert [fault.pointer for fault in found.refused] == ["/thoughts/0"]
    assert read(asked, {**WHY, "seat": None}).kept == read(asked, WHY).kept


@pytest.mark.parametrize(
    ("belief", "pointer"),
    [
        *(({"confidence": level}, None) for level in range(6)),
        *(({"confidence": level}, "/confidence") for level in (-1, 6, 7, 5.5, "5", True, None, 10**30)),
        ({"intentions": ["support_proposal"] * 10}, None),
        ({"intentions": ["support_proposal"] * 11}, "/intentions"),
        ({"intentions": ["x" * 65]}, "/intentions/0"),
        ({"snippets": ["x"] * 20}, None),
        ({"snippets": ["x"] * 21}, "/snippets"),
        ({"snippets": ["x", "x" * 4_001]}, "/snippets/1"),
        ({"reasoning": "x" * 4_000}, None),
        ({"reasoning": "x" * 4_001}, "/reasoning"),
        ({"role": "merlin"}, None),
        ({"role": "Merlin"}, "/role"),
        ({"a/b~": 1}, "/a~1b~0"),
    ],
)
def test_a_belief_keeps_within_its_bounds(
    asked: tuple[State, Request], belief: Sent, pointer: str | None
) -> None:
    about = asked[1].seat % 5 + 1
    expected = [] if pointer is None else [f"/thoughts/0/beliefs/0{pointer}"]
    assert refused(asked, {**BELIEFS, "beliefs": [{"about": about, **belief}]}) == expected


@pytest.mark.parametrize(
    ("thought", "pointer"),
    [
        ({**BELIEFS, "beliefs": [{"about": 2}] * 11}, "/beliefs"),
        ({**CHOSEN, "intentions": [{"id": "support_proposal"}] * 21}, "/intentions"),
        ({**CHOSEN, "stage": "refinement"}, "/stage"),
        ({**DRAFT, "stage": "first"}, "/stage"),
        ({**READINGS, "readings": [{"by": "seat 3", "text": ""}] * 21}, "/readings"),
        ({**READINGS, "readings": [{"by": "x" * 65, "text": ""}]}, "/readings/0/by"),
        ({"type": "readings_imagined", "readings": []}, "/reveals_role"),
        ({**WHY, "about": "think"}, "/about"),
        ({**WHY, "seat": 11}, "/seat"),
        ({**WHY, "beliefs_formed": 1}, "/beliefs_formed"),
        ({**WHY, "type": "beliefs"}, "/type"),
        ({"text": "Because."}, "/type"),
        (7, ""),
    ],
)
def test_a_faulty_thought_is_reported_with_its_place(
    asked: tuple[State, Request], thought: Any, pointer: str
) -> None:
    assert refused(asked, WHY, thought) == [f"/thoughts/1{pointer}"]


def test_as_many_parts_as_are_allowed_are_taken(asked: tuple[State, Request]) -> None:
    others = [seat for seat in range(1, 6) if seat != asked[1].seat]
    assert refused(asked, {**BELIEFS, "beliefs": [{"about": others[n % 4]} for n in range(10)]}) == []
    assert refused(asked, {**READINGS, "readings": [{"by": "x" * 64, "text": ""}] * 20}) == []


def test_thoughts_other_than_a_list_are_refused_as_a_whole(asked: tuple[State, Request]) -> None:
    found = read_thoughts(asked[1], {"0": WHY}, lambda thought, pointer: None)
    assert (found.kept, found.sent) == ((), ())
    assert [fault.pointer for fault in found.refused] == ["/thoughts"]


def test_a_selection_keeps_the_order_and_reasons_of_its_intentions(asked: tuple[State, Request]) -> None:
    ids = ["support_proposal", "convince_leader"]
    chosen = [{"id": ids[0], "reason": "Safe."}, {"id": ids[1]}]
    found = read_thoughts(asked[1], [{**CHOSEN, "intentions": chosen}], lambda thought, pointer: None)
    selection = found.kept[0]
    assert isinstance(selection, IntentionsSelected)
    assert selection.intentions == (Choice(ids[0], "Safe."), Choice(ids[1], ""))


def test_a_stored_thought_that_cannot_be_read_is_reported(asked: tuple[State, Request]) -> None:
    action = shown_action(default(asked[0].table, asked[1]))
    with pytest.raises(InvalidAction) as refusal:
        stored_action(asked[1], action, [{**BELIEFS, "beliefs": [{"about": 2, "confidence": 6}]}])
    assert refusal.value.pointer == "/beliefs/0/confidence"


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (Kind.PROPOSE_TEAM, {"team": [1, 2]}),
        (Kind.SPEAK, {"text": "Hm."}),
        (Kind.RECONSIDER, {"team": [1, 2], "text": "Hm."}),
        (Kind.VOTE, {"approve": True}),
        (Kind.CARD, {"success": True}),
        (Kind.SUMMARISE, {"answers": {"leader": "2"}}),
        (Kind.ASSASSINATE, {"target": 3}),
    ],
)
def test_thoughts_go_with_actions_of_every_kind(kind: Kind, sent: Any) -> None:
    thought = ChoiceExplained(1, kind, "why")
    assert engine_action(read_action(kind, sent), (thought,)).thoughts == (thought,)
