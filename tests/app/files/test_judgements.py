"""Judgements from files."""

import json
from pathlib import Path

import pytest

from app.files.judgements import UnreadableFile, read_judgements

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
