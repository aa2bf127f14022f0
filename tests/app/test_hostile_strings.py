"""Hostile text in every field comes back as sent or is refused with its place."""

import json
from pathlib import Path

import pytest

from app.base import json_reader
from tests.app.hostile_strings import Texts, hostile, is_sound
from tests.app.store.test_store import NOTES

FIELDS = {
    *("answer", "belief", "comment", "draft", "explanation", "idempotency key", "key name", "label", "name"),
    *("reading", "reason", "record", "snippet", "summary", "utterance"),
}


async def test_hostile_text_comes_back_as_it_was_sent_or_is_refused(database_url: str) -> None:
    found = await hostile(database_url, 2000, seed=1)
    assert found["wrong"] == []
    assert found["strings"] >= 2000
    assert found["kept"].keys() == FIELDS
    assert found["refused"].keys() >= {
        "answer",
        "comment",
        "label",
        "name",
        "record",
        "summary",
        "thought",
        "utterance",
    }


async def test_a_reader_that_lets_every_text_in_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_reader, "_read_slowly", lambda body, *_: json.loads(body))
    monkeypatch.setattr(json_reader, "_check_texts", lambda *_: None)
    found = await hostile(f"sqlite:///{tmp_path / 'games.sqlite'}", 1200, seed=2)
    assert len(found["wrong"]) >= 2


def test_texts_are_sound_and_unsound_as_they_should_be() -> None:
    texts = Texts(1)
    assert all(is_sound(texts.sound(40, 1), 1, 40) for _ in range(300))
    assert not any(is_sound(texts.unsound(40, 1), 1, 40) for _ in range(300))
    assert all(is_sound(one, 0, 10_000) for one in NOTES)
    drawn = {texts.any(60) for _ in range(2000)}
    assert len(drawn) > 1200
    told = "".join(drawn)
    for piece in ("\0", "'; DROP TABLE games; --", "$.a", "\u202e", "\ud800"):
        assert piece in told
