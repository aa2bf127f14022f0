"""A study's folder that several processes share."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.runner.study_folder import GameRecord, StudyFault, StudyFolder


def test_notes_that_are_written_at_the_same_time_are_all_there_and_each_once(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        for number in range(20):
            folder = StudyFolder(tmp_path)
            folder.note("look", known_by=["games"], games=f"{writer}/{number}", words="x" * 200)
            folder.note("look", known_by=["games"], games=f"all/{number}", words=str(writer))

    with ThreadPoolExecutor(6) as writers:
        list(writers.map(write, range(6)))
    found = [note["games"] for note in StudyFolder(tmp_path).notes("look")]
    each = {f"{writer}/{number}" for writer in (*range(6), "all") for number in range(20)}
    assert sorted(found) == sorted(each)


def test_a_note_that_a_kill_cut_off_is_dropped_by_the_next(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    folder.note("look", known_by=["games"], games=1)
    with (folder.store / "notes.jsonl").open("ab") as file:
        file.write(b'{"kind":"look","gam')
    assert [note["games"] for note in folder.notes("look")] == [1]
    folder.note("look", known_by=["games"], games=2)
    assert [note["games"] for note in folder.notes("look")] == [1, 2]


def test_shards_run_side_by_side_and_nothing_else_does(tmp_path: Path) -> None:
    def refused(number: int = 1, of: int = 1) -> str:
        with pytest.raises(StudyFault) as fault, StudyFolder(tmp_path).locked(number, of):
            pass
        return str(fault.value)

    with StudyFolder(tmp_path).locked(1, 3):
        with StudyFolder(tmp_path).locked(2, 3):
            assert "runs shard 2/3" in refused(2, 3)
        with StudyFolder(tmp_path).locked(2, 3):
            # Of twelve games, parts of three and parts of two would share some.
            assert "one of 3 shards, this is one of 2" in refused(2, 2)
            assert "another process runs this study" in refused()
    with StudyFolder(tmp_path).locked():
        assert "another process runs this study" in refused(1, 3)
        assert "another process runs this study" in refused()
    with StudyFolder(tmp_path).locked(2, 2), StudyFolder(tmp_path).locked(1, 2):
        pass


@pytest.mark.parametrize(
    "name", [".lock", ".run.lock", ".shard-1.lock", "gathered", "answers/c", "raters/a/g.ndjson", "."]
)
def test_a_run_writes_through_no_link_that_came_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, home = StudyFolder(Path("s")), tmp_path / "home"
    home.mkdir()
    (home / "file").write_text("mine")
    link = folder.store / name
    link.parent.mkdir(parents=True)
    link.symlink_to(home / "file" if "." in name[1:] else home)
    with pytest.raises(StudyFault, match="a link that leads out of"), folder.locked():
        pass
    with pytest.raises(StudyFault, match="a link that leads out of"):
        folder.note("look", known_by=["games"], games=1)
    assert [file.name for file in home.iterdir()] == ["file"]
    assert (home / "file").read_text() == "mine"


def test_a_lock_inside_the_folder_is_no_link_either(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    (tmp_path / "study.toml").write_text("mine")
    folder.store.mkdir()
    (folder.store / ".run.lock").symlink_to(tmp_path / "study.toml")
    with pytest.raises(StudyFault, match="cannot be locked"), folder.locked():
        pass
    assert (tmp_path / "study.toml").read_text() == "mine"


def test_no_link_waits_where_a_file_is_written(tmp_path: Path) -> None:
    mine, folder = tmp_path / "mine", StudyFolder(tmp_path / "s")
    mine.write_text("mine")
    folder.store.mkdir(parents=True)
    for name in ("frozen.json", f".frozen.json.{os.getpid()}.part"):
        (folder.path / name).symlink_to(mine)
    with pytest.raises(StudyFault, match="a link that leads out of"):
        folder.write("frozen.json", {}, at=folder.path)
    (folder.path / "frozen.json").unlink()
    folder.write("frozen.json", {}, at=folder.path)
    assert mine.read_text() == "mine"
    assert not (folder.path / "frozen.json").is_symlink()
    assert len(list(folder.path.iterdir())) == 3, "nothing is left of the writing"


WRITES: dict[str, Callable[[StudyFolder], object]] = {
    "trials": lambda folder: folder.write("m.json", {}, at=folder.store / "trials"),
    "games": lambda folder: folder.keep(GameRecord("g", "c", 1, 0, 1, None, []), b"{}\n"),
    "answers": lambda folder: folder.answers("c", "g"),
    "raters": lambda folder: folder.rater_answers("r", "g"),
    "damaged": lambda folder: folder.put_aside("c", "played"),
}
"""By a directory of the store, what writes there."""


@pytest.mark.parametrize("name", WRITES)
def test_whatever_writes_writes_through_no_link(tmp_path: Path, name: str) -> None:
    folder, home = StudyFolder(tmp_path / "s"), tmp_path / "home"
    home.mkdir()
    folder.keep(GameRecord("played", "c", 1, 0, 1, None, []), b"{}\n")
    if name == "games":
        (folder.store / "games").rename(tmp_path / "games")
    (folder.store / name).symlink_to(home)
    with pytest.raises(StudyFault, match="a link that leads out of"):
        WRITES[name](folder)
    assert not list(home.iterdir())


def test_nothing_is_taken_from_behind_the_links_of_another_folder(tmp_path: Path) -> None:
    mine, other, secret = StudyFolder(tmp_path / "mine"), StudyFolder(tmp_path / "other"), tmp_path / "key"
    secret.write_text("secret")
    (other.store / "answers" / "c").mkdir(parents=True)
    (other.store / "answers" / "c" / "g.ndjson").symlink_to(secret)
    with pytest.raises(StudyFault, match="a link that leads out of"):
        mine.take(other)
    assert not mine.store.exists()
