"""The model judge: what it is shown, which answers are usable, and that asking ends."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from engine.intentions import BY_ID
from evaluators.ground.items import Item, Variant, items
from evaluators.judges.asking import JudgeMessage
from evaluators.judges.model import ATTEMPTS, Verdict, answer_schema, judge, messages
from evaluators.judges.rubric import FOLLOWING, SELECTION, SPEAKING, THINKING, following_text, selection_text
from evaluators.statistics.agreement import ratings_of
from tests.evaluators.scripted_games import scripted_game

FOLLOWED = list(items(scripted_game(1), "following"))
SELECTED = list(items(scripted_game(1), "selection"))
ITEM = FOLLOWED[7]
CHOICE = SELECTED[7]


def part(text: str, score: int = 4, quote: str | None = None) -> dict[str, Any]:
    return {"score": score, "quote": text[:40].rsplit(" ", 1)[0] if quote is None else quote, "reason": "so"}


def following(item: Item = ITEM, **change: Any) -> dict[str, Any]:
    return {
        "judgements": [
            {"intention": one.id, "think": part(item.think), "speak": part(item.speech, 5), **change}
            for one in item.asked
        ]
    }


def selection(item: Item = CHOICE, **change: Any) -> dict[str, Any]:
    return {
        "judgements": [
            {"intention": one.id, "reasonable": True, "quote": "Round 1, attempt 1", "reason": "so", **change}
            for one in item.asked
        ]
    }


class Model:
    """Gives its answers one after the other, the last one for ever, and keeps what it was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = [one if isinstance(one, str) else json.dumps(one) for one in answers]
        self.asked: list[Sequence[JudgeMessage]] = []

    async def __call__(self, conversation: Sequence[JudgeMessage]) -> str:
        self.asked.append(conversation)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def judged(item: Item, model: Model, **options: Any) -> Verdict:
    return asyncio.run(judge(item, model, "judge m1", **options))


# --- what it is shown ----------------------------------------------------------------------------


def test_it_is_shown_rubric_situation_texts_and_what_was_chosen() -> None:
    system, user = messages(ITEM)
    assert (system.role, user.role) == ("system", "user")
    assert system.content == following_text()
    assert ITEM.context.text in user.content
    assert json.dumps(ITEM.speech, ensure_ascii=False) in user.content
    assert json.dumps(ITEM.think, ensure_ascii=False) in user.content
    for one in ITEM.asked:
        assert f"- {one.id}: {BY_ID[one.id].label}" in user.content


def test_a_selection_is_judged_before_it_was_acted_on() -> None:
    system, user = messages(CHOICE)
    assert system.content == selection_text()
    spoken = next(one for one in FOLLOWED if one.request_id == CHOICE.request_id)
    assert spoken.speech not in user.content
    assert "Its speech" not in user.content


def test_only_what_has_no_gold_is_judged() -> None:
    guess = next(items(scripted_game(1), "guessing", Variant()))
    with pytest.raises(ValueError, match="is guessing"):
        messages(guess)


def test_the_rubric_has_an_example_of_each_score() -> None:
    for examples in (THINKING, SPEAKING):
        assert sorted(one.score for one in examples) == [1, 2, 3, 4, 5]
        assert len({one.intention for one in examples}) == 1
    assert {one.score for one in SELECTION} == {0, 1}
    for one in (*THINKING, *SPEAKING, *SELECTION):
        assert one.intention in BY_ID
        assert one.text in (selection_text() if one in SELECTION else following_text())
    assert all(f"\n{score}  " in FOLLOWING for score in range(1, 6))


def test_a_rubric_says_whom_the_situation_calls_you() -> None:
    for item in (ITEM, CHOICE):
        rubric, user = messages(item)
        assert f"You are seat {item.speaker}." in user.content
        assert '"you" in it is the seat that you judge, and not yourself.' in " ".join(rubric.content.split())
        assert "The examples are from another game" in rubric.content


def test_an_example_gives_its_reason_before_its_score() -> None:
    for one in (*THINKING, *SPEAKING):
        assert f'"{one.text}" {one.why} So: {one.score}.\n' in f"{following_text()}\n"
    for one in SELECTION:
        verdict = "reasonable" if one.score else "unreasonable"
        assert f"{one.text} {one.why} So: {verdict}." in selection_text()


# --- usable answers ------------------------------------------------------------------------------


def test_a_usable_answer_becomes_judgements_with_evidence() -> None:
    model = Model(following())
    found = judged(ITEM, model)
    assert len(model.asked) == 1
    assert [one.intention for one in found.judgements] == [one.id for one in ITEM.asked]
    assert {(one.reasonable, one.think, one.speak, one.rater) for one in found.judgements} == {
        (None, 4, 5, "judge m1")
    }
    assert {one.key for one in found.judgements} == {(ITEM.game_id, ITEM.request_id, ITEM.stage)}
    assert [one.of for one in found.evidence] == ["think", "speak"] * len(ITEM.asked)
    assert found.faults == ()
    assert set(ratings_of(found.judgements, "think")) == {"judge m1"}


def test_a_selection_becomes_reasonable_or_not() -> None:
    found = judged(CHOICE, Model(selection(reasonable=False)))
    assert {(one.reasonable, one.think, one.speak) for one in found.judgements} == {(False, None, None)}
    assert {one.of for one in found.evidence} == {"selection"}
    # The seat's own reason is part of the situation.
    assert judged(CHOICE, Model(selection(quote=CHOICE.asked[0].reason))).faults == ()


@pytest.mark.parametrize("wrap", ["```json\n{}\n```", "Here you are: {} That is all.", "{}"])
def test_words_and_fences_round_the_answer_do_no_harm(wrap: str) -> None:
    assert judged(ITEM, Model(wrap.replace("{}", json.dumps(following())))).faults == ()


def test_a_quote_may_differ_in_case_punctuation_and_white_space() -> None:
    loud = " ".join(ITEM.speech.upper().replace(",", " ,").split()[:6])
    assert judged(ITEM, Model(following(speak=part("", 4, f"“{loud}…”")))).faults == ()


def test_nothing_needs_to_be_quoted_for_what_is_absent() -> None:
    assert judged(ITEM, Model(following(speak=part("", 1, "")))).faults == ()
    assert judged(ITEM, Model(following(speak=part("", 2, "")))).faults != ()


# --- unusable answers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I will not answer.", "no JSON object"),
        ("{" * 5000, "no JSON object"),
        ([], "no JSON object"),
        ({"judgements": "none"}, "no JSON object"),
        ({"judgements": []}, "is not judged"),
        ({"judgements": following()["judgements"] * 2}, "is judged twice"),
        (following(intention="made_up"), '"made_up" was not asked about'),
        (following(think=None), "think is an object"),
        (following(think=part(ITEM.think, 6)), "the score of think is 1 to 5, got 6"),
        (following(think={**part(ITEM.think), "score": True}), "got true"),
        (following(think={**part(ITEM.think), "score": "4"}), 'got "4"'),
        (
            following(speak=part("", 4, "words that nobody ever said here")),
            "does not stand in the text of speak",
        ),
        (following(speak=part(ITEM.think)), "does not stand in the text of speak"),
        (following(speak=part("", 4, ITEM.speech.split()[0])), "shorter than 3 words"),
        (following(speak={**part(ITEM.speech), "reason": None}), "the reason is a text, got null"),
        (following(speak={**part(ITEM.speech), "quote": 3}), "the quote is a text, got 3"),
    ],
)
def test_what_cannot_be_checked_is_not_used(answer: object, fault: str) -> None:
    model = Model(answer)
    found = judged(ITEM, model)
    assert found.judgements == ()
    assert found.evidence == ()
    assert any(fault in one for one in found.faults), found.faults
    assert len(model.asked) == len(found.answers) == ATTEMPTS


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"reasonable": "yes"}, 'true or false, got "yes"'),
        ({"quote": ""}, "the quote is empty"),
        ({"quote": "Quest 5 failed, and everybody knows it"}, "does not stand in the situation"),
    ],
)
def test_a_selection_that_cannot_be_checked_is_not_used(change: dict[str, Any], fault: str) -> None:
    found = judged(CHOICE, Model(selection(**change)))
    assert any(fault in one for one in found.faults), found.faults


def test_an_unusable_answer_is_shown_with_its_faults_and_asked_for_again() -> None:
    model = Model("nonsense", following())
    found = judged(ITEM, model)
    assert found.judgements
    assert found.answers == ("nonsense", model.answers[1])
    *first, shown, complaint = model.asked[1]
    assert first == list(model.asked[0])
    assert (shown.role, shown.content, complaint.role) == ("assistant", "nonsense", "user")
    assert "no JSON object" in complaint.content


def test_asking_is_bounded() -> None:
    model = Model("nonsense")
    assert judged(ITEM, model, attempts=1).faults
    assert len(model.asked) == 1
    with pytest.raises(ValueError, match="at least once, got 0"):
        judged(ITEM, model, attempts=0)


def test_what_the_model_raises_goes_through() -> None:
    async def broken(conversation: Sequence[JudgeMessage]) -> str:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(judge(ITEM, broken, "judge"))


@pytest.mark.parametrize("item", [ITEM, CHOICE], ids=["following", "selection"])
def test_a_server_that_keeps_to_the_schema_writes_the_evidence_before_the_verdict(item: Item) -> None:
    entry = answer_schema(item)["properties"]["judgements"]["items"]["properties"]
    part = entry.get("speak", {}).get("properties", entry)
    names = [name for name in part if name != "intention"]
    assert names == ["quote", "reason", "score" if item is ITEM else "reasonable"]
