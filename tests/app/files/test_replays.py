"""One reader for every form in which records and logs come."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from app.files import replays
from app.files.games import bundles, games_in
from app.files.replays import Document, FileFault, PassedOver, Replayed, documents, replayed
from evaluators.ground.turns import Game
from tests.records import load

RECORDS = [load(name) for name in ("forced-team", "ten-players", "quest-fails")]
NAMES = [str(record["id"]) for record in RECORDS]
LINES = b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in RECORDS)
LIST = json.dumps(RECORDS, ensure_ascii=False).encode()
PRETTY = json.dumps(RECORDS, indent=2).encode()


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)
    return packed.getvalue()


def tarred(mode: str, **members: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return packed.getvalue()


FORMS = {
    "lines.ndjson": LINES,
    "lines.jsonl": LINES,
    "lines without an ending": LINES,
    "windows.ndjson": LINES.replace(b"\n", b"\r\n"),
    "list.json": LIST,
    "list.ndjson": LIST,
    "pretty.json": PRETTY,
    "pretty.ndjson": b"\n\n" + PRETTY,
    "lines.ndjson.gz": gzip.compress(LINES),
    "list.json.gz": gzip.compress(LIST),
    "members.ndjson.gz": gzip.compress(LINES[:100]) + gzip.compress(LINES[100:]),
    "packed under another name": gzip.compress(LINES),
    "games.zip": zipped(a_json=LIST, b_txt=b"no"),
    "lines.zip": zipped(a_ndjson=LINES),
    "games.tar.gz": tarred("w:gz", a_ndjson=LINES),
    "games.tgz": tarred("w:gz", a_json=LIST),
    "games.tar": tarred("w", a_json=PRETTY),
    "utf-8-mark.ndjson": b"\xef\xbb\xbf" + LINES,
    "utf-8-mark.json": b"\xef\xbb\xbf" + LIST,
    "utf-16.ndjson": LINES.decode().encode("utf-16"),
    "utf-16-be.json": b"\xfe\xff" + PRETTY.decode().encode("utf-16-be"),
    "utf-32.json": LIST.decode().encode("utf-32"),
    "utf-16.ndjson.gz": gzip.compress(LINES.decode().encode("utf-16")),
}


def read(path: Path) -> list[Replayed | FileFault | PassedOver]:
    return [one if isinstance(one, FileFault) else replayed(one) for one in documents([str(path)])]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_records(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FORMS[name])
    assert [getattr(one, "id", one) for one in read(path)] == NAMES
    # And for those who measure: report, items, compare.
    found = [game for bundle in bundles([str(path)], lambda _: None) for game in games_in(bundle)]
    assert [game.id for game in found if isinstance(game, Game)] == NAMES


def test_one_broken_record_of_a_list_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([RECORDS[0], {"schema": "avalon-replay/1"}, RECORDS[1]]))
    first, broken, last = read(path)
    assert isinstance(first, Replayed)
    assert isinstance(broken, FileFault)
    assert str(broken.place) == f"{path}[2]"
    assert isinstance(last, Replayed)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cut.json", LIST[: len(LIST) // 2]),
        ("cut.json.gz", gzip.compress(LINES)[:-20]),
        ("cut.zip", FORMS["games.zip"][:-30]),
        ("more.json", LIST + b" []"),
        ("odd.ndjson", LINES.decode().encode("utf-16")[:-1]),
        ("list.zip", b"PK\x03\x04" + b"x" * 300),
        ("wrong.json", b"[{]"),
    ],
)
def test_a_damaged_file_is_a_fault_behind_what_could_be_read(name: str, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    found = read(path)
    assert isinstance(found[-1], FileFault)
    assert str(path) in str(found[-1].place)


def test_a_member_that_is_damaged_or_has_no_name_hides_no_other(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("x", "{}")
        archive.writestr("lzma.json", LIST, zipfile.ZIP_LZMA)
        archive.writestr("bzip.json", LIST, zipfile.ZIP_BZIP2)
        archive.writestr("good.json", LIST)
        starts = {member.filename: member.header_offset + 30 for member in archive.infolist()}
    altered = bytearray(packed.getvalue())
    for name in ("lzma.json", "bzip.json"):
        data = starts[name] + len(name) + 12
        altered[data : data + 8] = b"\xff" * 8
    # The first member's name of one byte becomes a field of one byte that no reader knows.
    first = altered.index(b"PK\x01\x02")
    altered[first + 28], altered[first + 30] = 0, 1
    path = tmp_path / "games.zip"
    path.write_bytes(altered)
    lzma, bzip, *others = read(path)
    for fault, name in ((lzma, "lzma.json"), (bzip, "bzip.json")):
        assert isinstance(fault, FileFault)
        assert (fault.place.member, fault.expected) == (name, "a member that can be unpacked")
    assert [getattr(one, "id", one) for one in others] == NAMES


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "bomb.json.gz": gzip.compress,
    "bomb.zip": lambda text: zipped(a_json=text),
    "bomb.tar.gz": lambda text: tarred("w:gz", a_json=text),
    "bomb.ndjson.gz": gzip.compress,
    "list.json.gz": lambda text: gzip.compress(b'[{"a": "' + text),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_not_unpacked(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MAX_DOCUMENT", 1 << 20)
    path = tmp_path / name
    path.write_bytes(BOMBS[name](b" " * 3 + b"x" * (20 << 20)))
    found = list(documents([str(path)]))
    assert [one.rule for one in found if isinstance(one, FileFault)] == ["size"]
    assert not [one for one in found if isinstance(one, Document)]


def test_an_archive_that_is_cut_short_is_one_fault(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "records" / "forced-team.json").read_bytes()
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    cut = tmp_path / "cut.tgz"
    for left_out in (4, 30, 200):
        cut.write_bytes(held.getvalue()[:-left_out])
        faults = [found for found in documents([str(cut)]) if isinstance(found, FileFault)]
        assert [fault.rule for fault in faults] == ["reading"], left_out
