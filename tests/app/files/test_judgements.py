"""Judgements and answers from files."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.files.judgements import UnreadableFile, read_answers, read_judgements

JUDGED = {
    "game_id": "g", "request_id": "1.1.speak.2", "stage": "final", "intention": "deceive_good",
    "reasonable": True, "rater": "large", "kind": "model",
}  # fmt: skip
FOUND = {
    "start": 0, "end": 5, "quote": "I led", "verdict": "refuted", "record": "Seat 2 leads.", "reason": "so",
}  # fmt: skip
SPOKEN = {
    "game_id": "g", "request_id": "1.1.speak.2", "turn": -1, "rater": "checker", "kind": "model",
    "statements": [FOUND], "control_speeches": {"refuted/refuted": 2, "supported/silent": 1},
}  # fmt: skip


def test_statements_of_speeches_stand_among_judgements(tmp_path: Path) -> None:
    file = tmp_path / "judgements.json"
    file.write_text(json.dumps([JUDGED, SPOKEN, {**SPOKEN, "turn": 3, "statements": []}]))
    read = read_judgements(file)
    assert [one.rater for one in read.by_game["g"]] == ["large"]
    control, plain = read.statements["g"]
    assert (control.key.turn, control.rater, control.statements[0].verdict) == (-1, "checker", "refuted")
    assert control.control == {("refuted", "refuted"): 2, ("supported", "silent"): 1}
    assert plain.statements == ()


def test_a_wrong_statement_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "judgements.json"
    file.write_text(json.dumps([SPOKEN, {**SPOKEN, "statements": [{**FOUND, "verdict": "wrong"}]}]))
    with pytest.raises(UnreadableFile, match=r":2: statements/0/verdict: .*'supported', 'refuted'"):
        read_judgements(file)


def test_a_speech_that_is_judged_twice_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "judgements.json"
    again = {**SPOKEN, "statements": [{**FOUND, "verdict": "supported"}]}
    file.write_text(json.dumps([SPOKEN, {**SPOKEN, "rater": "other"}, again]))
    verdicts = {one.rater: one.statements[0].verdict for one in read_judgements(file).statements["g"]}
    assert verdicts == {"checker": "supported", "other": "refuted"}
    assert len(read_judgements(file).statements["g"]) == 2


ITEM = "g_a/guessing/1.1.speak.2/final/3"


def _line(intention: str, **more: Any) -> dict[str, Any]:
    return {"item_id": ITEM, "rater": "me", "intentions": [intention], **more}


def _body(*answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = [{name: value for name, value in one.items() if name != "rater"} for one in answers]
    return {"dimension": "guessing", "rater": {"name": "me", "kind": "human"}, "answers": given, **more}


def _write(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_a_later_body_of_answers_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    first, second = _line("deceive_good"), _line("defend_self")
    for number, lines in enumerate(
        (
            [_body(first), _body(second)],
            [_body(first), _body(second, regrade_of="e_1")],
            [_body(first, {**first, "sample": 2}, {**first, "sample": 3}), _body(second)],
            [_body(first), _body(second, variant={"followed": True})],
            [{**first, "kind": "human"}, _body(second)],
        )
    ):
        [answered] = read_answers(_write(tmp_path / str(number), *lines))["g_a"]
        assert [guess.intentions for guess in answered.guesses] == [{"defend_self"}]


@pytest.mark.parametrize("as_body", [False, True])
def test_an_item_that_is_answered_twice_at_once_is_refused(tmp_path: Path, as_body: bool) -> None:
    twice = [_line("deceive_good"), _line("defend_self")]
    file = _write(tmp_path / "answers", *([_body(*twice)] if as_body else twice))
    with pytest.raises(
        UnreadableFile, match=rf":{1 if as_body else 2}: sample 1 of {ITEM} by me was given above"
    ):
        read_answers(file)
    # Others' answers, other samples and items that were made in another way are no repetition.
    others = [
        _line("deceive_good"),
        _line("deceive_good", sample=2),
        _line("defend_self", rater="you"),
        _line("defend_self", variant={"unmapped": "discard"}),
    ]
    assert len(read_answers(_write(file, *others))["g_a"]) == 3
