"""Statements read by a judge: what it is shown, which answers are usable, and how it stands to the rules."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from math import isnan
from typing import Any

import pytest

from engine.actions import Speak
from engine.events import (
    ActionDefaulted,
    CardPlayed,
    Event,
    RoleLearned,
    RolesDealt,
    RoundSummarised,
    UtteranceMade,
    visible,
)
from engine.rules import Request
from engine.state import State
from engine.terms import PUBLIC, Role, Side
from evaluators.ground.turns import Game, read_game
from evaluators.judges.asking import ATTEMPTS
from evaluators.judges.control_speeches import control_speeches
from evaluators.judges.rubric import STATING, statements_text
from evaluators.judges.statement_scores import (
    SpeechJudgement,
    StatementScores,
    against_rules,
    rules_and_judge,
)
from evaluators.judges.statements import MOST, Statement, Statements, judge_speech, speech_messages
from evaluators.measures.hallucination import Hallucinations, Speech, SpeechKey, speeches, statements_of
from evaluators.statistics.rates import Rate
from tests.evaluators.judges.test_model import Model
from tests.evaluators.scripted_games import scripted_game
from tests.evaluators.talk import log_by_hand

GAME = scripted_game(1)

SAID = "Quest 1 failed. We owe it to Player 2's choice of people. I trust Player 1. I led once, I think."
"""Seat 4, a villain, in round 2: the rules read the first sentence alone, and it is false."""


def _answer(game: State, request: Request) -> Any:
    return Speak(SAID) if request.id == "2.1.speak.4" else None


BY_HAND = read_game("h", log_by_hand({}, _answer))
SPEECH = next(one for one in speeches("h", BY_HAND.log) if one.text == SAID)


def said(quote: str, verdict: str = "supported", record: str = "Quest 1 with the team", **more: Any) -> Any:
    return {"quote": quote, "verdict": verdict, "record": record, "reason": "so", **more}


def judged(*entries: Any, speech: Speech = SPEECH) -> Statements:
    return asyncio.run(judge_speech(speech, Model({"statements": list(entries)})))


# --- what it is shown ----------------------------------------------------------------------------


def test_every_speech_of_the_rules_is_asked_about_and_no_two_alike() -> None:
    for game in (GAME, BY_HAND):
        found = list(speeches(game.id, game.log))
        assert [(one.text, one.findings) for one in found] == [
            (said.text, findings) for said, findings in statements_of(game.log)
        ]
        assert len({one.key for one in found}) == len(found)


def test_a_defaulted_speech_and_one_without_a_word_are_none() -> None:
    log = list(BY_HAND.log)
    place = next(p for p, event in enumerate(log) if isinstance(event, UtteranceMade) and event.text == SAID)
    before = len(list(speeches("h", log)))
    silent = [*log[:place], replace(log[place], text=" … "), *log[place + 1 :]]
    assert len(list(speeches("h", silent))) == before - 1
    assert SAID not in {one.text for one in speeches("h", silent)}
    defaulted = [*log[:place], ActionDefaulted(4, "2.1.speak.4", "deadline"), *log[place:]]
    assert len(list(speeches("h", defaulted))) == before - 1


def test_it_is_shown_the_rubric_the_public_record_and_the_speech() -> None:
    system, user = speech_messages(SPEECH)
    assert (system.role, user.role) == ("system", "user")
    assert system.content == statements_text()
    assert "Quest 1 with the team 1 2 succeeded; failure cards: 0." in user.content
    assert f"Now seat 4 says: {json.dumps(SAID)}" in user.content
    for example in STATING:
        assert example.text in system.content
        assert example.why in system.content
    assert {one.verdict for one in STATING} == {"supported", "refuted", "uncheckable", ""}


def test_nothing_later_than_the_speech_and_nothing_that_is_not_public_is_shown() -> None:
    for speech in speeches(GAME.id, GAME.log):
        place = next(
            place
            for place, event in enumerate(GAME.log)
            if isinstance(event, UtteranceMade) and (event.seat, event.text) == (speech.seat, speech.text)
        )
        cut = [event for event in GAME.log[: place + 1] if visible(event, PUBLIC)]
        alone = list(speeches(GAME.id, cut))[-1]
        assert speech_messages(alone) == speech_messages(speech)
        assert not any(role.value in line for line in speech.record for role in Role)


def test_hidden_changes_change_no_byte_of_what_a_judge_is_sent() -> None:
    roles = next(event for event in GAME.log if isinstance(event, RolesDealt))

    def twin(event: Event) -> Event:
        match event:
            case RolesDealt():
                return replace(event, roles=tuple(reversed(event.roles)), seed="another")
            case RoleLearned():
                return replace(event, sees=())
            case CardPlayed():
                return replace(event, success=not event.success)
            case RoundSummarised():
                return replace(event, answers=(("who", "a secret"),))
            case _:
                return event

    # The thoughts go altogether: whatever they are, nothing of them is sent.
    twins = [twin(event) for event in GAME.log if event.seen_by == "public" or not _is_thought(event)]
    assert twins != list(GAME.log)
    assert roles.roles != tuple(reversed(roles.roles))
    one = [speech_messages(speech) for speech in speeches("g", GAME.log)]
    assert one == [speech_messages(speech) for speech in speeches("g", twins)]
    assert len(one) > 20


def _is_thought(event: Event) -> bool:
    return not isinstance(event, RolesDealt | RoleLearned | CardPlayed | RoundSummarised)


# --- usable answers ------------------------------------------------------------------------------


def test_a_usable_answer_becomes_statements_in_the_order_of_the_speech() -> None:
    found = judged(
        said("I led once", "uncheckable", ""),
        said("owe it to Player 2’s CHOICE", "refuted", "round 1, attempt 1: seat 1 leads"),
    )
    assert found.faults == ()
    assert found.key == SpeechKey("h", "2.1.speak.4", SPEECH.key.turn)
    assert found.statements is not None
    assert [(SAID[one.start : one.end], one.verdict, one.record) for one in found.statements] == [
        ("owe it to Player 2's choice", "refuted", "Round 1, attempt 1: seat 1 leads."),
        ("I led once", "uncheckable", ""),
    ]


@pytest.mark.parametrize(
    ("record", "is_enough"),
    [
        ("attempt 1: seat", True),
        ("seat 1 leads", True),
        ("1: seat", False),
        ("seat 1", False),
        ("leads", False),
    ],
)
def test_three_words_in_a_row_are_enough_of_a_line_of_the_record(record: str, is_enough: bool) -> None:
    found = judged(said("Quest 1 failed", "refuted", record))
    assert (found.statements is not None) is is_enough
    if not is_enough:
        assert "are not 3 words or more" in found.faults[0]


def test_a_speech_that_states_nothing_is_judged_all_the_same() -> None:
    found = judged()
    assert found.statements == ()
    assert found.faults == ()


def test_words_that_stand_there_twice_may_be_two_statements_and_not_three() -> None:
    twice = replace(SPEECH, text="I led. Really, I led.")
    assert [one.start for one in judged(said("I led"), said("I led"), speech=twice).statements or ()] == [
        0,
        15,
    ]
    assert "judged twice" in judged(*[said("I led")] * 3, speech=twice).faults[0]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I will not answer.", "no JSON object"),
        ("{" * 5000, "no JSON object"),
        ({"statements": "none"}, "no JSON object"),
        ({"statements": [said("Quest 1 failed")] * (MOST + 1)}, "are the most that a speech can make"),
        ({"statements": [said("Quest 9 failed")]}, "does not stand in the speech"),
        ({"statements": [said("Quest")]}, "shorter than 2 words"),
        ({"statements": [said(3)]}, "the quote is a text, got 3"),  # type: ignore[arg-type]
        ({"statements": [said("Quest 1 failed", "wrong")]}, "supported, refuted or uncheckable"),
        ({"statements": [said("Quest 1 failed", "refuted", "")]}, "words of one of its lines"),
        ({"statements": [said("Quest 1 failed", "refuted", "Quest 1 failed with 2 fails")]}, "stand in one"),
        # Two lines make no line.
        (
            {"statements": [said("Quest 1 failed", "refuted", "failure cards: 0. Round 2, attempt 1")]},
            "stand in one line",
        ),
        # The speech itself is no evidence.
        (
            {"statements": [said("Quest 1 failed", "supported", "We owe it to Player 2's choice")]},
            "stand in one line",
        ),
        ({"statements": [said("Quest 1 failed", reason=None)]}, "the reason is a text, got null"),
    ],
)
def test_what_cannot_be_checked_is_not_used(answer: object, fault: str) -> None:
    model = Model(answer)
    found = asyncio.run(judge_speech(SPEECH, model))
    assert found.statements is None
    assert any(fault in one for one in found.faults), found.faults
    assert len(model.asked) == len(found.answers) == ATTEMPTS
    assert found.faults[0] in model.asked[1][-1].content


# --- rules and judge -----------------------------------------------------------------------------


def at(quote: str, verdict: Any = "refuted") -> Statement:
    start = SAID.index(quote)
    return Statement(start, start + len(quote), verdict, "", "so")


def test_what_rules_decided_is_theirs_and_measures_the_judge() -> None:
    owed = at("We owe it to Player 2's choice of people")
    for statements, spans in (
        ((at("Quest 1 failed"), owed), {("refuted", "refuted"): 1}),
        ((at("Quest 1 failed", "supported"), owed), {("refuted", "supported"): 1}),
        ((at("Quest 1 failed", "uncheckable"), owed), {("refuted", "silent"): 1}),
        ((owed,), {("refuted", "silent"): 1}),
    ):
        found, added = rules_and_judge(SPEECH, statements)
        assert found == spans
        assert added == (owed,)


def test_a_statement_with_one_wrong_part_is_taken_for_the_wrong_part() -> None:
    text = "Quest 1 succeeded and Player 5 was on quest 1."
    (speech,) = [
        one
        for one in speeches(
            "h", log_by_hand({}, lambda game, request: Speak(text) if request.id == "2.1.speak.4" else None)
        )
        if one.text == text
    ]
    assert Counter(finding.verdict for finding in speech.findings) == {"supported": 1, "refuted": 1}
    whole = Statement(0, len(text), "refuted", "", "")
    spans, added = rules_and_judge(speech, [whole])
    assert spans == {("refuted", "refuted"): 1, ("supported", "silent"): 1}
    assert added == ()


def test_what_the_rules_could_not_read_is_the_judges() -> None:
    (finding,) = SPEECH.findings
    unread = replace(SPEECH, findings=(replace(finding, verdict="unparsed"),))
    failed = at("Quest 1 failed")
    assert rules_and_judge(unread, (failed,)) == (Counter(), (failed,))
    # What one part refutes stays refuted, whatever is said of the same words besides.
    for verdicts in (("refuted", "supported"), ("supported", "refuted"), ("refuted", "unparsed")):
        twice = replace(SPEECH, findings=tuple(replace(finding, verdict=verdict) for verdict in verdicts))
        assert rules_and_judge(twice, (failed,))[0] == {("refuted", "refuted"): 1}


@pytest.mark.parametrize(
    ("verdict", "counted"), [("refuted", "by_judge"), ("supported", "by_judge"), ("uncheckable", "undecided")]
)
def test_a_sentence_is_decided_by_the_judge_if_he_could_check_it(verdict: str, counted: str) -> None:
    scores = StatementScores()
    owed = at("We owe it to Player 2's choice of people", verdict)
    scores.add(BY_HAND, [SpeechJudgement(SPEECH.key, (owed,), "j")])
    expected = {"all": 4, "by_rules": 1, "by_judge": 0, "neither": 3, "undecided": 0}
    expected[counted] += 1
    expected["neither"] -= counted == "by_judge"  # what nobody could decide is among them
    assert scores.sentences() == expected


def test_speeches_are_counted_by_rule_by_judge_and_together() -> None:
    scores = StatementScores()
    other = next(one for one in speeches("h", BY_HAND.log) if one.seat == 5)
    found = (
        at("Quest 1 failed"),
        at("We owe it to Player 2's choice of people"),
        at("I led once", "uncheckable"),
    )
    scores.add(
        BY_HAND,
        [
            SpeechJudgement(SPEECH.key, found, "j"),
            SpeechJudgement(other.key, (), "j"),
            SpeechJudgement(other.key._replace(game_id="another"), found, "j"),
        ],
    )
    # Two speeches were read, both of evil seats; the others of the game are left out.
    assert scores.speeches("rules") == scores.speeches("judge") == scores.speeches("together") == Rate(1, 2)
    assert scores.speeches("rules", Side.LOYAL) == Rate(0, 0)
    assert [scores.refuted(reader, Side.EVIL) for reader in ("rules", "judge", "together")] == [1, 1, 2]
    # Four sentences here, one there: one by rule, one by the judge; one that nobody can decide, and two
    # that state nothing.
    assert scores.sentences() == {"all": 5, "by_rules": 1, "by_judge": 1, "neither": 3, "undecided": 1}
    assert scores.as_json()["together"]["refuted_per_speech"] == 1.0
    assert scores.by_game == {"h": {"rules": Rate(1, 2), "judge": Rate(1, 2), "together": Rate(2, 2)}}
    assert scores.roles == (BY_HAND.role(4), BY_HAND.role(5))
    alone = Hallucinations()
    alone.add(statements_of(BY_HAND.log), BY_HAND.roles)
    assert alone.statements().num == scores.refuted("rules")


def test_a_judge_is_measured_by_what_the_rules_decided() -> None:
    # 40 both refuted, 10 the judge missed, 5 false alarms, 45 both supported, 4 + 6 passed over.
    # precision 40/45; recall 40/54; agreed 85/100; by chance ((95/200)^2 + (105/200)^2) = 0.50125;
    # kappa (0.85 - 0.50125) / (1 - 0.50125) = 0.34875 / 0.49875
    found = against_rules(
        {
            ("refuted", "refuted"): 40,
            ("refuted", "supported"): 10,
            ("supported", "refuted"): 5,
            ("supported", "supported"): 45,
            ("refuted", "silent"): 4,
            ("supported", "silent"): 6,
        }
    )
    assert (found.compared, found.silent) == (100, 10)
    assert found.precision == Rate(40, 45)
    assert found.recall == Rate(40, 54)
    assert found.kappa == pytest.approx(0.34875 / 0.49875)
    assert found.shown


def test_a_judge_that_is_not_measured_or_disagrees_is_not_shown() -> None:
    nothing = against_rules({})
    assert isnan(nothing.kappa)
    assert [one.split(",")[0] for one in nothing.lacking] == [
        "0 statements decided by the judge and by the rules",
        "the judge's kappa with the rules is undefined: both said one thing only",
    ]
    wrong = against_rules({("refuted", "supported"): 30, ("supported", "refuted"): 30})
    assert wrong.lacking == ("kappa with the rules -1.000, 0.4 is needed",)


def test_a_judge_that_repeats_the_rules_agrees_with_them() -> None:
    scores = StatementScores()
    for seed in range(2):
        game: Game = scripted_game(seed)
        words = [
            SpeechJudgement(
                speech.key,
                tuple(
                    Statement(one.start, one.end, one.verdict, one.record, "")
                    for one in speech.findings
                    if one.verdict != "unparsed"
                ),
                "echo",
            )
            for speech in speeches(game.id, game.log)
        ]
        scores.add(game, words)
    assert set(scores.spans) == {("supported", "supported")}
    assert scores.spans["supported", "supported"] > 40
    assert scores.sentences()["by_judge"] == 0


# --- planted speeches ----------------------------------------------------------------------------


def test_planted_speeches_are_half_true_and_the_rules_read_them_so() -> None:
    for seed in range(4):
        game = scripted_game(seed)
        found = list(control_speeches(game.id, game.log, 3))
        assert len(found) == 3
        assert [one.key.turn for one in found] == [-1, -2, -3]
        for speech in found:
            verdicts = Counter(finding.verdict for finding in speech.findings)
            assert verdicts["supported"] == verdicts["refuted"] == 3
            assert len(speech.sentences) == 6
            assert "Quest 1 with the team" in "".join(speech.record)
    assert list(control_speeches(GAME.id, GAME.log, 1)) == list(control_speeches(GAME.id, GAME.log, 3))[:1]
    assert list(control_speeches(GAME.id, GAME.log, 0)) == []


def test_a_game_without_a_quest_before_a_speech_has_nothing_to_plant() -> None:
    start = [event for event in GAME.log[:20] if event.seen_by == "public"]
    assert list(speeches("g", start))
    assert list(control_speeches("g", start, 5)) == []


def test_what_is_planted_measures_the_judge_and_counts_in_no_rate() -> None:
    scores = StatementScores()
    (probe,) = control_speeches(BY_HAND.id, BY_HAND.log, 1)
    right = tuple(
        Statement(one.start, one.end, one.verdict, "", "")  # type: ignore[arg-type]
        for one in probe.findings
    )
    spans, added = rules_and_judge(probe, right)
    assert spans == {("supported", "supported"): 3, ("refuted", "refuted"): 3}
    assert added == ()
    scores.add(BY_HAND, [SpeechJudgement(probe.key, right, "j", spans), SpeechJudgement(SPEECH.key, (), "j")])
    assert scores.speeches("rules") == Rate(1, 1)
    assert scores.refuted("together") == 1
    found = against_rules(scores.spans, scores.control)
    # The one statement that the rules refute in the speech was passed over.
    assert (found.compared, found.control, found.silent) == (6, 6, 1)
    assert found.recall == Rate(3, 4)
