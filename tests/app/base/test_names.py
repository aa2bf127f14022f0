"""What a name may contain, and where it is checked."""

import re
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import select, update

from app.base.names import check_name, check_note, look_of
from app.store.tables import batches
from tests import forked
from tests.app.calling import calling, problem

GOOD = [
    *("Anna", "Player 1", "José", "Łukasz O’Neill", "ễ", "bot_1.2-x", "<b>", "🐙 Octo", "🧑🏽"),
    *("Анна", "שלום", "مرحبا", "漢字 Bot", "東京タワー", "GPT漢", "한국어", "น้ำ", "α-variant"),
]

BAD = {
    "An\u200bna": "U+200B ZERO WIDTH SPACE at character 3 is invisible",
    "\u202eannA": "U+202E RIGHT-TO-LEFT OVERRIDE at character 1 is invisible",
    "\u3164": "U+3164 HANGUL FILLER at character 1 is invisible",
    "a\U000e0041": "U+E0041 TAG LATIN CAPITAL LETTER A at character 2 is invisible",
    "a\nb": "U+000A at character 2 is a control character",
    "x\u00a0y": "U+00A0 NO-BREAK SPACE at character 2 is a space of another kind; use the common one",
    "\ue000": "U+E000 at character 1 is for private use, and looks different everywhere",
    " a": "a name has no space at its ends, and no two spaces in a row",
    "a  b": "a name has no space at its ends, and no two spaces in a row",
    "e\u0301": "write letters and their accents as one character each (Unicode NFC)",
    "\uff41": "U+FF41 FULLWIDTH LATIN SMALL LETTER A at character 1 looks like 'a'; write that",
    "\u0301x": "U+0301 COMBINING ACUTE ACCENT at character 1 has no letter of its own",
    "a\u0301\u0301\u0301\u0301": "write letters and their accents as one character each (Unicode NFC)",
    "x\u0301\u0301\u0301\u0301": "U+0301 COMBINING ACUTE ACCENT at character 5 has no letter of its own",
    "1\u0661": "a name has digits of one script only",
    "\u0410nna": "U+006E LATIN SMALL LETTER N at character 2: one word has letters of one script, not "
    "Cyrillic and Latin",
}


def test_names_of_all_languages_are_names() -> None:
    for name in GOOD:
        assert check_name(name) == name


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_be_taken_for_another_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(BAD[name])}$"):
        check_name(name)


UNKNOWN = ("\ufffe", "\uffff", "\ufdd0", "\U0001fffe", "\ue000", "\U000f0000")
"""What is no character, and what is for private use."""


def test_a_note_may_hold_all_that_can_be_seen() -> None:
    for note in ("10 µs, α=½", "❤️", "👩‍👩‍👧", "می‌خواهم", "two\nlines\t.", "", *GOOD):
        assert check_note(note) == note
    for note in (
        "a\u202eb",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\x1b[31m",
        "\r",
        "\u2028",
        "\U000e0041",
        *UNKNOWN,
    ):
        with pytest.raises(ValueError, match="at character"):
            check_note(note)


def test_names_that_look_alike_have_one_look() -> None:
    for name, other in (("Anna", "ANNA"), ("Оса", "Oca"), ("Bot l", "bot 1"), ("\u0420\u0410\u0425", "pax")):
        assert look_of(name) == look_of(other)
    assert len({look_of(f"Player {n}") for n in range(1, 11)}) == 10
    assert look_of("Anne") != look_of("Anna")


async def test_labels_that_an_earlier_release_has_taken_are_read(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, [game] = await caller.played(count=1)
        label = {"arm": "a\ufffeb"}
        problem(await caller.post("/games", json={"labels": label}), 422, "invalid-request", "/labels/arm")
        [spec] = await caller.services.database.column(select(batches.c.spec))
        changed = update(batches).values(spec={**spec, "labels": label}, labels=label)
        await caller.services.database.writer.execute(changed)
        assert (await caller.get(f"/batches/{batch}")).json()["labels"] == label
        assert (await caller.post(f"/games/{game}/invalidate", json={"reason": "x"})).status_code == 200
        anew = (await caller.post(f"/batches/{batch}/retry")).json()["anew"]
        assert [one["instead_of"] for one in anew] == [game]


async def test_seats_labels_and_reasons_are_named_visibly(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        for body, pointer in (
            ({"names": {"2": "Mer\u200blin"}}, "/names/2"),
            ({"names": {"1": "Оса", "2": "oca"}}, "/names"),
            ({"names": {"5": "PIayer 1"}}, "/names"),
            ({"names": {"1": "Seat 2", "2": "seat 1"}}, "/names/1"),
            ({"names": {"2": "Ann", "3": "player #2"}}, "/names/3"),
            ({"names": {"4": "Seat IO"}}, "/names/4"),
            ({"names": {"5": "Merlin"}}, "/names/5"),
            ({"names": {"5": "M0RGANA!"}}, "/names/5"),
            ({"names": {"5": "Loyal Servant"}}, "/names/5"),
            ({"labels": {"arm": "a\u202eb"}}, "/labels/arm"),
            ({"labels": {"\u0430rm": "a"}}, "/labels"),
        ):
            told = problem(await caller.post("/games", json=body), 422, "invalid-request")
            assert told["errors"][0]["pointer"].startswith(pointer), told
        own = {"1": "Player 1", "2": "SEAT 2", "3": "Merlin's friend", "4": "Seat 22"}
        _, [game] = await caller.create(drive="manual", labels={"α-arm": "10 µs"}, names=own)
        fork = {"after": {"request": "1.1.propose_team.1"}, "labels": {"a": "\u2066"}}
        problem(await caller.post(f"/games/{game}/fork", json=fork), 422, "invalid-request", "/labels/a")
        answer = await caller.post(f"/games/{game}/invalidate", json={"reason": "x\u200b"})
        problem(answer, 422, "invalid-request", "/reason")


def test_commands_check_names_too(tmp_path: Path) -> None:
    def said(*words: str) -> "subprocess.CompletedProcess[str]":
        return forked.run(list(words), cwd=tmp_path)

    for words, option in (
        (("keys", "create", "--name", "\u0430dmin", "--scope", "all"), "--name"),
        (("game", "invalidate", "g_1", "--reason", "a\u202eb"), "--reason"),
        (("simulate", "-n", "1", "--label", "a=\u200b"), "--label"),
    ):
        done = said(*words)
        assert done.returncode == 2
        assert f"interintent: {option}: U+" in done.stderr
